"""Five workers go for one task through a barrier: one gets it, four are told that it is held, and by whom (law 1).

Some rounds in the suite, a thousand with ``BATON_SOAK=whole``, as `just soak` does; ``BATON_ROUNDS`` is any number.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, Final

import httpx
import pytest

from batonpass.testing.processes import Site
from batonpass.testing.racer import racers

ROUNDS: Final = int(os.environ.get("BATON_ROUNDS", "1000" if os.environ.get("BATON_SOAK") == "whole" else "40"))
WORKERS: Final = tuple(f"remediator/worker-{n}" for n in range(1, 6))
TASK: Final = "/v1/records/incidents/inc-4471/fields/remediation/claim"
CLASS: Final = {
    "fields": {"remediation": {"type": "task", "lease": "300s"}},
    "roles": {"remediator": {"identities": ["apikey:remediator/*"], "read": "*", "claim": "*"}},
}


def keys_of(site: Site) -> list[str]:
    """Apply the class and make a key for each worker."""
    admin = httpx.Client(
        base_url=site.servers[0].url, headers={"Authorization": f"Bearer {site.gathered.tokens['ada']}"}
    )
    with admin:
        admin.put("/v1/classes/incidents", json=CLASS).raise_for_status()
        made = [admin.post("/v1/admin/keys", json={"name": name}).raise_for_status() for name in WORKERS]
    return [each.json()["token"] for each in made]


def sent(tokens: list[str], body: dict[str, object]) -> list[dict[str, object]]:
    return [{"method": "PUT", "token": token, "path": TASK, "body": body} for token in tokens]


def the_winner(answers: list[dict[str, Any]], number: int) -> int:
    """Return the place of the only winner of round `number`; every other answer says HELD, by it and until when."""
    assert Counter(answer["status"] for answer in answers) == {200: 1, 409: len(answers) - 1}, answers
    (place,) = (place for place, answer in enumerate(answers) if answer["status"] == 200)
    won = answers[place]["body"]
    assert won["owner"] == f"apikey:{WORKERS[place]}"
    assert (won["epoch"], won["version"], won["record_version"]) == (number, 2 * number - 1, 2 * number - 1)
    named = {"error": "HELD", **{name: won[name] for name in ("field", "owner", "lease_expires_at", "version")}}
    for answer in answers:
        if answer["status"] == 409:
            assert {name: answer["body"].get(name) for name in named} == named
    return place


@pytest.mark.timeout(900 if ROUNDS > 100 else 120)
def test_of_five_workers_at_a_barrier_one_gets_the_task_each_round(site: Site) -> None:
    tokens, won = keys_of(site), Counter[int]()
    ports = [site.servers[place % len(site.servers)].port for place in range(len(tokens))]
    with racers(ports) as field:
        for number in range(1, ROUNDS + 1):
            field.start(sent(tokens, {}))
            place = the_winner(field.answers(), number)
            won[place] += 1
            field.start(sent(tokens, {"lease_seconds": 0}))
            released = field.answers()
            assert released[place]["status"] == 200
            assert released[place]["body"]["version"] == 2 * number

    assert won.total() == ROUNDS
    assert len(won) > 1, "it was a race"
