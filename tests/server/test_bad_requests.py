"""Ids, headers, queries, methods and tokens that are none: refused at every door, and nothing has changed (D16b).

Each test walks `batonpass.testing.doors`, which has every route. A finding is a
sentence; a test expects none.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Final
from urllib.parse import unquote

import msgspec
import pytest

from batonpass.core.errors import Invalid
from batonpass.core.records import parse_class_name, parse_field_name, parse_record_id
from batonpass.testing.doors import AGENT, DOORS, Door
from batonpass.testing.populated import FREE, Populated
from batonpass.testing.walks import Try, Walk, judged, walk_through
from batonpass.wire.errors import is_of_records

pytestmark = pytest.mark.anyio

WITH_BODY: Final = [door for door in DOORS if door.kind is not None]
READS: Final = [door for door in DOORS if not door.writes]
WRITES: Final = [door for door in DOORS if door.writes]


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


# --- ids -------------------------------------------------------------------------------------------------------------

MALFORMED: Final = {
    "upper case": "TASK-FREE",
    "two dots, escaped": "%2E%2E",
    "a blank": "task%20free",
    "a dot": "task.free",
    "an underscore": "task_free",
    "ten kilobytes": "a" * 10_240,
    "one byte too many": "a" * 201,
    "a NUL": "task%00free",
    "a line end": "task-free%0A",
    "not ASCII": "t%C3%A4sk",
    "a letter that looks like one of ours": "t%D0%B0sk",
    "no UTF-8": "task%FF",
    "a hyphen first": "-task",
    "an escaped per cent sign": "task%2541",
    "a fence": "task-free;epoch=1",
}
ELSEWHERE: Final = {
    "an escaped slash": "task-a%2Fb",
    "nothing": "",
    "one segment more": "task-free/x",
}
UNKNOWN: Final[Mapping[str, str]] = {
    "/v1/nodes/{id}": "task-nobody",
    "/v1/agents/{id}": "agent-nobody",
}


async def test_a_malformed_id_in_a_path_is_refused_in_words_and_leads_nowhere_else(walk: Walk) -> None:
    tries = [
        walk.at(door, f"{{{name}}} is {what}", path=filled(walk, door, name, segment), allowed=allowed)
        for door in DOORS
        for name in parameters(door)
        for segments, allowed in ((MALFORMED, [door.invalid]), (ELSEWHERE, [404, door.invalid]))
        for what, segment in segments.items()
        if not (is_of_records(door.template) and parses(name, segment))  # their ids and fields may be so
    ]

    assert await walk.findings(tries) == []


def parses(name: str, segment: str) -> bool:
    parse = {"record_class": parse_class_name, "id": parse_record_id, "field": parse_field_name}[name]
    try:
        return bool(parse(unquote(segment)))
    except Invalid:
        return False


async def test_an_escape_does_not_lead_to_another_route(walk: Walk) -> None:
    """Escapes are undone before a route is found: this one names a node whose id has a slash in it, and no verb."""
    door = next(door for door in DOORS if door.template == "/v1/nodes/{id}/claim")
    tries = [
        walk.at(door, what, path=path, allowed=[door.invalid])
        for what, path in {
            "an escaped slash": "/v1/nodes/task-free%2Fclaim",
            "the same in lower case": "/v1/nodes/task-free%2fclaim",
            "a line end after the verb": "/v1/nodes/task-free/claim%0A",
        }.items()
    ]

    assert await walk.findings(tries) == []


async def test_a_slash_at_the_end_leads_nowhere(walk: Walk) -> None:
    tries = [walk.at(door, "a slash", path=door.path(walk.fleet) + "/", allowed=[404]) for door in DOORS]

    assert await walk.findings(tries) == []


async def test_an_id_that_is_nobodys_is_not_found_and_nothing_is_made_of_it(walk: Walk) -> None:
    tries = [
        walk.at(door, f"{{id}} is {nobody}", path=filled(walk, door, "id", nobody), allowed=[404])
        for door in DOORS
        for stem, nobody in UNKNOWN.items()
        if door.template.startswith(stem)
    ]
    tries += [
        walk.at(door, "prefix", path=filled(walk, door, "prefix", "00000000"), allowed=[404])
        for door in DOORS
        if "{prefix}" in door.template
    ]

    assert len(tries) > 15
    assert await walk.findings(tries) == []


def parameters(door: Door) -> list[str]:
    return [part[1:-1] for part in door.template.split("/") if part.startswith("{")]


def filled(walk: Walk, door: Door, name: str, segment: str) -> str:
    """Return the path of `door` with `segment` as it is in place of one parameter."""
    path = door.path(walk.fleet, **{name: "in-its-place"})
    return path.replace("in-its-place", segment)


NODES_NAMED: Final = {
    "to": "one",
    "ids": "many",
    "exclude": "many",
    "candidates": "many",
    "owner": "one",
    "person": "one",
}
"""The fields in which bodies name nodes."""


async def test_a_malformed_id_in_a_body_is_refused_by_its_place(walk: Walk) -> None:
    bad = ["", " ", "TASK-FREE", "task/free", "..", "a" * 201, "task\0free", "task\ud800", "tä", "task-free\n"]
    tries = [
        walk.at(door, f"{name} names {text!r}", content=encoded(door, **{name: named}), allowed=[door.invalid])
        for door in WITH_BODY
        for name in set(fields(door)) & set(NODES_NAMED)
        for text in bad
        for named in ([[FREE, text]] if NODES_NAMED[name] == "many" else [text])
    ]

    assert {attempt.what.split(" names ")[0].split(": ")[1] for attempt in tries} == set(NODES_NAMED)
    assert await walk.findings(tries) == []


async def test_sessions_and_nonces_are_printable_ascii_of_a_few_letters(walk: Walk) -> None:
    bad = ["", " ", "a ", "a\nb", "a\tb", "é", "a" * 201, "\0", "\ud800", "\x7f"]
    tries = [
        walk.at(door, f"{name} is {text!r}", content=encoded(door, **{name: text}), allowed=[door.invalid])
        for door in WITH_BODY
        for name in set(fields(door)) & {"session", "dispatch"}
        for text in bad
    ]

    assert len(tries) > 10 * len(bad)
    assert await walk.findings(tries) == []


# --- headers ---------------------------------------------------------------------------------------------------------

NO_FENCES: Final[Mapping[str, str | bytes]] = {
    "nothing": "",
    "a resource alone": "task-claimed",
    "no epoch": "task-claimed; epoch=",
    "an epoch in words": "task-claimed; epoch=one",
    "a negative epoch": "task-claimed; epoch=-1",
    "an epoch of twenty digits": "task-claimed; epoch=10000000000000000000",
    "an epoch in other digits": "task-claimed; epoch=\u0661".encode(),
    "upper case": "TASK-CLAIMED; epoch=1",
    "something behind": "task-claimed; epoch=1; x",
    "a comma too many": "task-claimed; epoch=1,",
    "bytes": b"\xff\xfe",
    "a record of no class": "record:#x; epoch=1",
    "very long": "a" * 10_000 + "; epoch=1",
    "too many": ", ".join(f"task-{i}; epoch=1" for i in range(21)),
}
NO_KEYS: Final[Mapping[str, str | bytes]] = {
    "nothing": "",
    "too long": "k" * 201,
    "not ASCII": "ké".encode(),
    "a tab": "a\tb",
    "bytes": b"\xff",
}


async def test_a_fence_that_is_none_is_refused_at_every_door_that_writes(walk: Walk) -> None:
    tries = [
        walk.at(door, what, headers={"If-Lease": text}, allowed=[door.invalid])
        for door in WRITES
        for what, text in NO_FENCES.items()
    ]

    assert await walk.findings(tries) == []


async def test_a_key_that_is_none_is_refused_at_every_door_that_answers_repetitions(walk: Walk) -> None:
    tries = [
        walk.at(door, what, headers={"Idempotency-Key": text}, allowed=[door.invalid])
        for door in DOORS
        if door.keyed
        for what, text in NO_KEYS.items()
    ]

    assert await walk.findings(tries) == []


# --- queries ---------------------------------------------------------------------------------------------------------

NO_NUMBERS: Final = ("-1", "1.5", "one", "", "1e3", "9" * 10, "%D9%A1", "0x1", "1_0", "+1")
NO_VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    "limit": ("0", *NO_NUMBERS),
    "offset": NO_NUMBERS,
    "type": ("nope", "TASK", "task,nope", "%00"),
    "exclude_type": ("nope", "%00"),
    "readiness": ("nope", "AGENT", ""),
    "state": ("nope", ""),
    "direction": ("nope", ""),
    "project": ("No Slug", "..", "%00", "", "a" * 201),
    "assignee": ("No Id", "", "%00"),
    "person": ("nobody", "", "%00", "person-"),
    "all": ("maybe", "2"),
    "include_blocked": ("maybe", "2"),
}
ANYTHING: Final = (
    "",
    "%00",
    "a%00b",
    "%FF",
    "x" * 5000,
    "%F0%9F%AA%83",
    "'%22%5C%25_",
    "person-ada-admin",
    "%0A",
    "|||",
)


async def test_a_parameter_that_is_none_or_stands_there_twice_is_refused(walk: Walk) -> None:
    tries = [
        walk.at(door, query, path=f"{door.path(walk.fleet)}?{query}", allowed=[door.invalid])
        for door in READS
        for query in ["colour=red", *(f"{name}=1&{name}=1" for name in door.query)]
        if not (query.startswith(("type", "exclude_type")))  # lists, which may stand there several times
    ]

    assert await walk.findings(tries) == []


async def test_a_parameters_value_that_it_does_not_take_is_refused(walk: Walk) -> None:
    tries = [
        walk.at(door, f"{name}={value}", path=f"{door.path(walk.fleet)}?{name}={value}", allowed=[door.invalid])
        for door in READS
        for name in door.query
        for value in NO_VALUES.get(name, ())
    ]

    assert await walk.findings(tries) == []


async def test_any_other_value_of_a_parameter_is_answered(walk: Walk) -> None:
    answers = {"fields": [200, 404], "free": [200, 404]}  # a name that is none of the class's
    tries = [
        walk.at(
            door,
            f"{name}={value}",
            path=f"{door.path(walk.fleet)}?{name}={value}",
            allowed=[*answers.get(name, [200]), door.invalid],
        )
        for door in READS
        for name in door.query
        for value in ANYTHING
    ]

    assert await walk.findings(tries) == []


# --- methods and paths -----------------------------------------------------------------------------------------------


async def test_a_method_that_a_path_does_not_take_is_refused_naming_those_it_takes(walk: Walk) -> None:
    found = []
    for door in {door.template: door for door in DOORS}.values():
        path = door.path(walk.fleet)
        taken = {other.method for other in DOORS if fits(other.template, path)}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - taken:
            attempt = walk.at(door, method, method=method, allowed=[405])
            answer = await walk.send(attempt)
            found += list(judged(attempt, answer))
            if set(answer.headers.get("Allow", "").split(", ")) - {"HEAD"} != taken:
                found.append(f"{method} {door.template}: Allow: {answer.headers.get('Allow')}")

    assert found == []


def fits(template: str, path: str) -> bool:
    """Whether `path` is one of those that `template` stands for: `/v1/nodes/batch` may be a node called batch."""
    parts, segments = template.split("/"), path.split("/")
    return len(parts) == len(segments) and all(
        part == segment or part.startswith("{") for part, segment in zip(parts, segments, strict=True)
    )


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "//v1/me", "/v2/me", "/v1/ME", "/favicon.ico", "/v1/nodes/a/b/c"])
async def test_a_path_that_is_not_there_is_not_found(walk: Walk, path: str) -> None:
    assert await walk.findings([Try(path, "GET", path, token=walk.fleet.admin, allowed=[404])]) == []


# --- tokens ----------------------------------------------------------------------------------------------------------


async def test_without_a_token_that_is_known_no_door_opens(walk: Walk) -> None:
    minted = await walk.server.ask("POST", "/v1/me/tokens", {"label": "short", "expires": "1h"})
    ended = await walk.server.ask("POST", "/v1/me/tokens", {"label": "ended"})
    await walk.server.ask("DELETE", f"/v1/me/tokens/{ended['hash_prefix']}")
    walk.clock.advance(timedelta(hours=2))
    secret = walk.fleet.admin
    headers: Mapping[str, Mapping[str, str | bytes]] = {
        "none": {},
        "nothing": {"Authorization": ""},
        "a scheme alone": {"Authorization": "Bearer"},
        "another scheme": {"Authorization": f"Basic {secret}"},
        "no scheme": {"Authorization": secret},
        "two": {"Authorization": f"Bearer {secret} {secret}"},
        "garbage": {"Authorization": "Bearer nope"},
        "bytes": {"Authorization": b"Bearer \xff\xfe"},
        "very long": {"Authorization": "Bearer " + "x" * 10_000},
        "one letter more": {"Authorization": f"Bearer {secret}x"},
        "one letter changed": {"Authorization": f"Bearer {secret[:-1]}{'a' if secret[-1] != 'a' else 'b'}"},
        "expired": {"Authorization": f"Bearer {minted['token']}"},
        "revoked": {"Authorization": f"Bearer {ended['token']}"},
    }
    tries = [
        walk.at(door, what, headers=sent, token=None, allowed=[401]) for door in DOORS for what, sent in headers.items()
    ]

    assert await walk.findings(tries) == []


async def test_a_token_that_may_only_read_opens_the_doors_that_read_and_no_other(walk: Walk) -> None:
    own, read = "/v1/me/tokens", {"scope": "read"}
    readers: dict[str, str] = {
        "admin": (await walk.server.ask("POST", own, read))["token"],
        "person": (await walk.server.ask("POST", own, read, token=walk.fleet.person))["token"],
        "agent": (await walk.server.ask("POST", f"/v1/agents/{AGENT}/token", read))["token"],
    }
    tries = [
        walk.at(door, "a reading token", token=readers[door.who], allowed=[403] if door.writes else [200])
        for door in DOORS
    ]

    assert await walk.findings(tries) == []
