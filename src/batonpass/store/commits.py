"""Commits that nodes carry, a row each, kept with the node in the transaction that writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from batonpass.core.history import beyond
from batonpass.core.ids import NodeId
from batonpass.core.nodes import SHA_HEX_MIN, Value
from batonpass.store.base import Reader, Tx, as_json, q


@dataclass(frozen=True, slots=True)
class Carrier:
    """A node and those of its commits, as ``repo@sha``, that were asked for."""

    id: NodeId
    type: str
    title: str
    status: str | None
    project: str | None
    commits: tuple[str, ...]


def keep(tx: Tx, nodes: Iterable[tuple[NodeId, Value, Value]]) -> None:
    """Write the difference between the commits that locked nodes had and those they have now."""
    gone, new = [], []
    for node, before, after in nodes:
        had, has = set(before), set(after)
        gone += _rows(node, had - has)
        new += _rows(node, has - had)
    if gone:
        tx.put(q("commits.remove", rows=as_json(gone)))
    if new:
        tx.put(q("commits.put", rows=as_json(new)))


async def nodes_with(tx: Reader, sha: str, *, repo: str | None, after: str, most: int) -> list[Carrier]:
    """Return at most `most` nodes after the id `after` that carry the commit `sha`, in order of id.

    Either may be cut short: a noted hash that begins with `sha` counts, and
    one that is the beginning of it. Both are found by index.
    """
    shorter = [sha[:length] for length in range(SHA_HEX_MIN, len(sha))]
    (rows,) = await tx.fetch(
        q(
            "commits.nodes_with",
            least=sha,
            beyond=beyond(sha),
            shorter=as_json(shorter),
            repo=repo,
            after=after,
            most=most,
        )
    )
    return [
        Carrier(node, kind, title, status, project, tuple(sorted(json.loads(commits))))
        for node, kind, title, status, project, commits in rows
    ]


def _rows(node: NodeId, commits: Iterable[str]) -> list[dict[str, str]]:
    parts = (commit.rpartition("@") for commit in sorted(commits))
    return [{"node": node, "repo": repo, "sha": sha} for repo, _, sha in parts]
