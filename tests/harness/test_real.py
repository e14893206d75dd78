"""Real agent programs at work, offline, with a scripted model: an item each, a refusal each, one stopped in the middle.

Through `baton work`: a supervisor's process, the adapter, the program, and
`baton` in the hands of its agent. The rest of the matrix is `just harness-all`;
docs/reference/harnesses-tried.md has what it saw.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from batonpass.testing import agents, live
from batonpass.testing.commands import BATON, Baton
from batonpass.testing.model.script import Fault, Run, Say
from batonpass.testing.modelserver import ModelServer, Script
from batonpass.testing.repos import Repo, make_repo, person_environment
from batonpass.worker.harness.base import Trouble

# The installation counts, too, where a test is the first to need a program.
pytestmark = pytest.mark.timeout(agents.INSTALL_S_MAX + agents.VERSION_S_MAX + 120)

RUN_S_MAX = 90.0
RESOLVE = 'baton add "What was asked for" --id art-done --type artifact --link "resolves:$BATON_NODE"'
GOOD = Script((Run(f"{live.WORK} && {RESOLVE}"), Say("It is made; nothing else was touched.")))

_PROGRAMS: dict[str, Path] = {}


@dataclass(frozen=True)
class World:
    """A person with a home, a repository, an item that is ready, and one agent program."""

    harness: str
    environ: dict[str, str]
    repo: Repo
    baton: Baton

    def work(self) -> dict[str, Any]:
        """Have a worker of this machine's own do the item, and return the record of its run."""
        options = ("--harness", self.harness, "--model", agents.MODELS[self.harness], "--run-max", f"{RUN_S_MAX:g}s")
        done = subprocess.run(
            [BATON, "work", "--once", "--json", *options],
            cwd=self.repo.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=2 * RUN_S_MAX,
            check=False,
        )
        assert done.returncode == 0, done
        record = json.loads(done.stdout)["run"]
        assert isinstance(record, dict)
        return record


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """The harness; the test is skipped where its program is not there and can't be installed."""
    named = str(request.param)
    try:
        # Before anything is made of the person's home: what is installed is kept in their cache.
        _PROGRAMS[named] = agents.install(named)
    except agents.NotInstalled as reason:
        pytest.skip(str(reason))
    return named


@pytest.fixture
def model() -> Iterator[ModelServer]:
    """The model; a test may give it another script."""
    with ModelServer(GOOD) as running:
        yield running


@pytest.fixture
def environ(name: str, model: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A person's variables, where the program asks `model`; the test's own process is that person, too."""
    home = tmp_path / "baton home"
    person_environment(tmp_path / "person")
    environ = {**agents.person(name, tmp_path / "person", model.url), "BATON_HOME": str(home)}
    for each in [each for each in os.environ if each.startswith(("BATON_", "GIT_", "XDG_"))]:
        monkeypatch.delenv(each)
    for each in ("HOME", "BATON_HOME"):
        monkeypatch.setenv(each, environ[each])
    return environ


@pytest.fixture
def world(name: str, environ: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> World:
    """The person's home, repository and program, and an item that is ready."""
    home = Path(environ["BATON_HOME"])
    baton = Baton(home, capsys.readouterr)
    baton.task("a", "--ready")
    (home / "config.json").write_text(json.dumps({"dispatch": {"bin": {name: str(_PROGRAMS[name])}}}))
    return World(name, environ, make_repo(tmp_path / "repository", environ), baton)


@pytest.mark.parametrize("name", ["codex", "claude-code", "opencode"], indirect=True)
def test_a_program_resolves_an_item_by_what_it_does_through_baton(world: World, model: ModelServer) -> None:
    record = world.work()

    assert (record["state"], record["termination_class"]) == ("done", "completed"), record
    assert (record["terminal_state"], record["resolved_by"]) == ("resolved", "art-done")
    assert (record["harness"], record["exit_code"], record["commits"]) == (world.harness, 0, 1)
    assert record["usage"]["output"] == 24
    assert record["session_id"]
    assert world.repo.git("log", "-1", "--format=%s by %an", record["branch"]) == f"{live.MESSAGE} by {record['agent']}"
    assert "task-a" in model.questions[0].asked.text
    assert "art-done" in model.questions[1].asked.text
    assert world.baton.json("queue")["items"] == []


@pytest.mark.parametrize(
    "name, fault, trouble",
    [
        ("codex", Fault.RATE_LIMIT, Trouble.RATE_LIMIT),
        ("claude-code", Fault.NO_CREDIT, Trouble.CREDIT),
        ("opencode", Fault.BAD_KEY, Trouble.AUTH),
    ],
    indirect=["name"],
)
def test_a_service_that_refuses_is_recognised_and_the_item_goes_back(
    world: World, model: ModelServer, fault: Fault, trouble: Trouble
) -> None:
    model.script = Script(GOOD.turns, fault)

    record = world.work()

    assert (record["termination_class"], record["failure"]) == ("environment", str(trouble)), record
    assert (record["terminal_state"], record["lease_released"]) == ("failed", True)
    assert "report_node_id" not in record
    assert [item["id"] for item in world.baton.json("queue")["items"]] == ["task-a"]


@pytest.mark.parametrize("name", ["codex"], indirect=True)
def test_a_program_that_is_stopped_in_the_middle_of_a_tool_call_leaves_nothing_running(
    name: str, tmp_path: Path
) -> None:
    script = Script((Run(live.STUCK),))

    seen = live.drive(name, tmp_path, script, seconds_max=RUN_S_MAX, stop=live.is_stuck)

    assert seen.was_stopped
    assert seen.leftover == 0
    assert seen.failure is not None
    assert seen.heard.final_text is None
