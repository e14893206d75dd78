"""Worktrees of runs: made verified, removed only when nothing in them could be missed (D31).

A run works in a folder of its own under a branch of its own. The folder is
made by us and looked at again before anything is started in it; if it is not
what it should be, the launch is refused, and nothing is repaired or reused: the
wrong folder may be a person's. When the run is over the folder goes if all it
holds is on the branch already. Anything else keeps it, with the reasons.

    judged ─▶ pinned ─▶ renamed ─▶ rechecked ─▶ looked at again, deleted
    in its    commits   into the    what was written in between
    place     no name   trash       brings it back
              leads to

**What a crash leaves.** A folder in its place or in the trash, never half of
one that could be missed: what is deleted was found empty of that before. Who
removes it next brings it back first, and judges it anew.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final

from batonpass.core.ids import NodeId
from batonpass.core.points import reach
from batonpass.worker import environment, git
from batonpass.worker.errors import GitFailed, TimedOut, WorkerError, WorktreeRefused
from batonpass.worker.git import HEADS, Checkout, Sha
from batonpass.worker.record import RunRecord

FOLDER: Final = "worktrees"
"""Where worktrees are, under a home: one folder for each repository, and in it one for each run (D31a)."""
BRANCHES: Final = f"{HEADS}baton/"
"""Where the branches of runs are. That one of them has a commit keeps nothing: it may go itself."""
DISPOSABLE: Final = (
    "__pycache__",
    "*.pyc",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".tox",
    ".nox",
    ".venv",
    "node_modules",
)
"""Ignored files and folders that tools make anew; any other ignored file keeps a worktree."""
PATHS_SHOWN_MAX: Final = 5
TRASH: Final = ".trash"
"""Where folders wait to be deleted: beside them, so that moving one there is a rename."""
_PIN_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Worktree:
    """A run's folder: where it is, the branch made for it, the commit that branch began at, and its repository.

    `repository` is the checkout it was made from, which commands that create
    and remove it run in.
    """

    path: Path
    branch: str
    base: Sha
    repository: Checkout

    @property
    def inside(self) -> Checkout:
        """The worktree as a folder to run git in."""
        return Checkout(self.path, self.repository.environment)


def planned(home: Path, repository: Checkout, base: Sha, *, node: NodeId | None, run: str) -> Worktree:
    """Return the worktree that a run on `node` will be given, `run` being what its id begins with; none is made."""
    path = home / FOLDER / (repository.folder.name or "root") / run
    return Worktree(path, f"{BRANCHES}{node or 'run'}-{run}", base, repository)


def of_run(record: RunRecord, inherited: Mapping[str, str]) -> Worktree | None:
    """Return the worktree that a run was given, whether or not it is there; None when it was given none."""
    if record.worktree is None or record.branch is None:
        return None
    repository = Checkout(Path(record.repository), environment.for_git(inherited))
    return Worktree(Path(record.worktree), record.branch, record.base, repository)


def create(worktree: Worktree) -> None:
    """Make the folder, its branch at `base`, and check both; `WorktreeRefused` leaves nothing behind."""
    if os.path.lexists(worktree.path):
        raise WorktreeRefused(f"{worktree.path} exists already; a run's worktree is never made over something else")
    if git.has_ref(worktree.repository, worktree.branch):
        raise WorktreeRefused(f"the branch {worktree.branch} exists already; a run's branch is made once")
    worktree.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        git.add_worktree(worktree.repository, worktree.path, branch=worktree.branch, commit=worktree.base)
    except (GitFailed, TimedOut) as error:
        discard(worktree)
        raise WorktreeRefused(f"no worktree could be made: {error.message}") from error
    try:
        verify(worktree)
    except BaseException:
        _take_back(worktree)
        raise


def verify(worktree: Worktree) -> None:
    """Raise `WorktreeRefused` unless the folder is this repository's worktree on the run's branch."""
    path = worktree.path
    if not path.is_dir() or path.is_symlink():
        raise WorktreeRefused(f"{path} is not a directory; it is registered or expected there, and is gone or replaced")
    try:
        top, repository = git.top_level(worktree.inside), git.common_dir(worktree.inside)
        expected, ref = git.common_dir(worktree.repository), git.head_ref(worktree.inside)
    except GitFailed as error:
        raise WorktreeRefused(f"{path} is not a worktree: {error.message}") from error
    if top.resolve() != path.resolve():
        # An empty folder inside some other checkout answers with that one's top.
        raise WorktreeRefused(f"{path} is not a worktree of its own, but a folder of {top}")
    if repository != expected:
        raise WorktreeRefused(f"{path} belongs to the repository {repository}, not to {expected}")
    if ref != worktree.branch:
        raise WorktreeRefused(f"{path} is on {ref or 'no branch'}, not on {worktree.branch}")


def commit_count(worktree: Worktree) -> int | None:
    """Return how many commits the run's branch has beyond its base, or None when that can't be told.

    A branch without any is only believed when the folder stands on it and
    never stood on anything newer: commits made elsewhere are commits too (D18).
    """
    try:
        count = git.count_commits(worktree.repository, since=worktree.base, until=worktree.branch)
        return None if count == 0 and _may_have_committed_elsewhere(worktree) else count
    except WorkerError:
        return None


def _may_have_committed_elsewhere(worktree: Worktree) -> bool:
    if not os.path.lexists(worktree.path):
        return False
    return git.head_ref(worktree.inside) != worktree.branch or git.has_been_beyond(worktree.inside, worktree.base)


def discard(worktree: Worktree) -> tuple[str, ...]:
    """Undo `create`: remove folder and branch as far as nothing was done in them; return why something stays."""
    return remove(worktree) or _drop_untouched_branch(worktree)


def remove(worktree: Worktree, *, disposable: Sequence[str] = DISPOSABLE) -> tuple[str, ...]:
    """Remove the folder when nothing in it could be missed; return the reasons when it stays.

    Commits stay on the branch; those that no branch holds are kept under
    ``refs/baton/kept/<folder>/`` first. A branch that nothing was committed to
    goes with its folder, unless somebody else stands on it. Safe to repeat after a crash at any point.
    """
    if reasons := put_aside(worktree, disposable=disposable):
        return reasons
    return delete(worktree, disposable=disposable) or _drop_untouched_branch(worktree)


def judge(worktree: Worktree, *, disposable: Sequence[str] = DISPOSABLE) -> tuple[str, ...]:
    """Return why the folder is to stay where it is; nothing when it may go. Changes nothing."""
    aside = _aside(worktree)
    try:
        if os.path.lexists(worktree.path):
            verify(worktree)
            return _reasons_to_keep(worktree.inside, disposable)
        return _reasons_to_keep(Checkout(aside, worktree.repository.environment), disposable) if aside.is_dir() else ()
    except (WorkerError, OSError) as error:
        return (str(error),)


def put_aside(worktree: Worktree, *, disposable: Sequence[str] = DISPOSABLE) -> tuple[str, ...]:
    """Move the folder into the trash when nothing in it could be missed; return the reasons when it stays.

    It is looked at before and after: what was written in between brings it back.
    """
    try:
        _bring_back(worktree)
        if not os.path.lexists(worktree.path):
            return ()
        verify(worktree)
        return _reasons_to_keep(worktree.inside, disposable) or _move_checked(worktree, disposable)
    except (WorkerError, OSError) as error:
        return (str(error),)


def delete(worktree: Worktree, *, disposable: Sequence[str] = DISPOSABLE) -> tuple[str, ...]:
    """Delete the folder that was put aside; bring it back, and return the reasons, when it is in use once more."""
    aside = Checkout(_aside(worktree), worktree.repository.environment)
    if not aside.folder.is_dir():
        return ()
    try:
        pin(worktree, aside)
        if reasons := _reasons_to_keep(aside, disposable):
            _bring_back(worktree)
            return reasons
        git.remove_worktree(worktree.repository, aside.folder)
    except (WorkerError, OSError) as error:
        return (str(error),)
    reach("gc.deleted")
    return ()


def pin(worktree: Worktree, inside: Checkout) -> None:
    """Give a name to each commit that only this worktree leads to; nobody's garbage collection takes it then."""
    for commit in git.unreferenced(inside):
        name = f"{git.KEPT}{worktree.path.name}/{commit[:_PIN_DIGITS]}"
        git.create_ref(worktree.repository, name, commit)


