"""Requests made from the OpenAPI document, valid and not: no operation breaks, and every answer is as told.

schemathesis makes them, once for both databases. They reach inside because ids are often ones that exist in the
database that they are sent to, because some parts are those that would open the door, and because they change what
they find. `BATON_FUZZ_EXAMPLES=200 pytest tests/api` makes more.
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode

from batonpass.testing.doors import DOORS, Door, Who, prefix_of, token_of
from batonpass.testing.populated import CLAIMED, FREE, PROFILE, RELEASED, RESERVED, RUN, TAKEN_OVER, WORKED
from batonpass.testing.walks import Walk
from batonpass.wire.schemas import ID, PREFIX

if TYPE_CHECKING:
    from tests.api.conftest import Contract

pytestmark = pytest.mark.anyio

EXAMPLES: Final = int(os.environ.get("BATON_FUZZ_EXAMPLES", "4"))
"""How many requests of each kind an operation gets."""
WHO: Final[tuple[Who, ...]] = ("admin", "person", "agent", "rival", "run", "key")
READER: Final = "somebody who may only read"
NOBODY: Final = "nobody"
KNOWN_IDS: Final = (
    *(FREE, CLAIMED, WORKED, RESERVED, RELEASED, TAKEN_OVER, "task-nowhere", "art-report"),
    *("person-pat", "person-ada-admin", "agent-mill", "agent-rival", "mail", PROFILE, RUN),
)
FENCES: Final = (f"{CLAIMED}; epoch=1", f"{CLAIMED}; epoch=77", "nope")
STAND_INS: Final[Mapping[Who, str]] = {who: f"{number:012x}" for number, who in enumerate(WHO, start=0xABC)}
"""In place of the prefixes of these people's tokens: every database has its own."""
NOT_ITS_OWN: Final = (
    "authorization",
    "user-agent",
    "accept",
    "accept-encoding",
    "connection",
    "x-schemathesis-testcaseid",
)
"""Headers that a request has whatever is asked."""
MALFORMED: Final = {("questions", "project")}
"""What is a bad request beside premises (D33), as the protocol has it (D16b)."""
LIKE_THE_DOOR: Final = {"path": 2, "body": 1, "headers": 3, "who": 3}
"""How often, of four times, a part of a request is what would open the door: few would get past the first check."""
SHUT_MAX: Final = 0.2
"""How many operations may carry nothing out of what they are asked: what is asked first gets in the way of the rest."""
LAST: Final = ("DELETE", "PUT")
"""What ends tokens and pauses projects comes at the end: after it less is reached."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and who sends it."""

    door: Door
    who: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None

    def __str__(self) -> str:
        return f"{self.who}: {self.door.method} {self.url} {dict(self.headers)} {(self.body or b'')[:1000]!r}"


# --- what is asked ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def asked(contract: Contract) -> list[Asked]:
    """Everything that is asked, in order."""
    found: list[Asked] = []
    schema = schemathesis.openapi.from_dict(reaching(contract.document))
    for door in sorted(DOORS, key=lambda door: door.method in LAST):
        made = schema[door.template][door.method]
        for mode in GenerationMode:
            if mode is GenerationMode.NEGATIVE and not (door.kind or door.query or door.values):
                continue  # there is nothing to get wrong

            @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), database=None)
            @given(one=requests_at(made.as_strategy(mode), door))
            def make(one: Asked) -> None:
                found.append(one)

            make()
    return found


def reaching(part: Any) -> Any:  # noqa: ANN401 — a part of a document
    """Return a part of the document in which an id is often one that exists, a fence one that stands, a wait none."""
    match part:
        case {"pattern": pattern} if pattern == ID["pattern"]:
            return {"anyOf": [{"enum": list(KNOWN_IDS)}, part]}
        case {"pattern": pattern} if pattern == PREFIX["pattern"]:
            return {"anyOf": [{"enum": [STAND_INS["rival"], "00000000"]}, part]}
        case {"name": "If-Lease", **rest}:
            return {**rest, "name": "If-Lease", "schema": {"enum": list(FENCES)}}
        case dict():
            return {name: reaching(value) for name, value in part.items()}
        case list():
            return [reaching(value) for value in part]
        case _:
            return part


