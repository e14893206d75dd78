from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from batonpass.testing.repos import Repo
from batonpass.worker import git, worktree
from batonpass.worker.errors import WorktreeRefused
from batonpass.worker.worktree import Worktree

BRANCH = "refs/heads/baton/task-1-0b101010"


@pytest.fixture
def tree(repo: Repo, tmp_path: Path) -> Worktree:
    """A run's worktree that is not made yet."""
    return Worktree(tmp_path / "worktrees/project/0b101010", BRANCH, repo.head(), repo.checkout)


@pytest.fixture
def made(tree: Worktree) -> Worktree:
    worktree.create(tree)
    return tree


# Making one


def test_a_new_worktree_stands_on_its_own_branch_at_the_base(repo: Repo, tree: Worktree) -> None:
    base = repo.head()
    repo.commit("later")

    worktree.create(tree)

    assert git.head(tree.inside) == git.Head(BRANCH, base)
    assert (tree.path / "README.md").read_text() == "A project.\n"
    assert repo.git("status", "--porcelain") == ""


@pytest.mark.parametrize("kind", ["file", "empty folder", "dangling link"])
def test_a_worktree_is_never_made_over_something_that_stands_there(repo: Repo, tree: Worktree, kind: str) -> None:
    tree.path.parent.mkdir(parents=True)
    match kind:
        case "file":
            tree.path.write_text("mine")
        case "empty folder":
            tree.path.mkdir()
        case _:
            tree.path.symlink_to("nowhere")
    before = repo.refs()

    with pytest.raises(WorktreeRefused, match="exists already"):
        worktree.create(tree)

    assert os.path.lexists(tree.path)
    assert repo.refs() == before


def test_a_branch_that_exists_is_left_alone(repo: Repo, tree: Worktree) -> None:
    repo.git("branch", "baton/task-1-0b101010")
    first = repo.head()
    second = repo.commit("later")

    with pytest.raises(WorktreeRefused, match="made once"):
        worktree.create(replace(tree, base=second))

    assert git.commit_of(repo.checkout, BRANCH) == first
    assert not tree.path.exists()


def test_a_folder_removed_by_hand_but_still_registered_is_refused(repo: Repo, made: Worktree) -> None:
    shutil.rmtree(made.path)
    again = replace(made, branch="refs/heads/baton/task-1-again")

    with pytest.raises(WorktreeRefused, match="already registered"):
        worktree.create(again)
    with pytest.raises(WorktreeRefused, match="not a directory"):
        worktree.verify(made)

    assert not git.has_ref(repo.checkout, again.branch)


@pytest.mark.parametrize("kind", ["file", "empty folder", "another repository", "another branch", "the main checkout"])
def test_what_is_not_the_runs_worktree_is_refused(repo: Repo, made: Worktree, kind: str) -> None:
    folder = made.path
    match kind:
        case "file":
            shutil.rmtree(folder)
            folder.write_text("x")
        case "empty folder":
            made = replace(made, path=repo.folder / "empty")
            made.path.mkdir()
        case "another repository":
            shutil.rmtree(folder)
            repo.git("init", "--quiet", "-b", BRANCH.removeprefix("refs/heads/"), str(folder))
        case "another branch":
            repo.git("checkout", "--quiet", "-b", "elsewhere", at=folder)
        case _:
            made = replace(made, path=repo.folder)

    with pytest.raises(WorktreeRefused):
        worktree.verify(made)


def test_a_base_that_is_not_there_leaves_neither_folder_nor_branch(repo: Repo, tree: Worktree) -> None:
    before = repo.refs()

    with pytest.raises(WorktreeRefused, match="no worktree could be made"):
        worktree.create(replace(tree, base=git.Sha("f" * 40)))

    assert not tree.path.exists()
    assert repo.refs() == before


