"""Norms: which of them ride along with a briefing (companion 5.3).

A norm says where it applies on three axes: tags, repositories, projects. One
axis that matches is enough. A norm that declares any and matches none stays
away; one that declares nothing applies everywhere, unless it says
``always_on: false``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.core.ids import NodeId

NORMS_MAX: Final = 8
REPO_PREFIX: Final = "repo-"
PROJECT_PREFIX: Final = "proj-"


@dataclass(frozen=True, slots=True)
class Scope:
    """Where a norm applies. `always_on` is None when the norm does not say."""

    tags: frozenset[str] = frozenset()
    repos: frozenset[str] = frozenset()
    projects: frozenset[str] = frozenset()
    always_on: bool | None = None

    @property
    def declared(self) -> bool:
        """Whether the norm says anything about where it applies."""
        return bool(self.tags or self.repos or self.projects)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a briefing is for: the tags of its node, its repository's slug, and the slugs of its projects."""

    tags: frozenset[str] = frozenset()
    repo: str | None = None
    projects: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Norm:
    """A live norm, as far as its place in a briefing depends on it. `date` is YYYY-MM-DD or ""."""

    id: NodeId
    scope: Scope
    date: str = ""


def applies(scope: Scope, setting: Setting) -> bool:
    """Whether a norm of this scope applies in `setting`."""
    if not scope.declared:
        return scope.always_on is not False
    repos = {slug_of(name) for name in scope.repos}
    projects = {slug_of(name) for name in scope.projects}
    own = frozenset() if setting.repo is None else {setting.repo}
    return bool(scope.tags & setting.tags or repos & own or projects & setting.projects)


def ride_along(norms: Iterable[Norm], setting: Setting) -> tuple[Sequence[NodeId], int]:
    """Return the norms that apply, the most particular first, at most `NORMS_MAX`; and how many were left out.

    What is always on goes before what is not, what declares where it applies
    before what does not, then the newer.
    """
    found = sorted((norm for norm in norms if applies(norm.scope, setting)), key=lambda norm: norm.id)
    found.sort(key=lambda norm: norm.date, reverse=True)
    found.sort(key=lambda norm: (norm.scope.always_on is not True, not norm.scope.declared))
    return [norm.id for norm in found[:NORMS_MAX]], max(0, len(found) - NORMS_MAX)


def slug_of(name: str) -> str:
    """Return the slug in a repository's or project's name, with or without the prefix of its node."""
    for prefix in (REPO_PREFIX, PROJECT_PREFIX):
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
