"""What is large in some other way than by its number of nodes: a hub, an epic, a chain, a year's backlog.

Each is written to, one call after the other, and the first page of its project
is read after each; both are timed from outside. The server's own work after a
commit is in the page's time where it gets in its way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

import httpx
import msgspec

from batonpass.wire import paths
from bench.served import serving
from bench.world import CHAIN, EPIC, HUB, link_of
from bench.worlds import Inhabited

BACKLOG: Final = 364_000
"""So many nodes have a backlog of 200k items."""
TIMES: Final = 9
"""How often each is done; medians and the slowest are told."""
WARM_UP: Final = 3

Write = Callable[[int], tuple[str, str, object]]
"""Returns method, path and body of the call number n."""


class Shape(msgspec.Struct):
    """How long a call took, and the page after it, in milliseconds: the median, and the slowest."""

    database: str
    what: str
    call_ms: float
    call_ms_max: float
    page_ms: float
    page_ms_max: float


@dataclass(frozen=True, slots=True)
class _Case:
    what: str
    project: str
    write: Write


def shapes(inhabited: Inhabited, label: str) -> Iterator[Shape]:
    """Yield the figures of every case, measured in turn."""
    token = inhabited.database.fleet.admin
    with (
        serving(inhabited.database.url) as server,
        httpx.Client(base_url=server.url, headers={"Authorization": f"Bearer {token}"}, timeout=60.0) as client,
    ):
        for case in _cases(inhabited):
            for number in range(WARM_UP):
                _timed(client, case, number)
            times = [_timed(client, case, WARM_UP + number) for number in range(TIMES)]
            calls, pages = [call for call, _ in times], [page for _, page in times]
            yield Shape(label, case.what, median(calls), max(calls), median(pages), max(pages))


def _cases(inhabited: Inhabited) -> Iterator[_Case]:
    world = inhabited.world

    def resolution(node: str) -> Write:
        """Let an artifact resolve `node` and, each second time, do so no more."""
        path, body = paths.NODE_EDGES.format(id=world.node_id(17)), {"type": "resolves", "to": node}
        return lambda n: ("DELETE" if n % 2 else "POST", path, body)

    yield _Case(f"a hub of {world.hub_neighbours:,} neighbours: its priority", "p0", _priority(HUB))
    yield _Case("… its status", "p0", _status(HUB))
    yield _Case("… one neighbour more", "p0", lambda n: _put(f"task-near-{n}", "p0", {"relates-to": HUB}))
    yield _Case("… resolved, and open again", "p0", resolution(HUB))
    yield _Case("an epic of 500 descendants: its priority", "p0", _priority(EPIC))
    yield _Case("… one descendant more", "p0", lambda n: _put(f"task-below-{n}", "p0", {"derived-from": EPIC}))
    yield _Case("… a blocker done, and open again", "p0", resolution("task-epic-3"))
    yield _Case(f"a chain of {CHAIN:,} blockers: one more at its head", "p1", _lengthen)
    yield _Case(
        "… one more at its end", "p1", lambda n: _put(f"task-tail-{n}", "p1", {}, blocked_by=link_of(CHAIN - 1))
    )
    yield _Case("… its head done, and open again", "p1", resolution(link_of(0)))
    yield _Case("… the middle done, and open again", "p1", resolution(link_of(CHAIN // 2)))
    yield _Case("the backlog: an item more", "p2", lambda n: _put(f"task-more-{n}", "p2", {}))
    yield _Case("… an item's priority", "p2", _priority(world.node_id(2 * 20 + 10)))


def _timed(client: httpx.Client, case: _Case, number: int) -> tuple[float, float]:
    method, path, body = case.write(number)
    started = time.perf_counter()
    reply = client.request(method, path, json=body)
    written = time.perf_counter()
    assert reply.is_success, reply.text
    results: list[Mapping[str, object]] = reply.json().get("results", [])
    assert all(result["ok"] for result in results), results
    page = client.get(paths.QUEUE, params={"project": case.project})
    assert page.is_success, page.text
    return (written - started) * 1000, (time.perf_counter() - written) * 1000


def _put(
    node: str, project: str, edges: Mapping[str, str], *, blocked_by: str | None = None
) -> tuple[str, str, object]:
    out = [{"type": kind, "to": to} for kind, to in edges.items()]
    if blocked_by is not None:
        out.append({"type": "blocked-by", "to": blocked_by})
    fields = {"id": node, "type": "task", "title": f"{node} of a measurement", "summary": "Written while it is timed"}
    document = {**fields, "project": project, "edges": out}
    return "POST", paths.NODES, {"nodes": [document]}


def _priority(node: str) -> Write:
    return lambda n: ("POST", paths.NODE_PRIORITY.format(id=node), {"priority": ("p1", "p2")[n % 2]})


def _status(node: str) -> Write:
    return lambda n: ("POST", paths.NODE_STATUS.format(id=node), {"status": ("active", "open")[n % 2]})


def _lengthen(number: int) -> tuple[str, str, object]:
    before = link_of(0) if number == 0 else f"task-head-{number - 1}"
    return _put(f"task-head-{number}", "p1", {"blocks": before})
