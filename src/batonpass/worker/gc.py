"""The end of worktrees that nobody needs: what there is under a home, and removing what is provably done (D31).

    every tree:   run locked ─▶ record read fresh ─▶ its server asked ─▶ judged, pinned, into the trash
    then each:    looked at once more ─▶ deleted ─▶ its branch, if other branches have all of it

Provably done means: the run is settled; the server that it belongs to was
reached and its item read; nothing in the folder is modified, untracked, or
ignored and not made by tools anew; no operation of git is under way; no process
stands in it; and every commit has a name that stays. Whatever can't be shown
keeps the tree, with the reason. A server that does not answer ends a collection
before anything was looked at. A run's branch goes when its folder is gone and
branches that are not runs' have every commit of it.

Folders that no record names are listed and never touched: they may be a
person's, or the last trace of a run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from batonpass.core.errors import BatonError, NotFound
from batonpass.core.points import reach
from batonpass.worker import environment, git, worktree
from batonpass.worker.errors import RunBusy, WorkerError
from batonpass.worker.git import Checkout, Sha
from batonpass.worker.graph import Caller, Graph
from batonpass.worker.journal import HeldRun, Journal, RunFolder
from batonpass.worker.record import RunRecord
from batonpass.worker.worktree import BRANCHES, FOLDER, TRASH, Worktree

BLOCK: Final = 512
"""Bytes, in which the kernel counts what a file takes."""


class Kind(StrEnum):
    """What stands at a worktree's place."""

    FOLDER = "folder"
    TRASH = "trash"
    """A removal did not come to its end: the folder is still in the trash."""
    MISSING = "missing"
    """The repository has it registered, and its folder is gone."""
    OTHER = "other"
    """A file or a link."""
    BRANCH = "branch"
    """Nothing stands there any more, and the run's branch may be left."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A worktree, or what is left of one: where it is or was, of which run, and what it takes in bytes.

    `run` None is a place that no record names. `ended_at` is when its run
    ended or, without that, when the place was last changed.
    """

    path: Path
    kind: Kind
    run: RunFolder | None
    record: RunRecord | None
    bytes: int
    ended_at: datetime | None

    @property
    def stays(self) -> tuple[str, ...]:
        """Why it stays, as far as its record tells that; nothing when only a look can tell."""
        if self.record is None:
            return ("no run on record has it",)
        if not self.record.is_settled:
            return ("its run is not settled",)
        return self.record.worktree_kept or ()


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of a tree, or would in a dry run: it is gone unless there are reasons why it stays.

    `branch` is why its branch stays; None when that is gone too.
    """

    tree: Tree
    reasons: tuple[str, ...]
    branch: str | None

    @property
    def is_gone(self) -> bool:
        """Whether it is gone."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class Collector:
    """What a collection works with: the server to ask, and where runs and worktrees are.

    `disposable` says what tools make anew in worktrees of a repository.
    """

    graph: Graph
    home: Path
    inherited: Mapping[str, str]
    disposable: Callable[[Path], Sequence[str]] = lambda _: worktree.DISPOSABLE


def survey(home: Path, inherited: Mapping[str, str]) -> tuple[Tree, ...]:
    """Return every worktree there is under `home`, by path; asks no server, and changes nothing."""
    records = _records(home)
    elsewhere = ((path, _kind(path)) for path in records if os.path.lexists(path))
    missing = ((path, Kind.MISSING) for path in _missing(home / FOLDER, records, inherited))
    places = {**dict(missing), **dict(elsewhere), **dict(_places(home / FOLDER))}
    return tuple(_tree(path, kind, records.get(path)) for path, kind in sorted(places.items()))


def branches(home: Path, inherited: Mapping[str, str], *, beside: Iterable[Tree]) -> tuple[Tree, ...]:
    """Return the places of settled runs where nothing is left but a branch, or the record's word of a folder.

    Those in `beside` are passed over.
    """
    known = {tree.path for tree in beside}
    gone = {path: found for path, found in _records(home).items() if path not in known and found[1].is_settled}
    there = _branches_of({record.repository for _, record in gone.values()}, inherited)
    return tuple(
        _tree(path, Kind.BRANCH, found)
        for path, found in sorted(gone.items())
        if found[1].worktree_kept or (found[1].repository, found[1].branch) in there
    )


