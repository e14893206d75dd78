"""People, their agents and some tasks around a server: what tests of leases act with.

    gathered = Gathered(url, await gather(url))                 # once; then the database may be copied
    async with crew(gathered, clock=clock) as team:
        first = await team.verb("a1", "claim", "task-1", dispatch="u1")
        run = await team.mint("a1", "task-1", first.epoch)      # the name of a run token
        late = await team.verb(run, "renew", "task-1")
        assert late.code == "lease_lost"

Ada is an admin. Ann owns the agents a1 and a2, Ben b1 and b2. Everything goes
through the routes; `at` picks one of the servers over the same database.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx
import psycopg

from batonpass.core.clock import MICROS_PER_S, Clock
from batonpass.core.ids import Resource
from batonpass.core.leases import Lease
from batonpass.core.tokens import Secret, hash_of
from batonpass.server.services.identity import Identity
from batonpass.server.services.tokens import Tokens
from batonpass.store import leases
from batonpass.store.base import Store
from batonpass.store.sqlite import SqliteStore
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import POLL_S, WAIT_S_MAX
from batonpass.testing.populated import serving
from batonpass.testing.server import InProcessServer, in_process_server

TASKS: Final = tuple(f"task-{n}" for n in range(1, 7))
PROJECT: Final = "mail"


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply of whatever status, with the parts of it that tests of leases look at."""

    status: int
    body: Any  # a reply as JSON, whatever the route's
    headers: Mapping[str, str]

    @property
    def ok(self) -> bool:
        """Whether the request was carried out."""
        return httpx.codes.is_success(self.status)

    @property
    def code(self) -> str | None:
        """The error's code, or None."""
        return None if self.ok else self.body["error"]["code"]

    @property
    def lease(self) -> dict[str, Any]:
        """The lease of a grant."""
        assert self.ok, self
        lease: dict[str, Any] = self.body["lease"]
        return lease

    @property
    def epoch(self) -> int:
        """The epoch of a grant."""
        return int(self.lease["epoch"])

    @property
    def holder(self) -> str | None:
        """Who a refusal names, or None."""
        holder = self.body.get("holder")
        return None if holder is None else str(holder["by"])


