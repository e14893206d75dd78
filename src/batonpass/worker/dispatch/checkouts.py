"""Which checkout an item's run is made from: the one its project's name stands for on this box (D31a).

The map is `dispatch.repos`, from slugs to folders. An item without a project
could be for any repository, so it is for none until somebody says `--dir`. A
checkout that the map gives to another project is refused: work on the wrong
repository is worse than no work, and its hooks would be run too. Worktrees of
runs are never a checkout to start from: they go when their run is over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from batonpass.worker import git
from batonpass.worker.errors import LaunchRefused, WorkerError
from batonpass.worker.git import Checkout
from batonpass.worker.worktree import FOLDER


@dataclass(frozen=True, slots=True)
class Map:
    """What this box knows of checkouts: folders by slug, where one stands, and the home that runs' worktrees are in.

    `environment` is what git is run in.
    """

    repos: Mapping[str, Path]
    standing: Path
    home: Path
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Place:
    """The top of the checkout that was chosen, and by what; `certain` unless somebody merely stands there."""

    folder: Path
    source: str
    certain: bool


def locate(project: str | None, known: Map, *, directory: Path | None = None, force: bool = False) -> Place:
    """Return the checkout for an item of `project`; `LaunchRefused` names what would settle it.

    `directory` is what the person said, which `force` lets stand against the map.
    """
    if directory is not None:
        return _said(project, known, known.standing / directory, force=force)
    if project is None:
        raise LaunchRefused(
            "it names no project, so nobody knows which repository it is for; name a checkout with --dir, or give the"
            " item its project: baton edit ID --set project=SLUG"
        )
    mapped = known.repos.get(project)
    if mapped is not None:
        return Place(_top(mapped, known, f"dispatch.repos.{project}"), f"dispatch.repos.{project}", certain=True)
    return _stood_in(project, known)


def without_item(known: Map, *, directory: Path | None = None) -> Place:
    """Return the checkout for a task in free words: the one that was named, or the one that we stand in."""
    if directory is not None:
        return Place(_top(known.standing / directory, known, "--dir"), "--dir", certain=True)
    return Place(_top(known.standing, known, "the folder you stand in"), "the folder you stand in", certain=True)


def _said(project: str | None, known: Map, folder: Path, *, force: bool) -> Place:
    top = _top(folder, known, "--dir")
    if not force and project is not None:
        _require_unclaimed(project, top, known, source="--dir")
    return Place(top, "--dir", certain=True)


def _stood_in(project: str, known: Map) -> Place:
    source = "the folder you stand in"
    top = _top(known.standing, known, source, way_out=f"dispatch.repos.{project} names no checkout either")
    _require_unclaimed(project, top, known, source=source)
    return Place(top, source, certain=top.name == project)


def _require_unclaimed(project: str, top: Path, known: Map, *, source: str) -> None:
    """Refuse a checkout that the map says is another project's, or for a project whose checkout is another."""
    repository = _repository(top, known)
    mapped = known.repos.get(project)
    if mapped is not None and _repository(mapped, known) != repository:
        raise LaunchRefused(
            f"{source} is {top}, and dispatch.repos.{project} says that {project} is {mapped};"
            " set that right, or say --force"
        )
    owners = [slug for slug, folder in known.repos.items() if _repository(folder, known) == repository]
    if owners and project not in owners:
        raise LaunchRefused(
            f"{source} is {top}, which dispatch.repos says is {', '.join(owners)}, and the item is for {project};"
            f" name its checkout in dispatch.repos.{project}, or say --dir with --force"
        )


def _repository(folder: Path, known: Map) -> Path | None:
    try:
        return git.common_dir(Checkout(folder, known.environment))
    except (WorkerError, OSError):
        return None


def _top(folder: Path, known: Map, source: str, *, way_out: str = "name a checkout with --dir") -> Path:
    try:
        top = git.top_level(Checkout(folder, known.environment))
    except (WorkerError, OSError) as error:
        raise LaunchRefused(f"{source} is {folder}, which is not inside a git checkout; {way_out}") from error
    if top.resolve().is_relative_to((known.home / FOLDER).resolve()):
        raise LaunchRefused(f"{source} is {top}, a run's own worktree; name the checkout it was made from with --dir")
    return top
