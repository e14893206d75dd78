"""The check finds what it promises to find, names it, and says what to do; and finds nothing where nothing is wrong."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import psycopg
import pytest

from batonpass.core.errors import NotFound
from batonpass.store import check, migrate
from batonpass.store.open import open_session, sqlite_path
from batonpass.testing.populated import CLAIMED, FREE, KEY, RELEASED, WORKED, Populated, break_an_index, contents

SECRET: Final = "bat_agt_" + "a1B2-" * 8 + "xyz"
OTHER_HASH: Final = "0" * 64

DAMAGE: Final[dict[str, tuple[str, str, str]]] = {
    "lease_rows": (f"DELETE FROM leases WHERE resource = '{FREE}'", FREE, "has no lease row"),
    "lease_shape": (
        f"UPDATE leases SET expires_at = 1, granted_at = 2 WHERE resource = '{CLAIMED}'",
        CLAIMED,
        "is a claim of agent-mill at epoch 1 without all of its parts",
    ),
    "event_epochs": (
        f"UPDATE events SET epoch = 7 WHERE node = '{RELEASED}' AND kind = 'lease.released'",
        RELEASED,
        "an event tells epoch 7, the lease row has 1: history has gone back",
    ),
    "fence_epochs": (
        f"UPDATE run_tenures SET epoch = 9 WHERE resource = '{WORKED}'",
        WORKED,
        "epoch 9 was acquired, the lease row has 1: history has gone back",
    ),
    "run_tokens": (
        f"UPDATE leases SET run_token = '{OTHER_HASH}' WHERE resource = '{CLAIMED}'",
        CLAIMED,
        "epoch 1 names the token 000000000000, which is not one of that tenure",
    ),
    "history_numbers": (
        f"UPDATE node_history SET n = 5 WHERE node = '{FREE}' AND n = 4",
        FREE,
        "has 4 revisions, the last is number 5",
    ),
    "search_rows": (
        f"DELETE FROM search_nodes WHERE node = '{RELEASED}'",
        RELEASED,
        "has no entry in the index of words",
    ),
    "history_ends": (
        f"UPDATE node_history SET revision = 'x' WHERE node = '{RELEASED}'",
        RELEASED,
        "is at ",
    ),
    "redactions": (
        f"UPDATE node_history SET redaction = 3 WHERE node = '{FREE}' AND n = 1",
        FREE,
        "entry 1 names no redaction",
    ),
    "tombstones": (
        f"INSERT INTO tombstones VALUES ('{FREE}', 'task', NULL, 'x', 1, 'person-pat', 'why')",
        FREE,
        "was deleted, and is a node's id again",
    ),
    "commits": (
        f"INSERT INTO node_commits VALUES ('{FREE}', 'web', 'abcdef1')",
        FREE,
        "web@abcdef1 is found by its hash, and not carried",
    ),
    "record_classes": (
        "UPDATE records SET class_version = 7 WHERE id = 'inc-1'",
        "incidents/inc-1",
        "was written under version 7 of incidents, which is not there",
    ),
    "record_parts": (
        "INSERT INTO record_fields (class, id, field, version) VALUES ('incidents', 'inc-9', 'status', 1)",
        "incidents/inc-9",
        "is no record, and has the field status",
    ),
    "record_items": (
        "UPDATE record_items SET n = 2 WHERE n = 0",
        "incidents/inc-1#actions",
        "says 2 items and has 2, the last is number 2",
    ),
    "record_sizes": (
        "UPDATE record_fields SET size = 7 WHERE field = 'actions' AND id = 'inc-1'",
        "incidents/inc-1#actions",
        "says 7 bytes and has ",
    ),
    "record_versions": (
        "UPDATE record_fields SET version = 0 WHERE field = 'status' AND id = 'inc-1'",
        "incidents/inc-1#status",
        "a version 1 is told, and it is at 0: history has gone back",
    ),
    "token_secrets": (
        f"UPDATE tokens SET label = '{SECRET}' WHERE agent IS NULL AND person = 'person-pat'",
        "person-pat",
        "is kept as 64 characters that are not only a hash",
    ),
    "key_secrets": (
        f"UPDATE api_keys SET hash = '{SECRET}' WHERE name = '{KEY}'",
        f"apikey:{KEY}",
        "is kept as 51 characters that are not only a hash",
    ),
    "key_names": (
        f"""INSERT INTO api_keys (hash, name, created_by, created_at, expires_at)
            SELECT '{OTHER_HASH}', name, created_by, created_at + 1, expires_at FROM api_keys WHERE name = '{KEY}'""",
        f"apikey:{KEY}",
        "has two keys that live at once, 000000000000 and ",
    ),
    "reply_secrets": (
        f"""UPDATE idempotency_keys SET reply = '{{"token": "{SECRET}"}}'""",
        "reply to POST /v1/nodes of person-ada-admin",
        "holds the text of a token",
    ),
    "revisions": (f"UPDATE nodes SET title = 'Another' WHERE id = '{FREE}'", FREE, "but reads as "),
    "verdicts": (f"UPDATE nodes SET rank = rank + 1 WHERE id = '{FREE}'", FREE, "rank is kept as "),
}
"""For each invariant: a hand's way to break it, and what is then said of what."""


