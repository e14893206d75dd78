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


def keep(tx: Tx, node: NodeId, *, before: Value, after: Value) -> None:
    """Write the difference between the commits a locked node had and those it has now."""
    had, has = set(before), set(after)
    if gone := had - has:
        tx.put(q("commits.remove", rows=_rows(node, gone)))
    if new := has - had:
        tx.put(q("commits.put", rows=_rows(node, new)))


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


def _rows(node: NodeId, commits: Iterable[str]) -> str:
    parts = (commit.rpartition("@") for commit in sorted(commits))
    return as_json([{"node": node, "repo": repo, "sha": sha} for repo, _, sha in parts])
