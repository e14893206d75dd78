"""`baton runs`: what people and programs are told of this machine's runs, and ending one."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batonpass.cli.context import connect
from batonpass.cli.exits import Exit
from batonpass.client import config
from batonpass.core.ids import AgentId, HolderId, NodeId, RunId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import State
from batonpass.testing.commands import BATON, Baton
from batonpass.testing.repos import make_repo, person_environment
from batonpass.testing.runs import BEGAN, RUN, put_run, run_record, settled
from batonpass.worker import proc
from batonpass.worker.crew import Identity, identify_self, is_alive
from batonpass.worker.journal import HeldRun, RunFolder
from batonpass.worker.record import RunRecord, as_json, timestamp

Spawn = Callable[..., subprocess.CompletedProcess[str]]
GONE = Identity(1, 1, "another boot")


def fill(home: Path, count: int) -> None:
    for number in range(count):
        at = timestamp(BEGAN + timedelta(minutes=number))
        put_run(home, run_record(RunId(f"{number:03}-{number:060}"), created_at=at, **settled()))


# The list


def test_a_machine_without_runs_has_none(baton: Baton) -> None:
    assert baton.ok("runs").out == "no runs on this machine\n"
    assert baton.json("runs") == {"reconciled": True, "count": 0, "runs": [], "total": 0, "truncated": False}


def test_a_list_that_is_cut_says_so_and_how_to_see_the_rest(baton: Baton) -> None:
    fill(baton.home, 23)

    told = baton.json("runs")
    shown = baton.ok("runs", "--node", "task-1").out.splitlines()

    assert (told["count"], len(told["runs"]), told["total"], told["truncated"]) == (20, 20, 23, True)
    assert told["runs"][0]["run_id"].startswith("022")
    assert len(shown) == 22
    assert shown[-1] == "… only the newest 20 of 23; all: baton runs --node task-1 --limit 23"
    everything = baton.json("runs", "list", "--limit", "23")
    assert (everything["count"], everything["truncated"]) == (23, False)


def test_a_prefix_and_an_item_narrow_the_list(baton: Baton) -> None:
    fill(baton.home, 12)

    assert baton.json("runs", "01")["total"] == 2
    assert baton.json("runs", "--node", "task-2")["runs"] == []
    assert baton("runs", "--limit", "0").code == Exit.USAGE


def test_a_record_has_both_dimensions_and_says_whose_hands_the_run_is_in(baton: Baton) -> None:
    outcome: dict[str, Any] = {"terminal_state": Terminal.REPORTED, "terminal_enforced": True, "lease_released": True}
    put_run(baton.home, run_record(report_node_id=NodeId("art-x"), **outcome, **settled()))

    (told,) = baton.json("runs")["runs"]

    assert (told["run_id"], told["state"], told["exit_code"], told["signal"]) == (RUN, "done", 0, None)
    assert (told["terminal_state"], told["terminal_enforced"], told["report_node_id"]) == ("reported", True, "art-x")
    assert told["in_hands_of"] is None
    assert not told.keys() & {"model", "declined_reason", "launched_at"}
    line = baton.ok("runs").out.splitlines()[1]
    assert line.split()[:5] == ["0b101010", "task-1", "command", "done", "reported"]


def test_a_run_whose_supervisor_is_gone_is_not_called_running(baton: Baton) -> None:
    put_run(baton.home, run_record(state=State.RUNNING, runner=GONE))

    (told,) = baton.json("runs")["runs"]

    assert (told["state"], told["termination_class"]) == ("vanished", "unknown")
    assert "terminal_state" not in told
    assert "to be settled" in baton.ok("runs").out
    assert "vanished" in baton.ok("runs", "show", RUN[:4]).out


def test_what_cannot_be_read_is_warned_of_beside_the_list(baton: Baton) -> None:
    put_run(baton.home, run_record()).record.write_text("{")

    ran = baton.ok("runs", "--json")

    assert ran.json["count"] == 0
    assert ran.err.startswith("warning: ")
    assert "run.json can't be read" in ran.err


# One JSON document, wherever it goes (case 168)


def test_json_is_one_plain_document_under_any_locale_and_colour(baton: Baton, spawn: Spawn) -> None:
    put_run(baton.home, run_record(title="half \ud83d, whole \U0001f600", cwd=os.fsdecode(b"/srv/caf\xe9")))
    put_run(baton.home, run_record(RunId("broken"))).record.write_text("")

    done = spawn("runs", "--json", FORCE_COLOR="1", CLICOLOR_FORCE="1", LANG="C", LC_ALL="C")

    assert (done.returncode, done.stdout.isascii(), done.stdout.count("\n")) == (0, True, 1)
    (told,) = json.loads(done.stdout)["runs"]
    assert (told["title"], told["cwd"]) == ("half \ufffd, whole \U0001f600", "/srv/caf\ufffd")
    assert done.stderr.startswith("warning: ")


def test_a_terminal_gets_json_without_colour_too(baton: Baton) -> None:
    put_run(baton.home, run_record())
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen:
        child = subprocess.Popen([BATON, "runs", "--json"], stdout=theirs, env={**os.environ, "FORCE_COLOR": "1"})
        os.close(theirs)
        shown = b""
        try:
            while piece := screen.read(4096):
                shown += piece
        except OSError:  # how a terminal says that nobody is at its other end
            pass
        assert child.wait(20) == 0
    assert b"\x1b" not in shown
    assert json.loads(shown)["count"] == 1


@pytest.mark.parametrize("argv", [["runs", "--json", "--limit", "500"], ["runs", "log", RUN]])
def test_a_reader_that_leaves_early_is_no_failure(baton: Baton, argv: list[str]) -> None:
    fill(baton.home, 60)
    put_run(baton.home, run_record()).log.write_bytes(b"line\n" * 100_000)
    reading, writing = os.pipe()
    os.close(reading)

    done = subprocess.run([BATON, *argv], stdout=writing, stderr=subprocess.PIPE, timeout=20, check=False)
    os.close(writing)

    assert (done.returncode, done.stderr) == (0, b"")


# The fleet


def test_the_fleets_runs_are_those_the_server_was_told_of(baton: Baton) -> None:
    record = run_record(node_id=NodeId("task-a"), epoch=None, host="box-7", terminal_note="half of it", **settled())
    baton.task("a")
    with baton.as_agent("mill"), connect() as client:
        for number in range(3):
            run = RunId(f"{number}0b10101-1234-4abc-8def-0123456789ab")
            told = as_json(replace(record, run_id=run, terminal_state=Terminal.REPORTED))
            client.put_run(run, told)

    told = baton.json("runs", "--fleet", "--node", "task-a", "--limit", "2")
    lines = baton.ok("runs", "--fleet", "--limit", "2").out.splitlines()

    assert [run["run_id"][0] for run in told["runs"]] == ["2", "1"]
    assert lines[1].split()[:7] == ["20b10101", "task-a", "agent-mill", "box-7", "command", "done", "reported"]
    assert "(not verified)" in lines[1]
    assert lines[-1].startswith("… only the first 2 of this list; more: baton runs --fleet --limit 2 --after ")
    rest = baton.ok("runs", "--fleet", "--after", str(told["next"])).out.splitlines()
    assert [line[:8] for line in rest[1:]] == ["00b10101"]
    assert baton.ok("runs", "--fleet", "--node", "task-b").out == "the server has heard of no runs\n"


@pytest.mark.parametrize("argv", [["0b", "--fleet"], ["--after", "x"]])
def test_what_only_one_of_the_lists_has_is_not_asked_of_the_other(baton: Baton, argv: list[str]) -> None:
    assert baton("runs", *argv).code == Exit.USAGE


# One run


def test_a_run_is_shown_by_what_only_its_id_begins_with(baton: Baton) -> None:
    fill(baton.home, 3)
    put_run(baton.home, run_record(usage={"input": 1200, "output": 30}, read_only=False, worktree_kept=("a", "b")))

    shown = baton.ok("runs", "show", "0b").out

    assert "\nusage             input 1200, output 30\n" in shown
    assert "\nread_only         no\n" in shown
    assert "\nworktree_kept     a; b\n" in shown
    assert baton.ok("runs", "show", "0b", "--json").json["usage"] == {"input": 1200, "output": 30}
    missing, several = baton("runs", "show", "9"), baton("runs", "show", "0")
    assert (missing.code, several.code) == (Exit.NOT_FOUND, Exit.FAILED)
    assert "baton runs  the runs there are" in missing.err
    assert "4 runs begin with '0'" in several.err


def logged(home: Path, out: bytes, err: bytes = b"") -> RunFolder:
    folder = put_run(home, run_record())
    folder.log.write_bytes(out)
    folder.errors.write_bytes(err)
    return folder


def test_a_log_is_printed_byte_for_byte(baton: Baton) -> None:
    raw = b"caf\xe9 \x00 \x1b[31m\xe2\x80\xa8\r\nhalf a line"
    logged(baton.home, raw, b"trouble\n")

    done = subprocess.run([BATON, "runs", "log", RUN[:3]], capture_output=True, timeout=20, check=True)

    assert done.stdout == raw


@pytest.mark.parametrize(
    "lines, shown", [("1", "four"), ("2", "three\nfour"), ("4", "one\n\nthree\nfour"), ("9", "one\n\nthree\nfour")]
)
@pytest.mark.parametrize("end", ["", "\n"])
def test_the_last_lines_of_a_log(baton: Baton, lines: str, shown: str, end: str) -> None:
    logged(baton.home, b"never asked for", f"one\n\nthree\nfour{end}".encode())

    assert baton.ok("runs", "log", RUN, "--errors", "--tail", lines).out == shown + end


def test_the_last_lines_are_found_over_many_blocks(baton: Baton) -> None:
    long = "x" * 200_000
    logged(baton.home, f"first\n{long}\n{long}\n".encode())

    assert baton.ok("runs", "log", RUN, "--tail", "2").out == f"{long}\n{long}\n"


def test_a_run_that_was_not_started_has_no_log(baton: Baton) -> None:
    put_run(baton.home, run_record(state=State.FAILED_LAUNCH, **settled()))

    assert baton("runs", "log", RUN).code == Exit.NOT_FOUND


def test_a_log_is_followed_until_its_run_is_over(baton: Baton) -> None:
    folder = put_run(baton.home, run_record(state=State.RUNNING, runner=identify_self()))
    folder.log.write_bytes(b"one\n")
    argv = [str(BATON), "runs", "log", RUN, "--follow", "--tail", "1"]
    with folder.locked() as held, subprocess.Popen(argv, stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"one\n"
        with folder.log.open("ab") as log:
            log.write(b"two\n")
        assert reader.stdout.readline() == b"two\n"
        with folder.log.open("ab") as log:
            log.write(b"three")
        held.change(held.read(), state=State.DONE)
        assert reader.stdout.read() == b"three"
        assert reader.wait(20) == 0


def test_a_report_is_what_was_spooled_or_what_will_be(baton: Baton) -> None:
    folder = logged(baton.home, b"Half of it.\nbat_agt_9fKq2mXv7LpWz3Rt\x1b[31m\n")

    assert baton.ok("runs", "report", RUN).out == "Half of it.\nbat_agt_[redacted]\n"

    folder.report.write_text("The report.")
    told = baton.ok("runs", "report", RUN, "--json").json
    assert told == {"run_id": RUN, "filed_as": None, "text": "The report."}


def test_a_run_without_a_word_has_no_report(baton: Baton) -> None:
    logged(baton.home, b" \n")

    ran = baton("runs", "report", RUN)

    assert (ran.code, ran.out) == (Exit.NOT_FOUND, "")
    assert "has left no report" in ran.err


# Ending runs


@pytest.fixture
def left(baton: Baton) -> Iterator[RunFolder]:
    """A run of this machine's agent on task-a, whose supervisor is gone and whose child is still at work."""
    baton.task("a", "--ready")
    baton.json("leases")
    local = config.credentials(baton.home).local
    if local is None or local.agent is None or local.agent.agent is None:
        from batonpass.cli.local import agent_token, database_url, local_server

        with local_server(database_url(baton.home)) as server:
            agent_token(server, baton.home)
        local = config.credentials(baton.home).local
    assert local is not None
    assert local.agent is not None
    with baton.under(local.agent.token):
        lease = baton.json("claim", "task-a")
        incarnation = baton.json("status")["incarnation"]
    record = run_record(
        node_id=NodeId("task-a"),
        name="task-a",
        node_type="task",
        state=State.RUNNING,
        runner=GONE,
        epoch=lease["lease"]["epoch"],
        agent=AgentId(HolderId(str(local.agent.agent))),
        server="http://local.baton",
        incarnation=incarnation,
    )
    folder = put_run(baton.home, record)
    child = proc.start(
        ["sh", "-c", "echo Half of it works.; exec sleep 3600"],
        mark=RUN,
        cwd=folder.path,
        environment={"PATH": os.environ["PATH"]},
        stdin=None,
        stdout=folder.log,
        stderr=folder.errors,
    )
    try:
        while not folder.log.stat().st_size:
            pass
        HeldRun(folder.path, -1).change(record, child=child.identity)
        yield folder
    finally:
        child.stop()


