"""The index of words: the same answers from both databases, in bounded stretches and along the index."""

# ruff: noqa: RUF001 — letters that look alike are what is tested

from __future__ import annotations

import asyncio
import math
import random
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored
from batonpass.core.search import Nearby, entry, nearby, question, tiers
from batonpass.core.words import read
from batonpass.store import operations, queries, search
from batonpass.store.base import SYSTEM, Fences, Store
from batonpass.store.open import open_store, sqlite_path
from batonpass.store.search import Stretch

PIECE: Final = st.sampled_from("a ab abc abcd abcde b ba ß ss é 漢 漢字 字 🪃 a-b x_ab".split())
TEXT: Final = st.lists(PIECE | st.text("aéIıß漢字 -_.\"'*%", max_size=8), max_size=6).map(" ".join)


def authored(name: str, title: str = "", body: str = "", **more: str) -> Authored:
    """Return a node as the index reads it."""
    return Authored(NodeId(name), more.pop("type", "task"), title, "", body=body, **more)  # type: ignore[arg-type]  # text


# --- against the obvious -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Both:
    """One store of each kind with the same entries, and the entries in the order in which they were filed."""

    stores: Sequence[Store]
    loop: asyncio.AbstractEventLoop
    filed: list[Authored] = field(default_factory=list)

    def file(self, nodes: Sequence[Authored]) -> None:
        """Write the entries of `nodes` in place of all others; a name that comes again is written again."""
        for store in self.stores:
            self.loop.run_until_complete(self._file(store, nodes))
        known = {node.id: node for node in nodes}
        self.filed = [known[name] for name in dict.fromkeys(node.id for node in nodes)]

    def found(self, conditions: Sequence[str], *, most: int) -> list[list[list[NodeId]]]:
        """Return what each store finds for each condition."""
        return [self.loop.run_until_complete(self._found(store, conditions, most)) for store in self.stores]

    def begun(self, near: Nearby) -> list[tuple[list[NodeId], bool]]:
        """Return what each store finds of a word that is only begun, and whether it is all."""
        return [self.loop.run_until_complete(self._begun(store, near)) for store in self.stores]

    async def _begun(self, store: Store, near: Nearby) -> tuple[list[NodeId], bool]:
        async with store.read_aside() as tx:
            docs, are_all = await search.begun(tx, near)
            return await search.named(tx, docs), are_all

    async def _file(self, store: Store, nodes: Sequence[Authored]) -> None:
        async with store.write(SYSTEM, Fences()) as tx:
            for node in self.filed:
                search.forget(tx, node.id)
            for node in nodes:
                search.index(tx, (), [node])

    async def _found(self, store: Store, conditions: Sequence[str], most: int) -> list[list[NodeId]]:
        async with store.read_aside() as tx:
            return [await search.named(tx, docs) for docs in await search.found(tx, conditions, most=most)]


@pytest.fixture
def both(sqlite_url: str, postgres_url: str) -> Iterator[Both]:
    """Empty databases of both kinds."""
    loop = asyncio.new_event_loop()
    stores = [loop.run_until_complete(open_store(url)) for url in (sqlite_url, postgres_url)]
    yield Both(stores, loop)
    for store in stores:
        loop.run_until_complete(store.close())
    loop.close()


def obviously(filed: Sequence[Authored], query: str, *, most: int) -> list[list[NodeId]]:
    """Return what the tiers of a query find, by reading every node."""
    wanted, tiers_found = question(query).wanted, []
    for tier in range(3):
        ids = []
        for node in reversed(filed):
            text = f"{node.id}\n{node.title}\n{node.body}"
            words, title = set(read(text).words), set(read(node.title).words)
            if tier == 0:
                holds = title.issuperset(wanted.words)
            elif tier == 1:
                holds = words.issuperset(wanted.words) and set(read(text).wholes).issuperset(wanted.wholes)
            else:
                whole = set(wanted.words) - {wanted.last}
                begun = wanted.last is None or any(word.startswith(wanted.last) for word in words)
                holds = words.issuperset(whole) and begun
            if holds:
                ids.append(node.id)
        tiers_found.append(ids[:most])
    return tiers_found


def test_both_databases_find_what_reading_every_node_would(both: Both) -> None:
    @settings(max_examples=25)
    @given(
        st.lists(st.tuples(st.integers(0, 9), TEXT, TEXT), min_size=1, max_size=12),
        st.lists(TEXT, min_size=3, max_size=3),
        st.integers(1, 12),
    )
    def law(texts: list[tuple[int, str, str]], queries_: list[str], most: int) -> None:
        both.file([authored(f"task-{n}-ab", title, body) for n, title, body in texts])
        for query in queries_:
            if question(query).is_empty:
                continue
            expected = obviously(both.filed, query, most=most)
            assert both.found(tiers(question(query)), most=most) == [expected, expected]

    law()


