"""Requests made from the OpenAPI document, valid and not: no operation breaks, and every answer is as told.

schemathesis makes them. They reach inside because the schema of an id is narrowed, now and then, to what exists in the
database that they are sent to, and they change it as they go. `BATON_FUZZ_EXAMPLES=200 pytest tests/api` looks longer.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import httpx
import pytest
import requests
import schemathesis
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from batonpass.server.http.operations import Operation
from batonpass.testing.doors import DOORS, Door, Who, prefix_of, token_of
from batonpass.testing.populated import CLAIMED, FREE, RELEASED, RESERVED, TAKEN_OVER, WORKED, Fleet, Populated
from batonpass.testing.walks import Walk, walk_through
from batonpass.wire.schemas import ID, PREFIX

if TYPE_CHECKING:
    from tests.api.conftest import Contract

AnyCase = Case[Any]

EXAMPLES: Final = int(os.environ.get("BATON_FUZZ_EXAMPLES", "6"))
"""How many requests of each kind an operation gets."""
WHO: Final[tuple[Who, ...]] = ("admin", "person", "agent", "rival", "run")
READER: Final = "somebody who may only read"
NOBODY: Final = "nobody"
KNOWN_IDS: Final = (
    *(FREE, CLAIMED, WORKED, RESERVED, RELEASED, TAKEN_OVER, "task-nowhere", "art-report"),
    *("person-pat", "person-ada-admin", "agent-mill", "agent-rival", "mail"),
)
MALFORMED: Final = {("questions", "project")}
"""What is a bad request beside premises (D33), as the protocol has it (D16b)."""
LAST: Final = ("DELETE", "PUT")
"""What ends tokens and pauses projects comes at the end: after it less is reached."""


@dataclass(frozen=True, slots=True)
class Fuzzing:
    """A server over a database that has been worked with, and everybody who may ask it."""

    portal: BlockingPortal
    walk: Walk
    tokens: Mapping[str, str | None]
    schema: schemathesis.BaseSchema

    def send(self, case: AnyCase, *, who: str) -> httpx.Response:
        """Send what schemathesis made, under the token of `who`."""
        asked = requests.Request(**case.as_transport_kwargs(base_url="http://baton.test")).prepare()
        headers = {name: value for name, value in asked.headers.items() if name.lower() != "authorization"}
        token = self.tokens[who]
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        answer: httpx.Response = self.portal.call(self._send, str(asked.method), str(asked.url), asked.body, headers)
        return answer

    async def _send(self, method: str, url: str, body: Any, headers: Mapping[str, Any]) -> httpx.Response:  # noqa: ANN401 — as requests has it
        sent = [(_raw(name), _raw(value)) for name, value in headers.items()]
        return await self.walk.server.http.request(method, url, content=body, headers=sent)


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1", "replace")


@pytest.fixture
def fuzzing(populated: Populated, contract: Contract) -> Iterator[Fuzzing]:
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(walk_through(populated)) as walk:
        fleet = walk.fleet
        read_only = portal.call(walk.server.ask, "POST", "/v1/me/tokens", {"scope": "read", "label": "reads"})["token"]
        schema = schemathesis.openapi.from_dict(reaching(contract.document, fleet))
        tokens = {who: token_of(fleet, who) for who in WHO} | {READER: read_only, NOBODY: None}
        yield Fuzzing(portal, walk, tokens, schema)


def reaching(part: Any, fleet: Fleet) -> Any:  # noqa: ANN401 — a part of a document
    """Return a part of the document in which an id is often one that exists, a fence one that stands, a wait none."""
    match part:
        case {"pattern": pattern} if pattern == ID["pattern"]:
            return {"anyOf": [{"enum": list(KNOWN_IDS)}, part]}
        case {"pattern": pattern} if pattern == PREFIX["pattern"]:
            return {"anyOf": [{"enum": [prefix_of(fleet, "rival"), "00000000"]}, part]}
        case {"name": "If-Lease", **rest}:
            fences = [f"{CLAIMED}; epoch={fleet.epoch}", f"{CLAIMED}; epoch=77", "nope"]
            return {**rest, "name": "If-Lease", "schema": {"enum": fences}}
        case dict():
            return {name: {"enum": [0]} if name == "wait" else reaching(value, fleet) for name, value in part.items()}
        case list():
            return [reaching(value, fleet) for value in part]
        case _:
            return part


def unhurried(case: AnyCase) -> AnyCase:
    """Return `case` without a wish to wait: what waits is tested where clocks can be moved."""
    if case.query and "wait" in case.query:
        del case.query["wait"]
    if isinstance(case.body, dict) and "wait" in case.body:
        del case.body["wait"]
    return case


@st.composite
def requests_at(draw: st.DrawFn, made: st.SearchStrategy[AnyCase], door: Door, fleet: Fleet) -> tuple[AnyCase, str]:
    """A request that schemathesis made, and who sends it; parts of it may be those that would open the door."""
    case = unhurried(draw(made))
    as_door = draw(st.sets(st.sampled_from(["path", "body", "headers", "who"])))
    if "path" in as_door:
        case.path_parameters = dict(door.named(fleet))
    if "body" in as_door and door.kind is not None:
        case.body = json.loads(json.dumps(door.body))
    if "headers" in as_door:
        case.headers.clear()
    return case, door.who if "who" in as_door else draw(st.sampled_from([*WHO, READER, NOBODY]))


@pytest.mark.timeout(1800)
def test_whatever_is_asked_of_any_operation_is_answered_as_told(fuzzing: Fuzzing, contract: Contract) -> None:
    found: dict[str, str] = {}
    opened: set[str] = set()
    for door in sorted(DOORS, key=lambda door: door.method in LAST):
        made = fuzzing.schema[door.template][door.method]
        for mode in GenerationMode:
            if mode is GenerationMode.NEGATIVE and not (door.kind or door.query or door.values):
                continue  # there is nothing to get wrong

            @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
            @given(sent=requests_at(made.as_strategy(mode), door, fuzzing.walk.fleet))
            def ask(sent: tuple[AnyCase, str], door: Door) -> None:
                case, who = sent
                answer = fuzzing.send(case, who=who)
                if answer.is_success:
                    opened.add(door.name)
                for finding in judged(contract, door.operation, case, answer):
                    found.setdefault(finding[:160], f"{finding}\n    {who}: {case.as_curl_command()}")

            ask(door=door)

    assert not found, "\n".join(found.values())
    assert [door.name for door in DOORS if door.name not in opened] == []


def judged(contract: Contract, operation: Operation, case: AnyCase, answer: httpx.Response) -> Iterator[str]:
    """Yield what is wrong with an answer: it is not as told, the server broke, or it called an object none (D16b)."""
    where = f"{operation.method} {operation.path}: {answer.status_code}"
    yield from contract.findings(operation, answer)
    if answer.is_server_error:
        yield f"{where} {answer.text[:200]}"
    if answer.status_code == httpx.codes.BAD_REQUEST and isinstance(case.body, dict) and is_json(case.body):
        field = answer.json()["error"].get("field") or ""
        if not field.startswith("based_on") and (operation.noun, field) not in MALFORMED:
            yield f"{where} for an object: {answer.text[:200]}"


def is_json(body: dict[str, Any]) -> bool:
    """Whether a body is one that JSON can carry: it has no number beyond a double."""
    try:
        json.dumps(body, allow_nan=False)
    except ValueError:
        return False
    return True
