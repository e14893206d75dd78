"""How each program is started, and what no line of its output can do to us."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.worker.errors import LaunchRefused
from batonpass.worker.harness import registry
from batonpass.worker.harness.base import Command, Heard, McpServer, Trouble, Wish
from batonpass.worker.harness.stream import LINE_BYTES_MAX, Splitter

STREAMS: Final = Path(__file__).parent / "streams"
HARNESSES: Final = ("claude-code", "codex", "opencode", "copilot", "gemini")
RECORDED: Final = sorted(STREAMS.glob("*.jsonl"))
OK: Final = {harness: (STREAMS / f"{harness}-ok.jsonl").read_bytes() for harness in HARNESSES}
DONE: Final = "DONE: wrote out.txt and committed it."
SESSION: Final = "7d1f2c1e-0000-4000-8000-000000000001"
SERVER: Final = McpServer("graph", ("/usr/bin/serve", "--say", 'a "b"'), {"SERVER_KEY": "secret-of-the-server"})
SPOKEN: Final = "fixed rate limit handling, see a.py:418-429; usage limit reached, 401 unauthorized: the test passes"
"""What an agent may well report, and what says nothing of its own run."""


def wish(*, read_only: bool = False, model: str | None = None, resume: str | None = None, mcp: bool = False) -> Wish:
    return Wish(
        program=Path("/bin/agent"),
        cwd=Path("/w/my tree"),
        folder=Path("/r/run"),
        session=SESSION,
        model=model,
        read_only=read_only,
        resume=resume,
        mcp=(SERVER,) if mcp else (),
    )


def start(harness: str, wanted: Wish) -> Command:
    return registry.harness(harness).command(wanted)


def hear(harness: str, data: bytes, *, pieces: list[bytes] | None = None) -> Heard:
    reader, splitter = registry.harness(harness).reader(), Splitter()
    for piece in pieces or [data]:
        for line in splitter.feed(piece):
            reader.line(line.data, is_cut=line.is_cut)
    if (last := splitter.unfinished()) is not None:
        reader.line(last.data, is_cut=last.is_cut)
    return reader.heard()


ARGUMENTS: Final = {
    "claude-code": "-p --output-format stream-json --verbose --dangerously-skip-permissions --model m --session-id S",
    "codex": (
        "exec --json --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m m"
        " -c analytics.enabled=false -c check_for_update_on_startup=false -c allow_login_shell=false -C W -"
    ),
    "opencode": "run --format json --dir W --auto -m m --title batonpass",
    "copilot": (
        "-C W --output-format json --stream off --no-color --allow-all --no-ask-user --no-auto-update"
        " --disable-client-telemetry --disable-builtin-mcps --usage-output-file /r/run/copilot-usage.json"
        " --model m --session-id S"
    ),
    "gemini": "--output-format stream-json --yolo --skip-trust -m m --session-id S",
}


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_program_is_started_as_it_was_tried(harness: str) -> None:
    program, *arguments = start(harness, wish(model="m")).argv
    places = {"W": "/w/my tree", "S": SESSION}

    assert program == "/bin/agent"
    assert arguments == [places.get(each, each) for each in ARGUMENTS[harness].split()]


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_run_that_may_only_look_is_not_let_loose(harness: str) -> None:
    looking = start(harness, wish(read_only=True))
    said = (*looking.argv, *(value or "" for value in looking.environment.values()))
    kept_back = {
        "claude-code": ("plan", "Bash,Edit,Write,NotebookEdit"),
        "codex": ('sandbox_mode="read-only"', 'approval_policy="never"'),
        "opencode": ("plan", json.dumps({"edit": "deny", "bash": "deny"})),
        "copilot": ("--deny-tool=write", "--deny-tool=shell"),
        "gemini": ("--approval-mode", "plan"),
    }

    assert set(kept_back[harness]) <= set(said)
    assert not [each for each in looking.argv if each.startswith("--dangerously") or each == "--yolo"]


@pytest.mark.parametrize("harness", HARNESSES)
def test_a_session_is_gone_on_with_and_none_is_begun(harness: str) -> None:
    resumed = start(harness, wish(resume="old-session"))

    assert any(each in ("old-session", "--resume=old-session") for each in resumed.argv)
    assert SESSION not in resumed.argv
    assert resumed.session_id == "old-session"


@pytest.mark.parametrize("harness", HARNESSES)
def test_what_a_tool_server_is_told_is_in_no_argument(harness: str) -> None:
    told = start(harness, wish(mcp=True))
    environment = "".join(value or "" for value in told.environment.values())
    files = b"".join(told.files.values()).decode()

    assert not [each for each in told.argv if "secret-of-the-server" in each]
    assert "secret-of-the-server" in files + environment
    assert "/usr/bin/serve" in files + "".join(told.argv)
    assert all(path.is_relative_to("/r/run") for path in told.files)


def test_what_a_program_can_not_be_told_is_refused() -> None:
    with pytest.raises(LaunchRefused, match="go on with a session"):
        start("gemini", wish(mcp=True, resume="old"))
    for name in ("a b", "a.b", 'a"'):
        odd = Wish(
            program=Path("/p"), cwd=Path("/w"), folder=Path("/r"), session=SESSION, mcp=(McpServer(name, ("x",)),)
        )
        with pytest.raises(LaunchRefused, match="tool server"):
            start("codex", odd)


@given(path=st.sampled_from(RECORDED), places=st.lists(st.integers(0, 10**9), max_size=30))
def test_the_pieces_that_output_arrives_in_change_nothing_that_is_heard(path: Path, places: list[int]) -> None:
    data, harness = path.read_bytes(), path.stem.rpartition("-")[0]
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    pieces = [data[a:b] for a, b in zip(ends, ends[1:], strict=False)]  # noqa: RUF007

    assert hear(harness, data, pieces=pieces) == hear(harness, data)


KEYS: Final = st.sampled_from(
    (
        "type",
        "subtype",
        "item",
        "message",
        "content",
        "part",
        "data",
        "error",
        "result",
        "usage",
        "tokens",
        "text",
        "role",
    )
)
KINDS: Final = st.sampled_from(
    (
        "assistant",
        "system",
        "user",
        "item.completed",
        "item.started",
        "message",
        "step_start",
        "tool_use",
        "tool_result",
    )
)
ODD: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | KINDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    harness=st.sampled_from(HARNESSES),
    lines=st.lists(st.binary(max_size=40) | ODD.map(lambda v: json.dumps(v).encode())),
)
def test_no_line_raises_or_is_taken_for_a_failure(harness: str, lines: list[bytes]) -> None:
    garbled = [line for line in lines if b'"error"' not in line and b'"result"' not in line]
    heard = hear(harness, b"\n".join(lines))

    assert heard.steps >= 0
    assert hear(harness, b"\n".join(garbled)).failure is None


@given(harness=st.sampled_from(HARNESSES), seed=st.integers(), garbage=st.binary(min_size=1, max_size=60))
def test_lines_that_are_no_events_change_nothing_that_is_heard(harness: str, seed: int, garbage: bytes) -> None:
    lines = OK[harness].split(b"\n")
    odd = [line for line in garbage.split(b"\n") if not line.lstrip().startswith(b"{")]
    for line in [*odd, b"{not json", b"[1]", b"null", b'"text"', b"\0\0", "{\u2028".encode(), b"\xf0\x9f"]:
        lines.insert(random.Random(seed).randrange(len(lines)), line)  # noqa: S311

    assert hear(harness, b"\n".join(lines)) == hear(harness, OK[harness])


@pytest.mark.parametrize("harness", HARNESSES)
@pytest.mark.parametrize(
    "said, expected",
    [
        (SPOKEN, SPOKEN),
        ("a\u2028b\x85c\0d", "a\u2028b\x85c\0d"),
        ("half \ud83d of one", "half \ufffd of one"),
        ("x" * 2_000_000, "x" * 2_000_000),
    ],
    ids=["429", "U+2028 and NUL", "lone surrogate", "2 MB"],
)
def test_whatever_an_agent_reports_is_its_report_and_no_failure(harness: str, said: str, expected: str) -> None:
    data = OK[harness].replace(json.dumps(DONE).encode(), json.dumps(said).encode())
    adapter, heard = registry.harness(harness), hear(harness, data)

    assert heard.final_text == expected
    assert adapter.judge(heard, code=0, signal=None, stderr=SPOKEN.encode()) is None


@pytest.mark.parametrize("harness", HARNESSES)
def test_broken_utf_8_in_a_report_is_replaced_and_what_follows_is_heard(harness: str) -> None:
    heard = hear(harness, OK[harness].replace(b"DONE: wrote", b"DONE: \xf0\x9f\x98 wrote"))

    assert heard.final_text == DONE.replace("DONE:", "DONE: \ufffd")
    assert heard.is_over


@pytest.mark.parametrize("harness", HARNESSES)
def test_of_a_report_of_60_mb_the_head_is_kept_and_the_run_is_over(harness: str) -> None:
    said = json.dumps("x" * 60_000_000).encode()
    data = OK[harness].replace(json.dumps(DONE).encode(), said)
    begun = time.process_time()
    heard = hear(harness, data)
    text = heard.final_text or ""

    assert time.process_time() - begun < 10
    assert set(text) == {"x"}
    assert LINE_BYTES_MAX - 10_000 < len(text) <= LINE_BYTES_MAX


@pytest.mark.parametrize("harness", HARNESSES)
def test_the_last_line_counts_without_its_line_feed_and_half_of_it_does_not(harness: str) -> None:
    data = OK[harness].rstrip(b"\n")
    adapter, half = registry.harness(harness), hear(harness, data[:-20])

    assert hear(harness, data).is_over
    assert not half.is_over
    assert half.final_text == DONE, "a whole last message stands, whatever ended the program then"
    assert adapter.judge(half, code=0, signal=None, stderr=b"") is not None


@pytest.mark.parametrize("harness", HARNESSES)
def test_one_that_was_stopped_after_its_last_word_did_its_work(harness: str) -> None:
    adapter, heard = registry.harness(harness), hear(harness, OK[harness])

    assert adapter.judge(heard, code=None, signal="SIGKILL", stderr=b"429 rate limit") is None


@pytest.mark.parametrize("harness", HARNESSES)
def test_one_that_failed_and_ended_with_0_failed(harness: str) -> None:
    heard = hear(harness, (STREAMS / f"{harness}-s403.jsonl").read_bytes())
    failure = registry.harness(harness).judge(heard, code=0, signal=None, stderr=b"")

    assert failure is not None
    assert failure.trouble is Trouble.AUTH
    assert heard.final_text is None


@pytest.mark.parametrize("harness", HARNESSES)
def test_one_that_was_started_wrongly_says_so_on_standard_error_alone(harness: str) -> None:
    failure = registry.harness(harness).judge(
        Heard(), code=2, signal=None, stderr=b"error: unexpected argument '--x'\n"
    )

    assert failure is not None
    assert failure.trouble is Trouble.CONFIG
    assert "unexpected argument" in failure.message


@pytest.mark.parametrize(
    "harness, said",
    [
        ("codex", b"Error: no rollout found for thread id 7d1f"),
        ("opencode", b"Error: Session not found"),
        ("copilot", b"No session, task, or name matched 'x'"),
    ],
)
def test_a_session_that_is_not_known_can_be_told_from_other_failures(harness: str, said: bytes) -> None:
    failure = registry.harness(harness).judge(Heard(), code=1, signal=None, stderr=said)

    assert failure is not None
    assert failure.trouble is Trouble.SESSION


def test_a_try_that_is_repeated_is_no_sign_of_life_and_no_failure() -> None:
    retry = b'{"type":"system","subtype":"api_retry","attempt":1,"error_status":401,"error":"authentication_failed"}'
    begun, again = hear("claude-code", b'{"type":"system"}'), hear("claude-code", b'{"type":"system"}\n' + retry)

    assert again.progress == begun.progress
    assert again.failure is None
    assert again.retrying is not None
    assert again.retrying.trouble is Trouble.AUTH


def test_answers_that_break_off_without_end_are_no_progress_but_count_as_steps() -> None:
    endless = (STREAMS / "opencode-drop.jsonl").read_bytes()
    heard = hear("opencode", endless)

    assert heard.progress <= 1
    assert heard.steps > 30
    assert heard.retrying is not None


@pytest.mark.parametrize(
    "code, trouble",
    [(144, Trouble.OTHER), (147, Trouble.AUTH), (173, Trouble.RATE_LIMIT), (41, Trouble.AUTH), (53, Trouble.TURNS)],
)
def test_exit_codes_of_gemini_that_look_like_signals_are_a_status(code: int, trouble: Trouble) -> None:
    failure = registry.harness("gemini").judge(Heard(progress=2), code=code, signal=None, stderr=b"")

    assert failure is not None
    assert failure.trouble is trouble


def test_a_limit_says_when_it_ends() -> None:
    codex = hear("codex", (STREAMS / "codex-usage.jsonl").read_bytes()).failure
    opencode = hear("opencode", (STREAMS / "opencode-usage.jsonl").read_bytes()).failure
    claude = hear("claude-code", (STREAMS / "claude-code-usage.jsonl").read_bytes()).failure

    assert codex is not None
    assert codex.retry_at is not None
    assert codex.retry_at.replace(tzinfo=None).isoformat() == "2100-01-01T00:00:00"
    assert opencode is not None
    assert opencode.retry_at is not None
    assert opencode.retry_at.isoformat() == "2100-01-01T00:00:00+00:00"
    assert claude is not None
    assert claude.retry_at is not None
    assert claude.retry_at.strftime("%H:%M %Z") == "15:00 UTC"


def test_what_copilot_used_stands_in_the_file_that_it_leaves() -> None:
    told = json.dumps(
        {"modelMetrics": {"m": {"usage": {"inputTokens": 7, "outputTokens": 3, "cacheReadTokens": 2}}}}, indent=1
    )
    reader = registry.harness("copilot").reader()
    reader.line(told.encode())
    used = reader.heard().usage

    assert used is not None
    assert (used.input, used.output, used.cached) == (7, 3, 2)


SPEAKS_THEN_WORKS: Final = {
    "claude-code": (
        {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "I look."}]}},
        {"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "id": "t"}]}},
    ),
    "codex": (
        {"type": "item.completed", "item": {"id": "a", "type": "agent_message", "text": "I look."}},
        {"type": "item.started", "item": {"id": "b", "type": "command_execution"}},
    ),
    "opencode": (
        {"type": "text", "part": {"type": "text", "text": "I look."}},
        {"type": "tool_use", "part": {"type": "tool", "state": {"status": "completed"}}},
    ),
    "copilot": (
        {"type": "assistant.message", "data": {"content": "I look.", "toolRequests": []}},
        {"type": "tool.execution_start", "data": {"toolCallId": "t"}},
    ),
    "gemini": (
        {"type": "message", "role": "assistant", "content": "I look.", "delta": True},
        {"type": "tool_use", "tool_id": "t"},
    ),
}


@pytest.mark.parametrize("harness", HARNESSES)
def test_what_an_agent_says_before_it_goes_on_to_work_is_not_its_report(harness: str) -> None:
    speaks, works = (json.dumps(event).encode() for event in SPEAKS_THEN_WORKS[harness])
    heard = hear(harness, speaks + b"\n" + works)

    assert hear(harness, speaks).final_text == "I look."
    assert heard.final_text is None
    # It writes of a tool only once that has ended.
    assert heard.has_open_tool is (harness != "opencode")


def test_codex_is_told_which_variables_its_tool_server_takes_from_the_environment() -> None:
    told = start("codex", wish(mcp=True))

    assert r'mcp_servers.graph={command="/usr/bin/serve",args=["--say","a \"b\""],env_vars=["SERVER_KEY"]}' in told.argv
    assert told.environment["SERVER_KEY"] == "secret-of-the-server"
