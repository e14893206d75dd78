from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from batonpass.core.ids import AgentId, HolderId, NodeId, RunId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import State
from batonpass.worker import journal
from batonpass.worker.errors import RecordMoved, RunBusy
from batonpass.worker.git import Sha
from batonpass.worker.journal import HeldRun, Journal, RunFolder, Spooled
from batonpass.worker.record import RunRecord, as_json, timestamp

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN = RunId("0b101010-1234-4abc-8def-0123456789ab")


def record(run: RunId = RUN, **changes: Any) -> RunRecord:  # noqa: ANN401 — whichever fields a test is about
    facts: dict[str, Any] = {
        "run_id": run,
        "node_id": None,
        "name": None,
        "harness": "command",
        "cwd": "/srv/project",
        "created_at": timestamp(NOW),
        "server": "http://baton.test",
        "agent": AgentId(HolderId("agent-mill")),
        "dispatch": run,
        "repository": "/srv/project",
        "base": Sha("a" * 40),
    }
    return RunRecord(**{**facts, **changes})


@pytest.fixture
def book(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "home")


@pytest.fixture
def run(book: Journal) -> Iterator[HeldRun]:
    with book.create(record()) as held:
        yield held


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# Folders


def test_a_run_has_a_folder_for_its_owner_alone(run: HeldRun) -> None:
    run.spool(entry("text"))

    assert mode(run.path) == mode(run.home) == 0o700
    assert {mode(path) for path in run.path.iterdir() if path.is_file()} == {0o600}


def test_a_run_is_read_back_as_it_was_written(book: Journal, run: HeldRun) -> None:
    assert run.read() == record()
    assert book.runs() == (RunFolder(run.path),)


def test_runs_are_listed_from_the_oldest_and_strange_folders_passed_over(book: Journal) -> None:
    later = record(RunId("a-later"), created_at=timestamp(NOW + timedelta(hours=1)))
    with book.create(later), book.create(record()):
        pass
    (book.folder / "broken").mkdir()
    (book.folder / "broken/run.json").write_text("{")
    (book.folder / "empty").mkdir()

    assert [run.path.name for run in book.runs()] == [RUN, "a-later"]


def test_a_home_without_runs_has_none(book: Journal) -> None:
    assert book.runs() == book.unsettled() == ()


def test_only_runs_that_are_not_settled_are_left_to_do(book: Journal) -> None:
    with book.create(record(RunId("open"))), book.create(record(RunId("done"), contract_pending=False)):
        pass

    assert [run.path.name for run in book.unsettled()] == ["open"]


def test_a_folder_that_cannot_be_made_leaves_nothing(book: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)

    with pytest.raises(OSError, match="No space left"), book.create(record()):
        pass

    assert list(book.folder.iterdir()) == []


def test_a_run_that_never_was_is_forgotten(book: Journal) -> None:
    with book.create(record()) as held:
        held.forget()

    assert list(book.folder.iterdir()) == []


# The lock


def test_a_run_is_held_from_the_moment_it_can_be_seen(book: Journal, run: HeldRun) -> None:
    (seen,) = book.runs()
    assert seen.path == run.path

    with pytest.raises(RunBusy, match=RUN), seen.locked():
        pass


def test_a_run_that_was_let_go_can_be_held_by_the_next(book: Journal) -> None:
    with book.create(record()):
        pass

    (seen,) = book.runs()
    with seen.locked() as held:
        assert held.read() == record()


# The record


def test_a_change_keeps_what_it_does_not_name(run: HeldRun) -> None:
    changed = run.change(record(), state=State.RUNNING, exit_code=3)

    assert changed == run.read() == record(state=State.RUNNING, exit_code=3)


@pytest.mark.parametrize("meanwhile", [{"state": State.DONE}, {"attempt": 1}])
def test_a_change_based_on_an_older_record_is_refused(run: HeldRun, meanwhile: dict[str, object]) -> None:
    stale = run.read()
    run.change(stale, **meanwhile)

    with pytest.raises(RecordMoved, match="was based on launching, attempt 0"):
        run.change(stale, terminal_state=Terminal.FAILED)

    assert run.read().terminal_state is None


