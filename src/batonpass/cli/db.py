"""`baton db …`: the database itself, without any server. For whoever runs one, and for the file of local mode."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from cyclopts import App, Parameter

from batonpass.cli.exits import Exit, UsageError
from batonpass.cli.options import FileArg, Flag
from batonpass.cli.render import Column, clean, print_fields, print_json, print_table, say, warn
from batonpass.client import config
from batonpass.store import backup as backups
from batonpass.store import check as checks
from batonpass.store import operations
from batonpass.store import restore as restores
from batonpass.store.check import Checked, Finding
from batonpass.store.open import dialect_of, sqlite_path
from batonpass.store.operations import DatabaseStatus, FileUse, Standing, TableSize

Db = Annotated[str | None, Parameter(env_var="BATON_DB")]

TABLE_COLUMNS: Final = (Column("table"), Column("rows"), Column("size"))
FINDING_COLUMNS: Final = (Column("invariant"), Column("of"), Column("finding"))
NAMES: Final = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024

app = App(name="db", help="The database: its schema, checks, backups.", version_flags=[])


class Schema(msgspec.Struct):
    """Where the schema stands: `ahead` are migrations this program does not know, `known` the newest it does."""

    standing: Standing
    applied: Sequence[int]
    pending: Sequence[str]
    ahead: Sequence[int]
    known: int


class StatusView(msgspec.Struct):
    """What `baton db status --json` prints. `file` is null unless the database is a SQLite file."""

    database: str
    location: str
    pooler: str | None
    schema: Schema
    incarnation: str | None
    bytes: int
    tables: Sequence[TableSize]
    settings: dict[str, str]
    file: FileUse | None


class UpgradeView(msgspec.Struct):
    """What `baton db upgrade --json` prints."""

    applied: Sequence[str]
    schema: int
    incarnation: str


class CheckView(msgspec.Struct):
    """What `baton db check --json` prints."""

    ok: bool
    passed: Sequence[str]
    findings: Sequence[Finding]
    notes: Sequence[str]


@app.command(name="status")
def status(*, db: Db = None, json: Flag = False) -> int:
    """Say how the database stands, whatever its schema. Changes nothing; exits 1 unless the schema is up to date.

    Args:
        db: sqlite:///path or postgresql://user@host/name; without it this machine's own database.
        json: print it as one JSON document.

    """
    found = operations.status(_url(db))
    if json:
        _print(_status_view(found))
    else:
        _print_status(found)
    return Exit.OK if found.standing is Standing.CURRENT else Exit.FAILED


@app.command(name="upgrade")
def upgrade(*, db: Db = None, json: Flag = False) -> None:
    """Bring the schema up to date: all of it or nothing. Make a backup before.

    Servers do the same when they start; of several at once one does it, and
    the others wait for it.

    Args:
        db: sqlite:///path or postgresql://user@host/name; without it this machine's own database.
        json: say what was applied as one JSON document.

    """
    done = operations.upgrade(_url(db, make_home=True))
    if json:
        _print(UpgradeView([step.name for step in done.applied], done.schema, done.incarnation))
        return
    for step in done.applied:
        say(f"applied {step.name}")
    say(f"the schema is at version {done.schema}" + ("" if done.applied else "; there was nothing to do"))


@app.command(name="check")
def check(*, db: Db = None, json: Flag = False) -> int:
    """Look whether the database is whole, in one snapshot, while servers go on. Exits 1 when anything is found.

    Args:
        db: sqlite:///path or postgresql://user@host/name; without it this machine's own database.
        json: print what was found as one JSON document.

    """
    checked = checks.check(_url(db))
    if json:
        _print(CheckView(not checked.findings, checked.passed, checked.findings, checked.notes))
    else:
        _print_checked(checked)
    return Exit.FAILED if checked.findings else Exit.OK


@app.command(name="backup")
def backup(file: FileArg, /, *, db: Db = None, force: Flag = False, json: Flag = False) -> None:
    """Copy the database, as it is at one moment, into a file that only you can read. Servers go on meanwhile.

    Args:
        file: where to: a SQLite file for a SQLite database, an archive for PostgreSQL.
        db: sqlite:///path or postgresql://user@host/name; without it this machine's own database.
        force: overwrite a file that is there.
        json: say what was written as one JSON document.

    """
    made = backups.backup(_url(db), file, force=force)
    if json:
        _print(made)
        return
    say(f"{clean(str(made.file))}: {size(made.bytes)} of {NAMES[made.database]}, schema {made.schema}, verified")
    say(f"SHA-256 {made.sha256}")


@app.command(name="restore")
def restore(
    file: FileArg,
    /,
    *,
    db: Db = None,
    replace: Flag = False,
    confirm: str | None = None,
    sha256: str | None = None,
    json: Flag = False,
) -> None:
    """Make an empty database what a backup holds, up to date and in a new incarnation.

    Every lease and run token of before is void: who held something claims it
    anew. What happened since the backup is not there; workers file again what
    is missing of their own.

    Args:
        file: the backup; of the same kind as the database.
        db: sqlite:///path or postgresql://user@host/name; without it this machine's own database.
        replace: replace a SQLite file that is there and that nobody has open; what is in it is lost.
        confirm: with --replace: the name of the file that is replaced; without it you are asked.
        sha256: refuse the backup unless this is its SHA-256.
        json: say what was done as one JSON document.

    """
    url = _url(db, make_home=True)
    if replace:
        _require_confirmed(url, confirm)
    done = restores.restore(file, url, replace=replace, sha256=sha256)
    if json:
        _print(done)
        return
    for name in done.upgraded:
        say(f"applied {name}")
    say(f"restored at schema {done.schema}; this is incarnation {done.incarnation}, the backup was of {done.before}")
    warn("every lease of before is void; look it over with: baton db check")


def size(count: int) -> str:
    """Return a number of bytes as a person says it: a whole number of the largest unit that leaves one."""
    value = float(count)
    for unit in _UNITS:
        if value < _STEP or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}"
        value /= _STEP
    raise AssertionError(count)


def _url(db: str | None, *, make_home: bool = False) -> str:
    """Return the database's URL: as given, else of the home folder's own, which is made only for what is put there."""
    if db is not None:
        return db
    from batonpass.cli.local import database_url  # it brings the server, which only a default needs

    home = config.home_of(os.environ)
    if make_home:
        with config.changing(home):
            return database_url(home)
    return database_url(home)


def _require_confirmed(url: str, word: str | None) -> None:
    """Raise `UsageError` unless the caller has typed the name of the file that will be lost."""
    if dialect_of(url) != "sqlite":
        return  # it is refused anyway, with the reason
    path = sqlite_path(url)
    if word is None and sys.stdin.isatty():
        warn(f"everything in {clean(str(path))} will be lost")
        word = input(f"type {path.name} to replace it: ")
    if word != path.name:
        raise UsageError(f"nothing was replaced: to lose what is in {path}, say --confirm {path.name}")


def _print(document: object) -> None:
    print_json(msgspec.json.encode(document, enc_hook=str))


def _status_view(found: DatabaseStatus) -> StatusView:
    schema = found.schema
    return StatusView(
        database=found.dialect,
        location=found.location,
        pooler=found.pooler,
        schema=Schema(
            standing=found.standing,
            applied=schema.applied,
            pending=[step.name for step in schema.pending],
            ahead=schema.ahead,
            known=found.newest_known,
        ),
        incarnation=schema.incarnation,
        bytes=found.bytes,
        tables=found.tables,
        settings=dict(found.settings),
        file=found.file,
    )


def _print_status(found: DatabaseStatus) -> None:
    file = found.file
    print_fields(
        {
            "database": f"{NAMES[found.dialect]}, {found.location}",
            "pooler": found.pooler,
            "schema": _schema(found),
            "incarnation": found.schema.incarnation,
            "size": size(found.bytes) + (f", and a log of {size(file.log_bytes)}" if file and file.log_bytes else ""),
            "settings": ", ".join(f"{name} {value}" for name, value in found.settings.items()),
            "in use by": ", ".join(str(user) for user in file.users) or "nobody we can see" if file else None,
            "writer's lock": ("held at this moment" if file.writing else "free") if file else None,
        }
    )
    if found.tables:
        say("")
    rows = [(each.name, str(each.rows), size(each.bytes) if each.bytes is not None else None) for each in found.tables]
    print_table(TABLE_COLUMNS, rows, empty="")


def _schema(found: DatabaseStatus) -> str:
    at = f"version {max(found.schema.applied, default=0)}"
    match found.standing:
        case Standing.CURRENT:
            return f"{at}, up to date"
        case Standing.OLDER:
            waiting = ", ".join(step.name for step in found.schema.pending)
            return f"{at}, older than this program: {waiting} to be applied; run: baton db upgrade"
        case Standing.NEWER:
            return f"{at}, newer than this program, which knows up to {found.newest_known}; install the newer Batonpass"
        case Standing.NONE:
            return "none: never used; run: baton init, or baton db upgrade"


def _print_checked(checked: Checked) -> None:
    for note in checked.notes:
        warn(f"note: {note}")
    if not checked.findings:
        say(f"whole: {len(checked.passed)} invariants hold")
        return
    rows = [(finding.invariant, finding.subject, finding.message) for finding in checked.findings]
    print_table(FINDING_COLUMNS, rows, empty="")
    say("")
    for invariant, fix in {(finding.invariant, finding.fix): None for finding in checked.findings}:
        say(f"{invariant}: {fix}")
