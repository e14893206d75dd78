"""Filling a database with a world in one transaction: the rows that a change would write, by the shortest way.

Each node goes the way of every change (`services.drafts`, `store.items`), onto a
sheet that keeps what is handed over. On SQLite those statements are run as
they are; on PostgreSQL their rows are copied, and indexes are built
afterwards, as a restore does it. The planner's statistics are gathered at the end, which an
installation does by itself. What the queue's index should keep comes from the
world; a sample of it is derived anew by the server's own code, and must be the
same.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Final, cast

import msgspec
import psycopg
from psycopg import sql

from batonpass.core.identity import Kind, Principal
from batonpass.core.ids import HolderId, NodeId, TokenHash
from batonpass.core.nodes import Node
from batonpass.core.queue import keep
from batonpass.server.services.drafts import Draft, Drafts
from batonpass.server.services.ranking import derive
from batonpass.store import items, queries
from batonpass.store.base import SYSTEM, Fences, Reader, Statement, Tx, q
from batonpass.store.history import Addition, Written
from batonpass.store.open import open_store
from batonpass.wire import markdown
from bench.world import World

AT_ONCE: Final = 2_000
"""How many nodes are on a sheet at a time."""
SAMPLE: Final = 400
CACHE_KIB: Final = 1_000_000
TABLES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "nodes.insert": ("nodes", {}),
    "leases.create": ("leases", {}),
    "edges.put": ("edges", {"at": "created_at"}),
    "commits.put": ("node_commits", {}),
    "inbox.put": ("inbox", {}),
    "search.write": ("search_nodes", {"i": ""}),
    "history.add": ("node_history", {}),
    "ranking.put_items": ("queue_items", {}),
}
"""Where the rows of a statement go, and which of its names are others there, or none."""
FIXED: Final[Mapping[str, Mapping[str, object]]] = {"history.add": {"n": 1}}
"""What a statement finds out by itself: each history begins here."""
Rows = dict[str, list[Mapping[str, object]]]


class Unlike(Exception):
    """The world says something else of an item than the server derives."""


@dataclass(slots=True)
class Sheet:
    """Stands in the place of a transaction, and keeps what is handed over."""

    statements: list[Statement] = field(default_factory=list)

    def put(self, statement: Statement) -> None:
        """Keep a change."""
        self.statements.append(statement)


@dataclass(frozen=True, slots=True)
class Filled:
    """How many nodes a database was filled with, in how many seconds."""

    nodes: int
    seconds: float


def fill(url: str, world: World) -> Filled:
    """Fill the database at `url`, which has its first person and no nodes of its own yet, with `world`."""
    started = time.perf_counter()
    if url.startswith("sqlite:"):
        _fill_sqlite(Path(url.removeprefix("sqlite:///")), world)
    else:
        _fill_postgres(url, world)
    asyncio.run(_compared(url, world))
    return Filled(world.size, time.perf_counter() - started)


# --- what is written of a node ----------------------------------------------------------------------------------------


def _sheets(world: World) -> Iterator[list[Statement]]:
    """Yield the statements that write the world, some thousand nodes at a time, in the order to run them."""
    by = Principal(HolderId(world.author), Kind.PERSON, world.byline, TokenHash(""), person=world.author)
    made = world.made()
    while some := list(islice(made, AT_ONCE)):
        sheet = Sheet()
        drafts = Drafts()
        for one in some:
            drafts.add(_draft(one.node, by))
        drafts.send(cast("Tx", sheet))
        items.put(cast("Tx", sheet), [keep(one.candidate, world.now) for one in some if one.candidate is not None])
        yield sheet.statements


def _draft(node: Node, by: Principal) -> Draft:
    written = Written("put", markdown.write(node.authored))
    at = node.created_at
    return Draft(
        before=None,
        after=node,
        added=node.authored.edges,
        removed=(),
        by_person=True,
        at=at,
        remembered=Addition(node.id, node.revision, written, by=by, via="cli", at=at),
    )


# --- SQLite -----------------------------------------------------------------------------------------------------------


def _fill_sqlite(file: Path, world: World) -> None:
    connection = sqlite3.connect(file, isolation_level=None)
    for setting in ("journal_mode = WAL", "synchronous = OFF", f"cache_size = -{CACHE_KIB}", "temp_store = MEMORY"):
        connection.execute(f"PRAGMA {setting}")
    connection.execute("BEGIN IMMEDIATE")
    known = queries.load("sqlite")
    for statement in chain.from_iterable(_sheets(world)):
        connection.execute(known[statement.name].sql, statement.params)
    connection.execute("COMMIT")
    connection.execute("ANALYZE")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


# --- PostgreSQL -------------------------------------------------------------------------------------------------------


def _fill_postgres(url: str, world: World) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        # Rows come in an order of ours: keys are not looked up row by row.
        for setting in (
            "session_replication_role = replica", "synchronous_commit = off", "maintenance_work_mem = '1GB'",
            "max_parallel_maintenance_workers = 0",
        ):  # fmt: skip
            connection.execute(sql.SQL("SET ") + sql.SQL(setting))
        with connection.transaction():
            indexes = _without_indexes(connection)
            for statements in _sheets(world):
                for name, rows in _rows(statements).items():
                    _copy(connection, TABLES[name], rows)
            for definition in indexes:
                connection.execute(definition)
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _without_indexes(connection: psycopg.Connection) -> list[bytes]:
    """Drop the indexes that are no keys, and return the statements that make them again."""
    found = connection.execute(
        "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i"
        " JOIN pg_class t ON t.oid = i.indrelid"
        " WHERE t.relname = ANY (%s) AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)",
        ([table for table, _ in TABLES.values()],),
    ).fetchall()
    for name, _ in found:
        connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    return [definition.encode() for _, definition in found]


def _rows(statements: Iterable[Statement]) -> Rows:
    """Return the rows that statements write, by their name."""
    rows: Rows = {name: [] for name in TABLES}
    for statement in statements:
        match statement.name, statement.params:
            case "leases.create", {"resources": str() as resources}:
                rows["leases.create"] += [{"resource": one} for one in msgspec.json.decode(resources)]
            case "search.put_in", _:
                pass  # here the index of words follows its table
            case name, {"rows": str() as many}:
                rows[name] += [{**FIXED.get(name, {}), **row} for row in msgspec.json.decode(many)]
            case name, _:
                raise AssertionError(name)
    return rows


def _copy(
    connection: psycopg.Connection, where: tuple[str, Mapping[str, str]], rows: Sequence[Mapping[str, object]]
) -> None:
    if not rows:
        return
    table, renamed = where
    names = [name for name in rows[0] if renamed.get(name, name)]
    columns = sql.SQL(", ").join(sql.Identifier(renamed.get(name, name)) for name in names)
    into = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), columns)
    with connection.cursor() as cursor, cursor.copy(into) as copy:
        for row in rows:
            copy.write_row([row[name] for name in names])


# --- whether it is true -----------------------------------------------------------------------------------------------


async def _compared(url: str, world: World) -> None:
    """Raise `Unlike` if the server derives something else of any item of a sample than the world has said."""
    store = await open_store(url)
    try:
        step = max(1, world.size // SAMPLE) | 1
        sample = [world.node_id(number) for number in range(0, world.cells * 20, step)]
        async with store.write(SYSTEM, Fences()) as tx:
            before = await _kept(tx, sample)
            await derive(tx, [node for node in sample if node in before], world.now)
            after = await _kept(tx, sample)
    finally:
        await store.close()
    if unlike := [node for node in before if before[node] != after[node]]:
        raise Unlike(json.dumps([before[unlike[0]], after[unlike[0]]], default=str))


async def _kept(tx: Reader, ids: Sequence[NodeId]) -> dict[NodeId, Sequence[object]]:
    (rows,) = await tx.fetch(
        q("ranking.named", ids=msgspec.json.encode(ids).decode(), projects=None, types=None, exclude_types="[]")
    )
    return {NodeId(row[1]): tuple(row) for row in rows}
