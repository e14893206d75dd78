"""Whether a database is whole: what the database can say of itself, and what must be true of our rows.

Each *invariant* is a promise, a statement that finds the rows that break it,
and what to do then. All are read in one snapshot, so servers may go on. An
invariant that can be broken by ordinary use would be a bug: they are here for
disks, for hands, and for the bug we have not found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.core.ids import NodeId
from batonpass.core.node_types import NODE_TYPES, is_dead, is_queueable, resolves_others
from batonpass.core.nodes import Node
from batonpass.core.queue import rank
from batonpass.store import migrate
from batonpass.store.base import Row, as_json
from batonpass.store.migrate import PostgresSession, Session
from batonpass.store.nodes import nodes_of_rows
from batonpass.store.open import open_session
from batonpass.store.operations import Standing, standing_of
from batonpass.wire import markdown

FINDINGS_MAX: Final = 100
"""How many findings of one invariant are told; whoever has more has one problem, not many."""
NODES_AT_ONCE: Final = 500

RESTORE: Final = (
    "ordinary use does not lead here: keep a copy of the database as it is, restore the newest backup that passes this"
    " check, and report it"
)


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it must be: which invariant it breaks, of what, how, and what to do."""

    invariant: str
    subject: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of a check. `passed` are the invariants that hold; `notes` say what could not be looked at."""

    passed: tuple[str, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Invariant:
    """A promise, the statement ``check.<name>`` whose rows break it, and how to tell a row: {0} is its first column."""

    name: str
    promise: str
    message: str
    fix: str = RESTORE


STRUCTURE: Final = (
    Invariant(
        "structure",
        "pages, indexes and constraints are sound",
        "{1}",
        "a file: restore a backup, the disk or memory is failing; an index: REINDEX it; a constraint: validate it",
    ),
    Invariant("foreign_keys", "every foreign key points at a row", "{1}"),
)
INVARIANTS: Final = (
    Invariant("lease_rows", "every claimable node has a lease row to lock (D5)", "has no lease row"),
    Invariant(
        "lease_shape",
        "a lease row is free, or has holder, end and epoch (D2, D5)",
        "is a {1} of {2} at epoch {3} without all of its parts",
    ),
    Invariant(
        "event_epochs",
        "no event tells a later epoch than its lease row has (D2)",
        "an event tells epoch {1}, the lease row has {2}: history has gone back",
        "a copy was put back by hand: back this up, and restore the backup with `baton db restore`, which begins a new"
        " incarnation",
    ),
    Invariant(
        "fence_epochs",
        "no nonce or working set names a later epoch than its lease row has (D2b, D6)",
        "epoch {1} was acquired, the lease row has {2}: history has gone back",
        "a copy was put back by hand: back this up, and restore the backup with `baton db restore`, which begins a new"
        " incarnation",
    ),
    Invariant(
        "run_tokens",
        "the run token of a lease is a token of that very tenure (D2a)",
        "epoch {1} names the token {2}, which is not one of that tenure",
        "release the node as an admin: `baton release {subject} --reason …` ends the tenure and clears the token",
    ),
    Invariant(
        "search_rows",
        "every node has its entry in the index of words, and every entry its node",
        "has {1}",
        "a node without an entry: write it again with any change to its text; an entry without a node: delete its row",
    ),
    Invariant("edge_sources", "every edge leaves a node that is there", "its edge {1} to {2} leaves no node"),
    Invariant(
        "history_numbers", "a node's history is numbered without a gap", "has {1} revisions, the last is number {2}"
    ),
    Invariant("history_ends", "a node's revision is the last of its history (D12)", "is at {1}, its history at {2}"),
    Invariant(
        "redactions", "a text that was taken out of a history names the act (D41)", "entry {1} names no redaction"
    ),
    Invariant(
        "tombstones", "the id of a deleted node is never used again (D41)", "was deleted, and is a node's id again"
    ),
    Invariant("commits", "the commits that are found by their hash are those that nodes carry", "{1} {2}"),
    Invariant(
        "record_classes",
        "a record was written under a version of its class that is there",
        "was written under version {2} of {1}, which is not there",
    ),
    Invariant(
        "record_parts", "every field, item, claim and entry of history belongs to a record", "is no record, and has {1}"
    ),
    Invariant(
        "record_items",
        "an append has as many items as it says, numbered without a gap",
        "says {1} items and has {2}, the last is number {3}",
    ),
    Invariant(
        "record_sizes", "a field holds as many bytes as it says: its limit goes by that", "says {1} bytes and has {2}"
    ),
    Invariant(
        "record_versions",
        "no entry of history tells a later version of a record or field than it has (D32)",
        "{1} {2} is told, and it is at {3}: history has gone back",
        "a copy was put back by hand: back this up, and restore the backup with `baton db restore`, which begins a new"
        " incarnation",
    ),
    Invariant(
        "token_secrets",
        "of a token only the SHA-256 is kept",
        "a token made at {1} is kept as {2} characters that are not only a hash",
        "treat it as known to others: end the tokens of this person and mint new ones",
    ),
    Invariant(
        "key_secrets",
        "of an API key only the SHA-256 is kept",
        "a key made at {1} is kept as {2} characters that are not only a hash",
        "treat it as known to others: end the key and make another",
    ),
    Invariant(
        "key_names",
        "a name has one live API key at most",
        "has two keys that live at once, {1} and {2}",
        "end the one that nobody uses: `baton key revoke PREFIX`",
    ),
    Invariant(
        "reply_secrets",
        "no reply kept for repetition, and no event, holds the text of a token (D11)",
        "holds the text of a token",
        "treat that token as known to others: end it and mint a new one; replies are forgotten after a day",
    ),
)
REVISIONS: Final = Invariant(
    "revisions", "a node's revision is the SHA-1 of its canonical markdown (D12)", "is kept as {1}, but reads as {2}"
)
VERDICTS: Final = Invariant(
    "verdicts",
    "what the queue keeps of a node is what core says of it",
    "{1} is kept as {2}, but is {3}",
    "write the node again with any change to it; that decides all of them anew",
)
ALL: Final = (*STRUCTURE, *INVARIANTS, REVISIONS, VERDICTS)


def check(url: str) -> Checked:
    """Return whether the database at `url` is whole. It is read in one snapshot and not changed.

    Raises `SchemaNewer` when a newer version made it, `NotFound` or `Unavailable` when there is nothing to read.
    """
    with open_session(url, read_only=True) as session:
        try:
            with session.snapshot():
                return _check(session, current=standing_of(migrate.status(session)) is Standing.CURRENT)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
                raise
            return Checked((), (_finding(STRUCTURE[0], ("file", str(error))),), ("nothing else could be read",))


def _check(session: Session, *, current: bool) -> Checked:
    notes: list[str] = []
    findings, looked_at = _structure(session, notes), [*STRUCTURE]
    if findings:
        # Rows read from a broken page are nobody's, and reading them may fail at any point.
        notes.append("the database itself is not sound, so its rows were not looked at")
        looked_at = []
    elif not current:
        notes.append("the schema is older than this program, so its rows were not looked at; run: baton db upgrade")
    else:
        for invariant in INVARIANTS:
            findings += _broken(invariant, _rows(session, invariant))
        findings += _capped(_node_findings(session))
        looked_at = [*ALL]
    failed = {finding.invariant for finding in findings}
    passed = tuple(invariant.name for invariant in looked_at if invariant.name not in failed)
    return Checked(passed, tuple(findings), tuple(notes))


def _structure(session: Session, notes: list[str]) -> list[Finding]:
    """Return what the database finds wrong with itself; each question is asked only after a good answer to the last."""
    pages, keys = STRUCTURE
    return (
        _broken(pages, session.ask("operations.quick_check"))
        or [*_broken(pages, _rows(session, pages)), *_probe(session, notes)]
        or _broken(keys, _rows(session, keys))
    )


def _rows(session: Session, invariant: Invariant) -> list[Row]:
    if invariant.name == "lease_rows":
        claimable = as_json([name for name, kind in NODE_TYPES.items() if kind.claimable])
        return session.ask("check.lease_rows", claimable=claimable, most=FINDINGS_MAX)
    return session.ask(f"check.{invariant.name}", most=FINDINGS_MAX)


def _probe(session: Session, notes: list[str]) -> Iterator[Finding]:
    """Yield what PostgreSQL's amcheck finds, and note when it is not there to be asked."""
    if not isinstance(session, PostgresSession):
        return
    import psycopg  # only the dialect in use is loaded

    probes = session.ask("check.probes")
    if not probes:
        notes.append("the extension amcheck is not installed, so indexes were not compared with their tables")
    for name, statement in probes:
        try:
            with session.transaction():  # a savepoint: what is damaged must not end the snapshot
                told = [row[0] for row in session.ask_written(statement) if row[0]]
        except psycopg.errors.InsufficientPrivilege:
            notes.append(f"amcheck may not be used by this role, so {name} was not compared")
        except psycopg.errors.Error as error:
            told = [str(error).splitlines()[0]]
            yield from _broken(STRUCTURE[0], [(name, line) for line in told])
        else:
            yield from _broken(STRUCTURE[0], [(name, line) for line in told])


