"""Whatever body is sent to whichever door, the answer is in the one shape, and a refusal has changed nothing (D16b).

Each test walks `batonpass.testing.doors`, which has every route. A finding is a
sentence; a test expects none.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batonpass.server.http.bodies import BODY_BYTES_MAX
from batonpass.server.http.operations import kinds_of
from batonpass.testing.doors import AGENT, DOORS, Door
from batonpass.testing.populated import CLAIMED, FREE, Populated
from batonpass.testing.walks import Try, Walk, judged, walk_through
from batonpass.wire import paths

pytestmark = pytest.mark.anyio

WITH_BODY: Final = [door for door in DOORS if door.kind is not None]
ANSWERS: Final = range(200, 500)
TEXT_MEBIBYTE: Final = "x" * (BODY_BYTES_MAX - 4096)
"""As long a text as a body may hold."""


@pytest.fixture
async def walk(populated: Populated) -> AsyncIterator[Walk]:
    async with walk_through(populated) as walk:
        yield walk


def encoded(door: Door, **fields: object) -> bytes:
    """Return the body that opens `door`, with these fields in place of its own."""
    return json.dumps({**door.body, **fields}).encode()


def fields(door: Door) -> tuple[str, ...]:
    assert door.kind is not None, door
    return tuple(field.encode_name for field in msgspec.structs.fields(door.kind))


# --- bodies that are none --------------------------------------------------------------------------------------------

UNREADABLE: Final = {
    "not JSON": b"nope",
    "half an object": b'{"a": 1',
    "two objects": b"{}{}",
    "a comma too many": b'{"a": 1,}',
    "an array": b"[]",
    "a text": b'"{}"',
    "a number": b"1",
    "null": b"null",
    "a key twice": b'{"a": 1, "a": 2}',
    "a key twice, further in": b'{"a": [{"b": 1, "b": 2}]}',
    "a key twice, once escaped": b'{"a": 1, "\\u0061": 2}',
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": [Infinity]}',
    "minus Infinity": b'{"a": -Infinity}',
    "beyond a double": b'{"a": 1e999}',
    "thousands of digits": b'{"a": %s}' % (b"9" * 5000),
    "arrays, very deep": b'{"a": %s' % (b"[" * 100_000),
    "objects, very deep": b'{"a":' * 100_000,
    "deep and closed": b'{"a": %s%s}' % (b"[" * 100_000, b"]" * 100_000),
    "bytes that are no UTF-8": b'{"a": "\xff"}',
    "an overlong NUL": b'{"a": "\xc0\x80"}',
    "a surrogate as bytes": b'{"a": "\xed\xa0\x80"}',
    "a bare NUL": b'{"a": "\x00"}',
    "UTF-16": '{"a": "b"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"a": "\\u0000"}'.encode("utf-16-le"),
    "UTF-32": '{"a": "b"}'.encode("utf-32"),
}


async def test_a_body_that_is_no_json_object_is_a_bad_request_at_every_door(walk: Walk) -> None:
    tries = [walk.at(door, what, content=raw, allowed=[400]) for door in WITH_BODY for what, raw in UNREADABLE.items()]

    assert await walk.findings(tries) == []


async def test_a_body_over_a_mebibyte_is_too_large_at_every_door_whether_it_says_so_or_not(walk: Walk) -> None:
    filling = b" " * BODY_BYTES_MAX
    tries = [
        attempt
        for door in WITH_BODY
        for attempt in (
            walk.at(door, "declared", content=filling + encoded(door), allowed=[413]),
            walk.at(door, "in chunks", content=[filling[:-1], encoded(door)], allowed=[413]),
        )
    ]

    assert await walk.findings(tries) == []


async def test_a_client_that_hangs_up_in_the_middle_is_no_failure_of_ours(
    walk: Walk, caplog: pytest.LogCaptureFixture
) -> None:
    for door in WITH_BODY:
        arriving: Iterator[Any] = iter(
            [{"type": "http.request", "body": b'{"no', "more_body": True}, {"type": "http.disconnect"}]
        )
        sent: list[Any] = []

        async def receive(arriving: Iterator[Any] = arriving) -> Any:  # noqa: ANN401 — an ASGI message
            return next(arriving)

        async def send(message: Any, sent: list[Any] = sent) -> None:  # noqa: ANN401 — an ASGI message
            sent.append(message)

        scope = {
            "type": "http",
            "method": door.method,
            "path": door.path(walk.fleet),
            "query_string": b"",
            "headers": [(b"authorization", f"Bearer {door.token(walk.fleet)}".encode())],
        }
        await walk.server.app(scope, receive, send)

        assert sent[0]["status"] == 400, door.name
    assert caplog.records == []


# --- values of another type, and texts -------------------------------------------------------------------------------

VALUES: Final[Mapping[str, object]] = {
    "null": None,
    "true": True,
    "zero": 0,
    "one": 1,
    "minus one": -1,
    "a half": 0.5,
    "2⁶³": 2**63,
    "-2⁶⁴": -(2**64),
    "10⁴⁰⁰": 10**400,
    "1e308": 1e308,
    "no text": "",
    "a blank": " ",
    "a text": "x",
    "an array": [],
    "an array of null": [None],
    "an array of numbers": [1],
    "an array of texts": ["x"],
    "an array of arrays": [[]],
    "an array of objects": [{}],
    "an object": {},
    "an object of null": {"a": None},
    "an object of an object": {"a": {"b": 1}},
}
TEXTS: Final = {
    "a text as long as a body": TEXT_MEBIBYTE,
    "NUL": "a\0b",
    "only NUL": "\0",
    "a lone surrogate": "a\ud800b",
    "surrogates the wrong way round": "\udc00\ud800",
    "a line end": "a\nb",
    "an escape": "\x1b[31m",
    "not ASCII": "ünï 🪃",
    "a mark of direction": "\u202eabc",
}


async def answered(walk: Walk, tries: list[Try]) -> list[str]:
    """Send `tries`, which may be granted; what was refused for what it says is then sent once more, as a walk."""
    found: list[str] = []
    refused: list[Try] = []
    for attempt in tries:
        answer = await walk.send(attempt)
        found += judged(attempt, answer)
        if answer.status_code in {400, 413, 422}:
            refused.append(attempt)
    return found + await walk.findings(refused)


@pytest.mark.parametrize("values", [VALUES, TEXTS], ids=["types", "texts"])
async def test_any_value_in_any_field_is_taken_or_refused_in_words(walk: Walk, values: Mapping[str, object]) -> None:
    tries = [
        walk.at(door, f"{name} is {what}", content=encoded(door, **{name: value}), allowed=ANSWERS)
        for door in WITH_BODY
        for name in fields(door)
        for what, value in values.items()
    ]

    assert await answered(walk, tries) == []


async def test_a_field_of_the_wrong_type_is_refused_by_its_name(walk: Walk) -> None:
    found = []
    for door in WITH_BODY:
        assert door.kind is not None
        for field in msgspec.structs.fields(door.kind):
            for what, value in VALUES.items():
                if _fits(value, field.type):
                    continue
                answer = await walk.send(walk.at(door, what, content=encoded(door, **{field.encode_name: value})))
                said = answer.json()
                error = said if isinstance(said["error"], str) else said["error"]
                if answer.status_code != door.invalid or not str(error.get("field")).startswith(field.encode_name):
                    found.append(f"{door.name}: {field.encode_name} is {what}: {error}")

    assert found == []


def _fits(value: object, annotation: Any) -> bool:  # noqa: ANN401 — whatever stands at a field
    try:
        msgspec.convert(value, annotation, strict=True)
    except msgspec.ValidationError:
        return False
    return True


async def test_text_that_cannot_be_stored_is_replaced_and_named_or_refused(walk: Walk) -> None:
    """Where it is only asked about, nothing is stored of it."""
    found = []
    for door in (door for door in WITH_BODY if not door.operation.asks):
        for name in fields(door):
            answer = await walk.send(walk.at(door, name, content=encoded(door, **{name: "a\0b\ud800c"})))
            if answer.is_success and not any("U+FFFD" in warning for warning in answer.json().get("warnings", ())):
                found.append(f"{door.name}: {name} was replaced without a word: {answer.text[:200]}")

    assert found == []


async def test_no_text_is_kept_at_any_length(walk: Walk) -> None:
    """Whatever a body may hold: what is kept of it in one field is bounded, but for a capture, which keeps it all."""
    found = []
    for door in WITH_BODY:
        for name in fields(door):
            content = encoded(door, **{name: TEXT_MEBIBYTE})
            answer = await walk.send(walk.at(door, name, content=content))
            if answer.is_success and (door.template, name) != (paths.CAPTURE, "text"):
                found.append(f"{door.name}: {name} takes {len(TEXT_MEBIBYTE)} characters")

    assert found == []


# --- fields nobody knows ---------------------------------------------------------------------------------------------


async def test_a_field_nobody_knows_is_refused_by_our_own_routes(walk: Walk) -> None:
    tries = [
        walk.at(door, name, content=encoded(door, **{name: "x"}), allowed=[door.invalid])
        for door in WITH_BODY
        if not door.published
        for name in ("colour", "__class__", "ids ", "\0", "é", "")
    ]

    assert await walk.findings(tries) == []


async def test_a_field_nobody_knows_is_overlooked_and_named_by_the_published_routes(walk: Walk) -> None:
    published = [door for door in WITH_BODY if door.published]

    answers = {
        door.name: await walk.send(walk.at(door, "colour", content=encoded(door, colour="red", author="person-x")))
        for door in published
    }

    assert {name: answer.status_code for name, answer in answers.items()} == {d.name: d.status for d in published}
    by_header = {name for name, answer in answers.items() if answer.headers.get("Baton-Ignored") == "colour, author"}
    by_warning = {name for name, answer in answers.items() if answer.json().get("warnings") == [*map(none_of, NOBODYS)]}
    assert by_header == {door.name for door in published if not has_warnings(door)}
    assert by_warning == answers.keys() - by_header


NOBODYS: Final = ("colour", "author")


def has_warnings(door: Door) -> bool:
    """Whether the reply has a list of warnings."""
    kinds = kinds_of(door.operation.gives)
    return all("warnings" in kind.__struct_encode_fields__ for kind in kinds)


def none_of(name: str) -> str:
    return f"{name}: not a field of this request; ignored"


@pytest.mark.parametrize("path", [paths.QUEUE_CLAIM, paths.NODE_PRIORITY])
async def test_what_names_them_is_short_and_harmless_whatever_they_are_called(walk: Walk, path: str) -> None:
    odd = {
        "a\r\nSet-Cookie: x=1": 1,
        "é🪃": 1,
        "\ud800": 1,
        "\0": 1,
        "n" * 5000: 1,
        **{f"field-{i}": 1 for i in range(5000)},
    }
    door = next(door for door in WITH_BODY if door.template == path)

    answer = await walk.send(walk.at(door, "odd", content=json.dumps({**odd, **door.body}).encode()))

    named = answer.headers.get("Baton-Ignored") or " ".join(answer.json()["warnings"])
    assert answer.status_code == door.status
    assert named.isascii()
    assert named.isprintable()
    assert len(named) < 1000
    assert "Set-Cookie" not in answer.headers


# --- anything at all -------------------------------------------------------------------------------------------------

KNOWN: Final = (
    FREE,
    CLAIMED,
    "task-nobody",
    AGENT,
    "person-pat",
    "record:pipelines/7f3a#driver",
    "fence",
    "node",
    "epoch",
)
SCALARS: Final = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(KNOWN)
    | st.text(st.characters(), max_size=20)  # NUL and surrogates among them
)
JSON: Final = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KNOWN) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)


def bodies_for(door: Door) -> st.SearchStrategy[dict[str, Any]]:
    """Objects that have something to do with what a door takes, and everything else in them."""
    names = st.sampled_from(fields(door)) if fields(door) else st.nothing()
    odd = st.dictionaries(names | st.text(max_size=8), JSON, max_size=6)
    return odd.flatmap(lambda given: st.sampled_from([given, {**door.body, **given}]))


@pytest.mark.timeout(180)
def test_any_json_object_at_any_door_is_answered(populated: Populated) -> None:
    refused: list[Try] = []
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(walk_through(populated)) as walk:
        for door in WITH_BODY:

            @settings(max_examples=12, suppress_health_check=list(HealthCheck), database=None)
            @given(body=bodies_for(door))
            def holds(door: Door, body: dict[str, Any]) -> None:
                attempt = walk.at(door, json.dumps(body), content=json.dumps(body).encode(), allowed=ANSWERS)
                answer = portal.call(walk.send, attempt)
                assert list(judged(attempt, answer)) == []
                if answer.status_code in {400, 413, 422}:
                    refused.append(attempt)

            holds(door)

        assert portal.call(walk.findings, refused) == []
