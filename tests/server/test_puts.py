"""A batch means what its entries mean one after another, and costs what its rows cost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.store import postgres, sqlite
from batonpass.store.base import Statement
from batonpass.store.roundtrips import Bound
from batonpass.testing.clock import ManualClock
from batonpass.testing.databases import PostgresCluster
from batonpass.testing.populated import contents
from batonpass.testing.server import InProcessServer, in_process_server

KEPT: Final = ("nodes", "edges", "node_history", "node_commits", "inbox", "leases", "queue_items")
IDS: Final = ("task-{}-a", "task-{}-b", "task-{}-c", "art-{}-d", "question-{}-e")
TYPES: Final = {"task": "task", "art": "artifact", "question": "question"}

entries = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(IDS),
            "body": st.sampled_from(["one", "one two", "漢字"]),
            "edges": st.lists(
                st.tuples(
                    st.sampled_from(["blocks", "blocked-by", "resolves", "supersedes", "relates-to"]),
                    st.sampled_from(IDS),
                ),
                max_size=2,
            ),
            "status": st.sampled_from([None, None, "done", "active", "abandoned"]),
            "commits": st.sampled_from([None, ["mail@abcdef1"], ["mail@abcdef1", "mail@1234567"]]),
        }
    ),
    min_size=2,
    max_size=8,
)


def entry(name: str, drawn: Mapping[str, Any], revision: str | None) -> dict[str, object]:
    id_ = drawn["id"].format(name)
    made = {
        "id": id_,
        "type": TYPES[id_.partition("-")[0]],
        "title": f"About {id_}",
        "summary": "In short",
        "date": "2026-05-01",
        "body": drawn["body"],
        "edges": [{"type": kind, "to": to.format(name)} for kind, to in drawn["edges"]],
        "status": drawn["status"],
        "commits": drawn["commits"],
    }
    kept = {key: value for key, value in made.items() if value is not None}
    return kept if revision is None else {"content": kept, "if_exists": "update", "revision": revision}


@dataclass(slots=True)
class Pair:
    """Two servers over empty databases, one that is told entries one by one and one that is told them together."""

    urls: tuple[str, str]
    servers: list[InProcessServer]
    loop: asyncio.AbstractEventLoop

    def put(self, which: int, *given: object) -> list[dict[str, Any]]:
        response = self.loop.run_until_complete(self.servers[which].send("POST", "/v1/nodes", {"nodes": list(given)}))
        results: list[dict[str, Any]] = response.json()["results"]
        return results

    def kept(self, which: int) -> dict[str, object]:
        tables = contents(self.urls[which])
        words = [row[1:] for row in sorted(tables["search_nodes"])]
        return {"words": words, **{name: tables[name] for name in KEPT}}


def _ended(loop: asyncio.AbstractEventLoop, serving: AbstractAsyncContextManager[InProcessServer]) -> None:
    loop.run_until_complete(serving.__aexit__(None, None, None))


@pytest.fixture(params=["sqlite", "postgres"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """The two servers, at one moment, on either database."""
    with ExitStack() as stack:
        loop = asyncio.new_event_loop()
        stack.callback(loop.close)
        if request.param == "sqlite":
            folder = tmp_path_factory.mktemp("pair")
            urls = (f"sqlite:///{folder}/one.db", f"sqlite:///{folder}/together.db")
        else:
            cluster: PostgresCluster = request.getfixturevalue("postgres")
            names = (cluster.create_database(), cluster.create_database())
            for name in names:
                stack.callback(cluster.drop_database, name)
            urls = (cluster.url(names[0]), cluster.url(names[1]))
        servers = []
        for url in urls:
            serving = in_process_server(url, clock=ManualClock())
            servers.append(loop.run_until_complete(serving.__aenter__()))
            stack.callback(_ended, loop, serving)
        yield Pair(urls, servers, loop)


def test_a_batch_leaves_what_its_entries_leave_one_by_one(pair: Pair) -> None:
    numbers = count()

    @settings(max_examples=25)
    @given(entries)
    def law(drawn: list[dict[str, Any]]) -> None:
        name = f"{next(numbers)}x"
        revisions: dict[object, str] = {}
        sent, alone = [], []
        for one in drawn:
            sent.append(entry(name, one, revisions.get(one["id"])))
            (result,) = pair.put(0, sent[-1])
            alone.append(result)
            if result["ok"]:
                revisions[one["id"]] = result["revision"]
        together = pair.put(1, *sent)

        assert together == alone

    law()
    assert pair.kept(1) == pair.kept(0)


@pytest.mark.anyio
async def test_a_batch_takes_as_many_statements_however_many_nodes_it_makes(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[str] = Counter()
    # No public door tells statements apart.
    run, bound = sqlite.SqliteReader._run, postgres.PostgresReader._bound  # noqa: SLF001

    def counted_run(self: sqlite.SqliteReader, statement: Statement) -> Any:  # noqa: ANN401 — the driver's cursor
        asked[statement.name] += 1
        return run(self, statement)

    def counted_bound(self: postgres.PostgresReader, statement: Statement) -> Bound:
        asked[statement.name] += 1
        return bound(self, statement)

    monkeypatch.setattr(sqlite.SqliteReader, "_run", counted_run)
    monkeypatch.setattr(postgres.PostgresReader, "_bound", counted_bound)

    async def statements(name: str, nodes: int) -> int:
        """Put a chain of blockers, each done by the artifact before it, and count what is asked of the database."""
        made = [
            one
            for n in range(nodes)
            for one in (
                entry(name, {"id": f"art-{{}}-{n}", "edges": [("resolves", f"task-{{}}-{n}")], **PLAIN}, None),
                entry(name, {"id": f"task-{{}}-{n}", "edges": [("blocks", f"task-{{}}-{n + 1}")], **PLAIN}, None),
            )
        ]
        asked.clear()
        reply = await server.ask("POST", "/v1/nodes", {"nodes": made})
        assert all(result["ok"] for result in reply["results"]), reply
        return asked.total()

    few = await statements("few", 3)

    assert await statements("many", 40) <= few


PLAIN: Final[dict[str, Any]] = {"body": "one", "status": None, "commits": ["mail@abcdef1"]}
