"""The queue's exact order against a slow, obvious reference: Python over the whole graph (D16).

The reference knows nothing of lanes, places or notes. It keeps what was
written, and for every page works everything out anew from all of it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batonpass.server.services.ranking import note_turned, refresh
from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer, in_process_server

POINT: Final = 30_000
PREFIXES: Final = {"task": "task", "issue": "issue", "question": "question", "decision": "dec", "artifact": "art"}
QUEUEABLE: Final = ("task", "issue", "question")
DEAD: Final = {"abandoned", "rejected", "superseded", "done", "answered", "resolved", "merged"}
RESOLVES_NOTHING: Final = {"in-review", "approved", "rejected", "abandoned", "superseded"}
STATUSES: Final = {
    "task": [None, "open", "abandoned"],
    "issue": [None, "open"],
    "question": [None, "open", "answered"],
    "decision": [None, "active", "rejected"],
    "artifact": [None, "in-review", "merged"],
}
EDGES: Final = ("blocks", "blocks", "resolves", "answers", "supersedes", "mentions", "relates-to")
PROJECTS: Final = ("north", "south", None)


@dataclass
class Known:
    """A node as it was written, and when it was changed since."""

    fields: dict[str, Any]
    created: datetime
    edges: set[tuple[str, str]] = field(default_factory=set)
    changed: list[datetime] = field(default_factory=list)
    revision: str = ""


@dataclass
class World:
    """Everything that was written, and the server it was written to."""

    server: InProcessServer
    clock: ManualClock
    nodes: dict[str, Known] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """What the clock reads."""
        return datetime.fromtimestamp(self.clock.moment() / 1_000_000, UTC)

    # --- the reference -----------------------------------------------------------------------------------------

    def superseded(self, node: str) -> bool:
        return any(("supersedes", node) in other.edges for other in self.nodes.values())

    def resolved(self, node: str) -> bool:
        kinds = {"resolves"} | ({"answers"} if self.nodes[node].fields["type"] == "question" else set())
        return any(
            (kind, node) in other.edges
            and other.fields.get("status") not in RESOLVES_NOTHING
            and not self.superseded(name)
            for name, other in self.nodes.items()
            for kind in kinds
        )

    def live(self, node: str) -> bool:
        return (
            node in self.nodes
            and self.nodes[node].fields.get("status") not in DEAD
            and not self.superseded(node)
            and not self.resolved(node)
        )

    def blockers(self, node: str) -> list[str]:
        return sorted(name for name, other in self.nodes.items() if ("blocks", node) in other.edges and self.live(name))

    def downstream(self, node: str) -> int:
        found: set[str] = set()
        level = {node}
        for _ in range(8):
            level = {to for name in level for kind, to in self.nodes[name].edges if kind == "blocks" and self.live(to)}
            found |= level
        return min(len(found - {node}), 100)

    def readiness(self, node: str) -> str:
        one = self.nodes[node]
        near = {to for _, to in one.edges} | {
            name for name, other in self.nodes.items() if any(to == node for _, to in other.edges)
        }
        asked = any(
            other in self.nodes and self.nodes[other].fields["type"] == "question" and self.live(other)
            for other in near
        )
        if asked or one.fields["type"] == "question" or "human" in one.fields.get("requires", []):
            return "human"
        return "agent" if one.fields.get("readiness") else "untriaged"

    def units(self, node: str, *, front: bool) -> int:
        one, today = self.nodes[node], self.now.date()
        heat = sum(self.now - at < timedelta(days=30) for at in one.changed)
        mine = sum(self.now - at < timedelta(days=7) for at in one.changed) if front else 0
        born = date.fromisoformat(one.fields["date"]) if one.fields.get("date") else one.created.date()
        total = {"p1": 6, "p2": 3, "p3": 1}.get(one.fields.get("priority") or "", 0) * POINT
        total += 3 * POINT * (self.downstream(node) - len(self.blockers(node)))
        total += round(math.log2(1 + heat) * POINT) + round(min(math.log2(1 + mine), 5) * POINT)
        total += min(max((today - born).days, 0), 90) * POINT // 30
        if one.fields.get("needed_by"):
            left = (date.fromisoformat(one.fields["needed_by"]) - today).days
            if 0 <= left < 30:
                total += 3 * POINT * (30 - left) // 30
            elif left < 0:
                total += 3 * POINT + 2 * POINT * min(-left, 30) // 30
        return total

    def ranking(self, *, front: bool, blocked: bool = False, readiness: str | None = None, **only: str) -> list[str]:
        """Return the ids of a page without an end, best first."""
        today = self.now.date().isoformat()
        shown = [
            name
            for name, one in self.nodes.items()
            if one.fields["type"] in QUEUEABLE
            and self.live(name)
            and (one.fields.get("wake") or "") <= today
            and (blocked or not self.blockers(name))
            and (readiness is None or self.readiness(name) == readiness)
            and all(one.fields.get(key) == value for key, value in only.items())
        ]
        scores = {name: self.units(name, front=front) for name in shown}
        own = dict(scores)
        for _ in range(10):
            scores = {
                name: min([own[name], *(scores[b] - POINT // 100 for b in self.blockers(name) if b in scores)])
                for name in shown
            }
        return sorted(shown, key=lambda name: (-scores[name], self.born(name), name))

    def born(self, node: str) -> datetime:
        one = self.nodes[node]
        stated = one.fields.get("date")
        return datetime.combine(date.fromisoformat(stated), datetime.min.time(), UTC) if stated else one.created

    # --- writing -----------------------------------------------------------------------------------------------

    async def put(self, fields: dict[str, Any], edges: set[tuple[str, str]]) -> None:
        """Create a node or write it anew."""
        name = fields["id"]
        known = self.nodes.get(name)
        entry: dict[str, Any] = {"node": {**fields, "edges": [{"type": kind, "to": to} for kind, to in sorted(edges)]}}
        if known is not None:
            entry |= {"if_exists": "update", "revision": known.revision}
        reply = await self.server.send("POST", "/v1/nodes", {"nodes": [entry]})
        result = reply.json()["results"][0]
        if not result["ok"]:  # a cycle of blocks: nothing has changed
            assert result["code"] == "invalid_edge", result
            return
        if known is None:
            self.nodes[name] = Known(fields, self.now, edges, revision=result["revision"])
        elif result["status"] == "updated":
            changed = [*known.changed, self.now]
            self.nodes[name] = Known(fields, known.created, edges, changed, result["revision"])


@dataclass(frozen=True)
class Write:
    """A node as it is to be; `again` writes one that is there, `ends` are picked among what is there then."""

    kind: str
    again: int | None
    fields: dict[str, Any]
    status: int
    edges: tuple[tuple[str, int], ...]


def days(least: int, most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(least, most)


WRITES: Final = st.builds(
    Write,
    kind=st.sampled_from(list(PREFIXES)),
    again=st.none() | st.integers(0, 99),
    fields=st.fixed_dictionaries(
        {
            "priority": st.sampled_from([None, "p1", "p2", "p3"]),
            "project": st.sampled_from(PROJECTS),
            "readiness": st.sampled_from([None, "agent"]),
            "requires": st.sampled_from([[], [], ["human"]]),
            "date": days(-120, 3),
            "wake": days(-1, 3),
            "needed_by": days(-40, 40),
        }
    ),
    status=st.integers(0, 2),
    edges=st.lists(st.tuples(st.sampled_from(EDGES), st.integers(0, 99)), max_size=3).map(tuple),
)


@dataclass(frozen=True)
class Round:
    """Some writes, then some days that pass; whether anybody keeps the index meanwhile."""

    writes: list[Write]
    days: int
    kept: bool


ROUNDS: Final = st.builds(
    Round, writes=st.lists(WRITES, min_size=5, max_size=14), days=st.sampled_from([0, 0, 1, 20, 45]), kept=st.booleans()
)


@pytest.fixture
def world(database_url: str) -> Iterator[tuple[asyncio.Runner, World]]:
    """One server for every example of a test: each goes on with what the ones before left."""
    clock = ManualClock()
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()

        async def begin() -> InProcessServer:
            server = await stack.enter_async_context(in_process_server(database_url, clock=clock))
            await server.ask("POST", "/v1/agents", {"label": "seven"})
            return server

        yield runner, World(runner.run(begin()), clock)
        runner.run(stack.aclose())


async def play(world: World, round_: Round) -> None:
    for write in round_.writes:
        await world.put(*_concrete(world, write))
    world.clock.advance(timedelta(days=round_.days))
    if round_.kept:
        await note_turned(world.server.store)
        assert not await refresh(world.server.store, rounds=50)
    # The days that pass are more than a token's life.
    minted = await world.server.ask("POST", "/v1/agents/agent-seven/token", {})
    for token, front in ((minted["token"], False), (None, True)):
        for query, wanted in (
            ("", {}),
            ("?include_blocked=1", {"blocked": True}),
            ("?project=north", {"project": "north"}),
            ("?type=issue", {"type": "issue"}),
            ("?readiness=agent", {"readiness": "agent"}),
        ):
            shown = await _all(world.server, query, token)
            assert shown == world.ranking(front=front, **wanted), (query, front)
            assert shown == await _all(world.server, query, token), "two reads without a write between them differ"


def _concrete(world: World, write: Write) -> tuple[dict[str, Any], set[tuple[str, str]]]:
    names = sorted(world.nodes)
    if write.again is not None and names:
        name = names[write.again % len(names)]
        kind = world.nodes[name].fields["type"]
    else:
        kind = write.kind
        name = f"{PREFIXES[kind]}-{len(names):03}"
    today = world.now.date()
    fields: dict[str, Any] = {"id": name, "type": kind, "title": name, "summary": name}
    for key, value in write.fields.items():
        if key in {"date", "wake", "needed_by"}:
            value = (today + timedelta(days=value)).isoformat() if value is not None else None  # noqa: PLW2901
        if value not in (None, []):
            fields[key] = value
    status = STATUSES[kind][write.status % len(STATUSES[kind])]
    if status is not None:
        fields["status"] = status
    ends = [*names, f"task-{len(names) + 1:03}"]
    edges = {(kind_, ends[n % len(ends)]) for kind_, n in write.edges}
    return fields, {(kind_, to) for kind_, to in edges if to != name}


async def _all(server: InProcessServer, query: str, token: str | None) -> list[str]:
    """Return the whole queue, page by page."""
    found: list[str] = []
    while True:
        join = "&" if query else "?"
        page = await server.ask("GET", f"/v1/queue{query}{join}limit=11&offset={len(found)}", token=token)
        found += [item["id"] for item in page["items"]]
        if not page["truncated"]:
            return found


def test_every_page_is_the_reference_in_its_order(world: tuple[asyncio.Runner, World]) -> None:
    runner, known = world

    @settings(max_examples=8, suppress_health_check=list(HealthCheck))
    @given(round_=ROUNDS)
    def examples(round_: Round) -> None:
        runner.run(play(known, round_))

    examples()
