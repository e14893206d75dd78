from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Final

import psycopg
import pytest

from batonpass.core.errors import Conflict, Invalid, Unauthorized
from batonpass.core.tokens import Secret, hash_of
from batonpass.server.services import principals
from batonpass.server.services.identity import bootstrap, reissue
from batonpass.server.services.principals import Principals
from batonpass.store import identity, tokens
from batonpass.store.base import SYSTEM, Fences, Reader, Store
from batonpass.store.open import open_store
from batonpass.testing.clock import ManualClock
from batonpass.testing.scripted import ManualSeconds
from batonpass.testing.server import InProcessServer, in_process_server
from batonpass.testing.waits import deadlocks_of, until_blocked

pytestmark = pytest.mark.anyio

UNKNOWN = "bat_pat_" + "x" * 43


async def status(server: InProcessServer, token: str) -> int:
    return (await server.send("GET", "/v1/me", token=token)).status_code


async def revoke_elsewhere(server: InProcessServer, token: str) -> None:
    """Revoke a token as another server process over the same database would."""
    async with server.store.write(SYSTEM, Fences()) as tx:
        tokens.revoke(tx, [hash_of(Secret(token))], now=await tx.now())


# Who asks


HEADERS: Final = [
    None,
    "",
    "Bearer",
    "Bearer ",
    "Basic YWRhOmFkYQ==",
    "Token " + UNKNOWN,
    "Bearer " + UNKNOWN,
    "Bearer bat_key_" + "x" * 43,
    "Bearer bat_pat_short",
    "Bearer " + "x" * 5000,
    "Bearer \u00e9\u00ff",
]


async def test_without_a_token_that_is_known_nothing_is_answered(server: InProcessServer) -> None:
    for header in HEADERS:
        headers = [] if header is None else [(b"Authorization", header.encode("latin-1"))]
        response = await server.http.get("/v1/me", headers=headers)

        assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer"), header
        assert response.json()["error"]["code"] == "unauthorized"


async def test_unknown_expired_revoked_and_malformed_tokens_are_refused_in_the_same_words(
    server: InProcessServer, clock: ManualClock
) -> None:
    revoked = await server.ask("POST", "/v1/me/tokens", {})
    expired = await server.ask("POST", "/v1/me/tokens", {"expires": "1h"})
    await server.ask("DELETE", f"/v1/me/tokens/{revoked['hash_prefix']}")
    clock.advance(timedelta(hours=1))

    texts = (UNKNOWN, revoked["token"], expired["token"], "bat_pat_short")
    refusals = [await server.send("GET", "/v1/me", token=text) for text in texts]

    assert [refusal.status_code for refusal in refusals] == [401] * 4
    assert len({refusal.text for refusal in refusals}) == 1
    assert "ask its owner or an admin for a new one" in refusals[0].text


async def test_the_scheme_is_read_in_any_case(server: InProcessServer) -> None:
    for scheme in ("Bearer", "bearer", "BEARER"):
        headers = {"Authorization": f"{scheme}   {server.admin_token} "}
        assert (await server.http.get("/v1/me", headers=headers)).status_code == 200


async def test_me_says_who_a_person_is(server: InProcessServer) -> None:
    assert await server.ask("GET", "/v1/me") == {
        "person": "person-ada-admin",
        "name": "Ada Admin",
        "email": "ada@example.org",
        "bound": True,
        "is_admin": True,
        "org": "org-root",
        "scope": "write",
        "identity": "person:person-ada-admin",
    }


async def test_me_under_an_agents_token_names_its_person_and_no_admin(server: InProcessServer) -> None:
    token = await server.add_agent("build", session="s1")

    assert await server.ask("GET", "/v1/me", token=token) == {
        "person": "person-ada-admin",
        "name": "Ada Admin",
        "email": "ada@example.org",
        "bound": True,
        "is_admin": False,
        "org": "org-root",
        "scope": "write",
        "agent": "agent-build",
        "session": "s1",
        "identity": "agent:agent-build",
    }


# What is remembered of a token


