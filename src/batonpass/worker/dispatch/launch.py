"""Launching a run, on the side of the worker: from an item that was claimed to a supervisor that has it.

    guards ─▶ record with its nonce ─▶ claim ─▶ supervisor ─▶ its word: started │ refused
      pure        written down first               │
                                                   └─ from here on the run is the supervisor's (D21a)

**Who decides what.** Nothing is changed anywhere before every check that needs
no change has passed. The nonce is on disk before it is sent, so a claim whose
answer was lost can be asked for again and is never made twice (D6). Without a
claim that was answered there is no child (D0). The run's lock goes to the
supervisor with the run: there is no moment at which it looks left.

**What a crash leaves.** A record, and at most a lease nobody renews. A worker
that dies after the handing over is not missed; a supervisor that dies leaves
its run to whoever looks next.
"""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from batonpass.core.errors import BatonError
from batonpass.core.ids import AgentId, NodeId, RunId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import Ended, State
from batonpass.worker import environment, git
from batonpass.worker.crew import Identity, identify_self
from batonpass.worker.errors import LaunchRefused, WorkerError
from batonpass.worker.git import Checkout, Sha
from batonpass.worker.graph import Caller, Graph, Taken
from batonpass.worker.harness.base import McpServer
from batonpass.worker.journal import HeldRun
from batonpass.worker.record import PLAIN, RunRecord, Stopped, timestamp
from batonpass.worker.settings import Settings

ANSWER_S_MAX: Final = 600.0
"""How long a worker waits to hear that its run has begun: a large tree and its set-up take their time. A supervisor
that takes longer goes on by itself, and its record says how."""
LOOK_S: Final = 0.1
"""How soon a worker that is told to stop calls off a launch it waits for."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to run and where. `base` is the name of the branch the work is for, as a person says it.

    What runs is either `command`, a program and its arguments, or the agent
    program of `harness`: the adapter's id, and in `program` the binary this box
    decided on; `declared` describes a harness that is not one of ours.
    `template` replaces the prompt's own layout, `instructions` are added to the
    task, or are all of it where there is no item. `set_up` and `tear_down` are
    commands run in the worktree before the child and after the verdict.
    `contract` says that nobody watches. `directory` has the run stand in a folder that is there already, instead of
    in a worktree of its own.
    """

    command: tuple[str, ...]
    folder: Path
    base: str = "main"
    project: str | None = None
    harness: str = PLAIN
    program: Path | None = None
    declared: object | None = None
    model: str | None = None
    profile: str | None = None
    read_only: bool = False
    mcp: tuple[McpServer, ...] = ()
    name: str | None = None
    instructions: str = ""
    template: str | None = None
    set_up: tuple[str, ...] = ()
    tear_down: tuple[str, ...] = ()
    directory: Path | None = None
    contract: bool = True


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the runs of an order will stand: the repository, and the commit that the base is at now."""

    repository: Checkout
    base_ref: str
    base: Sha


@dataclass(frozen=True, slots=True)
class Errand:
    """All that a supervisor needs to know of its run, but for whose token it acts under.

    `taken` is the item and its tenure; None when the run is about no item.
    """

    settings: Settings
    order: Order
    ground: Ground
    taken: Taken | None


@dataclass(frozen=True, slots=True)
class Started:
    """The supervisor's word that the run's child is at work."""


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The supervisor's word that the run came to nothing: undone, and recorded."""

    why: str


Answer = Started | NotStarted


class Supervising(Protocol):
    """A supervisor at work, as its worker sees it."""

    @property
    def identity(self) -> Identity:
        """Which process it is."""
        ...

    def answer(self, timeout_s: float) -> Answer | None:
        """Return its word on the start, waiting at most `timeout_s`; None while there is none, or there will be none.

        Its word is given once.
        """
        ...

    def wait(self, timeout_s: float) -> bool:
        """Return whether it has ended, waiting at most `timeout_s`."""
        ...

    def call_off(self) -> None:
        """Have it start no child any more; one that is at work already goes on. Safe when it has ended."""
        ...

    def terminate(self) -> None:
        """Have it stop its child, settle the run and end; safe when it has ended."""
        ...


class Starter(Protocol):
    """Starts supervisors (`handover.ByProcess`)."""

    def start(self, run: HeldRun, errand: Errand) -> Supervising:
        """Start the supervisor of a run and hand the run over, its lock included.

        `NotStarted` of `worker.errors`, or an `OSError`, when no process could be started.
        """
        ...


