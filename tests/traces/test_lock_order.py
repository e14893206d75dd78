"""Whatever locks leases, classes, records and nodes at once, in one order: a crowd of it meets no deadlock (D44)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Answer, Crew, task

pytestmark = pytest.mark.anyio

ROLE: Final = {"identities": ["agent:*", "person:*"], "read": "*", "write": "*", "claim": "*"}
FIELDS: Final = {
    "status": {"type": "register"},
    "actions": {"type": "append"},
    "remediation": {"type": "task", "lease": "300s"},
    "review": {"type": "task", "lease": "300s"},
}
CLASS: Final = {"fields": FIELDS, "roles": {"all": ROLE}}
NODES: Final = [f"task-{n}" for n in range(1, 4)]
RECORDS: Final = [f"incidents/inc-{n}" for n in range(3)]
TASKS: Final = ["remediation", "review"]
ROUNDS: Final = 8
AT_ONCE: Final = 40

Asked = tuple[str, str, Mapping[str, object]]


def fences(chance: random.Random) -> Mapping[str, str]:
    """Return a header that names up to three tenures, of records and nodes in any order, or none."""
    tasks = [f"record:{record}#{field}" for record in RECORDS for field in TASKS]
    named = chance.sample([*tasks, *NODES], k=chance.choice([0, 0, 0, 2, 3]))
    return {"If-Lease": ", ".join(f"{one}; epoch={chance.randrange(1, 3)}" for one in named)} if named else {}


def of_record(chance: random.Random) -> Asked:
    """Return a write to a record, or to its tasks, on what may be so."""
    record, field = f"/v1/records/{chance.choice(RECORDS)}", chance.choice(TASKS)
    named = chance.choice(["status", "actions", *TASKS])
    fence = {"kind": "fence", "field": field, "epoch": chance.randrange(1, 3)}
    premise = chance.choice([{"field": named, "version": chance.randrange(4)}, fence])
    on = {"based_on": [premise]} if chance.random() < 0.3 else {}
    claim = f"{record}/fields/{field}/claim"
    asked: list[Asked] = [
        ("PUT", f"{record}/fields/status", {"value": 1, **on}),
        ("POST", record, {"writes": [{"field": "actions", "append": 1}, {"field": "status", "put": 2}], **on}),
        ("PUT", claim, {"renew": chance.random() < 0.5, **on}),
        ("PUT", claim, {"lease_seconds": 0, **on}),
        ("DELETE", record, on),
    ]
    return chance.choice(asked)


def of_graph(chance: random.Random) -> Asked:
    """Return a claim or a change of nodes."""
    node = f"/v1/nodes/{chance.choice(NODES)}"
    asked: list[Asked] = [
        ("POST", f"{node}/claim", {}),
        ("POST", f"{node}/priority", {"priority": "p1"}),
        ("POST", "/v1/queue/claim", {"ids": chance.sample(NODES, k=3)}),
        ("POST", "/v1/nodes", {"nodes": [task(each) for each in chance.sample(NODES, k=2)], "if_exists": "update"}),
    ]
    return chance.choice(asked)


def of_class(chance: random.Random) -> Asked:
    """Return another version of the class."""
    some = {**ROLE, "identities": [f"agent:agent-some-{chance.randrange(100)}"]}
    return "PUT", "/v1/classes/incidents", {"fields": FIELDS, "roles": {"all": ROLE, "some": some}}


KINDS: Final[list[tuple[Callable[[random.Random], Asked], int]]] = [(of_record, 12), (of_graph, 6), (of_class, 1)]


@pytest.mark.parametrize("seed", range(2))
async def test_a_crowd_at_every_kind_of_lock_is_answered_and_never_in_a_deadlock(
    team: Crew, clock: ManualClock, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311  # the same draw in every run
    await team.server.ask("PUT", "/v1/classes/incidents", CLASS)

    async def one() -> Answer:
        (kind,) = chance.choices([kind for kind, _ in KINDS], [weight for _, weight in KINDS])
        who = "ada" if kind is of_class else chance.choice(["a1", "a2", "b1", "ann"])
        method, path, body = kind(chance)
        headers = {} if kind is of_class else fences(chance)
        return await team.send(who, method, path, body, at=chance.randrange(2), headers=headers)

    answers: list[Answer] = []
    for _ in range(ROUNDS):
        answers += await asyncio.gather(*(one() for _ in range(AT_ONCE)))
        clock.advance(timedelta(seconds=chance.choice([1, 301])))

    assert [answer for answer in answers if answer.status >= 500] == []
    assert {answer.status for answer in answers} <= {200, 207, 404, 409}
    assert sum(answer.ok for answer in answers) > len(answers) / 4