async def test_a_token_revoked_by_another_process_opens_nothing_after_five_seconds(
    server: InProcessServer, seconds: ManualSeconds
) -> None:
    token = await server.add_person("Bob")
    assert await status(server, token) == 200
    await revoke_elsewhere(server, token)

    seconds.advance(4.999)
    assert await status(server, token) == 200
    seconds.advance(0.001)
    assert await status(server, token) == 401


async def test_a_token_revoked_by_this_process_opens_nothing_at_once(server: InProcessServer) -> None:
    minted = await server.ask("POST", "/v1/me/tokens", {})
    assert await status(server, minted["token"]) == 200
    await server.ask("DELETE", f"/v1/me/tokens/{minted['hash_prefix']}")

    assert await status(server, minted["token"]) == 401


async def test_a_token_is_not_remembered_beyond_its_own_end(
    server: InProcessServer, clock: ManualClock, seconds: ManualSeconds
) -> None:
    minted = await server.ask("POST", "/v1/me/tokens", {"expires": "2s"})
    assert await status(server, minted["token"]) == 200

    clock.advance(timedelta(seconds=2))
    seconds.advance(2)
    assert await status(server, minted["token"]) == 401


async def test_an_admin_who_stewards_no_more_is_none_after_five_seconds(
    server: InProcessServer, seconds: ManualSeconds
) -> None:
    token = await server.add_person("Bob", admin=True)
    assert (await server.ask("GET", "/v1/me", token=token))["is_admin"]
    await server.ask("DELETE", "/v1/nodes/person-bob/edges", {"type": "stewards", "to": "org-root"})

    seconds.advance(5)
    assert not (await server.ask("GET", "/v1/me", token=token))["is_admin"]
    assert (await server.send("GET", "/v1/admin/people", token=token)).status_code == 403


