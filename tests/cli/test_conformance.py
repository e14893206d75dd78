"""`baton conformance`: what it starts, what it prints, how it ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from batonpass.cli.local import Person, serve_throwaway
from batonpass.cli.main import main
from batonpass.conformance.lines import LINES
from batonpass.conformance.servers import requirements


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    """Return how a command ends, and what it prints."""
    with pytest.raises(SystemExit) as ended:
        sys.exit(main(["conformance", *args]))
    said = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, said.out, said.err


def test_the_reference_worker_is_a_command_that_passes(capsys: pytest.CaptureFixture[str]) -> None:
    reference = (sys.executable, "-m", "batonpass.conformance.reference", "{task}")

    code, out, _ = run(capsys, "worker", "--only", "human", "--only", "session-project", "--json", "--", *reference)

    told = json.loads(out)
    assert (code, told["passes"]) == (0, True)
    assert {line["id"]: line["grade"] for line in told["lines"]} == {"human": "pass", "session-project": "pass"}


def test_our_worker_is_graded_as_anybodys(capsys: pytest.CaptureFixture[str]) -> None:
    ours = (sys.executable, "-m", "batonpass", "work", "--once", "--project", "{project}", "--", "{task}")
    lines = ("decline-filed", "decline-clears", "decline-first")
    only = [word for line in lines for word in ("--only", line)]

    code, out, _ = run(capsys, "worker", *only, "--json", "--", *ours)

    assert {line["id"]: (line["grade"], line["evidence"]) for line in json.loads(out)["lines"]} == dict.fromkeys(
        lines, ("pass", [])
    )
    assert code == 0


def test_a_worker_that_does_not_end_is_stopped_and_what_it_said_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stuck = tmp_path / "stuck"
    stuck.write_text('#!/bin/sh\necho "on $BATON_PROJECT, in $(ls)"\nexec sleep 60\n')
    stuck.chmod(0o700)

    code, out, _ = run(capsys, "worker", "--only", "human", "--limit", "1s", "--", str(stuck))

    assert code == 1
    assert "not seen" in out
    assert "was stopped after 1 s, and said: on project-1, in README.md" in out


def test_a_worker_that_cannot_be_started_is_the_command_lines_error(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "worker", "--only", "human", "--", "no-such-worker")

    assert code == 2
    assert "no-such-worker" in err


def test_without_a_command_it_is_said_how_to_name_one(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "worker")

    assert code == 2
    assert "after --" in err


@pytest.mark.parametrize("whose, what", [("worker", "line"), ("server", "requirement")])
def test_a_line_that_is_none_is_refused(capsys: pytest.CaptureFixture[str], whose: str, what: str) -> None:
    code, _, err = run(capsys, whose, "--only", "no-such")

    assert code == 2
    assert f"no such {what}" in err


def test_what_there_is_to_grade_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines, asked = run(capsys, "worker", "--list", "--json"), run(capsys, "server", "--list", "--json")

    assert [each["id"] for each in json.loads(lines[1])] == [line.id for line in LINES]
    assert [each["id"] for each in json.loads(asked[1])] == [each.id for each in requirements()]


def test_a_server_of_this_installation_is_tried_with_a_clock_that_moves(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "server", "--only", "claim-lapsed", "--only", "horizon-now")

    assert code == 0
    assert "2 pass, 0 fail, 0 not seen" in out


def test_a_server_elsewhere_is_told_of_what_stays_there_and_its_clock_is_left_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with serve_throwaway(tmp_path, Person("Ada Admin", "ada@example.org")) as (url, token):
        monkeypatch.setenv("BATON_TOKEN", token.token)
        code, out, err = run(capsys, "server", "--url", url, "--only", "me", "--only", "claim-lapsed", "--json")

    assert {line["id"]: line["grade"] for line in json.loads(out)["lines"]} == {
        "me": "pass",
        "claim-lapsed": "not seen",
    }
    assert code == 1, "what is not seen does not pass"
    assert f"left on {url}: people, agents" in err


def test_a_server_elsewhere_is_tried_with_an_admins_token_or_not_at_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("BATON_TOKEN", raising=False)
    monkeypatch.setenv("BATON_HOME", str(tmp_path))

    code, _, err = run(capsys, "server", "--url", "http://127.0.0.1:9")

    assert code == 2
    assert "set BATON_TOKEN to an admin's" in err
