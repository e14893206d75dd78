"""What is asked of the server, and beside which limit each rate is put."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from batonpass.wire import paths
from bench.load import Job
from bench.seed import BULK, CLAIMED, HELD, QUEUED, SESSION, Fleet, Pool
from bench.served import Server

ME: Final = "GET /v1/me"
BULK_LEASES: Final = BULK.count // BULK.agents


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
    pool: Pool
    beside: tuple[Aim, ...] = ()
    p99_ms_aim: float | None = None
    body: str = ""
    per_call: int = 1
    takes: bool = False

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