def stood_on_by_others(worktree: Worktree) -> tuple[Path, ...]:
    """Return the other worktrees that have the run's branch checked out: without it they would stand on nothing."""
    own = {os.path.realpath(path) for path in (worktree.path, _aside(worktree))}
    listed = git.worktrees(worktree.repository)
    return tuple(each.path for each in listed if each.ref == worktree.branch and os.path.realpath(each.path) not in own)


def _move_checked(worktree: Worktree, disposable: Sequence[str]) -> tuple[str, ...]:
    repository, aside = worktree.repository, _aside(worktree)
    reach("gc.judged")
    pin(worktree, worktree.inside)
    reach("gc.pinned")
    aside.parent.mkdir(exist_ok=True, mode=0o700)
    git.move_worktree(repository, worktree.path, aside)
    reach("gc.renamed")
    reasons = _reasons_to_keep(Checkout(aside, repository.environment), disposable)
    if reasons:
        _bring_back(worktree)
    reach("gc.rechecked")
    return reasons


def _bring_back(worktree: Worktree) -> None:
    """Undo a removal that did not come to its end, so that it is judged anew."""
    if _aside(worktree).is_dir() and not os.path.lexists(worktree.path):
        git.move_worktree(worktree.repository, _aside(worktree), worktree.path)


