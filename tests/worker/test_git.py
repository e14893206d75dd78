from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path

import pytest

from batonpass.testing.repos import Repo
from batonpass.worker import git
from batonpass.worker.errors import GitFailed
from batonpass.worker.git import Checkout, Head, Listed, Status


def test_a_checkout_knows_its_top_and_its_repository(repo: Repo) -> None:
    inner = repo.folder / "a b"
    inner.mkdir()
    at = replace(repo.checkout, folder=inner)

    assert git.top_level(at) == repo.folder
    assert git.common_dir(at) == repo.folder / ".git"


def test_a_folder_whose_name_ends_in_a_line_break_keeps_it(repo: Repo, tmp_path: Path) -> None:
    folder = tmp_path / "odd\n"
    repo.git("init", "--quiet", str(folder))
    at = replace(repo.checkout, folder=folder)

    assert git.top_level(at) == folder
    assert git.common_dir(at) == folder / ".git"


def test_an_inherited_git_dir_leads_no_command_astray(repo: Repo, tmp_path: Path) -> None:
    other = tmp_path / "other"
    repo.git("init", "--quiet", str(other))
    repo.person["GIT_DIR"] = str(other / ".git")
    repo.person["GIT_WORK_TREE"] = str(other)

    assert git.top_level(repo.checkout) == repo.folder


def test_outside_a_repository_git_says_so(tmp_path: Path, repo: Repo) -> None:
    with pytest.raises(GitFailed, match="not a git repository") as caught:
        git.top_level(Checkout(tmp_path, repo.checkout.environment))
    assert caught.value.code == 128


def test_a_name_is_looked_up_as_a_branch_before_a_remotes_branch_before_a_tag(repo: Repo) -> None:
    first = repo.head()
    repo.git("tag", "release")
    repo.git("tag", "only-tag")
    repo.git("branch", "release")
    repo.git("update-ref", "refs/remotes/origin/main", first)

    assert git.full_name(repo.checkout, "release") == "refs/heads/release"
    assert git.full_name(repo.checkout, "only-tag") == "refs/tags/only-tag"
    assert git.full_name(repo.checkout, "origin/main") == "refs/remotes/origin/main"
    assert git.full_name(repo.checkout, "refs/tags/release") == "refs/tags/release"
    assert git.full_name(repo.checkout, "nothing") is None
    assert git.full_name(repo.checkout, "--all") is None


@pytest.mark.parametrize("name", ["0x1A", "no", "2026-09-30", "-x"])
def test_a_branch_with_a_misleading_name_is_that_branch(repo: Repo, name: str) -> None:
    ref = f"refs/heads/{name}"
    repo.git("update-ref", ref, repo.head())

    assert git.full_name(repo.checkout, name) == ref
    assert git.commit_of(repo.checkout, ref) == repo.head()


def test_head_is_a_branch_or_detached_or_unborn(repo: Repo, tmp_path: Path) -> None:
    commit = repo.head()
    assert git.head(repo.checkout) == Head("refs/heads/main", commit)

    repo.git("checkout", "--quiet", "--detach")
    assert git.head(repo.checkout) == Head(None, commit)

    repo.git("init", "--quiet", "-b", "trunk", str(tmp_path / "new"))
    assert git.head(replace(repo.checkout, folder=tmp_path / "new")) == Head("refs/heads/trunk", None)


def test_commits_are_counted_from_the_base(repo: Repo) -> None:
    base = repo.head()
    repo.commit("a")
    repo.commit("b")

    assert git.count_commits(repo.checkout, since=base, until="refs/heads/main") == 2
    assert git.count_commits(repo.checkout, since=repo.head(), until="refs/heads/main") == 0


def test_status_tells_modified_untracked_and_ignored_apart_whatever_they_are_called(repo: Repo) -> None:
    odd = 'with "quotes",\ta tab\nand a line.txt'
    repo.commit("old name.txt")
    repo.git("mv", "old name.txt", "new name.txt")
    (repo.folder / "README.md").write_text("changed")
    (repo.folder / odd).write_text("x")
    (repo.folder / "secret.env").write_text("x")
    (repo.folder / "notes").mkdir()
    (repo.folder / "notes/n.md").write_text("x")
    (repo.folder / "intent").write_text("x")
    repo.git("add", "-N", "intent")

    status = git.status(repo.checkout)

    assert set(status.changed) == {"README.md", "new name.txt", "old name.txt", "intent"}
    assert status.untracked == (odd,)
    assert set(status.ignored) == {"notes/", "secret.env"}


