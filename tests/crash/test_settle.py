"""Supervisor and worker killed with -9 at every named point of a run: no report is lost, nothing released without it.

Both are armed alike. A supervisor that is killed leaves its run to its worker,
which settles it at once, unless it comes to the very same point and is killed
there in its turn; then the next start does.
"""

from __future__ import annotations

import os
import signal
from typing import Final

import pytest

from batonpass.core.outcome import Terminal
from batonpass.testing.fleet import Fleet
from batonpass.worker import git, proc
from batonpass.worker.journal import State

REPORT: Final = "echo Half of it works. > $BATON_REPORT"
DECLINE: Final = "echo DECLINED: done already > $BATON_REPORT"

SETTLE: Final = (
    "child.exited pipe.drained settle.locked settle.stopped final.read spool.tmp spool.renamed settle.revoked"
    " settle.read report.sent report.filed release.sent released record.settled"
).split()
SETTLE_A_DECLINE: Final = "settle.read report.sent finding.filed readiness.cleared release.sent released".split()
CLAIM: Final = "record.written claim.nonce_written claim.sent claim.answered".split()
ONLY_SUPERVISORS: Final = (
    "lease.taken mint.answered token.minted worktree.added child.started child.exited pipe.drained"
).split()
"""Points that nobody passes who takes up what was left."""
LAUNCH: Final = "lease.taken mint.answered token.minted worktree.added child.started".split()
HORIZON_MS_MAX: Final = 60_000
"""Of a grant nobody has renewed yet (D15)."""


def slug(kind: str, point: str) -> str:
    """Return a project's name for one test of one point."""
    return f"{kind}-{point.translate(str.maketrans('._', '--'))}"


def killed(box: Fleet, project: str, script: str, point: str) -> None:
    """Run a worker whose supervisor is killed at `point`, and that is killed if it comes there as well."""
    with box.worker("sh", "-c", script, project=project, points=f"{point}:kill") as worker:
        said = worker.said()
    assert "which was left" in said or point in {*CLAIM, "record.settled"}, "nobody was killed"
    assert not [run for run, _ in box.runs(project) if run.is_held()], "its lock outlived it"


@pytest.mark.parametrize("point", SETTLE)
def test_a_report_survives_its_worker_at_any_point_and_is_filed_before_the_lease_goes(box: Fleet, point: str) -> None:
    project = slug("report", point)
    node = box.add_item(f"task-{project}", project=project)

    killed(box, project, REPORT, point)

    assert box.is_leased(node) or box.related(node), "released without its report"
    box.start_again(project)
    (_, record), *_ = box.runs(project)
    assert record.is_settled
    assert (record.terminal_state, record.terminal_enforced) == (Terminal.REPORTED, True)
    assert box.related(node) == [record.report_node_id]
    assert "Half of it works." in box.person.node(box.related(node)[0]).body
    assert not box.is_leased(node)
    assert record.state is (State.VANISHED if point in ONLY_SUPERVISORS else State.DONE)


@pytest.mark.parametrize("point", SETTLE_A_DECLINE)
def test_a_decline_survives_its_worker_at_any_point(box: Fleet, point: str) -> None:
    project = slug("decline", point)
    node = box.add_item(f"task-{project}", project=project)

    killed(box, project, DECLINE, point)

    assert box.is_leased(node) or box.related(node), "released without its finding"
    said = box.start_again(project)
    ((_, record),) = box.runs(project)
    assert (record.terminal_state, record.declined_reason) == (Terminal.DECLINED, "done already")
    assert box.related(node) == [record.finding_node_id]
    assert not box.is_leased(node)
    assert box.person.node(node).frontmatter.get("readiness") is None
    unanswered = f"it was declined and nobody has answered that: {record.finding_node_id}"
    assert f"{node}: left alone, {unanswered}" in said


@pytest.mark.parametrize("point", CLAIM)
def test_a_worker_that_died_around_its_claim_costs_the_item_a_minute_at_most(box: Fleet, point: str) -> None:
    project = slug("claim", point)
    node = box.add_item(f"task-{project}", project=project)

    killed(box, project, "sleep 3600", point)

    assert box.is_leased(node) is (point == "claim.answered")
    for listed in box.person.leases(project=project).leases:
        assert listed.expires_in_ms <= HORIZON_MS_MAX
    said = box.start_again(project)
    (_, record), *later = box.runs(project)
    assert record.is_settled
    assert (record.node_id, record.terminal_state) == (None, Terminal.FAILED)
    assert len(later) == (0 if point == "claim.answered" else 1), said


@pytest.mark.parametrize("point", LAUNCH)
def test_a_launch_that_died_gives_its_item_back_at_the_next_start(box: Fleet, point: str) -> None:
    project = slug("launch", point)
    node = box.add_item(f"task-{project}", project=project)

    killed(box, project, "sleep 3600", point)

    assert not box.is_leased(node)
    box.start_again(project)
    (_, record), (_, second) = box.runs(project)
    assert record.is_settled
    assert record.state is State.VANISHED
    assert not proc.Crew(record.run_id).look()
    assert second.node_id == node
    assert not box.is_leased(node)
    assert len(git.worktrees(box.repo.checkout)) == 1


def test_a_run_outlives_its_worker(box: Fleet) -> None:
    node = box.add_item("task-outlives", project="outlives")
    ready, go = box.folder / "outlives-ready", box.folder / "outlives-go"
    os.mkfifo(ready)
    os.mkfifo(go)

    with box.worker("sh", "-c", f"echo > {ready}; read _ < {go}; {REPORT}", project="outlives") as worker:
        ready.read_text()
        worker.kill()
    ready.unlink()
    assert box.start_again("outlives") == [
        f"{node}: left alone, it is being worked on already",
        "there is nothing to take",
    ]
    go.write_text("\n")
    box.wait_overseen("outlives")

    ((_, record),) = box.runs("outlives")
    assert (record.state, record.terminal_state) == (State.DONE, Terminal.REPORTED)
    assert box.related(node) == [record.report_node_id]
    assert not box.is_leased(node)


def test_a_run_that_lost_worker_and_supervisor_is_stopped_and_settled_by_the_next_start(box: Fleet) -> None:
    node = box.add_item("task-orphan", project="orphan")
    ready = box.folder / "orphan-ready"
    os.mkfifo(ready)
    script = f"{REPORT}; echo > {ready}; exec sleep 3600"

    with box.worker("sh", "-c", script, project="orphan") as worker:
        ready.read_text()
        worker.kill()
    ready.unlink()
    ((run, record),) = box.runs("orphan")
    assert record.runner is not None
    os.kill(record.runner.pid, signal.SIGKILL)
    box.wait_overseen("orphan")
    assert not run.is_held(), "the child holds the lock"
    orphans = proc.Crew(record.run_id).look()
    assert orphans

    box.start_again("orphan")

    assert not any(map(proc.is_alive, orphans))
    assert box.related(node)
    assert not box.is_leased(node)
