"""`baton work --once` in local mode: a real repository, a real child, verdicts read back from the graph."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from batonpass.cli import work
from batonpass.cli.exits import Exit
from batonpass.core.ids import AgentId, HolderId, NodeId, RunId
from batonpass.core.runs import State
from batonpass.testing.commands import BATON, Baton
from batonpass.testing.repos import make_repo, person_environment
from batonpass.worker.git import Sha
from batonpass.worker.record import RunRecord, Stopped

Spawn = Callable[..., subprocess.CompletedProcess[str]]

RESOLVES = """
import pathlib, subprocess, sys
prompt = sys.stdin.read()
pathlib.Path("work.txt").write_text(prompt)
subprocess.run(["git", "add", "work.txt"], check=True)
subprocess.run(["git", "commit", "-q", "-m", "Work"], check=True)
baton = pathlib.Path(sys.executable).with_name("baton")
resolver = ["--id", "art-done", "--type", "artifact", "--link", "resolves:task-a"]
subprocess.run([baton, "add", "Done", *resolver], check=True)
"""


@pytest.fixture
def repository(baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout the command is started in, and one item that is ready."""
    repo = make_repo(tmp_path / "repository", person_environment(Path(os.environ["HOME"])))
    monkeypatch.chdir(repo.folder)
    baton.task("a", "--ready")
    return repo.folder


def test_a_run_that_resolves_its_item_reads_resolved(repository: Path, baton: Baton, spawn: Spawn) -> None:
    done = spawn("work", "--once", "--project", "demo", "--", sys.executable, "-c", RESOLVES)

    assert (done.returncode, done.stderr) == (Exit.OK, "")
    assert "task-a: resolved, by art-done" in done.stdout
    branch = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname:short)", "refs/heads/baton"],
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert branch.startswith("baton/task-a-")
    prompt = subprocess.run(
        ["git", "show", f"{branch}:work.txt"], cwd=repository, capture_output=True, text=True, check=True
    ).stdout
    assert "Work on `task-a`" in prompt
    left = [path.name for path in (baton.home / "worktrees" / "repository").iterdir()]
    assert left == [".trash"], "a clean worktree goes"
    assert baton.json("queue")["items"] == []


def test_a_run_that_only_speaks_is_reported_and_its_item_comes_back(
    repository: Path, baton: Baton, spawn: Spawn
) -> None:
    del repository
    done = spawn("work", "--once", "--json", "--", "echo", "Half of it is done.")

    assert done.returncode == Exit.OK
    (item,) = baton.json("queue")["items"]
    assert item["id"] == "task-a"
    assert "lease_state" not in item
    assert (
        "Half of it is done."
        in baton.ok("list", "--type", "artifact").out
        + baton.ok("show", baton.json("list", "--type", "artifact")["nodes"][0]["id"]).out
    )
    assert "task-a: reported" in done.stderr


def test_an_empty_queue_is_no_failure(repository: Path, baton: Baton, spawn: Spawn) -> None:
    del repository
    baton.ok("ready", "task-a", "--needs-input")

    done = spawn("work", "--once", "--json", "--", "true")

    assert (done.returncode, done.stdout) == (Exit.OK, '{"run": null, "count": 0, "runs": []}\n')
    assert done.stderr == "task-a: left alone, nobody has made it ready for an agent\nthere is nothing to take\n"