def collect(collector: Collector, trees: Iterable[Tree], *, dry_run: bool = False) -> tuple[Collected, ...]:
    """Remove those of `trees` that are provably done; return what became of each.

    All that goes is in the trash before the first is deleted. The errors of a
    server that can't be asked are raised, and nothing has been changed then.
    """
    caller = collector.graph.caller()
    with ExitStack() as locks:
        ends = [_End(collector, tree, caller, locks) for tree in trees]
        for end in ends:
            end.judge(dry_run=dry_run)
        return tuple(end.finish(dry_run=dry_run) for end in ends)


class _End:
    """The end of one tree, in two steps, under its run's lock from the first to the last."""

    def __init__(self, collector: Collector, tree: Tree, caller: Caller, locks: ExitStack) -> None:
        self._graph = collector.graph
        self._inherited = collector.inherited
        self._disposable_in = collector.disposable
        self._disposable: Sequence[str] = ()
        self._tree = tree
        self._caller = caller
        self._locks = locks
        self._held: HeldRun | None = None
        self._worktree: Worktree | None = None
        self._reasons: tuple[str, ...] = ()

    def judge(self, *, dry_run: bool) -> None:
        """Find out whether the tree may go, and move it into the trash if it may."""
        try:
            self._reasons = self._lock() or self._judge(dry_run=dry_run)
        except (BatonError, WorkerError) as error:
            self._reasons = (error.message,)
        except OSError as error:
            self._reasons = (str(error),)

    def finish(self, *, dry_run: bool) -> Collected:
        """Delete what is in the trash, and its branch if nothing is lost with it; write down what stays."""
        if self._worktree is None or self._held is None:
            return Collected(self._tree, self._reasons, branch=None)
        if not self._reasons and not dry_run:
            self._delete(self._held, self._worktree)
        if self._reasons:
            return Collected(self._tree, self._reasons, branch="its worktree stays")
        return Collected(self._tree, (), branch=_end_branch(self._worktree, dry_run=dry_run))

    def _lock(self) -> tuple[str, ...]:
        if self._tree.run is None:
            return self._tree.stays
        try:
            self._held = self._locks.enter_context(self._tree.run.locked())
        except RunBusy:
            return ("its run is at work, or being settled",)
        reach("gc.locked")
        return ()

    def _judge(self, *, dry_run: bool) -> tuple[str, ...]:
        assert self._held is not None
        record = self._held.read()
        self._worktree = worktree.of_run(record, self._inherited)
        self._disposable = self._disposable_in(Path(record.repository))
        if not record.is_settled:
            return ("its run is not settled; the next worker settles it",)
        if reasons := self._reasons_elsewhere(record):
            return reasons
        if self._worktree is None or self._worktree.path != self._tree.path:
            return ("its run's record names another place",)
        if self._tree.kind is Kind.BRANCH:
            return ()
        if self._tree.kind is Kind.MISSING:
            return _unregistrable(self._worktree)
        if dry_run:
            return worktree.judge(self._worktree, disposable=self._disposable)
        reasons = worktree.put_aside(self._worktree, disposable=self._disposable)
        if reasons:
            # A list that asks nobody can say then why it stays.
            self._held.change(record, worktree_kept=reasons)
        return reasons

    def _reasons_elsewhere(self, record: RunRecord) -> tuple[str, ...]:
        """Return why the server has a say against it, or none: it must be the run's own, and know the item now."""
        if self._graph.server != record.server:
            return (f"its run belongs to the server {record.server}, which was not asked",)
        if self._caller.incarnation != record.incarnation:
            return ("the server's database was restored since, so what it says of the item is older than the run",)
        if record.node_id is not None:
            with suppress(NotFound):
                self._graph.node(record.node_id)
        return ()

    def _delete(self, held: HeldRun, tree: Worktree) -> None:
        try:
            if self._tree.kind is Kind.MISSING:
                self._reasons = _unregister(tree)
            else:
                self._reasons = worktree.delete(tree, disposable=self._disposable)
            held.change(held.read(), worktree_kept=self._reasons or None)
        except WorkerError as error:
            self._reasons = (error.message,)
        except OSError as error:
            self._reasons = (str(error),)


# --- what there is ---------------------------------------------------------------------------------------------------


def _records(home: Path) -> dict[Path, tuple[RunFolder, RunRecord]]:
    """Return the runs by the places of their worktrees."""
    return {Path(record.worktree): (run, record) for run, record in Journal(home).records() if record.worktree}


