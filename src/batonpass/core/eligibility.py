"""Which items a viewer sees: the filters of the queue in their order (companion 3.4, D1, D13, D14, D24a)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from types import MappingProxyType

from batonpass.core.ids import NodeId


class Hidden(StrEnum):
    """Why a page leaves an item out. Each but `GONE`, which is no item any more, is also a counter of the envelope."""

    GONE = "gone"
    ARCHIVED = "archived"
    GATING = "gating"
    DORMANT = "dormant"
    MUTED = "muted"
    LEASED = "leased"
    RESERVED = "reserved"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Mutes:
    """What somebody has muted: projects and items, both by their names in one list."""

    names: frozenset[str] = frozenset()

    def cover(self, node: NodeId, project: str | None) -> bool:
        """Whether an item is muted, itself or by its project."""
        return node in self.names or (project is not None and project in self.names)


def mutes(entries: Iterable[str], today: date) -> Mutes:
    """Return what `entries`, each ``slug|id[@date]``, mute today: one with a date ends when that day begins.

    A date that is none mutes for good, as the entry reads without it.
    """
    names = set()
    for entry in entries:
        name, _, until = entry.partition("@")
        if not until or not _begun(until, today):
            names.add(name)
    return Mutes(frozenset(names))


def _begun(day: str, today: date) -> bool:
    try:
        return date.fromisoformat(day) <= today
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Scope:
    """How a page is read, and what its viewer brings along.

    `everything` also lists blocked items, what others hold and what is in a
    pipeline (an assignee read). `front` is the viewing person's own work on
    items in a week, by item (D16).
    """

    include_blocked: bool = False
    everything: bool = False
    front: Mapping[NodeId, int] = field(default_factory=lambda: MappingProxyType({}))
    mutes: Mutes = Mutes()
