"""`baton sidecar` without a server: the real one in its own process, and on a port for its child (D37)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from batonpass.cli.exits import Exit
from batonpass.testing.commands import BATON, Baton

Spawn = Callable[..., subprocess.CompletedProcess[str]]
TASK = ("--record", "incidents/inc-1", "--field", "remediation")
CLASS = """
name: incidents
fields:
  status: { type: register }
  remediation: { type: task, lease: 300s }
roles:
  team:
    identities: ["agent:*", "person:*"]
    read: ["*"]
    write: [status]
    claim: [remediation]
"""


@pytest.fixture
def local(baton: Baton, tmp_path: Path) -> Baton:
    """Commands over this machine's own database, which has the class."""
    path = tmp_path / "incidents.yaml"
    path.write_text(CLASS)
    baton.ok("class", "apply", str(path))
    return baton


def test_the_child_speaks_to_the_same_server_on_this_machine(local: Baton, spawn: Spawn) -> None:
    script = f'echo "$BATON_SERVER"; {BATON} whoami --json >&2; echo \'{{"put": {{"field": "status", "value": 1}}}}\''

    done = spawn("sidecar", *TASK, "--json", "--", "sh", "-c", script)

    assert done.returncode == Exit.OK, done
    assert "http://127.0.0.1:" in done.stderr
    me = json.loads(next(line for line in done.stderr.splitlines() if line.startswith("{")))
    assert me["agent"].startswith("agent-")
    assert me["run"] == {"resource": "record:incidents/inc-1#remediation", "epoch": 1}
    assert json.loads(done.stdout)["written"] == 1
    assert local.json("record", "get", "incidents/inc-1")["fields"]["status"]["author"] == f"agent:{me['agent']}"


def test_a_lapse_is_waited_for_and_its_task_taken_over(local: Baton, spawn: Spawn) -> None:
    claimed = local.json("record", "claim", "incidents/inc-1", "remediation", "--lease", "1s")

    done = spawn("sidecar", *TASK, "--wait", "20s", "--", "sh", "-c", "cat > given.json")

    assert done.returncode == Exit.OK, done
    given = json.loads(Path("given.json").read_text())
    assert (given["took_over_from"], given["epoch"]) == (claimed["owner"], 2)
    (taken,) = [
        entry
        for entry in local.json("record", "history", "incidents/inc-1")["entries"]
        if entry.get("took_over_from") == claimed["owner"]
    ]
    assert taken["author"] == given["owner"]


def test_nobody_reading_its_words_is_no_reason_to_stop(local: Baton) -> None:
    """The child prints more than a pipe holds into a standard error that is closed at once."""
    script = """
for _ in range(300):
    print("y" * 999)
print('{"put": {"field": "status", "value": "done"}}')
"""
    sidecar = [str(BATON), "sidecar", *TASK, "--", sys.executable, "-c", script]
    running = subprocess.Popen(sidecar, stderr=subprocess.PIPE)
    assert running.stderr is not None

    running.stderr.close()

    assert running.wait(60) == Exit.OK
    assert local.json("record", "get", "incidents/inc-1")["fields"]["status"]["value"] == "done"
