"""Starting a run's child, on the side of its supervisor: from an item that was handed over to a program that works.

    renewed ─▶ run token ─▶ worktree ─▶ set-up ─▶ prompt ─▶ child
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
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from batonpass.core.errors import BatonError
from batonpass.core.ids import AgentId, Fence, RunId
from batonpass.core.points import reach
from batonpass.core.runs import State
from batonpass.worker import environment, git, proc, worktree
from batonpass.worker.crew import identify_self
from batonpass.worker.dispatch import equipment, hooks, prompt
from batonpass.worker.dispatch.launch import Errand, NotLaunched, hand_back, note_failure
from batonpass.worker.errors import LaunchRefused, WorkerError
from batonpass.worker.graph import Graph, Heart, RunToken
from batonpass.worker.harness import registry
from batonpass.worker.harness.base import Command, Harness
from batonpass.worker.journal import HeldRun
from batonpass.worker.proc import Child
from batonpass.worker.record import RunRecord, timestamp

Bind = Callable[[RunToken, Fence | None, str], None]
"""Binds a run's token, and its tenure, to the session that its agent program calls its own; raises `BatonError`."""


@dataclass(frozen=True, slots=True)
class Means:
    """What a supervisor works with; `now` is the time that records show.

    `child_server` is where its child reaches the server, `stopping` is set once
    it is told to end, `called_off` says whether its worker wants no child any
    more, and `adopts` says that the kernel hands it the orphans of what it
    started.
    """

    graph: Graph
    now: Callable[[], datetime]
    child_server: str
    stopping: threading.Event
    called_off: Callable[[], bool] = lambda: False
    adopts: bool = False
    bind: Bind = lambda _token, _fence, _session: None


class Unkept:
    """The heartbeat of a run about no item: there is nothing to lose."""

    def lost(self) -> str | None:
        """Return None."""
        return None

    def stop(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A child at work, the record of its run, the heartbeat of its lease, and how its program is understood."""

    record: RunRecord
    child: Child
    heart: Heart
    token: RunToken
    command: Command
    harness: Harness | None = None
    site: hooks.Site | None = None


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
        record = self._run.change(self._run.read(), runner=identify_self())
        reach("lease.taken")
        heart = Unkept() if self._taken is None else self._graph.keep(self._taken)
        undo.callback(heart.stop)
        token = self._mint(record)
        undo.callback(self._revoke, record.agent, token.prefix)
        record = self._run.change(record, token_prefix=token.prefix)
        reach("token.minted")
        record, site = self._stand(record, undo)
        text = self._prompt(record)
        harness = None if self._order.program is None else registry.harness(self._order.harness, self._order.declared)
        command = equipment.equip(self._run, self._order, harness, cwd=Path(record.cwd))
        if (why := heart.lost()) is not None:
            raise LaunchRefused(f"the lease was lost before the child could be started: {why}")
        if self._means.stopping.is_set() or self._means.called_off():
            raise LaunchRefused("the supervisor was told to stop before the child was started")
        child = self._start(record, token, command, text)
        undo.callback(child.stop, self._settings.graces)
        return Launched(record, child, heart, token, command, harness, site)

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
        return replace(ready, record=record)

    def _hand_back(self) -> None:
        # There is no report yet, so nothing is lost by giving the item back at once. If this
        # fails too, the lease lapses: nobody renews it.
        self.released = self._taken is not None and hand_back(self._graph, self._taken)

    def _mint(self, record: RunRecord) -> RunToken:
        if self._taken is None:
            return self._graph.mint_for_session(record.agent)
        return self._graph.mint(record.agent, self._taken.fence)

    def _revoke(self, agent: AgentId, prefix: str) -> None:
        # The release that follows ends the token as well.
        with suppress(BatonError):
            self._graph.revoke(agent, prefix)

    def _stand(self, record: RunRecord, undo: ExitStack) -> tuple[RunRecord, hooks.Site | None]:
        """Return the record with the folder that the child will work in, which is there and prepared."""
        if self._order.directory is not None:
            return self._run.change(record, cwd=str(self._order.directory)), None
        ground = self._ground
        tree = worktree.planned(
            self._settings.home, ground.repository, ground.base, node=record.node_id, run=_short(record.run_id)
        )
        # Written down before it is made, so that a crash in between leaves a name to look for.
        record = self._run.change(record, worktree=str(tree.path), branch=tree.branch, cwd=str(tree.path))
        worktree.create(tree)
        undo.callback(worktree.discard, tree)
        reach("worktree.added")
        site = hooks.Site(
            tree=tree, run=record.run_id, slug=record.project, node=record.node_id, inherited=self._settings.inherited
        )
        if self._order.tear_down:
            undo.callback(hooks.tear_down, self._order.tear_down, site)
        if self._order.set_up:
            hooks.set_up(self._order.set_up, site, stopping=self._means.stopping)
            reach("hook.done")
        return record, site

    def _prompt(self, record: RunRecord) -> str:
        order = self._order
        item = None if self._taken is None else self._taken.item
        seen = None if item is None else self._graph.node(item.id)
        return prompt.compose(
            prompt.Brief(
                node=None if seen is None else prompt.quote(seen),
                project=record.project,
                branch=(record.branch or self._ground.base_ref).removeprefix(git.HEADS),
                target=self._ground.base_ref.removeprefix(git.HEADS),
                around=prompt.look_around(self._graph, self._settings.briefing, item=item, words=order.instructions),
                instructions=order.instructions,
                contract=order.contract,
                read_only=order.read_only,
                folder=record.cwd,
                template=order.template,
            )
        )

    def _start(self, record: RunRecord, token: RunToken, command: Command, text: str) -> Child:
        return proc.start(
            command.argv,
            mark=record.run_id,
            cwd=Path(record.cwd),
            environment=self._environment(record, token, command),
            stdin=text,
            stdout=self._run.log,
            stderr=self._run.errors,
            adopts=self._means.adopts,
        )

    def _environment(self, record: RunRecord, token: RunToken, command: Command) -> dict[str, str]:
        about = {
            "BATON_SERVER": self._means.child_server,
            "BATON_TOKEN": token.secret,
            "BATON_HOME": str(self._run.home),
            "BATON_RUN": record.run_id,
            "BATON_REPORT": str(self._run.report),
            "PWD": record.cwd,
        }
        if self._taken is not None:
            about |= {"BATON_NODE": self._taken.item.id, "BATON_EPOCH": str(self._taken.fence.epoch)}
        if record.project is not None:
            about["BATON_PROJECT"] = record.project
        built = environment.for_child(self._settings.inherited, agent=record.agent, run=about)
        built["PATH"] = environment.path_with(equipment.programs(self._run), built.get("PATH"))
        return environment.with_changes(built, command.environment)


def _short(run: RunId) -> str:
    return run.replace("-", "")[:8]
