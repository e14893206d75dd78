"""A person's own commands around a run: one prepares its worktree before the child starts, one clears up after it.

They are argument lists of this box's or of the target checkout's configuration
and never pass through a shell. They run in the worktree, with the environment
of a child but without a token: they prepare a folder, and have no say on the
graph.

    BATON_WORKTREE        the run's worktree, where they stand
    BATON_MAIN_CHECKOUT   the checkout that it was made from
    BATON_DISPATCH_SLUG   the project's slug, empty without one
    BATON_DISPATCH_NODE   the item's id, empty without one

A worktree's `.git` is a file that points into the repository. Who copies the
folder copies the pointer, and what git is told in the copy happens to the
original (case 64). So HEAD and index of worktree and checkout are looked at
before and after: where they moved, the run does not start on that ground.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from batonpass.core import reports
from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId, RunId
from batonpass.worker import environment, git, proc, worktree
from batonpass.worker.crew import MARK, Crew
from batonpass.worker.errors import LaunchRefused, NotStarted, TimedOut, WorkerError
from batonpass.worker.git import Checkout, Head
from batonpass.worker.worktree import Worktree

SET_UP_S_MAX: Final = 300.0
"""How long a set-up may take: an installation of packages, not a build farm. The lease is kept meanwhile."""
TEAR_DOWN_S_MAX: Final = 60.0
WORDS_CHARS_MAX: Final = 500
"""Of what a failing hook printed, its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a hook runs, and for what. `inherited` is the environment that the worker was started with."""

    tree: Worktree
    run: RunId
    slug: str | None
    node: NodeId | None
    inherited: Mapping[str, str]

    def environment(self) -> dict[str, str]:
        """Return the whole environment of a hook; what it leaves behind can be found by the run's mark."""
        return {
            **environment.plain(self.inherited),
            MARK: ":".join(filter(None, [self.inherited.get(MARK), self.run])),
            "PWD": str(self.tree.path),
            "BATON_WORKTREE": str(self.tree.path),
            "BATON_MAIN_CHECKOUT": str(self.tree.repository.folder),
            "BATON_DISPATCH_SLUG": self.slug or "",
            "BATON_DISPATCH_NODE": self.node or "",
        }


@dataclass(frozen=True, slots=True)
class _Standing:
    head: Head
    staged: str


def parse_command(value: object, *, field: str) -> tuple[str, ...]:
    """Return a hook's command as an argument list; one line of text is cut into words, and no shell sees it."""
    try:
        words = shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise Invalid(f"{field}: {error}", field=field) from error
    if not isinstance(words, list | tuple) or not words or not all(isinstance(word, str) and word for word in words):
        raise Invalid(f"{field}: it is a command, as one line or as a list of words", field=field)
    return tuple(map(str, words))


def set_up(
    command: tuple[str, ...],
    site: Site,
    *,
    timeout_s: float = SET_UP_S_MAX,
    stopping: threading.Event | None = None,
) -> None:
    """Prepare a worktree that was just made; `LaunchRefused` says what went wrong, and leaves it as it was made.

    Once `stopping` is set it is ended at once. Whatever is left of the hook's processes then is stopped. One that ended
    well may have left a server running on purpose: that is stopped with the run.
    """
    before = _standing(site)
    try:
        _run(command, site, what="set-up", timeout_s=timeout_s, stopping=stopping)
        _require_unmoved(before, _standing(site), site)
        worktree.verify(site.tree)
    except (WorkerError, OSError) as error:
        Crew(site.run).stop()
        _scour(site.tree)
        raise error if isinstance(error, LaunchRefused) else LaunchRefused(f"the set-up hook: {error}") from error


def tear_down(command: tuple[str, ...], site: Site, *, timeout_s: float = TEAR_DOWN_S_MAX) -> str | None:
    """Clear up after a run; return what went wrong, which stands in the way of nothing."""
    try:
        _run(command, site, what="tear-down", timeout_s=timeout_s)
    except (WorkerError, OSError) as error:
        return str(error)
    return None


def _run(
    command: tuple[str, ...], site: Site, *, what: str, timeout_s: float, stopping: threading.Event | None = None
) -> None:
    program = _program(command[0], site.tree.repository.folder)
    try:
        done = proc.run(
            (program, *command[1:]),
            cwd=site.tree.path,
            environment=site.environment(),
            timeout_s=timeout_s,
            stopping=stopping,
        )
    except TimedOut as error:
        raise LaunchRefused(f"the {what} hook did not end within {timeout_s:g} s and was stopped") from error
    except NotStarted as error:
        raise LaunchRefused(f"the {what} hook could not be started: {error.message}") from error
    if done.code != 0:
        said = reports.storable((done.err.strip() or done.out.strip()).decode(errors="replace"))[-WORDS_CHARS_MAX:]
        raise LaunchRefused(f"the {what} hook ended with exit code {done.code}" + (f": {said}" if said else ""))


def _program(name: str, checkout: Path) -> str:
    """Return the program to start: a path is looked for in the checkout that the configuration is of."""
    return os.path.normpath(checkout / name) if os.sep in name else name


def _standing(site: Site) -> tuple[_Standing, _Standing]:
    return _stands(site.tree.inside), _stands(site.tree.repository)


def _stands(at: Checkout) -> _Standing:
    return _Standing(git.head(at), git.staged(at))


def _require_unmoved(before: tuple[_Standing, _Standing], after: tuple[_Standing, _Standing], site: Site) -> None:
    folders = (site.tree.path, site.tree.repository.folder)
    moved = [str(folder) for folder, was, now in zip(folders, before, after, strict=True) if was != now]
    if moved:
        raise LaunchRefused(
            f"while the set-up hook ran, HEAD or the index of {' and '.join(moved)} moved; a copy of a worktree still"
            " points into the repository, so git must be run in neither (if it was you who worked there, start again)"
        )


def _scour(tree: Worktree) -> None:
    """Leave of the worktree only what we made, so that it can go; one that is not as we made it stays."""
    try:
        worktree.verify(tree)
        if git.commit_of(tree.inside, "HEAD") == tree.base:
            git.scour(tree.inside)
    except (WorkerError, OSError):
        return