def test_a_run_that_was_left_is_stopped_judged_and_its_lease_given_back(baton: Baton, left: RunFolder) -> None:
    child = left.read().child
    assert child is not None

    said = baton.ok("runs", "kill", RUN[:4]).out

    assert said == "task-a: vanished, reported\n"
    assert not is_alive(child)
    record = left.read()
    assert (record.terminal_state, record.terminal_enforced, record.is_settled) == (Terminal.REPORTED, True, True)
    assert baton.json("leases")["leases"] == []
    assert "Half of it works." in baton.ok("show", str(record.report_node_id)).out
    assert baton.ok("runs", "kill", RUN).out == said, "once more changes nothing"
    assert baton.json("runs", "kill", RUN)["runs"][0]["attempt"] == record.attempt


def test_a_supervisor_that_is_asked_stops_its_child_settles_and_ends(
    baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "repository", person_environment(Path(os.environ["HOME"])))
    monkeypatch.chdir(repo.folder)
    baton.task("b", "--ready")
    script = "echo Half of it works. > $BATON_REPORT; echo at work; exec sleep 3600"
    argv = [str(BATON), "work", "--once", "--project", "demo", "--", "sh", "-c", script]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        assert "at work in" in worker.stdout.readline()
        (told,) = baton.json("runs")["runs"]
        child = Identity(**told["child"])

        said = baton.ok("runs", "kill", told["run_id"][:8]).out

        assert worker.wait(20) == Exit.INTERRUPTED
    assert (told["state"], told["in_hands_of"]) == ("running", "supervisor")
    assert said == "task-b: failed, reported\n"
    assert not is_alive(child)
    (after,) = baton.json("runs")["runs"]
    assert (after["stopped_for"], after["in_hands_of"], after["contract_pending"]) == ("interrupted", None, False)
    assert baton.json("leases")["leases"] == []


