"""What the lease game is played against: servers in this process, or server processes that can be killed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx

from batonpass.core.errors import Unavailable, Unknown
from batonpass.core.ids import Instant, NodeId, Resource
from batonpass.core.records import parse_field_name, task_of
from batonpass.core.tokens import PREFIX_HEX_SHOWN, Secret, hash_of
from batonpass.store import leases, nodes, record_history, records
from batonpass.store.backup import backup
from batonpass.store.base import Store
from batonpass.store.events import events_after
from batonpass.store.open import open_store, sqlite_path
from batonpass.store.restore import restore
from batonpass.testing import points, task_game
from batonpass.testing.clock import START, ManualClock, SharedClock
from batonpass.testing.crew import Answer, Crew, Gathered, crew, task
from batonpass.testing.game import Fate, Look
from batonpass.testing.processes import ServerProcess, Site, server_process

EVENTS_MOST: Final = 10_000
ENTRIES_MOST: Final = 1_000
BEFORE_ANY: Final = 2**31
"""Later than any entry of a history."""
STATUS: Final = parse_field_name("status")
FAULTS: Final[Mapping[tuple[str, Fate], tuple[str, Unavailable]]] = {
    ("postgres", Fate.FAILS): ("commit.sent", Unavailable("a fault")),
    ("postgres", Fate.UNKNOWN): ("commit.returned", Unknown("a fault")),
    ("sqlite", Fate.FAILS): ("group.committing", Unavailable("a fault")),
    ("sqlite", Fate.UNKNOWN): ("group.committed", Unknown("a fault")),
}
"""Where a server in this process fails, and with what."""
DOOMS: Final[Mapping[tuple[str, Fate], str]] = {key: point for key, (point, _) in FAULTS.items()}
"""Where a server process is killed."""


@dataclass(slots=True)
class Seats:
    """What both tables share: everybody's tokens, and a store of one's own to look through."""

    tokens: dict[str, str]
    clock: ManualClock | SharedClock
    loop: asyncio.AbstractEventLoop
    store: Store
    _dealt: int = 0
    _items: tuple[str, ...] = ()
    _events: int = 0

    def known(self, token: str) -> str:
        """Return the name under which requests may use a minted token."""
        name = f"token-{len(self.tokens)}"
        self.tokens[name] = token
        return name

    def prefix(self, name: str) -> str:
        """Return the beginning of the hash of a known token."""
        return hash_of(Secret(self.tokens[name]))[:PREFIX_HEX_SHOWN]

    def moment(self) -> Instant:
        """Return what the clock reads."""
        moment: Instant = self.clock.moment()
        return moment

    def advance(self, span: timedelta) -> None:
        """Move the clock."""
        self.clock.advance(span)

    def back_up(self) -> None:
        """Copy the database."""
        raise NotImplementedError

    def restore(self) -> None:
        """Go back to the copy, in a new incarnation."""
        raise NotImplementedError

    def look(self, items: tuple[str, ...]) -> Look:
        """Return what is committed about `items`."""
        return self.loop.run_until_complete(self._look(items))

    async def _look(self, items: tuple[str, ...]) -> Look:
        async with self.store.read() as tx:
            rows = await leases.leases_of(tx, [Resource(item) for item in items])
            found = await nodes.nodes_of(tx, [NodeId(item) for item in items])
            for event in await events_after(tx, self._events, most=EVENTS_MOST):
                self._events = event.seq
        authored = {node: one.authored for node, one in found.items()}
        return Look(
            rows={str(resource): row for resource, row in rows.items()},
            revisions={node: one.revision for node, one in found.items()},
            edges={node: tuple(f"{e.type} {e.to}" for e in one.edges) for node, one in authored.items()},
            commits={node: tuple(_shas(one.extra)) for node, one in authored.items()},
            events=self._events,
        )

    def look_at_task(self, task: Resource) -> task_game.Look:
        """Return what is committed about a record's task."""
        return self.loop.run_until_complete(self._look_at_task(task))

    async def _look_at_task(self, task: Resource) -> task_game.Look:
        record, field = task_of(task)
        fields = frozenset({field, STATUS})
        wanted = record_history.Wanted(BEFORE_ANY, ENTRIES_MOST, ENTRIES_MOST, fields, with_values=True)
        async with self.store.read() as tx:
            rows = await leases.leases_of(tx, [task])
            (found,) = await tx.fetch(records.asked([record]))
            entries, _ = await record_history.page(tx, record, wanted)
            for event in await events_after(tx, self._events, most=EVENTS_MOST):
                self._events = event.seq
        row = records.found(found).get(record)
        return task_game.Look(rows.get(task), row.version if row is not None else 0, tuple(entries), self._events)

    def send(
        self, who: str, method: str, path: str, body: object, *, at: int, fate: Fate = Fate.ANSWERED
    ) -> Answer | None:
        """Send one request to the server `at`, which may fail over it; return its answer, or None when it was lost."""
        raise NotImplementedError

    def set_clock(self) -> None:
        """Set the clock to its start."""
        self.clock.advance(ManualClock(START).moment() * _US - self.clock.moment() * _US)

    def deal(self) -> tuple[str, ...]:
        """Clear the table: nothing is held any more, the clock is at its start; and return two new items to play for.

        The first is routed to an agent by hand.
        """
        for item in self._items:
            self.certainly("ada", f"/v1/nodes/{item}/release", {"reason": "the next game"})
        self.set_clock()
        self._dealt += 1
        self._items = (f"task-game-{self._dealt}", f"task-game-{self._dealt}-b")
        routed = [{"type": "assigned", "to": "agent-a1"}]
        self.certainly("ada", "/v1/nodes", {"nodes": [task(self._items[0], edges=routed), task(self._items[1])]})
        return self._items

    def certainly(self, who: str, path: str, body: object) -> None:
        """Send a request that is no move of the game, and must succeed."""
        answer = self.send(who, "POST", path, body, at=0)
        assert answer is not None
        assert answer.ok, answer


