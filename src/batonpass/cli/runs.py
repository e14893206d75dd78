"""`baton runs …`: the runs of this machine, their logs and reports, ending one; and the list of the fleet's.

What is listed is what is: a record that tells of a process nobody follows any
more is shown as vanished, whatever it says (`batonpass.worker.runs`). Reading
changes nothing and asks no server; only `kill` settles.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec
from cyclopts import App

from batonpass.cli import runs_fleet
from batonpass.cli.context import connected_as_agent
from batonpass.cli.exits import Exit, UsageError, exit_of_pending
from batonpass.cli.options import COMMON, Common, Count, Duration, Flag, Node
from batonpass.cli.render import (
    Column,
    again,
    clean,
    print_fields,
    print_json,
    print_table,
    print_text,
    say,
    span,
    warn,
)
from batonpass.client import config
from batonpass.core import reports
from batonpass.core.errors import NotFound
from batonpass.core.ids import NodeId
from batonpass.worker import runs
from batonpass.worker.config import disposable_in, load
from batonpass.worker.crew import Crew
from batonpass.worker.journal import HeldRun, Journal, RunFolder
from batonpass.worker.outcome import Settler, settle
from batonpass.worker.record import RunRecord, as_json
from batonpass.worker.runs import Hands, Listing, Run
from batonpass.worker.server_graph import ServerGraph
from batonpass.worker.settings import Settings

LIMIT: Final = 20
"""How many runs are listed unless it is said."""
PATIENCE: Final = timedelta(seconds=60)
"""How long a supervisor that was asked to end may take: to stop its child, with three graces, and to settle."""
FOLLOW_S: Final = 0.2
"""How often a log that is followed is looked at."""
CHUNK: Final = 64 * 1024
SHORT: Final = 8
"""Characters of a run's id in a list, unless two runs share them."""
COLUMNS: Final = (
    Column("run"),
    Column("item"),
    Column("harness"),
    Column("state"),
    Column("outcome"),
    Column("began"),
    Column("took"),
    Column("why", cut=True),
)
_HANDS: Final = {
    Hands.WORKER: "being launched",
    Hands.SUPERVISOR: "followed by its supervisor",
    Hands.SETTLEMENT: "being settled",
}

app = App(name="runs", help="The runs of this machine: list and show them, read their logs, end one.", version_flags=[])


@app.command(name="list")
@app.default
def list_(
    prefix: str | None = None,
    /,
    *,
    node: Node | None = None,
    limit: Count = LIMIT,
    fleet: Flag = False,
    after: str | None = None,
    common: Common = COMMON,
) -> None:
    """List runs, the newest first: what each is about, whether it runs, what it did.

    Args:
        prefix: only those whose id begins so.
        node: only those about this item.
        limit: how many at most.
        fleet: those of every machine, as the server was told of them, rather than this machine's.
        after: with --fleet, begin behind this one, as the end of a list that was cut names it.

    """
    if fleet:
        if prefix is not None:
            raise UsageError("what an id begins with is looked for on this machine; leave it out, or leave --fleet out")
        runs_fleet.print_list(node=node, limit=limit, after=after, common=common)
        return
    if after is not None:
        raise UsageError("--after goes with --fleet; this machine's list is cut by --limit")
    found = runs.listing(_journal(), limit=limit, prefix=prefix or "", node=node)
    _warn_of(found)
    if common.json:
        print_json(msgspec.json.encode(_as_reply(found)))
    else:
        _print_list(found, prefix=prefix, node=node)


@app.command
def show(run: str, /, *, json: Flag = False) -> None:
    """Show all that is known of one run; docs/reference/runs.md explains the fields.

    Args:
        run: its id, or what only its id begins with.
        json: print one JSON document.

    """
    found = _look(run)
    fields = _fields(found)
    if json:
        print_json(msgspec.json.encode(fields))
        return
    print_fields({name: _as_words(value) for name, value in fields.items()})


@app.command
def log(run: str, /, *, errors: Flag = False, tail: Count | None = None, follow: Flag = False) -> None:
    """Print what a run's child printed, byte for byte.

    Args:
        run: its id, or what only its id begins with.
        errors: its standard error instead of its standard output.
        tail: only the last lines, this many.
        follow: go on with what is printed from now on, until the run is over.

    """
    folder = runs.find(_journal(), run)
    path = folder.errors if errors else folder.log
    with _log_of(path, folder) as file:
        if tail is not None:
            file.seek(_start_of_last_lines(file, tail))
        _copy(file)
        if follow:
            _follow(file, folder)


