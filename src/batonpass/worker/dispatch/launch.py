"""Launching a run: from an item of the queue to a child that works on it.

    guards ─▶ record with its nonce ─▶ claim ─▶ heartbeat ─▶ run token ─▶ prompt ─▶ worktree ─▶ child
      pure        written down first                                                      │
      ◀──────────────────── undone in reverse when any later one fails ◀────────────────┘

**Who decides what.** Nothing is changed anywhere before every check that needs
no change has passed. The nonce is on disk before it is sent, so a claim whose
answer was lost can be asked for again and is never made twice (D6). Without a
claim that was answered there is no child (D0). The token is minted for the
tenure the claim began, and is nowhere but in the child's environment.

**What a crash leaves.** A record, and at most a lease nobody renews, a token
nobody has, and an untouched worktree. The next start settles it from the record.
"""

from __future__ import annotations

import shutil
import threading
import uuid
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from batonpass.core.errors import BatonError
from batonpass.core.ids import AgentId, RunId
from batonpass.core.outcome import Terminal
from batonpass.core.points import reach
from batonpass.worker import environment, git, proc, worktree
from batonpass.worker.dispatch import prompt
from batonpass.worker.errors import LaunchRefused, WorkerError
from batonpass.worker.git import Checkout, Sha
from batonpass.worker.graph import Caller, Graph, Heart, Item, RunToken, Taken
from batonpass.worker.journal import Ended, HeldRun, RunRecord, State, timestamp
from batonpass.worker.proc import Child
from batonpass.worker.settings import Settings
from batonpass.worker.worktree import Worktree

HARNESS: Final = "command"
"""How records name a plain command, which is no agent program we know more about."""


