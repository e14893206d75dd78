"""Git: one function for each command, typed answers, and the only module that runs it.

Every command names its folder, runs in an environment without anybody's
`GIT_*`, and is told to run no hooks, sign nothing and start no helper that
stays behind. References are whole (`refs/heads/…`) wherever git lets them be,
so that a branch called like a tag, or like an option, means what it says. Lists
are asked for with NUL at the end of each item: a file name may hold anything
else. Whatever git refuses is a `GitFailed` with git's own words.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NewType

from batonpass.worker import proc
from batonpass.worker.errors import GitFailed

Sha = NewType("Sha", str)
"""A commit's full name in lower-case hex."""

HEADS: Final = "refs/heads/"
KEPT: Final = "refs/baton/kept/"
"""Commits of a run that no branch holds; nobody's garbage collection takes them (D31)."""
TIMEOUT_S: Final = 300.0
"""For the slowest command, checking out a large tree on a slow disk."""
MESSAGE_CHARS_MAX: Final = 500
_QUIET: Final = tuple(
    word
    for setting in (
        "core.hooksPath=/dev/null",
        "commit.gpgSign=false",
        "core.fsmonitor=false",
        "gc.auto=0",
        "maintenance.auto=false",
    )
    for word in ("-c", setting)
)
_GITLINK: Final = "160000"
"""The mode of an entry of the index that stands for a submodule."""
_SPARSE: Final = "S"
"""How git marks an entry that is told not to be in the worktree; lower case marks one assumed to be unchanged."""
_OWN_NAMES: Final = ("HEAD", "ORIG_HEAD", "REBASE_HEAD")
_OWN_REFS: Final = ("refs/worktree", "refs/bisect", "refs/rewritten")
"""What each worktree has of its own, and loses when it is removed."""
_IN_PROGRESS: Final = (
    "MERGE_HEAD CHERRY_PICK_HEAD REVERT_HEAD BISECT_LOG rebase-merge rebase-apply sequencer index.lock".split()
)


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder that git is run in, and the whole environment it gets (`environment.for_git`)."""

    folder: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Head:
    """What is checked out: the branch's full name, None when detached; the commit, None when there is none yet."""

    ref: str | None
    commit: Sha | None


@dataclass(frozen=True, slots=True)
class Listed:
    """One worktree as the repository has it registered, whether or not its folder is there."""

    path: Path
    ref: str | None


@dataclass(frozen=True, slots=True)
class Status:
    """What stands in a worktree beside its commit, as paths from its top; ignored folders are not listed inside."""

    changed: tuple[str, ...]
    untracked: tuple[str, ...]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blind:
    """What `status` can't be believed about, as paths from the top.

    `unwatched` are tracked files that git was told not to look at, as far as
    there is something to look at; `submodules` are those checked out here.
    """

    unwatched: tuple[str, ...]
    submodules: tuple[str, ...]


def top_level(at: Checkout) -> Path:
    """Return the folder at the top of this worktree."""
    return Path(_line(at, "rev-parse", "--path-format=absolute", "--show-toplevel"))


def common_dir(at: Checkout) -> Path:
    """Return the folder that all worktrees of this repository share: the repository itself."""
    return Path(_line(at, "rev-parse", "--path-format=absolute", "--git-common-dir")).resolve()


