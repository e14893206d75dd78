"""Rounds become figures: medians, and each ratio within its own round."""

from __future__ import annotations

import msgspec
import pytest

from bench.figures import Beside, Rounds, Sample
from bench.load import Result
from bench.probes import BULK_LEASES, ME, Probe, bulk_renewals, claims, me, renewals
from bench.seed import BULK, Fleet
from bench.served import Database, Server

FLEET = Fleet("admin", [f"token-{n}" for n in range(128)])


def sample(rate: int, *, busy: float = 0.1) -> Sample:
    result = Result(ops=rate, refused=0, seconds=1.0, p50_ms=2.0, p99_ms=4.0, cpu_seconds=busy, sent=rate)
    return Sample(result, server_s=0.5)


@pytest.fixture
def rounds() -> Rounds:
    return Rounds(Database("sqlite", "sqlite:///x", "x", FLEET), "SQLite")


def only_beside(rounds: Rounds, probe: Probe) -> list[Beside]:
    return next(figure for figure in rounds.figures() if figure.what == probe.what).beside


def test_a_ratio_is_the_median_of_the_rounds_ratios_not_of_their_rates(rounds: Rounds) -> None:
    probe = claims(32, 0.4)
    rounds.samples[probe] = [sample(100), sample(200), sample(900)]
    rounds.rates["claim"] = [200.0, 1000.0, 1000.0]

    assert only_beside(rounds, probe) == [Beside(by="sqlite3", limit="claim", rate=1000.0, ratio=0.5, aim=0.4, ok=True)]


def test_a_bulk_call_counts_its_leases(rounds: Rounds) -> None:
    probe = bulk_renewals(8, 3.0)
    rounds.samples[probe] = [sample(20)]
    rounds.rates["renew"] = [1000.0]

    (figure,) = rounds.figures()

    assert figure.rate == 20 * BULK_LEASES
    assert figure.server_us == pytest.approx(0.5 / 20 / BULK_LEASES * 1_000_000)
    assert figure.beside[0].ratio == 2.0
    assert figure.beside[0].ok is False


def test_a_renewal_is_also_put_beside_what_the_same_server_does_of_me(rounds: Rounds) -> None:
    probe = renewals(256, 0.4, of_me=0.5)
    rounds.samples[me()] = [sample(1000)]
    rounds.samples[probe] = [sample(600)]
    rounds.rates["renew"] = [3000.0]

    assert [(beside.limit, beside.ratio) for beside in only_beside(rounds, probe)] == [("renew", 0.2), (ME, 0.6)]


def test_a_figure_does_not_count_when_the_generator_was_busy(rounds: Rounds) -> None:
    probe = claims(32)
    rounds.rates["claim"] = [1000.0, 1000.0]
    rounds.samples[probe] = [sample(100), sample(100, busy=0.9)]

    (figure,) = rounds.figures()

    assert figure.counts is False


def test_a_bulk_call_is_sent_by_who_holds_its_leases() -> None:
    server = Server("http://127.0.0.1:1", process=None)  # type: ignore[arg-type]  # only its port is asked for
    job = bulk_renewals(1).job(server, FLEET, 1.0)

    assert job.tokens == FLEET.agents[: BULK.agents]
    for agent in (0, 31):
        leases = msgspec.json.decode(job.bodies[agent])["leases"]
        assert [lease["node_id"] for lease in leases] == BULK.of_agent(agent)
        assert len(leases) == BULK_LEASES