def test_a_file_that_was_only_touched_is_clean(repo: Repo) -> None:
    os.utime(repo.folder / "README.md", (1, 1))

    assert git.status(repo.checkout) == Status((), (), ())


def test_a_conflict_is_a_change_and_an_operation_in_progress(repo: Repo) -> None:
    repo.git("branch", "side")
    repo.commit("README.md", "ours\n")
    repo.git("checkout", "--quiet", "side")
    repo.commit("README.md", "theirs\n")
    assert not git.is_operation_in_progress(repo.checkout)

    with pytest.raises(Exception, match="merge"):
        repo.git("merge", "main")

    assert git.is_operation_in_progress(repo.checkout)
    assert git.status(repo.checkout).changed == ("README.md",)


def test_a_hook_of_the_repository_does_not_run(repo: Repo, tmp_path: Path) -> None:
    hook = repo.folder / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)

    git.add_worktree(repo.checkout, tmp_path / "w", branch="refs/heads/baton/x", commit=repo.head())

    assert (tmp_path / "w/README.md").exists()
    assert not (tmp_path / "hooked").exists()


def test_worktrees_are_listed_with_their_branches(repo: Repo, tmp_path: Path) -> None:
    path = tmp_path / "a worktree\nof lines"
    git.add_worktree(repo.checkout, path, branch="refs/heads/baton/x", commit=repo.head())

    assert git.worktrees(repo.checkout) == (
        Listed(repo.folder, "refs/heads/main"),
        Listed(path, "refs/heads/baton/x"),
    )


def test_a_worktree_another_process_is_half_way_with_is_waited_for(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git writes an entry file by file, and refuses any worktree while it can't read another's."""
    git.add_worktree(repo.checkout, tmp_path / "other", branch="refs/heads/other", commit=repo.head())
    half_written = repo.folder / ".git/worktrees/other/commondir"
    whole = half_written.read_text()
    half_written.write_text("")

    def wait_for_the_other(folder: int, how: int) -> None:
        assert (os.fstat(folder).st_ino, how) == ((repo.folder / ".git").stat().st_ino, fcntl.LOCK_EX)
        half_written.write_text(whole)

    monkeypatch.setattr(fcntl, "flock", wait_for_the_other)

    git.add_worktree(repo.checkout, tmp_path / "w", branch="refs/heads/baton/x", commit=repo.head())

    assert (tmp_path / "w/README.md").exists()


def test_a_branch_that_exists_is_never_moved_to_make_a_worktree(repo: Repo, tmp_path: Path) -> None:
    first = repo.head()
    repo.git("branch", "baton/x")
    repo.commit("a")

    with pytest.raises(GitFailed, match="already exists"):
        git.add_worktree(repo.checkout, tmp_path / "w", branch="refs/heads/baton/x", commit=repo.head())
    assert git.commit_of(repo.checkout, "refs/heads/baton/x") == first


def test_a_reference_is_created_once_and_deleted_only_where_it_was_judged(repo: Repo) -> None:
    first = repo.head()
    git.create_ref(repo.checkout, "refs/baton/kept/r/0", first)
    git.create_ref(repo.checkout, "refs/baton/kept/r/0", first)
    second = repo.commit("a")

    with pytest.raises(GitFailed):
        git.create_ref(repo.checkout, "refs/baton/kept/r/0", second)
    with pytest.raises(GitFailed):
        git.delete_ref(repo.checkout, "refs/baton/kept/r/0", expected=second)
    git.delete_ref(repo.checkout, "refs/baton/kept/r/0", expected=first)

    assert not git.has_ref(repo.checkout, "refs/baton/kept/r/0")


def test_commits_that_only_a_reflog_holds_are_found(repo: Repo) -> None:
    base = repo.head()
    repo.commit("a")
    lost = repo.commit("b")
    repo.git("reset", "--hard", "--quiet", base)
    repo.git("checkout", "--quiet", "--detach")
    detached = repo.commit("c")

    assert set(git.unreferenced(repo.checkout)) == {lost, detached}

    git.create_ref(repo.checkout, "refs/baton/kept/r/0", lost)
    assert git.unreferenced(repo.checkout) == (detached,)


def test_nothing_is_unreferenced_while_branches_hold_it(repo: Repo) -> None:
    repo.commit("a")

    assert git.unreferenced(repo.checkout) == ()


def test_a_commit_that_is_not_there_is_none(repo: Repo) -> None:
    assert git.commit_of(repo.checkout, "f" * 40) is None
    assert git.commit_of(repo.checkout, repo.head()) == repo.head()