@dataclass(frozen=True, slots=True)
class Launcher:
    """What a launch works with; `now` is the time that records show, `stopping` calls it off until the child starts."""

    graph: Graph
    settings: Settings
    now: Callable[[], datetime]
    starter: Starter
    stopping: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that is its supervisor's now, and its record as it read a moment ago.

    Wait for the supervisor, then read the record: one that is settled needs
    nothing more, and any other is a run whose supervisor died.
    """

    record: RunRecord
    supervisor: Supervising


@dataclass(frozen=True, slots=True)
class NotLaunched:
    """Something was in the way after the claim; everything is undone, and the record says what it was."""

    record: RunRecord


def survey(order: Order, settings: Settings) -> Ground:
    """Return where the order's runs will stand; `LaunchRefused` when they can't, before anything is changed."""
    _require_program(order, settings)
    here = Checkout(order.folder, environment.for_git(settings.inherited))
    try:
        repository = replace(here, folder=git.top_level(here))
        base_ref = git.full_name(repository, order.base)
        base = git.commit_of(repository, base_ref or order.base)
    except WorkerError as error:
        raise LaunchRefused(f"{order.folder} is not inside a git checkout: {error.message}") from error
    if base is None:
        raise LaunchRefused(
            f"there is no branch, tag or commit {order.base} in {repository.folder}; name one with --base"
        )
    return Ground(repository, base_ref or base, base)


def require_agent(caller: Caller) -> AgentId:
    """Return the agent that runs are launched as; `LaunchRefused` names the way out when the token is nobody's to use.

    A person's token would put the person's name under what the agent does, so
    there is no falling back to it.
    """
    if caller.run is not None:
        raise LaunchRefused("this is a run's own token, and a run launches no other; use the agent's token")
    if caller.agent is None:
        raise LaunchRefused(
            "this token is not an agent's, so the work would carry a person's name;"
            " make an agent with `baton agent add LABEL` and use a token of it"
        )
    return caller.agent


def new_record(
    order: Order, ground: Ground, *, server: str, caller: Caller, now: datetime, node: NodeId | None = None
) -> RunRecord:
    """Return the record of a run that has not been sent for yet: its nonce, and its item where that is known (D6)."""
    run = RunId(str(uuid.uuid4()))
    return RunRecord(
        run_id=run,
        node_id=node,
        name=order.name or node,
        harness=order.harness,
        cwd=str(ground.repository.folder),
        created_at=timestamp(now),
        server=server,
        incarnation=caller.incarnation,
        project=order.project,
        agent=require_agent(caller),
        owner=caller.person,
        dispatch=run,
        repository=str(ground.repository.folder),
        base=ground.base,
        worker=identify_self(),
        profile=order.profile,
        read_only=order.read_only or None,
        instructions=order.instructions or None,
    )


def begin(
    launcher: Launcher, run: HeldRun, taken: Taken | None, *, order: Order, ground: Ground
) -> Begun | NotLaunched:
    """Hand a run over to a supervisor of its own, and return once that has said how the start went.

    That is waited for at most `ANSWER_S_MAX`: a supervisor that has not answered
    by then, or died before it did, is `Begun` all the same, for whatever it did
    is its own to finish, or the next look's. Once `stopping` is set a launch that
    is waited for is called off. Nothing is raised but what the record can't
    be written for (`OSError`).
    """
    record = run.change(run.read(), **_claim_facts(run, taken))
    try:
        if launcher.stopping.is_set():
            raise LaunchRefused("the worker was told to stop before the run was begun")
        supervisor = launcher.starter.start(run, Errand(launcher.settings, order, ground, taken))
    except (WorkerError, OSError) as error:
        released = taken is not None and hand_back(launcher.graph, taken)
        failed = note_failure(run, error, released=released, now=launcher.now())
        stopped = Stopped.INTERRUPTED if launcher.stopping.is_set() else None
        return NotLaunched(run.change(failed, stopped_for=stopped))
    match _answer(launcher, supervisor):
        case NotStarted():
            supervisor.wait(LOOK_S)  # it is about to end, and its worker is who buries it
            return NotLaunched(run.read())
        case _:
            return Begun(run.readable() or record, supervisor)


def note_failure(run: HeldRun, error: Exception, *, released: bool, now: datetime) -> RunRecord:
    """Record that the launch came to nothing; there is no outcome to read, so the run is settled by that."""
    return run.change(
        run.read(),
        state=State.FAILED_LAUNCH,
        finished_at=timestamp(now),
        termination_class=Ended.LAUNCH,
        termination_reason=str(error),
        terminal_state=Terminal.FAILED,
        terminal_enforced=False,
        terminal_note="the run was not started",
        lease_released=released,
        contract_pending=False,
        contract_settled_at=timestamp(now),
    )


def _answer(launcher: Launcher, supervisor: Supervising) -> Answer | None:
    """Wait for the supervisor's word; None when it gives none in time, or ever."""
    deadline_s = time.monotonic() + ANSWER_S_MAX
    called_off = False
    while time.monotonic() < deadline_s:
        if (answer := supervisor.answer(LOOK_S)) is not None:
            return answer
        if supervisor.wait(0):
            return supervisor.answer(0)
        if launcher.stopping.is_set() and not called_off:
            supervisor.call_off()  # its child may be at work since a moment: then the run is finished like any other
            called_off = True
    return None


def hand_back(graph: Graph, taken: Taken) -> bool:
    """Release a tenure that nothing was done under, and return whether that was done; a borrowed one is left alone.

    A lease that can't be handed back lapses, for nobody renews it.
    """
    if taken.borrowed:
        return False
    with suppress(BatonError):
        graph.release(taken.fence)
        return True
    return False


def _require_program(order: Order, settings: Settings) -> None:
    if order.program is not None:
        if not order.program.is_absolute() or shutil.which(order.program) is None:
            raise LaunchRefused(f"{order.program} is not a program that can be run here, so {order.harness} is not")
        return
    if not order.command:
        raise LaunchRefused("there is no command to run; name it after --")
    searched = environment.plain(settings.inherited).get("PATH")
    if shutil.which(order.command[0], path=searched) is None:
        raise LaunchRefused(f"{order.command[0]} is not a command that can be run here; is it installed, and on PATH?")


def _claim_facts(run: HeldRun, taken: Taken | None) -> dict[str, object]:
    """Return what the record says of the item, once it is ours, and where the run's files are."""
    files: dict[str, object] = {"log_path": str(run.log), "report_path": str(run.report)}
    if taken is None:
        return files
    item = taken.item
    return {
        **files,
        "node_id": item.id,
        "name": item.id,
        "title": item.title,
        "node_type": item.type,
        "project": item.project,
        "epoch": taken.fence.epoch,
        "borrowed_epoch": taken.fence.epoch if taken.borrowed else None,
    }
