"""Runs that are outlived by what they started, or lose their lease: no late word counts, and nothing is lost.

What does not depend on the database is shown on SQLite.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from batonpass.client.client import Client
from batonpass.core.errors import LeaseLost, NotFound, Unauthorized
from batonpass.core.ids import NodeId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import State
from batonpass.testing.fleet import SESSION, Fleet, Supervised, until
from batonpass.testing.points import wait_paused
from batonpass.wire.policy import PolicyRequest
from batonpass.worker.crew import Crew
from batonpass.worker.record import Stopped

TTL_MS: Final = 3_000
"""Short enough to lapse while a test looks on, long enough for a supervisor to start on a busy machine."""
SAY: Final = "echo As far as I came. > $BATON_REPORT"

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
WRITE_ALL_THE_TIME: Final = """
import json, os, sys, urllib.request
n, count = 0, sys.argv[1]
while True:
    n += 1
    entry = dict(id=f"art-noisy-{n}", type="artifact", title="x", summary="x", date="2026-11-30")
    head = {"Authorization": "Bearer " + os.environ["BATON_TOKEN"], "Content-Type": "application/json"}
    body = json.dumps({"nodes": [entry]}).encode()
    urllib.request.urlopen(urllib.request.Request(os.environ["BATON_SERVER"] + "/v1/nodes", body, head)).read()
    open(count, "w").write(str(n))
