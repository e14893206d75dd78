"""Tokens, agents and attribution, and the shape of every refusal."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from batonpass.conformance.case import each, requirement
from batonpass.conformance.client import Client
from batonpass.conformance.world import World, done

WEEK: Final = timedelta(days=7)
MEBIBYTE: Final = 1024 * 1024


# --- the envelope -----------------------------------------------------------------------------------------------------


@requirement("bearer", "error-envelope")
@each("token", [None, "nope", "bat_agt_" + "x" * 43])
def without_a_token_that_is_known_nothing_is_answered(world: World, token: str | None) -> None:
    for path in ("/v1/me", "/v1/queue", "/v1/nodes/task-a"):
        answer = world.client(token).get(path)

        assert (answer.status, answer.code) == (401, "unauthorized")
        assert set(answer.body) == {"error"}
        assert set(answer.body["error"]) >= {"code", "message"}
        assert answer.headers["content-type"].startswith("application/json")


@requirement("bad-json", "too-large", "error-envelope")
def a_body_that_cannot_be_read_is_refused_in_the_envelope(world: World) -> None:
    unreadable = world.agent.send("POST", "/v1/queue/claim", b"{nope")
    too_large = world.agent.send("POST", "/v1/nodes", b" " * MEBIBYTE + b"{}")

    assert unreadable.status == 400
    assert (too_large.status, too_large.code) == (413, "too_large")
    for answer in (unreadable, too_large):
        assert set(answer.body["error"]) >= {"code", "message"}


@requirement("unknown-fields")
def a_field_of_a_later_version_of_the_protocol_disturbs_nothing(world: World) -> None:
    node = world.node()
    for path, body in (
        (f"/v1/nodes/{node}/claim", {}),
        (f"/v1/nodes/{node}/renew", {}),
        (f"/v1/nodes/{node}/extend", {"ms": 1000}),
        (f"/v1/nodes/{node}/reserve", {}),
        (f"/v1/nodes/{node}/release", {}),
        ("/v1/queue/claim", {"ids": [node]}),
        ("/v1/queue/renew", {}),
        ("/v1/queue/release", {}),
        (f"/v1/nodes/{node}/priority", {"priority": "p1"}),
        ("/v1/nodes", {"nodes": [world.entry(world.name("task"))]}),
    ):
        assert world.agent.post(path, {**body, "newer": {"than": "this"}}).status == 200, path


# --- the caller -------------------------------------------------------------------------------------------------------


@requirement("me")
def me_says_who_asks(world: World) -> None:
    person, machine = done(world.ann.get("/v1/me")), done(world.agent.get("/v1/me"))

    for body in (person, machine):
        assert set(body) >= {"person", "name", "email", "bound", "is_admin", "org"}
        assert (body["person"], body["bound"], body["is_admin"]) == (world.ids["ann"], True, False)
    assert done(world.admin.get("/v1/me"))["is_admin"] is True


# --- agents -----------------------------------------------------------------------------------------------------------


@requirement("agent-create")
def a_person_makes_an_agent_whose_id_comes_from_its_label(world: World) -> None:
    label = f"build box {world.number}"

    answer = world.ann.post("/v1/agents", {"label": label})

    assert answer.status == 201
    assert set(answer.body) >= {"id", "owner", "spiffe", "pubkey", "status", "revision"}
    assert answer.body["id"] == f"agent-build-box-{world.number}"
    assert (answer.body["owner"], answer.body["pubkey"]) == (world.ids["ann"], None)
    assert f"/{world.ids['ann']}/agent/" in answer.body["spiffe"]
    listed = done(world.ann.get("/v1/agents"))["agents"]
    assert answer.body["id"] in [agent["id"] for agent in listed]
    edges = world.read(answer.body["id"])["frontmatter"]["edges"]
    assert {"type": "owned-by", "to": world.ids["ann"]} in edges


@requirement("agent-refused")
def an_agent_that_cannot_be_made_is_refused(world: World) -> None:
    assert world.ann.post("/v1/agents", {"label": f"agent {world.number}"}).status == 409
    assert world.ann.post("/v1/agents", {"label": ""}).status == 422
    assert world.ann.post("/v1/agents", {"label": "x", "id": "Not An Id"}).status == 422
    assert world.agent.post("/v1/agents", {"label": "child"}).status == 403


@requirement("agent-list-all")
def all_agents_are_an_admins_to_list(world: World) -> None:
    everybody = done(world.admin.get("/v1/agents", all=1, limit=500))["agents"]

    assert {world.ids["agent"], world.ids["rival"]} <= {agent["id"] for agent in everybody}
    assert world.ann.get("/v1/agents", all=1).status == 403


# --- tokens -----------------------------------------------------------------------------------------------------------


@requirement("token-session", "token-week")
def a_token_for_one_session(world: World) -> None:
    at = f"/v1/agents/{world.ids['agent']}/token"

    minted = world.ann.post(at, {"session": "s-1"})
    longest = world.ann.post(at, {"session": "s-2", "expires": "30d"})

    assert minted.status == 201
    assert set(minted.body) >= {"token", "expires_at", "agent", "session"}
    assert (minted.body["agent"], minted.body["session"]) == (world.ids["agent"], "s-1")
    assert done(world.client(minted.body["token"]).get("/v1/me"))["person"] == world.ids["ann"]
    now = datetime.fromisoformat(done(world.admin.get("/v1/status"))["time"])
    assert datetime.fromisoformat(longest.body["expires_at"]) - now <= WEEK


@requirement("token-standing", "token-standing-limits")
def a_standing_token(world: World) -> None:
    at = f"/v1/agents/{world.ids['agent']}/token"

    minted = world.ann.post(at, {"standing": True, "label": "the box"})

    assert minted.status == 201
    assert set(minted.body) >= {"token", "hash_prefix", "agent", "owner", "label", "expires", "standing"}
    assert (minted.body["owner"], minted.body["label"], minted.body["standing"]) == (world.ids["ann"], "the box", True)
    assert world.ann.post(at, {"standing": True, "session": "s-1"}).status == 422
    assert world.ann.post(at, {"standing": True, "expires": "366d"}).status == 422


@requirement("token-owner")
def an_agents_tokens_are_for_its_owner_to_mint(world: World) -> None:
    assert world.ben.post(f"/v1/agents/{world.ids['agent']}/token", {}).status == 403
    assert world.ann.post(f"/v1/agents/{world.name('agent')}/token", {}).status == 404


@requirement("token-ended")
def a_standing_token_is_listed_without_its_secret_and_ended_by_its_prefix(world: World) -> None:
    at = f"/v1/agents/{world.ids['agent']}"
    minted = done(world.ann.post(f"{at}/token", {"standing": True}))

    listed = world.ann.get(f"{at}/tokens")
    ended = world.ann.delete(f"{at}/tokens/{minted['hash_prefix']}")

    assert minted["hash_prefix"] in [token["hash_prefix"] for token in done(listed)["tokens"]]
    assert minted["token"] not in str(listed.body)
    assert ended.status == 200
    assert world.client(minted["token"]).get("/v1/me").status == 401
    assert world.ann.delete(f"{at}/tokens/00000000").status == 404


@requirement("session-late", "session-once")
def a_session_that_is_known_only_later_is_bound_once_by_the_token_itself(world: World) -> None:
    minted = done(world.ann.post(f"/v1/agents/{world.ids['agent']}/token", {}))
    late = world.client(minted["token"])
    assert minted["session"] is None

    def bind(who: Client, session: object) -> tuple[int, object]:
        answer = who.post("/v1/agents/session", {"session": session})
        return answer.status, answer.body

    assert bind(late, "")[0] == 422
    assert bind(late, "s-1") == (200, {"ok": True, "agent": world.ids["agent"], "session": "s-1"})
    assert bind(late, "s-1") == (200, {"ok": True, "agent": world.ids["agent"], "session": "s-1", "unchanged": True})
    assert bind(late, "s-2")[0] == 409
    assert bind(world.ann, "s-1")[0] == 403


# --- attribution ------------------------------------------------------------------------------------------------------


@requirement("attribution", "attribution-deferred")
def a_write_is_the_agents_on_behalf_of_its_person_whatever_the_body_says(world: World) -> None:
    at = f"/v1/agents/{world.ids['agent']}/token"
    bound = world.client(done(world.ann.post(at, {"session": "s-1"}))["token"])
    deferred = world.client(done(world.ann.post(at, {}))["token"])
    forged = {
        "author": world.ids["ben"],
        "authored_by_agent": world.ids["rival"],
        "session": "s-9",
        "authored_via": "rest",
    }

    def stamps(who: Client) -> dict[str, object]:
        node = world.name("task")
        done(who.post("/v1/nodes", {"nodes": [world.entry(node, **forged)]}))
        written = world.read(node)["frontmatter"]
        return {key: written.get(key) for key in forged}

    by_agent = {"author": world.ids["ann"], "authored_by_agent": world.ids["agent"], "authored_via": "dispatch"}
    assert stamps(bound) == {**by_agent, "session": "s-1"}
    assert stamps(deferred) == {**by_agent, "session": None}
    assert stamps(world.ann)["author"] == world.ids["ann"]
    assert stamps(world.ann)["authored_by_agent"] is None
