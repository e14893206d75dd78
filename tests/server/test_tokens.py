from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import httpx
import psycopg
import pytest
from psycopg import sql

from batonpass.core.errors import LeaseLost
from batonpass.core.ids import TokenHash
from batonpass.core.tokens import Secret, hash_of
from batonpass.store import tokens
from batonpass.store.base import SYSTEM, Fences
from batonpass.store.open import sqlite_path
from batonpass.testing.clock import ManualClock
from batonpass.testing.points import held
from batonpass.testing.scripted import ManualSeconds
from batonpass.testing.server import InProcessServer, in_process_server
from batonpass.testing.waits import until_blocked

pytestmark = pytest.mark.anyio

SESSION: Final = "s-1"
TASK: Final = {"id": "task-1", "type": "task", "title": "A task", "summary": "To be done.", "date": "2026-06-01"}


@dataclass
class Fleet:
    """Bob with two agents, Cid with one; `mill` is Bob's agent, with an ordinary token of its own."""

    server: InProcessServer
    bob: str
    cid: str
    mill: str
    sibling: str
    cids: str

    async def claim(self, token: str, **body: object) -> int:
        """Claim the task and return its epoch."""
        return int((await self.server.ask("POST", "/v1/nodes/task-1/claim", body, token=token))["lease"]["epoch"])

    async def mint_run(self, epoch: int, *, token: str | None = None, **wish: object) -> httpx.Response:
        """Ask for the run token of the task's tenure for `mill`, as `mill` itself unless another token is given."""
        body = {"lease": {"node": "task-1", "epoch": epoch}, **wish}
        return await self.server.send("POST", "/v1/agents/agent-mill/token", body, token=token or self.mill)

    async def write(self, token: str) -> int:
        """Write onto the task under `token`, and return the status."""
        return (
            await self.server.send("POST", "/v1/nodes/task-1/priority", {"priority": "p1"}, token=token)
        ).status_code

    async def run_token(self) -> Any:  # noqa: ANN401 — a reply as JSON
        """Claim the task as `mill` and return the reply of its run token."""
        response = await self.mint_run(await self.claim(self.mill))
        assert response.status_code == 201, response.text
        return response.json()


@pytest.fixture
async def fleet(server: InProcessServer) -> Fleet:
    return await made_fleet(server)


async def made_fleet(server: InProcessServer) -> Fleet:
    """Return two people with their agents, and one task."""
    bob, cid = await server.add_person("Bob"), await server.add_person("Cid")
    await server.ask("POST", "/v1/nodes", {"nodes": [TASK]})
    return Fleet(
        server,
        bob,
        cid,
        mill=await server.add_agent("mill", token=bob),
        sibling=await server.add_agent("sibling", token=bob),
        cids=await server.add_agent("cids", token=cid),
    )


