"""Capture: any text becomes a node that waits to be sorted, and more nodes behind it if it is long (D16a).

The first node is a `capture-pending`: the one item that somebody has to sort.
What does not fit into its body goes into artifacts that are derived from it,
done from the start, so that they ask nobody for anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from batonpass.core import filing
from batonpass.core.edges import Edge, in_order
from batonpass.core.ids import NodeId
from batonpass.core.nodes import TITLE_CHARS_MAX, Authored

PREFIX: Final = "cap-"
PART_PREFIX: Final = "art-"
PART_STATUS: Final = "done"


@dataclass(frozen=True, slots=True)
class Capture:
    """A text to be kept, and what is known of it. `during` is the node it was found during."""

    text: str
    date: str
    title: str | None = None
    project: str | None = None
    during: NodeId | None = None
    blocks: tuple[NodeId, ...] = ()

    @property
    def shown_title(self) -> str:
        """The title it was given, else its first line."""
        return filing.title_of(self.text) if self.title is None else self.title

    @property
    def stem(self) -> str:
        """What its id begins with."""
        return filing.stem_of(PREFIX, self.shown_title)


def ids(stem: str, n: int, size: int) -> tuple[NodeId, ...]:
    """Return the ids of the `size` nodes of the `n`th capture under a stem."""
    head = filing.numbered(stem, n)
    return (head, *(NodeId(f"{PART_PREFIX}{head}-part-{k}") for k in range(2, size + 1)))


def nodes(capture: Capture, parts: Sequence[str], named: Sequence[NodeId]) -> list[Authored]:
    """Return the nodes that keep `parts`, the pieces of the text in order, under the ids `named`."""
    summary = filing.summary_of(capture.text)
    found = [Edge("derived-from", capture.during)] if capture.during is not None else []
    head = Authored(
        id=named[0],
        type="capture-pending",
        title=capture.shown_title,
        summary=summary,
        date=capture.date,
        project=capture.project,
        edges=in_order([*found, *(Edge("blocks", node) for node in capture.blocks)]),
        body=parts[0] if len(parts) > 1 else filing.body_of(capture.text, summary),
    )
    return [head, *(_part(head, node, part, (n, len(parts))) for node, part, n in zip(named[1:], parts[1:], count(2)))]


def _part(head: Authored, node: NodeId, text: str, place: tuple[int, int]) -> Authored:
    n, of = place
    suffix = f" (part {n} of {of})"
    return replace(
        head,
        id=node,
        type="artifact",
        title=f"{head.title[: TITLE_CHARS_MAX - len(suffix)]}{suffix}",
        summary=f"Part {n} of {of} of the text kept as {head.id}.",
        status=PART_STATUS,
        edges=(Edge("derived-from", head.id),),
        body=text,
    )
