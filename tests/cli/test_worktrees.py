"""`baton worktrees`: what runs have left on the disk, and what may go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from batonpass.cli.exits import Exit
from batonpass.client.local import ADDRESS
from batonpass.core.ids import NodeId
from batonpass.testing.commands import Baton
from batonpass.testing.repos import Repo, make_repo, person_environment
from batonpass.testing.runs import RUN, put_run, run_record, settled
from batonpass.worker import worktree
from batonpass.worker.journal import RunFolder
from batonpass.worker.worktree import Worktree


@dataclass(frozen=True)
class Left:
    """A run that is over, and its worktree."""

    baton: Baton
    repo: Repo
    folder: RunFolder
    tree: Worktree


@pytest.fixture
def left(baton: Baton, tmp_path: Path) -> Left:
    """A settled run on task-a whose worktree was kept."""
    repo = make_repo(tmp_path / "project", person_environment(Path(os.environ["HOME"])))
    baton.task("a")
    path = baton.home / "worktrees/project/0b101010"
    tree = Worktree(path, "refs/heads/baton/task-a-0b101010", repo.head(), repo.checkout)
    worktree.create(tree)
    record = run_record(
        node_id=NodeId("task-a"),
        server=ADDRESS,
        incarnation=baton.json("status")["incarnation"],
        repository=str(repo.folder),
        worktree=str(path),
        branch=tree.branch,
        base=tree.base,
        worktree_kept=("untracked: notes.txt",),
        **settled(),
    )
    (path / "notes.txt").write_text("x" * 100_000)
    return Left(baton, repo, put_run(baton.home, record), tree)


def listed(baton: Baton) -> Any:  # noqa: ANN401 — a document
    return baton.json("worktrees", "list")


def test_a_machine_without_worktrees_has_none(baton: Baton) -> None:
    assert baton.ok("worktrees", "list").out == "no worktrees\n"
    assert listed(baton) == {"count": 0, "bytes": 0, "worktrees": []}
    assert baton.ok("worktrees", "gc").out == "0 worktrees removed (0 B), 0 kept\n"


def test_each_tree_is_listed_with_what_it_takes_and_why_it_is_there(left: Left) -> None:
    told = listed(left.baton)
    head, line, total = left.baton.ok("worktrees", "list").out.splitlines()

    (tree,) = told["worktrees"]
    assert told["bytes"] == tree["bytes"] >= 100_000
    assert (tree["path"], tree["kind"], tree["run_id"]) == (str(left.tree.path), "folder", RUN)
    assert (tree["node_id"], tree["branch"], tree["reasons"]) == ("task-a", left.tree.branch, ["untracked: notes.txt"])
    assert tree["age_ms"] > 0
    assert head.split() == ["run", "item", "size", "ended", "why", "it", "stays", "where"]
    assert "untracked: notes.txt" in line
    assert str(left.tree.path) in line
    assert total.startswith("1 worktree, ")


def test_what_could_be_missed_stays_with_its_reason(left: Left) -> None:
    told = left.baton.json("worktrees", "gc")

    assert (told["removed"], told["kept"], told["bytes_freed"]) == (0, 1, 0)
    assert told["worktrees"][0]["reasons"] == ["untracked: notes.txt"]
    assert (left.tree.path / "notes.txt").exists()
    assert left.baton.ok("worktrees", "gc").out.splitlines()[-1] == "0 worktrees removed (0 B), 1 kept"


def test_what_nobody_can_miss_goes_after_a_dry_run_said_so(left: Left) -> None:
    (left.tree.path / "notes.txt").unlink()

    dry = left.baton.json("worktrees", "gc", "--dry-run")
    assert (dry["dry_run"], dry["removed"], dry["bytes_freed"] > 0) == (True, 1, True)
    assert left.tree.path.is_dir()

    said = left.baton.ok("worktrees", "gc").out.splitlines()
    assert said[0].startswith(f"removed: {left.tree.path} (")
    assert said[1] == "removed: branch baton/task-a-0b101010"
    assert said[2].startswith("1 worktree removed (")
    assert not left.tree.path.exists()
    assert left.repo.refs() == {"refs/heads/main"}
    assert left.folder.read().worktree_kept is None


def test_a_branch_with_commits_of_its_own_stays_and_is_counted(left: Left) -> None:
    (left.tree.path / "notes.txt").unlink()
    left.repo.commit("work.txt", at=left.tree.path)

    said = left.baton.ok("worktrees", "gc").out.splitlines()

    assert said[-1] == "the branch of 1 run stays: it has commits that no other branch has"
    assert left.tree.branch in left.repo.refs()


def test_nothing_goes_without_an_answer_of_the_server(left: Left) -> None:
    (left.tree.path / "notes.txt").unlink()

    with left.baton.under("bat_pat_9fKq2mXv7LpWz3Rt9fKq2mXv7LpWz3Rt"):
        ran = left.baton("worktrees", "gc", "--server", "http://127.0.0.1:9")

    assert ran.code == Exit.UNREACHABLE
    assert left.tree.path.is_dir()


def test_a_place_no_run_has_is_shown_as_it_is(baton: Baton) -> None:
    place = baton.home / "worktrees/project"
    place.mkdir(parents=True)
    (place / "a\x1b[31mb").write_text("mine")

    shown = baton.ok("worktrees", "list").out

    assert "what stands there is no folder; no run on record has it" in shown
    assert "\x1b" not in shown
    assert listed(baton)["worktrees"][0]["run_id"] is None


@pytest.mark.parametrize("whose", ["the repository's own", "another's"])
def test_only_a_repositorys_own_settings_say_what_is_made_anew_in_its_worktrees(
    left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    (left.tree.path / "notes.txt").unlink()
    exclude = left.repo.folder / ".git/info/exclude"
    exclude.write_text("secrets.env\n.baton.json\n")
    (left.tree.path / "secrets.env").write_text("KEY=1")
    other = make_repo(tmp_path / "other", person_environment(Path(os.environ["HOME"])))
    settled_by = left.repo.folder if whose == "the repository's own" else other.folder
    (settled_by / ".baton.json").write_text('{"worktree": {"disposable": ["*"]}}')
    monkeypatch.chdir(other.folder)

    told = left.baton.json("worktrees", "gc")

    assert told["removed"] == (whose == "the repository's own")
    assert (left.tree.path / "secrets.env").exists() == (whose == "another's")
