"""A harness that only the home's `config.json` describes: run by a real supervisor, as any of ours."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from batonpass.testing.commands import Baton
from batonpass.testing.repos import make_repo, person_environment

PRINTS = """#!/bin/sh
cat >prompt.txt
echo '{"type": "start", "id": "s-1"}'
echo '{"type": "end", "said": "It was looked at."}'
"""


def test_a_program_that_the_home_describes_is_run_and_its_report_is_what_it_said_last(
    baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "demo", person_environment(Path(os.environ["HOME"])))
    monkeypatch.chdir(repo.folder)
    program = tmp_path / "own-agent"
    program.write_text(PRINTS)
    program.chmod(0o700)
    described = {"command": str(program), "args": [], "report": {"from": "end", "text": "said"}}
    node = baton.task("a")
    baton.ok("ready", node)
    (baton.home / "config.json").write_text(json.dumps({"dispatch": {"harness": {"own": described}}}))

    baton.ok("dispatch", node, "--harness", "own", "--wait")

    (run,) = baton.json("runs")["runs"]
    assert (run["harness"], run["state"], run["terminal_state"]) == ("own", "done", "reported")
    assert baton.ok("runs", "report", run["run_id"]).out == "It was looked at.\n"
    assert f"`{node}`" in (Path(run["worktree"]) / "prompt.txt").read_text()
