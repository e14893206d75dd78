"""The lease verbs on one node: claim, renew, extend, reserve, release."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from batonpass.conformance.case import each, requirement
from batonpass.conformance.client import Answer, Client
from batonpass.conformance.world import GRACE, TTL, TTL_MAX, World, done

VIEW: Final = {"node_id", "by", "expires", "expires_at", "session", "claimed_at"}
"""What a lease view has at the least; more may be added, nothing is repurposed."""
TTL_MS: Final = TTL // timedelta(milliseconds=1)
MINUTE: Final = timedelta(minutes=1)


def verb(who: Client, node: str, name: str, **body: object) -> Answer:
    return who.post(f"/v1/nodes/{node}/{name}", body)


def granted(who: Client, node: str, name: str, **body: object) -> Any:  # noqa: ANN401 — JSON
    answer = verb(who, node, name, **body)
    assert answer.status == 200, answer
    return answer.body


def assert_names(refusal: Answer, holder: str, code: str) -> None:
    """A conflict names the holder and the expiry: in the view beside the error, and for people in the message."""
    assert (refusal.status, refusal.code) == (409, code)
    assert set(refusal.body["holder"]) >= VIEW
    assert refusal.body["holder"]["by"] == holder
    assert holder in refusal.body["error"]["message"]
    assert refusal.body["holder"]["expires_at"] in refusal.body["error"]["message"]


# --- claim ------------------------------------------------------------------------------------------------------------


@requirement("claim-takes", "claim-lease-view", "claim-horizon")
def a_claim_of_a_free_node_answers_with_the_lease_and_its_horizon(world: World) -> None:
    node = world.node()

    body = granted(world.agent, node, "claim")

    assert set(body) >= {"ok", "status", "lease", "expires_in_ms", "edge"}
    assert (body["ok"], body["status"], body["edge"]) == (True, "claimed", "added")
    assert body["expires_in_ms"] == TTL_MS
    lease = body["lease"]
    assert set(lease) >= VIEW
    assert (lease["node_id"], lease["by"], lease["session"]) == (node, world.ids["agent"], None)
    expires = datetime.fromisoformat(lease["expires_at"])
    assert expires.tzinfo is not None
    assert int(expires.timestamp() * 1000) == lease["expires"]
    assert expires - datetime.fromisoformat(lease["claimed_at"]) == TTL
    assert "reserved" not in lease


@requirement("claim-edge")
def a_claim_writes_an_assigned_edge_to_the_claimer_once(world: World) -> None:
    node = world.node()

    granted(world.agent, node, "claim")
    granted(world.agent, node, "claim")

    assert world.assigned(node) == [world.ids["agent"]]


@requirement("claim-held")
def a_claim_of_what_somebody_else_holds_is_a_conflict_that_names_them(world: World) -> None:
    node = world.node()
    held = granted(world.agent, node, "claim")["lease"]

    for other in (world.rival, world.ben, world.admin):
        assert_names(verb(other, node, "claim"), world.ids["agent"], "already_claimed")

    assert verb(world.rival, node, "claim").body["holder"] == held


@requirement("claim-again")
def a_claim_of_ones_own_live_claim_renews_it(world: World) -> None:
    node = world.node()
    first = granted(world.agent, node, "claim")
    world.passes(MINUTE)

    again = granted(world.agent, node, "claim")

    assert (again["status"], again["edge"], again["expires_in_ms"]) == ("claimed", "skipped", TTL_MS)
    assert again["lease"]["claimed_at"] == first["lease"]["claimed_at"]
    assert again["lease"]["expires"] - first["lease"]["expires"] == MINUTE // timedelta(milliseconds=1)


@requirement("claim-session")
def a_session_that_is_named_is_shown_and_its_holders_others_may_still_renew(world: World) -> None:
    node = world.node()

    assert granted(world.agent, node, "claim", session="s-1")["lease"]["session"] == "s-1"
    assert granted(world.agent, node, "renew")["lease"]["session"] == "s-1"


@requirement("claim-identity")
def who_claims_is_who_asks_and_never_what_the_body_says(world: World) -> None:
    node = world.node()

    body = granted(world.agent, node, "claim", by=world.ids["ben"], agent=world.ids["rival"], person=world.ids["ben"])

    assert body["lease"]["by"] == world.ids["agent"]


@requirement("claim-nonce")
def a_second_launch_by_the_same_identity_is_told_apart_by_its_nonce(world: World) -> None:
    node = world.node()
    first = granted(world.agent, node, "claim", dispatch="launch-1")

    second = verb(world.agent, node, "claim", dispatch="launch-2")
    same = granted(world.agent, node, "claim", dispatch="launch-1")
    reattached = granted(world.agent, node, "claim")

    assert second.status == 409
    assert [same["lease"]["claimed_at"], reattached["lease"]["claimed_at"]] == [first["lease"]["claimed_at"]] * 2


@requirement("claim-lapsed")
def a_lapsed_claim_is_free_for_all_without_anybody_doing_anything(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")
    assert node not in world.queued(world.rival)

    world.passes(TTL)

    assert node in world.queued(world.rival)
    assert granted(world.rival, node, "claim")["lease"]["by"] == world.ids["rival"]
    assert world.assigned(node) == [world.ids["rival"]]


@requirement("claim-blocked")
def claiming_a_blocked_item_is_legal(world: World) -> None:
    node = world.node()
    world.node(edges=[{"type": "blocks", "to": node}])

    assert granted(world.agent, node, "claim")["status"] == "claimed"


@requirement("not-claimable", "not-found")
@each("name", ["claim", "renew", "extend", "reserve"])
def only_work_that_is_there_can_be_leased(world: World, name: str) -> None:
    body = {"ms": 1000} if name == "extend" else {}
    norm, nobody = world.node("norm"), world.name("task")

    refused, missing = verb(world.agent, norm, name, **body), verb(world.agent, nobody, name, **body)

    assert (refused.status, refused.code) == (422, "invalid_node")
    assert refused.body["error"]["details"]
    assert (missing.status, missing.code) == (404, "not_found")
    assert world.admin.get(f"/v1/nodes/{nobody}").status == 404


# --- renew ------------------------------------------------------------------------------------------------------------


@requirement("renew-bumps", "renew-no-write")
def a_renewal_moves_the_expiry_and_leaves_the_node_alone(world: World) -> None:
    node = world.node()
    claimed = granted(world.agent, node, "claim")
    before = world.read(node)["revision"]
    world.passes(MINUTE)

    renewed = granted(world.agent, node, "renew")

    assert set(renewed) >= {"ok", "status", "lease", "expires_in_ms"}
    assert (renewed["ok"], renewed["status"], renewed["expires_in_ms"]) == (True, "renewed", TTL_MS)
    assert renewed["lease"]["expires"] > claimed["lease"]["expires"]
    assert "reclaimed" not in renewed
    assert world.read(node)["revision"] == before


@requirement("renew-reclaims")
def a_renewal_of_what_nobody_holds_claims_it_and_says_so(world: World) -> None:
    fresh, lapsed = world.node(), world.node()
    granted(world.agent, lapsed, "claim")
    world.passes(TTL)

    for node in (fresh, lapsed):
        body = granted(world.agent, node, "renew")

        assert (body["status"], body["reclaimed"]) == ("renewed", True)
        assert world.assigned(node) == [world.ids["agent"]]


@requirement("renew-lost")
def a_renewal_of_what_somebody_else_holds_is_lost_and_names_them(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")
    world.passes(TTL)
    granted(world.rival, node, "claim")

    assert_names(verb(world.agent, node, "renew"), world.ids["rival"], "lease_lost")


@requirement("renew-binds")
def a_renewal_that_names_a_session_binds_the_lease_to_it(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")

    assert granted(world.agent, node, "renew", session="s-9")["lease"]["session"] == "s-9"


@requirement("renew-person")
def the_person_who_owns_the_holding_agent_may_renew(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")

    assert granted(world.ann, node, "renew")["lease"]["by"] == world.ids["agent"]


# --- extend -----------------------------------------------------------------------------------------------------------


@requirement("extend-stretches", "extend-never-shortens")
def an_extension_stretches_and_neither_a_renewal_nor_a_shorter_one_undoes_it(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")

    stretched = granted(world.agent, node, "extend", ms=7_200_000)
    after = [granted(world.agent, node, "renew"), granted(world.agent, node, "extend", ms=1000)]

    assert set(stretched) >= {"ok", "status", "lease", "expires_in_ms"}
    assert (stretched["status"], stretched["expires_in_ms"]) == ("extended", 7_200_000)
    assert "capped_to_max" not in stretched
    assert [body["lease"]["expires"] for body in after] == [stretched["lease"]["expires"]] * 2


@requirement("extend-capped")
def an_extension_past_the_ceiling_is_cut_and_says_so(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")

    body = granted(world.agent, node, "extend", ms=10 * 86_400_000)

    ceiling = TTL_MAX // timedelta(milliseconds=1)
    assert (body["capped_to_max"], body["claim_ttl_max_ms"], body["expires_in_ms"]) == (True, ceiling, ceiling)


@requirement("extend-positive")
@each("ms", [0, -1, "1000", None, True, []])
def the_milliseconds_of_an_extension_are_a_positive_number(world: World, ms: object) -> None:
    node = world.node()

    answer = verb(world.agent, node, "extend", ms=ms)

    assert answer.status == 422
    assert "ms" in answer.body["error"]["message"]
    assert world.assigned(node) == []


@requirement("extend-positive")
def an_extension_without_milliseconds_is_refused(world: World) -> None:
    assert verb(world.agent, world.node(), "extend").status == 422


@requirement("extend-reclaims", "extend-lost")
def an_extension_claims_what_nobody_holds_and_is_lost_where_somebody_does(world: World) -> None:
    node = world.node()

    reclaimed = granted(world.agent, node, "extend", ms=7_200_000)

    assert (reclaimed["reclaimed"], reclaimed["expires_in_ms"]) == (True, 7_200_000)
    assert_names(verb(world.rival, node, "extend", ms=1000), world.ids["agent"], "lease_lost")


# --- reserve ----------------------------------------------------------------------------------------------------------


@requirement("reserve-parks", "reserve-edge")
def a_reservation_keeps_the_node_for_its_owner_for_the_grace_window(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")

    body = granted(world.agent, node, "reserve")

    window = GRACE // timedelta(milliseconds=1)
    assert set(body) >= {"ok", "status", "lease", "expires_in_ms", "grace_window_ms"}
    assert (body["status"], body["grace_window_ms"], body["expires_in_ms"]) == ("reserved", window, window)
    assert body["lease"]["reserved"] is True
    assert "reclaimed" not in body
    assert world.assigned(node) == [world.ids["agent"]]
    assert_names(verb(world.rival, node, "claim"), world.ids["agent"], "already_claimed")


@requirement("reserve-queue", "reserve-escalates")
def a_reserved_item_is_first_in_its_owners_queue_and_in_nobody_elses_until_the_window_ends(world: World) -> None:
    urgent, node = world.node(priority="p1"), world.node()
    granted(world.agent, node, "claim")
    granted(world.agent, node, "reserve")

    own, others = world.page(world.ann), world.page(world.ben)
    assert [item["id"] for item in own["items"]] == [node, urgent]
    assert own["items"][0]["lease_state"] == "reserved"
    assert [item["id"] for item in others["items"]] == [urgent]
    assert others["reserved"] == 1

    world.passes(GRACE)
    for who in (world.ann, world.ben):
        after = world.page(who)
        assert [item["id"] for item in after["items"]] == [urgent, node]
        assert "reserved" not in after


@requirement("reserve-reclaims", "reserve-lost")
def a_reservation_takes_what_nobody_holds_and_never_what_somebody_does(world: World) -> None:
    node = world.node()

    reclaimed = granted(world.agent, node, "reserve")

    assert (reclaimed["reclaimed"], reclaimed["lease"]["reserved"]) == (True, True)
    assert_names(verb(world.rival, node, "reserve"), world.ids["agent"], "lease_lost")


@requirement("reserve-taken-up")
@each("name", ["claim", "renew", "extend"])
def its_owner_takes_a_reservation_up_again(world: World, name: str) -> None:
    node = world.node()
    granted(world.agent, node, "reserve")

    body = granted(world.agent, node, name, **({"ms": 3_600_000} if name == "extend" else {}))

    assert "reserved" not in body["lease"]
    assert body["expires_in_ms"] < GRACE // timedelta(milliseconds=1)


# --- release ----------------------------------------------------------------------------------------------------------


@requirement("release-drops", "release-edge")
def a_release_returns_the_node_to_the_pool_and_retires_the_edge(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")

    body = granted(world.agent, node, "release")

    assert body == {"ok": True, "status": "released", "node_id": node, "edge": "removed"}
    assert world.assigned(node) == []
    assert node in world.queued(world.rival)
    assert granted(world.rival, node, "claim")["edge"] == "added"


@requirement("release-idempotent")
def a_release_of_what_one_does_not_hold_still_succeeds(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")
    bodies = [granted(world.agent, node, "release") for _ in range(3)]

    assert [body["edge"] for body in bodies] == ["removed", "skipped", "skipped"]
    assert granted(world.rival, world.node(), "release")["status"] == "released"


@requirement("release-lapsed")
def a_release_cleans_up_the_edge_of_a_claim_that_lapsed(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")
    world.passes(TTL)
    assert world.assigned(node) == [world.ids["agent"]]

    granted(world.agent, node, "release")

    assert world.assigned(node) == []


@requirement("release-held")
def a_release_of_somebody_elses_claim_is_a_conflict_that_names_them(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")

    assert_names(verb(world.rival, node, "release"), world.ids["agent"], "already_claimed")

    assert world.assigned(node) == [world.ids["agent"]]


@requirement("release-hand-made")
def an_edge_that_a_person_wrote_is_not_a_claims_to_retire(world: World) -> None:
    node = world.node(edges=[{"type": "assigned", "to": world.ids["agent"]}])
    granted(world.agent, node, "claim")

    granted(world.agent, node, "release")

    assert world.assigned(node) == [world.ids["agent"]]


# --- a status that claims ---------------------------------------------------------------------------------------------


@requirement("status-claims")
def an_in_progress_status_claims_with_the_same_lease(world: World) -> None:
    node = world.node(status="open")

    body = done(world.agent.post(f"/v1/nodes/{node}/status", {"status": "active"}))

    assert body["lease"]["by"] == world.ids["agent"]
    assert world.assigned(node) == [world.ids["agent"]]
    assert granted(world.agent, node, "claim")["edge"] == "skipped"
    refused = world.rival.post(f"/v1/nodes/{node}/status", {"status": "active"})
    assert refused.status == 409
    assert refused.body["holder"]["by"] == world.ids["agent"]


@requirement("status-terminal-keeps")
def a_terminal_status_neither_releases_nor_retires_the_edge(world: World) -> None:
    node = world.node()
    granted(world.agent, node, "claim")
    world.resolver(node)

    done(world.agent.post(f"/v1/nodes/{node}/status", {"status": "done"}))

    assert world.assigned(node) == [world.ids["agent"]]
    assert verb(world.rival, node, "release").status == 409


@requirement("horizon-now")
def every_verb_says_how_long_from_when_the_call_ran(world: World) -> None:
    """Against the server's own clock, so that nobody's wall clock matters."""
    node = world.node()
    for name, body in (("claim", {}), ("renew", {}), ("extend", {"ms": 7_200_000}), ("reserve", {})):
        answer = granted(world.agent, node, name, **body)
        now = datetime.fromisoformat(done(world.admin.get("/v1/status"))["time"])

        assert answer["lease"]["expires"] - answer["expires_in_ms"] == int(now.astimezone(UTC).timestamp() * 1000), name
        world.passes(MINUTE)
