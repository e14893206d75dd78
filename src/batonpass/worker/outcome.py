"""Settling a run: what it did is read off the graph, its report is filed, its lease handed back. In that order.

    locked ─▶ stopped ─▶ spooled ─▶ revoked ─▶ read ─▶ filed ─▶ (cleared) ─▶ released ─▶ recorded
               every      before     nothing    the     the
               process    any        writes     graph   report
               of it      network    any more   again   first

**Who decides what.** `core.outcome.plan` decides; this module finds the facts
and carries the steps out. A step that the graph refuses because the tenure is
over is skipped: whoever holds the item now is not disturbed (D20a).

**What a crash leaves.** At every point the same call finishes the work. The
report is on disk before anything is sent, filing it twice lands it once, and
the release names its epoch. What can't be finished now stays pending, and the
next start takes it up: the lease is then still held, or has lapsed by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import assert_never

from batonpass.core import reports
from batonpass.core.errors import BatonError, Forbidden, Internal, NotFound, Unauthorized, Unavailable
from batonpass.core.ids import Fence, NodeId, Resource
from batonpass.core.outcome import (
    ClearReadiness,
    Conclude,
    Facts,
    Filed,
    FileFinding,
    FileReport,
    Filing,
    NotFiled,
    Read,
    Reading,
    Refused,
    Release,
    Step,
    Undelivered,
    Unread,
    plan,
)
from batonpass.core.points import reach
from batonpass.core.reports import About, Draft, finding_node, report_node
from batonpass.core.runs import Ended, State
from batonpass.worker import worktree
from batonpass.worker.crew import Crew
from batonpass.worker.errors import FileDamaged, LaunchRefused
from batonpass.worker.graph import Graph, Seen
from batonpass.worker.harness import registry
from batonpass.worker.harness.base import Harness
from batonpass.worker.harness.replay import replayed
from batonpass.worker.journal import HeldRun, Spooled
from batonpass.worker.record import PLAIN, RunRecord, Stopped, timestamp
from batonpass.worker.settings import Settings
from batonpass.worker.unclaimed import close, require_its_graph


@dataclass(frozen=True, slots=True)
class Settler:
    """What a settlement works with; `now` is the time that records show.

    `adapter` returns what reads an agent program's output, where its
    supervisor died before it had; `LaunchRefused` for a program nobody knows.
    """

    graph: Graph
    settings: Settings
    now: Callable[[], datetime]
    adapter: Callable[[str], Harness] = registry.harness


def settle(settler: Settler, run: HeldRun, crew: Crew) -> RunRecord:
    """Settle a run as far as it can be settled now, and return its record.

    `crew` are the run's processes, however they became known. The record says
    `contract_pending` when this is to be called again.
    """
    reach("settle.locked")
    record = _begin(settler, run)
    if record.epoch is None:
        return close(settler.graph, settler.settings, settler.now, run=run, crew=crew)
    return _Settlement(settler, run, record, crew).go()


def _begin(settler: Settler, run: HeldRun) -> RunRecord:
    """Return the record under a new attempt; a run that nobody saw the end of has vanished."""
    record = run.read()
    fate: dict[str, object] = {}
    if not record.state.is_final:
        started = record.state is State.RUNNING
        fate = {
            "state": State.VANISHED,
            "finished_at": timestamp(settler.now()),
            "termination_class": Ended.UNKNOWN if started else Ended.LAUNCH,
            "termination_reason": "the worker that followed this run is gone; nobody saw how it ended",
        }
    return run.change(record, attempt=record.attempt + 1, **fate)


class _Settlement:
    """One attempt at one run."""

    def __init__(self, settler: Settler, run: HeldRun, record: RunRecord, crew: Crew) -> None:
        assert record.node_id is not None
        self._graph = settler.graph
        self._settings = settler.settings
        self._now = settler.now
        self._adapter = settler.adapter
        self._run = run
        self._record = record
        self._crew = crew
        self._node = record.node_id
        self._tree = worktree.of_run(record, settler.settings.inherited)
        self._notes: list[str] = []
        self._blocked: BatonError | None = None

    def go(self) -> RunRecord:
        """Return the record after this attempt."""
        self._stop()
        text = self._spool()
        facts = self._facts(text)
        verdict = self._carry_out(facts)
        self._record_verdict(verdict, is_unread=isinstance(facts.reading, Unread))
        if not verdict.pending:
            self._tidy()
            self._change(contract_pending=False, contract_settled_at=timestamp(self._now()))
        reach("record.settled")
        return self._record

    # Facts

    def _stop(self) -> None:
        leftover = sorted(one.pid for one in self._crew.stop(self._settings.graces))
        if leftover:
            self._notes.append(f"still running, though killed: {', '.join(map(str, leftover))}")
        reach("settle.stopped")

    def _spool(self) -> str:
        """Return the final report, on disk before anything is sent; a later attempt finds the first one's."""
        spooled = self._spooled()
        if spooled is not None:
            return spooled.text
        self._hear_out()
        text = self._run.final_text()
        reach("final.read")
        if reports.is_usable(text):
            self._run.spool(self._entry(text))
        return text

    def _hear_out(self) -> None:
        """Have the program's output read once more if its supervisor died before it kept what was said last."""
        record = self._record
        if record.state is not State.VANISHED or record.harness == PLAIN or self._run.final.exists():
            return
        try:
            adapter = self._adapter(record.harness)
        except LaunchRefused as error:
            self._notes.append(f"what the run said last is not known: {error.message}")
            return
        said = replayed(self._run.log, adapter).final_text or ""
        if reports.is_usable(said):
            self._run.keep_final(said)

    def _spooled(self) -> Spooled | None:
        try:
            return self._run.spooled()
        except FileDamaged as error:
            # What it was made from is still there.
            aside = self._run.set_aside(error.path)
            self._notes.append(f"{error.message}: it was set aside as {aside}, and the report taken anew")
            return None

    def _entry(self, text: str) -> Spooled:
        record = self._record
        return Spooled(
            server=record.server,
            incarnation=record.incarnation,
            run_id=record.run_id,
            agent=record.agent,
            node=self._node,
            epoch=record.epoch,
            spooled_at=timestamp(self._now()),
            text=text,
        )

    def _facts(self, text: str) -> Facts:
        reading, node_type = self._read()
        commits = 0 if self._tree is None else worktree.commit_count(self._tree)
        self._change(commits=commits)
        return Facts(
            target_type=node_type,
            reading=reading,
            report=text,
            # What can't be counted may be there: a decline is believed only without commits (D18).
            has_commits=commits != 0,
            lease=self._lease(),
            filing=self._filing(),
        )

    def _read(self) -> tuple[Reading, str]:
        """Return what the graph says of the target, once the run can't write any more, and the target's type."""
        known_type = self._record.node_type or ""
        try:
            require_its_graph(self._graph, self._record)
            self._revoke()
            reach("settle.revoked")
            seen = self._seen()
        except BatonError as error:
            self._blocked = error
            return Unread(error.message), known_type
        reach("settle.read")
        if seen is None:
            self._notes.append(f"{self._node} is not there any more")
            # Nothing resolves what is not there. The report is filed all the same.
            return Read(), known_type
        return Read(seen.resolver), seen.type

    def _revoke(self) -> None:
        """End the run's token; writes under it that are in flight are over when this returns (D20a)."""
        prefix = self._record.token_prefix
        if prefix is not None:
            with suppress(NotFound):
                self._graph.revoke(self._record.agent, prefix)

    def _seen(self) -> Seen | None:
        try:
            return self._graph.node(self._node)
        except NotFound:
            return None

    def _lease(self) -> Fence | None:
        record = self._record
        if record.epoch is None or record.lease_lost:
            return None
        return Fence(Resource(self._node), record.epoch)

    def _filing(self) -> Filing:
        record = self._record
        if record.finding_node_id is not None:
            return Filed(record.finding_node_id, finding=True)
        return NotFiled() if record.report_node_id is None else Filed(record.report_node_id)

    # Steps

    def _carry_out(self, facts: Facts) -> Conclude:
        """Take the plan's steps and return its verdict; once a filing is answered, the plan is made again."""
        steps = plan(facts)
        while not isinstance(step := steps[0], Conclude):
            try:
                filing = self._take(step, facts.report)
            except Unavailable as error:
                return self._interrupted(steps, error)
            steps = steps[1:] if filing is None else plan(replace(facts, filing=filing))
        return step

    def _interrupted(self, steps: tuple[Step, ...], error: BatonError) -> Conclude:
        """Return the verdict of a plan that is broken off: everything is filed, and handing back can wait."""
        verdict = steps[-1]
        assert isinstance(verdict, Conclude)
        self._blocked = error
        self._notes.append(f"handing the item back is to be tried again: {error.message}")
        return replace(verdict, pending=True)

    def _take(self, step: FileReport | FileFinding | ClearReadiness | Release, text: str) -> Filing | None:
        """Take one step; return what became of it when it is a filing."""
        match step:
            case FileReport(standing):
                return self._file_report(lambda digits: report_node(self._about(), text, standing, digits=digits))
            case FileFinding(reason):
                return self._file_finding(lambda digits: finding_node(self._about(), text, reason, digits=digits))
            case ClearReadiness(lease):
                done = self._if_it_stands(lambda: self._graph.clear_readiness(lease), "its readiness was left alone")
                self._change(readiness_cleared=done)
                reach("readiness.cleared")
            case Release(lease) if self._record.borrowed_epoch == lease.epoch:
                self._notes.append("the lease stood before the run, and is left to whoever claimed it")
            case Release(lease):
                done = self._if_it_stands(lambda: self._graph.release(lease), "the lease was not handed back")
                reach("release.sent")
                self._change(lease_released=done)
                reach("released")
            case unknown:
                assert_never(unknown)
        return None

    def _if_it_stands(self, change: Callable[[], None], otherwise: str) -> bool:
        """Make a change that names its tenure; whether the graph made it. `Unavailable` is raised."""
        try:
            change()
        except Unavailable:
            raise
        except BatonError as error:
            self._notes.append(f"{otherwise}: {error.message}")
            return False
        return True

    def _file_report(self, draft_with: Callable[[int], Draft]) -> Filing:
        filing = self._file(draft_with)
        if isinstance(filing, Filed):
            self._change(report_node_id=filing.node)
            reach("report.filed")
        return filing

    def _file_finding(self, draft_with: Callable[[int], Draft]) -> Filing:
        filing = self._file(draft_with)
        if not isinstance(filing, Filed):
            return filing
        self._change(finding_node_id=filing.node)
        reach("finding.filed")
        return replace(filing, finding=True)

    def _file(self, draft_with: Callable[[int], Draft]) -> Filing:
        """File a node under the shortest id that is this run's, and say what became of it.

        That one is there already counts only if it is this run's own, sent
        before and not heard of again (D19); else the id gets longer.
        """
        try:
            for draft in map(draft_with, reports.ID_DIGITS):
                put = self._graph.put(draft)
                reach("report.sent")
                if put.status == "error":
                    return Refused(put.message)
                if put.status != "skipped" or self._is_ours(draft.id):
                    return Filed(draft.id)
        except BatonError as error:
            if not _may_pass(error):
                return Refused(error.message)
            self._blocked = error
            return Undelivered(error.message)
        return Refused(f"every id for the report of run {self._record.run_id} is another run's")

    def _is_ours(self, node: NodeId) -> bool:
        with suppress(NotFound):
            return reports.names_run(self._graph.node(node).raw, self._record.run_id)
        return False

    def _about(self) -> About:
        record = self._record
        return About(
            run=record.run_id,
            harness=record.harness,
            target=self._node,
            target_type=record.node_type or "",
            ended=record.state,
            date=self._now().astimezone(UTC).date().isoformat(),
            project=record.project,
        )

    # The record

    def _record_verdict(self, verdict: Conclude, *, is_unread: bool) -> None:
        resolver = verdict.resolver
        self._change(
            terminal_state=verdict.state,
            terminal_enforced=verdict.enforced,
            terminal_note="; ".join(filter(None, [verdict.note, *self._notes])) or None,
            terminal_unreachable=is_unread,
            resolved_by=resolver.by if resolver else None,
            resolved_edge=resolver.edge if resolver else None,
            declined_reason=verdict.declined_reason,
            # Not confirmed is all that can be said of a release that was never sent.
            lease_released=self._record.lease_released or False,
            pending_for=self._blocked.code if verdict.pending and self._blocked else None,
        )

    def _tidy(self) -> None:
        """Remove the run's worktree if nothing in it could be missed; the record names what keeps it."""
        if self._tree is None:
            return
        if self._record.stopped_for is Stopped.IDLE:
            kept: tuple[str, ...] = ("the run was stopped for giving no sign of life",)
        else:
            kept = worktree.remove(self._tree, disposable=self._settings.disposable)
        self._change(worktree_kept=kept or None)

    def _change(self, **changes: object) -> None:
        self._record = self._run.change(self._record, **changes)


def _may_pass(error: BatonError) -> bool:
    """Whether filing the same node again may succeed: at another moment, or with another token.

    A server that broke may have done so after its commit, and an answer that
    is not in our form says nothing of the node: the same id, sent again, finds
    what is there (case 72).
    """
    return not error.is_ours or isinstance(error, Unavailable | Unauthorized | Forbidden | Internal)
