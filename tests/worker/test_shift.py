"""A worker that goes on by itself: slots, waiting, losing, draining, and what it makes of what others left."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.errors import BatonError, NotFound, Paused, Unauthorized, Unavailable
from batonpass.core.ids import Fence, NodeId
from batonpass.core.runs import Ended, State
from batonpass.testing.graph import MemoryGraph, failing_with
from batonpass.testing.inthread import InThread
from batonpass.testing.repos import Repo
from batonpass.worker import shift, status
from batonpass.worker.breaker import Breakers
from batonpass.worker.crew import Graces, Identity, identify, identify_self
from batonpass.worker.dispatch import launch
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.graph import Item
from batonpass.worker.journal import Journal
from batonpass.worker.outlook import outlook
from batonpass.worker.pace import INTERVAL_S, MAX_INTERVAL_S, Pace
from batonpass.worker.pulse import Pulse
from batonpass.worker.record import RunRecord, Stopped, timestamp
from batonpass.worker.select import Kind, Skipped
from batonpass.worker.settings import Settings
from batonpass.worker.shift import Phase, Shift
from batonpass.worker.worker import Width, Worker

NOW: Final = datetime(2026, 12, 1, 12, tzinfo=UTC)
NEWS_S_MAX: Final = 8.0


class DoneForGood(MemoryGraph):
    """A graph whose items are done once a run has had them."""

    def release(self, fence: Fence) -> None:
        """End the tenure and take the item out of the queue."""
        super().release(fence)
        self.items.pop(NodeId(fence.resource), None)


@dataclass
class Box:
    """A box whose clock is moved by hand."""

    graph: MemoryGraph
    repo: Repo
    home: Path
    scratch: Path
    now_s: float = 1000.0
    said: list[str] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    made: list[InThread] = field(default_factory=list)

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.now_s - 1000)

    def shift(self, *command: str, noticed: Callable[[Shift], None] = lambda _: None, **pace: Any) -> Shift:  # noqa: ANN401
        settings = Settings(home=self.home, inherited=self.repo.person, graces=Graces(0.2, 0.5, 5))
        starter = InThread(self.graph, now=self.now)
        self.made.append(starter)
        worker = Worker(
            graph=self.graph,
            settings=replace(settings, **self.settings),
            order=Order(command=command or ("true",), folder=self.repo.folder),
            now=self.now,
            clock=lambda: self.now_s,
            interrupted=threading.Event(),
            say=self.said.append,
            starter=starter,
        )
        return Shift(worker, Pace(**pace), noticed=noticed)

    def at_work(self, **pace: Any) -> Shift:  # noqa: ANN401
        """Return a shift whose one run has begun: its child has said that it is ready, and waits to be let go."""
        ready, go = self.scratch / "ready", self.scratch / "go"
        os.mkfifo(ready)
        os.mkfifo(go)
        one = self.shift("sh", "-c", f"echo > {ready}; read _ < {go}; exit 0", **pace)
        self.until(one, lambda: bool(one.slots) and not one.slots[0].launching)
        ready.read_text()
        return one

    def let_go(self) -> None:
        (self.scratch / "go").write_text("\n")

    def until(self, one: Shift, reached: Callable[[], bool]) -> None:
        """Step until something is so; between the steps wait for news, not for time."""
        while not reached():
            if one.step() == 0:
                continue
            if not reached():
                one.worker.news.get(timeout=NEWS_S_MAX)

    def over(self, one: Shift, runs: int) -> None:
        self.until(one, lambda: len(one.own) >= runs and not one.slots)

    def drain(self, one: Shift) -> None:
        one.worker.stopping.set()
        while one.step() is not None:
            one.worker.news.get(timeout=NEWS_S_MAX)


@pytest.fixture
def box(tmp_path: Path, repo: Repo) -> Iterator[Box]:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    made = Box(DoneForGood(), repo, tmp_path / "baton", scratch)
    yield made
    for supervisor in [one for starter in made.made for one in starter.started]:
        supervisor.terminate()
        assert supervisor.wait(NEWS_S_MAX)


# Slots


def test_as_many_runs_are_on_their_way_as_there_are_slots(box: Box) -> None:
    for number in range(5):
        box.graph.add_item(f"task-{number}")
    most: list[int] = []
    one = box.shift("true", concurrency=2, noticed=lambda each: most.append(len(each.slots)))

    box.over(one, 5)

    assert max(most) == 2
    assert [record.node_id for record in one.own if record.state is State.DONE] == [r.node_id for r in one.own]
    assert len({record.node_id for record in one.own}) == 5
    box.drain(one)


def test_two_workers_with_many_items_do_none_twice(box: Box) -> None:
    for number in range(12):
        box.graph.add_item(f"task-{number}")
    first, second = box.shift("true", concurrency=2), box.shift("true", concurrency=2)

    while len(first.own) + len(second.own) < 12:
        for one in (first, second):
            one.step()
            if one.slots:
                one.worker.news.get(timeout=NEWS_S_MAX)

    done = [record.node_id for one in (first, second) for record in one.own]
    assert len(done) == len(set(done)) == 12
    assert first.own
    assert second.own
    box.drain(first)
    box.drain(second)


def test_no_more_runs_are_begun_than_was_said(box: Box) -> None:
    for number in range(4):
        box.graph.add_item(f"task-{number}")
    one = box.shift("true", concurrency=2, max_runs=3)

    one.run()

    assert (len(one.own), one.stop_reason) == (3, "3 runs")
    assert len(box.graph.items) == 1


def test_a_lost_race_moves_on_within_the_round(box: Box) -> None:
    first = box.graph.add_item("task-1")
    box.graph.add_item("task-2")
    box.graph.failing["next"] = lambda: box.graph.take_over(first)
    one = box.shift("true", once=True)

    one.run()

    assert [record.node_id for record in one.own] == ["task-2"]
    assert len(box.graph.done("next")) == 1


# Waiting


def test_an_empty_queue_is_waited_for_and_not_asked_again(box: Box) -> None:
    waits: queue.SimpleQueue[str] = queue.SimpleQueue()
    box.graph.waits = lambda _after: waits.get(timeout=NEWS_S_MAX)
    one = box.shift("true")

    assert one.step() == pytest.approx(shift.REAP_S)
    box.now_s += 20
    one.step()
    assert len(box.graph.done("page")) == 1
    box.graph.add_item("task-1")
    waits.put("1000")
    box.over(one, 1)

    assert one.own[0].node_id == "task-1"
    waits.put("2000")
    box.drain(one)


def test_a_busy_queue_is_looked_at_once_a_second_at_most(box: Box) -> None:
    numbers = iter(range(10_000, 20_000))
    box.graph.waits = lambda _after: str(next(numbers))
    one = box.shift("true")
    one.step()

    one.worker.news.get(timeout=NEWS_S_MAX)
    assert one.step() == pytest.approx(shift.GAP_S)
    assert len(box.graph.done("page")) == 1
    box.now_s += shift.GAP_S
    one.step()

    assert len(box.graph.done("page")) == 2
    box.drain(one)


@given(misses=st.integers(min_value=1, max_value=10_000), interval_s=st.floats(1, 86_400), cap_s=st.floats(1, 86_400))
def test_a_server_that_is_away_is_left_alone_longer_each_time_up_to_the_cap(
    misses: int, interval_s: float, cap_s: float
) -> None:
    pace = Pace(interval_s=interval_s, max_interval_s=cap_s)

    assert pace.backoff_s(misses) <= cap_s
    assert pace.backoff_s(misses + 1) == min(cap_s, max(2 * pace.backoff_s(misses), pace.backoff_s(misses)))
    assert pace.backoff_s(1) == min(interval_s, cap_s)


@pytest.mark.parametrize("error", [Unavailable("nobody answers"), Paused("the server is paused")])
def test_a_server_that_is_away_is_unknown_and_never_nothing_to_do(box: Box, error: BatonError) -> None:
    box.graph.add_item("task-1")
    box.graph.failing["caller"] = failing_with(error, times=2)
    one = box.shift("true")

    one.step()
    assert (one.phase, one.why) == (Phase.WAITING, f"unknown because {error.message}")
    assert one.next_look_s == box.now_s + INTERVAL_S
    box.now_s += INTERVAL_S
    one.step()
    assert one.next_look_s == box.now_s + 2 * INTERVAL_S
    assert box.said == [f"what there is to take is unknown because {error.message}"]
    box.now_s += 2 * INTERVAL_S
    box.over(one, 1)

    assert one.why == ""
    box.drain(one)


def test_a_server_that_cannot_wait_is_asked_now_and_then(box: Box) -> None:
    one = box.shift("true")
    one.step()
    one.worker.news.get(timeout=NEWS_S_MAX)

    one.step()

    assert one.next_look_s == box.now_s + INTERVAL_S
    box.now_s = one.next_look_s
    one.step()
    one.worker.news.get(timeout=NEWS_S_MAX)
    one.step()
    assert len(box.graph.done("page")) == 2
    assert one.next_look_s == box.now_s + 2 * INTERVAL_S
    box.drain(one)


def test_a_token_that_was_revoked_ends_the_worker_once_its_runs_are_over(box: Box) -> None:
    box.graph.add_item("task-1")
    box.graph.add_item("task-2")
    one = box.at_work()
    box.graph.failing["caller"] = failing_with(Unauthorized("this token was revoked"))
    box.let_go()

    with pytest.raises(Unauthorized, match="revoked"):
        one.run()

    assert [record.pending_for for record in one.own] == ["unauthorized"], "the next start settles it"
    assert len(box.graph.done("next")) == 1


@pytest.mark.parametrize("method", ["caller", "page"])
@pytest.mark.parametrize("error", [Unauthorized("this token was revoked"), Unavailable("nobody answers")])
def test_an_outlook_without_an_answer_is_unknown_and_changes_nothing(box: Box, method: str, error: BatonError) -> None:
    box.graph.add_item("task-1")
    worker = box.shift("true").worker
    assert outlook(worker).lines() == ["would take: task-1"]
    box.graph.failing[method] = failing_with(error)

    found = outlook(worker)

    assert found.lines() == [f"to take: unknown because {error.message}"]
    assert (found.as_document()["known"], found.as_document()["unknown_because"]) == (False, error.message)
    assert box.graph.done("next") == []
    assert not box.home.exists()


def test_what_cannot_be_launched_here_is_refused_at_the_start(box: Box) -> None:
    one = box.shift("no-such-agent")

    with pytest.raises(LaunchRefused, match="no-such-agent"):
        one.run()

    assert box.graph.done("next") == []


# What is left alone


def test_what_a_run_left_undone_is_left_alone_for_as_long_as_was_said(box: Box) -> None:
    box.graph = MemoryGraph()
    box.graph.add_item("task-1")
    one = box.shift("false")
    box.over(one, 1)
    one.step()
    assert [(one.item, one.kind) for one in one.choice.skipped] == [("task-1", "outcome")]
    assert one.next_look_s <= box.now_s + MAX_INTERVAL_S

    box.now_s += one.worker.retry_after_s
    box.over(one, 2)

    assert [record.node_id for record in one.own] == ["task-1", "task-1"]
    box.drain(one)


def test_a_page_of_items_that_cool_off_is_not_the_end_of_the_queue(box: Box) -> None:
    one = box.shift("true", once=True)
    for number in range(70):
        node = box.graph.add_item(f"task-{number}")
        one.worker.cooling.cool(node, kind="outcome", reason="it failed")
    box.graph.add_item("task-fresh")

    one.run()

    assert [record.node_id for record in one.own] == ["task-fresh"]
    assert box.graph.done("page") == [25, 50, 100]


@given(places=st.lists(st.integers(min_value=0, max_value=999), max_size=8), slots=st.integers(1, 1000))
def test_a_page_is_never_narrower_than_its_base_nor_wider_than_there_is_use_for(places: list[int], slots: int) -> None:
    width = Width.of(slots)

    for place in places:
        while width.now <= place:
            before = width.now
            assert width.widen()
            assert before < width.now <= 2 * before
        width.found(place)
        assert width.base <= width.now <= 1000
        assert (width.now == width.base) or place >= width.base


def test_an_item_whose_profile_this_box_does_not_meet_is_never_claimed(box: Box) -> None:
    box.graph.add_item("task-1")
    box.graph.add_item("task-2")

    def only_the_second(order: Order, item: Item) -> Order:
        if item.id == "task-1":
            raise LaunchRefused("this machine can't do for profile-gpu: no gpu")
        return order

    one = box.shift("true", once=True)
    one.worker = replace(one.worker, order_for=only_the_second)
    one.run()

    assert [record.node_id for record in one.own] == ["task-2"]
    assert ("task-1", "refusal") in [(skipped.item, skipped.kind) for skipped in one.choice.skipped]


def test_an_open_breaker_takes_nothing_and_says_so_until_one_run_has_tried(box: Box) -> None:
    for number in range(3):
        box.graph.add_item(f"task-{number}")
    failed = replace(_record(box), termination_class=Ended.ENVIRONMENT, termination_reason="rate limited")
    Breakers(box.home).note(failed, box.now())
    one = box.shift("true", concurrency=3)

    one.step()
    assert box.graph.done("next") == []
    assert any("rate limited; it is tried again at" in line for line in box.said)
    box.now_s += 60
    most: list[int] = []
    one.step()
    most.append(len(one.slots))
    box.over(one, 3)

    assert most == [1], "half open lets one through"
    assert Breakers(box.home).all() == {}
    box.drain(one)


def test_a_full_disk_takes_nothing_and_says_so(box: Box) -> None:
    box.graph.add_item("task-1")
    box.settings["disk_free_min"] = 2**60
    one = box.shift("true")

    one.step()

    assert box.graph.calls == []
    assert (one.phase, "work.diskFreeMin" in one.why) == (Phase.WAITING, True)
    box.drain(one)


# The end, and what others left


def test_the_first_signal_drains_and_the_second_stops_and_settles(box: Box) -> None:
    box.graph.add_item("task-1")
    box.graph.add_item("task-2")
    one = box.at_work()

    one.worker.stopping.set()
    assert one.step() is not None
    one.worker.interrupted.set()
    box.drain(one)

    assert [record.stopped_for for record in one.own] == [Stopped.INTERRUPTED]
    assert one.own[0].is_settled
    assert (one.phase, one.stop_reason) == (Phase.STOPPED, "told to stop its runs")
    assert len(box.graph.done("next")) == 1


def test_a_terminal_that_goes_away_leaves_the_runs_alone(box: Box) -> None:
    box.graph.add_item("task-1")
    one = box.at_work()

    one.worker.stopping.set()
    one.worker.leaving.set()
    assert one.step() is None

    ((run),) = Journal(box.home).unsettled()
    assert run.is_held()
    box.let_go()
    assert box.made[0].started[0].wait(NEWS_S_MAX)
    assert run.read().is_settled


def test_a_run_of_a_dead_worker_counts_to_the_slots_until_it_is_over(box: Box) -> None:
    box.graph.add_item("task-1")
    here = identify_self()
    dead = replace(here, started=here.started + 1)
    record = _running(box, worker=dead, worker_id="a-worker-that-died")
    with Journal(box.home).create(record) as run:
        one = box.shift("true")
        one.step()
        assert [each.record.run_id for each in one.adopted] == [record.run_id]
        assert box.graph.done("next") == []
        run.change(run.read(), runner=dead)
    one.adopted[0] = replace(one.adopted[0], record=replace(one.adopted[0].record, runner=dead))
    box.now_s += shift.ADOPTED_LOOK_S
    box.over(one, 1)

    assert one.adopted == []
    assert one.own[0].node_id == "task-1"
    assert record.run_id in [each.run_id for each in one.records], "it was settled, since nobody had it"
    box.drain(one)


def test_a_run_that_a_person_dispatched_takes_no_slot_and_is_not_stopped(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[object] = []
    monkeypatch.setattr(shift, "tell", lambda *words: told.append(words))
    box.graph.add_item("task-1")
    here = identify_self()
    with Journal(box.home).create(_running(box, worker=replace(here, started=here.started + 1))):
        one = box.shift("true")
        box.over(one, 1)
        one.worker.interrupted.set()
        box.drain(one)

    assert [record.node_id for record in one.own] == ["task-1"]
    assert one.adopted == []
    assert told == []


def test_one_question_at_a_time_waits_at_the_server(box: Box) -> None:
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    waits: queue.SimpleQueue[str] = queue.SimpleQueue()

    def wait(after: str) -> str:
        asked.put(after)
        return waits.get(timeout=NEWS_S_MAX)

    box.graph.waits = wait
    one = box.shift("true", interval_s=2, max_interval_s=2)
    for _ in range(3):
        one.step()
        box.now_s += 2

    assert len(box.graph.done("page")) == 3
    asked.get(timeout=NEWS_S_MAX)
    assert asked.empty()
    waits.put("1000")
    one.worker.news.get(timeout=NEWS_S_MAX)
    one.step()
    asked.get(timeout=NEWS_S_MAX)
    waits.put("2000")
    box.drain(one)


def _running(box: Box, *, worker: Identity, worker_id: str | None = None) -> RunRecord:
    """Return the record of a run whose supervisor lives: here it is whoever started the test."""
    return replace(
        _record(box),
        state=State.RUNNING,
        node_id=NodeId("task-0"),
        name="task-0",
        worker=worker,
        worker_id=worker_id,
        runner=identify(os.getppid()),
    )


def _record(box: Box) -> RunRecord:
    one = box.shift("true")
    ground = launch.survey(one.worker.order, one.worker.settings)
    record = launch.new_record(one.worker.order, ground, server=box.graph.server, caller=box.graph.me, now=box.now())
    return replace(record, created_at=timestamp(box.now()), node_type="task", epoch=1)


# The status file


def test_the_status_file_says_what_the_worker_is_at(box: Box) -> None:
    box.graph.add_item("task-1")
    box.graph.add_item("task-2", readiness="human")
    board = status.Board(box.home, NOW)
    one = box.at_work(noticed=board.note, concurrency=2)
    one.step()

    (seen,) = status.workers(box.home)
    assert (seen.state, seen.pid, seen.dispatched) == (Phase.WORKING, os.getpid(), 1)
    assert [each.node_id for each in seen.active] == ["task-1"]
    assert [(each.id, each.kind) for each in seen.skipped] == [("task-2", "human"), ("task-1", "leased")][:1]
    box.let_go()
    box.drain(one)

    (seen,) = status.workers(box.home)
    assert (seen.state, seen.stop_reason, seen.active) == (Phase.STOPPED, "told to stop", [])
    assert [each.node_id for each in seen.recent] == ["task-1"]
    assert (seen.outcomes["failed"], seen.recent_total) == (1, 1)


def test_a_worker_that_is_gone_without_a_word_is_stale_whoever_has_its_number(box: Box) -> None:
    one = box.shift("true")
    here = identify_self()
    said = status.status_of(one, identity=replace(here, started=here.started + 1), started_at=NOW)

    assert status.as_it_is(said).state == status.STALE
    assert status.as_it_is(status.status_of(one, identity=here, started_at=NOW)).state == Phase.IDLE


@given(kinds=st.lists(st.sampled_from(list(Kind)), max_size=130))
def test_a_skip_table_keeps_what_no_look_finds_again(kinds: list[Kind]) -> None:
    skipped = [Skipped(NodeId(f"task-{number}"), "because", kind) for number, kind in enumerate(kinds)]

    shown = status.shown(skipped)

    assert len(shown) == min(len(skipped), status.SKIPPED_MAX)
    assert shown == [one for one in skipped if one in shown], "in the queue's order"
    dear = [one for one in skipped if one.kind in {Kind.REFUSAL, Kind.OUTCOME, Kind.DECLINED, Kind.HARNESS}]
    assert [one for one in shown if one in dear] == dear[: status.SKIPPED_MAX]


def test_files_of_workers_that_are_long_gone_are_removed_and_others_stay(box: Box) -> None:
    one = box.shift("true")
    here = identify_self()
    folder = box.home / "work"
    folder.mkdir(parents=True)
    for name, identity in {"gone": replace(here, started=here.started + 1), "here": here}.items():
        said = status.status_of(one, identity=identity, started_at=NOW)
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(said))
        os.utime(folder / f"{name}.json", (0, 0))
    (folder / "fresh.json").write_bytes(b"{")

    status.prune(box.home)

    assert sorted(path.name for path in folder.iterdir()) == ["fresh.json", "here.json"]
    assert len(status.workers(box.home)) == 1, "what can't be read is no worker"


def test_a_machine_beats_every_five_minutes_and_not_where_nothing_was_published() -> None:
    clock, beats = [0.0], list[float]()
    pulse = Pulse(lambda: beats.append(clock[0]), lambda: clock[0])
    for at_s in (0.0, 299.0, 300.0):
        clock[0] = at_s
        if (thread := pulse.note()) is not None:
            thread.join()
    assert beats == [0.0, 300.0]

    def unpublished() -> None:
        beats.append(-1)
        raise NotFound("no capabilities were published")

    never = Pulse(unpublished, lambda: clock[0])
    thread = never.note()
    assert thread is not None
    thread.join()
    clock[0] += 1000

    assert never.note() is None
    assert beats.count(-1) == 1