def test_a_word_that_is_only_begun_is_found_as_reading_every_node_would(both: Both) -> None:
    @settings(max_examples=15)
    @given(
        st.lists(st.lists(st.sampled_from(["login", "logins", "logic", "fix"]), max_size=3), min_size=1, max_size=9),
        st.sampled_from(["logi", "login", "fix logi", "fix login"]),
        st.integers(1, 9),
    )
    def law(bodies: list[list[str]], query: str, looked: int) -> None:
        filed = [authored(f"task-{n}-ab", "", " ".join(body)) for n, body in enumerate(bodies)]
        both.file(filed)
        near = nearby(question(query))
        assert near is not None
        *words, last = query.split()
        may = [node for node in reversed(filed) if any(word[:3] == last[:3] for word in node.body.split())]
        may = [node for node in may if set(words) <= set(node.body.split())]
        expected = [node.id for node in may[:looked] if any(word.startswith(last) for word in node.body.split())]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(search, "BEGUN_LOOKED_AT_MAX", looked)
            assert both.begun(near) == [(expected, len(may) < looked)] * 2

    law()


def test_every_node_is_found_by_each_of_its_own_words(both: Both) -> None:
    @settings(max_examples=15)
    @given(st.text(max_size=60), st.text(max_size=60))
    def law(title: str, body: str) -> None:
        node = authored("task-own", title.replace("\0", ""), body.replace("\0", ""))
        both.file([node, authored("task-other")])
        words = dict.fromkeys(read(f"{node.title}\n{node.body}").words)
        conditions = [tiers(question(word))[1] for word in words]
        for found in both.found(conditions, most=5):
            assert all(node.id in ids for ids in found), dict(zip(words, found, strict=True))

    law()


# --- stretches -----------------------------------------------------------------------------------------------------


@given(
    st.sampled_from([0, 1, 1023, 1024, 2047, 2048, 5_000, 100_000, 1_000_000, 40_000_000]),
    st.lists(st.one_of(st.integers(0, 10**8), st.just(math.inf)), min_size=20, max_size=20),
)
def test_stretches_follow_each_other_down_to_the_first_number_and_are_few(top: int, numbers: list[float]) -> None:
    found = [Stretch.newest(top)]
    for wanted in numbers:
        if (older := found[-1].before(wanted)) is not None:
            found.append(older)

    assert found[0].high == top + 1
    assert [stretch.low for stretch in found[:-1]] == [stretch.high for stretch in found[1:]]
    assert found[-1].low == 0
    assert len(found) <= max(1, top.bit_length() - 9)
    assert all(stretch.low % (1 << stretch.bits) == 0 for stretch in found)
    assert all(stretch.tokens.count("|") <= 34 for stretch in found)


def test_a_stretch_names_the_whole_runs_that_it_lies_in() -> None:
    assert Stretch(1024, 3000, 10).tokens == "'s10.1' | 's10.2'"
    assert Stretch(0, 1, 13).tokens == "'s13.0'"


@pytest.mark.anyio
async def test_nodes_far_apart_are_found_the_newest_first_across_all_stretches(database_url: str) -> None:
    """Numbers as a graph of ten million nodes has them, most of which have been deleted."""
    chosen = random.Random(7)  # noqa: S311 — the same in every run
    docs = sorted({chosen.randrange(1, 10_000_000) for _ in range(300)} | {1, 1023, 1024, 8191, 8192, 1 << 22})
    words = {doc: chosen.choice(["even", "odd", "both even odd"]) for doc in docs}
    store = await open_store(database_url)
    file_at(database_url, {doc: entry(authored(f"task-{doc}", text)).tokens for doc, text in words.items()})

    async with store.read_aside() as tx:
        every, both_words = await search.found(tx, ["'weven' | 'wodd'", "'weven' & 'wodd'"], most=1000)
        (few,) = await search.found(tx, ["'weven'"], most=7)
        names = await search.named(tx, every)
    await store.close()

    newest = sorted(docs, reverse=True)
    assert every == newest
    assert names == [NodeId(f"task-{doc}") for doc in newest]
    assert both_words == [doc for doc in newest if words[doc] == "both even odd"]
    assert few == [doc for doc in newest if "even" in words[doc]][:7]


def file_at(url: str, entries: dict[int, str]) -> None:
    """Write entries under numbers of their own."""
    rows = [(doc, f"task-{doc}", tokens) for doc, tokens in entries.items()]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file, file:
            file.executemany("INSERT INTO search_nodes (doc, node, words, counts) VALUES (?, ?, ?, '{}')", rows)
            file.execute("INSERT INTO search_words (search_words) VALUES ('rebuild')")
    else:
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO search_nodes (doc, node, words, counts) OVERRIDING SYSTEM VALUE VALUES (%s, %s, %s, '{}')",
                rows,
            )