@app.command
def report(run: str, /, *, json: Flag = False) -> None:
    """Print a run's final report, as far as it is known; what was filed of it in the graph may be shorter.

    Args:
        run: its id, or what only its id begins with.
        json: print one JSON document, with the node that the report was filed as.

    """
    folder = runs.find(_journal(), run)
    text = _report_of(folder)
    if not reports.is_usable(text):
        raise NotFound(f"the run {folder.path.name} has left no report", field="run")
    if json:
        record = folder.read()
        filed = record.report_node_id or record.finding_node_id
        print_json(msgspec.json.encode({"run_id": record.run_id, "filed_as": filed, "text": text}))
    else:
        print_text(text)


@app.command
def kill(*run: str, wait: Duration = PATIENCE, common: Common = COMMON) -> int:
    """Stop runs and settle them: what each did is read off the graph, its report filed, its lease given back.

    The run's supervisor is asked to do it; one that does not get it done in
    time is killed, and it is done here. A run without one is stopped and
    settled here, which needs the agent's token or its owner's. A settlement
    that has to wait for the server ends with 5: the next worker takes it up.

    Args:
        run: their ids, or what only their ids begin with.
        wait: how long a supervisor may take.

    """
    if not run:
        raise UsageError("name at least one run; baton runs lists them")
    folders = [runs.find(_journal(), prefix) for prefix in run]
    records = [_end(folder, patience=wait, common=common) for folder in folders]
    if common.json:
        print_json(msgspec.json.encode({"runs": [as_json(record) for record in records]}))
    else:
        for record in records:
            say(_end_of(record))
    return max(map(_exit_of, records))


@app.command
def prune(*, older: Duration | None = None, json: Flag = False) -> None:
    """Remove the records and logs of runs that were settled long ago; workers do the same at every start.

    A run whose worktree is still there stays, and so does one that the server
    has not got.

    Args:
        older: how long ago a run must have been settled; otherwise dispatch.runRetentionMs, or 14 days.
        json: print one JSON document, with the ids of what was removed.

    """
    said = load(config.home_of(os.environ), os.environ, Path.cwd())
    gone = _journal().prune(datetime.now(UTC), retention=said.retention.value if older is None else older)
    if json:
        print_json(msgspec.json.encode({"removed": len(gone), "runs": gone}))
    else:
        say(f"{len(gone)} run{'' if len(gone) == 1 else 's'} removed")


def _journal() -> Journal:
    return Journal(config.home_of(os.environ))


def _look(prefix: str) -> Run:
    folder = runs.find(_journal(), prefix)
    found = runs.look(folder)
    if found is None:
        raise NotFound(f"the record of run {folder.path.name} is gone", field="run")
    return found


# --- the list --------------------------------------------------------------------------------------------------------


def _as_reply(found: Listing) -> dict[str, object]:
    return {
        "reconciled": found.is_reconciled,
        "count": len(found.runs),
        "runs": [_fields(run) for run in found.runs],
        "total": found.total,
        "truncated": found.total > len(found.runs),
    }


def _fields(run: Run) -> dict[str, Any]:
    """Return a run as programs read it: its record, and whose hands it is in."""
    return {**as_json(run.record), "in_hands_of": run.hands}


def _warn_of(found: Listing) -> None:
    for folder in found.damaged:
        warn(f"warning: {clean(str(folder.record))} can't be read; the next worker sets it aside")
    if not found.is_reconciled:
        warn("warning: locks can't be asked for here, so a run whose supervisor is gone may be shown as it was")


def _print_list(found: Listing, *, prefix: str | None, node: NodeId | None) -> None:
    now = datetime.now(UTC)
    chars = _chars_to_tell([run.record.run_id for run in found.runs])
    print_table(COLUMNS, [_row(run, chars=chars, now=now) for run in found.runs], empty="no runs on this machine")
    if found.total > len(found.runs):
        more = again(" ".join(filter(None, ["baton runs", prefix])), node=node)
        say(f"… only the newest {len(found.runs)} of {found.total}; all: {more} --limit {found.total}")


