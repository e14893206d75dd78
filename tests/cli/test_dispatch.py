"""`baton dispatch` in local mode and against a server: a real repository, a real supervisor, a real child."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from batonpass.cli.exits import Exit
from batonpass.cli.local import serve_local
from batonpass.client.local import ADDRESS
from batonpass.core import points
from batonpass.core.ids import AgentId, HolderId, NodeId
from batonpass.core.runs import State
from batonpass.testing.commands import Baton
from batonpass.testing.repos import Repo, make_repo, person_environment
from batonpass.testing.runs import run_record
from batonpass.worker.journal import Journal, RunFolder
from batonpass.worker.record import RunRecord

Spawn = Callable[..., subprocess.CompletedProcess[str]]

RESOLVES = """
import pathlib, subprocess, sys
prompt = sys.stdin.read()
pathlib.Path("work.txt").write_text(prompt)
subprocess.run(["git", "add", "work.txt"], check=True)
subprocess.run(["git", "commit", "-q", "-m", "Work"], check=True)
resolver = ["--id", "art-done", "--type", "artifact", "--link", "resolves:task-a"]
subprocess.run(["baton", "add", "Done", *resolver], check=True)
"""


@pytest.fixture
def repo(baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    """The checkout of the project `demo`, in which the command is started, and one item that nobody made ready."""
    repo = make_repo(tmp_path / "demo", person_environment(Path(os.environ["HOME"])))
    monkeypatch.chdir(repo.folder)
    baton.task("a")
    return repo


def config(home: Path, **said: object) -> None:
    (home / "config.json").write_text(json.dumps(said))


def left_on_task_a(repo: Repo, **changes: Any) -> RunRecord:  # noqa: ANN401 — whichever fields a test is about
    """Return the record of a run on task-a that was sent for from this checkout, and not begun."""
    facts: dict[str, Any] = {
        "node_id": NodeId("task-a"),
        "name": "task-a",
        "state": State.LAUNCHING,
        "exit_code": None,
        "cwd": str(repo.folder),
        "server": ADDRESS,
        "repository": str(repo.folder),
        "base": repo.head(),
    }
    return run_record(**{**facts, **changes})


class Unchanged:
    """Holds while a block changes neither a row of the database, nor a file of the home, nor the repository."""

    def __init__(self, home: Path, repo: Repo) -> None:
        self._home, self._repo = home, repo
        self._before: object = None

    def _state(self) -> object:
        kept = [path for path in self._home.rglob("*") if not path.name.startswith(("baton.db", "home.lock"))]
        files = sorted((str(path), path.read_bytes() if path.is_file() else b"") for path in kept)
        with closing(sqlite3.connect(self._home / "baton.db")) as connection:
            rows = list(connection.iterdump())
        return files, rows, self._repo.git("for-each-ref"), self._repo.git("worktree", "list")

    def __enter__(self) -> None:
        self._before = self._state()

    def __exit__(self, *_: object) -> None:
        assert self._state() == self._before


@pytest.fixture
def unchanged(home: Path, repo: Repo) -> Unchanged:
    return Unchanged(home, repo)


def test_a_person_sends_a_run_to_an_item_and_waits_for_what_it_did(repo: Repo, baton: Baton, spawn: Spawn) -> None:
    sent = spawn("dispatch", "task-a", "--wait", "--task", "Mind the tests.", "--", sys.executable, "-c", RESOLVES)

    assert (sent.returncode, sent.stderr) == (Exit.OK, "")
    assert "task-a: resolved, by art-done" in sent.stdout
    (branch,) = [ref for ref in repo.refs() if "/baton/task-a-" in ref]
    prompt = repo.git("show", f"{branch}:work.txt")
    assert "Mind the tests." in prompt
    assert "# Contract" not in prompt
    assert baton.json("queue")["items"] == []


def test_a_run_goes_on_when_its_launcher_has_ended(repo: Repo, baton: Baton, spawn: Spawn) -> None:
    del repo
    sent = spawn("dispatch", "task-a", "--json", "--", "sh", "-c", "cat > /dev/null; echo Half of it.")

    assert sent.returncode == Exit.OK, sent
    run = json.loads(sent.stdout)["run"]
    assert run["node_id"] == "task-a"
    baton("runs", "log", run["run_id"], "--follow")
    baton("runs", "kill", run["run_id"])
    (listed,) = baton.json("runs", "list")["runs"]
    assert listed["terminal_state"] == "reported"


def test_print_shows_everything_and_changes_nothing(repo: Repo, baton: Baton, unchanged: Unchanged) -> None:
    with unchanged:
        shown = baton("dispatch", "task-a", "--contract", "--print", "--", "cat")

    assert shown.code == Exit.OK, shown
    assert f"checkout  {repo.folder} (by the folder you stand in)" in shown.out
    assert "Work on `task-a`" in shown.out
    assert "# Contract" in shown.out


def test_a_template_of_ones_own_is_the_prompt(repo: Repo, baton: Baton) -> None:
    (repo.folder / "mine.md").write_text("{{id}} {{status}} {{summary}} {{slug}}: {{task}}")
    baton.ok("set", "task-a", "--status", "open")

    shown = baton("dispatch", "task-a", "--template", "mine.md", "--print", "--json", "--", "cat").json

    assert shown["prompt"].startswith('task-a open "a" demo: # Task')


# Refusals: the message names the way out, and nothing is changed


def resolved(baton: Baton) -> None:
    baton.ok("add", "Done", "--id", "art-done", "--type", "artifact", "--link", "resolves:task-a")


def for_people(baton: Baton) -> None:
    baton.ok("edit", "task-a", "--set", "requires=human")


def under_a_profile(baton: Baton) -> None:
    baton.ok("add", "Deep", "--id", "profile-deep", "--type", "profile")
    baton.ok("edit", "profile-deep", "--set", "harness=none-such")
    baton.ok("edit", "task-a", "--set", "profile=profile-deep")


def without_a_project(baton: Baton) -> None:
    baton.ok("edit", "task-a", "--set", "project=")


def claimed(baton: Baton) -> None:
    baton.ok("claim", "task-a")


def in_another_checkout(baton: Baton) -> None:
    config(baton.home, dispatch={"repos": {"web": str(Path.cwd())}})


def nothing(baton: Baton) -> None:
    del baton


@pytest.mark.parametrize(
    "arrange, argv, says, way_out",
    [
        (resolved, ["--", "true"], "task-a is resolved by art-done", "--force sends a run to it"),
        (for_people, ["--force", "--", "true"], "requires a person", "baton edit task-a --set requires="),
        (under_a_profile, ["--force", "--", "true"], "none-such is not there", "baton capabilities"),
        (claimed, ["--", "true"], "held by", "baton"),
        (without_a_project, ["--", "true"], "it names no project", "name a checkout with --dir"),
        (in_another_checkout, ["--", "true"], "dispatch.repos says is web", "dispatch.repos.demo"),
        (nothing, ["--dir", "/", "--", "true"], "not inside a git checkout", "--dir"),
        (nothing, ["--as", "agent-none", "--", "true"], "can't speak for agent-none", "use your own token"),
        (nothing, ["--harness", "none-such"], "there is no harness", "known are claude-code, codex"),
        (nothing, ["--", "no-such-command"], "not a command that can be run", "is it installed"),
        (nothing, ["--base", "none", "--", "true"], "no branch, tag or commit none", "name one with --base"),
        (nothing, ["--template", "none.md", "--", "true"], "none.md can't be read", "No such file"),
    ],
)
def test_what_stands_against_a_run_is_told_with_its_way_out_and_changes_nothing(  # noqa: PLR0917 — a table
    baton: Baton,
    unchanged: Unchanged,
    arrange: Callable[[Baton], None],
    argv: list[str],
    says: str,
    way_out: str,
) -> None:
    arrange(baton)
    baton.ok("whoami")
    with unchanged:
        ran = baton("dispatch", "task-a", *argv)

    assert ran.code == Exit.FAILED, ran
    assert says in ran.err
    assert way_out in ran.err


def test_an_item_that_a_run_is_at_work_on_is_refused(baton: Baton, unchanged: Unchanged, repo: Repo) -> None:
    record = left_on_task_a(repo, harness="codex")
    baton.ok("whoami")
    with Journal(baton.home).create(record), unchanged:
        ran = baton("dispatch", "task-a", "--", "true")

    assert ran.code == Exit.FAILED
    assert "baton runs kill 0b101010; --force sends another" in ran.err


@pytest.mark.parametrize(
    "argv, says",
    [
        ([], "name an item, as in: baton dispatch task-1"),
        (["Task"], "a task in your own words has more than one"),
        (["--node", "task-a", "--from-queue"], "exclude each other"),
        (["task-a", "--full", "--no-brief"], "exclude each other"),
    ],
)
def test_a_command_line_that_makes_no_sense_is_refused(baton: Baton, argv: list[str], says: str) -> None:
    ran = baton("dispatch", *argv)

    assert ran.code == Exit.USAGE
    assert says in ran.err


def test_a_folder_that_was_removed_is_no_place_to_start_from(
    baton: Baton, repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    ran = baton("dispatch", "task-a", "--dir", str(repo.folder), "--", "true")

    assert ran.code == Exit.USAGE
    assert "is not there any more; change to one that is" in ran.err


def test_a_task_in_free_words_is_a_persons_to_send_off(served: Baton, repo: Repo) -> None:
    with served.as_agent("mill"):
        ran = served("dispatch", "look for dead code", "--", "true")

    assert ran.code == Exit.FAILED
    assert "only a person may make" in ran.err
    assert "file it and send a run to that" in ran.err
    assert len(repo.git("worktree", "list").splitlines()) == 1


def test_without_a_server_the_person_of_this_machine_sends_off_a_task_in_free_words(repo: Repo, baton: Baton) -> None:
    baton.ok("add", "Dead code is dropped", "--id", "dec-dead", "--type", "decision", "--project", "demo")

    sent = baton("dispatch", "Is dead code dropped?", "--wait", "--json", "--", "sh", "-c", "cat; echo None found.")

    assert sent.code == Exit.OK, sent
    run = sent.json["run"]
    assert (run["node_id"], run["terminal_state"]) == (None, "reported")
    assert "dec-dead" in baton.ok("runs", "log", run["run_id"]).out, "what is known of it is in the prompt"
    assert len(repo.git("worktree", "list").splitlines()) == 1


def test_the_queue_gives_what_nothing_stands_against_and_says_why_not_the_rest(
    baton: Baton, repo: Repo, unchanged: Unchanged
) -> None:
    del repo
    for_people(baton)
    baton.task("b")
    baton.ok("edit", "task-b", "--set", "project=elsewhere")
    with unchanged:
        none = baton("dispatch", "--from-queue", "--print", "--", "true")
    baton.task("c")
    shown = baton.ok("dispatch", "--from-queue", "--print", "--json", "--", "true").json

    assert none.code == Exit.FAILED
    assert "task-a: it needs a person" in none.err
    assert "task-b: nobody has said which checkout elsewhere is; set dispatch.repos.elsewhere" in none.err
    assert shown["would"]["item"] == "task-c"


def test_what_a_dead_run_has_left_of_the_item_is_settled_first(baton: Baton, repo: Repo) -> None:
    left = left_on_task_a(
        repo,
        incarnation=baton.json("status")["incarnation"],
        agent=AgentId(HolderId(baton.json("agent", "list")["agents"][0]["id"])),
    )
    token = json.loads((baton.home / "credentials.json").read_text())["local"]["agent"]["token"]
    with baton.under(token):
        baton.ok("claim", "task-a", "--dispatch", left.dispatch)
    with Journal(baton.home).create(left) as held:
        path = held.path

    shown = baton("dispatch", "task-a", "--base", "none", "--", "true")

    settled = RunFolder(path).read()
    assert "no branch, tag or commit none" in shown.err, "and not that it is held"
    assert (settled.is_settled, settled.lease_released) == (True, True)
    assert baton.json("leases")["leases"] == []


# At a server, with a person's own token


@pytest.fixture
def served(repo: Repo, baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Baton]:
    """A server elsewhere with the item, and its person's token in this world's environment."""
    del repo
    with serve_local(tmp_path / "elsewhere") as server:
        monkeypatch.setenv("BATON_SERVER", server.address)
        monkeypatch.setenv("BATON_TOKEN", server.person.token)
        baton.task("a")
        yield baton


def test_a_person_holds_the_lease_and_the_work_carries_their_agents_name(served: Baton) -> None:
    agent, me = served.json("agent", "list")["agents"][0]["id"], served.json("whoami")["person"]

    sent = served("dispatch", "task-a", "--wait", "--json", "--", sys.executable, "-c", RESOLVES)

    assert sent.code == Exit.OK, sent
    run = sent.json["run"]
    assert (run["terminal_state"], run["agent"], run["owner"]) == ("resolved", agent, me)
    assert served.json("leases")["leases"][0]["lease"]["by"] == me
    assert served.json("show", "art-done")["frontmatter"]["authored_by_agent"] == agent
    prefixes = [token["hash_prefix"] for token in served.json("agent", "tokens", agent)["tokens"]]
    assert run["token_prefix"] not in prefixes, "it ended with the run"


def test_a_run_under_ones_own_lease_never_hands_that_back(served: Baton) -> None:
    served.ok("claim", "task-a")

    sent = served("dispatch", "task-a", "--force", "--wait", "--json", "--", "sh", "-c", "echo Looked at it.")

    assert sent.code == Exit.OK, sent
    run = sent.json["run"]
    assert (run["terminal_state"], run["lease_released"]) == ("reported", False)
    assert [held["lease"]["node_id"] for held in served.json("leases")["leases"]] == ["task-a"]


def test_a_run_whose_supervisor_dies_is_settled_by_whoever_waits_for_it(served: Baton) -> None:
    dies = "cat > /dev/null; echo Half of it.; kill -9 $PPID; sleep 3600"

    sent = served("dispatch", "task-a", "--wait", "--json", "--", "sh", "-c", dies)

    run = sent.json["run"]
    assert (run["state"], run["terminal_state"], run["lease_released"]) == ("vanished", "reported", True)
    assert served.json("leases")["leases"] == []


def test_an_agent_program_that_its_owner_described_is_sent_off_by_its_name(
    served: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "mill"
    program.write_text('#!/bin/sh\ncat > /dev/null\necho "$@" > "$2"\n')
    program.chmod(0o755)
    described = {"command": "mill", "args": ["--to", "{report}", "--model", "{model}"], "report": "file"}
    config(served.home, dispatch={"bin": {"mine": str(program)}, "harness": {"mine": described}})
    monkeypatch.setenv("PATH", os.defpath)

    sent = served("dispatch", "task-a", "--harness", "mine", "--model", "deep", "--wait", "--json")

    assert sent.code == Exit.OK, sent
    run = sent.json["run"]
    assert (run["harness"], run["state"], run["terminal_state"]) == ("mine", "done", "reported")
    assert "--model deep" in served.json("show", run["report_node_id"])["raw"]


def test_a_signal_to_whoever_waits_stops_the_run(served: Baton) -> None:
    script = f"cat > /dev/null; echo Half of it.; kill -INT {os.getpid()}; sleep 3600"

    sent = served("dispatch", "task-a", "--wait", "--json", "--", "sh", "-c", script)

    assert sent.code == Exit.INTERRUPTED
    assert sent.json["run"]["stopped_for"] == "interrupted"
    assert served.json("leases")["leases"] == []


def test_a_lost_race_for_an_item_goes_on_to_the_next(served: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    served.task("b")
    config(served.home, dispatch={"repos": {"demo": str(Path.cwd())}})
    person = os.environ["BATON_TOKEN"]

    def be_faster() -> None:
        monkeypatch.delitem(points.armed, "claim.sent")
        with served.as_agent("fast"):
            served.ok("claim", "task-a")
        os.environ["BATON_TOKEN"] = person

    served.ok("agent", "list")
    monkeypatch.setitem(points.armed, "claim.sent", be_faster)
    agent = served.json("agent", "list")["agents"][0]["id"]
    sent = served("dispatch", "--from-queue", "--as", agent, "--wait", "--", "sh", "-c", "cat > /dev/null; echo Done.")

    assert sent.code == Exit.OK, sent
    assert "task-b: reported" in sent.out
    assert [lease["lease"]["node_id"] for lease in served.json("leases")["leases"]] == ["task-a"]


def test_without_an_agent_of_ones_choice_nothing_is_started_unless_ones_own_name_is_allowed(served: Baton) -> None:
    served.ok("agent", "add", "second")
    script = "import subprocess; subprocess.run(['baton', 'add', 'Seen', '--id', 'art-seen', '--type', 'artifact'])"

    refused = served("dispatch", "task-a", "--", "true")
    allowed = served(
        "dispatch", "task-a", "--allow-person-token", "--wait", "--json", "--", sys.executable, "-c", script
    )

    assert refused.code == Exit.FAILED
    assert "--as" in refused.err
    assert "agent-second" in refused.err
    assert "WARNING: no agent is named" in allowed.err
    assert allowed.code == Exit.OK, allowed
    assert "authored_by_agent" not in served.json("show", "art-seen")["frontmatter"]
    prefixes = [token["hash_prefix"] for token in served.json("token", "list")["tokens"]]
    assert allowed.json["run"]["token_prefix"] not in prefixes, "it ended with the run"


def test_a_task_in_free_words_is_no_items_and_unenforced(served: Baton) -> None:
    sent = served("dispatch", "look for dead code", "--wait", "--json", "--", "sh", "-c", "cat; echo None found.")

    assert sent.code == Exit.OK, sent
    run = sent.json["run"]
    assert (run["node_id"], run["terminal_state"], run["terminal_enforced"]) == (None, "reported", False)
    assert "look for dead code" in served.ok("runs", "log", run["run_id"]).out
    assert served.json("leases")["leases"] == []


def test_what_can_not_be_found_is_declared_and_taken_back(baton: Baton) -> None:
    baton.home.mkdir(exist_ok=True)
    config(baton.home, agent="agent-mill", dispatch={"repos": {"demo": "/src/demo"}})

    baton.ok("capabilities", "declare", "--skill", "sql", "--skill", "css", "--deny", "profile-deep")
    baton.ok("capabilities", "declare", "--skill", "css", "--forget")

    shown = baton.json("capabilities", "show")
    assert (shown["declared"]["skills"], shown["deny"]) == (["sql"], ["profile-deep"])
    assert baton.json("capabilities", "probe")["skills"] == []
    kept = json.loads((baton.home / "config.json").read_text())
    assert (kept["agent"], kept["dispatch"]["repos"]) == ("agent-mill", {"demo": "/src/demo"})
    assert baton("capabilities", "declare").code == Exit.USAGE


def test_what_this_machine_can_run_is_shown_and_published(baton: Baton) -> None:
    baton.home.mkdir(exist_ok=True)
    config(baton.home, dispatch={"capabilities": {"declared": {"skills": ["sql"]}}})

    assert "skills" in baton.ok("capabilities", "show").out
    assert baton.json("capabilities", "show")["declared"]["skills"] == ["sql"]
    agent = baton.json("agent", "list")["agents"][0]["id"]
    published = baton.json("capabilities", "publish", agent)
    assert published["capabilities"]["skills"] == ["sql"]
    assert baton.ok("capabilities", "publish", agent).out.startswith(f"published for {agent} at ")
