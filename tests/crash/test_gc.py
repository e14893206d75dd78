"""`baton worktrees gc` killed with -9 at each of its points: a second one ends as if the first had never been."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from batonpass.cli.main import main
from batonpass.client.local import ADDRESS
from batonpass.core.ids import RunId
from batonpass.testing.commands import BATON
from batonpass.testing.points import environment
from batonpass.testing.repos import Repo, make_repo, person_environment
from batonpass.testing.runs import put_run, run_record, settled
from batonpass.worker import git, worktree
from batonpass.worker.journal import Journal
from batonpass.worker.worktree import Worktree

POINTS: Final = "gc.locked gc.judged gc.pinned gc.renamed gc.rechecked gc.deleted".split()
DONE: Final = RunId("0b101010-1234-4abc-8def-0123456789ab")
DIRTY: Final = RunId("1c202020-1234-4abc-8def-0123456789ab")


@dataclass(frozen=True)
class Box:
    """A machine with a database and a repository."""

    home: Path
    repo: Repo
    incarnation: str


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Box:
    """A home of the test's own, with a database and a repository of a person."""
    for name in [name for name in os.environ if name.startswith(("BATON_", "GIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BATON_HOME", str(tmp_path / "baton"))
    assert main(["status", "--json"]) == 0
    incarnation = json.loads(capsys.readouterr().out)["incarnation"]
    repo = make_repo(tmp_path / "project", person_environment(tmp_path))
    return Box(tmp_path / "baton", repo, incarnation)


def leave(box: Box, run: RunId) -> Worktree:
    """Leave a worktree of a settled run whose item is not there any more."""
    repo, path = box.repo, box.home / "worktrees/project" / run[:8]
    tree = Worktree(path, f"refs/heads/baton/task-{run[:8]}", repo.head(), repo.checkout)
    worktree.create(tree)
    place = {"repository": str(repo.folder), "worktree": str(path), "branch": tree.branch, "base": tree.base}
    put_run(box.home, run_record(run, server=ADDRESS, incarnation=box.incarnation, **place, **settled()))
    return tree


@pytest.mark.parametrize("point", POINTS)
def test_h20_a_killed_collection_loses_nothing_and_the_next_one_finishes(box: Box, point: str) -> None:
    repo, done, dirty = box.repo, leave(box, DONE), leave(box, DIRTY)
    lost = repo.commit("thought better of.txt", at=done.path)
    repo.git("reset", "--hard", "--quiet", "HEAD~", at=done.path)
    (dirty.path / "notes.txt").write_text("mine")

    argv = [str(BATON), "worktrees", "gc"]
    killed = subprocess.run(argv, env=environment(f"{point}:kill"), capture_output=True, timeout=30, check=False)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert git.commit_of(repo.checkout, lost) == lost
    assert (dirty.path / "notes.txt").read_text() == "mine"

    assert main(["worktrees", "gc"]) == 0

    assert not done.path.exists()
    assert not any((done.path.parent / ".trash").iterdir())
    assert git.commit_of(repo.checkout, f"refs/baton/kept/{DONE[:8]}/{lost[:12]}") == lost
    assert (dirty.path / "notes.txt").read_text() == "mine"
    worktree.verify(dirty)
    assert {listed.path for listed in git.worktrees(repo.checkout)} == {repo.folder, dirty.path}
    kept = {folder.path.name: folder.read().worktree_kept for folder in Journal(box.home).runs()}
    assert kept == {DONE: None, DIRTY: ("untracked: notes.txt",)}
