"""Breakers (D22): how long a harness is left alone, who may try it again, and what closes it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.ids import AgentId, HolderId, RunId
from batonpass.core.runs import Ended
from batonpass.worker import breaker
from batonpass.worker.breaker import Breaker, Breakers, Trial
from batonpass.worker.crew import identify_self
from batonpass.worker.git import Sha
from batonpass.worker.record import RunRecord, timestamp

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
RUN = RunRecord(
    run_id=RunId("0b101010-1234-4abc-8def-0123456789ab"),
    node_id=None,
    name=None,
    harness="codex",
    cwd="/",
    created_at=timestamp(NOW),
    server="http://baton.test",
    agent=AgentId(HolderId("agent-mill")),
    dispatch="0b101010",
    repository="/",
    base=Sha("a" * 40),
    termination_class=Ended.ENVIRONMENT,
    termination_reason="rate limited",
)
OTHER = RunId("1b101010-1234-4abc-8def-0123456789ab")


@pytest.fixture
def box(tmp_path: Path) -> Breakers:
    return Breakers(tmp_path / "baton")


def ended(
    how: Ended, *, at: datetime, run: RunId = RUN.run_id, began: datetime | None = None, **more: str
) -> RunRecord:
    return replace(RUN, run_id=run, termination_class=how, created_at=timestamp(began or at), **more)  # type: ignore[arg-type]


@given(trips=st.integers(min_value=1, max_value=10_000))
def test_each_time_it_stays_open_twice_as_long_up_to_an_hour(trips: int) -> None:
    span = breaker.span(trips)

    assert breaker.FIRST <= span <= breaker.LONGEST
    assert breaker.span(trips + 1) == min(2 * span, breaker.LONGEST)


@given(
    trips=st.integers(min_value=1, max_value=20),
    late_s=st.integers(min_value=-10_000, max_value=10_000),
    asked_s=st.one_of(st.none(), st.integers(min_value=-10_000, max_value=10_000_000)),
)
def test_it_never_opens_for_less_than_the_service_asked_nor_than_its_turn(
    trips: int, late_s: int, asked_s: int | None
) -> None:
    before = Breaker(trips=trips, opened_at=NOW, until=NOW + breaker.span(trips), why="busy")
    now = NOW + timedelta(seconds=3600)
    asked = None if asked_s is None else now + timedelta(seconds=asked_s)

    after = breaker.tripped(before, now=now, began_at=NOW + timedelta(seconds=late_s), why="busy", retry_at=asked)

    assert after.until >= before.until
    if asked is not None:
        assert after.until >= min(asked, now + breaker.RETRY_AT_MAX)
    if late_s < 0:
        assert after.trips == trips, "it was on its way when the breaker opened, and says nothing new"
    else:
        assert after.trips == trips + 1
        assert after.until >= now + breaker.span(trips + 1)


def test_a_run_that_ended_for_its_environment_opens_its_harness_and_no_other(box: Breakers) -> None:
    box.note(RUN, NOW)

    found = box.waiting("codex", NOW)

    assert str(found) == "codex: rate limited; it is tried again at 2026-12-01T12:01:00.000+00:00"
    assert box.waiting("gemini", NOW) is None
    assert box.waiting("codex", NOW + timedelta(minutes=1)) is None


def test_the_services_own_word_is_waited_for(box: Breakers) -> None:
    box.note(ended(Ended.ENVIRONMENT, at=NOW, retry_at=timestamp(NOW + timedelta(hours=5))), NOW)

    assert box.waiting("codex", NOW + timedelta(hours=4)) is not None
    assert box.waiting("codex", NOW + timedelta(hours=5)) is None


@pytest.mark.parametrize("word", ["soon", "2026-12-01T17:00:00", ""])
def test_a_moment_that_is_none_is_no_word_at_all(box: Breakers, word: str) -> None:
    box.note(ended(Ended.ENVIRONMENT, at=NOW, retry_at=word), NOW)

    assert box.all()["codex"].until == NOW + breaker.FIRST


def test_half_open_lets_one_run_through_and_its_good_end_closes_it(box: Breakers) -> None:
    box.note(RUN, NOW)
    later = NOW + timedelta(minutes=2)

    assert box.admit("codex", OTHER, later) is None
    second = box.admit("codex", RUN.run_id, later)
    assert "one run is trying" in str(second)
    box.note(ended(Ended.COMPLETED, at=later, run=OTHER), later)

    assert box.all() == {}
    assert box.admit("codex", RUN.run_id, later) is None


def test_a_trial_that_fails_the_same_way_opens_it_for_twice_as_long(box: Breakers) -> None:
    box.note(RUN, NOW)
    later = NOW + timedelta(minutes=2)
    box.admit("codex", OTHER, later)

    box.note(ended(Ended.ENVIRONMENT, at=later, run=OTHER), later)

    assert box.waiting("codex", later + timedelta(seconds=119)) is not None
    assert box.admit("codex", OTHER, later + timedelta(seconds=120)) is None


@pytest.mark.parametrize("how", [Ended.FAILED, Ended.IDLE, Ended.UNKNOWN])
def test_a_trial_that_says_nothing_of_the_service_lets_another_try(box: Breakers, how: Ended) -> None:
    box.note(RUN, NOW)
    later = NOW + timedelta(minutes=2)
    box.admit("codex", OTHER, later)

    box.note(ended(how, at=later, run=OTHER), later)

    assert box.all()["codex"].trips == 1
    assert box.admit("codex", RUN.run_id, later) is None


def test_a_trial_that_came_to_no_run_is_given_up_by_its_own_name_only(box: Breakers) -> None:
    box.note(RUN, NOW)
    later = NOW + timedelta(minutes=2)
    box.admit("codex", OTHER, later)

    box.retract("codex", RUN.run_id)
    assert box.admit("codex", RUN.run_id, later) is not None
    box.retract("codex", OTHER)

    assert box.admit("codex", RUN.run_id, later) is None


def test_the_trial_of_a_dead_worker_is_nobodys(box: Breakers, tmp_path: Path) -> None:
    box.note(RUN, NOW)
    later = NOW + timedelta(minutes=2)
    box.admit("codex", OTHER, later)
    path = tmp_path / "baton" / breaker.FILE
    here = identify_self()
    dead = replace(box.all()["codex"], trial=Trial(OTHER, replace(here, started=here.started + 1)))
    path.write_bytes(msgspec.json.encode({"codex": dead}))

    assert box.admit("codex", RUN.run_id, later) is None


def test_a_file_that_cannot_be_read_counts_as_none(box: Breakers, tmp_path: Path) -> None:
    box.note(RUN, NOW)
    (tmp_path / "baton" / breaker.FILE).write_bytes(b'{"codex": {')

    assert box.admit("codex", OTHER, NOW) is None
    box.note(RUN, NOW)

    assert box.waiting("codex", NOW) is not None