# --- plans ---------------------------------------------------------------------------------------------------------


def plan(url: str, name: str, **params: object) -> str:
    """Return how a database would carry out a statement over tables too large to be scanned."""
    sql = queries.load("sqlite" if url.startswith("sqlite") else "postgres")[name].sql
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            return "\n".join(row[3] for row in file.execute(f"EXPLAIN QUERY PLAN {sql}", params).fetchall())
    with psycopg.connect(url) as connection:
        connection.execute("SET enable_seqscan = off")
        return "\n".join(row[0] for row in connection.execute(f"EXPLAIN (COSTS OFF) {sql}", params).fetchall())


@pytest.mark.parametrize("name, limits", [("newest", {"most": 100}), ("begun", {"looked": 100, "beginning": "wlogi"})])
def test_a_condition_is_looked_up_in_the_index_and_nothing_is_scanned(
    database_url: str, name: str, limits: dict[str, object]
) -> None:
    operations.upgrade(database_url)

    steps = plan(
        database_url,
        f"search.{name}",
        condition=tiers(question("fix log", projects=["web"]))[2],
        within=Stretch(0, 900, 10).tokens,
        low=0,
        high=900,
        **limits,
    )

    assert "Seq Scan" not in steps
    if database_url.startswith("sqlite"):
        # The virtual table sorts by itself (no B-TREE) and takes rowids' bounds: M is MATCH, <, > and the order.
        assert "SCAN search_words VIRTUAL TABLE INDEX" in steps
        assert "M" in steps.rpartition("INDEX")[2] or ":M" in steps
    else:
        assert "Bitmap Index Scan on search_words" in steps


@pytest.mark.parametrize(
    "name, params, index",
    [
        ("search.by_id", {"begins": "task-a", "ends": "task-a~", "projects": None, "types": None}, "nodes"),
        ("search.named", {"docs": "[1, 2]"}, "search_nodes"),
        ("search.unread", {}, "search_nodes_unread"),
        ("search.take_unread", {}, "search_nodes_unread"),
        ("search.frequencies", {"words": '["fix"]', "low": 5}, "search_nodes"),
        ("search.counts_of", {"docs": "[1, 2]"}, "search_nodes"),
        ("search.top", {}, "search_nodes"),
        ("search.counted_from", {"low": 5}, "search_nodes"),
    ],
)
def test_every_other_read_goes_by_an_index(database_url: str, name: str, params: dict[str, object], index: str) -> None:
    operations.upgrade(database_url)
    wants = queries.load("sqlite")[name].params
    limits = {key: 10 for key in ("most", "looked") if key in wants}

    steps = plan(database_url, name, **params, **limits)

    assert "Seq Scan" not in steps
    if database_url.startswith("postgres"):
        assert index in steps
    else:
        assert index in steps or "SEARCH n USING INTEGER PRIMARY KEY" in steps
        scans = [line for line in steps.splitlines() if line.startswith("SCAN") and "VIRTUAL" not in line]
        assert all("USING" in line or line in {"SCAN near", "SCAN missing"} for line in scans), steps


# --- comparing texts -----------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_frequencies_count_nodes_among_the_newest_and_name_every_word(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await open_store(database_url)
    async with store.write(SYSTEM, Fences()) as tx:
        for n, text in enumerate(["login login page", "login form", "other page", "漢字の login"]):
            search.index(tx, [authored(f"task-{n}", text)])

    async with store.read() as tx:
        every = await search.frequencies(tx, ["login", "page", "漢字", "nowhere"])
        nothing = await search.frequencies(tx, [])
        monkeypatch.setattr(search, "SAMPLE", 2)
        newest = await search.frequencies(tx, {"login", "page"})
    await store.close()

    assert (dict(every.of), every.among) == ({"login": 3, "page": 2, "漢字": 1, "nowhere": 0}, 4)
    assert (dict(nothing.of), nothing.among) == ({}, 4)
    assert (dict(newest.of), newest.among) == ({"login": 1, "page": 1}, 2)


@pytest.mark.anyio
async def test_holding_gives_the_newest_nodes_with_any_of_the_words_and_all_their_counts(database_url: str) -> None:
    store = await open_store(database_url)
    async with store.write(SYSTEM, Fences()) as tx:
        for n, text in enumerate(["login page", "nothing", "form form login", "page"]):
            search.index(tx, [authored(f"task-{n}", text)])

    async with store.read() as tx:
        some = await search.holding(tx, ["form", "page"], most=2)
        none = await search.holding(tx, ["nowhere"], most=2)
        unasked = await search.holding(tx, [], most=2)
    await store.close()

    assert [(found.node, dict(found.counts)) for found in some] == [
        ("task-3", {"page": 1}),
        ("task-2", {"form": 2, "login": 1}),
    ]
    assert none == unasked == []