def refusal(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


# Personal tokens


async def test_a_person_mints_a_token_of_their_own(fleet: Fleet) -> None:
    body = {"label": "laptop", "expires": "90d"}
    response = await fleet.server.send("POST", "/v1/me/tokens", body, token=fleet.bob)
    minted = response.json()

    assert (response.status_code, response.headers["Cache-Control"]) == (201, "no-store")
    assert re.fullmatch(r"bat_pat_[A-Za-z0-9_-]{43}", minted.pop("token"))
    assert re.fullmatch(r"[0-9a-f]{12}", minted.pop("hash_prefix"))
    assert minted == {
        "person": "person-bob",
        "name": "Bob",
        "email": "bob@example.org",
        "label": "laptop",
        "expires": "2026-08-30T12:00:00.000+00:00",
        "scope": "write",
    }


async def test_an_admin_mints_a_token_for_somebody(fleet: Fleet) -> None:
    minted = await fleet.server.ask("POST", "/v1/admin/tokens", {"person": "person-bob", "expires": "2026-12-24"})

    assert (minted["person"], minted["expires"]) == ("person-bob", "2026-12-24T00:00:00.000+00:00")
    assert (await fleet.server.ask("GET", "/v1/me", token=minted["token"]))["person"] == "person-bob"


async def test_a_reading_token_reads_and_writes_nothing(fleet: Fleet) -> None:
    minted = await fleet.server.ask("POST", "/v1/me/tokens", {"scope": "read"}, token=fleet.bob)
    token = minted["token"]

    assert (await fleet.server.ask("GET", "/v1/me", token=token))["scope"] == "read"
    assert (await fleet.server.send("GET", "/v1/nodes/task-1", token=token)).status_code == 200
    writes: list[tuple[str, str, object]] = [
        ("POST", "/v1/nodes", {"nodes": [{**TASK, "id": "task-2"}]}),
        ("POST", "/v1/nodes/task-1/claim", {}),
        ("POST", "/v1/nodes/task-1/priority", {"priority": "p1"}),
        ("POST", "/v1/agents", {"label": "x"}),
        ("POST", "/v1/agents/agent-mill/token", {}),
        ("POST", "/v1/me/tokens", {}),
        ("DELETE", f"/v1/me/tokens/{minted['hash_prefix']}", None),
    ]
    answers = [refusal(await fleet.server.send(*write, token=token)) for write in writes]

    assert answers == [(403, "forbidden")] * len(writes)


async def test_a_reading_agents_token_claims_nothing(fleet: Fleet) -> None:
    minted = await fleet.server.ask("POST", "/v1/agents/agent-mill/token", {"scope": "read"}, token=fleet.bob)
    response = await fleet.server.send("POST", "/v1/nodes/task-1/claim", {}, token=minted["token"])

    assert refusal(response) == (403, "forbidden")


async def test_ones_tokens_are_listed_without_their_secrets_while_they_are_valid(
    fleet: Fleet, clock: ManualClock
) -> None:
    minted = await fleet.server.ask("POST", "/v1/me/tokens", {"label": "laptop", "expires": "2h"}, token=fleet.bob)

    async def listed() -> list[dict[str, object]]:
        reply = await fleet.server.ask("GET", "/v1/me/tokens", token=fleet.bob)
        return [token for token in reply["tokens"] if token["label"] == "laptop"]

    assert await listed() == [
        {
            "hash_prefix": minted["hash_prefix"],
            "kind": "personal",
            "person": "person-bob",
            "label": "laptop",
            "scope": "write",
            "created_at": "2026-06-01T12:00:00.000+00:00",
            "expires": "2026-06-01T14:00:00.000+00:00",
        }
    ]
    clock.advance(timedelta(hours=2))
    assert await listed() == []


async def test_tokens_are_listed_in_pages_and_to_an_admin_everybodys(fleet: Fleet) -> None:
    async def pages(path: str) -> list[str]:
        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            page = await fleet.server.ask("GET", f"{path}limit=2&after={after}")
            seen += [token["hash_prefix"] for token in page["tokens"]]
            after = page["next"]
        return seen

    everybodys = await pages("/v1/admin/tokens?")
    bobs = await pages("/v1/admin/tokens?person=person-bob&")

    assert len(everybodys) == len(set(everybodys)) == 3
    assert len(bobs) == 1
    assert set(bobs) < set(everybodys)


async def test_a_person_ends_their_own_tokens_and_no_others(fleet: Fleet) -> None:
    bobs = await fleet.server.ask("POST", "/v1/me/tokens", {}, token=fleet.bob)
    path = f"/v1/me/tokens/{bobs['hash_prefix'][:8]}"

    assert refusal(await fleet.server.send("DELETE", path, token=fleet.cid)) == (404, "not_found")
    assert refusal(await fleet.server.send("DELETE", path)) == (404, "not_found")
    assert await fleet.server.ask("DELETE", path, token=fleet.bob) == {
        "ok": True,
        "status": "revoked",
        "hash_prefix": bobs["hash_prefix"],
    }
    assert (await fleet.server.ask("DELETE", path, token=fleet.bob))["unchanged"] is True
    assert refusal(await fleet.server.send("GET", "/v1/me", token=bobs["token"])) == (401, "unauthorized")


async def test_an_admin_ends_anybodys_personal_token(fleet: Fleet) -> None:
    bobs = await fleet.server.ask("POST", "/v1/me/tokens", {}, token=fleet.bob)
    await fleet.server.ask("DELETE", f"/v1/admin/tokens/{bobs['hash_prefix']}")

    assert refusal(await fleet.server.send("GET", "/v1/me", token=bobs["token"])) == (401, "unauthorized")


# Agents' tokens


async def test_a_token_for_one_session(fleet: Fleet) -> None:
    body = {"session": SESSION, "audience": "https://elsewhere.example"}
    response = await fleet.server.send("POST", "/v1/agents/agent-mill/token", body, token=fleet.bob)
    minted = response.json()

    assert response.status_code == 201
    assert minted.pop("warnings") == ["audience: not a field of this request; ignored"]
    assert re.fullmatch(r"bat_agt_[A-Za-z0-9_-]{43}", minted.pop("token"))
    assert re.fullmatch(r"[0-9a-f]{12}", minted.pop("hash_prefix"))
    assert minted == {
        "expires_at": "2026-06-02T12:00:00.000+00:00",
        "agent": "agent-mill",
        "session": SESSION,
    }


async def test_a_standing_token(fleet: Fleet) -> None:
    body = {"standing": True, "label": "the box", "expires": "30d"}
    minted = await fleet.server.ask("POST", "/v1/agents/agent-mill/token", body, token=fleet.bob)

    assert minted.pop("token").startswith("bat_agt_")
    assert len(minted.pop("hash_prefix")) == 12
    assert minted == {
        "agent": "agent-mill",
        "owner": "person-bob",
        "label": "the box",
        "expires": "2026-07-01T12:00:00.000+00:00",
        "standing": True,
    }


async def test_a_sessions_life_is_cut_at_seven_days(fleet: Fleet) -> None:
    minted = await fleet.server.ask("POST", "/v1/agents/agent-mill/token", {"expires": "30d"}, token=fleet.bob)

    assert (minted["expires_at"], minted["capped_to_max"]) == ("2026-06-08T12:00:00.000+00:00", True)


async def test_each_kind_of_token_ends_when_it_said(fleet: Fleet, clock: ManualClock, seconds: ManualSeconds) -> None:
    path, epoch = "/v1/agents/agent-mill/token", await fleet.claim(fleet.mill)
    minted = {
        "run": (await fleet.mint_run(epoch, expires="3h")).json()["token"],
        "session": (await fleet.server.ask("POST", path, {"expires": "1h"}))["token"],
        "standing": (await fleet.server.ask("POST", path, {"expires": "2h", "standing": True}))["token"],
    }
    valid: list[set[str]] = []
    for _ in range(4):
        valid.append(
            {
                kind
                for kind, token in minted.items()
                if (await fleet.server.send("GET", "/v1/nodes/task-1", token=token)).status_code == 200
            }
        )
        clock.advance(timedelta(hours=1))
        seconds.advance(3600)

    assert valid == [{"run", "session", "standing"}, {"run", "standing"}, {"run"}, set()]


BAD_MINTS: Final[list[tuple[dict[str, object], str]]] = [
    ({"standing": True, "session": "s1"}, "standing"),
    ({"standing": True, "lease": {"node": "task-1", "epoch": 1}}, "standing"),
    ({"standing": True, "expires": "366d"}, "expires"),
    ({"standing": "yes"}, "standing"),
    ({"replace": True}, "replace"),
    ({"session": ""}, "session"),
    ({"session": "two\nlines"}, "session"),
    ({"session": "s" * 201}, "session"),
    ({"session": "\u0000"}, "session"),
    ({"session": 7}, "session"),
    ({"label": ""}, "label"),
    ({"expires": "soon"}, "expires"),
    ({"expires": "2020-01-01"}, "expires"),
    ({"expires": True}, "expires"),
    ({"expires": 90}, "expires"),
    ({"scope": "admin"}, "scope"),
    ({"lease": {}}, "lease"),
    ({"lease": {"epoch": 1}}, "lease"),
    ({"lease": {"node": "task-1"}}, "lease"),
    ({"lease": {"node": "task-1", "epoch": 0}}, "lease.epoch"),
    ({"lease": {"node": "task-1", "epoch": "1"}}, "lease.epoch"),
    ({"lease": {"node": "task-1", "epoch": 1, "colour": "red"}}, "lease"),
    ({"lease": {"node": "Task 1", "epoch": 1}}, "lease.node"),
    ({"lease": "task-1"}, "lease"),
]
BAD_PERSONAL_MINTS: Final[list[tuple[str, dict[str, object], str]]] = [
    ("/v1/me/tokens", {"expires": "366d"}, "expires"),
    ("/v1/me/tokens", {"scope": "all"}, "scope"),
    ("/v1/me/tokens", {"label": 1}, "label"),
    ("/v1/me/tokens", {"person": "person-bob"}, "person"),
    ("/v1/admin/tokens", {}, "person"),
    ("/v1/admin/tokens", {"person": "bob"}, "person"),
    ("/v1/admin/tokens", {"person": "person-bob", "colour": 1}, "colour"),
]
ODD_PATHS: Final = [
    ("POST", "/v1/agents/agent-nobody/token", 404),
    ("GET", "/v1/agents/agent-nobody/tokens", 404),
    ("DELETE", "/v1/agents/agent-nobody/tokens/01234567", 404),
    ("DELETE", "/v1/agents/agent-mill/tokens/01234567", 404),
    ("DELETE", "/v1/agents/agent-mill/tokens/0123456", 422),
    ("DELETE", "/v1/agents/agent-mill/tokens/0123456G", 422),
    ("DELETE", "/v1/agents/agent-mill/tokens/" + "0" * 65, 422),
    ("DELETE", "/v1/me/tokens/0123", 422),
    ("DELETE", "/v1/admin/tokens/01234567", 404),
    ("POST", "/v1/agents/mill/token", 422),
    ("POST", "/v1/agents/person-bob/token", 422),
    ("POST", "/v1/agents/agent-a%2Fb/token", 404),
    ("POST", "/v1/agents/agent-" + "x" * 300 + "/token", 422),
    ("GET", "/v1/agents/agent-mill/tokens?limit=x", 422),
    ("GET", "/v1/agents/agent-mill/tokens?colour=red", 422),
]


async def test_a_mints_bad_field_is_named_and_nothing_is_minted(fleet: Fleet) -> None:
    before = await fleet.server.ask("GET", "/v1/agents/agent-mill/tokens", token=fleet.bob)
    answers = [
        (body, await fleet.server.send("POST", "/v1/agents/agent-mill/token", body, token=fleet.bob))
        for body, _ in BAD_MINTS
    ]

    assert [(body, answer.json()["error"].get("field")) for body, answer in answers] == BAD_MINTS
    assert {answer.status_code for _, answer in answers} == {422}
    assert await fleet.server.ask("GET", "/v1/agents/agent-mill/tokens", token=fleet.bob) == before


async def test_a_personal_mints_bad_field_is_named(fleet: Fleet) -> None:
    answers = [
        (path, body, (await fleet.server.send("POST", path, body)).json()["error"].get("field"))
        for path, body, _ in BAD_PERSONAL_MINTS
    ]

    assert answers == BAD_PERSONAL_MINTS


async def test_unknown_and_odd_ids(fleet: Fleet) -> None:
    answers = [
        (method, path, (await fleet.server.send(method, path, {} if method == "POST" else None)).status_code)
        for method, path, _ in ODD_PATHS
    ]

    assert answers == ODD_PATHS


async def test_a_token_for_a_person_who_is_not_there(fleet: Fleet) -> None:
    response = await fleet.server.send("POST", "/v1/admin/tokens", {"person": "person-nobody"})

    assert refusal(response) == (404, "not_found")


async def test_an_owner_lists_and_ends_every_kind_of_an_agents_tokens(fleet: Fleet) -> None:
    run = await fleet.run_token()
    standing = await fleet.server.ask(
        "POST", "/v1/agents/agent-mill/token", {"standing": True, "label": "box"}, token=fleet.bob
    )
    reply = await fleet.server.ask("GET", "/v1/agents/agent-mill/tokens", token=fleet.bob)
    by_kind = {token["kind"]: token for token in reply["tokens"]}

    assert by_kind.keys() == {"session", "standing", "run"}
    assert by_kind["run"] == {
        "hash_prefix": run["hash_prefix"],
        "kind": "run",
        "person": "person-bob",
        "label": None,
        "scope": "write",
        "created_at": "2026-06-01T12:00:00.000+00:00",
        "expires": "2026-06-08T12:00:00.000+00:00",
        "agent": "agent-mill",
        "lease": {"resource": "task-1", "epoch": 1},
    }
    for prefix in (run["hash_prefix"], standing["hash_prefix"], by_kind["session"]["hash_prefix"]):
        await fleet.server.ask("DELETE", f"/v1/agents/agent-mill/tokens/{prefix}", token=fleet.bob)
    assert (await fleet.server.ask("GET", "/v1/agents/agent-mill/tokens", token=fleet.bob))["tokens"] == []
    for token in (run["token"], standing["token"], fleet.mill):
        assert (await fleet.server.send("GET", "/v1/me", token=token)).status_code == 401


async def test_a_run_token_whose_tenure_is_over_is_listed_as_ended(fleet: Fleet) -> None:
    await fleet.run_token()
    await fleet.server.ask("POST", "/v1/nodes/task-1/release", {}, token=fleet.mill)

    reply = await fleet.server.ask("GET", "/v1/agents/agent-mill/tokens", token=fleet.mill)

    assert [(token["kind"], token["ended"]) for token in reply["tokens"]] == [("run", True)]


async def test_a_prefix_that_begins_two_tokens_ends_neither(fleet: Fleet) -> None:
    twins = await add_twins(fleet, first="00000000a", second="00000000b")

    async def end(prefix: str) -> httpx.Response:
        return await fleet.server.send("DELETE", f"/v1/agents/agent-mill/tokens/{prefix}", token=fleet.bob)

    assert refusal(await end("00000000")) == (409, "conflict")
    assert (await end("00000000a")).json()["hash_prefix"] == twins[0][:12]
    assert (await end("00000000")).json()["hash_prefix"] == twins[1][:12], "the one that has ended is not in the way"
    assert (await end("00000000")).json()["unchanged"] is True


async def add_twins(fleet: Fleet, *, first: str, second: str) -> list[str]:
    """Add two tokens of `mill` whose hashes begin so, and return the hashes; no mint could be made to."""
    async with fleet.server.store.write(SYSTEM, Fences()) as tx:
        now = await tx.now()
        (known,) = (await tx.fetch(tokens.known_asked(hash_of(Secret(fleet.mill)))))[:1]
        pattern = tokens.known(known)
        assert pattern is not None
        twins = [
            replace(pattern.token, hash=TokenHash(beginning.ljust(64, "0")), created_at=now)
            for beginning in (first, second)
        ]
        for twin in twins:
            tokens.add(tx, twin)
    return [twin.hash for twin in twins]


# Run tokens (D2a)


async def test_a_run_token_is_minted_for_a_tenure_and_carries_its_fence(fleet: Fleet) -> None:
    epoch = await fleet.claim(fleet.mill)
    response = await fleet.mint_run(epoch, session=SESSION)
    minted = response.json()
    token, prefix = minted.pop("token"), minted.pop("hash_prefix")

    assert response.status_code == 201
    assert minted == {
        "expires_at": "2026-06-08T12:00:00.000+00:00",
        "agent": "agent-mill",
        "session": SESSION,
        "lease": {"resource": "task-1", "epoch": 1},
    }
    me = await fleet.server.ask("GET", "/v1/me", token=token)
    assert (me["agent"], me["session"], me["run"]) == ("agent-mill", SESSION, {"resource": "task-1", "epoch": 1})
    assert await fleet.write(token) == 200
    assert len(prefix) == 12


async def test_minting_moves_neither_the_epoch_nor_the_horizon_of_the_lease(fleet: Fleet) -> None:
    epoch = await fleet.claim(fleet.mill)
    before = await fleet.server.ask("GET", "/v1/leases")
    await fleet.mint_run(epoch)

    assert await fleet.server.ask("GET", "/v1/leases") == before


async def test_a_tenure_has_one_run_token_and_a_replacement_ends_the_first(fleet: Fleet) -> None:
    first = await fleet.run_token()

    second = await fleet.mint_run(1)
    assert refusal(second) == (409, "conflict")
    assert "replace" in second.json()["error"]["message"]
    assert await fleet.write(first["token"]) == 200

    third = await fleet.mint_run(1, replace=True)
    assert third.status_code == 201
    assert await fleet.write(first["token"]) == 401
    assert await fleet.write(third.json()["token"]) == 200


async def test_a_replaced_run_token_that_another_process_remembers_writes_nothing(fleet: Fleet) -> None:
    """D2a: a token may be remembered for five seconds; the lease row, looked at in the write, is not."""
    first = await fleet.run_token()
    elsewhere = await fleet.server.services.identity.authenticate(first["token"])
    await fleet.mint_run(1, replace=True)

    with pytest.raises(LeaseLost):
        async with fleet.server.store.write(elsewhere, Fences()):
            pytest.fail("the write was let in")


@pytest.mark.parametrize("end", ["release", "reserve"])
async def test_a_run_token_ends_with_its_tenure(fleet: Fleet, end: str) -> None:
    run = await fleet.run_token()
    await fleet.server.ask("POST", f"/v1/nodes/task-1/{end}", {}, token=fleet.mill)

    assert await fleet.write(run["token"]) == 409


async def test_a_run_token_ends_when_somebody_takes_over(fleet: Fleet, clock: ManualClock) -> None:
    run = await fleet.run_token()
    clock.advance(timedelta(hours=1))
    assert await fleet.write(run["token"]) == 200, "a lapse that nobody used ends nothing"
    await fleet.claim(fleet.cids)

    response = await fleet.server.send("POST", "/v1/nodes/task-1/priority", {"priority": "p2"}, token=run["token"])

    assert refusal(response) == (409, "lease_lost")
    assert response.json()["holder"]["by"] == "agent-cids"


async def test_no_run_token_is_minted_for_a_lapsed_lease_another_epoch_or_no_lease(
    fleet: Fleet, clock: ManualClock
) -> None:
    """H32: a token minted for the coming epoch would be valid in somebody else's tenure."""
    assert refusal(await fleet.mint_run(1)) == (409, "lease_lost")
    epoch = await fleet.claim(fleet.mill)
    assert refusal(await fleet.mint_run(epoch + 1)) == (409, "lease_lost")
    clock.advance(timedelta(minutes=45))
    assert refusal(await fleet.mint_run(epoch)) == (409, "lease_lost")
    await fleet.claim(fleet.cids)
    assert refusal(await fleet.mint_run(epoch)) == (409, "lease_lost")
    assert refusal(await fleet.mint_run(epoch + 1)) == (403, "forbidden")


@pytest.mark.parametrize(
    "lease, refused",
    [
        ({"node": "task-none", "epoch": 1}, (404, "not_found")),
        ({"record": "pipelines/none", "field": "driver", "epoch": 1}, (409, "lease_lost")),
    ],
)
async def test_no_run_token_is_minted_for_a_node_or_field_that_is_not_there(
    fleet: Fleet, lease: dict[str, object], refused: tuple[int, str]
) -> None:
    response = await fleet.server.send("POST", "/v1/agents/agent-mill/token", {"lease": lease}, token=fleet.mill)

    assert refusal(response) == refused


async def test_who_may_have_the_run_token_of_an_agents_lease(fleet: Fleet) -> None:
    epoch = await fleet.claim(fleet.mill)
    callers = {
        "the holder": fleet.mill,
        "its owner": fleet.bob,
        "an admin": fleet.server.admin_token,
        "a sibling": fleet.sibling,
        "another's agent": fleet.cids,
        "another person": fleet.cid,
    }
    answers = {
        caller: (await fleet.mint_run(epoch, token=token, replace=True)).status_code
        for caller, token in callers.items()
    }

    assert answers == {
        "the holder": 201,
        "its owner": 201,
        "an admin": 201,
        "a sibling": 403,
        "another's agent": 403,
        "another person": 403,
    }


async def test_a_person_hands_their_own_lease_over_and_no_agent_helps_itself(fleet: Fleet) -> None:
    """H22: that P's agents are P's gives none of them P's lease; minting the run token is P's act of handing over."""
    epoch = await fleet.claim(fleet.bob)

    assert (await fleet.mint_run(epoch, token=fleet.mill)).status_code == 403
    assert (await fleet.mint_run(epoch, token=fleet.sibling)).status_code == 403
    run = (await fleet.mint_run(epoch, token=fleet.bob)).json()["token"]
    assert await fleet.write(run) == 200
    assert (await fleet.server.send("POST", "/v1/nodes/task-1/renew", {}, token=run)).status_code == 200
    assert (await fleet.server.send("POST", "/v1/nodes/task-1/renew", {}, token=fleet.mill)).status_code == 409


async def test_a_run_mints_and_revokes_nothing(fleet: Fleet) -> None:
    run = await fleet.run_token()
    token, path = run["token"], "/v1/agents/agent-mill/token"
    requests: list[tuple[str, str, object]] = [
        ("POST", path, {}),
        ("POST", path, {"standing": True}),
        ("POST", path, {"lease": {"node": "task-1", "epoch": 1}, "replace": True}),
        ("DELETE", f"{path}s/{run['hash_prefix']}", None),
        ("GET", f"{path}s", None),
        ("POST", "/v1/me/tokens", {}),
        ("GET", "/v1/me/tokens", None),
        ("POST", "/v1/agents", {"label": "x"}),
    ]

    answers = [refusal(await fleet.server.send(*request, token=token)) for request in requests]

    assert answers == [(403, "forbidden")] * len(requests)
    assert await fleet.write(token) == 200


async def test_a_revoked_run_token_writes_nothing_and_leaves_the_lease(fleet: Fleet) -> None:
    """D20a: the runner ends its run's token under the agent's own, and goes on under that."""
    run = await fleet.run_token()
    path = f"/v1/agents/agent-mill/tokens/{run['hash_prefix']}"
    elsewhere = await fleet.server.services.identity.authenticate(run["token"])

    assert await fleet.server.ask("DELETE", path, token=fleet.mill) == {
        "ok": True,
        "status": "revoked",
        "hash_prefix": run["hash_prefix"],
    }
    assert await fleet.write(run["token"]) == 401
    with pytest.raises(LeaseLost):
        async with fleet.server.store.write(elsewhere, Fences()):
            pytest.fail("the write was let in")
    assert (await fleet.server.ask("DELETE", path, token=fleet.mill))["unchanged"] is True
    assert (await fleet.server.ask("POST", "/v1/nodes/task-1/renew", {"if_epoch": 1}, token=fleet.mill))["ok"]
    assert (await fleet.mint_run(1)).status_code == 201


async def test_who_may_see_and_end_an_agents_tokens(fleet: Fleet) -> None:
    callers = {
        "admin": fleet.server.admin_token,
        "owner": fleet.bob,
        "itself": fleet.mill,
        "sibling": fleet.sibling,
        "another person": fleet.cid,
        "another's agent": fleet.cids,
    }
    names, path = list(callers), "/v1/agents/agent-mill/token"
    epoch = await fleet.claim(fleet.mill)

    async def ends(body: dict[str, object]) -> dict[str, int]:
        answers = {}
        for caller, token in callers.items():
            minted = await fleet.server.ask("POST", path, body, token=fleet.bob)
            answered = await fleet.server.send("DELETE", f"{path}s/{minted['hash_prefix']}", token=token)
            answers[caller] = answered.status_code
        return answers

    mints = {
        caller: (await fleet.server.send("POST", path, {}, token=token)).status_code
        for caller, token in callers.items()
    }
    lists = {
        caller: (await fleet.server.send("GET", f"{path}s", token=token)).status_code
        for caller, token in callers.items()
    }
    run = {"lease": {"node": "task-1", "epoch": epoch}, "replace": True}

    assert mints == dict(zip(names, [201, 201, 403, 403, 403, 403], strict=True))
    assert lists == dict(zip(names, [200, 200, 200, 403, 403, 403], strict=True))
    assert await ends({}) == dict(zip(names, [200, 200, 403, 403, 403, 403], strict=True))
    assert await ends({"standing": True}) == dict(zip(names, [200, 200, 403, 403, 403, 403], strict=True))
    assert await ends(run) == dict(zip(names, [200, 200, 200, 403, 403, 403], strict=True))


async def test_who_may_mint_see_and_end_personal_tokens(fleet: Fleet) -> None:
    callers = {"admin": fleet.server.admin_token, "person": fleet.bob, "agent": fleet.mill}
    requests: dict[tuple[str, str], object] = {
        ("POST", "/v1/me/tokens"): {},
        ("GET", "/v1/me/tokens"): None,
        ("DELETE", "/v1/me/tokens/00000000"): None,
        ("POST", "/v1/admin/tokens"): {"person": "person-bob"},
        ("GET", "/v1/admin/tokens"): None,
        ("DELETE", "/v1/admin/tokens/00000000"): None,
    }
    answers = {
        request: [(await fleet.server.send(*request, body, token=token)).status_code for token in callers.values()]
        for request, body in requests.items()
    }

    assert answers == {
        ("POST", "/v1/me/tokens"): [201, 201, 403],
        ("GET", "/v1/me/tokens"): [200, 200, 403],
        ("DELETE", "/v1/me/tokens/00000000"): [404, 404, 403],
        ("POST", "/v1/admin/tokens"): [201, 403, 403],
        ("GET", "/v1/admin/tokens"): [200, 403, 403],
        ("DELETE", "/v1/admin/tokens/00000000"): [404, 403, 403],
    }


# On PostgreSQL a write in flight can be held open; on SQLite one writer runs at a time, so there is none to wait for.


@pytest.mark.parametrize("act", ["replace", "revoke"])
async def test_ending_a_run_token_waits_for_its_writes_in_flight(postgres_url: str, act: str) -> None:
    """H8, H9: once the end is answered, no write under the token is still to come."""
    async with in_process_server(postgres_url) as server:
        fleet = await made_fleet(server)
        run = await fleet.run_token()
        principal = await server.services.identity.authenticate(run["token"])
        async with server.store.write(principal, Fences()):
            ending = asyncio.create_task(
                fleet.mint_run(1, replace=True)
                if act == "replace"
                else server.send("DELETE", f"/v1/agents/agent-mill/tokens/{run['hash_prefix']}", token=fleet.mill)
            )
            await until_blocked(postgres_url)
            assert not ending.done()
        assert (await ending).is_success
        with pytest.raises(LeaseLost):
            async with server.store.write(principal, Fences()):
                pytest.fail("the write was let in")


async def test_of_many_mints_for_one_tenure_one_succeeds(fleet: Fleet) -> None:
    epoch = await fleet.claim(fleet.mill)
    answers = await asyncio.gather(*(fleet.mint_run(epoch) for _ in range(8)))

    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7


# Sessions


async def test_a_session_is_bound_once_by_the_token_itself(fleet: Fleet) -> None:
    async def bind(session: str) -> httpx.Response:
        return await fleet.server.send("POST", "/v1/agents/session", {"session": session}, token=fleet.mill)

    assert (await fleet.server.ask("GET", "/v1/me", token=fleet.mill)).get("session") is None
    assert (await bind("s1")).json() == {"ok": True, "agent": "agent-mill", "session": "s1"}
    assert (await fleet.server.ask("GET", "/v1/me", token=fleet.mill))["session"] == "s1"
    assert (await bind("s1")).json() == {"ok": True, "agent": "agent-mill", "session": "s1", "unchanged": True}
    assert refusal(await bind("s2")) == (409, "conflict")
    assert (await fleet.server.ask("GET", "/v1/me", token=fleet.mill))["session"] == "s1"


async def test_what_was_written_before_a_session_was_bound_carries_none(fleet: Fleet) -> None:
    async def written(node: str) -> Any:  # noqa: ANN401 — front matter as JSON
        await fleet.server.ask("POST", "/v1/nodes", {"nodes": [{**TASK, "id": node}]}, token=fleet.mill)
        return (await fleet.server.ask("GET", f"/v1/nodes/{node}"))["frontmatter"]

    before = await written("task-2")
    await fleet.server.ask("POST", "/v1/agents/session", {"session": "s1"}, token=fleet.mill)
    after = await written("task-3")

    assert (before["author"], before["authored_by_agent"], before["authored_via"], before.get("session")) == (
        "person-bob",
        "agent-mill",
        "dispatch",
        None,
    )
    assert after["session"] == "s1"


async def test_a_runs_token_is_bound_while_its_tenure_stands(fleet: Fleet) -> None:
    run = await fleet.run_token()
    await fleet.server.ask("POST", "/v1/agents/session", {"session": "s1"}, token=run["token"])
    assert (await fleet.server.ask("GET", "/v1/me", token=run["token"]))["session"] == "s1"
    assert (await fleet.server.ask("GET", "/v1/me", token=fleet.mill)).get("session") is None

    await fleet.server.ask("POST", "/v1/nodes/task-1/release", {}, token=fleet.mill)
    response = await fleet.server.send("POST", "/v1/agents/session", {"session": "s1"}, token=run["token"])
    assert refusal(response) == (409, "lease_lost")


async def test_a_standing_token_is_bound_to_no_session(fleet: Fleet) -> None:
    minted = await fleet.server.ask("POST", "/v1/agents/agent-mill/token", {"standing": True}, token=fleet.bob)
    response = await fleet.server.send("POST", "/v1/agents/session", {"session": "s1"}, token=minted["token"])

    assert (response.status_code, response.json()["error"]["field"]) == (422, "session")


async def test_a_persons_token_is_bound_to_no_session(fleet: Fleet) -> None:
    response = await fleet.server.send("POST", "/v1/agents/session", {"session": "s1"}, token=fleet.bob)

    assert refusal(response) == (403, "forbidden")


@pytest.mark.parametrize("body", [{}, {"session": ""}, {"session": " x"}, {"session": "x" * 201}, {"session": 1}])
async def test_a_malformed_session_is_refused(fleet: Fleet, body: dict[str, object]) -> None:
    response = await fleet.server.send("POST", "/v1/agents/session", body, token=fleet.mill)

    assert (response.status_code, response.json()["error"]["field"]) == (422, "session")


async def test_of_two_sessions_at_once_one_is_bound(fleet: Fleet) -> None:
    answers = await asyncio.gather(
        *(fleet.server.send("POST", "/v1/agents/session", {"session": f"s{i}"}, token=fleet.mill) for i in range(4))
    )
    bound = [answer.json()["session"] for answer in answers if answer.is_success]

    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
    assert [(await fleet.server.ask("GET", "/v1/me", token=fleet.mill))["session"]] == bound


# Mints that are repeated


@pytest.mark.parametrize("path, body", [("/v1/me/tokens", {}), ("/v1/agents/agent-mill/token", {"standing": True})])
async def test_a_repeated_mint_ends_the_first_token_and_makes_another(
    fleet: Fleet, path: str, body: dict[str, object]
) -> None:
    async def mint() -> httpx.Response:
        return await fleet.server.send("POST", path, body, token=fleet.bob, headers={"Idempotency-Key": "k1"})

    answers = [await mint() for _ in range(3)]
    valid = [(await fleet.server.send("GET", "/v1/me", token=answer.json()["token"])).status_code for answer in answers]

    assert [answer.status_code for answer in answers] == [201] * 3
    assert valid == [401, 401, 200]
    assert all("Idempotency-Replayed" not in answer.headers for answer in answers)


async def test_a_repeated_mint_of_a_run_token_is_no_second_one(fleet: Fleet) -> None:
    epoch, path = await fleet.claim(fleet.mill), "/v1/agents/agent-mill/token"
    body = {"lease": {"node": "task-1", "epoch": epoch}}

    async def mint(key: str) -> httpx.Response:
        return await fleet.server.send("POST", path, body, token=fleet.mill, headers={"Idempotency-Key": key})

    first, second = [(await mint("k1")).json()["token"] for _ in range(2)]
    assert refusal(await mint("k2")) == (409, "conflict")
    assert (await fleet.write(first), await fleet.write(second)) == (401, 200)

    await fleet.mint_run(epoch, replace=True)
    assert refusal(await mint("k1")) == (409, "conflict"), "a late repetition may not end what came after"


async def test_an_ending_sent_again_with_its_key_gives_the_first_answer(fleet: Fleet) -> None:
    minted = await fleet.server.ask("POST", "/v1/me/tokens", {}, token=fleet.bob)
    path, key = f"/v1/me/tokens/{minted['hash_prefix']}", {"Idempotency-Key": "k"}

    first, second = [await fleet.server.send("DELETE", path, token=fleet.bob, headers=key) for _ in range(2)]

    assert (second.status_code, second.json()) == (200, first.json())
    assert second.headers["Idempotency-Replayed"] == "true"


async def test_a_binding_is_the_tokens_own_whatever_key_it_is_sent_with(fleet: Fleet) -> None:
    """Keys are the agent's, so another token of its could be told that it is bound, and would not be."""
    other = (await fleet.server.ask("POST", "/v1/agents/agent-mill/token", {}, token=fleet.bob))["token"]

    async def bind(token: str) -> httpx.Response:
        body, key = {"session": "s1"}, {"Idempotency-Key": "k"}
        return await fleet.server.send("POST", "/v1/agents/session", body, token=token, headers=key)

    answers = [(await bind(token)).json().get("unchanged", False) for token in (fleet.mill, fleet.mill, other)]
    bound = [(await fleet.server.ask("GET", "/v1/me", token=token))["session"] for token in (fleet.mill, other)]

    assert answers == [False, True, False]
    assert bound == ["s1", "s1"]


async def test_a_key_that_is_used_for_another_mint_is_refused(fleet: Fleet) -> None:
    for body, status in (({"label": "a"}, 201), ({"label": "b"}, 422)):
        response = await fleet.server.send("POST", "/v1/me/tokens", body, headers={"Idempotency-Key": "k1"})
        assert response.status_code == status


async def test_a_token_that_another_process_has_revoked_makes_nothing_that_outlives_it(fleet: Fleet) -> None:
    """It is remembered here for five seconds yet; a successor minted meanwhile would be good for a year."""
    epoch = await fleet.claim(fleet.mill)
    for token in (fleet.server.admin_token, fleet.bob, fleet.mill):
        assert (await fleet.server.send("GET", "/v1/me", token=token)).status_code == 200
    await revoked_elsewhere(fleet, [fleet.server.admin_token, fleet.bob, fleet.mill])

    makes: list[tuple[str, str, dict[str, object]]] = [
        (fleet.bob, "/v1/me/tokens", {}),
        (fleet.bob, "/v1/agents", {"label": "x"}),
        (fleet.bob, "/v1/agents/agent-mill/token", {"standing": True}),
        (fleet.mill, "/v1/agents/agent-mill/token", {"lease": {"node": "task-1", "epoch": epoch}}),
        (fleet.mill, "/v1/agents/session", {"session": "s1"}),
        (fleet.server.admin_token, "/v1/admin/tokens", {"person": "person-bob"}),
        (fleet.server.admin_token, "/v1/admin/people", {"name": "Eve", "email": "eve@x"}),
        (fleet.server.admin_token, "/v1/admin/agents", {"label": "x", "owner": "person-bob"}),
    ]
    answers = [refusal(await fleet.server.send("POST", path, body, token=token)) for token, path, body in makes]

    assert (await fleet.server.send("GET", "/v1/me", token=fleet.bob)).status_code == 200, "it is remembered"
    assert answers == [(401, "unauthorized")] * len(makes)


async def test_a_token_that_another_process_has_revoked_ends_no_other(fleet: Fleet) -> None:
    """A stolen admin's token that was just ended could end everybody's, its victim's last one included."""
    dee = await fleet.server.add_person("Dee", admin=True)
    run, ada = (await fleet.run_token())["token"], fleet.server.admin_token
    asked = [
        (dee, "admin/tokens", ada),
        (dee, "agents/agent-mill/tokens", fleet.mill),
        (fleet.bob, "me/tokens", fleet.bob),
        (fleet.bob, "agents/agent-mill/tokens", fleet.mill),
        (fleet.mill, "agents/agent-mill/tokens", run),
    ]
    for token in (dee, fleet.bob, fleet.mill):
        assert (await fleet.server.send("GET", "/v1/me", token=token)).status_code == 200
    await revoked_elsewhere(fleet, [dee, fleet.bob, fleet.mill])

    answers = [refusal(await end(fleet, *one)) for one in asked]

    assert answers == [(401, "unauthorized")] * len(asked)
    assert (await fleet.server.send("GET", "/v1/me", token=ada)).status_code == 200
    assert await fleet.write(run) == 200


async def test_of_two_who_end_each_others_tokens_at_once_one_does(fleet: Fleet) -> None:
    dee, eve = [await fleet.server.add_person(name, admin=True) for name in ("Dee", "Eve")]

    async with held("fence.checked") as door:
        first = asyncio.create_task(end(fleet, dee, "admin/tokens", eve))
        if fleet.server.store.dialect == "postgres":  # on SQLite the second's turn comes when the first's is over
            await door.reached()
        second = asyncio.create_task(end(fleet, eve, "admin/tokens", dee))
        door.open()
        answers = [await first, await second]

    assert sorted(answer.status_code for answer in answers) == [200, 401]


async def revoked_elsewhere(fleet: Fleet, revoked: Iterable[str]) -> None:
    """End tokens as another process does: this one remembers them."""
    async with fleet.server.store.write(SYSTEM, Fences()) as tx:
        tokens.revoke(tx, [hash_of(Secret(token)) for token in revoked], now=await tx.now())


async def end(fleet: Fleet, token: str, where: str, ended: str) -> httpx.Response:
    """Ask, under `token`, for the end of another."""
    return await fleet.server.send("DELETE", f"/v1/{where}/{hash_of(Secret(ended))[:12]}", token=token)


async def test_who_is_an_admin_no_more_makes_no_admins_meanwhile(fleet: Fleet) -> None:
    dee = await fleet.server.add_person("Dee", admin=True)
    assert (await fleet.server.ask("GET", "/v1/me", token=dee))["is_admin"]
    await fleet.server.ask("DELETE", "/v1/nodes/person-dee/edges", {"type": "stewards", "to": "org-root"})

    makes: list[tuple[str, dict[str, object]]] = [
        ("/v1/admin/people", {"name": "Eve", "email": "eve@x", "admin": True}),
        ("/v1/admin/tokens", {"person": "person-ada-admin"}),
        ("/v1/admin/agents", {"label": "x", "owner": "person-ada-admin"}),
        ("/v1/agents/agent-mill/token", {"standing": True}),
    ]
    answers = [refusal(await fleet.server.send("POST", path, body, token=dee)) for path, body in makes]
    ends = [("admin/tokens", fleet.bob), ("agents/agent-mill/tokens", fleet.mill)]
    answers += [refusal(await end(fleet, dee, *one)) for one in ends]

    assert (await fleet.server.ask("GET", "/v1/me", token=dee))["is_admin"], "it is remembered"
    assert answers == [(403, "forbidden")] * (len(makes) + len(ends))


# Secrets stay where they belong


async def test_no_secret_is_in_any_table_log_message_or_repr(
    fleet: Fleet, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = fleet.server
    epoch = await fleet.claim(fleet.mill)
    path = "/v1/agents/agent-mill/token"
    mints: list[tuple[str, dict[str, object]]] = [
        ("/v1/me/tokens", {}),
        (path, {"session": "s1"}),
        (path, {"lease": {"node": "task-1", "epoch": epoch}}),
    ]
    secrets = [server.admin_token, fleet.bob, fleet.mill]
    for n, (where, body) in enumerate(mints):
        for _ in range(2):  # the second is a repetition; what is stored for it is looked through below
            headers = {"Idempotency-Key": f"k{n}"}
            minted = await server.send("POST", where, body, token=fleet.bob, headers=headers)
            secrets.append(minted.json()["token"])
    refused = [await server.send("GET", "/v1/me", token=secret + "x") for secret in secrets]

    dumped = await asyncio.to_thread(dump, database_url)

    assert "person-bob" in dumped, "the dump is blind"
    assert "bat_" not in dumped
    for secret in secrets:
        assert secret not in caplog.text
        assert not any(secret in answer.text for answer in refused)
        assert secret not in repr(await server.services.identity.authenticate(server.admin_token))


def dump(url: str) -> str:
    """Return every row of every table as text."""
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(sqlite_path(url))) as connection:
            return "\n".join(connection.iterdump())
    with psycopg.connect(url) as postgres:
        names = postgres.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        rows = [
            postgres.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(name))).fetchall() for (name,) in names
        ]
        return repr(rows)