def damage(url: str, statement: str) -> None:
    """Change rows as a hand with a database's own tools can."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url), isolation_level=None)) as file:
            file.execute("PRAGMA ignore_check_constraints = ON")
            assert file.execute(statement).rowcount > 0
    else:
        with psycopg.connect(url) as connection:
            assert connection.execute(statement).rowcount > 0


def found(url: str) -> dict[str, list[check.Finding]]:
    """Return what the check finds, by invariant."""
    findings: dict[str, list[check.Finding]] = {}
    for finding in check.check(url).findings:
        findings.setdefault(finding.invariant, []).append(finding)
    return findings


def test_a_database_that_has_been_worked_with_is_whole(populated: Populated) -> None:
    checked = check.check(populated.url)

    assert checked.findings == ()
    assert checked.passed == tuple(invariant.name for invariant in check.ALL)


@pytest.mark.parametrize("invariant", sorted(DAMAGE))
def test_what_breaks_an_invariant_is_found_and_named(populated: Populated, invariant: str) -> None:
    statement, subject, message = DAMAGE[invariant]
    damage(populated.url, statement)

    findings = found(populated.url)

    assert invariant in findings, findings
    assert set(findings) - {invariant} <= {"history_ends", "revisions", "run_tokens"} - {invariant}
    (finding,) = findings[invariant]
    assert finding.subject == subject
    assert message in finding.message
    assert finding.fix


def test_history_that_has_gone_back_is_found_of_a_records_task_too(populated: Populated) -> None:
    damage(populated.url, "UPDATE events SET epoch = 7 WHERE kind = 'lease.released' AND field = 'review'")

    findings = found(populated.url)

    assert set(findings) == {"event_epochs"}
    (finding,) = findings["event_epochs"]
    assert finding.subject == "record:incidents/inc-1#review"
    assert "an event tells epoch 7, the lease row has 1" in finding.message


def test_each_invariant_can_be_broken_by_a_test() -> None:
    structural = {"structure", "foreign_keys", "edge_sources"}

    assert {invariant.name for invariant in check.ALL} == set(DAMAGE) | structural


def test_the_reference_page_says_what_each_invariant_promises() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "database.md").read_text()

    listed = re.findall(r"^\| `(\w+)` \| (.*) \|$", page, re.MULTILINE)

    assert listed == [(invariant.name, invariant.promise) for invariant in check.ALL]


def test_an_edge_without_its_node_is_found_where_foreign_keys_were_off(populated_sqlite: Populated) -> None:
    """SQLite: its keys are a setting of each connection, and a tool's own connection has them off."""
    damage(populated_sqlite.url, f"DELETE FROM nodes WHERE id = '{FREE}'")

    findings = found(populated_sqlite.url)

    # Of its edge, and of its place in the queue; of a table without row numbers SQLite can't say which row.
    told = [finding.message for finding in findings["foreign_keys"]]
    assert "row ? points at no row of nodes" in told
    assert all(message.endswith("points at no row of nodes") for message in told)


def test_an_edge_without_its_node_is_found_where_the_key_was_dropped(populated_postgres: Populated) -> None:
    """PostgreSQL: a key that is there holds."""
    with psycopg.connect(populated_postgres.url) as connection:
        connection.execute("ALTER TABLE edges DROP CONSTRAINT edges_src_fkey")
    damage(populated_postgres.url, f"DELETE FROM nodes WHERE id = '{FREE}'")

    (finding,) = found(populated_postgres.url)["edge_sources"]

    assert (finding.subject, finding.message) == (FREE, f"its edge blocks to {RELEASED} leaves no node")


def test_a_damaged_file_is_found_and_its_rows_are_not_believed(populated_sqlite: Populated) -> None:
    """SQLite: PostgreSQL looks at pages with amcheck only."""
    break_an_index(sqlite_path(populated_sqlite.url))

    checked = check.check(populated_sqlite.url)

    assert {(finding.invariant, finding.subject) for finding in checked.findings} == {("structure", "file")}
    assert "restore a backup" in checked.findings[0].fix
    assert checked.notes == ("the database itself is not sound, so its rows were not looked at",)
    assert checked.passed == ()


@pytest.mark.parametrize("place", [0, 100])
def test_a_file_that_cannot_be_read_at_all_is_a_finding_too(populated_sqlite: Populated, place: int) -> None:
    """SQLite only. Its first page is its header, then the root of its list of tables."""
    path = sqlite_path(populated_sqlite.url)
    with path.open("r+b") as raw:
        raw.seek(place)
        raw.write(bytes(16))

    (finding,) = check.check(populated_sqlite.url).findings

    assert (finding.invariant, finding.subject) == ("structure", "file")