def test_a_worktree_that_is_not_what_it_should_be_leaves_neither_folder_nor_branch(
    repo: Repo, tree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = repo.refs()
    monkeypatch.setattr(git, "head_ref", lambda _at: "refs/heads/other")

    with pytest.raises(WorktreeRefused, match="is on refs/heads/other"):
        worktree.create(tree)

    assert not tree.path.exists()
    assert repo.refs() == before
    assert len(git.worktrees(repo.checkout)) == 1


# Removing one


def test_a_worktree_with_everything_committed_goes_and_its_commits_stay(repo: Repo, made: Worktree) -> None:
    tip = repo.commit("work.txt", at=made.path)

    assert worktree.commit_count(made) == 1
    assert worktree.remove(made) == ()
    assert not made.path.exists()
    assert len(git.worktrees(repo.checkout)) == 1
    assert git.commit_of(repo.checkout, BRANCH) == tip
    assert worktree.commit_count(made) == 1


def test_a_worktree_nothing_was_done_in_goes_with_its_branch(repo: Repo, made: Worktree) -> None:
    assert worktree.remove(made) == ()
    assert not git.has_ref(repo.checkout, BRANCH)


def test_a_branch_that_somebody_stands_on_elsewhere_is_left_to_them(repo: Repo, made: Worktree, tmp_path: Path) -> None:
    elsewhere = tmp_path / made.path.name  # a folder's name proves nothing
    short = made.branch.removeprefix(git.HEADS)
    repo.git("worktree", "add", "--quiet", "--force", str(elsewhere), short)

    assert worktree.remove(made) == ()
    assert not made.path.exists()
    assert git.commit_of(repo.checkout, made.branch) == made.base


def test_removing_twice_is_harmless(made: Worktree) -> None:
    assert worktree.remove(made) == ()
    assert worktree.remove(made) == ()


def modify(tree: Path) -> None:
    (tree / "README.md").write_text("changed")


def leave_untracked(tree: Path) -> None:
    (tree / "new.py").write_text("x")


def leave_ignored(tree: Path) -> None:
    (tree / "local.env").write_text("x")


def leave_ignored_folder(tree: Path) -> None:
    (tree / "notes").mkdir()
    (tree / "notes/n.md").write_text("x")


def stage(tree: Path) -> None:
    (tree / "README.md").write_text("changed")
    subprocess.run(["git", "add", "-A"], cwd=tree, check=True)


def change_behind_the_index(tree: Path) -> None:
    subprocess.run(["git", "update-index", "--assume-unchanged", "README.md"], cwd=tree, check=True)
    (tree / "README.md").write_text("changed")


def change_what_is_skipped(tree: Path) -> None:
    subprocess.run(["git", "update-index", "--skip-worktree", "README.md"], cwd=tree, check=True)
    (tree / "README.md").write_text("changed")


def check_a_submodule_out(tree: Path) -> None:
    other = tree.parent / "other"
    git_as = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "protocol.file.allow=always"]
    subprocess.run([*git_as, "init", "--quiet", str(other)], check=True)
    subprocess.run([*git_as, "commit", "--quiet", "--allow-empty", "-m", "x"], cwd=other, check=True)
    link = subprocess.run(["git", "rev-parse", "HEAD"], cwd=other, check=True, capture_output=True, text=True)
    (tree / "part").mkdir()
    subprocess.run(["git", "clone", "--quiet", str(other), str(tree / "part")], check=True)
    entry = f"160000,{link.stdout.strip()},part"
    subprocess.run(["git", "update-index", "--add", "--cacheinfo", entry], cwd=tree, check=True)


def detach(tree: Path) -> None:
    subprocess.run(["git", "checkout", "--quiet", "--detach"], cwd=tree, check=True)


@pytest.mark.parametrize(
    "leave, reason",
    [
        (modify, "modified: README.md"),
        (stage, "modified: README.md"),
        (leave_untracked, "untracked: new.py"),
        (leave_ignored, "ignored: local.env"),
        (leave_ignored_folder, "ignored: notes/"),
        (change_behind_the_index, "not watched by git: README.md"),
        (change_what_is_skipped, "not watched by git: README.md"),
        (detach, "no branch"),
    ],
)
def test_whatever_somebody_could_miss_keeps_the_worktree(
    made: Worktree, leave: Callable[[Path], None], reason: str
) -> None:
    leave(made.path)

    (told,) = worktree.remove(made)

    assert reason in told
    assert made.path.is_dir()
    worktree_head = git.head(made.inside)
    assert worktree_head.commit == made.base


def test_a_submodule_that_is_checked_out_keeps_the_worktree_and_is_named(made: Worktree) -> None:
    check_a_submodule_out(made.path)

    told = worktree.remove(made)

    assert "git removes no worktree with submodules checked out: part" in told
    assert (made.path / "part/.git").is_dir()


def test_what_a_sparse_checkout_leaves_out_keeps_nobody(repo: Repo, made: Worktree) -> None:
    repo.git("update-index", "--skip-worktree", "README.md", at=made.path)
    (made.path / "README.md").unlink()

    assert worktree.remove(made) == ()


def test_what_tools_make_anew_keeps_nobody(made: Worktree) -> None:
    cache = made.path / "src/__pycache__"
    cache.mkdir(parents=True)
    (cache / "m.pyc").write_text("x")

    assert worktree.remove(made) == ()
    assert not made.path.exists()