def test_a_record_is_never_half_written(run: HeldRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run.change(record(), state=State.RUNNING)

    assert run.read() == record()


def test_the_contracts_field_names_are_the_files(run: HeldRun) -> None:
    run.change(
        record(),
        node_id=NodeId("task-1"),
        name="task-1",
        state=State.DONE,
        exit_code=0,
        terminal_state=Terminal.REPORTED,
        terminal_enforced=True,
        report_node_id=NodeId("art-dispatch-report-1-0b101010"),
        lease_released=True,
    )

    told = json.loads((run.path / "run.json").read_text())
    assert (
        told.items()
        >= {
            "run_id": RUN,
            "node_id": "task-1",
            "name": "task-1",
            "harness": "command",
            "launch_mode": "supervised-jsonl",
            "state": "done",
            "cwd": "/srv/project",
            "created_at": "2026-11-30T12:00:00.000+00:00",
            "exit_code": 0,
            "signal": None,
            "session_id": None,
            "terminal_state": "reported",
            "terminal_enforced": True,
            "report_node_id": "art-dispatch-report-1-0b101010",
            "lease_released": True,
        }.items()
    )
    assert not told.keys() & {"model", "launched_at", "resolved_by", "finding_node_id", "declined_reason"}


def test_a_path_that_is_no_text_comes_back_as_it_was_and_is_told_as_text(run: HeldRun) -> None:
    strange = os.fsdecode(b"/srv/caf\xe9 \xf0\x9f\x98\x80")

    run.change(record(), cwd=strange, title="half a pair: \ud83d")

    assert run.read().cwd == strange
    assert not RunFolder(run.path).is_damaged
    told = as_json(run.read())
    assert (told["cwd"], told["title"]) == ("/srv/caf\ufffd \U0001f600", "half a pair: \ufffd")


def test_whether_a_run_is_held_is_asked_of_the_kernel(book: Journal) -> None:
    with book.create(record()) as run:
        (folder,) = book.runs()
        assert folder.is_held() is True
    assert folder.is_held() is False
    (run.path / "lock").unlink()
    assert folder.is_held() is None


# The report


def entry(text: str) -> Spooled:
    return Spooled(
        server="http://baton.test",
        incarnation="i-1",
        run_id=RUN,
        agent=AgentId(HolderId("agent-mill")),
        node=NodeId("task-1"),
        epoch=4,
        spooled_at=timestamp(NOW),
        text=text,
    )


def test_a_spooled_report_is_read_back_whole(run: HeldRun) -> None:
    assert run.spooled() is None

    run.spool(entry("é\n\ufffd" * 1000))

    assert run.spooled() == entry("é\n\ufffd" * 1000)


def test_the_report_file_comes_before_standard_output(run: HeldRun) -> None:
    run.log.write_text("chatter")
    run.report.write_text("the report")

    assert run.final_text() == "the report"


@pytest.mark.parametrize("content", ["", " \n\t\n", "\x00"])
def test_a_report_file_without_a_readable_character_counts_as_none(run: HeldRun, content: str) -> None:
    run.log.write_text("the output")
    run.report.write_text(content)

    assert run.final_text() == "the output"


def test_an_agent_programs_last_message_is_its_report_and_its_stream_never(book: Journal) -> None:
    with book.create(record(harness="codex")) as run:
        run.log.write_text('{"type": "error"}')
        assert run.final_text() == ""

        run.keep_final("What I did.\ud83d bat_agt_9fKq2mXv7LpWz3Rt")

        assert run.final_text() == "What I did.? bat_agt_[redacted]"
        assert mode(run.final) == 0o600
        run.report.write_text("The report.")
        assert run.final_text() == "The report."


def test_a_run_that_said_nothing_has_no_report(run: HeldRun) -> None:
    assert run.final_text() == ""


def test_a_pipe_or_a_folder_in_the_reports_place_stops_nobody(run: HeldRun) -> None:
    run.log.write_text("the output")
    os.mkfifo(run.report)
    assert run.final_text() == "the output"

    run.report.unlink()
    run.report.mkdir()
    assert run.final_text() == "the output"


def test_bad_bytes_and_nul_become_the_replacement_character(run: HeldRun) -> None:
    run.log.write_bytes(b"ok \xf0\x9f\x98 then \x97 and \x00.\nU\x00T\x00F")

    assert run.final_text() == "ok \ufffd then \ufffd and \ufffd.\nU\ufffdT\ufffdF"


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 2_000_000])
def test_a_report_on_one_very_long_line_is_read_up_to_its_limit(run: HeldRun, size: int) -> None:
    run.log.write_bytes(b"x" * size)

    assert run.final_text() == "x" * min(size, journal.REPORT_BYTES_MAX)


def test_a_report_cut_inside_a_character_ends_before_it(run: HeldRun) -> None:
    run.log.write_bytes(b"x" + "é".encode() * journal.REPORT_BYTES_MAX)

    text = run.final_text()
    assert text.endswith("éé")
    assert len(text.encode()) == journal.REPORT_BYTES_MAX - 1


# Retention


@pytest.mark.parametrize(
    "changes, stays",
    [
        ({}, False),
        ({"worktree_kept": ("untracked: a",)}, True),
        ({"contract_settled_at": None, "contract_pending": True}, True),
        ({"contract_settled_at": timestamp(NOW - timedelta(days=13))}, True),
        ({"mirrored_at": None}, True),
        ({"mirrored_at": None, "node_id": None}, False),
    ],
)
def test_a_settled_run_goes_after_fourteen_days_unless_somebody_may_need_it(
    book: Journal, changes: dict[str, Any], *, stays: bool
) -> None:
    settled = {
        "node_id": NodeId("task-1"),
        "contract_pending": False,
        "contract_settled_at": timestamp(NOW - timedelta(days=14)),
        "mirrored_at": timestamp(NOW - timedelta(days=14)),
    }
    with book.create(record(**{**settled, **changes})):
        pass

    assert book.prune(NOW) == (() if stays else (RUN,))

    assert bool(book.runs()) is stays
    assert len(list(book.folder.iterdir())) == int(stays)


@pytest.mark.parametrize("hours, stays", [(1, True), (2, False)])
def test_the_box_says_how_long_a_run_stays(book: Journal, hours: int, *, stays: bool) -> None:
    settled = timestamp(NOW - timedelta(hours=hours))
    with book.create(record(contract_pending=False, contract_settled_at=settled)):
        pass

    book.prune(NOW, retention=timedelta(minutes=61))

    assert bool(book.runs()) is stays


def test_a_run_somebody_is_at_work_on_is_never_pruned(book: Journal) -> None:
    old = timestamp(NOW - timedelta(days=99))
    with book.create(record(contract_pending=False, contract_settled_at=old)):
        book.prune(NOW)

        assert len(book.runs()) == 1


def test_what_a_crash_left_half_made_goes_once_it_is_old(book: Journal) -> None:
    with book.create(record()):
        pass
    for name in (f".{RUN}.new", f".{RUN}.old"):
        (book.folder / name / "home").mkdir(parents=True)
        os.utime(book.folder / name, (NOW.timestamp(), NOW.timestamp()))

    book.prune(NOW + timedelta(minutes=59))
    assert len(list(book.folder.iterdir())) == 3

    book.prune(NOW + timedelta(minutes=60))
    assert [path.name for path in book.folder.iterdir()] == [RUN]
