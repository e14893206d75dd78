"""The named statements of one dialect, loaded once and checked against the other.

SQL lives in ``sql/<dialect>/<noun>.sql``; a statement is called
``<noun>.<name>``. aiosql reads the files and turns ``:parameter`` into the
driver's form; it runs nothing. A set of rows travels as one JSON parameter in
both dialects, so the two files of a noun can have the same names with the
same parameters, and a test refuses any difference.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import aiosql

SQL: Final = Path(__file__).parent / "sql"
ADAPTERS: Final = {"sqlite": "sqlite3", "postgres": "psycopg"}


@dataclass(frozen=True, slots=True)
class Query:
    """One statement: its text in the driver's form, and the parameters it takes."""

    sql: str
    params: frozenset[str]


@functools.cache
def load(dialect: str) -> Mapping[str, Query]:
    """Return every statement of `dialect` by its dotted name."""
    queries: dict[str, Query] = {}
    for path in sorted((SQL / dialect).glob("*.sql")):
        loaded = aiosql.from_path(path, ADAPTERS[dialect], encoding="utf-8")  # whatever the locale is
        for name in loaded.available_queries:
            if name.endswith("_cursor"):
                continue
            function = getattr(loaded, name)
            queries[f"{path.stem}.{name}"] = Query(function.sql, frozenset(function.parameters or ()))
    return queries