@dataclass(slots=True)
class Crew:
    """Everybody's tokens and the servers they speak to."""

    url: str
    servers: list[InProcessServer]
    tokens: dict[str, str]
    _serial: Iterator[int] = field(default_factory=itertools.count)

    @property
    def server(self) -> InProcessServer:
        """The first server."""
        return self.servers[0]

    async def send(
        self,
        who: str,
        method: str,
        path: str,
        body: object = None,
        *,
        at: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request under a token of `who`."""
        sent = await self.servers[at].send(
            method, path, {} if body is None and method != "GET" else body, token=self.tokens[who], headers=headers
        )
        return Answer(sent.status_code, sent.json(), sent.headers)

    async def verb(
        self,
        who: str,
        verb: str,
        node: str = "task-1",
        *,
        at: int = 0,
        headers: Mapping[str, str] | None = None,
        **body: object,
    ) -> Answer:
        """Send one lease or node verb on `node`."""
        return await self.send(who, "POST", f"/v1/nodes/{node}/{verb}", body, at=at, headers=headers)

    async def queue(self, who: str, verb: str, *, at: int = 0, **body: object) -> Answer:
        """Send one of the bulk verbs, or `next`."""
        return await self.send(who, "POST", f"/v1/queue/{verb}", body, at=at)

    async def mint(self, who: str, node: str, epoch: int, *, of: str | None = None, **wish: object) -> str:
        """Mint the run token of a tenure of the agent `of`, by default `who`, and return the name it goes by here."""
        minted = await self.try_mint(who, node, epoch, of=of, **wish)
        assert minted.ok, minted
        return self.known(minted.body["token"])

    async def try_mint(self, who: str, node: str, epoch: int, *, of: str | None = None, **wish: object) -> Answer:
        """Ask for the run token of a tenure and return the answer."""
        asked = {"lease": {"node": node, "epoch": epoch}, **wish}
        return await self.send(who, "POST", f"/v1/agents/agent-{of or who}/token", asked)

    def known(self, token: str) -> str:
        """Return a name under which `token` may be used here."""
        name = f"token-{next(self._serial)}"
        self.tokens[name] = token
        return name

    async def revoke(self, who: str, run: str, *, of: str) -> Answer:
        """Revoke the run token called `run`, of the agent `of`."""
        listed = await self.send(who, "GET", f"/v1/agents/agent-{of}/tokens")
        prefixes = {token["hash_prefix"] for token in listed.body["tokens"]}
        wanted = hash_of(Secret(self.tokens[run]))
        (prefix,) = (prefix for prefix in prefixes if wanted.startswith(prefix))
        return await self.send(who, "DELETE", f"/v1/agents/agent-{of}/tokens/{prefix}")

    async def row(self, node: str = "task-1") -> Lease:
        """Return the lease row of `node` as committed."""
        async with self.server.store.read() as tx:
            return (await leases.leases_of(tx, [Resource(node)]))[Resource(node)]

    async def write(self, who: str, *nodes: Mapping[str, object], at: int = 0, **options: object) -> Answer:
        """Put nodes."""
        return await self.send(who, "POST", "/v1/nodes", {"nodes": list(nodes), **options}, at=at)


def task(node: str, **more: object) -> dict[str, object]:
    """Return a task as JSON, ready for `Crew.write`."""
    return {"id": node, "type": "task", "title": node, "summary": "to do", "project": PROJECT, **more}


@dataclass(frozen=True, slots=True)
class Gathered:
    """A database in which everybody has been gathered, and their tokens."""

    url: str
    tokens: Mapping[str, str]


async def gather(url: str, *, clock: Clock | None = None) -> dict[str, str]:
    """Make everybody and the tasks in the empty database at `url`, close it, and return everybody's tokens.

    Without a `clock` it is done when a `ManualClock` begins.
    """
    async with in_process_server(url, clock=clock or ManualClock()) as server:
        tokens = {"ada": server.admin_token}
        for owner, labels in (("ann", ("a1", "a2")), ("ben", ("b1", "b2"))):
            tokens[owner] = await server.add_person(owner.capitalize())
            for label in labels:
                tokens[label] = await server.add_agent(label, token=tokens[owner], standing=True)
        await server.ask("POST", "/v1/nodes", {"nodes": [task(node) for node in TASKS]})
    return tokens


@asynccontextmanager
async def crew(gathered: Gathered, *, clock: Clock, servers: int = 1) -> AsyncIterator[Crew]:
    """Serve a database in which everybody has been gathered, from `servers` servers in this process.

    Tokens are remembered by `clock` too: while it stands still, a server that
    has seen a token knows nothing of its end but what the lease row says.
    """
    async with AsyncExitStack() as stack:
        running = [
            await stack.enter_async_context(serving(gathered.url, clock=clock, token=gathered.tokens["ada"]))
            for _ in range(servers)
        ]
        for server in running:
            _remember_by(clock, server)
        yield Crew(gathered.url, running, dict(gathered.tokens))


def _remember_by(clock: Clock, server: InProcessServer) -> None:
    def seconds() -> float:
        moment = clock.moment()
        return time.monotonic() if moment is None else moment / MICROS_PER_S

    identity = Identity(server.store, monotonic_s=seconds)
    tokens = Tokens(server.store, identity.principals)
    server.app.state.services = replace(server.services, identity=identity, tokens=tokens)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that nothing signals, looking every now and then, and not for ever."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not await condition():  # noqa: ASYNC110  # nobody signals what only the database can see
            await asyncio.sleep(POLL_S)


async def waits(team: Crew, request: asyncio.Future[Any], *, at: int = 0) -> None:
    """Return once `request`, sent to the server `at`, waits for a lock; raise when it is answered instead."""
    async with _lock_waits(team.servers[at].store, team.url) as waiting:

        async def waiting_or_answered() -> bool:
            return request.done() or await waiting()

        await until(waiting_or_answered)
    assert not request.done(), f"it does not wait: {request}"


@asynccontextmanager
async def _lock_waits(store: Store, url: str) -> AsyncIterator[Callable[[], Awaitable[bool]]]:
    """Give a function that says whether anybody waits for a lock of the database."""
    if isinstance(store, SqliteStore):

        async def waiting_for_a_turn() -> bool:
            return bool(store._waiting)  # noqa: SLF001  # nothing outside the store can see who waits for its turn

        yield waiting_for_a_turn
        return
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def waiting_for_a_lock() -> bool:
            cursor = await connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
            row = await cursor.fetchone()
            return row is not None and row[0] > 0

        yield waiting_for_a_lock
