"""One table: our errors, their codes, their HTTP status, and back again.

    {"error": {"code": "…", "message": "…", "details": ["…"]}, "holder": {lease view}}

`holder` stands at the top level, on the conflicts that have one to name, and
`premises` on those that are about some. Routes below `/v1/records` have a flat
shape and codes of their own (D36):

    {"error": "HELD", "message": "…", "field": "…", "owner": "…", "lease_expires_at": "…", "version": 1}

The client raises the same class the service raised, whichever it was
(`error_of`); what both shapes call one thing comes back as one class.
"""

from __future__ import annotations

import re
from datetime import datetime
from http import HTTPStatus
from typing import Final

import msgspec

from batonpass.core import errors
from batonpass.core.clock import instant_of, iso
from batonpass.core.errors import BatonError, BrokenPremise
from batonpass.core.ids import Resource
from batonpass.core.leases import LeaseView
from batonpass.core.records import Identity, holder_of, identity_of
from batonpass.wire import paths
from batonpass.wire.leases import LeaseBody, lease_body, lease_view
from batonpass.wire.records import RecordErrorBody, StaleBody

HTTP_STATUS: Final[dict[type[BatonError], int]] = {
    errors.BadRequest: 400,
    errors.NotTaskField: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
    errors.ScopeDenied: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.Conflict: 409,
    errors.AlreadyClaimed: 409,
    errors.LeaseLost: 409,
    errors.NotReady: 409,
    errors.ExecutionBoundary: 409,
    errors.Paused: 409,
    errors.TooManyClaims: 409,
    errors.TransitionDenied: 409,
    errors.StalePremise: 409,
    errors.CapReached: 409,
    errors.Resync: 410,
    errors.TooLarge: 413,
    errors.Invalid: 422,
    errors.InvalidNode: 422,
    errors.InvalidEdge: 422,
    errors.RateLimited: 429,
    errors.Internal: 500,
    errors.Unavailable: 503,
    errors.Unknown: 503,
}
_BY_CODE: Final = {kind.code: kind for kind in HTTP_STATUS}
_BY_STATUS: Final = {
    **{status: kind for kind, status in reversed(HTTP_STATUS.items())},
    502: errors.Unavailable,  # these two are never ours: whatever stands between us and the server sends them
    504: errors.Unavailable,
}
RECORD_ERRORS: Final[dict[type[BatonError], tuple[str, int]]] = {
    errors.Invalid: ("BAD_REQUEST", 400),
    errors.BadRequest: ("BAD_REQUEST", 400),
    errors.NotTaskField: ("NOT_TASK_FIELD", 400),
    errors.Unauthorized: ("UNAUTHENTICATED", 401),
    errors.ScopeDenied: ("SCOPE_DENIED", 403),
    errors.Forbidden: ("SCOPE_DENIED", 403),
    errors.NotFound: ("NOT_FOUND", 404),
    errors.MethodNotAllowed: ("METHOD_NOT_ALLOWED", 405),
    errors.Conflict: ("CONFLICT", 409),
    errors.AlreadyClaimed: ("HELD", 409),
    errors.StalePremise: ("STALE_PREMISE", 409),
    errors.LeaseLost: ("STALE_PREMISE", 409),
    errors.CapReached: ("CAP_REACHED", 409),
    errors.TooLarge: ("TOO_LARGE", 413),
    errors.RateLimited: ("RATE_LIMITED", 429),
    errors.Internal: ("INTERNAL", 500),
    errors.Unavailable: ("UNAVAILABLE", 503),
    errors.Unknown: ("OUTCOME_UNKNOWN", 503),
}
"""The code and status of each below `/v1/records`; of those with one code, the first is what the client raises."""
_BY_RECORD_CODE: Final = {code: kind for kind, (code, _) in reversed(RECORD_ERRORS.items())}
_RECORDS: Final = paths.RECORDS.partition("/{")[0] + "/"
_CODE: Final = re.compile(r"[A-Z]+(_[A-Z]+)*", re.ASCII)


class ErrorInfo(msgspec.Struct, omit_defaults=True):
    """What went wrong: a code for programs, a sentence for people."""

    code: str
    message: str
    details: list[str] = []
    field: str | None = None


class ErrorBody(msgspec.Struct, omit_defaults=True):
    """The one error shape of every route but `/v1/records`."""

    error: ErrorInfo
    holder: LeaseBody | None = None
    premises: list[StaleBody] = []


def is_of_records(path: str) -> bool:
    """Whether errors of the route at `path` have the flat shape (D36)."""
    return path.startswith(_RECORDS)


def http_status(error: BatonError) -> int:
    """Return the HTTP status of `error`: its own, or that of the nearest class in the table."""
    return HTTP_STATUS[next((kind for kind in type(error).__mro__ if kind in HTTP_STATUS), errors.Internal)]


def record_http_status(error: BatonError) -> int:
    """Return the same for a route below `/v1/records`."""
    return _of_records(error)[1]