@pytest.mark.parametrize(
    "argv, code, words",
    [
        (["work", "--once", "--concurrency", "1001", "--", "true"], Exit.USAGE, "1000"),
        (["work", "--once", "--interval", "0.5s", "--", "true"], Exit.USAGE, "--interval: 0.5 s is not between 1 s"),
        (["work", "--once", "--retry-after", "31d", "--", "true"], Exit.USAGE, "--retry-after"),
        (["work", "--once", "--harness", "nobody"], Exit.FAILED, "no harness 'nobody'; known are claude-code, codex"),
        (["work", "--once", "--harness", "codex", "--", "true"], Exit.USAGE, "neither --harness nor --model"),
        (["work", "--once", "--run-max", "200h", "--", "true"], Exit.USAGE, "--run-max: 720000 s is not"),
        (["work", "--accept", "readdy", "--", "true"], Exit.USAGE, "--accept: 'readdy' is not a policy; it is one of"),
        (["work", "--once", "--", "no-such-command-here"], Exit.FAILED, "no-such-command-here"),
        (["work", "--once", "--base", "no-such-branch", "--", "true"], Exit.FAILED, "no-such-branch"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_claimed(  # noqa: PLR0917 — fixtures and a table
    repository: Path, baton: Baton, argv: list[str], code: Exit, words: str
) -> None:
    del repository
    ran = baton(*argv)

    assert ran.code == code
    assert words in ran.err
    assert baton.json("leases")["leases"] == []


def test_a_folder_that_is_no_checkout_is_refused(baton: Baton) -> None:
    baton.task("a", "--ready")

    ran = baton("work", "--once", "--", "true")

    assert ran.code == Exit.FAILED
    assert "not inside a git checkout" in ran.err


# What a person hears is no part of the work


@pytest.mark.parametrize("output", ["| true", "> /dev/full", ">&-", ">&- 2>&-"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_run_goes_on_when_nobody_can_hear_of_it(repository: Path, baton: Baton, output: str) -> None:
    """The child works on until its worker has lost its reader; the shell's status is the worker's own."""
    code = repository.parent / "code"
    worker = f"{BATON} work --once -- sh -c 'sleep 0.2; echo Half of it is done.'"
    subprocess.run(["sh", "-c", f"{{ {worker}; echo $? > {code}; }} {output}"], check=False, timeout=60)

    assert code.read_text() == "0\n"
    assert baton.json("leases")["leases"] == []
    (artifact,) = baton.json("list", "--type", "artifact")["nodes"]
    assert "Half of it is done." in baton.ok("show", artifact["id"]).out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_record_that_no_program_could_read_is_a_failure(repository: Path, baton: Baton) -> None:
    del repository
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [BATON, "work", "--once", "--json", "--", "echo", "Done."], stdout=full, check=False, timeout=60
        )

    assert ran.returncode == Exit.FAILED
    assert len(baton.json("list", "--type", "artifact")["nodes"]) == 1


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"contract_pending": False}, Exit.OK),
        ({"pending_for": "unavailable"}, Exit.UNREACHABLE),
        ({"pending_for": "internal"}, Exit.UNREACHABLE),
        ({}, Exit.UNREACHABLE),
        ({"pending_for": "unauthorized"}, Exit.NOT_ALLOWED),
        ({"pending_for": "forbidden"}, Exit.NOT_ALLOWED),
        ({"state": State.FAILED_LAUNCH, "contract_pending": False}, Exit.FAILED),
        ({"state": State.FAILED_LAUNCH, "stopped_for": Stopped.INTERRUPTED}, Exit.INTERRUPTED),
    ],
)
def test_a_run_ends_the_command_as_far_as_it_could_be_settled(  # noqa: PLR0917 — fixtures and a table
    repository: Path, baton: Baton, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], code: Exit
) -> None:
    record = RunRecord(
        run_id=RunId("0b101010-1234-4abc-8def-0123456789ab"),
        node_id=NodeId("task-a"),
        name="task-a",
        harness="command",
        state=State.DONE,
        cwd=str(repository),
        created_at="2026-11-30T12:00:00.000+00:00",
        server="http://baton.test",
        agent=AgentId(HolderId("agent-mill")),
        dispatch="0b101010",
        repository=str(repository),
        base=Sha("a" * 40),
    )
    monkeypatch.setattr(work, "run", lambda shift: shift.own.append(replace(record, **changes)))

    assert baton("work", "--once", "--", "true").code == code


# What is in force, and what is known (cases 172 and 174)