def test_a_run_that_cannot_be_judged_now_is_stopped_and_stays_pending(baton: Baton, left: RunFolder) -> None:
    child = left.read().child
    assert child is not None

    ran = baton("runs", "kill", RUN, "--server", "http://127.0.0.1:9")

    assert not is_alive(child), "stopped whatever the server says"
    assert ran.code in {Exit.NOT_ALLOWED, Exit.UNREACHABLE}
    assert not left.read().is_settled
    assert len(baton.json("leases")["leases"]) == 1


def test_no_run_is_no_order(baton: Baton) -> None:
    assert baton("runs", "kill").code == Exit.USAGE
    assert baton("runs", "kill", "0b").code == Exit.NOT_FOUND


# Records of long ago


def test_records_of_long_ago_go_and_what_somebody_may_need_stays(baton: Baton) -> None:
    long_ago = settled(datetime.now(UTC) - timedelta(days=8))
    mirrored: dict[str, Any] = {"mirrored_at": timestamp(BEGAN)}
    put_run(baton.home, run_record(**mirrored, **long_ago))
    put_run(baton.home, run_record(RunId("kept"), worktree_kept=("untracked: a",), **mirrored, **long_ago))
    put_run(baton.home, run_record(RunId("here-only"), **long_ago))

    assert baton.ok("runs", "prune").out == "0 runs removed\n"
    assert baton.json("runs", "prune", "--older", "7d") == {"removed": 1, "runs": [RUN]}
    assert {run["run_id"] for run in baton.json("runs")["runs"]} == {"kept", "here-only"}


# The page


def test_every_field_of_the_record_is_explained_on_its_page_and_no_other() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/runs.md").read_text()
    explained = re.findall(r"^\| `(\w+)` \|", page.partition("## The record")[2], re.MULTILINE)

    assert sorted(explained) == sorted(field.name for field in dataclasses.fields(RunRecord))
