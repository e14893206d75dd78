"""The OpenAPI 3.1 document of a table of operations: nothing in it is written a second time.

Paths, bodies, parameters and statuses are those of the operations; schemas are made by msgspec from the structs that
really read and write the bodies (`wire/`), with what `wire/schemas.py` says beyond their types; refusals are the one
table of `wire/errors.py`. It is made when somebody asks for it the first time.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import UnionType
from typing import Any, Final

import msgspec

from batonpass import __version__
from batonpass.core import errors
from batonpass.core.errors import BatonError
from batonpass.server.http.operations import JSON, Operation, kinds_of
from batonpass.server.http.parameters import IN_HEADERS, IN_REPLIES, Parameter, in_path, in_query
from batonpass.wire import paths
from batonpass.wire.errors import HTTP_STATUS, RECORD_ERRORS, ErrorBody, is_of_records
from batonpass.wire.events import LAST_EVENT_ID, STREAM
from batonpass.wire.records import RecordErrorBody

Value = dict[str, Any]
"""A part of the document."""

ABOUT: Final = """Coordination for fleets of coding agents: who holds which work, what to do next, and what is known.

Every request but the one for this document carries a token: `Authorization: Bearer <token>`.
Every refusal has one shape, and nothing has changed when one is answered; programs branch on `error.code`. Below
`/v1/records` it is another, flat one, with codes of its own: there programs branch on `error`.
A body is one JSON object of at most 1 MiB. Operations of the published protocol overlook fields that they do not know
and name them in `warnings`, or where a reply has none in the header `Baton-Ignored`; all others refuse them.
Fields are added and never get another meaning, and lists of values grow: overlook what you do not know."""

_STANDING: Final = (errors.Unauthorized, errors.Forbidden, errors.Invalid, errors.Internal, errors.Unavailable)
"""What any operation may answer."""
_WITH_A_BODY: Final = (errors.BadRequest, errors.TooLarge)
_OF_A_WRITE: Final = (errors.NotFound, errors.Conflict)


@dataclass(frozen=True, eq=False)
class Shape:
    """One of the two shapes in which errors are told: each class's code and status, and the body. `prefix` names it."""

    prefix: str
    body: type[msgspec.Struct]
    errors: Mapping[type[BatonError], tuple[str, int]]

    @property
    def statuses(self) -> list[int]:
        """Return every status it has, once."""
        return sorted({status for _, status in self.errors.values()})

    def name_of(self, status: int) -> str:
        """Return what the refusal with `status` is called: as the first error in its table that has it."""
        return self.prefix + next(kind.__name__ for kind, (_, its) in self.errors.items() if its == status)


ENVELOPE: Final = Shape("", ErrorBody, {kind: (kind.code, status) for kind, status in HTTP_STATUS.items()})
RECORDS: Final = Shape("Record", RecordErrorBody, RECORD_ERRORS)
SHAPES: Final = (ENVELOPE, RECORDS)


@functools.cache
def served(operations: tuple[Operation, ...]) -> bytes:
    """Return the document of `operations` as JSON; made once."""
    return msgspec.json.encode(document(operations))


def document(operations: Sequence[Operation]) -> Value:
    """Return the document of `operations`."""
    schemas, components = _schemas(operations)
    found: dict[str, Value] = {}
    for operation in operations:
        found.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Batonpass",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "tags": [{"name": noun} for noun in dict.fromkeys(operation.noun for operation in operations)],
        "paths": found,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A person's token (`bat_pat_…`), an agent's (`bat_agt_…`) or a key (`bat_key_…`).",
                }
            },
            "schemas": components,
            "headers": {name: _header(header) for name, header in IN_REPLIES.items()},
            "responses": dict(response for shape in SHAPES for response in _refusals(shape)),
        },
    }


def refusals(operation: Operation) -> list[int]:
    """Return the statuses of all that `operation` may refuse with."""
    kinds: list[type[BatonError]] = [*_STANDING, *operation.refuses]
    if operation.takes is not None:
        kinds += _WITH_A_BODY
    if not operation.reads:
        kinds += _OF_A_WRITE
    elif "{" in operation.path:
        kinds.append(errors.NotFound)
    return sorted({_shape_of(operation).errors[kind][1] for kind in kinds})


def _shape_of(operation: Operation) -> Shape:
    """Return the shape in which `operation` tells of errors (D36)."""
    return RECORDS if is_of_records(operation.path) else ENVELOPE