def test_a_constraint_that_was_never_validated_is_found(populated_postgres: Populated) -> None:
    """PostgreSQL only."""
    with psycopg.connect(populated_postgres.url) as connection:
        connection.execute("ALTER TABLE nodes ADD CONSTRAINT titled CHECK (title <> '') NOT VALID")

    (finding,) = check.check(populated_postgres.url).findings

    assert (finding.subject, finding.message) == ("nodes", "the constraint titled was never validated")


def test_a_foreign_key_that_is_switched_off_is_found(populated_postgres: Populated) -> None:
    """PostgreSQL only."""
    with psycopg.connect(populated_postgres.url) as connection:
        connection.execute("ALTER TABLE edges DISABLE TRIGGER ALL")

    assert set(found(populated_postgres.url)) == {"foreign_keys"}


@contextmanager
def amcheck(url: str, *, btree: str = "NULL", heap: str = "WHERE false") -> Iterator[None]:
    """Put functions of amcheck's shape into the database: the extension is not in every PostgreSQL."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "CREATE FUNCTION bt_index_check(index regclass, heapallindexed boolean) RETURNS void LANGUAGE plpgsql AS"
            f" $$ BEGIN {btree}; END $$"
        )
        connection.execute(
            "CREATE FUNCTION verify_heapam(relation regclass, OUT msg text) RETURNS SETOF text LANGUAGE sql AS"
            f" $$ SELECT 'line pointer is bad' {heap} $$"
        )
    yield


def test_amcheck_is_asked_about_each_table_and_index_where_it_is_there(populated_postgres: Populated) -> None:
    """PostgreSQL only."""
    with amcheck(populated_postgres.url):
        checked = check.check(populated_postgres.url)

    assert (checked.findings, checked.notes) == ((), ())


def test_what_amcheck_finds_is_told_and_does_not_end_the_check(populated_postgres: Populated) -> None:
    """PostgreSQL only."""
    broken = (
        "IF index::text = 'nodes_type' THEN RAISE EXCEPTION 'item order invariant violated'"
        " USING ERRCODE = 'index_corrupted'; END IF"
    )
    with amcheck(populated_postgres.url, btree=broken, heap="WHERE relation = 'edges'::regclass"):
        checked = check.check(populated_postgres.url)

    assert [(finding.subject, finding.message) for finding in checked.findings] == [
        ("edges", "line pointer is bad"),
        ("nodes_type", "item order invariant violated"),
    ]


def test_an_amcheck_one_may_not_use_is_said(populated_postgres: Populated) -> None:
    """PostgreSQL only: by default it is for superusers."""
    refused = "RAISE EXCEPTION 'permission denied' USING ERRCODE = 'insufficient_privilege'"
    with amcheck(populated_postgres.url, btree=refused):
        checked = check.check(populated_postgres.url)

    assert checked.findings == ()
    assert "amcheck may not be used by this role, so nodes_type was not compared" in checked.notes


def test_where_amcheck_is_missing_that_is_said(populated_postgres: Populated) -> None:
    """PostgreSQL only."""
    (note,) = check.check(populated_postgres.url).notes

    assert "amcheck is not installed" in note


def test_of_many_findings_of_one_kind_a_hundred_are_told(populated: Populated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "FINDINGS_MAX", 3)
    monkeypatch.setattr(check, "NODES_AT_ONCE", 2)
    damage(populated.url, "UPDATE nodes SET title = title || '!', rank = rank + 1")
    damage(populated.url, "UPDATE node_history SET revision = 'x'")

    assert {name: len(findings) for name, findings in found(populated.url).items()} == {
        "history_ends": 3,
        "revisions": 3,
        "verdicts": 3,
    }


def test_nodes_on_every_page_are_looked_at(populated: Populated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "NODES_AT_ONCE", 2)
    damage(populated.url, "UPDATE nodes SET title = title || '!'")

    named = {finding.subject for finding in found(populated.url)["revisions"]}

    assert named == {str(row[0]) for row in contents(populated.url)["nodes"]}


def test_a_check_changes_nothing(populated: Populated) -> None:
    before = contents(populated.url)

    check.check(populated.url)

    assert contents(populated.url) == before


def test_rows_of_a_schema_that_is_older_are_not_looked_at(
    populated: Populated, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = migrate.known

    def with_another(dialect: str) -> list[migrate.Migration]:
        steps = ours(dialect)
        return [*steps, migrate.Migration(len(steps) + 1, "9999_pre_tomorrow", steps[0].path)]

    monkeypatch.setattr(migrate, "known", with_another)

    checked = check.check(populated.url)

    assert checked.findings == ()
    assert checked.passed == ("structure", "foreign_keys")
    assert any("run: baton db upgrade" in note for note in checked.notes)


def test_a_schema_that_is_newer_is_refused(populated: Populated) -> None:
    with open_session(populated.url) as session, session.transaction():
        session.ask("schema.note", version=9999, name="9999_post_tomorrow")

    with pytest.raises(migrate.SchemaNewer):
        check.check(populated.url)


def test_a_file_that_is_not_there_is_not_made(sqlite_url: str) -> None:
    """SQLite only."""
    with pytest.raises(NotFound):
        check.check(sqlite_url)

    assert not sqlite_path(sqlite_url).exists()
