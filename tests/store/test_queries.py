"""The named statements: the same ones on both databases, each used, each fit for the schema."""

from __future__ import annotations

import ast
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg
import pytest

from batonpass.store import operations, queries
from batonpass.store.open import sqlite_path

SOURCE: Final = Path(queries.__file__).parents[1]
ASKING: Final = frozenset({"q", "ask"})
NAME: Final = re.compile(r"[a-z_]+\.[a-z_]+")


def asked_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield each statement that a module asks for by name.

    Where the name is put together, or comes in a variable, it may be any that the module's strings can make.
    """
    tree = ast.parse(path.read_text())
    words = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        function = call.func
        called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", None)
        if called not in ASKING or not call.args:
            continue
        match call.args[0]:
            case ast.Constant(str(name)) if NAME.fullmatch(name):
                yield name, "exactly"
            case ast.JoinedStr([ast.Constant(str(noun)), ast.FormattedValue()]):
                yield from ((f"{noun}{word}", "perhaps") for word in words)
            case ast.Name():
                yield from ((word, "perhaps") for word in words if NAME.fullmatch(word))
            case _:
                pass  # a query of something else


def asked() -> set[tuple[str, str]]:
    """Return every statement that the program asks for, with where it is sure of it."""
    return {name for path in SOURCE.rglob("*.py") if "testing" not in path.parts for name in asked_in(path)}


def test_both_databases_have_the_same_statements_with_the_same_parameters() -> None:
    sqlite, postgres = queries.load("sqlite"), queries.load("postgres")

    assert {name: query.params for name, query in sqlite.items()} == {
        name: query.params for name, query in postgres.items()
    }


@pytest.mark.parametrize("dialect", ["sqlite", "postgres"])
def test_reading_the_statements_says_nothing(dialect: str, caplog: pytest.LogCaptureFixture) -> None:
    """What their reader finds odd it would tell on the standard error of every command."""
    queries.load.__wrapped__(dialect)

    assert caplog.messages == []


def test_each_statement_is_asked_for_and_each_that_is_asked_for_exists() -> None:
    known = set(queries.load("sqlite"))
    names = asked()
    assert ("schema.applied", "exactly") in names, "the search has gone blind"

    assert {name for name, how in names if how == "exactly"} - known == set()
    assert known - {name for name, _ in names} == set()


def test_each_statement_says_what_it_promises() -> None:
    for path in sorted(queries.SQL.rglob("*.sql")):
        for statement in re.split(r"^-- name: ", path.read_text(), flags=re.MULTILINE)[1:]:
            name, comment = statement.splitlines()[:2]
            assert comment.startswith("-- "), f"{path.parent.name}/{path.name}: {name}"


def test_each_statement_fits_the_schema_of_sqlite(sqlite_url: str) -> None:
    operations.upgrade(sqlite_url)
    with closing(sqlite3.connect(sqlite_path(sqlite_url))) as file:
        for name, query in queries.load("sqlite").items():
            try:
                file.execute(f"EXPLAIN {query.sql}", dict.fromkeys(query.params))
            except sqlite3.Error as error:
                pytest.fail(f"{name}: {error}")


def test_each_statement_fits_the_schema_of_postgresql(postgres_url: str) -> None:
    operations.upgrade(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for name, query in queries.load("postgres").items():
            numbered = _numbered(query.sql)
            if not re.match(r"(WITH|SELECT|INSERT|UPDATE|DELETE)\b", numbered):
                continue  # PREPARE takes no others
            try:
                connection.execute(f"PREPARE tried AS {numbered}")
                connection.execute("DEALLOCATE tried")
            except psycopg.Error as error:
                pytest.fail(f"{name}: {error}")


def _numbered(text: str) -> str:
    """Return a statement with the server's own form of parameters, without its comments."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    bare = re.sub(r"^\s*--.*$", "", text, flags=re.MULTILINE).strip()
    return re.sub(r"%\((\w+)\)s", number, bare).replace("%%", "%")
