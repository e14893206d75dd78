"""Replies kept for repetition: a request repeated with its key gets the answer of the first (D11)."""

from __future__ import annotations

from dataclasses import dataclass

from batonpass.core.ids import HolderId, Instant
from batonpass.store.base import Tx, q


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that was answered before."""

    body_hash: str
    status: int
    reply: str | None


async def insert_or_find(
    tx: Tx,
    *,
    principal: HolderId,
    method: str,
    path: str,
    key: str,
    body_hash: str,
    now: Instant,
    oldest: Instant,
) -> Seen | None:
    """Insert the key and return None, or return what a twin stored; a twin in flight is waited for.

    A key whose reply is older than `oldest` counts as new.
    """
    identity = {"principal": principal, "method": method, "path": path, "key": key}
    inserted, found = await tx.fetch(
        q("idempotency.insert", **identity, body_hash=body_hash, now=now, oldest=oldest),
        q("idempotency.find", **identity),
    )
    if inserted:
        return None
    ((stored_hash, status, reply),) = found
    return Seen(stored_hash, status, reply)


def store_reply(tx: Tx, *, principal: HolderId, method: str, path: str, key: str, status: int, reply: str) -> None:
    """Keep the reply with the change it belongs to."""
    tx.put(q("idempotency.answer", principal=principal, method=method, path=path, key=key, status=status, reply=reply))
