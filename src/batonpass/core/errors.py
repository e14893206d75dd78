"""Every way an operation can fail, as one tree.

    BatonError
    ├── BadRequest            not JSON, not an object, NaN, duplicate keys
    ├── Unauthorized          no token, an unknown, expired or revoked one
    ├── Forbidden             known, but not allowed
    │   └── ScopeDenied       no role of the record's class lets you                (field)
    ├── NotFound              a well-formed id that is not there
    ├── MethodNotAllowed      the path is there, but does not take this method
    ├── Conflict              the state of the thing does not allow it
    │   ├── AlreadyClaimed    somebody else's live lease is in the way   (holder)
    │   ├── LeaseLost         the tenure you named is not the node's any more (holder, if any)
    │   │   └── FenceBroken   … and it is the one the whole request stood on
    │   ├── NotReady          resolved, dead, or otherwise not to be claimed
    │   ├── ExecutionBoundary a pipeline has the item until it is settled
    │   ├── Paused            the project's policy refuses claims
    │   ├── TooManyClaims     the holder has as many live claims as the policy allows
    │   ├── TransitionDenied  the type's law refuses this status
    │   ├── StalePremise      a field is not as the write was based on              (premises)
    │   └── CapReached        an append holds as many items as its class allows     (field)
    ├── Resync                a position in the feed that means nothing any more
    ├── TooLarge              over a limit in bytes
    ├── Invalid               well-formed but wrong; names field, limit and unit
    │   ├── InvalidNode       a node, edge or vocabulary rule; `details` has every finding
    │   ├── InvalidEdge       a `blocks` edge that would close a cycle; `details` has the ids along it
    │   └── NotTaskField      a claim on a field that holds a value                 (field)
    ├── Unavailable           nothing is known to have changed: try again
    │   ├── RateLimited       too many ask at once
    │   └── Unknown           it may or may not have happened: read before repeating
    └── Internal              a promise of ours broke

The same classes are raised by the services, carried over the wire by
``wire.errors``' one table, and raised again by the client. The
message is a sentence for a person; programs branch on `code` and fields.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from batonpass.core.leases import LeaseView


class BatonError(Exception):
    """Base of every error this system reports on purpose."""

    code: ClassVar[str] = "internal"

    is_ours: bool = True
    """Whether one of our servers said so, or only its status did: whoever stands in between may have answered."""

    def __init__(self, message: str, *, details: Sequence[str] = (), field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)
        self.field = field


class BadRequest(BatonError):
    """The body is not a JSON object we can read."""

    code = "bad_request"


class Unauthorized(BatonError):
    """The caller is not known. Permanent: the same token will not do later."""

    code = "unauthorized"


class Forbidden(BatonError):
    """The caller is known and may not do this."""

    code = "forbidden"


class ScopeDenied(Forbidden):
    """No role of the record's class lets the caller do this to the field."""

    code = "scope_denied"


class NotFound(BatonError):
    """No such thing, or none the caller may see."""

    code = "not_found"


class MethodNotAllowed(BatonError):
    """The path is there, but does not take this method."""

    code = "method_not_allowed"


class Conflict(BatonError):
    """The present state does not allow the change; nothing was changed."""

    code = "conflict"

    def __init__(
        self,
        message: str,
        *,
        holder: LeaseView | None = None,
        details: Sequence[str] = (),
        field: str | None = None,
    ) -> None:
        super().__init__(message, details=details, field=field)
        self.holder = holder


class AlreadyClaimed(Conflict):
    """A live lease of somebody else's is in the way; of a record's field, `version` is the field's."""

    code = "already_claimed"

    version: int | None = None


class LeaseLost(Conflict):
    """The tenure the caller acts under is not the node's any more."""

    code = "lease_lost"


class FenceBroken(LeaseLost):
    """A tenure that the whole request stood on is over: a run token's own, or one named by If-Lease (D2a)."""


class NotReady(Conflict):
    """The node is resolved or retired; there is nothing to claim."""

    code = "not_ready"


class ExecutionBoundary(Conflict):
    """A pipeline has the item until it is settled; it is nobody's to claim meanwhile, by force neither (D24a)."""

    code = "execution_boundary"


class Paused(Conflict):
    """The project is paused: no new claims, renewals go on."""

    code = "paused"


class TooManyClaims(Conflict):
    """The holder already has as many live claims as its policy allows."""

    code = "too_many_claims"


class TransitionDenied(Conflict):
    """The node type's law does not allow this status now."""

    code = "transition_denied"


@dataclass(frozen=True, slots=True)
class BrokenPremise:
    """One premise that does not hold (D33).

    `actual` is what the field is at now: its version, or its epoch where
    `expected` is one. A field or record that is not there is at 0. `owner` is
    the identity that holds a task field now, where somebody does. `number` is
    which of the two they are; the sentence says so, the list on the wire does not.
    """

    field: str
    expected: int
    actual: int
    kind: str | None = None
    owner: str | None = None
    number: Literal["version", "epoch"] = dataclasses.field(default="version", compare=False)


class StalePremise(Conflict):
    """A field is not at the version or epoch the write was based on; `premises` has all that do not hold (D33)."""

    code = "stale_premise"

    def __init__(
        self, message: str, *, premises: Sequence[BrokenPremise] = (), holder: LeaseView | None = None
    ) -> None:
        super().__init__(message, holder=holder)
        self.premises = tuple(premises)


class CapReached(Conflict):
    """The append holds as many items as its class allows."""

    code = "cap_reached"


class Resync(BatonError):
    """The position is of another incarnation of the database, or older than what is kept (D15a, D46)."""

    code = "resync"


class TooLarge(BatonError):
    """A body or field is over its limit in bytes."""

    code = "too_large"


class Invalid(BatonError):
    """Well-formed, but a value breaks a rule; the message names field, limit and unit."""

    code = "invalid_request"


class InvalidNode(Invalid):
    """A node, edge or vocabulary rule is broken; `details` lists every finding."""

    code = "invalid_node"


class InvalidEdge(Invalid):
    """A `blocks` edge would close a cycle; `details` lists the ids along it, the first again at the end (D41)."""

    code = "invalid_edge"


class NotTaskField(Invalid):
    """Only a task field is claimed, renewed and released; this one holds a value."""

    code = "not_task_field"


class Unavailable(BatonError):
    """Not now: nothing was changed. `retry_after_s` says when to try again."""

    code = "unavailable"

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class RateLimited(Unavailable):
    """Too many wait already. Nothing was changed; ask again after `retry_after_s`."""

    code = "rate_limited"


class Unknown(Unavailable):
    """The answer of the database was lost: the change may or may not stand (D45)."""

    code = "outcome_unknown"


class Internal(BatonError):
    """A promise of ours broke; the log has the traceback."""

    code = "internal"
