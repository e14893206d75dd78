"""What is asked of the server, and beside which limit each rate is put."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
from msgspec.structs import replace

from batonpass.wire import paths
from bench.load import Job
from bench.seed import (
    BULK,
    CLAIMED,
    FREE_RECORDS,
    HELD,
    HELD_RECORDS,
    QUEUED,
    RECORD_CLASS,
    SESSION,
    WORK,
    Fleet,
    Pool,
    RecordPool,
)
from bench.served import Server

ME: Final = "GET /v1/me"
BULK_LEASES: Final = BULK.count // BULK.agents
UNDOING: Final = 32
UNDOING_S_MAX: Final = 120.0
"""From how many connections, and for how long at most, what was taken is given back."""


@dataclass(frozen=True, slots=True)
class Aim:
    """At least `ratio` of a limit: `claim` or `renew` of the database alone, or what the server does of `ME`."""

    limit: str
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Probe:
    """One kind of request from so many connections, again and again.

    `per_call` is how many leases one request is about. `beside` is what its rate is
    divided by. What `takes` free nodes has to give them back afterwards.
    """

    group: str
    what: str
    connections: int
    method: str
    path: str
    pool: Pool | RecordPool
    beside: tuple[Aim, ...] = ()
    p99_ms_aim: float | None = None
    body: str = ""
    per_call: int = 1
    takes: bool = False
    undo: str = ""
    """What is sent once more to each that was taken, to give it back; without it what agents hold is released."""

    def job(self, server: Server, fleet: Fleet, seconds: float) -> Job:
        """Return what the load generator is to do."""
        return Job(
            host="127.0.0.1",
            port=server.port,
            tokens=fleet.agents[: self.pool.agents],
            method=self.method,
            path=self.path,
            bodies=self._bodies(),
            connections=self.connections,
            seconds=seconds,
            cycle=None if self.takes else self.pool.count,
        )

    def undoing(self, job: Job, sent: int) -> Job:
        """Return what gives back what the first `sent` requests of `job` took."""
        return replace(job, bodies=[self.undo], connections=UNDOING, seconds=UNDOING_S_MAX, most=sent)

    def _bodies(self) -> list[str]:
        if self.per_call == 1:
            return [self.body]
        tenures = [[{"node_id": node, "epoch": 1} for node in BULK.of_agent(agent)] for agent in range(BULK.agents)]
        return [msgspec.json.encode({"leases": leases}).decode() for leases in tenures]


def me() -> Probe:
    """Return the plainest request that is authenticated: what HTTP and the token cost."""
    return Probe("renewals", ME, 256, "GET", paths.ME, HELD)


def claims(connections: int, aim: float | None = None, *, p99_ms: float | None = None) -> Probe:
    """Return claims of nodes that nobody holds, each by the next agent."""
    path = paths.CLAIM.format(id=f"task-{CLAIMED.name}-{{i}}")
    body = f'{{"session": "{SESSION}"}}'
    return Probe(
        "claims", "claim", connections, "POST", path, CLAIMED, (Aim("claim", aim),), p99_ms, body=body, takes=True
    )


def renewals(connections: int, aim: float | None = None, *, of_me: float | None = None) -> Probe:
    """Return renewals of leases that are held, each under its epoch, as our own clients send them."""
    path = paths.RENEW.format(id=f"task-{HELD.name}-{{i}}")
    beside = (Aim("renew", aim),) if of_me is None else (Aim("renew", aim), Aim(ME, of_me))
    return Probe("renewals", "renew", connections, "POST", path, HELD, beside, body='{"if_epoch": 1}')


def bulk_renewals(connections: int, aim: float | None = None) -> Probe:
    """Return renewals of all leases an agent holds, a hundred, in one call, each under its epoch."""
    return Probe(
        "bulk",
        f"renew, {BULK_LEASES} a call",
        connections,
        "POST",
        paths.QUEUE_RENEW,
        BULK,
        (Aim("renew", aim),),
        per_call=BULK_LEASES,
    )


def next_items(connections: int) -> Probe:
    """Return `queue/next`: the best item of a project, chosen and claimed."""
    body = f'{{"project": "{QUEUED.name}", "session": "{SESSION}"}}'
    return Probe("next", "next", connections, "POST", paths.QUEUE_NEXT, QUEUED, (Aim("claim"),), body=body, takes=True)


def record_claims(connections: int) -> Probe:
    """Return claims of tasks of records that nobody holds, each by the next agent."""
    path = paths.RECORD_CLAIM.format(record_class=RECORD_CLASS, id=f"{FREE_RECORDS.name}-{{i}}", field=WORK)
    return Probe(
        *("records", "claim a task", connections, "PUT", path, FREE_RECORDS, (Aim("record_claim"),)),
        body="{}",
        takes=True,
        undo='{"lease_seconds": 0}',
    )


def record_puts(connections: int) -> Probe:
    """Return writes of a register, fenced by the claim of the record's task, which whoever writes has."""
    path = paths.RECORD_FIELD.format(record_class=RECORD_CLASS, id=f"{HELD_RECORDS.name}-{{i}}", field="status")
    fence = f'{{"kind": "fence", "field": "{WORK}", "epoch": 1}}'
    body = f'{{"value": "a step of the work is done", "based_on": [{fence}]}}'
    return Probe("records", "fenced put", connections, "PUT", path, HELD_RECORDS, (Aim("record_put"),), body=body)


RECORDS: Final = (*(record_claims(1), record_claims(32)), *(record_puts(1), record_puts(32)))
"""On a database of their own: `bench.records`."""
POSTGRES: Final = (
    me(),
    *(renewals(1), renewals(8), renewals(32), renewals(256, 0.4, of_me=0.5)),
    *(bulk_renewals(1), bulk_renewals(8, 3.0), bulk_renewals(32)),
    *(claims(1), claims(8), claims(32, 0.35, p99_ms=25.0)),
    *(next_items(1), next_items(8), next_items(32)),
)
SQLITE: Final = (
    me(),
    *(renewals(1), renewals(8), renewals(32), renewals(256)),
    *(bulk_renewals(1), bulk_renewals(8), bulk_renewals(32)),
    *(claims(1), claims(8), claims(32, 0.4)),
    *(next_items(1), next_items(8), next_items(32)),
)
SLOW_DISK: Final = (claims(32, 3.0),)