def _operation(operation: Operation, schemas: Mapping[object, Value]) -> Value:
    name_of = _shape_of(operation).name_of
    found: Value = {
        "operationId": operation.name.replace(".", "_"),
        "summary": operation.summary.rstrip("."),
        "tags": [operation.noun],
        "parameters": list(_parameters(operation)),
        "responses": {
            **{str(status): _success(operation, schemas) for status in (operation.status, *operation.also)},
            **{str(status): {"$ref": f"#/components/responses/{name_of(status)}"} for status in refusals(operation)},
        },
    }
    if operation.takes is not None:
        found["requestBody"] = {
            "required": any(field.required for field in msgspec.structs.fields(operation.takes)),
            "content": {JSON: {"schema": schemas[operation.takes]}},
        }
    return found


def _parameters(operation: Operation) -> Iterator[Value]:
    for name in paths.parameters(operation.path):
        yield _parameter(name, "path", in_path(operation, name), required=True)
    for name in operation.query:
        yield _parameter(name, "query", in_query(operation, name), listed=name in operation.listed)
    if STREAM in operation.media:
        yield _parameter(LAST_EVENT_ID, "header", IN_HEADERS[LAST_EVENT_ID])
    if not operation.reads:
        yield _parameter("If-Lease", "header", IN_HEADERS["If-Lease"])
    if operation.keyed:
        yield _parameter("Idempotency-Key", "header", IN_HEADERS["Idempotency-Key"])


def _parameter(name: str, place: str, parameter: Parameter, *, required: bool = False, listed: bool = False) -> Value:
    schema = {"type": "array", "items": parameter.schema} if listed else parameter.schema
    found: Value = {"name": name, "in": place, "description": parameter.about, "schema": schema}
    return {**found, "required": True} if required else found


def _header(header: Parameter) -> Value:
    return {"description": header.about, "schema": header.schema}


def _success(operation: Operation, schemas: Mapping[object, Value]) -> Value:
    content = {
        media: {"schema": schemas[operation.gives]} if media == JSON and operation.gives is not None else {}
        for media in operation.media
    }
    headers = list(operation.headers)
    if operation.keyed:
        headers.append("Idempotency-Replayed")
    if operation.takes is not None and not _has_warnings(operation):
        headers.append("Baton-Ignored")
    found: Value = {"description": operation.summary, "content": content}
    return {**found, "headers": _headers(headers)} if headers else found


def _has_warnings(operation: Operation) -> bool:
    """Whether its replies have a list that names what was overlooked of a body (D16b)."""
    return all("warnings" in kind.__struct_encode_fields__ for kind in kinds_of(operation.gives))


def _refusals(shape: Shape) -> Iterator[tuple[str, Value]]:
    """Yield the response of each status that errors of `shape` have, with its name."""
    for status in shape.statuses:
        yield shape.name_of(status), _refusal(shape, status)


def _refusal(shape: Shape, status: int) -> Value:
    """Return the response of all errors of `shape` that have `status`; its description says their codes."""
    kinds = [kind for kind, (_, its) in shape.errors.items() if its == status]
    said = [f"`{shape.errors[kind][0]}`: {(kind.__doc__ or '').partition(chr(10))[0]}" for kind in kinds]
    headers = []
    if any(issubclass(kind, errors.Unavailable) for kind in kinds):
        headers.append("Retry-After")
    if errors.Unauthorized in kinds:
        headers.append("WWW-Authenticate")
    found: Value = {
        "description": "\n".join(said),
        "content": {JSON: {"schema": {"$ref": f"#/components/schemas/{shape.body.__name__}"}}},
    }
    return {**found, "headers": _headers(headers)} if headers else found


def _headers(names: Sequence[str]) -> Value:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _schemas(operations: Sequence[Operation]) -> tuple[Mapping[object, Value], Value]:
    """Return the schema of each body, by its type, and the components that they refer to."""
    bodies: dict[type[msgspec.Struct], None] = {shape.body: None for shape in SHAPES}
    for operation in operations:
        bodies.update(dict.fromkeys([*([operation.takes] if operation.takes else []), *kinds_of(operation.gives)]))
    found, components = msgspec.json.schema_components(bodies, ref_template="#/components/schemas/{name}")
    schemas: dict[object, Value] = dict(zip(bodies, found, strict=True))
    for operation in operations:
        if operation.takes is not None and not operation.published:
            components[operation.takes.__name__]["additionalProperties"] = False
        if isinstance(operation.gives, UnionType):
            schemas[operation.gives] = {"anyOf": [schemas[kind] for kind in kinds_of(operation.gives)]}
    return schemas, components