@dataclass(slots=True)
class InProcess(Seats):
    """Servers in this process. Backups are of SQLite files only, which can be replaced."""

    gathered: Gathered = field(kw_only=True)
    team: Crew = field(kw_only=True)
    stack: AsyncExitStack = field(kw_only=True)
    copy: Path | None = None

    def send(
        self, who: str, method: str, path: str, body: object, *, at: int, fate: Fate = Fate.ANSWERED
    ) -> Answer | None:
        """Send one request to the server `at`, which may fail over it; return its answer."""
        self.team.tokens = self.tokens
        with ExitStack() as stack:
            if (fault := FAULTS.get((self.store.dialect, fate))) is not None:
                stack.enter_context(points.failing(*fault))
            return self.loop.run_until_complete(self.team.send(who, method, path, body, at=at))

    def back_up(self) -> None:
        """Copy the database."""
        self.copy = sqlite_path(self.gathered.url).with_suffix(".copy")
        backup(self.gathered.url, self.copy, force=True)

    def restore(self) -> None:
        """Stop the servers, go back to the copy, and start them again."""
        assert self.copy is not None, "nothing was copied"
        self.loop.run_until_complete(self.stack.aclose())
        restore(self.copy, self.gathered.url, replace=True, clock=self.clock)
        self.team = self.loop.run_until_complete(
            self.stack.enter_async_context(crew(self.gathered, clock=self.clock, servers=2))
        )
        self.store, self._events = self.team.server.store, 0


@dataclass(slots=True)
class Processes(Seats):
    """Server processes, which can be killed and started again."""

    site: Site = field(kw_only=True)
    running: list[ServerProcess] = field(kw_only=True)
    stack: ExitStack = field(kw_only=True)
    client: httpx.Client = field(kw_only=True)

    def send(
        self, who: str, method: str, path: str, body: object, *, at: int, fate: Fate = Fate.ANSWERED
    ) -> Answer | None:
        """Send one request to the server `at`, started again if it has died; return its answer, or None if it dies now.

        With a failing `fate` it is killed -9 on the way, before its COMMIT or behind it.
        """
        if (doom := DOOMS.get((self.store.dialect, fate))) is not None:
            self.kill(at, at_point=doom)
        elif self.running[at].process.poll() is not None:
            self.kill(at)
        headers = {"Authorization": f"Bearer {self.tokens[who]}"}
        try:
            sent = self.client.request(method, self.running[at].url + path, json=body, headers=headers)
        except httpx.TransportError:
            return None
        return Answer(sent.status_code, sent.json(), sent.headers)

    def kill(self, at: int, *, at_point: str | None = None) -> None:
        """Kill the server `at` with -9 and start it again, to die at `at_point` if that is given."""
        dead = self.running[at]
        dead.kill()
        spec = f"{at_point}:kill" if at_point is not None else ""
        again = server_process(self.site.gathered.url, clock=self.site.clock, port=dead.port, points=spec)
        self.running[at] = self.stack.enter_context(again)


@contextmanager
def in_process(gathered: Gathered) -> Iterator[InProcess]:
    """Give a table of two servers in this process."""
    loop, clock, stack = asyncio.new_event_loop(), ManualClock(), AsyncExitStack()
    try:
        team = loop.run_until_complete(stack.enter_async_context(crew(gathered, clock=clock, servers=2)))
        yield InProcess(
            dict(gathered.tokens), clock, loop, team.server.store, gathered=gathered, team=team, stack=stack
        )
    finally:
        loop.run_until_complete(stack.aclose())
        loop.close()


@contextmanager
def processes(site: Site) -> Iterator[Processes]:
    """Give a table of the server processes of `site`."""
    loop = asyncio.new_event_loop()
    store = loop.run_until_complete(open_store(site.gathered.url, clock=site.clock))
    try:
        with ExitStack() as stack, httpx.Client(timeout=30) as client:
            yield Processes(
                dict(site.gathered.tokens),
                site.clock,
                loop,
                store,
                site=site,
                running=list(site.servers),
                stack=stack,
                client=client,
            )
    finally:
        loop.run_until_complete(store.close())
        loop.close()


def _shas(extra: Mapping[str, Any]) -> list[str]:
    return [str(commit).rpartition("@")[2] for commit in extra.get("commits", ())]


_US: Final = timedelta(microseconds=1)