def _aside(worktree: Worktree) -> Path:
    return worktree.path.parent / TRASH / worktree.path.name


def _reasons_to_keep(inside: Checkout, disposable: Sequence[str]) -> tuple[str, ...]:
    """Return what stands in a worktree that somebody could miss."""
    status, blind = git.status(inside), git.blind_spots(inside)
    ignored = tuple(path for path in status.ignored if not _is_disposable(path, disposable))
    return tuple(
        filter(
            None,
            (
                _listing("modified", status.changed),
                _listing("untracked", status.untracked),
                _listing("ignored", ignored),
                _listing("not watched by git", blind.unwatched),
                _listing("git removes no worktree with submodules checked out", blind.submodules),
                "an operation of git is in progress" if git.is_operation_in_progress(inside) else "",
                _listing("in use by process", tuple(map(str, _inhabitants(inside.folder)))),
            ),
        )
    )


def _take_back(worktree: Worktree) -> None:
    """Remove what was added just now and found wrong: git refuses if anything was changed in it."""
    with suppress(WorkerError):
        git.remove_worktree(worktree.repository, worktree.path)
        _drop_untouched_branch(worktree)


def _drop_untouched_branch(worktree: Worktree) -> tuple[str, ...]:
    try:
        tip = git.commit_of(worktree.repository, worktree.branch)
        if tip == worktree.base and not stood_on_by_others(worktree):
            git.delete_ref(worktree.repository, worktree.branch, expected=worktree.base)
    except WorkerError as error:
        return (f"the branch {worktree.branch} could not be deleted: {error.message}",)
    return ()


def _is_disposable(path: str, disposable: Sequence[str]) -> bool:
    return any(fnmatchcase(part, glob) for part in PurePosixPath(path).parts for glob in disposable)


def _listing(what: str, items: Sequence[str]) -> str:
    if not items:
        return ""
    more = f" and {len(items) - PATHS_SHOWN_MAX} more" if len(items) > PATHS_SHOWN_MAX else ""
    return f"{what}: {', '.join(items[:PATHS_SHOWN_MAX])}{more}"


def _inhabitants(folder: Path) -> Iterator[int]:
    """Yield the processes whose working directory is in `folder`: somebody's shell, or a stray."""
    import psutil  # a supervisor that has no worktree to remove yet starts without it

    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if Path(process.cwd()).is_relative_to(folder.resolve()):
                yield process.pid
