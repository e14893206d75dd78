"""What an import keeps of a node's past: who wrote it, when, and who set its priority and readiness (D12, D16b).

Only an admin's import may say any of this; through every other door it is
read off the caller's token and the database's clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from batonpass.core.clock import MICROS_PER_MS
from batonpass.core.ids import Instant
from batonpass.core.nodes import Attribution, Node, Stamp

BY_AGENT: Final = "dispatch"
"""The door that is stamped on what an agent writes: its readiness is no person's consent (D41)."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a node's text says of its past. What it does not say is stamped as on any other write."""

    attribution: Attribution | None = None
    created_at: Instant | None = None
    updated_at: Instant | None = None
    priority: Stamp | None = None
    readiness: Stamp | None = None

    @property
    def by_person(self) -> bool:
        """Whether a person is known to have written the node."""
        return self.attribution is None or self.attribution.agent is None

    def onto(self, node: Node) -> Node:
        """Return `node`, which is about to be written, with its past; a stamp of what it does not have is dropped."""
        node = replace(
            node,
            attribution=self.attribution or node.attribution,
            created_at=node.created_at if self.created_at is None else self.created_at,
            updated_at=node.updated_at if self.updated_at is None else self.updated_at,
        )
        if self.priority is not None and node.authored.priority is not None:
            node = replace(node, priority_stamp=self.priority)
        if self.readiness is not None and node.authored.readiness is not None:
            node = replace(node, readiness_stamp=self.readiness, ready_by_person=self.readiness.via != BY_AGENT)
        return node

    def shows_in(self, node: Node) -> bool:
        """Whether the stored `node` has this past already, to the millisecond, which is what a text shows of a time."""
        return _to_the_ms(self.onto(node)) == _to_the_ms(node)

    def findings(self, now: Instant) -> Iterator[str]:
        """Yield what cannot be so at `now`."""
        for name, at in (
            ("created_at", self.created_at),
            ("updated_at", self.updated_at),
            ("priority_at", self.priority.at if self.priority is not None else None),
            ("readiness_at", self.readiness.at if self.readiness is not None else None),
        ):
            if at is not None and at > now:
                yield f"{name}: is in the future"
        if self.created_at is not None and self.updated_at is not None and self.created_at > self.updated_at:
            yield "updated_at: is before created_at"


def _to_the_ms(node: Node) -> Node:
    return replace(
        node,
        created_at=_floor(node.created_at),
        updated_at=_floor(node.updated_at),
        priority_stamp=_stamp_to_the_ms(node.priority_stamp),
        readiness_stamp=_stamp_to_the_ms(node.readiness_stamp),
    )


def _stamp_to_the_ms(stamp: Stamp | None) -> Stamp | None:
    return None if stamp is None else replace(stamp, at=_floor(stamp.at))


def _floor(at: Instant) -> Instant:
    return Instant(at - at % MICROS_PER_MS)