def _row(run: Run, *, chars: int, now: datetime) -> tuple[str | None, ...]:
    record = run.record
    return (
        record.run_id[:chars],
        record.node_id or record.name,
        record.harness,
        record.state,
        _outcome(run),
        span(_ms(_moment(record.created_at), now)) + " ago",
        _took(record, now),
        record.terminal_note or record.termination_reason,
    )


def _outcome(run: Run) -> str | None:
    record = run.record
    if run.hands is Hands.SETTLEMENT:
        return "being settled"
    if run.hands is None and not record.is_settled:
        return "to be settled"
    if record.terminal_state is None:
        return None
    return record.terminal_state if record.terminal_enforced else f"{record.terminal_state} (not verified)"


def _took(record: RunRecord, now: datetime) -> str | None:
    if record.started_at is None:
        return None
    ended = now if record.finished_at is None else _moment(record.finished_at)
    return span(_ms(_moment(record.started_at), ended))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _ms(since: datetime, until: datetime) -> float:
    return (until - since) / timedelta(milliseconds=1)


def _chars_to_tell(ids: list[str]) -> int:
    """Return how many characters tell these ids apart."""
    longest = max(map(len, ids), default=SHORT)
    return next(chars for chars in range(SHORT, longest + 1) if len({id_[:chars] for id_ in ids}) == len(ids))


def _as_words(value: object) -> str | None:
    match value:
        case None:
            return None
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return "; ".join(map(str, value))
        case dict():
            return ", ".join(f"{key} {part}" for key, part in value.items())
        case _:
            return str(value)


# --- logs and reports ------------------------------------------------------------------------------------------------


@contextmanager
def _log_of(path: Path, folder: RunFolder) -> Iterator[BinaryIO]:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise NotFound(
            f"the run {folder.path.name} has printed nothing: its child was not started", field="run"
        ) from None
    with file:
        yield file


def _copy(file: BinaryIO) -> None:
    """Print what is left of the file, as the bytes it is."""
    sys.stdout.flush()
    while chunk := file.read(CHUNK):
        sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()


def _follow(file: BinaryIO, folder: RunFolder) -> None:
    while True:
        # Asked before the last look at the file: what is written up to its end is printed.
        run = runs.look(folder)
        is_over = run is None or run.record.state.is_final
        _copy(file)
        if is_over:
            return
        time.sleep(FOLLOW_S)


def _start_of_last_lines(file: BinaryIO, lines: int) -> int:
    """Return where the last `lines` lines begin; only a line feed ends one, and the last may be without."""
    at = end = file.seek(0, os.SEEK_END)
    missing = lines
    while at > 0:
        start = max(at - CHUNK, 0)
        file.seek(start)
        data = file.read(at - start)
        # The line feed at the very end closes the last line, and begins none.
        cut = len(data) - 1 if at == end and data.endswith(b"\n") else len(data)
        while (cut := data.rfind(b"\n", 0, cut)) != -1:
            missing -= 1
            if missing == 0:
                return start + cut + 1
        at = start
    return 0


def _report_of(folder: RunFolder) -> str:
    spooled = folder.spooled()
    return folder.final_text() if spooled is None else spooled.text


# --- ending a run ----------------------------------------------------------------------------------------------------


def _end(folder: RunFolder, *, patience: timedelta, common: Common) -> RunRecord:
    home = config.home_of(os.environ)
    disposable = disposable_in(home, Path(folder.read().repository))
    settings = Settings(home=home, inherited=dict(os.environ), disposable=disposable)

    def settle_here(held: HeldRun, crew: Crew) -> RunRecord:
        with connected_as_agent(common) as client:
            return settle(Settler(ServerGraph(client), settings, lambda: datetime.now(UTC)), held, crew)

    return runs.end(folder, settle_here, patience_s=patience.total_seconds(), graces=settings.graces)


def _end_of(record: RunRecord) -> str:
    name = record.name or record.run_id
    if record.contract_pending:
        return f"{name}: stopped, to be settled by the next start: {clean(record.terminal_note or 'not settled yet')}"
    outcome = record.terminal_state if record.terminal_enforced else f"{record.terminal_state}, not verified"
    return f"{name}: {record.state}, {outcome}" + (f": {clean(record.terminal_note)}" if record.terminal_note else "")


def _exit_of(record: RunRecord) -> Exit:
    return exit_of_pending(record.pending_for) if record.contract_pending else Exit.OK
