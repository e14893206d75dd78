"""The end of worktrees (D31, H20): what goes is provably done, and whatever anybody could miss is still there."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from batonpass.core.errors import Forbidden, Unavailable
from batonpass.core.ids import RunId
from batonpass.testing.graph import MemoryGraph, failing_with
from batonpass.testing.points import calling
from batonpass.testing.repos import Repo
from batonpass.testing.runs import BEGAN, put_run, run_record, settled
from batonpass.worker import gc, git, worktree
from batonpass.worker.gc import Collected, Collector, Kind, Tree
from batonpass.worker.journal import RunFolder
from batonpass.worker.worktree import Worktree

RUN = RunId("0b101010-1234-4abc-8def-0123456789ab")
OTHER = RunId("1c202020-1234-4abc-8def-0123456789ab")


@dataclass
class Box:
    """A machine whose runs are over, with the graph they belong to."""

    home: Path
    repo: Repo
    graph: MemoryGraph

    def run(self, run: RunId = RUN, **changes: Any) -> tuple[RunFolder, Worktree]:  # noqa: ANN401
        """Return a settled run, and the worktree that is still there."""
        node = self.graph.add_item(f"task-{run[:4]}")
        path = self.home / "worktrees" / "project" / run[:8]
        tree = Worktree(path, f"refs/heads/baton/{node}-{run[:8]}", self.repo.head(), self.repo.checkout)
        worktree.create(tree)
        facts = {
            "node_id": node,
            "server": self.graph.server,
            "incarnation": self.graph.me.incarnation,
            "repository": str(self.repo.folder),
            "worktree": str(path),
            "branch": tree.branch,
            "base": tree.base,
            "worktree_kept": ("the run was stopped for giving no sign of life",),
            **settled(),
        }
        return put_run(self.home, run_record(run, **{**facts, **changes})), tree

    @property
    def trees(self) -> tuple[Tree, ...]:
        found = gc.survey(self.home, self.repo.person)
        return (*found, *gc.branches(self.home, self.repo.person, beside=found))

    def collect(self, *, dry_run: bool = False) -> tuple[Collected, ...]:
        collector = Collector(self.graph, self.home, self.repo.person)
        return gc.collect(collector, self.trees, dry_run=dry_run)

    def kept(self) -> str:
        """Collect, and return why the one tree there is stays."""
        (told,) = self.collect()
        assert not told.is_gone
        return "; ".join(told.reasons)


@pytest.fixture
def box(tmp_path: Path, repo: Repo) -> Box:
    return Box(tmp_path / "baton", repo, MemoryGraph())


# What goes


def test_what_is_done_with_goes_and_its_record_says_so(box: Box) -> None:
    folder, tree = box.run()

    (told,) = box.collect()

    assert (told.is_gone, told.branch) == (True, None)
    assert not tree.path.exists()
    assert folder.read().worktree_kept is None
    assert box.repo.refs() == {"refs/heads/main"}
    assert len(git.worktrees(box.repo.checkout)) == 1
    assert box.collect() == ()


def test_a_dry_run_says_the_same_and_changes_nothing(box: Box) -> None:
    folder, tree = box.run()
    before = folder.read()

    (told,) = box.collect(dry_run=True)

    assert told.is_gone
    assert tree.path.is_dir()
    assert folder.read() == before
    assert box.repo.refs() == {"refs/heads/main", tree.branch}


def test_all_that_goes_is_in_the_trash_before_the_first_is_deleted(box: Box) -> None:
    box.run()
    box.run(OTHER)
    waiting: list[int] = []

    with calling("gc.deleted", lambda: waiting.append(len(list(box.home.glob("worktrees/*/.trash/*"))))):
        box.collect()

    assert waiting == [1]
    assert list(box.home.glob("worktrees/*/*/*")) == []


def test_commits_stay_on_their_branch_until_another_has_them(box: Box) -> None:
    _, tree = box.run()
    tip = box.repo.commit("work.txt", at=tree.path)

    (told,) = box.collect()

    assert (told.is_gone, told.branch) == (True, "it has commits that no other branch has")
    assert git.commit_of(box.repo.checkout, tree.branch) == tip

    (again,) = box.collect()
    assert (again.tree.kind, again.branch) == (Kind.BRANCH, told.branch)

    box.repo.git("merge", "--quiet", "--no-edit", tree.branch)
    (last,) = box.collect()
    assert last.branch is None
    assert box.repo.refs() == {"refs/heads/main"}


def test_that_another_runs_branch_has_the_commits_keeps_neither(box: Box) -> None:
    _, tree = box.run()
    tip = box.repo.commit("work.txt", at=tree.path)
    box.repo.git("branch", "baton/task-another", tip)

    (told,) = box.collect()

    assert told.branch is not None
    assert git.has_ref(box.repo.checkout, tree.branch)


def test_a_branch_somebody_stands_on_is_left_to_them(box: Box, tmp_path: Path) -> None:
    _, tree = box.run()
    box.collect()
    box.repo.git("branch", tree.branch.removeprefix("refs/heads/"))
    box.repo.git("worktree", "add", "--quiet", str(tmp_path / "mine"), tree.branch.removeprefix("refs/heads/"))

    (told,) = box.collect()

    assert told.branch == f"it is checked out in {tmp_path / 'mine'}"
    assert git.has_ref(box.repo.checkout, tree.branch)


def test_a_commit_that_comes_after_the_branch_was_judged_keeps_it(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    _, tree = box.run()
    late: list[git.Sha] = []
    delete = git.delete_ref

    def commit_and_delete(at: git.Checkout, ref: str, *, expected: git.Sha) -> None:
        tree_of = box.repo.git("rev-parse", "HEAD^{tree}")
        late.append(git.Sha(box.repo.git("commit-tree", tree_of, "-p", expected, "-m", "late")))
        box.repo.git("update-ref", ref, late[0])
        delete(at, ref, expected=expected)

    monkeypatch.setattr(git, "delete_ref", commit_and_delete)

    (told,) = box.collect()

    assert told.is_gone
    assert told.branch is not None
    assert git.commit_of(box.repo.checkout, tree.branch) == late[0]


def commit_and_reset(repo: Repo, tree: Path) -> git.Sha:
    lost = repo.commit("thought better of.txt", at=tree)
    repo.git("reset", "--hard", "--quiet", "HEAD~", at=tree)
    return lost


def commit_on_a_branch_that_goes(repo: Repo, tree: Path) -> git.Sha:
    repo.git("checkout", "--quiet", "-b", "aside", at=tree)
    lost = repo.commit("aside.txt", at=tree)
    repo.git("checkout", "--quiet", "-", at=tree)
    repo.git("branch", "--quiet", "-D", "aside", at=tree)
    return lost


def commit_and_reset_without_a_reflog(repo: Repo, tree: Path) -> git.Sha:
    lost = commit_and_reset(repo, tree)
    (Path(repo.git("rev-parse", "--absolute-git-dir", at=tree)) / "logs/HEAD").unlink()
    repo.git("update-ref", "ORIG_HEAD", lost, at=tree)
    return lost


@pytest.mark.parametrize("act", [commit_and_reset, commit_on_a_branch_that_goes, commit_and_reset_without_a_reflog])
def test_commits_only_the_worktree_leads_to_get_a_name_first(box: Box, act: Callable[[Repo, Path], git.Sha]) -> None:
    _, tree = box.run()
    lost = act(box.repo, tree.path)

    (told,) = box.collect()

    assert told.is_gone
    assert git.commit_of(box.repo.checkout, f"refs/baton/kept/0b101010/{lost[:12]}") == lost


# What stays


def modify(tree: Path) -> None:
    (tree / "README.md").write_text("changed")


def leave_untracked(tree: Path) -> None:
    (tree / "notes.txt").write_text("mine")


def leave_ignored(tree: Path) -> None:
    (tree / "notes").mkdir()
    (tree / "notes/n.md").write_text("mine")
    (tree / "local.env").write_text("SECRET=1")


def begin_a_merge(tree: Path) -> None:
    pointer = (tree / ".git").read_text().split(": ", 1)[1].strip()
    (Path(pointer) / "MERGE_HEAD").write_text("x")


def detach(tree: Path) -> None:
    subprocess.run(["git", "checkout", "--quiet", "--detach"], cwd=tree, check=True)


@pytest.mark.parametrize(
    "leave, reason",
    [
        (modify, "modified: README.md"),
        (leave_untracked, "untracked: notes.txt"),
        (leave_ignored, "ignored: local.env, notes/"),
        (begin_a_merge, "an operation of git is in progress"),
        (detach, "is on no branch"),
    ],
)
def test_what_somebody_could_miss_stays_and_is_named(box: Box, leave: Callable[[Path], None], reason: str) -> None:
    folder, tree = box.run()
    leave(tree.path)
    before = {path: path.read_bytes() for path in tree.path.rglob("*") if path.is_file()}

    assert reason in box.kept()

    assert {path: path.read_bytes() for path in tree.path.rglob("*") if path.is_file()} == before
    assert reason in "; ".join(folder.read().worktree_kept or ()), "on record, for a list that asks nobody"


def test_what_tools_make_anew_keeps_nothing(box: Box) -> None:
    _, tree = box.run()
    (tree.path / "src/__pycache__").mkdir(parents=True)
    (tree.path / "src/__pycache__/m.pyc").write_text("x")

    (told,) = box.collect()

    assert told.is_gone


def test_a_process_that_stands_in_it_keeps_it(box: Box) -> None:
    _, tree = box.run()
    with subprocess.Popen(["sleep", "3600"], cwd=tree.path) as somebody:
        try:
            assert box.kept() == f"in use by process: {somebody.pid}"
        finally:
            somebody.kill()


def test_a_run_that_is_at_work_or_not_settled_keeps_its_tree(box: Box) -> None:
    folder, tree = box.run(contract_pending=True, contract_settled_at=None)

    assert box.kept() == "its run is not settled; the next worker settles it"
    with folder.locked():
        assert box.kept() == "its run is at work, or being settled"
    assert tree.path.is_dir()


def test_the_record_is_read_again_once_the_run_is_locked(box: Box) -> None:
    folder, _ = box.run()
    trees = box.trees
    with folder.locked() as held:
        held.change(held.read(), contract_pending=True)

    (told,) = gc.collect(Collector(box.graph, box.home, box.repo.person), trees)

    assert told.reasons == ("its run is not settled; the next worker settles it",)


# The server


def test_nothing_is_touched_while_the_server_does_not_answer(box: Box) -> None:
    _, tree = box.run()
    box.graph.failing["caller"] = failing_with(Unavailable("no route to host"))

    with pytest.raises(Unavailable):
        box.collect()

    assert tree.path.is_dir()


@pytest.mark.parametrize("error", [Unavailable("no route to host"), Forbidden("not yours")])
def test_an_item_that_cannot_be_read_keeps_its_tree_and_no_other(box: Box, error: Unavailable | Forbidden) -> None:
    _, first = box.run()
    _, second = box.run(OTHER)
    box.graph.failing["node"] = failing_with(error, times=1)

    told = box.collect()

    assert [each.reasons for each in told] == [(error.message,), ()]
    assert first.path.is_dir()
    assert not second.path.exists()


def test_an_item_that_is_gone_keeps_nothing(box: Box) -> None:
    box.run()
    box.graph.items.clear()

    (told,) = box.collect()

    assert told.is_gone


def test_another_server_has_no_say(box: Box) -> None:
    box.run(server="http://elsewhere.baton")

    assert box.kept() == "its run belongs to the server http://elsewhere.baton, which was not asked"


def test_a_server_that_was_restored_has_no_say(box: Box) -> None:
    box.run(incarnation="incarnation-0")

    assert "restored since" in box.kept()


# Places that are not what they should be (case 60)


def test_a_folder_no_run_has_is_listed_and_never_touched(box: Box) -> None:
    place = box.home / "worktrees/project/strange"
    place.mkdir(parents=True)
    (place / "mine.txt").write_text("x" * 10_000)

    (tree,) = box.trees

    assert (tree.kind, tree.run, tree.bytes >= 10_000) == (Kind.FOLDER, None, True)
    assert box.kept() == "no run on record has it"
    assert (place / "mine.txt").exists()


def test_a_folder_git_does_not_know_any_more_stays(box: Box) -> None:
    _, tree = box.run()
    shutil.rmtree(box.repo.folder / ".git/worktrees")

    assert "is not a worktree" in box.kept()
    assert (tree.path / "README.md").exists()


def test_a_registration_without_a_folder_goes_and_its_commits_get_names(box: Box) -> None:
    folder, tree = box.run()
    lost = commit_and_reset(box.repo, tree.path)
    shutil.rmtree(tree.path)

    (missing,) = box.trees
    assert missing.kind is Kind.MISSING
    (told,) = box.collect()

    assert told.is_gone
    assert len(git.worktrees(box.repo.checkout)) == 1
    assert git.commit_of(box.repo.checkout, f"refs/baton/kept/0b101010/{lost[:12]}") == lost
    assert folder.read().worktree_kept is None


def test_what_was_staged_in_a_folder_that_is_gone_keeps_its_registration(box: Box) -> None:
    _, tree = box.run()
    (tree.path / "only.txt").write_text("staged and nowhere else")
    box.repo.git("add", "only.txt", at=tree.path)
    shutil.rmtree(tree.path)

    assert "staged" in box.kept()
    assert len(git.worktrees(box.repo.checkout)) == 2


def test_a_whole_disk_that_is_missing_takes_no_registration_with_it(box: Box) -> None:
    box.run()
    shutil.rmtree(box.home / "worktrees")

    assert "is a disk missing?" in box.kept()
    assert len(git.worktrees(box.repo.checkout)) == 2


@pytest.mark.parametrize("kind", ["file", "link"])
def test_what_stands_in_a_folders_place_stays(box: Box, tmp_path: Path, kind: str) -> None:
    _, tree = box.run()
    shutil.rmtree(tree.path)
    (tmp_path / "elsewhere").mkdir()
    if kind == "file":
        tree.path.write_text("mine")
    else:
        tree.path.symlink_to(tmp_path / "elsewhere")

    assert "is not a directory" in box.kept()
    assert os.path.lexists(tree.path)


def test_a_folder_a_person_removed_properly_is_not_kept_on_record(box: Box) -> None:
    folder, tree = box.run()
    box.repo.git("worktree", "remove", str(tree.path))
    box.repo.git("branch", "--quiet", "-D", tree.branch.removeprefix("refs/heads/"))

    box.collect()

    assert folder.read().worktree_kept is None
    assert box.collect() == ()


def test_a_run_that_moved_elsewhere_keeps_what_it_names(box: Box) -> None:
    folder, tree = box.run()
    trees = box.trees
    with folder.locked() as held:
        held.change(held.read(), worktree=str(tree.path.with_name("moved")))

    (told,) = gc.collect(Collector(box.graph, box.home, box.repo.person), trees)

    assert told.reasons == ("its run's record names another place",)


# Others, meanwhile


@pytest.mark.parametrize("point", ["gc.locked", "gc.judged", "gc.pinned"])
def test_what_is_written_before_the_rename_stays(box: Box, point: str) -> None:
    _, tree = box.run()

    with calling(point, lambda: leave_untracked(tree.path)):
        reasons = box.kept()

    assert reasons == "untracked: notes.txt"
    assert (tree.path / "notes.txt").read_text() == "mine"
    worktree.verify(tree)


@pytest.mark.parametrize("point", ["gc.renamed", "gc.rechecked"])
def test_what_is_written_into_the_trash_brings_the_folder_back(box: Box, point: str) -> None:
    _, tree = box.run()

    with calling(point, lambda: leave_untracked(tree.path.parent / ".trash" / tree.path.name)):
        reasons = box.kept()

    assert reasons == "untracked: notes.txt"
    assert (tree.path / "notes.txt").read_text() == "mine"
    worktree.verify(tree)


def test_a_commit_made_and_taken_back_in_between_has_a_name(box: Box) -> None:
    _, tree = box.run()
    lost: list[git.Sha] = []

    with calling("gc.pinned", lambda: lost.append(commit_and_reset(box.repo, tree.path))):
        (told,) = box.collect()

    assert told.is_gone
    assert git.commit_of(box.repo.checkout, f"refs/baton/kept/0b101010/{lost[0][:12]}") == lost[0]


def test_a_folder_made_anew_in_its_place_is_left_alone(box: Box) -> None:
    _, tree = box.run()

    def make_anew() -> None:
        tree.path.mkdir()
        leave_untracked(tree.path)

    with calling("gc.renamed", make_anew):
        box.collect()
    box.collect()

    assert (tree.path / "notes.txt").read_text() == "mine"


def test_no_line_is_lost_of_somebody_who_writes_all_the_while(box: Box) -> None:
    _, tree = box.run()
    beginning, done = threading.Event(), threading.Event()
    lines = 0

    def write() -> None:
        nonlocal lines
        while not done.is_set():
            with suppress(FileNotFoundError), (tree.path / "log.txt").open("a") as log:
                log.write("line\n")
                log.flush()
                lines += 1
            beginning.set()

    writer = threading.Thread(target=write)

    def begin() -> None:
        writer.start()
        assert beginning.wait(10)

    with calling("gc.judged", begin):
        (told,) = box.collect()
    done.set()
    writer.join(10)

    assert told.reasons == ("untracked: log.txt",)
    assert (tree.path / "log.txt").read_text() == "line\n" * lines
    assert lines


# Looking


def test_a_tree_is_measured_and_dated(box: Box) -> None:
    _, tree = box.run(finished_at=BEGAN.isoformat())
    (tree.path / "big.env").write_bytes(b"x" * 300_000)
    os.link(tree.path / "big.env", tree.path / "same.env")
    (tree.path / "loop.env").symlink_to(tree.path)

    (seen,) = box.trees

    assert 300_000 <= seen.bytes < 500_000
    assert seen.ended_at == BEGAN
    assert seen.stays == ("the run was stopped for giving no sign of life",)


def test_a_home_without_worktrees_has_none(box: Box) -> None:
    assert box.trees == ()


def test_a_repository_that_is_gone_hides_no_tree(box: Box) -> None:
    box.run()
    shutil.rmtree(box.repo.folder)

    assert [tree.kind for tree in gc.survey(box.home, box.repo.person)] == [Kind.FOLDER]
    assert box.kept()


class Killed(BaseException):
    """Stands for kill -9: nothing catches it."""


POINTS = "gc.locked gc.judged gc.pinned gc.renamed gc.rechecked gc.deleted".split()


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("late", [False, True])
def test_a_collection_that_was_cut_off_is_finished_by_the_next(box: Box, point: str, *, late: bool) -> None:
    folder, tree = box.run()
    lost = commit_and_reset(box.repo, tree.path)

    def die() -> None:
        raise Killed

    with calling(point, die), pytest.raises(Killed):
        box.collect()
    aside = tree.path.parent / ".trash" / tree.path.name
    places = [place for place in (tree.path, aside) if place.is_dir()]
    assert len(places) == (0 if point == "gc.deleted" else 1)
    if late and places:
        leave_untracked(places[0])
        assert box.kept() == "untracked: notes.txt"
        (tree.path / "notes.txt").unlink()

    told = box.collect()

    assert [each.is_gone for each in told] == [True]
    assert told[0].branch is None
    assert len(git.worktrees(box.repo.checkout)) == 1
    assert git.commit_of(box.repo.checkout, f"refs/baton/kept/0b101010/{lost[:12]}") == lost
    assert not box.collect()
    assert folder.read().worktree_kept is None


def test_a_trash_is_judged_where_it_is_in_a_dry_run(box: Box) -> None:
    _, tree = box.run()
    assert worktree.put_aside(replace(tree)) == ()
    aside = tree.path.parent / ".trash" / tree.path.name
    leave_untracked(aside)

    (told,) = box.collect(dry_run=True)

    assert (told.tree.kind, told.tree.path, told.reasons) == (Kind.TRASH, tree.path, ("untracked: notes.txt",))
    assert aside.is_dir()