@pytest.mark.parametrize(
    "flag, variable, configured, place",
    [
        ("readdy", None, None, "--accept: 'readdy'"),
        (None, "OPEN", None, "BATON_WORK_ACCEPT: 'OPEN'"),
        (None, " ready ", None, "BATON_WORK_ACCEPT: ' ready '"),
        (None, None, ["ready"], "config.json: work.accept:"),
    ],
)
def test_an_unknown_policy_refuses_to_start_and_names_its_place(  # noqa: PLR0917 — fixtures and a table
    baton: Baton,
    monkeypatch: pytest.MonkeyPatch,
    flag: str | None,
    variable: str | None,
    configured: object,
    place: str,
) -> None:
    if variable is not None:
        monkeypatch.setenv("BATON_WORK_ACCEPT", variable)
    if configured is not None:
        baton.home.mkdir(exist_ok=True)
        (baton.home / "config.json").write_text(json.dumps({"work": {"accept": configured}}))

    ran = baton("work", *(["--accept", flag] if flag else []), "--print", "--", "true")

    assert ran.code == Exit.USAGE
    assert place in ran.err


def test_print_shows_each_setting_with_its_source_and_what_would_be_taken_and_does_nothing(
    repository: Path, baton: Baton
) -> None:
    (repository / ".baton.json").write_text('{"work": {"concurrency": 3}, "dispatch": {"bin": {"codex": "./evil"}}}')
    baton.task("b")

    ran = baton("work", "--print", "--json", "--accept", "ready", "--", "true")

    assert ran.code == Exit.OK
    assert "dispatch.bin is this machine's to say" in ran.err
    values, outlook = ran.json["values"], ran.json["outlook"]
    assert values["accept"] == {"value": "ready", "source": "--accept"}
    assert values["concurrency"] == {"value": 3, "source": str(repository / ".baton.json")}
    assert values["run max"] == {"value": "86400 s", "source": "default"}
    assert (outlook["known"], outlook["would_take"]) == (True, ["task-a"])
    assert [(one["id"], one["kind"]) for one in outlook["skipped"]] == [("task-b", "policy")]
    assert baton.json("leases")["leases"] == []
    assert not (baton.home / "work").exists()
    assert not (baton.home / "runs").exists()


@pytest.mark.parametrize("what", ["--print", "--status"])
@pytest.mark.parametrize("missing", ["server", "git", "harness"])
def test_what_is_not_known_is_never_nothing_to_do(  # noqa: PLR0917 — fixtures and a table
    repository: Path, baton: Baton, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, what: str, missing: str
) -> None:
    del repository
    command = ["--", "true"]
    if missing == "server":
        monkeypatch.setenv("BATON_SERVER", "http://127.0.0.1:9")
        monkeypatch.setenv("BATON_TOKEN", "bat_pat_x")
    elif missing == "git":
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "true").symlink_to("/bin/true")
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    else:
        command = []
        monkeypatch.setenv("PATH", "/nonexistent")

    ran = baton("work", what, *command)

    assert ran.code == Exit.OK, ran
    assert "to take: unknown because" in ran.out
    assert "nothing to take" not in ran.out
    assert "would take" not in ran.out


def test_status_shows_a_worker_that_is_gone_and_what_it_left_alone(repository: Path, baton: Baton) -> None:
    del repository
    baton.task("b")
    assert baton("work", "--max", "1", "--", "false").code == Exit.OK

    ran = baton("work", "--status", "--json", "--", "true")

    assert ran.json["count"] == 1
    (worker,) = ran.json["workers"]
    assert (worker["state"], worker["stop_reason"], worker["dispatched"]) == ("stopped", "one run", 1)
    assert worker["outcomes"]["failed"] == 1
    assert [run["node_id"] for run in worker["recent"]] == ["task-a"]
    assert [one["id"] for one in ran.json["outlook"]["skipped"]] == ["task-b"]
    told = baton("work", "--status", "--", "true")
    assert "0 of 1 slots in use; 1 begun: 1 failed" in told.out
    assert "would take: task-a" in told.out
