"""`baton work`: take the best items this agent may take, see their runs through, settle what they did (D31a)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter
from cyclopts.validators import Number

from batonpass.cli.context import connected
from batonpass.cli.exits import Exit, UsageError, exit_of_code
from batonpass.cli.options import COMMON, Common, Count, Duration, Flag
from batonpass.cli.render import Teller, print_json, silence
from batonpass.client import config
from batonpass.client.client import Client
from batonpass.core.digest_text import Mode
from batonpass.core.queue import Accept
from batonpass.worker import boxfile
from batonpass.worker.app import assemble, run
from batonpass.worker.cooling import RETRY_AFTER, RETRY_AFTER_MAX
from batonpass.worker.dispatch.handover import ByProcess
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.harness import registry
from batonpass.worker.journal import RunRecord, State, Stopped, as_json
from batonpass.worker.server_graph import ServerGraph
from batonpass.worker.settings import DEFAULT_RUN_IDLE_S, DEFAULT_RUN_MAX_S, Settings
from batonpass.worker.shift import INTERVAL_S, MAX_INTERVAL_S, Pace, Shift

CONCURRENCY_MAX: Final = 1_000
DAY_S: Final = 86_400.0


def work(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    once: Flag = False,
    max_: Annotated[Count | None, Parameter(name="--max")] = None,
    concurrency: Annotated[Count, Parameter(validator=Number(lte=CONCURRENCY_MAX))] = 1,
    interval: Duration = timedelta(seconds=INTERVAL_S),
    max_interval: Duration = timedelta(seconds=MAX_INTERVAL_S),
    retry_after: Duration = RETRY_AFTER,
    harness: str | None = None,
    model: str | None = None,
    project: str | None = None,
    base: str = "main",
    accept: Accept = Accept.READY,
    run_max: Duration = timedelta(seconds=DEFAULT_RUN_MAX_S),
    run_idle: Duration = timedelta(seconds=DEFAULT_RUN_IDLE_S),
    brief: Annotated[bool, Parameter(negative="--no-brief", show_default=False)] = True,
    full: Flag = False,
    common: Common = COMMON,
) -> int:
    """Work through the queue: agent programs do its items, each in a git worktree of its own.

    Stand in a checkout of the repository the work is for. First every run that
    an earlier worker left unsettled is settled. Then the best items this agent
    may take are claimed, as many at a time as there are slots, and kept while
    their programs work, which got the task on their standard input; afterwards
    the graph says what each did: resolved, reported, declined or failed. The
    report is the file $BATON_REPORT, or else the program's final message. When
    there is nothing to take the server is asked to say when that changes.

    The program is COMMAND, whose final message is all that it prints, or the
    harness that is named, or else the only harness that is installed.

    The first SIGINT or SIGTERM lets the runs finish and takes no more; the
    second stops them, and the command ends with 130 once they are settled; the
    third ends it at once. When the terminal goes away its runs go on without
    it, and the next worker takes them for its own. A run that
    could not be settled yet ends --once with 5, or 6 where the token was
    refused; the next start settles it.

    Args:
        command: the program that does the work, and its arguments, after --.
        harness: the agent program, such as codex; docs/howto/harnesses.md has all of them.
        model: the model it is to ask, in the program's own words.
        once: take what there is for the free slots, see it through, then end.
        max_: end after this many runs.
        concurrency: how many runs at a time, 1 to 1000.
        interval: how soon to ask again a server that was away; doubled each time it is.
        max_interval: how rarely it is asked at most, and how often the queue is looked at in any case.
        retry_after: how long an item is left alone that a run of this worker has left undone; 0s takes it at once.
        project: only items of this project.
        base: the branch the work is for.
        accept: ready takes what a person marked for agents, open all that is not a person's.
        run_max: stop a run after this time.
        run_idle: stop a run that gives no sign of life for this time; 0s never does.
        brief: tell it what is known around the item, as baton brief shows it; the item itself it is told anyway.
        full: tell it more: the text of what is near, and the norms.

    """
    if full and not brief:
        raise UsageError("--full and --no-brief exclude each other")
    home = config.home_of(os.environ)
    order = _order(command, harness, model, home=home, base=base, project=project)
    settings = Settings(
        home=home,
        inherited=dict(os.environ),
        accept=accept,
        run_max_s=run_max.total_seconds(),
        run_idle_s=run_idle.total_seconds(),
        briefing=(Mode.FULL if full else Mode.DIGEST) if brief else None,
    )
    pace = Pace(
        concurrency=concurrency,
        interval_s=_within(interval, "--interval", low=1, high=DAY_S),
        max_interval_s=_within(max_interval, "--max-interval", low=1, high=DAY_S),
        max_runs=max_ or 0,
        once=once,
    )
    retry_after_s = _within(retry_after, "--retry-after", low=0, high=RETRY_AFTER_MAX.total_seconds())
    with _as_agent(common) as (client, starter):
        tell = Teller(sys.stderr if common.json else sys.stdout)
        worker = assemble(ServerGraph(client), settings, order, starter=starter, say=tell, pace=pace)
        shift = Shift(replace(worker, retry_after_s=retry_after_s), pace)
        run(shift)
    return _ended(shift, common)


def _within(given: timedelta, name: str, *, low: float, high: float) -> float:
    """Return a duration in seconds; `UsageError` when it is out of bounds."""
    if not low <= given.total_seconds() <= high:
        raise UsageError(f"{name}: {given.total_seconds():g} s is not between {low:g} s and {high:g} s")
    return given.total_seconds()


def _ended(shift: Shift, common: Common) -> int:
    """Print what the command has to show for itself, and return how it ends."""
    own = shift.own
    code = max((_exit_of(record) for record in own), default=Exit.OK) if shift.pace.once else Exit.OK
    if shift.worker.interrupted.is_set() or (shift.pace.once and not own and shift.worker.stopping.is_set()):
        code = Exit.INTERRUPTED
    if common.json and not _print_outcome(own) and code is Exit.OK:
        return Exit.FAILED
    return code


def _order(
    command: tuple[str, ...], harness: str | None, model: str | None, *, home: Path, base: str, project: str | None
) -> Order:
    """Return what is to run: a plain command, or an agent program of this box; `LaunchRefused` when it has none."""
    said = boxfile.read(home, os.environ)
    plain = Order(command, Path.cwd(), base=base, project=project, set_up=said.set_up, tear_down=said.tear_down)
    if command:
        if harness is not None or model is not None:
            raise UsageError("a command after -- is run as it is: it goes with neither --harness nor --model")
        return plain
    box = registry.Box(environ=os.environ, binaries=said.binaries, declared=said.declared)
    named = harness or said.harness
    found = registry.only(box) if named is None else registry.resolve(named, box)
    return replace(
        plain,
        harness=found.harness.id,
        program=found.program,
        declared=found.description if isinstance(found.description, dict) else None,
        model=model,
        mcp=tuple(said.mcp.values()),
    )


def _print_outcome(records: Sequence[RunRecord]) -> bool:
    """Print the runs' records, and return whether they got to where they were sent: a program may be waiting for them.

    `run` is the last of them, which with --once is the only one unless there is more than one slot.
    """
    runs = [as_json(record) for record in records]
    try:
        print_json(msgspec.json.encode({"run": runs[-1] if runs else None, "count": len(runs), "runs": runs}))
        sys.stdout.flush()
    except (OSError, ValueError):
        silence(sys.stdout)
        return False
    return True


def _exit_of(record: RunRecord) -> Exit:
    """Return how the command ends: whatever a settled run achieved is for the graph to say, and no failure of ours.

    A run that could not be settled yet ends as the error that stood in the way
    would have: not allowed, or, whatever else it was, to be tried again.
    """
    if record.stopped_for is Stopped.INTERRUPTED:
        return Exit.INTERRUPTED
    if record.state is State.FAILED_LAUNCH:
        return Exit.FAILED
    if record.contract_pending:
        why = exit_of_code(record.pending_for or "")
        return Exit.NOT_ALLOWED if why is Exit.NOT_ALLOWED else Exit.UNREACHABLE
    return Exit.OK


@contextmanager
def _as_agent(common: Common) -> Iterator[tuple[Client, ByProcess]]:
    """Speak as an agent: with the configured token, or, without a server, as this machine's own agent.

    The supervisors of its runs do the same; in local mode each serves this
    machine's own server to its child (D37).
    """
    found = config.load(os.environ, server=common.server)
    if found.server is not None:
        with connected(common) as client:
            token = None if found.token is None else found.token.text
            yield client, ByProcess(server=client.server, token=token)
        return
    from batonpass.cli.local import agent_token, database_url, local_server

    with (
        local_server(database_url(found.home)) as server,
        server.client(agent_token(server, found.home).token) as client,
    ):
        yield client, ByProcess(server=None, token=None)