def commit_of(at: Checkout, ref: str) -> Sha | None:
    """Return the commit that `ref` names, or None when it names none."""
    found = _git(at, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", allowed=(0, 1, 128))
    return Sha(_text(found.out).strip()) if found.code == 0 else None


def full_name(at: Checkout, name: str) -> str | None:
    """Return the whole name of the reference a person calls `name`: a branch before a remote's branch before a tag."""
    places = ("",) if name.startswith("refs/") else (HEADS, "refs/remotes/", "refs/tags/")
    return next((place + name for place in places if has_ref(at, place + name)), None)


def has_ref(at: Checkout, ref: str) -> bool:
    """Whether the reference with this whole name exists."""
    return _git(at, "show-ref", "--verify", "--quiet", "--", ref, allowed=(0, 1, 128)).code == 0


def head(at: Checkout) -> Head:
    """Return what is checked out here."""
    return Head(head_ref(at), commit_of(at, "HEAD"))


def head_ref(at: Checkout) -> str | None:
    """Return the branch that is checked out here, or None when it is a commit and no branch."""
    symbolic = _git(at, "symbolic-ref", "--quiet", "HEAD", allowed=(0, 1))
    return _text(symbolic.out).strip() if symbolic.code == 0 else None


def count_commits(at: Checkout, *, since: Sha, until: str) -> int:
    """Return how many commits `until` has that `since` has not."""
    return int(_line(at, "rev-list", "--count", "--end-of-options", f"{since}..{until}"))


def has_been_beyond(at: Checkout, since: Sha) -> bool:
    """Whether this worktree leads to a commit that `since` has not, on whatever branch or on none."""
    points = been_at(at)
    listed = _git(at, "rev-list", "--ignore-missing", "--max-count=1", "--stdin", stdin=_lines([*points, f"^{since}"]))
    return bool(listed.out)


def status(at: Checkout) -> Status:
    """Return what is modified, untracked and ignored here; a file that was only touched is none of these."""
    out = _git(
        at,
        "status",
        "--porcelain=v2",
        "-z",
        "--untracked-files=all",
        "--ignored=matching",
        "--ignore-submodules=none",
        "--no-renames",
    ).out
    lines = _text(out).split("\0")[:-1]
    return Status(
        changed=tuple(_changed_path(line) for line in lines if line[0] in "12u"),
        untracked=tuple(line[2:] for line in lines if line[0] == "?"),
        ignored=tuple(line[2:] for line in lines if line[0] == "!"),
    )


def blind_spots(at: Checkout) -> Blind:
    """Return the tracked files that `status` skips over, and the submodules it doesn't enter."""
    unwatched, submodules = [], []
    for line in _text(_git(at, "ls-files", "-z", "-v", "--stage").out).split("\0")[:-1]:
        facts, _, path = line.partition("\t")
        mark, mode, *_ = facts.split(" ")
        if mode == _GITLINK and os.path.lexists(at.folder / path / ".git"):
            submodules.append(path)
        # What a sparse checkout leaves out is not here to be missed.
        elif mark.islower() or (mark == _SPARSE and os.path.lexists(at.folder / path)):
            unwatched.append(path)
    return Blind(tuple(unwatched), tuple(submodules))


def staged(at: Checkout) -> str:
    """Return what the index holds, as a digest: the same for the same content, whatever was only touched."""
    return hashlib.sha256(_git(at, "ls-files", "-z", "--stage").out).hexdigest()


def scour(at: Checkout) -> None:
    """Take back everything in this worktree that is not its commit, ignored files included: only for what we made."""
    _git(at, "reset", "--quiet", "--hard")
    _git(at, "clean", "--quiet", "-ffdx")


def is_operation_in_progress(at: Checkout) -> bool:
    """Whether a merge, rebase, pick or bisect is under way here, or something holds the index."""
    folder = Path(_line(at, "rev-parse", "--absolute-git-dir"))
    return any(os.path.lexists(folder / name) for name in _IN_PROGRESS)


def worktrees(at: Checkout) -> tuple[Listed, ...]:
    """Return every worktree that the repository has registered, its main one first."""
    with _alone_among_worktrees(at):
        out = _text(_git(at, "worktree", "list", "--porcelain", "-z").out)
    return tuple(_listed(block.split("\0")) for block in out.split("\0\0") if block)


def add_worktree(at: Checkout, path: Path, *, branch: str, commit: Sha) -> None:
    """Check `commit` out at `path` under a new branch, whole name `branch`; refuse when the branch exists.

    The branch is made here once and never moved: resetting it would take the
    only name from whatever an earlier run left on it (D31).
    """
    short = branch.removeprefix(HEADS)
    with _alone_among_worktrees(at):
        _git(at, "worktree", "add", "--quiet", "--no-track", "-b", short, "--", str(path), commit)


def move_worktree(at: Checkout, path: Path, to: Path) -> None:
    """Move a worktree and its registration."""
    with _alone_among_worktrees(at):
        _git(at, "worktree", "move", "--", str(path), str(to))


def remove_worktree(at: Checkout, path: Path) -> None:
    """Remove a worktree and its registration; git refuses when it has modified or untracked files.

    Ignored files go with it: look at `status` first.
    """
    with _alone_among_worktrees(at):
        _git(at, "worktree", "remove", "--", str(path))


def been_at(at: Checkout) -> frozenset[Sha]:
    """Return the commits that this worktree alone leads to: where its HEAD is and was, and its own references."""
    logged = _text(_git(at, "reflog", "show", "--format=%H", "HEAD", "--", allowed=(0, 128)).out).split()
    own = _text(_git(at, "for-each-ref", "--format=%(refname)", *_OWN_REFS).out).split()
    named = (commit_of(at, name) for name in (*_OWN_NAMES, *own))
    return frozenset({*map(Sha, logged), *filter(None, named)})


def unreferenced(at: Checkout) -> tuple[Sha, ...]:
    """Return the commits this worktree leads to that no branch, tag or kept reference holds.

    They live by its reflog and its own references alone, and are lost when it
    is removed. Of commits that build on each other, the last stands for all.
    """
    points = been_at(at)
    if not points:
        return ()
    named = ("--not", "--branches", "--tags", "--remotes", f"--glob={KEPT}*")
    missing = _text(_git(at, "rev-list", "--ignore-missing", "--stdin", *named, stdin=_lines(points)).out).split()
    return _independent(at, [Sha(commit) for commit in missing if commit in points])


def refs_under(at: Checkout, prefix: str) -> dict[str, Sha]:
    """Return the references whose full names begin with `prefix`, a folder of names, and where each points."""
    lines = _text(_git(at, "for-each-ref", "--format=%(refname) %(objectname)", prefix).out).splitlines()
    return {name: Sha(commit) for name, _, commit in (line.partition(" ") for line in lines)}


def refs_with(at: Checkout, commit: Sha) -> tuple[str, ...]:
    """Return the full names of the branches, remotes' branches and tags that have this commit."""
    places = (HEADS, "refs/remotes/", "refs/tags/")
    return tuple(_text(_git(at, "for-each-ref", f"--contains={commit}", "--format=%(refname)", *places).out).split())


def registration(at: Checkout, path: Path) -> Checkout | None:
    """Return what the repository keeps of the worktree at `path`, to run git in though the folder is gone.

    That is its HEAD, its index and its reflog. None when nothing is registered for `path`.
    """
    for entry in sorted((common_dir(at) / "worktrees").glob("*/gitdir")):
        with suppress(OSError):
            noted = os.fsdecode(entry.read_bytes()).removesuffix("\n")
            if os.path.normpath(entry.parent / noted) == str(path / ".git"):
                return Checkout(at.folder, {**at.environment, "GIT_DIR": str(entry.parent)})
    return None


def has_staged(at: Checkout) -> bool:
    """Whether the index holds anything that the commit does not."""
    return _git(at, "diff-index", "--cached", "--quiet", "HEAD", "--", allowed=(0, 1)).code != 0


def create_ref(at: Checkout, ref: str, commit: Sha) -> None:
    """Create a reference; refuse when it exists with another value."""
    if commit_of(at, ref) != commit:
        _git(at, "update-ref", "--no-deref", ref, commit, "0" * len(commit))


def delete_ref(at: Checkout, ref: str, *, expected: Sha) -> None:
    """Delete a reference that still points at `expected`; refuse when it has moved."""
    _git(at, "update-ref", "--no-deref", "-d", ref, expected)


def init(at: Checkout, *, branch: str) -> None:
    """Make the folder a repository whose first branch is `branch`."""
    _git(at, "init", "--quiet", f"--initial-branch={branch}")


def commit_all(at: Checkout, message: str) -> Sha:
    """Commit everything in the worktree, as the machine, and return the commit."""
    _git(at, "add", "--all")
    _git(at, "commit", "--quiet", f"--message={message}")
    commit = commit_of(at, "HEAD")
    assert commit is not None
    return commit


def setting(at: Checkout, name: str) -> str | None:
    """Return what git is configured to for `name` here (``user.email``, say), or None where it is not."""
    done = _git(at, "config", "--get", name, allowed=(0, 1))
    return _text(done.out).removesuffix("\n") or None


@contextmanager
def _alone_among_worktrees(at: Checkout) -> Iterator[None]:
    """Wait for our turn with the repository's list of worktrees: git trips over entries that others are half-way with.

    A file system that locks no folders leaves us to git's own luck.
    """
    folder = os.open(common_dir(at), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _independent(at: Checkout, commits: Sequence[Sha]) -> tuple[Sha, ...]:
    if len(commits) <= 1:
        return tuple(commits)
    return tuple(Sha(line) for line in _text(_git(at, "merge-base", "--independent", *commits).out).split())


def _changed_path(line: str) -> str:
    """Return the path in one line of status: ordinary ones have 8 fields before it, renamed ones 9, unmerged 10."""
    return line.split(" ", {"1": 8, "2": 9, "u": 10}[line[0]])[-1]


def _listed(lines: Sequence[str]) -> Listed:
    facts = dict(line.partition(" ")[::2] for line in lines if line)
    return Listed(Path(facts["worktree"]), facts.get("branch"))


def _line(at: Checkout, *command: str) -> str:
    # Exactly one: a path may end in a line break of its own.
    return _text(_git(at, *command).out).removesuffix("\n")


def _lines(items: Iterable[str]) -> bytes:
    return "".join(f"{item}\n" for item in items).encode()


def _text(data: bytes) -> str:
    # As the operating system itself would: a path that is not UTF-8 can still be opened.
    return os.fsdecode(data)


def _git(at: Checkout, *command: str, allowed: Sequence[int] = (0,), stdin: bytes = b"") -> proc.Completed:
    argv = ["git", *_QUIET, *command]
    done = proc.run(argv, cwd=at.folder, environment=at.environment, timeout_s=TIMEOUT_S, stdin=stdin)
    if done.code not in allowed:
        words = done.err.decode(errors="replace").strip()[-MESSAGE_CHARS_MAX:]
        raise GitFailed(f"git {command[0]} in {at.folder}: {words or f'exit status {done.code}'}", code=done.code)
    return done
