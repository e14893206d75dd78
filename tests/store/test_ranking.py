"""How the databases go about the queue's reads and writes: along indexes, however much there is (D16).

Over tables large enough that the planner has a choice, with statistics, and on
PostgreSQL with the plan that is kept for any parameters.
"""

from __future__ import annotations

import itertools
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Final

import psycopg
import pytest

from batonpass.core import ranking
from batonpass.store import operations, queries
from batonpass.store.open import sqlite_path

MANY: Final = 20_000
BORN: Final = 1_780_000_000_000_000
HEADS: Final = json.dumps(
    [
        {"n": n, "project": "p1", "type": "task", "lane": lane, "place": -(2**60), "born": 0, "node": ""}
        for n, lane in enumerate(ranking.lanes())
    ]
)
ENDS: Final = json.dumps([{**head, "end_place": 9000, "end_born": 0, "end_node": ""} for head in json.loads(HEADS)])
REASONS: Final = json.dumps([{"why": "blocked", "heads": json.loads(HEADS)}])
ONE: Final = '["task-000100"]'
ALL: Final[Mapping[str, object]] = {"projects": None, "types": None, "exclude_types": "[]", "most": 33}
OF: Final[Mapping[str, object]] = {"holder": "agent-a", "owner": None, "now": 5}
STATEMENTS: Final[Mapping[str, Mapping[str, object]]] = {
    "ranking.scan": {"heads": HEADS, "most": 33},
    "ranking.scan_in": {"heads": HEADS, "most": 33},
    "ranking.scan_of": {"heads": HEADS, "most": 33},
    "ranking.turned": {"today": 5, **ALL},
    "ranking.lapsed": {"now": 5, **ALL},
    "ranking.own": {**OF, **ALL},
    "ranking.reserved": {**OF, **ALL},
    "ranking.named": {"ids": ONE, "projects": None, "types": None, "exclude_types": "[]"},
    "counting.hidden": {"reasons": REASONS, "today": 5, "types": None, "exclude_types": "[]"},
    "counting.hidden_in": {"reasons": REASONS, "today": 5, "types": None, "exclude_types": "[]"},
    "counting.held": {**OF, **ALL, "lanes": "[0]"},
    "counting.marked": {**OF, **ALL, "lanes": "[0]"},
    "counting.between": {"heads": ENDS, "today": 5, "known": ONE},
    "counting.between_in": {"heads": ENDS, "today": 5, "known": ONE},
    "counting.between_of": {"heads": ENDS, "today": 5, "known": ONE},
    "ranking.front": {"person": "person-ada", "since": 5, "most": 9},
    "ranking.lock_affected": {"changes": ONE, "most": 9},
    "ranking.lock_items": {"ids": ONE},
    "ranking.mark": {"busy": ONE, "free": "[]"},
    "ranking.note_changes": {"certain": ONE, "perhaps": ONE},
    "ranking.spread_changes": {"names": ONE, "depth": 8, "most": 9},
    "ranking.take_notes": {"most": 9},
    "queue.facts": {"ids": ONE, "heat_since": 5, "heat_most": 9, "cold_before": 5, "depth": 8, "most": 800},
    "queue.blockers": {"ids": ONE},
    "queue.outcomes": {"ids": ONE, "weak": '["resolves"]'},
    "queue.cycles": {"ids": ONE, "depth": 16, "most": 9},
    "queue.pick": {"ids": ONE},
}
INDEX: Final = {
    "ranking.scan": "lane",
    "ranking.scan_in": "project",
    "ranking.scan_of": "type",
    "counting.hidden": "lane",
}
LARGE: Final = "queue_items|nodes|leases|edges|node_history"


