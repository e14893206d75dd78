"""A crowd around real servers: pollers that take and work, writers that give, readers of the feed.

    people = await admit(url, agents=50)                     # in the empty database at `url`
    async with crowd_around(ports, people) as crowd:
        start = await crowd.listen()
        await crowd.play(pollers=500, writers=50, seconds=60)
        await crowd.hear(last)                               # to the number of the last event there is

What is right or wrong about it is not decided here: `batonpass.testing.account`
compares what everybody was told with what the database says happened. Work is
short and without heartbeats. A server that is busy (503 with a Retry-After) is
asked again, with the same key or nonce, as every client of ours would.

"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from batonpass.testing.talk import Line, Reply, stream

PROJECT: Final = "mill"
TRIES_MAX: Final = 50
RETRY_S_MAX: Final = 1.0
BUSY: Final = 503
READ_S_MAX: Final = 60.0
"""How long the readers may take to the end of the feed once nobody writes any more."""


@dataclass(frozen=True, slots=True)
class People:
    """Tokens: of persons, who give work, and of agents, who take it."""

    persons: tuple[str, ...]
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """One poller's way to one item: from when it first asked to when it was told, in seconds of this process's clock.

    `asked_s` is when the request that was answered with the item was sent, and
    `let_go_s` when the poller sent its last word under the tenure. Those are
    None while it still waits, or works.
    """

    poller: int
    port: int
    began_s: float
    asked_s: float | None = None
    told_s: float | None = None
    node: str | None = None
    epoch: int | None = None
    let_go_s: float | None = None


@dataclass(slots=True)
class Diary:
    """What everybody was told. `wrong` are answers that nobody should get."""

    waits: list[Wait] = field(default_factory=list)
    waiting: dict[int, Wait] = field(default_factory=dict)
    """Who waits at this moment, by poller."""
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[tuple[str, int, Any]] = field(default_factory=list)
    freed_s: dict[str, float] = field(default_factory=dict)
    """When the request was sent that freed an item that was born blocked."""
    ended_s: dict[str, float] = field(default_factory=dict)
    """When it was answered that an item is done for good."""
    full_s: float = 0.0
    """When those who give were told to stop."""
    unserved: list[Wait] = field(default_factory=list)
    """Who waited then."""
    written: int = 0
    """How many items were filed."""

    def note(self, what: str, reply: Reply) -> Reply:
        """Count an answer, and keep one that is no answer to be had."""
        self.statuses[what, reply.status] += 1
        if not (reply.ok or (reply.status == BUSY and "retry-after" in reply.headers)):
            self.wrong.append((what, reply.status, reply.body))
        return reply


@dataclass(slots=True)
class Caller:
    """Somebody with a connection, who asks again when the server is busy."""

    diary: Diary
    line: Line
    chance: random.Random
    name: str
    _serial: int = 0

    async def ask(
        self, what: str, method: str, path: str, *, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Return the answer to a request that may be repeated; one that stays busy is noted as wrong."""
        reply = self.diary.note(what, await self.line.ask(method, path, body, headers=headers))
        for _ in range(TRIES_MAX):
            if reply.status != BUSY:
                return reply
            await asyncio.sleep(min(RETRY_S_MAX, float(reply.headers.get("retry-after", RETRY_S_MAX))))
            reply = self.diary.note(what, await self.line.ask(method, path, body, headers=headers))
        self.diary.wrong.append((what, BUSY, "to the last"))
        return reply

    async def change(self, what: str, path: str, body: object, *, method: str = "POST", **headers: str) -> Reply:
        """Change something once, however often it must be asked for."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.ask(what, method, path, body=body, headers={"Idempotency-Key": self.serial(), **named})

    def serial(self) -> str:
        """Return a word that nobody has used."""
        self._serial += 1
        return f"{self.name}-{self._serial}"


@dataclass(slots=True)
class Poller(Caller):
    """Waits for an item, works on it for a moment, lets it go, and waits for the next.

    Of ten, it resolves `resolves_of_ten`, says of one that it is abandoned,
    and hands the rest back as they are.
    """

    number: int = 0
    resolves_of_ten: int = 6
    abandons_of_ten: int = 1
    wait_s: int = 20

    async def run(self, over: asyncio.Event) -> None:
        """Do so until it is over; who waits then is answered first."""
        while not over.is_set():
            wait = await self.take(over)
            if wait is not None:
                await self.work(wait)

    async def take(self, over: asyncio.Event) -> Wait | None:
        """Return what was taken, or None when it was over before there was anything."""
        wait = Wait(self.number, self.line.port, time.monotonic())
        self.diary.waiting[self.number] = wait
        while not over.is_set():
            wish = {"project": PROJECT, "wait": self.wait_s, "dispatch": self.serial()}
            asked_s = time.monotonic()
            reply = await self.ask("next", "POST", "/v1/queue/next", body=wish)
            if reply.ok and reply.body["status"] == "claimed":
                del self.diary.waiting[self.number]
                node, epoch = reply.body["item"]["id"], reply.body["lease"]["epoch"]
                return Wait(wait.poller, wait.port, wait.began_s, asked_s, time.monotonic(), node, epoch)
        return None

    async def work(self, wait: Wait) -> None:
        """Work on what was taken, and let it go."""
        fence = f"{wait.node}; epoch={wait.epoch}"
        lot = self.chance.randrange(10)
        if lot < self.resolves_of_ten:
            note = {**_node(f"dec-{self.serial()}", "decision"), "edges": [{"type": "resolves", "to": wait.node}]}
            wrote = await self.change("resolve", "/v1/nodes", {"nodes": [note]}, If_Lease=fence)
        elif lot < self.resolves_of_ten + self.abandons_of_ten:
            path = f"/v1/nodes/{wait.node}/status"
            wrote = await self.change("status", path, {"status": "abandoned"}, If_Lease=fence)
        else:
            wrote = None
        if wrote is not None and wrote.ok:
            self.diary.ended_s[str(wait.node)] = time.monotonic()
        let_go_s = time.monotonic()
        await self.change("release", f"/v1/nodes/{wait.node}/release", {"if_epoch": wait.epoch})
        self.diary.waits.append(
            Wait(wait.poller, wait.port, wait.began_s, wait.asked_s, wait.told_s, wait.node, wait.epoch, let_go_s)
        )


@dataclass(slots=True)
class Writer(Caller):
    """Files items that are for agents, and changes its mind about them in every way that matters to the queue."""

    async def run(self, over: asyncio.Event) -> None:
        """Do so until it is over."""
        while not over.is_set():
            await self.one_item()

    async def one_item(self) -> None:
        """File an item, blocked or not, give it another rank, free it, block it once more; now and then end it."""
        item, gate = f"task-{self.serial()}", f"task-{self.serial()}"
        blocked = self.chance.random() < 0.5  # noqa: PLR2004  # one in two
        ready = {**_node(item, "task"), "readiness": "agent"}
        blocks = {"type": "blocks", "to": item}
        first = [{**_node(gate, "task"), "edges": [blocks]}] if blocked else []
        await self.change("put", "/v1/nodes", {"nodes": [*first, ready]})
        self.diary.written += 1
        for _ in range(self.chance.randrange(3)):
            rank = self.chance.choice(["p1", "p2", "p3"])
            await self.change("priority", f"/v1/nodes/{item}/priority", {"priority": rank})
        if blocked:
            self.diary.freed_s[item] = time.monotonic()
            await self.free(gate, blocks)
        if self.chance.randrange(10) < 1:
            done = {**_node(f"dec-{self.serial()}", "decision"), "edges": [{"type": "resolves", "to": item}]}
            if (await self.change("resolve", "/v1/nodes", {"nodes": [done]})).ok:
                self.diary.ended_s[item] = time.monotonic()

    async def free(self, gate: str, blocks: Mapping[str, str]) -> None:
        """Take the blocker away: its edge, its life or its being open; and before that, now and then, twice over."""
        edges = f"/v1/nodes/{gate}/edges"
        match self.chance.randrange(4):
            case 0:
                await self.change("unblock", edges, blocks, method="DELETE")
                await self.change("block", edges, blocks)
                await self.change("unblock", edges, blocks, method="DELETE")
            case 1:
                await self.change("unblock", edges, blocks, method="DELETE")
            case 2:
                await self.change("status", f"/v1/nodes/{gate}/status", {"status": "abandoned"})
            case _:
                done = {**_node(f"dec-{self.serial()}", "decision"), "edges": [{"type": "resolves", "to": gate}]}
                await self.change("resolve", "/v1/nodes", {"nodes": [done]})


def _node(id_: str, type_: str) -> dict[str, object]:
    return {"id": id_, "type": type_, "title": id_, "summary": "to do", "project": PROJECT}


@dataclass(slots=True)
class Reader(Caller):
    """Reads the feed of one server to the end, in one of its two ways."""

    after: str = ""
    streams: bool = False
    events: list[Any] = field(default_factory=list)
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    last: int | None = None

    async def run(self) -> None:
        """Read for ever; `reached` is set once the last event was read, if that is known."""
        if self.streams:
            async for event in stream(self.line.port, self.line.token, f"/v1/events?after={self.after}"):
                self.take([event])
        while not self.streams:
            path = f"/v1/events?after={self.after}&wait=20&limit=500"
            page = (await self.ask("events", "GET", path)).body
            self.take(page["events"])
            self.after = page["next"]

    def take(self, events: Sequence[Any]) -> None:
        """Keep events."""
        self.events += events
        self.read_to(self.last)

    def read_to(self, last: int | None) -> None:
        """Tell the reader which event is the last."""
        self.last = last
        if last is not None and self.events and self.events[-1]["seq"] >= last:
            self.reached.set()


@dataclass(slots=True)
class Crowd:
    """Everybody, and the servers they stand around: each next one at the next server."""

    diary: Diary
    ports: Sequence[int]
    people: People
    wait_s: int = 10
    """How long each request of a poller waits."""
    readers: list[Reader] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    _reading: list[asyncio.Task[None]] = field(default_factory=list)

    def poller(self, number: int) -> Poller:
        """Return the poller of that number; several share an agent, each launch with a nonce of its own."""
        token = self.people.agents[number % len(self.people.agents)]
        return Poller(*self._caller("p", number, token), number=number, wait_s=self.wait_s)

    def writer(self, number: int) -> Writer:
        """Return the writer of that number."""
        return Writer(*self._caller("w", number, self.people.persons[number % len(self.people.persons)]))

    async def listen(self) -> str:
        """Put two readers to each server, one that asks again and again and one that listens; return from where on."""
        token = self.people.persons[0]
        asking = Caller(*self._caller("l", 0, token))
        start: str = (await asking.ask("events", "GET", "/v1/events?after=now")).body["next"]
        for number, streams in enumerate(streams for streams in (False, True) for _ in self.ports):
            self.readers.append(Reader(*self._caller("r", number, token), after=start, streams=streams))
        self._reading = [asyncio.create_task(reader.run(), name="reader") for reader in self.readers]
        return start

    async def play(self, *, pollers: int, writers: int, seconds: float) -> None:
        """Let everybody do so for a while; then nobody gives any more, and what is there is taken and worked off."""
        full, over = asyncio.Event(), asyncio.Event()
        giving = [asyncio.create_task(self.writer(number).run(full)) for number in range(writers)]
        taking = [asyncio.create_task(self.poller(number).run(over)) for number in range(pollers)]
        broken, _ = await asyncio.wait(
            [*self._reading, *giving, *taking], timeout=seconds, return_when=asyncio.FIRST_EXCEPTION
        )
        for task in broken:
            task.result()
        self.diary.full_s, self.diary.unserved = time.monotonic(), list(self.diary.waiting.values())
        full.set()
        await asyncio.gather(*giving)
        over.set()
        await asyncio.gather(*taking)

    async def hear(self, last: int) -> None:
        """Return once every reader has read the event of that number; `TimeoutError` when one never does."""
        for reader in self.readers:
            reader.read_to(last)
        try:
            async with asyncio.timeout(READ_S_MAX):
                await asyncio.gather(*(reader.reached.wait() for reader in self.readers))
        finally:
            await self.close()

    async def close(self) -> None:
        """Stop reading, and hang up; safe twice."""
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        await asyncio.gather(*(line.close() for line in self.lines))

    def _caller(self, kind: str, number: int, token: str) -> tuple[Diary, Line, random.Random, str]:
        name, line = f"{kind}{number}", Line(self.ports[number % len(self.ports)], token)
        self.lines.append(line)
        return self.diary, line, random.Random(name), name  # noqa: S311  # the same choices in every run


@asynccontextmanager
async def crowd_around(ports: Sequence[int], people: People, *, wait_s: int) -> AsyncIterator[Crowd]:
    """Give a crowd around the servers on these ports, until the end of the block; nobody is there yet."""
    crowd = Crowd(Diary(), ports, people, wait_s)
    try:
        yield crowd
    finally:
        await crowd.close()
