"""A run killed with -9 at every named point of its launch, its supervisor and its settlement, and taken up again.

First the supervisor is killed there, in a process of its own. Who takes up what
it left dies at the very same point if they come by it, and only the next one
comes through: no report is lost, and nothing is released without it. All of it
is shown on SQLite; on PostgreSQL what is killed between two writes to the
database.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import pytest
from tests.crash.conftest import slug

from batonpass.core.ids import NodeId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import State
from batonpass.testing.fleet import Fleet
from batonpass.testing.points import calling
from batonpass.worker import git
from batonpass.worker.crew import Crew, is_alive
from batonpass.worker.journal import RunFolder
from batonpass.worker.record import RunRecord

REPORT: Final = "echo Half of it works. > $BATON_REPORT"
DECLINE: Final = "echo DECLINED: done already > $BATON_REPORT"

SETTLE: Final = (
    "session.bound child.exited pipe.drained settle.locked settle.stopped final.read spool.tmp spool.renamed"
    " settle.revoked settle.read report.sent report.filed release.sent released record.settled"
).split()
SETTLE_A_DECLINE: Final = "settle.read report.sent finding.filed readiness.cleared release.sent released".split()
CLAIM: Final = "record.written claim.nonce_written claim.sent claim.answered".split()
LAUNCH: Final = "lease.taken mint.answered token.minted worktree.added hook.done child.started".split()
ONLY_SUPERVISORS: Final = frozenset({*LAUNCH, "session.bound", "child.exited", "pipe.drained"})
"""Points that nobody passes who takes up what was left."""
BETWEEN_WRITES: Final = frozenset("mint.answered claim.answered settle.revoked report.sent release.sent".split())
"""Points behind which one write to the database is committed and the next is not: there the database may matter."""
HORIZON_MS_MAX: Final = 60_000
"""Of a grant nobody has renewed yet (D15)."""


class Died(BaseException):
    """What ends whoever takes up a run, as abruptly as an exception can."""


def die() -> None:
    raise Died


def at(points: Iterable[str]) -> pytest.MarkDecorator:
    """Have a test run for each of `points`, on SQLite, and on PostgreSQL where that may make a difference."""
    cases = [("sqlite", point) for point in points]
    cases += [("postgres", point) for point in points if point in BETWEEN_WRITES]
    return pytest.mark.parametrize("box, point", cases, indirect=["box"])


def killed(box: Fleet, node: NodeId, script: str, point: str) -> RunFolder:
    """Kill a run's supervisor at `point`, and whoever takes the run up, if they come there as well."""
    with box.supervised(node, box.order_passing(point, script), points=f"{point}:kill") as supervised:
        supervised.ended()
    run = supervised.run
    assert not run.is_held(), "its lock outlived it"
    assert run.read().is_settled is (point == "record.settled"), "nobody was killed"
    with calling(point, die), suppress(Died):
        box.take_up()
    return run


def only_run(box: Fleet, project: str) -> RunRecord:
    ((_, record),) = box.runs(project)
    return record


@at(SETTLE)
def test_h28_a_report_survives_at_any_point_and_is_filed_before_the_lease_goes(box: Fleet, point: str) -> None:
    project = slug("report", point)
    node = box.add_item(f"task-{project}", project=project)

    run = killed(box, node, REPORT, point)

    assert box.is_leased(node) or box.related(node), "released without its report"
    box.take_up()
    record = run.read()
    assert record.is_settled
    assert (record.terminal_state, record.terminal_enforced) == (Terminal.REPORTED, True)
    assert box.related(node) == [record.report_node_id]
    assert "Half of it works." in box.person.node(box.related(node)[0]).body
    assert box.offered(project) == [node]
    assert record.state is (State.VANISHED if point in ONLY_SUPERVISORS else State.DONE)
    assert not Crew(record.run_id).look()


@at(SETTLE_A_DECLINE)
def test_h28_a_decline_survives_at_any_point(box: Fleet, point: str) -> None:
    project = slug("decline", point)
    node = box.add_item(f"task-{project}", project=project)

    run = killed(box, node, DECLINE, point)

    assert box.is_leased(node) or box.related(node), "released without its finding"
    said = box.start_again(project)
    record = run.read()
    assert (record.terminal_state, record.declined_reason) == (Terminal.DECLINED, "done already")
    assert box.related(node) == [record.finding_node_id]
    assert not box.is_leased(node)
    assert box.person.node(node).frontmatter.get("readiness") is None
    unanswered = f"it was declined and nobody has answered that: {record.finding_node_id}"
    assert f"{node}: left alone, {unanswered}" in said


@at(CLAIM)
def test_a_worker_that_died_around_its_claim_costs_the_item_a_minute_at_most(box: Fleet, point: str) -> None:
    project = slug("claim", point)
    node = box.add_item(f"task-{project}", project=project)

    with box.worker("sleep", "3600", project=project, points=f"{point}:kill") as worker:
        assert worker.died() == -signal.SIGKILL

    assert box.is_leased(node) is (point == "claim.answered")
    for listed in box.person.leases(project=project).leases:
        assert listed.expires_in_ms <= HORIZON_MS_MAX
    box.take_up()
    record = only_run(box, project)
    assert record.is_settled
    assert (record.node_id, record.terminal_state) == (None, Terminal.FAILED)
    assert box.offered(project) == ([] if point == "claim.answered" else [node])


@at(LAUNCH)
def test_a_launch_that_died_gives_its_item_back_at_the_next_start(box: Fleet, point: str) -> None:
    project = slug("launch", point)
    node = box.add_item(f"task-{project}", project=project)

    run = killed(box, node, "sleep 3600", point)

    box.take_up()
    record = run.read()
    assert (record.is_settled, record.state) == (True, State.VANISHED)
    assert not Crew(record.run_id).look()
    assert box.offered(project) == [node]
    assert len(git.worktrees(box.repo.checkout)) == 1


def test_a_run_outlives_its_worker(box: Fleet) -> None:
    node = box.add_item("task-outlives", project="outlives")
    ready, go = box.fifo("outlives-ready"), box.fifo("outlives-go")

    with box.worker("sh", "-c", f"echo > {ready}; read _ < {go}; {REPORT}", project="outlives") as worker:
        ready.read_text()
        worker.kill()
    assert box.take_up() == [], "what somebody sees to is nobody else's"
    assert box.offered("outlives") == []
    go.write_text("\n")
    box.wait_overseen("outlives")

    record = only_run(box, "outlives")
    assert (record.state, record.terminal_state) == (State.DONE, Terminal.REPORTED)
    assert box.related(node) == [record.report_node_id]
    assert not box.is_leased(node)


def test_a_run_that_lost_worker_and_supervisor_is_stopped_and_settled_by_the_next_start(box: Fleet) -> None:
    node = box.add_item("task-orphan", project="orphan")
    ready = box.fifo("orphan-ready")
    script = f"{REPORT}; echo > {ready}; exec sleep 3600"

    with box.supervised(node, box.order("sh", "-c", script)) as supervised:
        ready.read_text()
    assert not supervised.run.is_held(), "the child holds the lock"
    orphans = Crew(supervised.run.read().run_id).look()
    assert orphans

    box.take_up()

    assert not any(map(is_alive, orphans))
    assert box.related(node)
    assert not box.is_leased(node)