def fill(url: str) -> None:
    """Put many items into a database, a few of them held, each blocking another."""
    ids = [f"task-{n:06}" for n in range(MANY)]
    nodes = [
        (node, f"p{n % 20}", "task", "t", "s", "", "r", BORN, BORN, BORN, False, True, True, 9)
        for n, node in enumerate(ids)
    ]
    items = [
        # Were all of one type, either index would do, and which is taken would be a matter of the sample.
        (
            node,
            "task" if n % 7 == 0 else "issue",
            f"p{n % 20}",
            0,
            0,
            BORN,
            n % 3 * ranking.PACES,
            n,
            ranking.NEVER,
            n % 500 == 0,
        )
        for n, node in enumerate(ids)
    ]
    edges = [(one, "blocks", other, True, BORN) for one, other in itertools.pairwise(ids)]
    history = [(node, n, "r", BORN, "put", f"person-{n}", "") for node in ids for n in (1, 2)]
    rows: dict[str, Sequence[tuple[object, ...]]] = {
        "nodes (id, project, type, title, summary, body, revision, created_at, updated_at, born, dead, resolving,"
        " queueable, rank)": nodes,
        "leases (resource)": [(node,) for node in ids],
        "queue_items (node, type, project, live_blockers, base, born, lane, place, turns, busy)": items,
        "edges (src, type, dst, by_person, created_at)": edges,
        "node_history (node, n, revision, at, verb, author, content)": history,
        "queue_dirty (name, what)": [(node, "item") for node in ids[:2000]],
    }
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file, file:
            for table, values in rows.items():
                marks = ", ".join("?" * len(values[0]))
                file.executemany(f"INSERT INTO {table} VALUES ({marks})", values)
            file.execute("ANALYZE")
        return
    with psycopg.connect(url, autocommit=True) as connection:
        for table, values in rows.items():
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                for value in values:
                    copy.write_row(value)
        connection.execute("ANALYZE")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a database with many items in it."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('ranking') / 'baton.db'}"
        operations.upgrade(url)
        fill(url)
        yield url
        return
    cluster = request.getfixturevalue("postgres")
    name = cluster.create_database()
    operations.upgrade(cluster.url(name))
    fill(cluster.url(name))
    yield cluster.url(name)
    cluster.drop_database(name)


def plan(url: str, name: str) -> str:
    """Return how the database would carry out a statement, whatever its parameters are."""
    params = STATEMENTS[name]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as file:
            rows = file.execute(f"EXPLAIN QUERY PLAN {queries.load('sqlite')[name].sql}", params).fetchall()
            return "\n".join(row[3] for row in rows)
    order: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        if match[1] not in order:
            order.append(match[1])
        return f"${order.index(match[1]) + 1}"

    bare = re.sub(r"^\s*--.*$", "", queries.load("postgres")[name].sql, flags=re.MULTILINE).strip().rstrip(";")
    text = re.sub(r"%\((\w+)\)s", numbered, bare).replace("%%", "%")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute(f"PREPARE asked AS {text}")
        values = ", ".join("NULL" if params[one] is None else f"'{params[one]}'" for one in order)
        rows = connection.execute(f"EXPLAIN (COSTS OFF) EXECUTE asked ({values})").fetchall()
        return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_of_the_queue_reads_a_table_from_end_to_end(filled: str, name: str) -> None:
    steps = plan(filled, name)

    assert not re.search(rf"Seq Scan on ({LARGE})\b", steps), steps
    assert "BLOOM FILTER" not in steps, "such a filter is filled with the whole table"
    assert not re.search(
        rf"^SCAN ({LARGE}|[a-z])\b(?! USING| VIRTUAL| CONSTANT)", _without_small(steps), re.MULTILINE
    ), steps


@pytest.mark.parametrize("name", INDEX)
def test_a_lane_is_read_in_its_order_and_never_sorted(filled: str, name: str) -> None:
    steps = plan(filled, name)

    assert f"queue_items_{INDEX[name]}" in steps
    assert "Sort Key: q." not in steps
    assert "Bitmap" not in steps
    assert not ("TEMP B-TREE FOR ORDER BY" in steps and "scan" in name)


@pytest.mark.parametrize("name", ["counting.between", "counting.between_in", "counting.between_of"])
def test_what_stands_between_two_places_is_read_from_the_one_to_the_other(filled: str, name: str) -> None:
    steps = plan(filled, name)

    if filled.startswith("sqlite"):
        assert "(place,born,node)>(?,?,?) AND (place,born,node)<(?,?,?)" in steps
    else:
        (read,) = re.findall(r"Index Cond: .*", steps)
        assert "> ROW(" in read
        assert "<= ROW(" in read
        assert "Sort Key" not in steps


def _without_small(steps: str) -> str:
    """Leave out the steps over what a statement has been given or has found so far."""
    small = re.compile(
        r"^SCAN (json_each|changed|c|done|d|a|affected|upstream|u|down|few|some|lately|h|i|wanted|w|p|r)\b.*$"
    )
    return "\n".join(line for line in steps.splitlines() if not small.match(line))