async def test_only_so_many_tokens_are_remembered(server: InProcessServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(principals, "REMEMBERED_MOST", 2)
    texts = [(await server.ask("POST", "/v1/me/tokens", {}))["token"] for _ in range(3)]
    counted = CountedStore(server.store)
    known = Principals(counted)

    for text in texts:
        await known.behind(text)
    assert counted.reads == 3
    await known.behind(texts[2])
    assert counted.reads == 3, "the newest was forgotten"
    await known.behind(texts[0])
    assert counted.reads == 4, "the oldest was remembered beyond the bound"


async def test_requests_that_miss_together_share_one_look_up(server: InProcessServer) -> None:
    counted = CountedStore(server.store)
    known = Principals(counted)

    found = await asyncio.gather(*(known.behind(server.admin_token) for _ in range(50)))

    assert {principal.id for principal in found} == {"person-ada-admin"}
    assert counted.reads == 1


async def test_requests_that_miss_together_are_all_refused(server: InProcessServer) -> None:
    known = Principals(server.store)

    found = await asyncio.gather(*(known.behind(UNKNOWN) for _ in range(5)), return_exceptions=True)

    assert [type(refusal) for refusal in found] == [Unauthorized] * 5


async def test_a_caller_that_hangs_up_does_not_fail_the_others_of_its_look_up(server: InProcessServer) -> None:
    held = CountedStore(server.store)
    held.gate.clear()
    known = Principals(held)
    first, second = (asyncio.create_task(known.behind(server.admin_token)) for _ in range(2))
    await held.reached.wait()

    first.cancel()
    held.gate.set()

    assert (await second).id == "person-ada-admin"
    assert held.reads == 1


async def test_a_look_up_that_read_the_row_before_its_revocation_is_not_remembered(server: InProcessServer) -> None:
    token = await server.add_person("Bob")
    held = CountedStore(server.store)
    held.gate.clear()
    known = Principals(held)
    early = asyncio.create_task(known.behind(token))
    await held.reached.wait()

    await revoke_elsewhere(server, token)
    known.forget(hash_of(Secret(token)))
    late = asyncio.create_task(known.behind(token))
    held.gate.set()

    assert (await early).id == "person-bob"
    with pytest.raises(Unauthorized):
        await late
    with pytest.raises(Unauthorized):
        await known.behind(token)


class CountedStore:
    """The store, counting its reads; each waits, when it has read, until the gate is open."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.reads = 0
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 — whatever the store has
        return getattr(self._store, name)

    @asynccontextmanager
    async def glance(self) -> AsyncIterator[Reader]:
        self.reads += 1
        async with self._store.glance() as tx:
            yield tx
        self.reached.set()
        await self.gate.wait()


# The first person


async def test_init_makes_one_admin_and_refuses_when_there_is_anybody(server: InProcessServer) -> None:
    assert (server.admin.id, server.admin.is_admin) == ("person-ada-admin", True)
    with pytest.raises(Conflict, match="ask an admin for a token"):
        await bootstrap(server.store, name="Eve", email="eve@example.org")

    assert [person["id"] for person in (await server.ask("GET", "/v1/admin/people"))["people"]] == ["person-ada-admin"]


async def test_the_first_person_and_the_organization_are_nodes(server: InProcessServer) -> None:
    person = await server.ask("GET", "/v1/nodes/person-ada-admin")
    root = await server.ask("GET", "/v1/nodes/org-root")

    assert person["frontmatter"]["edges"] == [{"type": "stewards", "to": "org-root"}]
    assert person["frontmatter"]["author"] == "person-ada-admin"
    assert root["frontmatter"]["type"] == "organization"


async def test_of_many_inits_at_once_one_succeeds(database_url: str) -> None:
    stores = [await open_store(database_url) for _ in range(3)]
    try:
        answers = await asyncio.gather(
            *(bootstrap(stores[i % 3], name=f"P{i}", email=f"p{i}@x") for i in range(9)), return_exceptions=True
        )
        async with stores[0].read() as tx:
            people = await identity.list_people(tx, after="", most=10)
    finally:
        for store in stores:
            await store.close()

    winners = [answer[0] for answer in answers if not isinstance(answer, BaseException)]
    assert [type(answer) for answer in answers if isinstance(answer, BaseException)] == [Conflict] * 8
    assert winners == people


async def test_init_refuses_a_name_or_an_address_that_is_none(empty: Store) -> None:
    for name, email in (("", "a@b"), ("Ada", "nowhere"), ("Ada", ""), ("A\x1bda", "a@b")):
        with pytest.raises(Invalid):
            await bootstrap(empty, name=name, email=email)

    assert (await bootstrap(empty, name="Ada", email="ada@example.org"))[0].id == "person-ada"


async def test_whoever_has_the_database_gets_its_first_admin_a_new_token(server: InProcessServer) -> None:
    await server.add_person("Bob", admin=True)

    person, secret = await reissue(server.store)

    assert person.id == "person-ada-admin"
    assert (await server.ask("GET", "/v1/me", token=secret.reveal()))["is_admin"]
    assert await status(server, server.admin_token) == 200


async def test_a_database_without_people_reissues_nothing(empty: Store) -> None:
    with pytest.raises(Conflict, match="no admin"):
        await reissue(empty)


@pytest.fixture
async def empty(database_url: str) -> AsyncIterator[Store]:
    """A database that nobody has been added to."""
    store = await open_store(database_url)
    yield store
    await store.close()


# People


async def test_an_admin_makes_people(server: InProcessServer) -> None:
    made = await server.ask("POST", "/v1/admin/people", {"name": " Bob  Builder ", "email": "Bob@Example.org"})
    node = await server.ask("GET", "/v1/nodes/person-bob-builder")

    assert made == {
        "id": "person-bob-builder",
        "name": "Bob Builder",
        "email": "Bob@Example.org",
        "is_admin": False,
        "status": "created",
        "revision": node["revision"],
    }
    assert node["frontmatter"] == {
        "id": "person-bob-builder",
        "type": "person",
        "title": "Bob Builder",
        "summary": "Bob Builder <Bob@Example.org>",
        "date": "2026-06-01",
        "name": "Bob Builder",
        "email": "Bob@Example.org",
        "author": "person-ada-admin",
        "authored_via": "rest",
        "created_at": "2026-06-01T12:00:00.000+00:00",
        "updated_at": "2026-06-01T12:00:00.000+00:00",
    }


async def test_a_person_may_be_given_an_id_and_be_an_admin(server: InProcessServer) -> None:
    body = {"name": "Bob", "email": "bob@example.org", "id": "person-b", "admin": True}
    made = await server.ask("POST", "/v1/admin/people", body)

    assert (made["id"], made["is_admin"]) == ("person-b", True)
    token = (await server.ask("POST", "/v1/admin/tokens", {"person": "person-b"}))["token"]
    assert (await server.ask("GET", "/v1/me", token=token))["is_admin"]


async def test_an_address_and_an_id_are_one_persons(server: InProcessServer) -> None:
    await server.add_person("Bob")
    taken = [
        ({"name": "Other", "email": "BOB@example.ORG"}, "is the address of person-bob already"),
        ({"name": "bob", "email": "other@example.org"}, "there is a person person-bob already"),
        ({"name": "Other", "email": "x@y", "id": "person-bob"}, "there is a person person-bob already"),
    ]
    for body, part in taken:
        response = await server.send("POST", "/v1/admin/people", body)
        assert (response.status_code, response.json()["error"]["code"]) == (409, "conflict")
        assert part in response.json()["error"]["message"]


BAD_PEOPLE: Final[list[tuple[dict[str, object], str]]] = [
    ({}, "name"),
    ({"name": "Bob"}, "email"),
    ({"name": "", "email": "b@x"}, "name"),
    ({"name": 7, "email": "b@x"}, "name"),
    ({"name": "x" * 201, "email": "b@x"}, "name"),
    ({"name": "Bob", "email": "b"}, "email"),
    ({"name": "Bob", "email": None}, "email"),
    ({"name": "Bob", "email": "b@x", "id": "bob"}, "id"),
    ({"name": "Bob", "email": "b@x", "id": "agent-bob"}, "id"),
    ({"name": "Bob", "email": "b@x", "id": ["person-b"]}, "id"),
    ({"name": "Bob", "email": "b@x", "id": "person-" + "b" * 200}, "id"),
    ({"name": "Bob", "email": "b@x", "id": "person-b\u0000"}, "id"),
    ({"name": "Bob", "email": "b\u0000@x"}, "email"),
    ({"name": "Bob", "email": "b@x", "admin": "yes"}, "admin"),
    ({"name": "Bob", "email": "b@x", "is_admin": True}, "is_admin"),
]


async def test_a_persons_bad_field_is_named_and_nobody_is_made(server: InProcessServer) -> None:
    answers = [(body, await server.send("POST", "/v1/admin/people", body)) for body, _ in BAD_PEOPLE]

    assert [(body, answer.json()["error"].get("field")) for body, answer in answers] == BAD_PEOPLE
    assert {answer.status_code for _, answer in answers} == {422}
    assert len((await server.ask("GET", "/v1/admin/people"))["people"]) == 1


async def test_what_cannot_be_stored_in_a_name_is_replaced_and_named(server: InProcessServer) -> None:
    made = await server.ask("POST", "/v1/admin/people", {"name": "B\u0000b", "email": "b@x"})

    assert made["name"] == "B\ufffdb"
    assert made["warnings"] == ["name: 1 character that cannot be stored (NUL or lone surrogates) became U+FFFD"]


async def test_people_are_listed_by_id_in_pages(server: InProcessServer) -> None:
    for name in ("Cid", "Bob"):
        await server.add_person(name)

    first = await server.ask("GET", "/v1/admin/people?limit=2")
    second = await server.ask("GET", f"/v1/admin/people?limit=2&after={first['next']}")

    assert [person["id"] for person in first["people"]] == ["person-ada-admin", "person-bob"]
    assert second == {
        "people": [
            {
                "id": "person-cid",
                "name": "Cid",
                "email": "cid@example.org",
                "is_admin": False,
                "created_at": "2026-06-01T12:00:00.000+00:00",
            }
        ],
        "next": None,
    }


# Agents


async def test_a_person_makes_agents(server: InProcessServer) -> None:
    bob = await server.add_person("Bob")
    response = await server.send("POST", "/v1/agents", {"label": "Build box", "pubkey": "ssh-ed25519 A"}, token=bob)
    node = await server.ask("GET", "/v1/nodes/agent-build-box")

    assert response.status_code == 201
    assert response.json() == {
        "id": "agent-build-box",
        "owner": "person-bob",
        "label": "Build box",
        "spiffe": "batonpass.org-root/person/person-bob/agent/build-box",
        "pubkey": "ssh-ed25519 A",
        "status": "created",
        "revision": node["revision"],
    }
    assert node["frontmatter"]["edges"] == [{"type": "owned-by", "to": "person-bob"}]
    assert node["frontmatter"]["author"] == "person-bob"


async def test_the_owner_of_an_agent_is_who_asks_whatever_the_body_says(server: InProcessServer) -> None:
    bob = await server.add_person("Bob")
    body = {"label": "x", "owner": "person-ada-admin", "author": "person-ada-admin", "colour": "red"}
    response = await server.send("POST", "/v1/agents", body, token=bob)

    assert response.json()["owner"] == "person-bob"
    assert response.json()["warnings"] == [
        f"{name}: not a field of this request; ignored" for name in ("owner", "author", "colour")
    ]


async def test_an_admin_makes_agents_for_others(server: InProcessServer) -> None:
    await server.add_person("Bob")
    made = await server.ask("POST", "/v1/admin/agents", {"label": "Bob's", "owner": "person-bob", "id": "agent-b"})

    assert (made["id"], made["owner"], made["pubkey"]) == ("agent-b", "person-bob", None)


BAD_AGENTS: Final[list[tuple[str, dict[str, object], tuple[int, str]]]] = [
    ("/v1/agents", {"label": "taken"}, (409, "conflict")),
    ("/v1/agents", {"label": "other", "id": "agent-taken"}, (409, "conflict")),
    ("/v1/admin/agents", {"label": "taken", "owner": "person-ada-admin"}, (409, "conflict")),
    ("/v1/agents", {}, (422, "invalid_request")),
    ("/v1/agents", {"label": ""}, (422, "invalid_request")),
    ("/v1/agents", {"label": 7}, (422, "invalid_request")),
    ("/v1/agents", {"label": "x" * 201}, (422, "invalid_request")),
    ("/v1/agents", {"label": "x", "id": "build"}, (422, "invalid_request")),
    ("/v1/agents", {"label": "x", "pubkey": ""}, (422, "invalid_request")),
    ("/v1/agents", {"label": "x", "pubkey": "k" * 501}, (422, "invalid_request")),
    ("/v1/admin/agents", {"label": "x"}, (422, "invalid_request")),
    ("/v1/admin/agents", {"label": "x", "owner": "agent-taken"}, (422, "invalid_request")),
    ("/v1/admin/agents", {"label": "x", "owner": "person-ada-admin", "colour": 1}, (422, "invalid_request")),
    ("/v1/admin/agents", {"label": "x", "owner": "person-nobody"}, (404, "not_found")),
]


async def test_an_agent_that_cannot_be_made_is_refused_and_leaves_nothing(server: InProcessServer) -> None:
    await server.ask("POST", "/v1/agents", {"label": "taken"})
    answers = [(path, body, await server.send("POST", path, body)) for path, body, _ in BAD_AGENTS]

    assert [
        (path, body, (answer.status_code, answer.json()["error"]["code"])) for path, body, answer in answers
    ] == BAD_AGENTS
    assert [agent["id"] for agent in (await server.ask("GET", "/v1/agents?all=1"))["agents"]] == ["agent-taken"]


async def test_an_agent_does_not_take_the_id_of_a_node_that_is_there(server: InProcessServer) -> None:
    node = {"id": "agent-ghost", "type": "agent", "title": "Imported", "summary": "A node without a row."}
    await server.ask("POST", "/v1/nodes", {"nodes": [node]})
    response = await server.send("POST", "/v1/agents", {"label": "ghost"})

    assert (response.status_code, response.json()["error"]["code"]) == (409, "conflict")
    assert (await server.ask("GET", "/v1/agents"))["agents"] == []


async def test_an_agent_and_its_node_written_at_once_never_wait_for_each_other_in_a_ring(postgres_url: str) -> None:
    """D44: both need the admin's token and the node; on SQLite there is nothing to wait for."""
    async with in_process_server(postgres_url) as server:
        entry = {"id": "agent-imp", "type": "agent", "title": "Imp", "summary": "S"}
        (made,) = (await server.ask("POST", "/v1/nodes", {"nodes": [entry]}))["results"]
        update = {"node": {**entry, "title": "Imp II"}, "if_exists": "update", "revision": made["revision"]}
        async with await psycopg.AsyncConnection.connect(postgres_url) as holder:
            await holder.execute("SELECT 1 FROM nodes WHERE id = 'agent-imp' FOR UPDATE")
            putting = asyncio.create_task(server.send("POST", "/v1/nodes", {"nodes": [update]}))
            await until_blocked(postgres_url)
            making = asyncio.create_task(server.send("POST", "/v1/agents", {"label": "imp"}))
            await until_blocked(postgres_url, sessions=2)
        answers = [await putting, await making]

    assert [answer.status_code for answer in answers] == [200, 409]
    assert await deadlocks_of(postgres_url) == 0


async def test_agents_are_listed_to_their_person_and_all_of_them_to_an_admin(server: InProcessServer) -> None:
    bob = await server.add_person("Bob")
    bobs = await server.add_agent("bobs", token=bob)
    await server.add_agent("adas")

    async def listed(path: str, token: str | None = None) -> list[str]:
        return [agent["id"] for agent in (await server.ask("GET", path, token=token))["agents"]]

    assert await listed("/v1/agents") == ["agent-adas"]
    assert await listed("/v1/agents", bob) == ["agent-bobs"]
    assert await listed("/v1/agents", bobs) == ["agent-bobs"]
    assert await listed("/v1/agents?all=1") == ["agent-adas", "agent-bobs"]
    assert await listed("/v1/agents?all=true&limit=1&after=agent-adas") == ["agent-bobs"]
    assert (await server.send("GET", "/v1/agents?all=1", token=bob)).status_code == 403
    assert (await server.send("GET", "/v1/agents?all=maybe")).status_code == 422
    assert (await server.send("GET", "/v1/agents?limit=0")).status_code == 422


async def test_making_somebody_again_with_its_key_gives_the_first_answer(server: InProcessServer) -> None:
    for path, body in (
        ("/v1/admin/people", {"name": "Bob", "email": "b@x"}),
        ("/v1/agents", {"label": "build"}),
        ("/v1/admin/agents", {"label": "other", "owner": "person-ada-admin"}),
    ):
        first, second = [await server.send("POST", path, body, headers={"Idempotency-Key": "k"}) for _ in range(2)]
        assert (second.status_code, second.json()) == (201, first.json())
        assert second.headers["Idempotency-Replayed"] == "true"


# Who may


async def test_who_may_make_and_see_people_and_agents(server: InProcessServer) -> None:
    await server.add_person("Owner")
    callers = {
        "admin": server.admin_token,
        "person": await server.add_person("Bob"),
        "admin's reading token": (await server.ask("POST", "/v1/me/tokens", {"scope": "read"}))["token"],
        "admin's agent": await server.add_agent("adas"),
        "admin's standing agent": await server.add_agent("stands", standing=True),
    }

    async def statuses(method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, int]:
        """Send the same under every token; `{n}` in the body is the caller's number."""
        answered = {}
        for n, (caller, token) in enumerate(callers.items()):
            filled = body and {key: str(value).format(n=n) for key, value in body.items()}
            answered[caller] = (await server.send(method, path, filled, token=token)).status_code
        return answered

    names = list(callers)
    assert await statuses("POST", "/v1/admin/people", {"name": "P{n}", "email": "p{n}@x"}) == dict(
        zip(names, [201, 403, 403, 403, 403], strict=True)
    )
    assert await statuses("GET", "/v1/admin/people") == dict(zip(names, [200, 403, 200, 403, 403], strict=True))
    assert await statuses("POST", "/v1/agents", {"label": "own {n}"}) == dict(
        zip(names, [201, 201, 403, 403, 403], strict=True)
    )
    assert await statuses("POST", "/v1/admin/agents", {"label": "for {n}", "owner": "person-owner"}) == dict(
        zip(names, [201, 403, 403, 403, 403], strict=True)
    )
    assert await statuses("GET", "/v1/agents?all=1") == dict(zip(names, [200, 403, 200, 403, 403], strict=True))
    assert await statuses("GET", "/v1/agents") == dict.fromkeys(names, 200)
    assert await statuses("GET", "/v1/me") == dict.fromkeys(names, 200)
