"""Starting a run's child, on the side of its supervisor: from an item that was handed over to a program that works.

    renewed ─▶ run token ─▶ prompt ─▶ worktree ─▶ set-up ─▶ child
       ◀────────── undone in reverse when any later one fails ◀──┘

**Who decides what.** The lease is renewed before anything else: the grant is
short until then, and a large tree takes its time (D15). The token is minted
for the tenure the claim began, and is nowhere but in the child's environment.
Which program is run was decided by the worker, on this box; how it is run is
its adapter's word.

**What a crash leaves.** A record, and at most a lease nobody renews, a token
nobody has, and an untouched worktree. The next look settles it from the record.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from batonpass.core.errors import BatonError
from batonpass.core.ids import AgentId, RunId
from batonpass.core.points import reach
from batonpass.worker import environment, git, proc, worktree
from batonpass.worker.dispatch import prompt
from batonpass.worker.dispatch.launch import Errand, NotLaunched, note_failure
from batonpass.worker.errors import LaunchRefused, WorkerError
from batonpass.worker.graph import Graph, Heart, Item, RunToken
from batonpass.worker.journal import HeldRun, RunRecord, State, timestamp
from batonpass.worker.proc import Child
from batonpass.worker.worktree import Worktree


@dataclass(frozen=True, slots=True)
class Means:
    """What a supervisor works with; `now` is the time that records show.

    `child_server` is where its child reaches the server, `stopping` is set once
    it is told to end, and `adopts` says that the kernel hands it the orphans of
    what it started.
    """

    graph: Graph
    now: Callable[[], datetime]
    child_server: str
    stopping: threading.Event
    adopts: bool = False


@dataclass(frozen=True, slots=True)
class Launched:
    """A child at work, the record of its run, and the heartbeat of its lease."""

    record: RunRecord
    child: Child
    heart: Heart


def launch(means: Means, run: HeldRun, errand: Errand) -> Launched | NotLaunched:
    """Start the child for an item that was just claimed.

    What fails before the child has started is undone and recorded, never
    raised. From then on there may be a report, so nothing is handed back here:
    an `OSError` leaves a stopped child and a run for the settlement to judge.
    """
    attempt = _Launch(means, run, errand)
    try:
        with ExitStack() as undo:
            ready = attempt.prepare(undo)
            undo.pop_all()
    except (BatonError, WorkerError, OSError) as error:
        return NotLaunched(note_failure(run, error, released=attempt.released, now=means.now()))
    return attempt.running(ready)


class _Launch:
    """One launch after its claim: each step says at once how it is undone."""

    def __init__(self, means: Means, run: HeldRun, errand: Errand) -> None:
        assert errand.taken is not None
        self._means = means
        self._graph = means.graph
        self._run = run
        self._settings = errand.settings
        self._order = errand.order
        self._ground = errand.ground
        self._taken = errand.taken
        self.released = False

    def prepare(self, undo: ExitStack) -> Launched:
        """Return the started child; `undo` has what takes back every step so far, in reverse."""
        undo.callback(self._hand_back)
        record = self._run.change(self._run.read(), runner=proc.identify_self())
        reach("lease.taken")
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
        if self._means.stopping.is_set():
            raise LaunchRefused("the supervisor was told to stop before the child was started")
        child = self._start(record, token, text)
        undo.callback(child.stop, self._settings.graces)
        return Launched(record, child, heart)

    def running(self, ready: Launched) -> Launched:
        """Record that the child runs; whatever is in the way of that stops the child."""
        try:
            reach("child.started")
            record = self._run.change(
                ready.record, state=State.RUNNING, started_at=timestamp(self._means.now()), child=ready.child.identity
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
            adopts=self._means.adopts,
        )

    def _environment(self, record: RunRecord, token: RunToken) -> dict[str, str]:
        about = {
            "BATON_SERVER": self._means.child_server,
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


def _branch(record: RunRecord) -> str:
    assert record.node_id is not None
    return f"{git.HEADS}baton/{record.node_id}-{_short(record.run_id)}"


def _short(run: RunId) -> str:
    return run.replace("-", "")[:8]


def _folder_name(repository: Path) -> str:
    return repository.name or "root"