def _places(folder: Path) -> Iterator[tuple[Path, Kind]]:
    """Yield what stands where worktrees are; what is in the trash goes by the place it was moved from."""
    for repository in _entries(folder):
        for entry in _entries(repository):
            if entry.name == TRASH:
                for gone in _entries(entry):
                    yield (gone if os.path.lexists(back := repository / gone.name) else back), Kind.TRASH
            else:
                yield entry, _kind(entry)


def _kind(path: Path) -> Kind:
    return Kind.FOLDER if path.is_dir() and not path.is_symlink() else Kind.OTHER


def _branches_of(repositories: Iterable[str], inherited: Mapping[str, str]) -> set[tuple[str, str | None]]:
    """Return the runs' branches there are, each with its repository."""
    found: set[tuple[str, str | None]] = set()
    for repository in repositories:
        with suppress(WorkerError, OSError):
            at = Checkout(Path(repository), environment.for_git(inherited))
            found |= {(repository, ref) for ref in git.refs_under(at, BRANCHES)}
    return found


def _entries(folder: Path) -> Sequence[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return ()


def _missing(
    folder: Path, records: Mapping[Path, tuple[RunFolder, RunRecord]], inherited: Mapping[str, str]
) -> Iterator[Path]:
    """Yield places under `folder` that the repositories of runs have registered though nothing is there."""
    for repository in sorted({record.repository for _, record in records.values()}):
        with suppress(WorkerError, OSError):
            for listed in git.worktrees(Checkout(Path(repository), environment.for_git(inherited))):
                if listed.path.is_relative_to(folder) and not os.path.lexists(listed.path):
                    yield listed.path


def _tree(path: Path, kind: Kind, found: tuple[RunFolder, RunRecord] | None) -> Tree:
    run, record = found or (None, None)
    there = path.parent / TRASH / path.name if kind is Kind.TRASH and path.parent.name != TRASH else path
    ended = None if record is None else record.finished_at or record.created_at
    return Tree(path, kind, run, record, _bytes_of(there), _changed_at(there) if ended is None else _moment(ended))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _changed_at(path: Path) -> datetime | None:
    with suppress(OSError):
        return datetime.fromtimestamp(path.lstat().st_mtime).astimezone()
    return None


def _bytes_of(path: Path) -> int:
    """Return what a folder takes on disk; a file with several names is counted once, and no link is followed."""
    seen: set[tuple[int, int]] = set()
    total = 0
    for each in _all_of(path):
        with suppress(OSError):
            facts = each.lstat()
            if stat.S_ISDIR(facts.st_mode) or (facts.st_dev, facts.st_ino) not in seen:
                total += facts.st_blocks * BLOCK
            seen.add((facts.st_dev, facts.st_ino))
    return total


def _all_of(path: Path) -> Iterator[Path]:
    yield path
    for folder, folders, files in os.walk(path):
        yield from (Path(folder, name) for name in (*folders, *files))


# --- what is left of one ---------------------------------------------------------------------------------------------


def _unregistrable(tree: Worktree) -> tuple[str, ...]:
    """Return why the registration of a folder that is gone is to stay."""
    if not tree.path.parent.is_dir():
        return (f"{tree.path.parent} is not there: is a disk missing?",)
    registered = git.registration(tree.repository, tree.path)
    if registered is not None and git.has_staged(registered):
        return ("its folder is gone, but what was staged in it is in no commit",)
    return ()


def _unregister(tree: Worktree) -> tuple[str, ...]:
    """Remove the registration of a folder that is gone, once its commits have names; return why it stays."""
    registered = git.registration(tree.repository, tree.path)
    if registered is None or os.path.lexists(tree.path):
        return ()
    worktree.pin(tree, registered)
    git.remove_worktree(tree.repository, tree.path)
    return ()


def _end_branch(tree: Worktree, *, dry_run: bool) -> str | None:
    """Delete a run's branch unless something would be lost with it; return why it stays.

    It goes as it was judged: a commit that comes in between keeps it.
    """
    try:
        tip = git.commit_of(tree.repository, tree.branch)
        if tip is None:
            return None
        if reason := _branch_stays(tree, tip):
            return reason
        if not dry_run:
            git.delete_ref(tree.repository, tree.branch, expected=tip)
    except WorkerError as error:
        return error.message
    except OSError as error:
        return str(error)
    return None


def _branch_stays(tree: Worktree, tip: Sha) -> str | None:
    if others := worktree.stood_on_by_others(tree):
        return f"it is checked out in {', '.join(map(str, others))}"
    if all(ref.startswith(BRANCHES) for ref in git.refs_with(tree.repository, tip)):
        return "it has commits that no other branch has"
    return None
