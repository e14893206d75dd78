"""The OpenAPI document says what the server takes and answers: all of it, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import jsonschema_rs
import msgspec
import pytest
import schemathesis

from batonpass.server.http.openapi import document, refusals
from batonpass.server.http.operations import JSON
from batonpass.server.http.parameters import IN_PATHS, IN_QUERIES, UNSAID, in_path, in_query
from batonpass.server.http.routes import OPERATIONS, ROUTES
from batonpass.testing.doors import DOORS, Door
from batonpass.testing.walks import Walk
from batonpass.wire import paths
from batonpass.wire.errors import HTTP_STATUS

if TYPE_CHECKING:
    from tests.api.conftest import Contract

DOCUMENT: Final = document(OPERATIONS)
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


# --- the document ----------------------------------------------------------------------------------------------------


def test_the_document_is_valid_openapi() -> None:
    schemathesis.openapi.from_dict(DOCUMENT).validate()


def schemas(part: Any) -> Iterator[Any]:  # noqa: ANN401 — a part of a document
    """Yield every schema that stands in a part of the document under that name."""
    match part:
        case dict():
            for name, value in part.items():
                if name == "schema":
                    yield value
                else:
                    yield from schemas(value)
        case list():
            for value in part:
                yield from schemas(value)
        case _:
            return


def test_every_schema_in_it_is_one() -> None:
    found = [*schemas(DOCUMENT), *DOCUMENT["components"]["schemas"].values()]

    assert [schema for schema in found if not jsonschema_rs.meta.is_valid({"$schema": DIALECT, **schema})] == []


def test_it_has_every_route_and_no_other() -> None:
    routes = {(method.lower(), route.path) for route in ROUTES for method in route.methods or () if method != "HEAD"}

    told = {(method, path) for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert told == routes - {("get", paths.OPENAPI)}


def test_no_two_structs_share_the_name_under_which_their_schema_stands() -> None:
    assert [name for name in DOCUMENT["components"]["schemas"] if "." in name] == []


def test_every_parameter_is_described_and_no_description_is_left_over() -> None:
    said = {
        f"{operation.name}: {name}": look_up(operation, name)
        for operation in OPERATIONS
        for look_up, names in ((in_query, operation.query), (in_path, paths.parameters(operation.path)))
        for name in names
    }
    used = {id(parameter) for parameter in said.values()}

    assert [name for name, parameter in said.items() if parameter is UNSAID] == []
    assert [name for names in (IN_QUERIES, IN_PATHS) for name, each in names.items() if id(each) not in used] == []


@pytest.mark.anyio
async def test_anybody_is_told_it_without_a_token(walk: Walk) -> None:
    answer = await walk.server.http.get(paths.OPENAPI)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == JSON
    assert answer.json() == msgspec.json.decode(msgspec.json.encode(DOCUMENT))


def test_a_server_that_is_not_asked_for_it_does_not_load_what_makes_it() -> None:
    program = "import sys, batonpass.server.app as _; sys.exit('batonpass.server.http.openapi' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


# --- what is answered ------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_every_reply_of_every_door_is_as_told(walk: Walk, contract: Contract) -> None:
    found = []
    for door in DOORS:
        answer = await walk.send(walk.at(door, "open"))
        found += list(contract.findings(door.operation, answer))
        assert answer.status_code == door.status, (door.name, answer.text[:500])

    assert found == []


REFUSED: Final[Mapping[str, Mapping[str, Any]]] = {
    "no token": {"token": None},
    "no object": {"content": b"[]"},
    "an unknown parameter": {"path": "?colour=red"},
    "a bad fence": {"headers": {"If-Lease": "nope"}},
    "a fence that is over": {"headers": {"If-Lease": "task-free; epoch=77"}},
}


@pytest.mark.anyio
async def test_every_refusal_of_every_door_is_as_told(walk: Walk, contract: Contract) -> None:
    found = []
    for door in DOORS:
        for what, more in REFUSED.items():
            path = door.path(walk.fleet) + more.get("path", "")
            answer = await walk.send(walk.at(door, what, **{**more, "path": path}))
            found += list(contract.findings(door.operation, answer))

    assert found == []


def test_every_error_of_the_table_is_told_somewhere() -> None:
    """All but those that answer what is no operation: 405, and 404 for paths that lead nowhere."""
    told = {status for operation in OPERATIONS for status in refusals(operation)}

    assert set(HTTP_STATUS.values()) - told == {405}


@pytest.mark.parametrize("door", [door for door in DOORS if door.kind is not None], ids=lambda door: door.name)
def test_a_body_that_opens_a_door_is_one_that_the_document_takes(door: Door) -> None:
    told = DOCUMENT["paths"][door.template][door.method.lower()]["requestBody"]["content"][JSON]["schema"]

    validator = jsonschema_rs.Draft202012Validator({**told, "components": DOCUMENT["components"]})

    assert [str(error) for error in validator.iter_errors(dict(door.body))] == []
