"""What was asked at every size becomes figures: medians, growth within a round, and what was aimed for."""

from __future__ import annotations

import pytest

from batonpass.core.identity import person_id_for
from batonpass.core.ids import Instant
from bench.bulk import Filled
from bench.figures import Sample
from bench.load import Result
from bench.scale import NEXT_SIZE, Question, Scaled, Sizes, questions
from bench.seed import Fleet
from bench.served import Database
from bench.world import World
from bench.worlds import Inhabited

AUTHOR = person_id_for("bench@example.org")


def sample(p99_ms: float, *, rate: int = 100) -> Sample:
    result = Result(ops=rate, refused=0, seconds=1.0, p50_ms=1.0, p99_ms=p99_ms, cpu_seconds=0.1, sent=rate)
    return Sample(result, server_s=0.5)


def inhabited(size: int) -> Inhabited:
    world = World(size, Instant(1_790_000_000_000_000), AUTHOR, "Bench <bench@example.org>")
    return Inhabited(Database("sqlite", "sqlite:///x", "x", Fleet("admin", ["token"])), world, Filled(size, 1.0))


def number_of(what: str, connections: int = 1) -> int:
    asked = list(questions(inhabited(1_000).world))
    return next(n for n, one in enumerate(asked) if (one.what, one.connections) == (what, connections))


@pytest.fixture
def sizes() -> Sizes:
    measured = Sizes("SQLite", [inhabited(1_000), inhabited(NEXT_SIZE)])
    for number, _ in enumerate(questions(inhabited(1_000).world)):
        measured.samples[0, number] = [sample(2.0), sample(4.0), sample(4.0)]
        measured.samples[1, number] = [sample(4.0), sample(9.0), sample(6.0)]
    return measured


def figure(sizes: Sizes, what: str, connections: int = 1) -> Scaled:
    return next(one for one in sizes.figures() if (one.what, one.connections) == (what, connections))


def test_growth_is_the_median_of_the_rounds(sizes: Sizes) -> None:
    assert figure(sizes, "page of everything").growth == 2.0


def test_a_page_has_both_its_aims(sizes: Sizes) -> None:
    page = number_of("page of everything")
    assert figure(sizes, "page of everything").ok is True

    sizes.samples[1, page] = [sample(11.0), sample(11.0), sample(11.0)]
    assert figure(sizes, "page of everything").ok is False

    sizes.samples[0, page] = [sample(1.0), sample(1.0), sample(1.0)]
    sizes.samples[1, page] = [sample(3.0), sample(3.0), sample(3.0)]
    assert figure(sizes, "page of everything").ok is False


def test_next_of_many_stands_beside_the_claim_limit_of_the_same_graph(sizes: Sizes) -> None:
    sizes.limits = [300.0, 500.0, 400.0]

    assert figure(sizes, "next", 32).beside == 0.25
    assert figure(sizes, "next", 32).ok is True
    assert figure(sizes, "next").beside is None


def test_what_has_no_aim_is_neither_met_nor_missed(sizes: Sizes) -> None:
    assert figure(sizes, "search: two words").ok is None


def test_of_a_small_graph_no_more_is_taken_than_is_free() -> None:
    (take,) = (one for one in questions(inhabited(1_000).world) if one.takes and one.connections == 1)

    assert _most(take, 1_000) == 150
    assert _most(take, NEXT_SIZE) is None


def _most(question: Question, size: int) -> int | None:
    return question.most(inhabited(size).world)