"""

on_sqlite = pytest.mark.parametrize("box", ["sqlite"], indirect=True)


@contextmanager
def paused_at(box: Fleet, point: str, node: NodeId, *command: str) -> Iterator[tuple[Supervised, Callable[[], None]]]:
    """Run a supervisor up to `point`; the block gets it, and what lets it go on and waits for its end."""
    door = box.folder / f"{node}-paused"
    with box.supervised(node, box.order(*command), points=f"{point}:pause={door}") as supervised:
        wait_paused(door)

        def go_on() -> None:
            door.unlink()
            supervised.ended()

        yield supervised, go_on


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


@on_sqlite
def test_a_child_that_resolves_its_item_is_resolved_and_keeps_the_lease_to_lapse(box: Fleet) -> None:
    node = box.add_item("task-resolving", project="resolving")
    script = box.folder / "resolve.py"
    script.write_text(RESOLVE)

    with box.supervised(node, box.order("python3", str(script))) as supervised:
        supervised.ended()

    record = supervised.run.read()
    assert (record.terminal_state, record.terminal_enforced) == (Terminal.RESOLVED, True)
    assert (record.resolved_by, record.resolved_edge) == (f"art-done-{node}", "resolves")
    assert record.report_node_id is None
    assert box.person.node(NodeId(f"art-done-{node}")).frontmatter["authored_by_agent"] == box.agent_id


@pytest.mark.parametrize(
    "box, point",
    [
        *[("sqlite", point) for point in ("settle.revoked", "settle.read", "report.filed", "released")],
        ("postgres", "settle.revoked"),
    ],
    indirect=["box"],
)
def test_h8_nothing_is_written_under_the_runs_token_once_it_is_revoked(box: Fleet, point: str) -> None:
    project = f"stray-{point.replace('.', '-')}"
    node = box.add_item(f"task-{project}", project=project)
    secret = box.folder / f"{project}.token"

    script = f"echo $BATON_TOKEN > {secret}; {SAY}"
    with paused_at(box, point, node, "sh", "-c", script) as (supervised, go_on):
        with Client(box.server.url, secret.read_text().strip()) as stray:
            with pytest.raises((Unauthorized, LeaseLost)):
                stray.put_nodes([resolver(node, f"art-{project}")])
            with pytest.raises((Unauthorized, LeaseLost)):
                stray.set_status(node, "active")
        go_on()

    with pytest.raises(NotFound):
        box.person.node(NodeId(f"art-{project}"))
    record = supervised.run.read()
    assert record.terminal_state is Terminal.REPORTED
    assert box.related(node) == [record.report_node_id]


def test_h8_a_stray_that_writes_all_the_time_has_no_say_after_the_verdict(box: Fleet) -> None:
    node = box.add_item("task-noisy", project="noisy")
    noisy = box.folder / "noisy.py"
    noisy.write_text(WRITE_ALL_THE_TIME)
    count = box.folder / "noisy.count"

    script = f"setsid python3 {noisy} {count} & until grep -q '^[3-9]' {count}; do sleep 0.02; done 2>/dev/null; {SAY}"
    with paused_at(box, "settle.revoked", node, "sh", "-c", script) as (supervised, go_on):
        written = written_by(box, "art-noisy-")
        assert written
        go_on()

    assert written_by(box, "art-noisy-") == written
    assert not Crew(supervised.run.read().run_id).look()
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


@on_sqlite
def test_the_lease_shows_which_session_is_at_work_once_the_program_has_said_it(box: Fleet) -> None:
    node = box.add_item("task-session", project="session")
    door = box.folder / "session-paused"

    with box.supervised(node, box.session_order(SAY), points=f"session.bound:pause={door}") as supervised:
        wait_paused(door)
        lease = box.person.node(node).lease
        door.unlink()
        supervised.ended()

    assert lease is not None
    assert lease.session == SESSION
    assert supervised.run.read().session_id == SESSION


# A lease that goes while the child is at work (case 28)


@contextmanager
def at_work(box: Fleet, project: str) -> Iterator[tuple[Supervised, NodeId, Callable[[], None]]]:
    """Run a supervisor whose child reports and waits; yield it, the item, and what lets the child end."""
    box.person.put_policy(project, PolicyRequest(claim_ttl_ms=TTL_MS))
    node = box.add_item(f"task-{project}", project=project)
    ready, go = box.fifo(f"{project}-ready"), box.fifo(f"{project}-go")
    with box.supervised(node, box.order("sh", "-c", f"{SAY}; echo > {ready}; cat {go}")) as supervised:
        ready.read_text()
        yield supervised, node, lambda: _write(go)


def _write(go: Path) -> None:
    go.write_text("")


@on_sqlite
def test_a_run_outlives_many_times_the_horizon_of_its_lease(box: Fleet) -> None:
    with at_work(box, "long") as (supervised, node, let_end):
        first = box.person.node(node).lease
        assert first is not None
        until(lambda: _expires(box, node) > first.expires + TTL_MS, "the lease is renewed again and again")
        let_end()
        supervised.ended()

    record = supervised.run.read()
    assert (record.state, record.epoch, record.lease_released) == (State.DONE, 1, True)


def _expires(box: Fleet, node: NodeId) -> int:
    lease = box.person.node(node).lease
    return 0 if lease is None else lease.expires


@on_sqlite
def test_a_lease_that_is_taken_away_stops_the_child_and_nothing_is_handed_back(box: Fleet) -> None:
    with at_work(box, "robbed") as (supervised, node, _):
        box.person.take(node, reason="I do it myself")
        supervised.ended()

    record = supervised.run.read()
    assert (record.state, record.stopped_for, record.lease_lost) == (State.FAILED, Stopped.LEASE_LOST, True)
    assert record.termination_reason is not None
    assert "person-ada-admin" in record.termination_reason
    assert box.related(node) == [record.report_node_id]
    lease = box.person.node(node).lease
    assert lease is not None
    assert lease.by == "person-ada-admin"
    assert not Crew(record.run_id).look()


# Secrets


@on_sqlite
def test_what_the_child_says_about_itself_is_in_no_log_of_the_worker(box: Fleet) -> None:
    box.add_item("task-secret", project="secret")

    with box.worker("sh", "-c", "echo $BATON_TOKEN", project="secret") as worker:
        said = worker.said()

    ((_, record),) = box.runs("secret")
    assert "bat_agt_" not in said
    assert record.report_node_id is not None
    filed = box.person.node(record.report_node_id)
    assert "bat_agt_[redacted]" in filed.body
    assert "bat_agt_" not in json.dumps(filed.frontmatter).replace("bat_agt_[redacted]", "")


@on_sqlite
def test_h33_a_child_finds_no_other_credential_and_reaches_the_graph_by_the_command_on_its_path(box: Fleet) -> None:
    node = box.add_item("task-reach", project="reach")
    told = box.folder / "reach.told"
    script = (
        f"exec > {told} 2> /dev/null; ls -A $BATON_HOME; command -v baton; baton whoami --json; unset BATON_TOKEN;"
        " baton whoami --json; echo status $?"
    )

    with box.supervised(node, box.order("sh", "-c", script)) as supervised:
        supervised.ended()

    run = supervised.run
    where, mine, refused, status = told.read_text().splitlines()
    assert where == str(run.path / "bin/baton")
    assert json.loads(mine)["agent"] == box.agent_id
    assert json.loads(mine)["run"]["resource"] == node
    assert json.loads(refused)["error"]["code"] == "unauthorized"
    assert status == "status 6"
    secrets = [path for path in run.path.rglob("*") if path.is_file() and box.agent_token.encode() in path.read_bytes()]
    assert secrets == []