def _node_findings(session: Session) -> Iterator[Finding]:
    """Yield what is wrong with each node's revision, and with what is kept of core's verdicts on it."""
    after = ""
    while kept := session.ask("check.verdicts", after=after, most=NODES_AT_ONCE):
        ids = as_json([row[0] for row in kept])
        nodes = nodes_of_rows(session.ask("nodes.of", ids=ids), session.ask("edges.of", ids=ids))
        for row in kept:
            yield from _of_node(nodes[NodeId(row[0])], row)
        after = kept[-1][0]


def _of_node(node: Node, kept: Row) -> Iterator[Finding]:
    revision = markdown.revision(node.authored)
    if revision != node.revision:
        yield _finding(REVISIONS, (node.id, node.revision, revision))
    said = {
        "dead": is_dead(node.kind, node.authored.status),
        "resolving": resolves_others(node.authored.status),
        "queueable": is_queueable(node.kind, node.authored.status),
        "rank": rank(node.authored.priority),
    }
    for (name, says), has in zip(said.items(), kept[1:], strict=True):
        if has != says:
            yield _finding(VERDICTS, (node.id, name, type(says)(has), says))


def _capped(findings: Iterator[Finding]) -> Iterator[Finding]:
    told = dict.fromkeys((invariant.name for invariant in ALL), 0)
    for finding in findings:
        told[finding.invariant] += 1
        if told[finding.invariant] <= FINDINGS_MAX:
            yield finding


def _broken(invariant: Invariant, rows: Sequence[Row]) -> list[Finding]:
    return [_finding(invariant, row) for row in rows]


def _finding(invariant: Invariant, row: Row) -> Finding:
    subject = str(row[0])
    return Finding(invariant.name, subject, invariant.message.format(*row), invariant.fix.replace("{subject}", subject))
