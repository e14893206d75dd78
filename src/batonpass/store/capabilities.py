"""Rows of what each agent's machine can run: beside the agent, not in the graph (companion 7.4)."""

from __future__ import annotations

from typing import Final

from batonpass.core.ids import AgentId, HolderId, Instant, PersonId
from batonpass.core.values import value
from batonpass.store.base import Reader, Row, Tx, q

HOSTS_MAX: Final = 1000
"""How many of a person's machines are looked at, the freshest; nobody has more that run anything."""


@value(frozen=True, slots=True)
class Published:
    """What a machine can run, as JSON, who said so, and when it was last there."""

    agent: AgentId
    document: str
    published_at: Instant
    published_by: HolderId
    session: str | None
    last_seen: Instant


async def get(tx: Reader, agent: AgentId) -> Published | None:
    """Return what was published of an agent's machine, or None."""
    (rows,) = await tx.fetch(q("capabilities.of", agent=agent))
    return _published(rows[0]) if rows else None


async def lock(tx: Tx, agent: AgentId) -> Published | None:
    """Return the same for who will publish; nobody else replaces it until the transaction ends."""
    (rows,) = await tx.fetch(q("capabilities.lock", agent=agent))
    return _published(rows[0]) if rows else None


def publish(tx: Tx, published: Published) -> None:
    """Put what a machine can run in the place of what was published before; that it is published shows it is there."""
    tx.put(
        q(
            "capabilities.publish",
            agent=published.agent,
            document=published.document,
            published_by=published.published_by,
            session=published.session,
            now=published.last_seen,
        )
    )


async def beat(tx: Tx, agent: AgentId, *, now: Instant) -> Instant | None:
    """Note that a machine is there, and return when it was last; None when nothing was ever published."""
    (rows,) = await tx.fetch(q("capabilities.beat", agent=agent, now=now))
    return Instant(rows[0][0]) if rows else None


async def hosts(tx: Reader, owner: PersonId, *, since: Instant) -> tuple[list[Published], int]:
    """Return a person's machines that were there since, the freshest first, and how many were not."""
    rows, ((stale,),) = await tx.fetch(
        q("capabilities.hosts", owner=owner, since=since, most=HOSTS_MAX),
        q("capabilities.stale", owner=owner, since=since),
    )
    return [_published(row) for row in rows], stale


def _published(row: Row) -> Published:
    return Published(*row)
