"""Agent programs that a person describes: what is taken, what is refused, and how their words are understood."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.errors import Invalid
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.harness.base import Failure, Heard, McpServer, Trouble, Wish
from batonpass.worker.harness.declared import REPORT_BYTES_MAX, Declared, declared

PI = {
    "command": "pi",
    "args": ["--mode", "json", "-p", "--model", "{model}"],
    "label": "Pi",
    "report": {"from": "agent_end", "text": "messages.-1.content.0.text"},
    "session": {"from": "session", "text": "id"},
    "failure": {"from": "auto_retry_end", "text": "finalError"},
}


def wish(**wanted: object) -> Wish:
    given: dict[str, object] = {
        "program": Path("/opt/pi"),
        "cwd": Path("/trees/a {model} b"),
        "folder": Path("/runs/1"),
        "session": "0000",
    }
    return Wish(**(given | wanted))  # type: ignore[arg-type]  # the fields a test names


def spoken(harness: Declared, *events: object) -> Heard:
    reader = harness.reader()
    for event in events:
        reader.line(event if isinstance(event, bytes) else json.dumps(event).encode())
    return reader.heard()


def test_the_arguments_name_directory_report_and_model() -> None:
    harness = declared("mine", {"command": "x", "args": ["-C", "{cwd}", "--to={report}", "{model}"], "report": "file"})

    command = harness.command(wish(model="{cwd}"))

    assert command.argv == ("/opt/pi", "-C", "/trees/a {model} b", "--to=/runs/1/report.txt", "{cwd}")
    assert command.final_message == Path("/runs/1/report.txt")


def test_without_a_model_the_arguments_about_it_are_left_out() -> None:
    args = ["run", "--model", "{model}", "--name={model}", "{json: 1}", "-"]

    assert declared("mine", {"command": "x", "args": args}).command(wish()).argv == ("/opt/pi", "run", "{json: 1}", "-")


def test_read_only_adds_the_arguments_that_were_said_to_make_it_so() -> None:
    harness = declared("mine", {"command": "x", "args": ["go"], "readOnly": ["--plan"]})

    assert harness.command(wish(read_only=True)).argv[1:] == ("go", "--plan")
    assert harness.command(wish()).argv[1:] == ("go",)


@pytest.mark.parametrize(
    "more, wanted, named",
    [
        ({"posture": "attended"}, {}, "posture"),
        ({}, {"model": "m"}, "{model}"),
        ({}, {"read_only": True}, "readOnly"),
        ({}, {"mcp": (McpServer("s", ("s",)),)}, "tool servers"),
        ({}, {"resume": "1"}, "session"),
    ],
)
def test_what_a_program_was_not_described_to_do_is_refused(
    more: dict[str, object], wanted: dict[str, object], named: str
) -> None:
    with pytest.raises(LaunchRefused, match=named):
        declared("mine", {"command": "x"} | more).command(wish(**wanted))


@pytest.mark.parametrize(
    "description, field",
    [
        ([], ""),
        ({}, ".command"),
        ({"command": ""}, ".command"),
        ({"command": "a\0b"}, ".command"),
        ({"command": 7}, ".command"),
        ({"command": "x", "args": "-v"}, ".args"),
        ({"command": "x", "args": ["-v", 1]}, ".args[1]"),
        ({"command": "x", "args": ["-v"] * 201}, ".args"),
        ({"command": "x", "label": ""}, ".label"),
        ({"command": "x", "report": "stdout"}, ".report"),
        ({"command": "x", "report": "file"}, ".report"),
        ({"command": "x", "args": ["{report}"]}, ".report"),
        ({"command": "x", "report": {"from": "result"}}, ".report"),
        ({"command": "x", "report": {"from": "result", "text": "a..b"}}, ".report.text"),
        ({"command": "x", "report": {"from": 1, "text": "a"}}, ".report.from"),
        ({"command": "x", "session": "id"}, ".session"),
        ({"command": "x", "failure": None}, ".failure"),
        ({"command": "x", "posture": "yolo"}, ".posture"),
        ({"command": "x", "readOnly": "--plan"}, ".readOnly"),
        ({"command": "x", "cmd": "x"}, ".cmd"),
    ],
)
def test_a_wrong_description_is_refused_and_the_field_is_named(description: object, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        declared("mine", description)

    assert refused.value.field == f"dispatch.harness.mine{field}"
    assert f"dispatch.harness.mine{field}" in refused.value.message


@pytest.mark.parametrize("name", ["", "Mine", "../x", "a" * 65, "-a"])
def test_a_harness_has_a_name_that_is_one(name: str) -> None:
    with pytest.raises(Invalid):
        declared(name, {"command": "x"})


def test_plain_text_is_the_report_and_its_beginning_is_kept() -> None:
    heard = spoken(declared("mine", {"command": "x"}), b"", b"DECLINED: too large", b"y" * REPORT_BYTES_MAX, b"end")

    assert heard.final_text is not None
    assert heard.final_text.startswith("DECLINED: too large\nyyy")
    assert len(heard.final_text) <= REPORT_BYTES_MAX
    assert heard.progress == 4


def test_what_a_program_prints_is_no_report_where_it_writes_one() -> None:
    harness = declared("mine", {"command": "x", "args": ["{report}"], "report": "file"})

    assert spoken(harness, b"working").final_text is None


def test_report_session_and_failure_stand_where_they_were_said_to_stand() -> None:
    end = {"type": "agent_end", "messages": [{"content": []}, {"content": [{"text": "Done: \ud83d it"}]}]}

    heard = spoken(
        declared("pi", PI), {"type": "session", "id": "s-1"}, b"noise", {"type": "text", "text": "no"}, end, b"\xff{"
    )

    assert heard == Heard(session_id="s-1", final_text="Done: \ufffd it", steps=3, progress=3)


def test_a_failure_that_was_overcome_is_none() -> None:
    failed = {"type": "auto_retry_end", "finalError": "503 overloaded"}
    end = {"type": "agent_end", "messages": [{"content": [{"text": "Done."}]}]}
    harness = declared("pi", PI)

    assert spoken(harness, failed, end).failure is None
    assert harness.judge(spoken(harness, end, failed), code=0, signal=None, stderr=b"") == Failure(
        Trouble.OVERLOADED, "503 overloaded"
    )


def test_the_words_of_a_model_are_no_failure() -> None:
    end = {"type": "agent_end", "messages": [{"content": [{"text": "rate limit 429, usage limit reached"}]}]}
    harness = declared("pi", PI)

    assert harness.judge(spoken(harness, end), code=0, signal=None, stderr=b"rate limit") is None


def test_how_a_program_ended_counts_where_it_said_nothing() -> None:
    harness = declared("mine", {"command": "x", "label": "Mine"})

    failed = harness.judge(Heard(), code=3, signal=None, stderr=b"warning\nError: 429 Too Many Requests\n")
    killed = harness.judge(Heard(), code=None, signal="SIGKILL", stderr=b"")

    assert failed is not None
    assert killed is not None
    assert (failed.trouble, killed.trouble) == (Trouble.RATE_LIMIT, Trouble.OTHER)
    assert "Mine ended with exit code 3" in failed.message
    assert "429 Too Many Requests" in failed.message
    assert "Mine was ended by SIGKILL" in killed.message
    assert harness.judge(Heard(), code=0, signal=None, stderr=b"429 Too Many Requests") is None


@given(st.lists(st.binary(max_size=40)), st.booleans())
def test_no_line_can_raise(lines: list[bytes], is_cut: bool) -> None:  # noqa: FBT001
    for harness in (declared("pi", PI), declared("mine", {"command": "x"})):
        reader = harness.reader()
        for line in lines:
            reader.line(line, is_cut=is_cut)

        assert reader.heard().failure is None
