"""Rows of API keys: hashes, never secrets. Who may make and end them is the service's to say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from batonpass.core.ids import Instant, TokenHash
from batonpass.core.keys import ApiKey, KeyName
from batonpass.core.tokens import Scope
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q


def known_asked(key: TokenHash) -> Statement:
    """Ask for the key of a hash; see `known`."""
    return q("keys.known", hash=key)


def known(rows: Sequence[Row]) -> ApiKey | None:
    """Return the answer to `known_asked`, or None when there is no such key."""
    return _key(rows[0]) if rows else None


async def lock(tx: Tx, name: KeyName) -> list[ApiKey]:
    """Return the keys of `name` that were not revoked; until the transaction ends nobody else adds or ends one."""
    tx.put(q("keys.lock_name", name=name))
    # A statement after the lock sees what the one before us committed.
    (rows,) = await tx.fetch(q("keys.of_name", name=name))
    return [_key(row) for row in rows]


def add(tx: Tx, key: ApiKey) -> None:
    """Insert a key minted now."""
    tx.put(
        q(
            "keys.add",
            hash=key.hash,
            name=key.name,
            scope=key.scope,
            created_by=key.created_by,
            now=key.created_at,
            expires_at=key.expires_at,
        )
    )


def revoke(tx: Tx, keys: Iterable[TokenHash], *, now: Instant) -> None:
    """End `keys`; those that were revoked already keep their moment."""
    tx.put(q("keys.revoke", hashes=as_json(sorted(keys)), now=now))


async def listed(tx: Reader, *, name: KeyName | None, now: Instant, after: str, most: int) -> list[ApiKey]:
    """Return at most `most` valid keys in order of name, after the name `after`, of one name or of all."""
    (rows,) = await tx.fetch(q("keys.listed", name=name, now=now, after=after, most=most))
    return [_key(row) for row in rows]


async def beginning(tx: Reader, prefix: str, *, most: int) -> list[ApiKey]:
    """Return at most `most` keys whose hash begins with `prefix`, those not revoked first."""
    (rows,) = await tx.fetch(q("keys.beginning", prefix=prefix, most=most))
    return [_key(row) for row in rows]


def _key(row: Row) -> ApiKey:
    hash_, name, scope, created_by, created_at, expires_at, revoked_at = row
    return ApiKey(hash_, name, Scope(scope), created_by, created_at, expires_at, revoked_at)
