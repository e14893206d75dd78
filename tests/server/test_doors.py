"""The table of doors that other tests walk: it has every route, and says truly what each takes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from batonpass.server.http import bodies
from batonpass.server.http.operations import Operation
from batonpass.server.http.routes import OPERATIONS
from batonpass.testing.doors import DOORS
from batonpass.testing.populated import Populated, serving

pytestmark = pytest.mark.anyio


def test_each_operation_is_a_door_and_each_door_an_operation() -> None:
    assert {door.operation for door in DOORS} == set(OPERATIONS)
    assert len(DOORS) == len(OPERATIONS) == len({operation.name for operation in OPERATIONS})


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_each_operation_says_in_a_sentence_what_it_does(operation: Operation) -> None:
    assert operation.summary.endswith(".")
    assert "/v1/" not in operation.summary, "its method and path stand in the table"


async def test_every_door_opens_and_takes_the_body_it_is_listed_with(
    populated: Populated, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, read = populated.fleet, bodies.read
    taken: list[tuple[type[msgspec.Struct] | None, bool]] = []

    async def watched(request: Request, kind: type[msgspec.Struct], *, published: bool) -> Any:  # noqa: ANN401
        taken.append((kind, published))
        return await read(request, kind, published=published)

    monkeypatch.setattr(bodies, "read", watched)
    answers, expected = {}, {}
    async with serving(populated.url, clock=fleet.clock(), token=fleet.admin) as server:
        for door in DOORS:
            taken.clear()
            body = door.body if door.kind is not None else None
            answer = await server.send(door.method, door.path(fleet), body, token=door.token(fleet))
            answers[door.name] = (answer.status_code, *(taken or [(None, False)]))
            expected[door.name] = (door.status, (door.kind, door.published))

    assert answers == expected
