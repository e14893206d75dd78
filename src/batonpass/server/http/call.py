"""One request being answered: who calls, what the services are, and how an answer or error leaves.

Every route is an operation's `endpoint` around its handler, an async function from a `Call` to a `Response`.
`endpoint` authenticates, reads the query, turns a `BatonError` into the error shape of its route, and is
the only place where an unforeseen exception becomes a 500.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from batonpass.core.errors import BatonError, Internal, Invalid, Unauthorized, Unavailable
from batonpass.core.identity import Principal
from batonpass.core.ids import Fence, NodeId, parse_fence, parse_label, parse_node_id
from batonpass.server.http import bodies
from batonpass.server.http.bodies import IGNORED_NAMED_MAX, Body, shown
from batonpass.server.http.operations import JSON, Operation
from batonpass.server.services.bundle import Services
from batonpass.server.services.change import Caller, Repeatable, Replayed
from batonpass.wire.errors import error_body, http_status, is_of_records, record_error_body, record_http_status

log = logging.getLogger(__name__)

IF_LEASE: Final = "if-lease"
IDEMPOTENCY_KEY: Final = "idempotency-key"
FENCES_MAX: Final = 20
_HIDING: Final = re.compile(rb"%(?:2f|[01][0-9a-f]|7f)", re.IGNORECASE)
_FLAGS: Final = {"1": True, "true": True, "0": False, "false": False, "": False}
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_encode: Final = msgspec.json.Encoder().encode

S = TypeVar("S", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Call:
    """An authenticated request for one operation, and the services that answer it. `query` has its parameters."""

    request: Request
    services: Services
    principal: Principal
    operation: Operation
    query: Mapping[str, str]

    async def body(self, kind: type[S]) -> Body[S]:
        """Return the body as a `kind`, which is what the operation takes."""
        assert kind is self.operation.takes, f"{self.operation.name} reads its body as {kind.__name__}"
        return await bodies.read(self.request, kind, published=self.operation.published)

    def caller(self, body: bytes = b"", *, warnings: Sequence[str] = ()) -> Caller:
        """Return who asks, with the headers' fences and, if the operation is keyed, their Idempotency-Key.

        `warnings` go into the reply.
        """
        key = self.request.headers.get(IDEMPOTENCY_KEY) if self.operation.keyed else None
        return Caller(
            self.principal,
            fences=self._fences(),
            repeatable=(
                Repeatable.of(
                    parse_label(key, field="Idempotency-Key"),
                    method=self.request.method,
                    path=self.request.url.path,
                    body=body,
                )
                if key is not None
                else None
            ),
            door=self.request.app.state.door,
            warnings=tuple(warnings),
        )

    def node_id(self) -> NodeId:
        """Return the node id in the path."""
        return parse_node_id(self.request.path_params["id"])

    def _fences(self) -> tuple[Fence, ...]:
        values = self.request.headers.getlist(IF_LEASE)
        fences = [parse_fence(part) for value in values for part in value.split(",")]
        if len(fences) > FENCES_MAX:
            raise Invalid(f"If-Lease: {len(fences)} fences; the limit is {FENCES_MAX}", field="If-Lease")
        return tuple(dict.fromkeys(fences))


def endpoint(operation: Operation) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers a route: its handler, authenticated, with every error in the shape of the route."""

    async def answer(request: Request) -> Response:
        try:
            _require_plain_path(request)
            services: Services = request.app.state.services
            principal = await services.identity.authenticate(_bearer(request))
            return await operation.handler(Call(request, services, principal, operation, _query(request, operation)))
        except BatonError as error:
            return refused(error, path=operation.path)
        except Exception:
            log.exception("request.failed", extra={"method": request.method, "path": request.url.path})
            broke = Internal("something broke here; it is in the server's log, and it was not your request")
            return refused(broke, path=operation.path)

    answer.__name__ = operation.handler.__name__
    return answer


def _query(request: Request, operation: Operation) -> Mapping[str, str]:
    """Return the parameters of `operation`; another one is refused, and a second one that is not a list's.

    Only a write of the published protocol overlooks what it does not know, as in its body (D16b).
    """
    if not request.scope["query_string"]:
        return _NOTHING
    names, found = operation.query, {}
    for name, value in request.query_params.multi_items():
        if name not in names:
            if operation.published and not operation.reads:
                continue
            known = ", ".join(names) or "none"
            raise Invalid(f"{shown(name)}: no such parameter; this takes {known}", field=shown(name))
        if "\0" in value:  # PostgreSQL's text holds none, so nothing there can match it
            raise Invalid(f"{name}: has a NUL", field=name)
        if name in found and name not in operation.listed:
            raise Invalid(f"{name}: stands in the query twice", field=name)
        found[name] = value
    return found


def _require_plain_path(request: Request) -> None:
    """Raise `Invalid` for a path that was routed by what its escapes hide: a slash, or a control character.

    Escapes are decoded before a route is found, so an id with a slash in it would reach another route than it names.
    """
    raw: bytes = request.scope.get("raw_path") or b""
    if b"%" in raw and _HIDING.search(raw):
        raise Invalid("path: an escaped slash or control character is in no id", field="id")


def flag(asked: Mapping[str, str], name: str) -> bool:
    """Return whether a query parameter says yes; without it, and empty, it says no."""
    found = _FLAGS.get(asked.get(name, ""))
    if found is None:
        raise Invalid(f"{name}: takes 1 or 0", field=name)
    return found


def reply(value: object, *, status: int = 200, ignored: tuple[str, ...] = ()) -> Response:
    """Return `value` as JSON; where it has no list of warnings, a header names the `ignored` fields (D16b)."""
    return Response(_encode(value), status_code=status, media_type=JSON, headers=_overlooked(ignored))


def changed(answer: msgspec.Struct | Replayed, *, ignored: tuple[str, ...] = ()) -> Response:
    """Return what a change answered, now or at its first sending; `ignored` as in `reply`."""
    if isinstance(answer, Replayed):
        headers = {"Idempotency-Replayed": "true", **_overlooked(ignored)}
        return Response(answer.body, status_code=answer.http_status, media_type=JSON, headers=headers)
    return reply(answer, status=getattr(answer, "http_status", 200), ignored=ignored)


def _overlooked(ignored: tuple[str, ...]) -> dict[str, str]:
    return {"Baton-Ignored": _named(ignored)} if ignored else {}


def refused(error: BatonError, *, path: str) -> Response:
    """Return `error` in the shape of the route at `path`: flat below `/v1/records`, else the envelope (D36)."""
    headers = {}
    if isinstance(error, Unavailable):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = "Bearer"
    flat = is_of_records(path)
    return Response(
        _encode(record_error_body(error) if flat else error_body(error)),
        status_code=record_http_status(error) if flat else http_status(error),
        media_type=JSON,
        headers=headers or None,
    )


def _bearer(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not secret.strip():
        raise Unauthorized("send a token: Authorization: Bearer <token>; `baton init` or an admin makes one")
    return secret.strip()


def _named(ignored: tuple[str, ...]) -> str:
    named = [shown(name) for name in ignored[:IGNORED_NAMED_MAX]]
    more = len(ignored) - len(named)
    return ", ".join([*named, *([f"and {more} more"] if more else [])])
