"""What is pushed of a run to the server: whole, bounded, without secrets, and never in the run's way (D39)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.errors import Forbidden, Unavailable
from batonpass.core.ids import NodeId, RunId
from batonpass.core.runs import LOG_BYTES_KEPT, State
from batonpass.testing.graph import AGENT, MemoryGraph, failing_with
from batonpass.worker import mirror
from batonpass.worker.git import Sha
from batonpass.worker.journal import HeldRun, Journal, RunFolder
from batonpass.worker.mirror import CATCH_UP_MAX, CHUNK_BYTES, PUSH_S_MAX, Mirror, Mirroring, owed, pieces, scrubbed
from batonpass.worker.record import RunRecord, timestamp

NOW: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
TOKEN: Final = "bat_agt_" + "Ab3-_" * 8 + "xyz"
MASKED: Final = "bat_agt_" + "*" * 43


def record_of(graph: MemoryGraph, run: str = "0b7c-run", *, at: datetime = NOW) -> RunRecord:
    return RunRecord(
        run_id=RunId(run),
        node_id=NodeId("task-a"),
        name=None,
        harness="command",
        cwd="/",
        created_at=timestamp(at),
        server=graph.server,
        agent=AGENT,
        dispatch=f"nonce-{run}",
        repository="/",
        base=Sha("0" * 40),
    )


@pytest.fixture
def graph() -> MemoryGraph:
    """Return a graph that keeps what it is sent."""
    return MemoryGraph()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """Return an empty journal."""
    return Journal(tmp_path)


@pytest.fixture
def held(graph: MemoryGraph, journal: Journal) -> Iterator[HeldRun]:
    """Return a run that goes on."""
    with journal.create(replace(record_of(graph), state=State.RUNNING)) as run:
        yield run


def pushing(graph: MemoryGraph, *, now: datetime = NOW, seconds: Iterator[float] | None = None) -> Mirror:
    ticking = seconds if seconds is not None else iter(float, 1.0)
    return Mirror(graph, now=lambda: now, clock=lambda: next(ticking))


def settle(run: HeldRun, *, at: datetime = NOW) -> None:
    run.change(run.read(), state=State.DONE, contract_pending=False, contract_settled_at=timestamp(at))


# What is sent


def test_record_and_log_are_sent_whole_and_the_record_says_when(graph: MemoryGraph, held: HeldRun) -> None:
    held.log.write_bytes(b"one\ntwo\n")

    pushed = pushing(graph).push(held)
    held.log.write_bytes(b"one\ntwo\nthree\n")
    pushing(graph).push(held)

    assert pushed.whole
    assert graph.runs[RunId("0b7c-run")]["state"] == "running"
    assert graph.logs[RunId("0b7c-run")] == b"one\ntwo\nthree\n"
    assert graph.done("put_log") == [0, 8], "what the server has is not sent again"
    assert held.read().mirrored_at == timestamp(NOW)


def test_of_a_long_log_the_end_is_sent_in_pieces(graph: MemoryGraph, held: HeldRun) -> None:
    held.log.write_bytes(b"x" * (3 * LOG_BYTES_KEPT) + b"y")

    pushing(graph).push(held)

    begin = 2 * LOG_BYTES_KEPT + 1
    assert graph.done("put_log") == [begin + i * CHUNK_BYTES for i in range(LOG_BYTES_KEPT // CHUNK_BYTES)]
    assert graph.logs[RunId("0b7c-run")][begin:] == b"x" * (LOG_BYTES_KEPT - 1) + b"y"


def test_a_run_without_a_log_sends_none(graph: MemoryGraph, held: HeldRun) -> None:
    assert pushing(graph).push(held).whole
    assert graph.done("put_log") == []


def test_no_token_leaves_in_record_or_log_wherever_a_piece_is_cut(graph: MemoryGraph, held: HeldRun) -> None:
    held.change(held.read(), termination_reason=f"it said {TOKEN}", usage={"input": 3})
    for cut in range(len(TOKEN)):
        whole = f"a {TOKEN} b\n".encode()
        held.log.write_bytes(whole[: 2 + cut])
        graph.logs.clear()
        pushing(graph).push(held)
        held.log.write_bytes(whole)
        pushing(graph).push(held)
        assert graph.logs[RunId("0b7c-run")] == f"a {MASKED} b\n".encode(), cut

    assert graph.runs[RunId("0b7c-run")]["termination_reason"] == f"it said {MASKED}"
    assert graph.runs[RunId("0b7c-run")]["usage"] == {"input": 3}
    assert scrubbed({"deep": [TOKEN, None, 1.5]}) == {"deep": [MASKED, None, 1.5]}


def test_a_token_across_the_border_of_two_pieces_is_masked(graph: MemoryGraph, held: HeldRun) -> None:
    held.log.write_bytes(b"x" * (CHUNK_BYTES - 20) + TOKEN.encode() + b"\n")

    pushing(graph).push(held)

    assert graph.logs[RunId("0b7c-run")].endswith(MASKED.encode() + b"\n")
    assert TOKEN[20:].encode() not in graph.logs[RunId("0b7c-run")]


@given(st.lists(st.binary(max_size=40), max_size=6), st.booleans())
def test_what_is_sent_has_the_offsets_of_the_file_whatever_its_bytes(growth: list[bytes], over: bool) -> None:  # noqa: FBT001
    """Law: pieces join without overlap; nothing changes but bytes that are no text, each for one byte."""
    sent, data = b"", b""
    with TemporaryDirectory() as folder:
        run = RunFolder(Path(folder))
        for i, more in enumerate(growth):
            data += more
            run.log.write_bytes(data)
            for offset, text in pieces(run, after=len(sent), over=over and i == len(growth) - 1):
                assert offset == len(sent)
                sent += text.encode()
    assert len(data) - len(sent) <= (0 if over and growth else len(TOKEN) + 20)
    for was, now in zip(data, sent, strict=False):
        assert was == now or now == ord("?")
    if is_text(data):
        assert data.replace(b"\0", b"?").startswith(sent)


def is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# What fails


def test_a_server_that_is_away_is_told_of_and_raised_at_nobody(graph: MemoryGraph, held: HeldRun) -> None:
    graph.failing["put_run"] = failing_with(Unavailable("away"))

    pushed = pushing(graph).push(held)

    assert (pushed.whole, pushed.why) == (False, "away")
    assert held.read().mirrored_at is None


def test_a_push_ends_when_its_time_is_up_and_the_next_goes_on_from_there(graph: MemoryGraph, held: HeldRun) -> None:
    held.log.write_bytes(b"x" * (2 * CHUNK_BYTES))

    slow = pushing(graph, seconds=iter([0.0, 1.0, PUSH_S_MAX])).push(held)
    first = list(graph.done("put_log"))
    rest = pushing(graph).push(held)

    assert (slow.whole, first) == (False, [0])
    assert (rest.whole, graph.done("put_log")) == (True, [0, CHUNK_BYTES])


def test_a_run_of_another_server_is_not_told_to_this_one(graph: MemoryGraph, held: HeldRun) -> None:
    held.change(held.read(), server="http://other.baton")

    pushed = pushing(graph).push(held)

    assert not pushed.whole
    assert graph.calls == []


def test_a_record_that_moved_meanwhile_is_not_marked_as_sent(graph: MemoryGraph, held: HeldRun) -> None:
    graph.failing_after["put_run"] = lambda: None if held.read().attempt else _move(held)

    assert not pushing(graph).push(held).whole
    assert held.read().mirrored_at is None


def _move(run: HeldRun) -> None:
    run.change(run.read(), attempt=1)


# What the next round sends


def test_what_was_not_sent_is_sent_by_the_next_round_the_newest_first(graph: MemoryGraph, journal: Journal) -> None:
    for i in range(CATCH_UP_MAX + 2):
        with journal.create(record_of(graph, f"run-{i:02}", at=NOW - timedelta(days=1) + timedelta(hours=i))) as run:
            run.log.write_text("cut off: bat_")
            settle(run)

    first = pushing(graph, now=NOW + timedelta(hours=1)).catch_up(journal)
    second = pushing(graph, now=NOW + timedelta(hours=1)).catch_up(journal)
    third = pushing(graph).catch_up(journal)

    assert (first, second, third) == (CATCH_UP_MAX, 2, 0)
    assert next(iter(graph.runs)) == f"run-{CATCH_UP_MAX + 1}"
    assert set(graph.logs.values()) == {b"cut off: bat_"}


def test_a_run_is_owed_again_once_it_is_settled(graph: MemoryGraph, held: HeldRun) -> None:
    assert owed(held.read())
    pushing(graph).push(held)
    assert not owed(held.read())
    settle(held, at=NOW + timedelta(seconds=1))
    assert owed(held.read())


def test_a_server_that_is_away_costs_a_round_one_try_and_a_refusal_no_second(
    graph: MemoryGraph, journal: Journal
) -> None:
    for i in range(3):
        with journal.create(record_of(graph, f"run-{i}")) as run:
            settle(run)
    mirrored = pushing(graph)
    graph.failing["put_run"] = failing_with(Unavailable("away"), times=1)
    away = mirrored.catch_up(journal)
    tries = len(graph.done("put_run"))
    graph.failing["put_run"] = failing_with(Forbidden("not yours"))
    refused = mirrored.catch_up(journal)
    del graph.failing["put_run"]
    after = mirrored.catch_up(journal)

    assert (away, tries, refused, after) == (0, 1, 0, 0)
    assert pushing(graph).catch_up(journal) == 3, "another process asks again"


def test_a_run_that_somebody_holds_is_left_to_them(graph: MemoryGraph, journal: Journal, held: HeldRun) -> None:
    with journal.create(record_of(graph, "left")):
        pass

    assert pushing(graph).catch_up(journal) == 1
    assert list(graph.runs) == ["left"]
    assert held.read().mirrored_at is None


def test_a_round_ends_when_its_time_is_up(graph: MemoryGraph, journal: Journal) -> None:
    with journal.create(record_of(graph)):
        pass

    assert pushing(graph, seconds=iter([0.0, PUSH_S_MAX])).catch_up(journal) == 0


# While the run goes on


def test_a_run_is_pushed_at_once_and_when_told_and_no_more_after_its_end(graph: MemoryGraph, held: HeldRun) -> None:
    pushed = threading.Semaphore(0)
    graph.failing_after["put_run"] = pushed.release

    with Mirroring(pushing(graph), held) as mirroring:
        assert pushed.acquire(timeout=30)
        mirroring.nudge()
        assert pushed.acquire(timeout=30)
    mirroring.nudge()

    assert len(graph.done("put_run")) == 2


def test_a_server_that_is_away_is_asked_more_and_more_rarely(
    graph: MemoryGraph, held: HeldRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    graph.failing["put_run"] = failing_with(Unavailable("away"), times=6)
    mirroring = Mirroring(pushing(graph), held)

    def wait(timeout_s: float) -> bool:
        waits.append(timeout_s)
        if len(waits) == 8:
            mirroring._over.set()  # noqa: SLF001 — the end of the block, at a known wait
        return True

    monkeypatch.setattr(mirroring._nudged, "wait", wait)  # noqa: SLF001
    with mirroring:
        mirroring._thread.join(30)  # noqa: SLF001

    assert waits == [15.0, 30.0, 60.0, 120.0, 240.0, 300.0, 300.0, mirror.EVERY_S]


def test_a_folder_that_is_gone_is_nobodys_trouble(tmp_path: Path) -> None:
    assert list(pieces(RunFolder(tmp_path / "gone"), after=0, over=True)) == []
