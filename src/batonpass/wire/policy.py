"""A project's policy on the wire (D39): durations in milliseconds, null for the default."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from batonpass.core.policy import Policy


class PolicyRequest(msgspec.Struct):
    """Body of `PUT /v1/policy/{project}`: a field left out stays as it is, null goes back to the default."""

    claim_ttl_ms: int | UnsetType | None = UNSET
    claim_ttl_max_ms: int | UnsetType | None = UNSET
    reserve_grace_ms: int | UnsetType | None = UNSET
    lapse_limit: int | UnsetType | None = UNSET
    run_limit: int | UnsetType | None = UNSET
    max_claims: int | UnsetType | None = UNSET
    paused: str | UnsetType | None = UNSET
    agents_may_ready: bool | UnsetType | None = UNSET


class PolicyReply(msgspec.Struct):
    """What is in force for a project, its own settings folded over those of `*` and the defaults."""

    http_status: ClassVar[int] = 200

    project: str
    claim_ttl_ms: int
    claim_ttl_max_ms: int
    reserve_grace_ms: int
    lapse_limit: int
    run_limit: int
    max_claims: int
    paused: str | None
    agents_may_ready: bool
    warnings: list[str] | UnsetType = UNSET


def policy_reply(project: str, policy: Policy, *, warnings: Sequence[str] = ()) -> PolicyReply:
    """Return `policy` as it goes over the wire."""
    return PolicyReply(
        project=project,
        claim_ttl_ms=_ms(policy.claim_ttl),
        claim_ttl_max_ms=_ms(policy.claim_ttl_max),
        reserve_grace_ms=_ms(policy.reserve_grace),
        lapse_limit=policy.lapse_limit,
        run_limit=policy.run_limit,
        max_claims=policy.max_claims,
        paused=policy.paused,
        agents_may_ready=policy.agents_may_ready,
        warnings=list(warnings) or UNSET,
    )


def _ms(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