@st.composite
def requests_at(draw: st.DrawFn, made: st.SearchStrategy[Case[Any]], door: Door) -> Asked:
    """A request that schemathesis made, and who sends it; parts of it may be those that would open the door."""
    case = draw(made)
    as_door = {part for part, often in LIKE_THE_DOOR.items() if draw(st.integers(1, 4)) > 4 - often}
    if "path" in as_door:
        case.path_parameters = {**door.values, **({"prefix": STAND_INS[door.ends]} if door.ends else {})}
    if "body" in as_door and door.kind is not None:
        case.body = json.loads(json.dumps(door.body))
    if "headers" in as_door:
        case.headers.clear()
    for part in (case.query, case.body):  # what waits is tested where clocks can be moved
        if isinstance(part, dict):
            part.pop("wait", None)
    who = door.who if "who" in as_door else draw(st.sampled_from([*WHO, READER, NOBODY]))
    sent = requests.Request(**case.as_transport_kwargs(base_url="http://baton.test")).prepare()
    headers = {name: str(value) for name, value in sent.headers.items() if name.lower() not in NOT_ITS_OWN}
    assert isinstance(sent.body, str | bytes | None), sent.body
    return Asked(door, who, str(sent.url), headers, _bytes(sent.body) if sent.body else None)


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


# --- what is answered ------------------------------------------------------------------------------------------------


@pytest.mark.timeout(3600)
async def test_whatever_is_asked_of_any_operation_is_answered_as_told(
    walk: Walk, asked: list[Asked], contract: Contract
) -> None:
    found: dict[str, Asked] = {}
    opened: set[str] = set()
    reads = (await walk.server.ask("POST", "/v1/me/tokens", {"scope": "read", "label": "reads"}))["token"]
    tokens = {who: token_of(walk.fleet, who) for who in WHO} | {READER: reads}
    for one in asked:
        answer = await send(walk, one, token=tokens.get(one.who))
        if answer.is_success:
            opened.add(one.door.name)
        for finding in judged(contract, one, answer):
            found.setdefault(finding, one)

    assert not found, "\n".join(f"{finding}\n    {one}" for finding, one in found.items())
    shut = [door.name for door in DOORS if door.name not in opened]
    assert len(shut) < len(DOORS) * SHUT_MAX, f"requests do not reach inside any more: {shut}"


async def send(walk: Walk, one: Asked, *, token: str | None) -> httpx.Response:
    url = one.url
    for who, stand_in in STAND_INS.items():
        url = url.replace(stand_in, prefix_of(walk.fleet, who))
    headers = [(_bytes(name), _bytes(value)) for name, value in one.headers.items()]
    if token is not None:
        headers.append((b"Authorization", f"Bearer {token}".encode()))
    return await walk.server.http.request(one.door.method, url, content=one.body, headers=headers)


def judged(contract: Contract, one: Asked, answer: httpx.Response) -> Iterator[str]:
    """Yield what is wrong with an answer: it is not as told, the server broke, or it called an object none (D16b)."""
    where = f"{one.door.name}: {answer.status_code}"
    yield from contract.findings(one.door.operation, answer)
    if answer.is_server_error:
        yield f"{where} {answer.text[:200]}"
    of_records = one.door.template.startswith("/v1/records")  # where every refusal of a body is a 400 (D16b)
    if answer.status_code == httpx.codes.BAD_REQUEST and is_object(one.body) and not of_records:
        field = answer.json()["error"].get("field") or ""
        if not field.startswith("based_on") and (one.door.operation.noun, field) not in MALFORMED:
            yield f"{where} for an object: {answer.text[:200]}"


def is_object(body: bytes | None) -> bool:
    """Whether a body is a JSON object, and has no number beyond a double."""
    try:
        value = json.loads(body or b"{}")
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return isinstance(value, dict)
