"""Eight processes race for one node, two hundred times: one winner a round, whom every loser names (law 1)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import httpx
import pytest

from batonpass.core.clock import MICROS_PER_MS
from batonpass.core.ids import Instant
from batonpass.testing.processes import Site
from batonpass.testing.racer import Racers, racers

ROUNDS: Final = 200
AGENTS: Final = ("a1", "a2", "b1", "b2")
NAMED: Final = ("by", "by_name", "owner", "epoch", "dispatch", "node_id")
CLAIM: Final = "/v1/nodes/task-1/claim"
RELEASE: Final = "/v1/nodes/task-1/release"


def entrants(site: Site) -> list[str]:
    """Two processes for each of four agents, one at each server."""
    return [site.gathered.tokens[agent] for agent in AGENTS for _ in site.servers]


def run_round(field: Racers, tokens: list[str], number: int, *, beyond: int = 0) -> None:
    """Start everybody's claim; each is a launch of its own, also against the other process of its agent."""
    field.start(
        [
            {"token": token, "path": CLAIM, "body": {"dispatch": f"round-{number}-{place}"}, "beyond": beyond}
            for place, token in enumerate(tokens)
        ]
    )


def the_winner(answers: list[dict[str, Any]], epoch: int) -> int:
    """Return the place of the only winner, at `epoch`; every other answer names it and its tenure.

    Not its expiry: a server reads a test's clock when it sends its question,
    not under the lock, so that to a request from just before the instant the
    clock has been set back, and the lease moves by as much.
    """
    statuses = Counter(answer["status"] for answer in answers)
    assert statuses == {200: 1, 409: len(answers) - 1}, answers
    (place,) = (place for place, answer in enumerate(answers) if answer["status"] == 200)
    lease = answers[place]["body"]["lease"]
    assert lease["epoch"] == epoch
    for answer in answers:
        if answer["status"] == 409:
            assert answer["body"]["error"]["code"] == "already_claimed"
            assert {name: answer["body"]["holder"][name] for name in NAMED} == {name: lease[name] for name in NAMED}
    return place


def expiry_of(site: Site) -> Instant:
    """Return when the lease on task-1 is over, to the next whole millisecond."""
    headers = {"Authorization": f"Bearer {site.gathered.tokens['ada']}"}
    node = httpx.get(f"{site.servers[0].url}/v1/nodes/task-1", headers=headers).json()
    return Instant((node["lease"]["expires"] + 1) * MICROS_PER_MS)


@pytest.mark.timeout(240)
def test_of_eight_processes_that_claim_a_free_node_one_wins_each_round(site: Site) -> None:
    tokens, won = entrants(site), Counter[int]()
    with racers([server.port for _ in AGENTS for server in site.servers]) as field:
        for number in range(1, ROUNDS + 1):
            run_round(field, tokens, number)
            place = the_winner(field.answers(), epoch=number)
            won[place] += 1
            field.start([{"token": token, "path": RELEASE, "body": {}} for token in tokens])
            released = field.answers()
            assert released[place]["status"] == 200

    assert won.total() == ROUNDS
    assert len(won) > 1, "it was a race"


@pytest.mark.timeout(240)
def test_of_eight_processes_that_wait_for_the_instant_of_expiry_one_wins_each_round(site: Site) -> None:
    """All are refused in the name of the old tenure, ask again and again, and then the lease is over."""
    tokens, won = entrants(site), Counter[int]()
    with racers([server.port for _ in AGENTS for server in site.servers]) as field:
        run_round(field, tokens, 0)
        the_winner(field.answers(), epoch=1)
        for number in range(1, ROUNDS + 1):
            expiry = expiry_of(site)
            site.clock.set(Instant(expiry - 2 * MICROS_PER_MS))
            run_round(field, tokens, number, beyond=number)
            assert field.answers() == [{"refused": number}] * len(tokens)

            site.clock.set(expiry)

            won[the_winner(field.answers(), epoch=number + 1)] += 1

    assert won.total() == ROUNDS
    assert len(won) > 1, "it was a race"
