"""The limit on SQLite: sqlite3 in one loop, writing the rows a verb writes, with a commit each.

    python -m bench.direct DATABASE VERB SECONDS [CELLS] > result.json

It works on a copy of the seeded database, so the indexes are the same, with
the settings the server uses: a write-ahead log, and a flush at each commit.
"""

from __future__ import annotations

import functools
import sqlite3
import sys
import time
from collections.abc import Callable
from typing import Final

import msgspec

from batonpass.core.ids import NodeId
from bench.direct_records import claim_record, put_record
from bench.seed import AGENTS, CLAIMED, HELD, SESSION
from bench.world import plain_item

LOCK: Final = "SELECT version FROM leases WHERE resource = ?"
CLAIM: Final = """
UPDATE leases SET
    kind = 'claim', holder = :holder, holder_name = :holder, owner = :owner, session = :session, epoch = epoch + 1,
    version = version + 1, claimed_at = :now, granted_at = :now, expires_at = :now + 2700000000, provisional = 0
WHERE resource = :resource AND version = :version
"""
EVENT: Final = """
INSERT INTO events (at, kind, node, project, actor, owner, session, epoch, data)
VALUES (:now, 'lease.claimed', :resource, 'bench', :holder, :owner, :session, 1, '{}')
"""
RENEW: Final = """
UPDATE leases SET version = version + 1, granted_at = :now, expires_at = :now + 2700000000
WHERE resource = :resource AND version = :version
"""


Verb = Callable[[sqlite3.Connection, int], None]
"""Does the writes of request number n."""


class Direct(msgspec.Struct):
    """How many transactions were committed in how many seconds."""

    ops: int
    seconds: float


def claim(connection: sqlite3.Connection, number: int) -> None:
    """Do what a granted claim does to the rows."""
    _write(connection, CLAIMED.node(number % CLAIMED.count), number, CLAIM, EVENT)


def renew(connection: sqlite3.Connection, number: int) -> None:
    """Do what a renewal does to its row."""
    _write(connection, HELD.node(number % HELD.count), number, RENEW)


def take(connection: sqlite3.Connection, number: int, *, cells: int) -> None:
    """Do what a claim of an item of a world of so many cells does to the rows."""
    _write(connection, plain_item(number % cells), number, CLAIM, EVENT)


def _write(connection: sqlite3.Connection, resource: NodeId, number: int, *statements: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    ((version,),) = connection.execute(LOCK, (resource,)).fetchall()
    values = {
        "resource": resource,
        "version": version,
        "now": time.time_ns() // 1000,
        "holder": f"agent-bench-{number % AGENTS}",
        "owner": "person-bench",
        "session": SESSION,
    }
    for statement in statements:
        connection.execute(statement, values)
    connection.execute("COMMIT")


VERBS: Final[dict[str, Verb]] = {
    "claim": claim,
    "renew": renew,
    "record_claim": claim_record,
    "record_put": put_record,
}


def run(database: str, verb: Verb, seconds: float) -> Direct:
    """Repeat `verb` for `seconds`."""
    connection = sqlite3.connect(database, isolation_level=None)
    for setting in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
        connection.execute(f"PRAGMA {setting}")
    ops, elapsed = 0, 0.0
    started = time.perf_counter()
    while elapsed < seconds:
        verb(connection, ops)
        ops, elapsed = ops + 1, time.perf_counter() - started
    connection.close()
    return Direct(ops, elapsed)


def main() -> None:
    """Run what the arguments say and print how it went."""
    database, name, seconds, *cells = sys.argv[1:]
    verb = VERBS[name] if name in VERBS else functools.partial(take, cells=int(cells[0]))
    sys.stdout.buffer.write(msgspec.json.encode(run(database, verb, float(seconds))))


if __name__ == "__main__":
    main()
