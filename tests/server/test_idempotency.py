"""An Idempotency-Key: the same request answers the same and does nothing more, at every door that takes one (D11).

That lease verbs never answer from the store is told by the trace H4 in `tests/traces`.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

import httpx
import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.doors import DOORS, Door
from batonpass.testing.points import failing, held
from batonpass.testing.populated import CLAIMED, FREE, Populated, contents
from batonpass.testing.server import InProcessServer, in_process_server
from batonpass.testing.waits import until_blocked
from batonpass.testing.walks import Walk, walk_through

pytestmark = pytest.mark.anyio

KEYED: Final = [door for door in DOORS if door.keyed]
MINTS: Final = {"POST /v1/agents/{id}/token", "POST /v1/me/tokens", "POST /v1/admin/tokens", "POST /v1/admin/keys"}
"""Their replies hold a secret, which is kept nowhere: a repetition mints anew."""
REPLAYED: Final = "Idempotency-Replayed"
DAY: Final = timedelta(hours=24)


@pytest.fixture
async def walk(populated: Populated) -> AsyncIterator[Walk]:
    async with walk_through(populated) as walk:
        yield walk


async def keyed(walk: Walk, door: Door, *, body: object = None) -> httpx.Response:
    """Knock at `door` with a key that is always the same, with the body that opens it or another."""
    sent = (door.body if body is None else body) if door.kind is not None else None
    return await walk.server.send(
        door.method, door.path(walk.fleet), sent, token=door.token(walk.fleet), headers={"Idempotency-Key": "once"}
    )


async def test_a_repeated_request_gets_the_first_answer_and_does_nothing_more_at_every_door(walk: Walk) -> None:
    found = []
    for door in KEYED:
        if door.name in MINTS or door.ends == door.who:  # whoever ended their own token asks nothing more
            continue
        first = await keyed(walk, door)
        with walk.unchanged():
            again = await keyed(walk, door)
        if (again.status_code, again.content) != (door.status, first.content) or again.headers.get(REPLAYED) != "true":
            found.append(f"{door.name}: {again.status_code} {again.text}, after {first.text}")
        if REPLAYED in first.headers:
            found.append(f"{door.name}: the first was a replay")

    assert found == []


async def test_a_repeated_mint_ends_the_token_that_may_be_lost_and_makes_another(walk: Walk) -> None:
    for door in (door for door in KEYED if door.name in MINTS):
        minted = [(await keyed(walk, door)).json() for _ in range(2)]

        valid = [(await walk.server.send("GET", "/v1/me", token=each["token"])).status_code for each in minted]
        assert valid == [401, 200], door.name


async def test_no_row_that_is_kept_for_repetitions_has_a_secret_in_it(walk: Walk) -> None:
    for door in KEYED:
        assert (await keyed(walk, door)).status_code in {door.status, 401}

    kept = contents(walk.url)["idempotency_keys"]
    assert len(kept) >= len(KEYED) - 1
    assert "bat_" not in repr(kept)


async def test_a_key_that_was_used_for_another_body_is_refused_at_every_door(walk: Walk) -> None:
    answers = {}
    doors = [door for door in KEYED if door.body]  # a beat's is empty, and there is no other
    for door in doors:
        assert (await keyed(walk, door)).status_code == door.status, door.name
        changed = {**door.body, next(iter(door.body)): _other(next(iter(door.body.values())))}
        with walk.unchanged():
            answer = await keyed(walk, door, body=changed)
        said = answer.json()
        error = said if isinstance(said["error"], str) else said["error"]
        answers[door.name] = (answer.status_code, error.get("field"))

    assert answers == {door.name: (door.invalid, "Idempotency-Key") for door in doors}


def _other(value: object) -> object:
    """Return another value of the same type, as far as a body is decoded before its key is looked up."""
    match value:
        case bool():
            return not value
        case int():
            return value + 60_000
        case list():
            return [*value, *value]
        case dict():
            return {**value, "another": {"type": "register"}}
        case "mentions":
            return "relates-to"
        case "open":
            return "abandoned"
        case "p3":
            return "p2"
        case "clear":
            return "agent"
        case "person-pat":
            return "person-ada-admin"
        case _:
            return f"{value}-2"


async def test_a_refusal_is_not_kept(walk: Walk) -> None:
    done = {"status": "done"}
    at = f"/v1/nodes/{FREE}/status"
    key = {"Idempotency-Key": "once"}
    with walk.unchanged():
        refused = await walk.server.send("POST", at, done, headers=key)
    resolver = {"id": "art-x", "type": "artifact", "title": "X", "summary": "S", "date": "2026-06-01"}
    await walk.server.ask("POST", "/v1/nodes", {"nodes": [{**resolver, "edges": [{"type": "resolves", "to": FREE}]}]})

    granted = await walk.server.send("POST", at, done, headers=key)

    assert (refused.status_code, granted.status_code) == (409, 200)
    assert REPLAYED not in granted.headers


async def test_an_answer_in_parts_is_kept_with_its_status(walk: Walk) -> None:
    """A batch of which an entry failed has changed something: its 207 is an answer like any other."""
    node = {"type": "task", "title": "T", "summary": "S", "date": "2026-06-01"}
    batch = {"nodes": [{**node, "id": "task-good"}, {**node, "id": "NO ID"}]}

    first, again = [
        await walk.server.send("POST", "/v1/nodes", batch, headers={"Idempotency-Key": "once"}) for _ in range(2)
    ]

    assert (first.status_code, again.status_code, again.content) == (207, 207, first.content)
    assert again.headers[REPLAYED] == "true"


async def test_a_key_is_its_callers_its_methods_and_its_paths_own(walk: Walk) -> None:
    body, key = {"type": "mentions", "to": FREE}, {"Idempotency-Key": "once"}
    at = f"/v1/nodes/{CLAIMED}/edges"

    answers = [
        await walk.server.send(method, path, body, token=token, headers=key)
        for method, path, token in (
            ("POST", at, walk.fleet.admin),
            ("POST", at, walk.fleet.person),
            ("DELETE", at, walk.fleet.admin),
            ("POST", "/v1/nodes/task-worked/edges", walk.fleet.admin),
        )
    ]

    assert [(answer.status_code, answer.headers.get(REPLAYED)) for answer in answers] == [(200, None)] * 4
    assert [answer.json()["status"] for answer in answers] == ["updated", "skipped", "updated", "updated"]


async def test_a_key_is_new_again_after_a_day(walk: Walk) -> None:
    body, key = {"priority": "p2"}, {"Idempotency-Key": "once"}
    at = f"/v1/nodes/{FREE}/priority"

    async def asked(after: timedelta) -> tuple[str, str | None]:
        walk.clock.advance(after)
        answer = await walk.server.send("POST", at, body, headers=key)
        return answer.json()["status"], answer.headers.get(REPLAYED)

    assert await asked(timedelta()) == ("updated", None)
    assert await asked(DAY) == ("updated", "true")
    assert await asked(timedelta(microseconds=1)) == ("skipped", None)
    assert await asked(DAY) == ("skipped", "true")


async def test_a_run_that_is_over_gets_no_answer_from_the_store(walk: Walk) -> None:
    """Fences are looked at first: a zombie that repeats its last write must not hear again the yes of its lifetime."""
    body, key = {"priority": "p2"}, {"Idempotency-Key": "once"}
    at = f"/v1/nodes/{FREE}/priority"
    assert (await walk.server.send("POST", at, body, token=walk.fleet.run, headers=key)).status_code == 200
    named = {**key, "If-Lease": f"{CLAIMED}; epoch={walk.fleet.epoch}"}
    assert (await walk.server.send("POST", at, body, token=walk.fleet.agent, headers=named)).status_code == 200
    await walk.server.ask("POST", f"/v1/nodes/{CLAIMED}/release", {"reason": "stop"})

    with walk.unchanged():
        by_token = await walk.server.send("POST", at, body, token=walk.fleet.run, headers=key)
        by_header = await walk.server.send("POST", at, body, token=walk.fleet.agent, headers=named)

    assert [(each.status_code, each.json()["error"]["code"]) for each in (by_token, by_header)] == [
        (409, "lease_lost")
    ] * 2


async def test_of_many_twins_at_once_one_is_carried_out_and_the_others_get_its_answer(walk: Walk) -> None:
    door = next(door for door in KEYED if door.name == "POST /v1/agents")

    answers = await asyncio.gather(*(keyed(walk, door) for _ in range(8)))

    assert {(answer.status_code, answer.content) for answer in answers} == {(201, answers[0].content)}
    assert sorted(answer.headers.get(REPLAYED, "false") for answer in answers) == ["false", *["true"] * 7]


# On SQLite one writer runs at a time, so a twin in flight is one of the same group: see the test above.


async def test_a_twin_of_a_request_in_flight_waits_for_its_answer(postgres_url: str, clock: ManualClock) -> None:
    async with in_process_server(postgres_url, clock=clock) as server, held("idem.inserted") as door:
        first = asyncio.create_task(add_agent(server))
        await door.reached()
        second = asyncio.create_task(add_agent(server))
        await until_blocked(postgres_url)
        assert not second.done()
        door.open()

        answers = [await first, await second]

    assert [(answer.status_code, answer.headers.get(REPLAYED)) for answer in answers] == [(201, None), (201, "true")]
    assert answers[0].content == answers[1].content


async def test_a_request_whose_commit_failed_has_kept_no_answer(sqlite_url: str, clock: ManualClock) -> None:
    async with in_process_server(sqlite_url, clock=clock) as server:
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        with failing("group.committing", full):
            lost = await add_agent(server)
        made = await add_agent(server)

    assert (lost.status_code, made.status_code, made.headers.get(REPLAYED)) == (503, 201, None)


async def add_agent(server: InProcessServer) -> httpx.Response:
    return await server.send("POST", "/v1/agents", {"label": "twin"}, headers={"Idempotency-Key": "once"})


def test_the_table_of_doors_says_which_take_a_key() -> None:
    """All that write, but lease verbs, `queue/next`, and the binding of the very token that asks."""
    by_themselves = {"claim", "renew", "extend", "reserve", "release", "next", "session"}
    unkeyed = {door.template.rsplit("/", 1)[1] for door in DOORS if door.writes and not door.keyed}

    assert unkeyed == by_themselves
    assert {door.name for door in KEYED} > MINTS
