"""Bodies and replies about API keys (D1, D35): the same care for secrets as in `wire.tokens`."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from batonpass.core.clock import iso
from batonpass.core.keys import ApiKey
from batonpass.wire.schemas import KeyNameText
from batonpass.wire.tokens import Expires


class KeyRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/admin/keys`. With `replace` the live key of that name ends in the same transaction."""

    name: KeyNameText
    expires: Expires = None
    scope: Literal["read", "write"] = "write"
    replace: bool = False


class KeyReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Reply of `POST /v1/admin/keys`, the secret in it. `replaced` begins the hash of the key that ended for it."""

    http_status: ClassVar[int] = 201

    identity: str
    name: str
    token: str
    hash_prefix: str
    expires: str
    scope: str
    replaced: str | None = None
    warnings: list[str] = []

    def __repr__(self) -> str:
        return f"KeyReply(identity={self.identity!r}, hash_prefix={self.hash_prefix!r}, …)"


class ApiKeyBody(msgspec.Struct):
    """A valid key in a list."""

    identity: str
    name: str
    hash_prefix: str
    scope: str
    created_by: str
    created_at: str
    expires: str


class KeysReply(msgspec.Struct):
    """Reply of `GET /v1/admin/keys`; `next` is the `after` of the next page, null at the end."""

    keys: list[ApiKeyBody]
    next: str | None


class KeyRevokeReply(msgspec.Struct, omit_defaults=True):
    """Reply of a revocation; `unchanged` when the key had been revoked before."""

    http_status: ClassVar[int] = 200

    ok: bool
    status: str
    identity: str
    hash_prefix: str
    unchanged: bool = False


def key_body(key: ApiKey) -> ApiKeyBody:
    """Return `key` as it goes over the wire."""
    return ApiKeyBody(
        identity=key.identity,
        name=key.name,
        hash_prefix=key.hash_prefix,
        scope=key.scope,
        created_by=key.created_by,
        created_at=iso(key.created_at),
        expires=iso(key.expires_at),
    )
