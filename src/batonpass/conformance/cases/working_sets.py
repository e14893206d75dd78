"""The bulk lease verbs: a whole working set claimed, kept alive and handed back in one call each."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from batonpass.conformance.case import each, requirement
from batonpass.conformance.client import Client
from batonpass.conformance.world import TTL, World, done

FAILED: Final = {"node_id", "code", "message"}
HOUR_MS: Final = 3_600_000


def claim(who: Client, *ids: object, **body: object) -> Any:  # noqa: ANN401 — JSON
    return done(who.post("/v1/queue/claim", {"ids": list(ids), **body}))


def renew(who: Client, **body: object) -> Any:  # noqa: ANN401 — JSON
    return done(who.post("/v1/queue/renew", body))


def release(who: Client, **body: object) -> Any:  # noqa: ANN401 — JSON
    return done(who.post("/v1/queue/release", body))


def live_lapsed_and_taken(world: World) -> tuple[str, str, str]:
    """Return three nodes that the agent claimed: one is extended, one has lapsed, one a rival has taken since."""
    live, lapsed, taken = world.node(), world.node(), world.node()
    claim(world.agent, live, lapsed, taken)
    done(world.agent.post(f"/v1/nodes/{live}/extend", {"ms": 2 * HOUR_MS}))
    world.passes(TTL)
    claim(world.rival, taken)
    return live, lapsed, taken


# --- claim ------------------------------------------------------------------------------------------------------------


@requirement("set-claim", "set-claim-horizon")
def a_set_that_is_free_is_claimed_in_one_call(world: World) -> None:
    nodes = [world.node(), world.node()]

    body = claim(world.agent, *nodes, session="s-1")

    assert set(body) >= {"ok", "status", "count", "claimed", "leases", "failed", "expires_in_ms"}
    assert (body["ok"], body["status"], body["count"], body["failed"]) == (True, "claimed", 2, [])
    assert sorted(body["claimed"]) == sorted(nodes)
    assert {(lease["node_id"], lease["by"], lease["session"]) for lease in body["leases"]} == {
        (node, world.ids["agent"], "s-1") for node in nodes
    }
    assert body["expires_in_ms"] == TTL // timedelta(milliseconds=1)
    assert [world.assigned(node) for node in nodes] == [[world.ids["agent"]]] * 2


@requirement("set-claim-partial")
def what_somebody_else_holds_fails_and_the_rest_is_claimed(world: World) -> None:
    free, held, nobody = world.node(), world.node(), world.name("task")
    claim(world.rival, held)

    body = claim(world.agent, held, free, nobody)

    assert (body["ok"], body["status"], body["count"], body["claimed"]) == (True, "partial", 1, [free])
    failed = {entry["node_id"]: entry for entry in body["failed"]}
    assert all(set(entry) >= FAILED for entry in body["failed"])
    assert (failed[held]["code"], failed[held]["holder"]["by"]) == ("already_claimed", world.ids["rival"])
    assert world.ids["rival"] in failed[held]["message"]
    assert failed[nobody]["code"] == "not_found"
    assert "holder" not in failed[nobody]


@requirement("set-claim-refused")
def a_set_of_which_nothing_lands_is_refused_and_has_no_horizon(world: World) -> None:
    held = world.node()
    claim(world.rival, held)

    body = claim(world.agent, held)

    assert (body["ok"], body["status"], body["count"], body["claimed"], body["leases"]) == (True, "refused", 0, [], [])
    assert "expires_in_ms" not in body


@requirement("set-claim-ids")
@each("body", [{}, {"ids": []}, {"ids": "task-a"}, {"ids": None}, {"ids": [7]}, {"ids": ["NO ID"]}])
def a_claim_names_its_nodes(world: World, body: dict[str, object]) -> None:
    assert world.agent.post("/v1/queue/claim", body).status == 422


@requirement("set-claim-duplicates")
def a_node_that_is_named_twice_is_claimed_once(world: World) -> None:
    node = world.node()

    body = claim(world.agent, node, node)

    assert (body["count"], body["claimed"], len(body["leases"])) == (1, [node], 1)


@requirement("set-claim-no-nonce")
def neither_a_nonce_nor_force_counts_on_a_set(world: World) -> None:
    done_already, open_ = world.node(), world.node()
    world.resolver(done_already)

    body = claim(world.agent, done_already, open_, dispatch="launch-1", force=True)
    again = world.agent.post(f"/v1/nodes/{open_}/claim", {"dispatch": "launch-2"})

    assert body["claimed"] == [open_]
    assert again.status == 200, "a nonce would have bound it"


# --- renew ------------------------------------------------------------------------------------------------------------


@requirement("set-renew-held", "set-renew-horizon")
def a_heartbeat_without_ids_renews_all_that_the_caller_holds(world: World) -> None:
    nodes = [world.node(), world.node()]
    claim(world.agent, *nodes)
    done(world.agent.post(f"/v1/nodes/{nodes[0]}/extend", {"ms": 2 * HOUR_MS}))
    world.passes(timedelta(minutes=1))

    body = renew(world.agent)

    assert set(body) >= {"ok", "status", "count", "renewed", "leases", "failed", "expires_in_ms"}
    assert (body["ok"], body["count"], sorted(body["renewed"]), body["failed"]) == (True, 2, sorted(nodes), [])
    assert body["expires_in_ms"] == TTL // timedelta(milliseconds=1), "the soonest of the two"
    assert "reclaimed" not in body


@requirement("set-renew-never-reclaims")
def a_heartbeat_without_ids_never_takes_back_what_lapsed(world: World) -> None:
    kept, lapsed, taken = live_lapsed_and_taken(world)

    body = renew(world.agent)

    assert body["renewed"] == [kept]
    failed = {entry["node_id"]: entry for entry in body["failed"]}
    assert {node: entry["code"] for node, entry in failed.items()} == {lapsed: "lease_lost", taken: "lease_lost"}
    assert failed[taken]["holder"]["by"] == world.ids["rival"]
    assert "holder" not in failed[lapsed]
    assert "reclaimed" not in body
    assert done(world.rival.post(f"/v1/nodes/{lapsed}/claim"))["lease"]["by"] == world.ids["rival"]


@requirement("set-renew-session")
def a_heartbeat_of_a_session_says_what_it_passed_over(world: World) -> None:
    own, elsewhere = world.node(), world.node()
    claim(world.agent, own, session="s-1")
    claim(world.agent, elsewhere, session="s-2")

    body = renew(world.agent, session="s-1")

    assert (body["renewed"], body["skipped_other_session"]) == ([own], 1)


@requirement("set-renew-reserved")
def a_heartbeat_leaves_reservations_parked_and_counts_them(world: World) -> None:
    held, parked = world.node(), world.node()
    claim(world.agent, held, parked)
    before = done(world.agent.post(f"/v1/nodes/{parked}/reserve"))["lease"]

    body = renew(world.agent)

    assert (body["renewed"], body["skipped_reserved"]) == ([held], 1)
    assert world.read(parked)["lease"]["expires"] == before["expires"]


@requirement("set-renew-ids", "set-renew-reclaims")
def a_heartbeat_with_ids_takes_back_what_lapsed_and_says_which(world: World) -> None:
    live, lapsed, taken = live_lapsed_and_taken(world)

    body = renew(world.agent, ids=[live, lapsed, taken])

    assert sorted(body["renewed"]) == sorted([live, lapsed])
    assert (body["count"], body["reclaimed"]) == (2, [lapsed])
    assert [(entry["node_id"], entry["code"]) for entry in body["failed"]] == [(taken, "lease_lost")]
    assert not {"skipped_other_session", "skipped_reserved"} & set(body)
    assert world.assigned(lapsed) == [world.ids["agent"]]


@requirement("set-renew-empty")
def a_heartbeat_of_somebody_who_holds_nothing_is_no_failure(world: World) -> None:
    body = renew(world.agent)

    assert (body["ok"], body["count"], body["renewed"], body["failed"]) == (True, 0, [], [])
    assert "expires_in_ms" not in body


# --- release ----------------------------------------------------------------------------------------------------------


@requirement("set-release")
def a_drain_releases_every_live_claim_of_the_caller_and_of_nobody_else(world: World) -> None:
    nodes, others = [world.node(), world.node()], world.node()
    claim(world.agent, *nodes)
    claim(world.rival, others)

    body = release(world.agent)

    assert set(body) >= {"ok", "status", "released", "count"}
    assert (body["ok"], body["status"], sorted(body["released"]), body["count"]) == (True, "released", sorted(nodes), 2)
    assert [world.assigned(node) for node in (*nodes, others)] == [[], [], [world.ids["rival"]]]
    assert release(world.agent) == {"ok": True, "status": "released", "released": [], "count": 0}


@requirement("set-release-session")
def a_drain_may_be_of_one_session(world: World) -> None:
    own, elsewhere = world.node(), world.node()
    claim(world.agent, own, session="s-1")
    claim(world.agent, elsewhere, session="s-2")

    assert release(world.agent, session="s-1")["released"] == [own]
    assert world.assigned(elsewhere) == [world.ids["agent"]]


@requirement("set-release-never-fails")
def a_drain_passes_over_what_was_lost(world: World) -> None:
    node = world.node()
    claim(world.agent, node)
    world.passes(TTL)
    claim(world.rival, node)

    body = release(world.agent)

    assert (body["status"], body["released"]) == ("released", [])
    assert "failed" not in body
    assert world.assigned(node) == [world.ids["rival"]]
