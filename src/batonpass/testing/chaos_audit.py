"""What became of a mill's items, from the outside: the graph, the programs' diary, the process table, the worktrees.

`account` counts how every item ended; `audit` returns what is wrong, a sentence each, and none is right.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from batonpass.core.feed import StoredEvent
from batonpass.core.ids import NodeId
from batonpass.core.outcome import Terminal
from batonpass.core.policy import PROVISIONAL
from batonpass.testing.account import tenures_of
from batonpass.testing.chaos import PROJECT, Mill
from batonpass.testing.fleet import Fleet
from batonpass.worker import gc
from batonpass.worker.crew import Crew, is_alive
from batonpass.worker.server_graph import ServerGraph
from batonpass.worker.worker import PAGE_MAX

LAPSING: Final = "in the queue within a minute"


@dataclass(frozen=True, slots=True)
class Account:
    """How the items ended, and the texts of what was filed about each of them."""

    ends: Counter[str]
    filed: dict[NodeId, list[str]]
    lost: tuple[str, ...] = ()
    """Items that are in none of the ends there may be."""


@dataclass(slots=True)
class _Graph:
    fleet: Fleet
    queued: frozenset[NodeId] = field(init=False)

    def __post_init__(self) -> None:
        page = ServerGraph(self.fleet.agent).page(project=PROJECT, limit=PAGE_MAX)
        self.queued = frozenset(item.id for item in page.items if item.lease_state is None)

    def texts(self, item: NodeId) -> list[str]:
        """Return the bodies of the item's reports and findings, but not of its programs' notes."""
        found = (self.fleet.person.node(node) for node in self.fleet.related(item))
        return [node.body for node in found if not node.id.startswith("art-note-")]

    def end_of(self, item: NodeId, texts: list[str]) -> str | None:
        person = self.fleet.person
        resolvers = person.edges(item, direction="in", types=["resolves"]).edges
        lease = person.node(item).lease
        if resolvers:
            return None if lease is not None and not self._lapses(item) else "resolved"
        if lease is not None:
            return LAPSING if self._lapses(item) else None
        if any("DECLINED" in text or "not needed" in text for text in texts):
            return "declined"
        if item not in self.queued:
            return None
        return "reported, and in the queue" if texts else "in the queue"

    def _lapses(self, item: NodeId) -> bool:
        """Whether nobody keeps the item: its lease is over within a minute."""
        left_ms = [
            row.expires_in_ms for row in self.fleet.person.leases(project=PROJECT).leases if row.lease.node_id == item
        ]
        return all(ms <= PROVISIONAL.total_seconds() * 1_000 for ms in left_ms)


def account(fleet: Fleet, items: list[NodeId]) -> Account:
    """Return how each of the items ended, as the graph has it now."""
    graph = _Graph(fleet)
    filed = {item: graph.texts(item) for item in items}
    ends = {item: graph.end_of(item, filed[item]) for item in items}
    lost = tuple(item for item, end in ends.items() if end is None)
    return Account(Counter(end for end in ends.values() if end is not None), filed, lost)


def audit(fleet: Fleet, mill: Mill, found: Account, events: list[StoredEvent]) -> list[str]:
    """Return everything that is wrong with what the mill has left."""
    told = mill.told()
    return [
        *(f"{item}: neither resolved, reported, declined nor in the queue" for item in found.lost),
        *_in_turn(events),
        *_written_by_one_at_a_time(told),
        *_reports_once(mill, told, found),
        *_processes(mill),
        *_trees(fleet, mill),
    ]


def _in_turn(events: list[StoredEvent]) -> Iterator[str]:
    """Yield every tenure that does not follow the one before it: two at once had the same epoch, or skipped one."""
    last: dict[str, int] = {}
    for tenure in tenures_of(events):
        if tenure.epoch <= last.get(tenure.node, 0):
            yield f"{tenure.node}: epoch {tenure.epoch} after {last[tenure.node]}"
        last[tenure.node] = tenure.epoch


def _written_by_one_at_a_time(told: list[dict[str, Any]]) -> Iterator[str]:
    """Yield every word of a tenure that landed though it was sent after the next tenure's program had begun."""
    began: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in told:
        if line["what"] == "begin":
            began[line["item"]].append(line)
    for item, lines in began.items():
        twice = [epoch for epoch, times in Counter(line["epoch"] for line in lines).items() if times > 1]
        yield from (f"{item}: epoch {epoch} was worked on twice" for epoch in twice)
    for line in told:
        if line["what"] != "put" or line["status"] != 200:  # noqa: PLR2004
            continue
        later = [one for one in began[line["item"]] if one["epoch"] > line["epoch"] and one["at"] < line["asked"]]
        if later:
            yield f"{line['item']}: {line['id']} landed, though tenure {later[0]['epoch']} had begun"


def _reports_once(mill: Mill, told: list[dict[str, Any]], found: Account) -> Iterator[str]:
    """Yield every report that is not in the graph exactly once; of a run that resolved its item none is filed."""
    records = {record.run_id: record for record in mill.records()}
    for run in [line["run"] for line in told if line["what"] == "end"]:
        record = records.get(run)
        if record is None or record.node_id is None:
            yield f"run {run} wrote a report, and has no record"
            continue
        times = sum(text.count(f"The word of {run} about") for text in found.filed[record.node_id])
        expected = 0 if record.terminal_state is Terminal.RESOLVED else 1
        if times != expected:
            yield f"{record.node_id}: the report of run {run} ({record.terminal_state}) is in the graph {times} times"


def _processes(mill: Mill) -> Iterator[str]:
    for record in mill.records():
        for identity in Crew(record.run_id, child=record.child).look():
            yield f"process {identity.pid} of run {record.run_id} is left"
        if record.runner is not None and record.runner.pid != os.getpid() and is_alive(record.runner):
            yield f"supervisor {record.runner.pid} of run {record.run_id} is left"


def _trees(fleet: Fleet, mill: Mill) -> Iterator[str]:
    """Yield every worktree that stays without a reason, or that git knows of and the box does not."""
    listed = gc.survey(mill.home, fleet.repo.person)
    for tree in listed:
        if not tree.stays:
            yield f"the worktree {tree.path} ({tree.kind}) stays, and nobody knows why"
    known = {str(tree.path) for tree in listed}
    for line in fleet.repo.git("worktree", "list", "--porcelain").splitlines():
        path = line.removeprefix("worktree ")
        if path != line and path != str(fleet.repo.folder) and path not in known:
            yield f"git has a worktree at {path} that is not listed"