def test_an_operation_in_progress_keeps_the_worktree(repo: Repo, made: Worktree) -> None:
    (Path(repo.git("rev-parse", "--absolute-git-dir", at=made.path)) / "MERGE_HEAD").write_text(made.base)

    assert worktree.remove(made) == ("an operation of git is in progress",)


def test_a_process_that_stands_in_the_worktree_keeps_it(made: Worktree) -> None:
    with subprocess.Popen(["sleep", "3600"], cwd=made.path) as somebody:
        try:
            assert worktree.remove(made) == (f"in use by process: {somebody.pid}",)
        finally:
            somebody.kill()


def test_what_is_written_while_the_folder_is_moved_aside_brings_it_back(
    made: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    move = git.move_worktree

    def write_and_move(at: git.Checkout, path: Path, to: Path) -> None:
        if path == made.path:
            (path / "late.txt").write_text("an editor saved this")
        move(at, path, to)

    monkeypatch.setattr(git, "move_worktree", write_and_move)

    assert worktree.remove(made) == ("untracked: late.txt",)
    assert (made.path / "late.txt").read_text() == "an editor saved this"
    worktree.verify(made)


def test_a_removal_that_died_half_way_is_judged_anew(repo: Repo, made: Worktree) -> None:
    aside = made.path.parent / ".trash/0b101010"
    aside.parent.mkdir()
    git.move_worktree(repo.checkout, made.path, aside)
    (aside / "late.txt").write_text("x")

    assert worktree.remove(made) == ("untracked: late.txt",)
    assert made.path.is_dir()

    (made.path / "late.txt").unlink()
    assert worktree.remove(made) == ()
    assert not aside.exists()
    assert not made.path.exists()


def test_commits_no_branch_holds_are_kept_before_the_worktree_goes(repo: Repo, made: Worktree) -> None:
    lost = repo.commit("thought better of.txt", at=made.path)
    repo.git("reset", "--hard", "--quiet", made.base, at=made.path)

    assert worktree.remove(made) == ()

    assert git.commit_of(repo.checkout, f"refs/baton/kept/0b101010/{lost[:12]}") == lost


@pytest.mark.parametrize("name", ["ORIG_HEAD", "refs/worktree/mine", "refs/bisect/bad"])
def test_commits_only_the_worktrees_own_names_hold_are_kept_too(repo: Repo, tree: Worktree, name: str) -> None:
    repo.git("config", "core.logAllRefUpdates", "false")
    worktree.create(tree)
    lost = repo.commit("thought better of.txt", at=tree.path)
    repo.git("reset", "--hard", "--quiet", tree.base, at=tree.path)
    repo.git("update-ref", "-d", "ORIG_HEAD", at=tree.path)
    repo.git("update-ref", name, lost, at=tree.path)

    assert worktree.remove(tree) == ()

    assert git.commit_of(repo.checkout, f"refs/baton/kept/0b101010/{lost[:12]}") == lost


def test_discarding_undoes_what_creating_did(repo: Repo, made: Worktree) -> None:
    assert worktree.discard(made) == ()

    assert not made.path.exists()
    assert repo.refs() == {"refs/heads/main"}


def test_commits_cannot_be_counted_without_the_branch(tree: Worktree) -> None:
    assert worktree.commit_count(tree) is None


def commit_detached(repo: Repo, tree: Path) -> None:
    repo.git("checkout", "--quiet", "--detach", at=tree)
    repo.commit("work.txt", at=tree)


def commit_on_another_branch_and_come_back(repo: Repo, tree: Path) -> None:
    repo.git("checkout", "--quiet", "-b", "other", at=tree)
    repo.commit("work.txt", at=tree)
    repo.git("checkout", "--quiet", "-", at=tree)


def commit_and_reset(repo: Repo, tree: Path) -> None:
    repo.commit("work.txt", at=tree)
    repo.git("reset", "--hard", "--quiet", "HEAD~", at=tree)


def only_leave_the_branch(repo: Repo, tree: Path) -> None:
    repo.git("checkout", "--quiet", "-b", "other", at=tree)


@pytest.mark.parametrize(
    "act", [commit_detached, commit_on_another_branch_and_come_back, commit_and_reset, only_leave_the_branch]
)
def test_commits_that_may_be_elsewhere_are_not_counted_as_none(
    repo: Repo, made: Worktree, act: Callable[[Repo, Path], None]
) -> None:
    assert worktree.commit_count(made) == 0

    act(repo, made.path)

    assert worktree.commit_count(made) is None
