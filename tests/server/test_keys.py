"""API keys over HTTP: how they are made and ended, and that what they open is records and reads (D1, D11, D35)."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest

from batonpass.core.tokens import LIVES, Kind, Secret, hash_of
from batonpass.testing.clock import ManualClock
from batonpass.testing.doors import DOORS, Door
from batonpass.testing.populated import KEY, Populated, contents, serving
from batonpass.testing.scripted import ManualSeconds
from batonpass.testing.server import InProcessServer, in_process_server

pytestmark = pytest.mark.anyio

NAME: Final = "remediator/worker-1"
KEYS: Final = "/v1/admin/keys"
YEAR: Final = timedelta(days=365)


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


async def opens(server: InProcessServer, token: str) -> bool:
    """Say whether `token` opens anything."""
    answer = await server.send("GET", "/v1/me", token=token)
    assert answer.status_code in {200, 401}, answer.text
    return answer.status_code == 200


async def names(server: InProcessServer) -> list[str]:
    return [key["name"] for key in (await server.ask("GET", KEYS))["keys"]]


# Making


async def test_a_key_is_made_for_a_name_and_its_secret_is_shown_once(server: InProcessServer) -> None:
    response = await server.send("POST", KEYS, {"name": NAME})
    made = response.json()
    listed = (await server.ask("GET", KEYS))["keys"]

    assert (response.status_code, response.headers["Cache-Control"]) == (201, "no-store")
    assert re.fullmatch(r"bat_key_[A-Za-z0-9_-]{43}", made["token"])
    assert made == {
        "identity": f"apikey:{NAME}",
        "name": NAME,
        "token": made["token"],
        "hash_prefix": hash_of(Secret(made["token"]))[:12],
        "expires": "2027-06-01T12:00:00.000+00:00",
        "scope": "write",
    }
    assert listed == [
        {
            "identity": f"apikey:{NAME}",
            "name": NAME,
            "hash_prefix": made["hash_prefix"],
            "scope": "write",
            "created_by": server.admin.id,
            "created_at": "2026-06-01T12:00:00.000+00:00",
            "expires": made["expires"],
        }
    ]


async def test_a_key_is_told_who_it_is(server: InProcessServer) -> None:
    key, agent = await server.add_key(NAME), await server.add_agent("mill")

    assert await server.ask("GET", "/v1/me", token=key) == {
        "person": None,
        "name": NAME,
        "email": "",
        "bound": False,
        "is_admin": False,
        "org": "org-root",
        "scope": "write",
        "identity": f"apikey:{NAME}",
    }
    assert (await server.ask("GET", "/v1/me", token=agent))["identity"] == "agent:agent-mill"
    assert (await server.ask("GET", "/v1/me"))["identity"] == f"person:{server.admin.id}"


async def test_a_name_has_segments(server: InProcessServer) -> None:
    for name in ("a", "A.b_c-1", "0", "fleet/eu/west-1/worker-01", "x" * 200):
        assert (await server.ask("POST", KEYS, {"name": name}))["identity"] == f"apikey:{name}"


ODD_NAMES: Final = ("", "/", "a/", "/a", "a//b", "-a", ".a", "a/.b", "../a", "a b", "a*", "ü", "a\n", "x" * 201)
BAD: Final[Sequence[tuple[Mapping[str, object], str]]] = (
    *(({"name": name}, "name") for name in ODD_NAMES),
    ({"name": "apikey:a"}, "name"),
    ({"name": 7}, "name"),
    ({"name": None}, "name"),
    ({}, "name"),
    ({"name": "a", "expires": "yesterday"}, "expires"),
    ({"name": "a", "expires": "-1d"}, "expires"),
    ({"name": "a", "expires": 90}, "expires"),
    ({"name": "a", "expires": "1826d"}, "expires"),
    ({"name": "a", "scope": "admin"}, "scope"),
    ({"name": "a", "replace": "yes"}, "replace"),
    ({"name": "a", "person": "person-x"}, "person"),
)


async def test_a_mints_bad_field_is_named_and_no_key_is_made(server: InProcessServer) -> None:
    for body, field in BAD:
        response = await server.send("POST", KEYS, body)
        assert refusal(response) == (422, "invalid_request"), body
        assert response.json()["error"]["message"].startswith(f"{field}: "), body
    assert await names(server) == []


async def test_a_key_may_live_for_five_years_and_no_longer(server: InProcessServer) -> None:
    most = LIVES[Kind.KEY].most

    made = await server.ask("POST", KEYS, {"name": "a", "expires": f"{most.days}d"})
    longer = await server.send("POST", KEYS, {"name": "b", "expires": f"{most.days + 1}d"})

    assert made["expires"].startswith("2031-05-31T12:00:00")
    assert "an API key lives at most 1825 days" in longer.json()["error"]["message"]


async def test_a_key_ends_when_it_said_and_its_name_may_have_another(
    server: InProcessServer, clock: ManualClock, seconds: ManualSeconds
) -> None:
    key = await server.add_key(NAME, expires="1h")
    assert await opens(server, key)
    clock.advance(timedelta(hours=1))
    seconds.advance(6)

    assert not await opens(server, key)
    assert await names(server) == []
    assert await opens(server, await server.add_key(NAME))


# One live key a name


async def test_a_name_has_one_live_key_unless_it_is_replaced(server: InProcessServer) -> None:
    first = await server.ask("POST", KEYS, {"name": NAME})

    again = await server.send("POST", KEYS, {"name": NAME})
    assert refusal(again) == (409, "conflict")
    assert first["hash_prefix"] in again.json()["error"]["message"]
    assert await opens(server, first["token"])

    second = await server.ask("POST", KEYS, {"name": NAME, "replace": True})
    assert second["replaced"] == first["hash_prefix"]
    assert [await opens(server, each["token"]) for each in (first, second)] == [False, True]
    assert await names(server) == [NAME]


async def test_to_replace_a_key_that_is_not_there_is_to_make_one(server: InProcessServer) -> None:
    made = await server.ask("POST", KEYS, {"name": NAME, "replace": True})

    assert "replaced" not in made
    assert await opens(server, made["token"])


@pytest.mark.parametrize("replace", [False, True])
async def test_of_many_mints_of_one_name_at_once_one_key_lives(server: InProcessServer, replace: bool) -> None:  # noqa: FBT001
    answers = await asyncio.gather(*(server.send("POST", KEYS, {"name": NAME, "replace": replace}) for _ in range(5)))

    made = [answer.json()["token"] for answer in answers if answer.status_code == 201]
    assert {answer.status_code for answer in answers} == ({201} if replace else {201, 409})
    assert len(made) == (5 if replace else 1)
    assert [await opens(server, token) for token in made].count(True) == 1
    assert await names(server) == [NAME]


async def test_a_repeated_mint_ends_the_first_key_and_makes_another(server: InProcessServer) -> None:
    first, second = [await server.ask("POST", KEYS, {"name": NAME}, idempotency_key="k-1") for _ in range(2)]

    assert first["token"] != second["token"]
    assert [await opens(server, each["token"]) for each in (first, second)] == [False, True]


async def test_a_repeated_mint_ends_no_key_that_somebody_else_has_made_since(server: InProcessServer) -> None:
    first = await server.ask("POST", KEYS, {"name": NAME}, idempotency_key="k-1")
    await server.ask("DELETE", f"{KEYS}/{first['hash_prefix']}")
    other = await server.add_key(NAME)

    again = await server.send("POST", KEYS, {"name": NAME}, headers={"Idempotency-Key": "k-1"})

    assert refusal(again) == (409, "conflict")
    assert await opens(server, other)


# Listing and ending


async def test_keys_are_listed_by_name_in_pages_without_secrets(server: InProcessServer) -> None:
    wanted = ["a", "a/1", "a/2", "b"]
    made = [await server.add_key(name) for name in reversed(wanted)]

    first = await server.send("GET", f"{KEYS}?limit=3")
    page = first.json()
    rest = await server.ask("GET", f"{KEYS}?limit=3&after={page['next']}")

    assert [key["name"] for key in page["keys"] + rest["keys"]] == wanted
    assert rest["next"] is None
    assert not any(token in first.text for token in made)
    assert [key["name"] for key in (await server.ask("GET", f"{KEYS}?name=a/1"))["keys"]] == ["a/1"]


async def test_a_key_is_ended_by_the_beginning_of_its_hash_at_once(server: InProcessServer) -> None:
    made = await server.ask("POST", KEYS, {"name": NAME})
    assert await opens(server, made["token"])

    ended = [await server.ask("DELETE", f"{KEYS}/{made['hash_prefix']}") for _ in range(2)]

    assert not await opens(server, made["token"])
    answer = {"ok": True, "status": "revoked", "identity": f"apikey:{NAME}", "hash_prefix": made["hash_prefix"]}
    assert ended == [answer, {**answer, "unchanged": True}]
    assert await names(server) == []


async def test_a_prefix_that_names_no_key(server: InProcessServer) -> None:
    (persons,) = (await server.ask("GET", "/v1/admin/tokens"))["tokens"]

    assert refusal(await server.send("DELETE", f"{KEYS}/{'0' * 12}")) == (404, "not_found")
    assert refusal(await server.send("DELETE", f"{KEYS}/xyz")) == (422, "invalid_request")
    assert refusal(await server.send("DELETE", f"{KEYS}/{persons['hash_prefix']}")) == (404, "not_found")


async def test_a_key_ended_by_another_process_opens_nothing_after_five_seconds(
    database_url: str, clock: ManualClock
) -> None:
    seconds = ManualSeconds()
    async with in_process_server(database_url, clock=clock, monotonic_s=seconds) as server:
        made = await server.ask("POST", KEYS, {"name": NAME})
        assert await opens(server, made["token"])
        async with serving(database_url, clock=clock, token=server.admin_token) as other:
            await other.ask("DELETE", f"{KEYS}/{made['hash_prefix']}")

        seconds.advance(4.9)
        assert await opens(server, made["token"]), "it is remembered"
        seconds.advance(0.2)
        assert not await opens(server, made["token"])


async def test_what_is_no_key_opens_nothing(server: InProcessServer) -> None:
    made = await server.add_key(NAME)
    for text in (
        "bat_key_" + "A" * 43,
        made[:-1],
        made + "A",
        made.replace("key", "pat"),
        "bat_key_",
        "bat_key_*" * 900,
    ):
        answer = await server.send("GET", "/v1/me", token=text)
        assert refusal(answer) == (401, "unauthorized"), text


async def test_no_secret_is_in_any_table_log_or_repr(
    database_url: str, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with in_process_server(database_url, clock=clock) as server:
        made = await server.ask("POST", KEYS, {"name": NAME}, idempotency_key="k-1")
        await server.ask("GET", "/v1/me", token=made["token"])
        await server.ask("DELETE", f"{KEYS}/{made['hash_prefix']}", idempotency_key="k-2")
        await server.send("GET", "/v1/me", token=made["token"])

    bare = made["token"].removeprefix("bat_key_")
    assert bare not in repr(contents(database_url))
    assert bare not in caplog.text


# What a key may do


READS: Final = [door for door in DOORS if not door.writes]
ADMINS: Final = {door.name for door in DOORS if door.template.startswith("/v1/admin/")}


def of_the_graph(door: Door) -> bool:
    """Say whether a door is one that keys have no part in, as all are that write and are not records'."""
    return door.writes and not door.template.startswith("/v1/records")


