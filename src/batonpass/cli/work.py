"""`baton work`: take the best items this agent may take, see their runs through, settle what they did (D31a)."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from batonpass.cli.context import connected_as_agent
from batonpass.cli.exits import Exit, UsageError, exit_of_pending
from batonpass.cli.options import COMMON, Common, Count, Duration, FileArg, Flag, Node
from batonpass.cli.render import Teller, print_json, silence, warn
from batonpass.cli.work_view import show_plan, show_status
from batonpass.client import capability_calls, config
from batonpass.client.client import ONCE, Client
from batonpass.core.digest_text import Mode
from batonpass.core.errors import BatonError, NotFound
from batonpass.core.ids import AgentId, HolderId, NodeId
from batonpass.core.runs import State
from batonpass.worker import status as board
from batonpass.worker.app import assemble, run
from batonpass.worker.config import Config, Flags, load
from batonpass.worker.config import under as settings_of
from batonpass.worker.dispatch import templates
from batonpass.worker.dispatch.handover import ByProcess
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.errors import WorkerError
from batonpass.worker.orders import Orders, with_harness
from batonpass.worker.outlook import Outlook, outlook, unknown
from batonpass.worker.pace import Pace
from batonpass.worker.pulse import Pulse
from batonpass.worker.record import RunRecord, Stopped, as_json
from batonpass.worker.server_graph import ServerGraph
from batonpass.worker.settings import Settings
from batonpass.worker.shift import Shift
from batonpass.worker.worker import Worker


def work(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    once: Flag = False,
    max_: Annotated[Count | None, Parameter(name="--max")] = None,
    concurrency: Count | None = None,
    interval: Duration | None = None,
    max_interval: Duration | None = None,
    retry_after: Duration | None = None,
    harness: str | None = None,
    model: str | None = None,
    profile: Node | None = None,
    project: str | None = None,
    base: str = "main",
    accept: str | None = None,
    template: FileArg | None = None,
    read_only: Flag = False,
    run_max: Duration | None = None,
    run_idle: Duration | None = None,
    brief: Annotated[bool, Parameter(negative="--no-brief", show_default=False)] = True,
    full: Flag = False,
    print_: Annotated[Flag, Parameter(name="--print")] = False,
    status: Flag = False,
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

    What is not said here comes from the environment, then the checkout's
    .baton.json, then config.json of the home folder; --print shows the value of
    each setting and where it is from, and what would be taken, and does nothing.

    The first SIGINT or SIGTERM lets the runs finish and takes no more; the
    second stops them, and the command ends with 130 once they are settled; the
    third ends it at once. When the terminal goes away its runs go on without
    it, and the next worker takes them for its own. A run that
    could not be settled yet ends --once with 5, or 6 where the token was
    refused; the next start settles it.

    Args:
        command: the program that does the work, and its arguments, after --.
        once: take what there is for the free slots, see it through, then end.
        max_: end after this many runs.
        concurrency: how many runs at a time, 1 to 1000; otherwise 1.
        interval: how soon to ask again a server that was away, doubled each time it is; otherwise 30s.
        max_interval: how rarely it is asked at most, and the queue looked at in any case; otherwise 5m.
        retry_after: how long an item is left alone that a run of this worker left undone; otherwise 10m, 0s is not.
        harness: the agent program, such as codex; docs/howto/harnesses.md has all of them.
        model: the model it is to ask, in the program's own words.
        profile: the profile that all runs are under; otherwise the item's or the agent's.
        project: only items of this project.
        base: the branch the work is for.
        accept: ready takes what a person marked for agents, open all that is not a person's; otherwise ready.
        template: a file with the prompt, with names such as {{task}} in it.
        read_only: the agent may look, and change nothing.
        run_max: stop a run after this time; otherwise 24h.
        run_idle: stop a run that gives no sign of life for this time, 0s never does; otherwise 45m.
        brief: tell it what is known around the item, as baton brief shows it; the item itself it is told anyway.
        full: tell it more: the text of what is near, and the norms.
        print_: show every setting with its source, and what would be taken, and do nothing.
        status: show what the workers of this machine are at, and what there is to take.

    """
    if full and not brief:
        raise UsageError("--full and --no-brief exclude each other")
    if command and (harness is not None or model is not None):
        raise UsageError("a command after -- is run as it is: it goes with neither --harness nor --model")
    flags = Flags(
        accept=accept,
        project=project,
        harness=harness,
        concurrency=concurrency,
        interval=interval,
        max_interval=max_interval,
        retry_after=retry_after,
        run_idle=run_idle,
        run_max=run_max,
        template=template,
    )
    home = config.home_of(os.environ)
    said = settings_of(flags, load(home, os.environ, Path.cwd()))
    for warning in said.warnings:
        warn(f"warning: {warning}")
    pace = Pace(
        concurrency=said.concurrency.value,
        interval_s=said.interval_s.value,
        max_interval_s=said.max_interval_s.value,
        max_runs=max_ or 0,
        once=once,
    )
    plan = _Plan(
        said,
        pace,
        Settings(
            home=home,
            inherited=dict(os.environ),
            accept=said.accept.value,
            run_max_s=said.run_max_s.value,
            run_idle_s=said.run_idle_s.value,
            disposable=said.disposable.value,
            retention=said.retention.value,
            disk_free_min=said.disk_free_min.value,
            briefing=(Mode.FULL if full else Mode.DIGEST) if brief else None,
        ),
        Order(
            command,
            Path.cwd(),
            base=base,
            project=said.project.value,
            model=model,
            read_only=read_only,
            template=None if said.template.value is None else templates.read(said.template.value),
            set_up=said.set_up.value,
            tear_down=said.tear_down.value,
        ),
        profile=profile,
        harness=harness,
    )
    if status:
        show_status(board.workers(home), _outlook(plan, common)[1], json=common.json)
        return Exit.OK
    if print_:
        order, outlook = _outlook(plan, common)
        show_plan(said, pace, order, outlook, json=common.json)
        return Exit.OK
    return _work(plan, common)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What was asked for, put together. `order` has no harness yet, unless it is a command."""

    said: Config
    pace: Pace
    settings: Settings
    order: Order
    profile: NodeId | None
    harness: str | None

    def worker(self, client: Client, starter: ByProcess, say: Callable[[str], None]) -> Worker:
        """Return the worker; `LaunchRefused` when this box has nothing to run."""
        agent = client.me().agent if self.profile is not None or not self.order.command else None
        orders = Orders(
            client,
            self.said.box,
            self.settings.inherited,
            None if agent is None else AgentId(HolderId(agent)),
            time.monotonic,
            harness=self.harness,
            model=self.order.model,
            profile=self.profile,
        )
        order = self.order
        if not order.command:
            named = self.harness or orders.standing_harness() or self.said.harness.value
            order = with_harness(
                replace(order, mcp=tuple(self.said.box.mcp.values())), named, self.said.box, self.settings.inherited
            )
        worker = assemble(ServerGraph(client), self.settings, order, starter=starter, say=say, pace=self.pace)
        return replace(worker, order_for=orders, retry_after_s=self.said.retry_after_s.value)


def _work(plan: _Plan, common: Common) -> int:
    with _as_agent(common) as (client, starter):
        worker = plan.worker(client, starter, Teller(sys.stderr if common.json else sys.stdout))
        board.prune(plan.settings.home)
        written = board.Board(plan.settings.home, worker.now())
        pulse = Pulse(lambda: _beat(client), worker.clock)

        def noticed(shift: Shift) -> None:
            written.note(shift)
            pulse.note()

        shift = Shift(worker, plan.pace, noticed=noticed)
        run(shift)
    return _ended(shift, common)


def _outlook(plan: _Plan, common: Common) -> tuple[Order | None, Outlook]:
    """Return what such a worker would run, and what it would take; whatever is in the way of knowing is said."""
    order = None
    try:
        with _as_agent(common) as (client, starter):
            worker = plan.worker(client, starter, lambda _: None)
            order = worker.order
            return order, outlook(worker)
    except (BatonError, WorkerError, OSError) as error:
        return order, unknown(error)


def _beat(client: Client) -> None:
    agent = client.me().agent
    if agent is None:
        raise NotFound("no agent's capabilities were published")
    client.send(capability_calls.beat(AgentId(HolderId(agent))), patience=ONCE)


def _ended(shift: Shift, common: Common) -> int:
    """Print what the command has to show for itself, and return how it ends."""
    own = shift.own
    code = max((_exit_of(record) for record in own), default=Exit.OK) if shift.pace.once else Exit.OK
    if shift.worker.interrupted.is_set() or (shift.pace.once and not own and shift.worker.stopping.is_set()):
        code = Exit.INTERRUPTED
    if common.json and not _print_outcome(own) and code is Exit.OK:
        return Exit.FAILED
    return code


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
        return exit_of_pending(record.pending_for)
    return Exit.OK


@contextmanager
def _as_agent(common: Common) -> Iterator[tuple[Client, ByProcess]]:
    """Speak as an agent: with the configured token, or, without a server, as this machine's own agent.

    The supervisors of its runs do the same; in local mode each serves this
    machine's own server to its child (D37).
    """
    found = config.load(os.environ, server=common.server)
    token = None if found.token is None else found.token.text
    with connected_as_agent(common) as client:
        is_local = found.server is None
        yield client, ByProcess(server=None, token=None) if is_local else ByProcess(server=client.server, token=token)