@dataclass(frozen=True, slots=True)
class Order:
    """What to run and where. `base` is the name of the branch the work is for, as a person says it.

    `child_server` is the address children reach the server at, where that is
    not the worker's own (local mode serves one for them, D37).
    """

    command: tuple[str, ...]
    folder: Path
    base: str = "main"
    project: str | None = None
    child_server: str | None = None
    adopts: bool = False


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the runs of an order will stand: the repository, and the commit that the base is at now."""

    repository: Checkout
    base_ref: str
    base: Sha


@dataclass(frozen=True, slots=True)
class Launched:
    """A child at work, the record of its run, and the heartbeat of its lease."""

    record: RunRecord
    child: Child
    heart: Heart


@dataclass(frozen=True, slots=True)
class NotLaunched:
    """Something was in the way after the claim; everything is undone, and the record says what it was."""

    record: RunRecord


@dataclass(frozen=True, slots=True)
class Launcher:
    """What a launch works with; `now` is the time that records show, `stopping` calls it off until the child starts."""

    graph: Graph
    settings: Settings
    now: Callable[[], datetime]
    stopping: threading.Event = field(default_factory=threading.Event)


def survey(order: Order, settings: Settings) -> Ground:
    """Return where the order's runs will stand; `LaunchRefused` when they can't, before anything is changed."""
    if not order.command:
        raise LaunchRefused("there is no command to run; name it after --")
    searched = environment.plain(settings.inherited).get("PATH")
    if shutil.which(order.command[0], path=searched) is None:
        raise LaunchRefused(f"{order.command[0]} is not a command that can be run here; is it installed, and on PATH?")
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


def new_record(order: Order, ground: Ground, *, server: str, caller: Caller, now: datetime) -> RunRecord:
    """Return the record of a run that has not been sent for yet, with its nonce (D6)."""
    run = RunId(str(uuid.uuid4()))
    return RunRecord(
        run_id=run,
        node_id=None,
        name=None,
        harness=HARNESS,
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
        runner=proc.identify_self(),
    )


def launch(launcher: Launcher, run: HeldRun, taken: Taken, *, order: Order, ground: Ground) -> Launched | NotLaunched:
    """Start the child for an item that was just claimed.

    What fails before the child has started is undone and recorded, never
    raised. From then on there may be a report, so nothing is handed back here:
    an `OSError` leaves a stopped child and a run for the settlement to judge.
    """
    attempt = _Launch(launcher, run, taken, order=order, ground=ground)
    try:
        with ExitStack() as undo:
            ready = attempt.prepare(undo)
            undo.pop_all()
    except (BatonError, WorkerError, OSError) as error:
        return NotLaunched(_note_failure(run, error, released=attempt.released, now=launcher.now()))
    return attempt.running(ready)


@dataclass(frozen=True, slots=True)
class _Ready:
    record: RunRecord
    child: Child
    heart: Heart


class _Launch:
    """One launch after its claim: each step says at once how it is undone."""

    def __init__(self, launcher: Launcher, run: HeldRun, taken: Taken, *, order: Order, ground: Ground) -> None:
        self._settings = launcher.settings
        self._graph = launcher.graph
        self._now = launcher.now
        self._stopping = launcher.stopping
        self._run = run
        self._taken = taken
        self._order = order
        self._ground = ground
        self.released = False

    def prepare(self, undo: ExitStack) -> _Ready:
        """Return the started child; `undo` has what takes back every step so far, in reverse."""
        undo.callback(self._hand_back)
        record = self._run.change(self._run.read(), **_claim_facts(self._run, self._taken))
        reach("lease.taken")
        # At once: the grant may be short until its first renewal, and a large tree takes its time (D15).
        heart = self._graph.keep(self._taken)
        undo.callback(heart.stop)
        token = self._graph.mint(record.agent, self._taken.fence)
        undo.callback(self._revoke, record.agent, token.prefix)
        record = self._run.change(record, token_prefix=token.prefix)
        reach("token.minted")
        text = self._prompt(record)
        tree = self._worktree(record)
        # Written down before it is made, so that a crash in between leaves a name to look for.
        record = self._run.change(record, worktree=str(tree.path), branch=tree.branch, cwd=str(tree.path))
        worktree.create(tree)
        undo.callback(worktree.discard, tree)
        reach("worktree.added")
        if (why := heart.lost()) is not None:
            raise LaunchRefused(f"the lease was lost before the child could be started: {why}")
        if self._stopping.is_set():
            raise LaunchRefused("the worker was told to stop before the child was started")
        child = self._start(record, token, text)
        undo.callback(child.stop, self._settings.graces)
        return _Ready(record, child, heart)

    def running(self, ready: _Ready) -> Launched:
        """Record that the child runs; whatever is in the way of that stops the child."""
        try:
            reach("child.started")
            record = self._run.change(
                ready.record, state=State.RUNNING, started_at=timestamp(self._now()), child=ready.child.identity
            )
        except BaseException:
            ready.child.stop(self._settings.graces)
            ready.heart.stop()
            raise
        return Launched(record, ready.child, ready.heart)

    def _hand_back(self) -> None:
        # There is no report yet, so nothing is lost by giving the item back at once. If this
        # fails too, the lease lapses: nobody renews it.
        with suppress(BatonError):
            self._graph.release(self._taken.fence)
            self.released = True

    def _revoke(self, agent: AgentId, prefix: str) -> None:
        # The release that follows ends the token as well.
        with suppress(BatonError):
            self._graph.revoke(agent, prefix)

    def _prompt(self, record: RunRecord) -> str:
        item = self._taken.item
        seen = self._graph.node(item.id)
        return prompt.compose(
            prompt.Brief(
                node=prompt.Quoted(seen.id, seen.type, seen.title, seen.raw),
                project=item.project,
                branch=_branch(record).removeprefix(git.HEADS),
                target=self._ground.base_ref.removeprefix(git.HEADS),
                around=self._around(item),
            )
        )

    def _around(self, item: Item) -> prompt.Around:
        """Return what is known around the item. A server that can't say costs the run its briefing and no more."""
        mode = self._settings.briefing
        if mode is None:
            return prompt.NotWanted()
        try:
            return prompt.Known(self._graph.digest(item.id, project=item.project, mode=mode), mode)
        except BatonError as error:
            return prompt.NotCompiled(error.message)

    def _worktree(self, record: RunRecord) -> Worktree:
        repository = self._ground.repository
        folder = self._settings.home / "worktrees" / _folder_name(repository.folder)
        return Worktree(folder / _short(record.run_id), _branch(record), self._ground.base, repository)

    def _start(self, record: RunRecord, token: RunToken, text: str) -> Child:
        return proc.start(
            self._order.command,
            mark=record.run_id,
            cwd=Path(record.cwd),
            environment=self._environment(record, token),
            stdin=text,
            stdout=self._run.log,
            stderr=self._run.errors,
            adopts=self._order.adopts,
        )

    def _environment(self, record: RunRecord, token: RunToken) -> dict[str, str]:
        about = {
            "BATON_SERVER": self._order.child_server or self._graph.server,
            "BATON_TOKEN": token.secret,
            "BATON_HOME": str(self._run.home),
            "BATON_RUN": record.run_id,
            "BATON_NODE": self._taken.item.id,
            "BATON_EPOCH": str(self._taken.fence.epoch),
            "BATON_REPORT": str(self._run.report),
            "PWD": record.cwd,
        }
        if self._taken.item.project is not None:
            about["BATON_PROJECT"] = self._taken.item.project
        return environment.for_child(self._settings.inherited, agent=record.agent, run=about)


def _claim_facts(run: HeldRun, taken: Taken) -> dict[str, object]:
    """Return what the record says of the item, once it is ours."""
    item = taken.item
    return {
        "node_id": item.id,
        "name": item.id,
        "title": item.title,
        "node_type": item.type,
        "project": item.project,
        "epoch": taken.fence.epoch,
        "log_path": str(run.log),
        "report_path": str(run.report),
    }


def _note_failure(run: HeldRun, error: Exception, *, released: bool, now: datetime) -> RunRecord:
    """Record that the launch came to nothing; there is no outcome to read, so the run is settled by that."""
    message = error.message if isinstance(error, BatonError | WorkerError) else str(error)
    return run.change(
        run.read(),
        state=State.FAILED_LAUNCH,
        finished_at=timestamp(now),
        termination_class=Ended.LAUNCH,
        termination_reason=message,
        terminal_state=Terminal.FAILED,
        terminal_enforced=False,
        terminal_note="the run was not started",
        lease_released=released,
        contract_pending=False,
        contract_settled_at=timestamp(now),
    )


def _branch(record: RunRecord) -> str:
    assert record.node_id is not None
    return f"{git.HEADS}baton/{record.node_id}-{_short(record.run_id)}"


def _short(run: RunId) -> str:
    return run.replace("-", "")[:8]


def _folder_name(repository: Path) -> str:
    return repository.name or "root"
