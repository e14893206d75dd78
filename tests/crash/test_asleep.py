"""Supervisors that sleep past the end of their lease, at every named point (H17, H29).

A machine that is suspended stops a process anywhere, and wakes it when the
lease is long over. If nobody came, the run goes on as if nothing had been; if
somebody did, they are not disturbed, and what the run had to say is filed all
the same.
"""

from __future__ import annotations

from typing import Final

import pytest
from tests.crash.conftest import slug

from batonpass.core.ids import NodeId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import State
from batonpass.testing.fleet import Fleet, until
from batonpass.wire.policy import PolicyRequest
from batonpass.worker import git
from batonpass.worker.crew import Crew
from batonpass.worker.record import Stopped

REPORT: Final = "echo Half of it works. > $BATON_REPORT"
DECLINE: Final = "echo DECLINED: done already > $BATON_REPORT"

LAUNCH: Final = "lease.taken mint.answered token.minted worktree.added hook.done child.started session.bound".split()
AFTERWARDS: Final = (
    "child.exited pipe.drained settle.locked settle.stopped final.read spool.tmp spool.renamed settle.revoked"
    " settle.read report.sent report.filed release.sent released record.settled"
).split()
DECLINED: Final = "settle.read finding.filed readiness.cleared".split()
HANDED_BACK: Final = frozenset("release.sent released record.settled".split())
WHERE_IT_MATTERS: Final = "token.minted worktree.added child.started child.exited settle.read report.sent".split()
TTL_MS: Final = 3_000
"""Short enough to lapse while a test looks on, long enough for a supervisor to start on a busy machine."""


@pytest.mark.parametrize(
    "point, script",
    [*((point, REPORT) for point in LAUNCH + AFTERWARDS), *((point, DECLINE) for point in DECLINED)],
)
def test_h29_whoever_wakes_after_a_rival_came_files_its_word_and_touches_nothing_else(
    slow_box: Fleet, point: str, script: str
) -> None:
    box, project = slow_box, slug("declined" if script == DECLINE else "rival", point)
    node = box.add_item(f"task-{project}", project=project)

    with box.supervised(node, box.order_passing(point, script), points=f"{point}:stop") as supervised:
        supervised.frozen()
        readiness = box.person.node(node).frontmatter.get("readiness")
        box.lapse()
        rival = box.person.claim(node)
        supervised.resume()
        supervised.ended()

    record = supervised.run.read()
    assert record.is_settled
    lease = box.person.node(node).lease
    assert lease is not None
    assert (lease.by, lease.epoch) == (rival.lease.by, rival.lease.epoch)
    assert box.person.node(node).frontmatter.get("readiness") == readiness
    assert record.lease_released is (point in HANDED_BACK)
    ran = record.started_at is not None
    filed = [node for node in (record.report_node_id, record.finding_node_id) if node is not None]
    assert (len(filed), box.related(node)) == (int(ran), filed)
    assert ran or point in LAUNCH
    assert len(git.worktrees(box.repo.checkout)) == 1
    assert not Crew(record.run_id).look()


@pytest.mark.parametrize("point", WHERE_IT_MATTERS)
def test_h17_a_lapse_that_nobody_used_costs_a_run_nothing(slow_box: Fleet, point: str) -> None:
    box, project = slow_box, slug("alone", point)
    node = box.add_item(f"task-{project}", project=project)

    with box.supervised(node, box.order_passing(point, REPORT), points=f"{point}:stop") as supervised:
        supervised.frozen()
        box.lapse()
        supervised.resume()
        supervised.ended()

    record = supervised.run.read()
    assert (record.state, record.terminal_state) == (State.DONE, Terminal.REPORTED)
    assert (record.epoch, record.lease_released) == (1, True)
    assert box.related(node) == [record.report_node_id]
    assert box.offered(project) == [node]


@pytest.mark.parametrize("box, rival", [("sqlite", False), ("sqlite", True), ("postgres", True)], indirect=["box"])
def test_h17_a_supervisor_that_slept_while_its_child_worked_goes_on_unless_somebody_came(
    box: Fleet, *, rival: bool
) -> None:
    """Here the clocks move by themselves: the supervisor's own shows it how long it slept."""
    project = f"asleep-{rival}".lower()
    box.person.put_policy(project, PolicyRequest(claim_ttl_ms=TTL_MS))
    node = box.add_item(f"task-{project}", project=project)
    go = box.fifo(f"{project}-go")

    with box.supervised(node, box.order("sh", "-c", f"{REPORT}; cat {go}")) as supervised:
        until(lambda: supervised.run.read().state is State.RUNNING, "the run is on record")
        supervised.freeze()
        until(lambda: _is_lapsed(box, node), "the lease lapses")
        if rival:
            box.person.claim(node)
        supervised.resume()
        if not rival:
            until(lambda: not _is_lapsed(box, node), "the tenure is resumed")
            go.write_text("")
        supervised.ended()

    record = supervised.run.read()
    assert record.report_node_id is not None
    if rival:
        assert (record.stopped_for, record.lease_released) == (Stopped.LEASE_LOST, False)
        assert box.is_leased(node)
    else:
        assert (record.state, record.epoch, record.lease_released) == (State.DONE, 1, True)
        assert not box.is_leased(node)


def _is_lapsed(box: Fleet, node: NodeId) -> bool:
    return any(listed.lease.node_id == node for listed in box.person.leases(state="lapsed", limit=100).leases)