@pytest.mark.parametrize("scope", ["read", "write"])
async def test_a_key_is_refused_at_every_door_that_writes_and_at_every_admins(populated: Populated, scope: str) -> None:
    fleet = populated.fleet
    closed = [door for door in DOORS if of_the_graph(door) or door.name in ADMINS]
    found: dict[str, Any] = {}
    async with serving(populated.url, clock=fleet.clock(), token=fleet.admin) as server:
        key = await server.add_key("doors", scope=scope)
        before = contents(populated.url)
        for door in closed:
            body = door.body if door.kind is not None else None
            answer = await server.send(door.method, door.path(fleet), body, token=key)
            found[door.name] = answer.status_code

        assert found == dict.fromkeys((door.name for door in closed), 403)
        assert contents(populated.url) == before
    assert len(closed) > 30


async def test_a_key_reads_whatever_is_not_an_admins_or_a_persons(populated: Populated) -> None:
    fleet, found = populated.fleet, {}
    async with serving(populated.url, clock=fleet.clock(), token=fleet.key) as server:
        for door in READS:
            if door.name not in ADMINS and not door.template.startswith(("/v1/records", "/v1/classes")):
                answer = await server.send(door.method, door.path(fleet), door.body or None)
                found[door.name] = answer.status_code

    assert {name: status for name, status in found.items() if status != 200} == {
        "GET /v1/agents/{id}/capabilities": 403,
        "GET /v1/agents/{id}/tokens": 403,
        "GET /v1/me/tokens": 403,
        "GET /v1/profiles/{id}/hosts": 403,
    }


async def test_the_fleets_key_is_who_it_says(populated: Populated) -> None:
    async with serving(populated.url, clock=populated.fleet.clock(), token=populated.fleet.key) as server:
        assert (await server.ask("GET", "/v1/me"))["identity"] == f"apikey:{KEY}"
