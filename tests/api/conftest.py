"""A server over a database that has been worked with, and the OpenAPI document as a judge of its answers."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import jsonschema_rs
import pytest

from batonpass.server.http.openapi import document
from batonpass.server.http.operations import Operation
from batonpass.server.http.routes import OPERATIONS
from batonpass.testing.populated import Populated
from batonpass.testing.walks import Walk, walk_through

OUR_HEADERS: Final = ("Baton-Ignored", "Idempotency-Replayed", "Retry-After", "WWW-Authenticate")


def closed(schema: Any) -> Any:  # noqa: ANN401 — a part of a document
    """Return a schema in which an object has no property but those that are told."""
    match schema:
        case dict():
            shut = {"additionalProperties": False} if "properties" in schema else {}
            return {**shut, **{name: closed(value) for name, value in schema.items()}}
        case list():
            return [closed(value) for value in schema]
        case _:
            return schema


@dataclass(frozen=True, eq=False)
class Contract:
    """What the document tells of every answer."""

    document: dict[str, Any]

    def findings(self, operation: Operation, answer: httpx.Response) -> Iterator[str]:
        """Yield what is not told of an answer of `operation`: its status, type, headers or body."""
        where = f"{operation.method} {operation.path}: {answer.status_code}"
        told = self.response(operation, answer.status_code)
        if told is None:
            yield f"{where} is not told: {answer.text[:200]}"
            return
        media = answer.headers["content-type"].partition(";")[0]
        if media not in told["content"]:
            yield f"{where}: {media} is none of {', '.join(told['content'])}"
            return
        for name in OUR_HEADERS:
            if name in answer.headers and name not in told.get("headers", {}):
                yield f"{where}: the header {name} is not told"
        if told["content"][media]:
            errors = self.validator(operation, answer.status_code, media).iter_errors(answer.json())
            yield from (f"{where}: {str(error)[:500]}" for error in errors)

    def response(self, operation: Operation, status: int) -> dict[str, Any] | None:
        """Return what is told of the answers of `operation` with `status`."""
        told: dict[str, Any] | None = self.document["paths"][operation.path][operation.method.lower()]["responses"].get(
            str(status)
        )
        if told is not None and "$ref" in told:
            named: dict[str, Any] = self.document["components"]["responses"][told["$ref"].rpartition("/")[2]]
            return named
        return told

    @functools.cached_property
    def components(self) -> Any:  # noqa: ANN401 — a part of a document
        return closed(self.document["components"])

    @functools.cache  # noqa: B019 — one contract a run
    def validator(self, operation: Operation, status: int, media: str) -> jsonschema_rs.Draft202012Validator:
        told = self.response(operation, status)
        assert told is not None
        return jsonschema_rs.Draft202012Validator(
            {**closed(told["content"][media]["schema"]), "components": self.components}
        )


@pytest.fixture
async def walk(populated: Populated) -> AsyncIterator[Walk]:
    async with walk_through(populated) as walk:
        yield walk


@pytest.fixture(scope="session")
def contract() -> Contract:
    return Contract(document(OPERATIONS))