def error_body(error: BatonError) -> ErrorBody:
    """Return `error` as it goes over the wire."""
    holder = error.holder if isinstance(error, errors.Conflict) else None
    return ErrorBody(
        ErrorInfo(error.code, error.message, list(error.details), error.field),
        holder=lease_body(holder) if holder is not None else None,
        premises=_premise_bodies(error),
    )


def record_error_body(error: BatonError) -> RecordErrorBody:
    """Return `error` as it goes over the wire below `/v1/records`."""
    body = RecordErrorBody(
        error=_of_records(error)[0],
        message=error.message,
        field=error.field,
        premises=_premise_bodies(error),
        details=list(error.details),
    )
    if isinstance(error, errors.Conflict) and error.holder is not None:
        body.owner = identity_of(error.holder.by)
        body.lease_expires_at = iso(error.holder.expires_at)
    if isinstance(error, errors.AlreadyClaimed):
        body.version = error.version
    return body


def error_of(status: int, body: bytes, *, retry_after_s: int = 1) -> BatonError:
    """Return the error a reply carries, in either shape; one we can't read keeps its status and first words."""
    try:
        found = msgspec.json.decode(body, type=ErrorBody)
    except msgspec.MsgspecError:
        flat = _flat(body)
        if flat is not None:
            return _of_flat(status, flat, retry_after_s=retry_after_s)
        return _foreign(status, body, retry_after_s=retry_after_s)
    info = found.error
    kind = _BY_CODE.get(info.code) or _BY_STATUS.get(status, errors.Internal)
    error = _made(kind, info.message, retry_after_s=retry_after_s)
    error.details = tuple(info.details)
    error.field = info.field
    if isinstance(error, errors.Conflict) and found.holder is not None:
        error.holder = lease_view(found.holder)
    if isinstance(error, errors.StalePremise):
        error.premises = _premises(found.premises)
    return error


# --- below /v1/records -----------------------------------------------------------------------------------------------


def _of_records(error: BatonError) -> tuple[str, int]:
    return RECORD_ERRORS[next((kind for kind in type(error).__mro__ if kind in RECORD_ERRORS), errors.Internal)]


def _flat(body: bytes) -> RecordErrorBody | None:
    """Return a body in the flat shape with a code such as ours; whoever stands in between has sentences there."""
    try:
        found = msgspec.json.decode(body, type=RecordErrorBody)
    except msgspec.MsgspecError:
        return None
    return found if _CODE.fullmatch(found.error) else None


def _of_flat(status: int, body: RecordErrorBody, *, retry_after_s: int) -> BatonError:
    kind = _BY_RECORD_CODE.get(body.error) or _BY_STATUS.get(status, errors.Internal)
    error = _made(kind, body.message, retry_after_s=retry_after_s)
    error.details = tuple(body.details)
    error.field = body.field
    if isinstance(error, errors.Conflict):
        error.holder = _holder(body)
    if isinstance(error, errors.AlreadyClaimed):
        error.version = body.version
    if isinstance(error, errors.StalePremise):
        error.premises = _premises(body.premises)
    return error


def _holder(body: RecordErrorBody) -> LeaseView | None:
    """Return who holds the field, as far as the flat shape tells: neither the record nor the epoch is in it."""
    if body.owner is None or body.lease_expires_at is None:
        return None
    return LeaseView(
        node_id=Resource(body.field or ""),
        by=holder_of(Identity(body.owner)),
        by_name=None,
        owner=None,
        expires_at=instant_of(datetime.fromisoformat(body.lease_expires_at)),
        session=None,
        dispatch=None,
        claimed_at=None,
        epoch=0,
        reserved=False,
    )


def _premise_bodies(error: BatonError) -> list[StaleBody]:
    if not isinstance(error, errors.StalePremise):
        return []
    return [
        StaleBody(field=each.field, expected=each.expected, actual=each.actual, kind=each.kind, owner=each.owner)
        for each in error.premises
    ]


def _premises(bodies: list[StaleBody]) -> tuple[BrokenPremise, ...]:
    return tuple(
        BrokenPremise(each.field, each.expected, each.actual, kind=each.kind, owner=each.owner) for each in bodies
    )


# --- both ------------------------------------------------------------------------------------------------------------


def _foreign(status: int, body: bytes, *, retry_after_s: int) -> BatonError:
    """Return the error of a reply that is not ours, by its status."""
    kind = _BY_STATUS.get(status, errors.Unavailable if status >= HTTPStatus.INTERNAL_SERVER_ERROR else errors.Conflict)
    error = _made(kind, f"HTTP {status}: {body[:200].decode(errors='replace')}", retry_after_s=retry_after_s)
    error.is_ours = False
    return error


def _made(kind: type[BatonError], message: str, *, retry_after_s: int) -> BatonError:
    error = kind(message)
    if isinstance(error, errors.Unavailable):
        error.retry_after_s = retry_after_s
    return error
