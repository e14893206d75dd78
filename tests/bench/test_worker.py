"""What a run costs becomes figures: parts add up, a ratio is of one moment, stamps come from two processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from batonpass.core import points
from bench import stamps
from bench.percentiles import percentile
from bench.worker import PARTS, Bare, Start, begin_of

MS = 1_000_000


@pytest.fixture(autouse=True)
def _disarmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(points, "armed", {})


def start(whole_ms: int, *, worktree_ms: float = 3.0, python_ms: float = 1.0) -> Start:
    """A start whose last part takes what is left of `whole_ms` after one millisecond for each other."""
    ended = {point: (7 + at) * MS for at, (_, point) in enumerate(PARTS, start=1)}
    return Start(7 * MS, {**ended, "child": (7 + whole_ms) * MS}, Bare(worktree_ms, python_ms, true_ms=0.5))


def test_the_parts_of_a_start_add_up_to_all_of_it() -> None:
    took = start(20).part_ms()

    assert took == [1.0] * (len(PARTS) - 1) + [20.0 - (len(PARTS) - 1)]
    assert sum(took) == start(20).whole_ms


def test_a_start_stands_beside_what_git_and_an_interpreter_took_at_that_moment() -> None:
    begun = begin_of(1, [start(8), start(80, worktree_ms=39.0), start(40, worktree_ms=7.0, python_ms=3.0)])

    assert begun.ratio == 2.0, "the ratios are 2, 2 and 4"
    assert (begun.p50_ms, begun.p99_ms, begun.items) == (40.0, 80.0, 3)
    assert begun.worktree_ms == 7.0
    assert begun.parts[-1].what == PARTS[-1][0]


def test_of_few_values_the_slowest_is_the_last_hundredth() -> None:
    assert percentile([3.0, 1.0, 2.0], 99) == 3.0
    assert percentile([float(n) for n in range(1_000)], 99) == 990.0


def test_each_point_of_a_supervisor_is_stamped_for_another_process_to_read(tmp_path: Path) -> None:
    stamps.keep(str(tmp_path / "stamps"))

    for name in stamps.SUPERVISORS:
        points.reach(name)

    read = stamps.read(tmp_path / "stamps")
    assert list(read) == list(stamps.SUPERVISORS)
    assert sorted(read.values()) == list(read.values())


def test_a_slot_is_told_of_its_own_claim_once() -> None:
    stamps.keep_here()
    stamps.taken()

    points.reach("claim.answered")

    assert list(stamps.taken()) == ["claim.answered"]
    assert stamps.taken() == {}


def test_the_parts_end_at_points_that_are_stamped() -> None:
    assert [point for _, point in PARTS] == [*stamps.WORKERS, *stamps.SUPERVISORS, "child"]
