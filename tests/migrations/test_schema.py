"""The schema is the sum of its migrations, and the same on both databases."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from pathlib import Path

import psycopg
import pytest

from batonpass.store import migrate, operations
from batonpass.store.open import dialect_of, open_session, open_store, sqlite_path
from batonpass.testing.populated import Populated, contents

Columns = Mapping[str, tuple[str, ...]]
Knowing = Callable[[int], AbstractContextManager[None]]
Tomorrow = Callable[[str], AbstractContextManager[Path]]


def columns_of(url: str) -> Columns:
    """Return the columns of each table, in their order."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            rows = file.execute(
                "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_info(t.name) c"
                " WHERE t.schema = 'main' AND t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite%'"
                " ORDER BY t.name, c.cid"
            ).fetchall()
    else:
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
                ' ORDER BY table_name COLLATE "C", ordinal_position'
            ).fetchall()
    columns: dict[str, tuple[str, ...]] = {}
    for table, column in rows:
        columns[table] = (*columns.get(table, ()), column)
    return columns


def objects_of(url: str) -> list[tuple[object, ...]]:
    """Return everything that a schema is made of, as the database itself would write it down."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            return sorted(file.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema").fetchall())
    with psycopg.connect(url) as connection:
        return [
            *connection.execute(
                "SELECT table_name::text, column_name::text, data_type::text, is_nullable::text,"
                " coalesce(column_default, ''), coalesce(collation_name::text, '')"
                " FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2"
            ).fetchall(),
            *connection.execute(
                "SELECT tablename::text, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1, 2"
            ).fetchall(),
            *connection.execute(
                "SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint"
                " WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
            ).fetchall(),
            *connection.execute(
                "SELECT proname::text, prosrc, prosecdef, coalesce(proconfig::text, ''), coalesce(proacl::text, '')"
                " FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1"
            ).fetchall(),
        ]


def indexes_of(url: str) -> set[str]:
    """Return the names of the indexes that somebody named; SQLite's of words is a virtual table."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            rows = file.execute(
                "SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL"
                " UNION SELECT name FROM pragma_table_list WHERE type = 'virtual'"
            ).fetchall()
    else:
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                "SELECT indexrelid::regclass::text FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
                " WHERE c.relnamespace = 'public'::regnamespace"
                " AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.indexrelid)"
            ).fetchall()
    return {row[0] for row in rows}


def test_both_databases_have_the_same_tables_views_and_columns(sqlite_url: str, postgres_url: str) -> None:
    operations.upgrade(sqlite_url)
    operations.upgrade(postgres_url)

    assert columns_of(sqlite_url) == columns_of(postgres_url)


def test_both_databases_have_the_same_named_indexes(sqlite_url: str, postgres_url: str) -> None:
    operations.upgrade(sqlite_url)
    operations.upgrade(postgres_url)

    assert indexes_of(sqlite_url) == indexes_of(postgres_url)
    assert "queue_items_lane" in indexes_of(sqlite_url)
    assert "nodes_queue" not in indexes_of(sqlite_url), "an index that nothing reads"


def test_both_databases_have_the_same_migrations() -> None:
    assert [step.name for step in migrate.known("sqlite")] == [step.name for step in migrate.known("postgres")]


@pytest.mark.parametrize("first", range(1, len(migrate.known("sqlite")) + 1))
def test_a_database_that_came_step_by_step_is_the_one_that_was_made_at_once(
    database_url: str, first: int, knowing: Knowing, another_database: Callable[[str], str]
) -> None:
    with knowing(first):
        operations.upgrade(database_url)
    operations.upgrade(database_url)
    at_once = another_database(dialect_of(database_url))
    operations.upgrade(at_once)

    assert objects_of(database_url) == objects_of(at_once)


def test_the_schema_is_what_the_files_make_when_anybody_runs_them(
    database_url: str, another_database: Callable[[str], str]
) -> None:
    """No table or index comes from anywhere but the migrations, beside the list of those applied."""
    operations.upgrade(database_url)
    by_hand = another_database(dialect_of(database_url))
    with open_session(by_hand) as session:
        session.ask("schema.make_ledger")
        for step in migrate.known(session.dialect):
            session.run_script(step.sql)

    assert objects_of(by_hand) == objects_of(database_url)


def test_the_reference_page_lists_the_tables_and_their_columns(sqlite_url: str) -> None:
    operations.upgrade(sqlite_url)
    page = (Path(__file__).parents[2] / "docs" / "reference" / "database.md").read_text()

    listed = {
        table: tuple(re.findall(r"`(\w+)`", columns))
        for table, columns in re.findall(r"^\| \*\*`(\w+)`\*\* \| [^|]* \| ([^|]*) \|$", page, re.MULTILINE)
    }

    assert listed == columns_of(sqlite_url)


async def _open(url: str, *, upgrade: bool) -> None:
    store = await open_store(url, upgrade=upgrade)
    await store.close()


@pytest.mark.anyio
async def test_a_newer_schema_is_refused_by_open_store_and_left_as_it_is(populated: Populated) -> None:
    with open_session(populated.url) as session, session.transaction():
        session.ask("schema.note", version=9999, name="9999_post_tomorrow")
    before = contents(populated.url)

    for upgrade in (True, False):
        with pytest.raises(migrate.SchemaNewer, match="Install the newer Batonpass"):
            await _open(populated.url, upgrade=upgrade)

    assert contents(populated.url) == before


@pytest.mark.anyio
async def test_an_older_schema_is_refused_by_open_store_when_it_may_not_upgrade(
    populated: Populated, tomorrow: Tomorrow
) -> None:
    with tomorrow("ALTER TABLE people ADD COLUMN nick text;"):
        with pytest.raises(migrate.SchemaOlder, match="run: baton db upgrade"):
            await _open(populated.url, upgrade=False)
        assert "nick" not in columns_of(populated.url)["people"]

        await _open(populated.url, upgrade=True)
        assert "nick" in columns_of(populated.url)["people"]
        await _open(populated.url, upgrade=False)


@pytest.mark.anyio
async def test_a_database_never_used_is_an_older_one(database_url: str) -> None:
    with pytest.raises(migrate.SchemaOlder):
        await _open(database_url, upgrade=False)


def test_a_migration_with_another_kind_of_name_is_not_overlooked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(migrate.MIGRATIONS, tmp_path / "odd")
    (tmp_path / "odd" / "sqlite" / "0002-nick.sql").touch()
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path / "odd")

    with pytest.raises(AssertionError, match=r"0002-nick\.sql is not NNNN_pre_name\.sql"):
        migrate.known("sqlite")


def test_a_gap_in_the_numbers_is_not_overlooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(migrate.MIGRATIONS, tmp_path / "odd")
    (tmp_path / "odd" / "sqlite" / "0099_pre_nick.sql").touch()
    monkeypatch.setattr(migrate, "MIGRATIONS", tmp_path / "odd")

    with pytest.raises(AssertionError, match="are not 1, 2, 3"):
        migrate.known("sqlite")
