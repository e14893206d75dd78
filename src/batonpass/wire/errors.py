"""One table: our errors, their codes, their HTTP status, and back again.

    {"error": {"code": "…", "message": "…", "details": ["…"]}, "holder": {lease view}}

`holder` stands at the top level, on the conflicts that have one to name. The
client raises the same class the service raised (`error_of`).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import msgspec

from batonpass.core import errors
from batonpass.core.errors import BatonError
from batonpass.wire.leases import LeaseBody, lease_body, lease_view

HTTP_STATUS: Final[dict[type[BatonError], int]] = {
    errors.BadRequest: 400,
    errors.Unauthorized: 401,
    errors.Forbidden: 403,
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


def http_status(error: BatonError) -> int:
    """Return the HTTP status of `error`: its own, or that of the nearest class in the table."""
    for kind in type(error).__mro__:
        if kind in HTTP_STATUS:
            return HTTP_STATUS[kind]
    return HTTP_STATUS[errors.Internal]


def error_body(error: BatonError) -> ErrorBody:
    """Return `error` as it goes over the wire."""
    holder = error.holder if isinstance(error, errors.Conflict) else None
    return ErrorBody(
        ErrorInfo(error.code, error.message, list(error.details), error.field),
        holder=lease_body(holder) if holder is not None else None,
    )


def error_of(status: int, body: bytes, *, retry_after_s: int = 1) -> BatonError:
    """Return the error a reply carries; one we can't read keeps its status and first words."""
    try:
        found = msgspec.json.decode(body, type=ErrorBody)
    except msgspec.MsgspecError:
        kind = _BY_STATUS.get(
            status, errors.Unavailable if status >= HTTPStatus.INTERNAL_SERVER_ERROR else errors.Conflict
        )
        foreign = _made(kind, f"HTTP {status}: {body[:200].decode(errors='replace')}", retry_after_s=retry_after_s)
        foreign.is_ours = False
        return foreign
    info = found.error
    kind = _BY_CODE.get(info.code) or _BY_STATUS.get(status, errors.Internal)
    error = _made(kind, info.message, retry_after_s=retry_after_s)
    error.details = tuple(info.details)
    error.field = info.field
    if isinstance(error, errors.Conflict) and found.holder is not None:
        error.holder = lease_view(found.holder)
    return error


def _made(kind: type[BatonError], message: str, *, retry_after_s: int) -> BatonError:
    error = kind(message)
    if isinstance(error, errors.Unavailable):
        error.retry_after_s = retry_after_s
    return error
