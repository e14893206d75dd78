"""What a verb of records does to the rows, for `bench.direct`."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from bench.seed import AGENTS, FREE_RECORDS, HELD_RECORDS, RECORD_CLASS, WORK

LOCK: Final = "SELECT version FROM leases WHERE resource = :resource"
CLAIM: Final = """
UPDATE leases SET
    kind = 'claim', holder = :holder, holder_name = :holder, owner = 'person-bench', epoch = epoch + 1,
    version = version + 1, claimed_at = 1, granted_at = 1, expires_at = 4102444800000000, provisional = 0
WHERE resource = :resource
"""
RECORD: Final = """
UPDATE records SET version = version + 1, history_n = history_n + 1, updated_at = 1 WHERE class = :class AND id = :id
"""
FIELD: Final = """
INSERT INTO record_fields (class, id, field, version, value, author, updated_at)
VALUES (:class, :id, 'status', 1, '"a step of the work is done"', :author, 1)
ON CONFLICT (class, id, field) DO UPDATE SET
    version = record_fields.version + 1, value = excluded.value, author = excluded.author, updated_at = 1
"""
LOG: Final = """
INSERT INTO record_log (class, id, n, at, author, verb, field, version, record_version, class_version, value, based_on)
SELECT class, id, history_n, 1, :author, :verb, :field, version, version, 1, :value, :based_on
FROM records WHERE class = :class AND id = :id
"""
EVENT: Final = """
INSERT INTO events (at, kind, actor, owner, epoch, data, record, field, version)
VALUES (1, :kind, :holder, 'person-bench', 1, '{}', :record, :field, 1)
"""


def claim_record(connection: sqlite3.Connection, number: int) -> None:
    """Do what a granted claim of a record's task does to the rows."""
    said = {"verb": "claim", "field": WORK, "value": None, "based_on": None, "kind": "lease.claimed"}
    _write(connection, FREE_RECORDS.record(number % FREE_RECORDS.count), number, said, CLAIM, RECORD, LOG, EVENT)


def put_record(connection: sqlite3.Connection, number: int) -> None:
    """Do what a fenced write of a register does to the rows."""
    said = {
        "verb": "put",
        "field": "status",
        "value": '"a step of the work is done"',
        "based_on": '[{"field":"work","epoch":1,"kind":"fence"}]',
        "kind": "record.put",
    }
    _write(connection, HELD_RECORDS.record(number % HELD_RECORDS.count), number, said, RECORD, FIELD, LOG, EVENT)


def _write(
    connection: sqlite3.Connection, record: str, number: int, said: Mapping[str, str | None], *statements: str
) -> None:
    holder = f"agent-bench-{number % AGENTS}"
    values = {
        **said,
        "record": f"{RECORD_CLASS}/{record}",
        "resource": f"record:{RECORD_CLASS}/{record}#{WORK}",
        "class": RECORD_CLASS,
        "id": record,
        "holder": holder,
        "author": f"agent:{holder}",
    }
    connection.execute("BEGIN IMMEDIATE")
    connection.execute(LOCK, values).fetchall()
    for statement in statements:
        connection.execute(statement, values)
    connection.execute("COMMIT")
