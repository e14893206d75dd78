"""Bodies and replies about tokens (companion 6.1, 6.2, D2a, D39).

A reply with a secret in it is made once, for whoever minted it, and never
stored. Its repr leaves the secret out, so no log or traceback has it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from batonpass.core.clock import iso
from batonpass.core.errors import Invalid
from batonpass.core.ids import Fence, Resource, parse_node_id, parse_resource
from batonpass.core.tokens import Token
from batonpass.wire.identity import Tenure, tenure
from batonpass.wire.schemas import AnyId, AnyIdOrNone, AnyTextOrNone, Epoch, Label, Name

Expires = str | int | float | None
"""A duration such as ``90d``, a date, or a number of milliseconds; None for the default of the kind."""

# --- requests --------------------------------------------------------------------------------------------------------


class NamedLease(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The tenure a run token is wanted for: a node, or a record (``<class>/<id>``) and its task field."""

    epoch: Epoch
    node: AnyIdOrNone = None
    record: AnyTextOrNone = None
    field: AnyTextOrNone = None


class AgentTokenRequest(msgspec.Struct):
    """Body of `POST /v1/agents/{id}/token`: for a session, `standing`, or with `lease` for one run."""

    session: Label | None = None
    expires: Expires = None
    standing: bool = False
    label: Name | None = None
    lease: NamedLease | None = None
    replace: bool = False
    scope: Literal["read", "write"] = "write"


class PersonalTokenRequest(msgspec.Struct):
    """Body of `POST /v1/me/tokens`."""

    label: Name | None = None
    expires: Expires = None
    scope: Literal["read", "write"] = "write"


class AdminTokenRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/admin/tokens`: the same for somebody else."""

    person: AnyId
    label: Name | None = None
    expires: Expires = None
    scope: Literal["read", "write"] = "write"


class SessionRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/agents/session`."""

    session: Label


def fence_of(lease: NamedLease) -> Fence:
    """Return the tenure that a mint names; `Invalid` when it names none, or two."""
    if lease.epoch < 1:
        raise Invalid(f"lease.epoch: {lease.epoch} was never acquired; epochs begin at 1", field="lease.epoch")
    if lease.node is not None and lease.record is None and lease.field is None:
        return Fence(Resource(parse_node_id(lease.node, field="lease.node")), lease.epoch)
    if lease.node is None and isinstance(lease.record, str) and isinstance(lease.field, str):
        return Fence(parse_resource(f"record:{lease.record}#{lease.field}", field="lease.record"), lease.epoch)
    raise Invalid("lease: name a node, or a record and its field, as texts", field="lease")


# --- replies ---------------------------------------------------------------------------------------------------------


class _Minted(msgspec.Struct):
    """What replies with a secret share: 201, and a repr without it."""

    http_status: ClassVar[int] = 201

    token: str
    hash_prefix: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}(hash_prefix={self.hash_prefix!r}, …)"


class SessionTokenReply(_Minted, kw_only=True, omit_defaults=True):
    """Reply of a mint for a session or a run. `capped_to_max` says that `expires` was beyond the longest life."""

    expires_at: str
    agent: str
    session: str | None
    lease: Tenure | None = None
    capped_to_max: bool = False
    warnings: list[str] = []


class StandingTokenReply(_Minted, kw_only=True, omit_defaults=True):
    """Reply of a mint with `standing`."""

    agent: str
    owner: str
    label: str | None
    expires: str
    standing: bool
    warnings: list[str] = []


AgentTokenReply = SessionTokenReply | StandingTokenReply
"""Reply of `POST /v1/agents/{id}/token`: it depends on what was asked for."""


class PersonalTokenReply(_Minted, kw_only=True, omit_defaults=True):
    """Reply of `POST /v1/me/tokens` and `POST /v1/admin/tokens`."""

    person: str
    name: str
    email: str
    label: str | None
    expires: str
    scope: str
    warnings: list[str] = []


class TokenBody(msgspec.Struct, omit_defaults=True):
    """A valid token in a list. `ended`: a run's whose tenure is over, so that it writes nothing any more."""

    hash_prefix: str
    kind: str
    person: str
    label: str | None
    scope: str
    created_at: str
    expires: str
    agent: str | None = None
    session: str | None = None
    lease: Tenure | None = None
    ended: bool = False


class TokensReply(msgspec.Struct):
    """Reply of the lists of tokens; `next` is the `after` of the next page, null at the end."""

    tokens: list[TokenBody]
    next: str | None


class RevokeReply(msgspec.Struct, omit_defaults=True):
    """Reply of a revocation; `unchanged` when the token had been revoked before."""

    http_status: ClassVar[int] = 200

    ok: bool
    status: str
    hash_prefix: str
    unchanged: bool = False


class SessionReply(msgspec.Struct, omit_defaults=True):
    """Reply of `POST /v1/agents/session`; `unchanged` when the token had this very session."""

    http_status: ClassVar[int] = 200

    ok: bool
    agent: str
    session: str
    unchanged: bool = False


def token_body(token: Token, *, ended: bool) -> TokenBody:
    """Return `token` as it goes over the wire."""
    return TokenBody(
        hash_prefix=token.hash_prefix,
        kind=token.kind,
        person=token.person,
        label=token.label,
        scope=token.scope,
        created_at=iso(token.created_at),
        expires=iso(token.expires_at),
        agent=token.agent,
        session=token.session,
        lease=tenure(token.run),
        ended=ended,
    )
