"""Workers that sleep, lose their lease, or are outlived by what they started: nobody is disturbed, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from batonpass.client.client import Client
from batonpass.core.errors import LeaseLost, NotFound, Unauthorized
from batonpass.core.ids import NodeId
from batonpass.core.outcome import Terminal
from batonpass.testing.fleet import Fleet
from batonpass.testing.points import wait_paused
from batonpass.wire.policy import PolicyRequest
from batonpass.worker import proc
from batonpass.worker.journal import RunRecord, State, Stopped

WAIT_S_MAX: Final = 30.0
TTL_MS: Final = 1_500
"""Short enough to lapse while a test looks on, long enough to be renewed on a busy machine."""

RESOLVE: Final = """
import json, os, urllib.request
node = os.environ["BATON_NODE"]
entry = {"id": "art-done-" + node, "type": "artifact", "title": "Done", "summary": "Done", "date": "2026-11-30",
         "edges": [{"type": "resolves", "to": node}], "body": "Done."}
request = urllib.request.Request(
    os.environ["BATON_SERVER"] + "/v1/nodes", json.dumps({"nodes": [entry]}).encode(),
    {"Authorization": "Bearer " + os.environ["BATON_TOKEN"], "Content-Type": "application/json"})
print(urllib.request.urlopen(request).status)
"""


def until(found: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WAIT_S_MAX
    while not found():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_S_MAX} s"
        threading.Event().wait(0.02)


@contextmanager
def paused_at(box: Fleet, point: str, project: str, script: str) -> Iterator[Callable[[], None]]:
    """Run a worker up to `point`; what the block gets lets it go on and waits for its end."""
    door = box.folder / f"{project}-paused"
    with box.worker("sh", "-c", script, project=project, points=f"{point}:pause={door}") as worker:
        wait_paused(door)

        def go_on() -> None:
            door.unlink()
            assert worker.died() == 0

        yield go_on


def only_run(box: Fleet, project: str) -> RunRecord:
    ((_, record),) = box.runs(project)
    return record


def short_leases(box: Fleet, project: str) -> None:
    box.person.put_policy(project, PolicyRequest(claim_ttl_ms=TTL_MS))


def readiness(box: Fleet, node: NodeId) -> object:
    return box.person.node(node).frontmatter.get("readiness")


def resolver(target: NodeId, node: str) -> dict[str, object]:
    return {
        "id": node,
        "type": "artifact",
        "title": "Done",
        "summary": "Done",
        "date": "2026-11-30",
        "edges": [{"type": "resolves", "to": target}],
        "body": "Done.",
    }


# What the run's own token may do, and when no longer (H8)


def test_a_child_that_resolves_its_item_is_resolved_and_keeps_the_lease_to_lapse(box: Fleet) -> None:
    node = box.add_item("task-resolving", project="resolving")
    script = box.folder / "resolve.py"
    script.write_text(RESOLVE)

    with box.worker("python3", str(script), project="resolving") as worker:
        assert worker.died() == 0

    record = only_run(box, "resolving")
    assert (record.terminal_state, record.terminal_enforced) == (Terminal.RESOLVED, True)
    assert (record.resolved_by, record.resolved_edge) == (f"art-done-{node}", "resolves")
    assert record.report_node_id is None
    assert box.person.node(NodeId(f"art-done-{node}")).frontmatter["authored_by_agent"] == box.agent_id


@pytest.mark.parametrize("point", ["settle.revoked", "settle.read", "report.filed", "released"])
def test_nothing_is_written_under_the_runs_token_once_it_is_revoked(box: Fleet, point: str) -> None:
    project = f"stray-{point.replace('.', '-')}"
    node = box.add_item(f"task-{project}", project=project)
    secret = box.folder / f"{project}.token"

    with paused_at(box, point, project, f"echo $BATON_TOKEN > {secret}; echo As far as I came.") as go_on:
        with Client(box.server.url, secret.read_text().strip()) as stray:
            with pytest.raises((Unauthorized, LeaseLost)):
                stray.put_nodes([resolver(node, f"art-{project}")])
            with pytest.raises((Unauthorized, LeaseLost)):
                stray.set_status(node, "active")
        go_on()

    with pytest.raises(NotFound):
        box.person.node(NodeId(f"art-{project}"))
    record = only_run(box, project)
    assert record.terminal_state is Terminal.REPORTED
    assert box.related(node) == [record.report_node_id]


def test_a_stray_that_writes_all_the_time_has_no_say_after_the_verdict(box: Fleet) -> None:
    node = box.add_item("task-noisy", project="noisy")
    noisy = box.folder / "noisy.py"
    noisy.write_text(
        "import json, os, time, urllib.request as u\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1\n"
        "    entry = dict(id=f'art-noisy-{n}', type='artifact', title='x', summary='x', date='2026-11-30')\n"
        "    body = json.dumps({'nodes': [entry]}).encode()\n"
        "    head = {'Authorization': 'Bearer ' + os.environ['BATON_TOKEN'], 'Content-Type': 'application/json'}\n"
        "    u.urlopen(u.Request(os.environ['BATON_SERVER'] + '/v1/nodes', body, head)).read()\n"
        f"    open({str(box.folder / 'noisy.count')!r}, 'w').write(str(n))\n"
    )
    count = box.folder / "noisy.count"
    script = f"setsid python3 {noisy} & while ! grep -q 3 {count}; do sleep 0.05; done 2>/dev/null; echo Half of it."

    with paused_at(box, "settle.revoked", "noisy", script) as go_on:
        written = written_by(box, "art-noisy-")
        assert written
        go_on()

    assert written_by(box, "art-noisy-") == written
    assert not proc.Crew(only_run(box, "noisy").run_id).look()
    assert not box.is_leased(node)


def written_by(box: Fleet, prefix: str) -> set[str]:
    """Return the artifacts whose ids begin with `prefix`, from all pages: how many there are is up to the stray."""
    found: set[str] = set()
    after: str | None = prefix
    while after is not None:
        page = box.person.list_nodes(types=["artifact"], limit=500, after=after)
        found |= {node.id for node in page.nodes if node.id.startswith(prefix)}
        after = page.next
    return found


# A runner that slept (H29, case 12)


@pytest.mark.parametrize("point", ["child.exited", "settle.read", "finding.filed"])
def test_a_runner_that_wakes_after_a_takeover_files_its_word_and_touches_nothing_else(box: Fleet, point: str) -> None:
    project = f"woken-{point.replace('.', '-')}"
    node = box.add_item(f"task-{project}", project=project)

    with paused_at(box, point, project, "echo DECLINED: done already") as go_on:
        taken = box.person.take(node, reason="I do it myself")
        go_on()

    record = only_run(box, project)
    assert record.is_settled
    assert (record.readiness_cleared, record.lease_released) == (False, False)
    assert box.related(node) == [record.finding_node_id]
    assert readiness(box, node) == "agent"
    lease = box.person.node(node).lease
    assert lease is not None
    assert (lease.by, lease.epoch) == (taken.lease.by, taken.lease.epoch)


# A lease that goes while the child is at work (case 28, H17)


@contextmanager
def at_work(box: Fleet, project: str) -> Iterator[tuple[NodeId, Callable[[], None], Callable[[], None]]]:
    """Run a worker whose child reports and waits; yield the item, what lets the child end, and what awaits the end."""
    short_leases(box, project)
    node = box.add_item(f"task-{project}", project=project)
    ready, go = box.folder / f"{project}-ready", box.folder / f"{project}-go"
    os.mkfifo(ready)
    os.mkfifo(go)
    script = f"echo As far as I came. > $BATON_REPORT; echo > {ready}; cat {go}"
    with box.worker("sh", "-c", script, project=project) as worker:
        ready.read_text()
        yield node, lambda: _write(go), lambda: _ended(worker.died())


def _write(go: Path) -> None:
    go.write_text("")


def _ended(status: int) -> None:
    assert status == 0


def test_a_run_outlives_many_times_the_horizon_of_its_lease(box: Fleet) -> None:
    with at_work(box, "long") as (node, let_end, ended):
        first = box.person.node(node).lease
        assert first is not None
        until(lambda: _expires(box, node) > first.expires + 2 * TTL_MS, "the lease is renewed again and again")
        let_end()
        ended()

    record = only_run(box, "long")
    assert (record.state, record.epoch, record.lease_released) == (State.DONE, 1, True)


def _expires(box: Fleet, node: NodeId) -> int:
    lease = box.person.node(node).lease
    return 0 if lease is None else lease.expires


def test_a_lease_that_is_taken_away_stops_the_child_and_nothing_is_handed_back(box: Fleet) -> None:
    with at_work(box, "robbed") as (node, _, ended):
        box.person.take(node, reason="I do it myself")
        ended()

    record = only_run(box, "robbed")
    assert (record.state, record.stopped_for, record.lease_lost) == (State.FAILED, Stopped.LEASE_LOST, True)
    assert record.termination_reason is not None
    assert "person-ada-admin" in record.termination_reason
    assert box.related(node) == [record.report_node_id]
    lease = box.person.node(node).lease
    assert lease is not None
    assert lease.by == "person-ada-admin"
    assert not proc.Crew(record.run_id).look()


@pytest.mark.parametrize("rival", [False, True])
def test_a_supervisor_that_slept_past_its_horizon_goes_on_unless_somebody_came(box: Fleet, *, rival: bool) -> None:
    project = f"asleep-{rival}".lower()
    short_leases(box, project)
    node = box.add_item(f"task-{project}", project=project)
    ready, go = box.folder / f"{project}-ready", box.folder / f"{project}-go"
    os.mkfifo(ready)
    os.mkfifo(go)

    with box.worker("sh", "-c", f"echo As far as I came.; echo > {ready}; cat {go}", project=project) as worker:
        ready.read_text()
        until(lambda: only_run(box, project).state is State.RUNNING, "the run is on record")
        with asleep(only_run(box, project)):
            until(lambda: _is_lapsed(box, node), "the lease lapses")
            if rival:
                box.person.claim(node)
        if not rival:
            until(lambda: not _is_lapsed(box, node), "the tenure is resumed")
            go.write_text("")
        assert worker.died() == 0

    record = only_run(box, project)
    assert record.report_node_id is not None
    if rival:
        assert (record.stopped_for, record.lease_released) == (Stopped.LEASE_LOST, False)
        assert box.is_leased(node)
    else:
        assert (record.state, record.epoch, record.lease_released) == (State.DONE, 1, True)
        assert not box.is_leased(node)


@contextmanager
def asleep(record: RunRecord) -> Iterator[None]:
    """Freeze a run's supervisor for the block, as a suspended machine does."""
    assert record.runner is not None
    os.kill(record.runner.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(record.runner.pid, signal.SIGCONT)


def _is_lapsed(box: Fleet, node: NodeId) -> bool:
    return any(listed.lease.node_id == node for listed in box.person.leases(state="lapsed", limit=100).leases)


# Secrets


def test_what_the_child_says_about_itself_is_in_no_log_of_the_worker(box: Fleet) -> None:
    box.add_item("task-secret", project="secret")

    with box.worker("sh", "-c", "echo $BATON_TOKEN", project="secret") as worker:
        said = worker.said()

    record = only_run(box, "secret")
    assert "bat_agt_" not in said
    assert record.report_node_id is not None
    filed = box.person.node(record.report_node_id)
    assert "bat_agt_[redacted]" in filed.body
    assert "bat_agt_" not in json.dumps(filed.frontmatter).replace("bat_agt_[redacted]", "")


def test_a_child_finds_no_other_credential_and_reaches_the_graph_by_the_command_on_its_path(box: Fleet) -> None:
    node = box.add_item("task-reach", project="reach")
    told = box.folder / "reach.told"
    script = (
        f"exec > {told} 2> /dev/null; ls -A $BATON_HOME; command -v baton; baton whoami --json; unset BATON_TOKEN;"
        " baton whoami --json; echo status $?"
    )

    with box.worker("sh", "-c", script, project="reach") as worker:
        assert worker.died() == 0

    where, mine, refused, status = told.read_text().splitlines()
    ((run, _),) = box.runs("reach")
    assert where == str(run.path / "bin/baton")
    assert json.loads(mine)["agent"] == box.agent_id
    assert json.loads(mine)["run"]["resource"] == node
    assert json.loads(refused)["error"]["code"] == "unauthorized"
    assert status == "status 6"
    secrets = [path for path in run.path.rglob("*") if path.is_file() and box.agent_token.encode() in path.read_bytes()]
    assert secrets == []
