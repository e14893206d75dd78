"""The traces that broke earlier drafts of the lease protocol, each replayed (D1 to D11)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.core.errors import NotFound
from batonpass.core.ids import Fence, Resource
from batonpass.core.leases import Kind, Request, Verb
from batonpass.server.services.asks import Ask
from batonpass.store.base import Fences
from batonpass.testing import points
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Answer, Crew, Gathered, crew, task, waits
from batonpass.testing.populated import contents

pytestmark = pytest.mark.anyio

TTL: Final = timedelta(minutes=45)
TTL_MS: Final = 45 * 60_000
GRACE_MS: Final = 48 * 3_600_000
ARTIFACT: Final = {"type": "artifact", "title": "what was done", "summary": "what was done"}
KEY: Final = {"Idempotency-Key": "the-same-key"}


def needed_by(verb: str) -> dict[str, Any]:
    """Return what a verb's body must have."""
    return {"ms": 1000} if verb == "extend" else {}


# --- H4: the replay of a grant ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "verb, body",
    [
        ("claim", {"dispatch": "u1"}),
        ("claim", {}),
        ("renew", {"if_epoch": 1}),
        ("renew", {}),
        ("extend", {"ms": 60_000, "if_epoch": 1}),
        ("reserve", {"if_epoch": 1}),
        ("release", {"if_epoch": 1}),
    ],
    ids=str,
)
async def test_h4_a_repeated_lease_verb_reports_the_row_as_it_is_now(
    team: Crew, clock: ManualClock, verb: str, body: dict[str, Any]
) -> None:
    """A grant whose answer was lost is asked for again with its key, after a lapse and a takeover."""
    assert (await team.verb("a1", "claim", dispatch="u1")).epoch == 1
    first = await team.verb("a1", verb, headers=KEY, **body)
    assert first.ok, first
    clock.advance(timedelta(hours=49))
    assert (await team.verb("b1", "claim")).epoch == 2

    again = await team.verb("a1", verb, headers=KEY, **body)
    fresh = await team.verb("a1", verb, **body)

    assert (again.status, again.body) == (fresh.status, fresh.body)
    assert again.status == 409
    assert "idempotency-replayed" not in again.headers


async def test_h4_a_repeated_renewal_promises_no_time_that_has_passed(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim")
    await team.verb("a1", "extend", ms=2 * TTL_MS, headers=KEY)
    clock.advance(timedelta(seconds=30))

    again = await team.verb("a1", "extend", ms=2 * TTL_MS, headers=KEY)

    assert again.body["expires_in_ms"] == 2 * TTL_MS
    assert again.lease["expires"] == clock.moment() // 1000 + 2 * TTL_MS


async def test_h4_a_repeated_refusal_is_no_refusal_once_the_item_is_free(team: Crew) -> None:
    await team.verb("b1", "claim")
    assert (await team.verb("a1", "claim", headers=KEY)).code == "already_claimed"
    await team.verb("b1", "release")

    assert (await team.verb("a1", "claim", headers=KEY)).ok


async def test_h4_no_secret_is_kept_for_a_repetition(team: Crew) -> None:
    epoch = (await team.verb("a1", "claim")).epoch
    asked = {"lease": {"node": "task-1", "epoch": epoch}}
    mints = [await team.send("a1", "POST", "/v1/agents/agent-a1/token", asked, headers=KEY) for _ in range(2)]
    personal = [await team.send("ann", "POST", "/v1/me/tokens", {}, headers=KEY) for _ in range(2)]

    kept = str(contents(team.url)["idempotency_keys"])

    assert all(mint.ok for mint in (*mints, *personal))
    assert "the-same-key" in kept
    assert "bat_" not in kept
    assert "bat_" not in str({name: rows for name, rows in contents(team.url).items() if name != "schema_migrations"})


async def test_h4_a_repeated_mint_ends_the_token_that_may_have_been_lost(team: Crew) -> None:
    epoch = (await team.verb("a1", "claim")).epoch
    asked = {"lease": {"node": "task-1", "epoch": epoch}}
    lost, found = [
        team.known((await team.send("a1", "POST", "/v1/agents/agent-a1/token", asked, headers=KEY)).body["token"])
        for _ in range(2)
    ]

    assert (await team.verb(found, "renew")).ok
    assert (await team.verb(lost, "renew")).status in {401, 409}


# --- H7: siblings of one agent ---------------------------------------------------------------------------------------


async def test_h7_one_of_six_runs_calls_every_enumerating_verb_and_the_others_keep_their_leases(
    team: Crew, clock: ManualClock
) -> None:
    nodes = [f"task-{n}" for n in range(1, 7)]
    await team.queue("a1", "claim", ids=nodes)
    runs = [await team.mint("a1", node, 1) for node in nodes]
    before = {node: await team.row(node) for node in nodes}
    clock.advance(timedelta(minutes=10))

    drains: list[dict[str, Any]] = [{}, {"session": "s"}, {"reservations": True}]
    for body in drains:
        assert (await team.queue(runs[0], "release", **body)).body["released"] == []
    assert (await team.queue(runs[0], "renew")).body["renewed"] == []
    refused = await team.queue(runs[0], "claim", ids=nodes[1:])
    assert {one["code"] for one in refused.body["failed"]} == {"already_claimed"}
    renewed = await team.queue(runs[0], "renew", ids=nodes[1:])
    assert {one["code"] for one in renewed.body["failed"]} == {"lease_lost"}
    for node in nodes:
        for verb in ("release", "reserve"):
            assert (await team.verb(runs[0], verb, node)).status == 403

    assert {node: await team.row(node) for node in nodes} == before


async def test_h7_a_run_drains_what_it_acquired_and_never_its_own_item(team: Crew) -> None:
    await team.verb("a1", "claim")
    run = await team.mint("a1", "task-1", 1)
    await team.verb("a1", "claim", "task-4")
    await team.queue(run, "claim", ids=["task-2", "task-3"])

    assert (await team.queue(run, "renew")).body["renewed"] == ["task-2", "task-3"]
    assert (await team.queue(run, "release")).body["released"] == ["task-2", "task-3"]
    assert (await team.row("task-1")).kind is (await team.row("task-4")).kind is Kind.CLAIM


async def test_h7_the_leases_of_a_dead_box_lapse_on_time_while_its_twin_lives(team: Crew, clock: ManualClock) -> None:
    """Both boxes hold the same agent's token; each names the tenures it renews."""
    await team.verb("a1", "claim", "task-1")
    await team.verb("a1", "claim", "task-2")
    for _ in range(4):
        clock.advance(timedelta(minutes=15))
        beat = await team.queue("a1", "renew", leases=[{"node_id": "task-2", "epoch": 1}], reclaim=False)
        assert beat.body["renewed"] == ["task-2"]

    assert (await team.verb("b1", "claim", "task-1")).epoch == 2
    assert (await team.verb("b1", "claim", "task-2")).code == "already_claimed"


# --- H8: writes after the end ----------------------------------------------------------------------------------------


async def test_h8_once_a_run_token_is_revoked_no_write_of_its_run_lands(team: Crew) -> None:
    """A stray grandchild is in the middle of a write while the runner revokes the token, and goes on afterwards."""
    await team.verb("a1", "claim")
    stray = await team.mint("a1", "task-1", 1)
    resolver = {**ARTIFACT, "id": "art-1", "edges": [{"type": "resolves", "to": "task-1"}]}
    async with points.held("fence.checked") as checked:
        in_flight = asyncio.create_task(team.verb(stray, "commits", repo="mail", sha="a" * 40))
        await checked.reached()
        revoked = asyncio.create_task(team.revoke("a1", stray, of="a1"))
        await waits(team, revoked)
        assert not in_flight.done()
        checked.open()
        landed, over = await asyncio.gather(in_flight, revoked)
    assert (landed.ok, over.ok) == (True, True)
    read = await team.send("a1", "GET", "/v1/nodes/task-1")
    judged = contents(team.url)

    assert (await team.write(stray, resolver)).status in {401, 409}
    assert (await team.write(stray, resolver, at=1)).status in {401, 409}
    assert contents(team.url) == judged
    assert (await team.send("a1", "GET", "/v1/nodes/task-1")).body == read.body


@pytest.mark.parametrize("stop", ["release", "reserve"])
async def test_h8_whoever_stops_a_run_by_ending_its_tenure_stops_its_writes_at_once(team: Crew, stop: str) -> None:
    await team.verb("a1", "claim")
    run = await team.mint("a1", "task-1", 1)

    assert (await team.verb("ann", stop)).ok

    assert (await team.verb(run, "commits", repo="mail", sha="a" * 40)).code == "lease_lost"


# --- H9: two tokens for one tenure -----------------------------------------------------------------------------------


async def test_h9_a_tenure_has_one_run_token(team: Crew) -> None:
    first, again = await team.verb("a1", "claim", dispatch="u1"), await team.verb("a1", "claim")
    assert (first.epoch, again.epoch) == (1, 1)
    run = await team.mint("a1", "task-1", 1)

    second = await team.try_mint("a1", "task-1", 1)

    assert second.code == "conflict"
    assert (await team.verb(run, "renew")).ok


async def test_h9_a_replacement_waits_for_the_write_in_flight_and_ends_the_first_token(team: Crew) -> None:
    await team.verb("a1", "claim")
    first = await team.mint("a1", "task-1", 1)
    async with points.held("fence.checked") as checked:
        write = asyncio.create_task(team.verb(first, "priority", priority="p1"))
        await checked.reached()
        minting = asyncio.create_task(team.try_mint("a1", "task-1", 1, replace=True))
        await waits(team, minting)
        checked.open()
        written, minted = await asyncio.gather(write, minting)

    assert (written.ok, minted.ok) == (True, True)
    assert (await team.verb(first, "priority", priority="p2")).status in {401, 409}
    assert (await team.verb(first, "priority", at=1, priority="p2")).status in {401, 409}
    assert (await team.verb(team.known(minted.body["token"]), "priority", priority="p3")).ok


# --- H10: reservations -----------------------------------------------------------------------------------------------


async def test_h10a_a_stray_of_the_run_that_reserved_writes_nothing_into_the_next_tenure(team: Crew) -> None:
    await team.verb("a1", "claim", dispatch="u1")
    stray = await team.mint("a1", "task-1", 1)
    await team.verb("a1", "reserve", if_epoch=1)
    assert (await team.verb("a1", "claim", dispatch="u2")).epoch == 2

    assert (await team.verb(stray, "priority", priority="p1")).code == "lease_lost"


async def test_h10b_a_fresh_launch_takes_its_own_reservation_up(team: Crew) -> None:
    await team.verb("a1", "claim", dispatch="u1", session="s1")
    reserved = await team.verb("a1", "reserve", if_epoch=1)
    assert reserved.lease["session"] is None
    assert "dispatch" not in reserved.lease

    taken = await team.verb("a1", "claim", dispatch="u2")

    assert (taken.epoch, taken.body["expires_in_ms"]) == (2, TTL_MS)


@pytest.mark.parametrize("body", [{"if_epoch": 1}, {"reclaim": False}, {"if_epoch": 1, "reclaim": False}], ids=str)
async def test_h10c_a_heartbeat_that_arrives_after_the_reservation_leaves_it_parked(
    team: Crew, body: dict[str, Any]
) -> None:
    await team.verb("a1", "claim")
    assert (await team.verb("a1", "reserve", if_epoch=1)).body["expires_in_ms"] == GRACE_MS
    parked = await team.row()

    late = await team.verb("a1", "renew", **body)
    bulk = await team.queue("a1", "renew", leases=[{"node_id": "task-1", "epoch": 1}])
    enumerated = await team.queue("a1", "renew")

    assert late.code == "lease_lost"
    assert bulk.body["failed"][0]["code"] == "lease_lost"
    assert (enumerated.body["renewed"], enumerated.body["skipped_reserved"]) == ([], 1)
    assert await team.row() == parked


# --- H17: sleep ------------------------------------------------------------------------------------------------------


async def test_h17_a_run_that_slept_past_its_lease_resumes_when_nobody_came(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim", dispatch="u1")
    run = await team.mint("a1", "task-1", 1)
    clock.advance(timedelta(hours=9))

    resumed = await team.verb("a1", "renew", if_epoch=1)

    assert (resumed.epoch, resumed.body["reclaimed"]) == (1, True)
    assert (await team.verb(run, "priority", priority="p1")).ok, "its child's token lives"


async def test_h17_a_run_that_slept_past_its_lease_is_lost_when_a_rival_came(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim", dispatch="u1")
    run = await team.mint("a1", "task-1", 1)
    clock.advance(timedelta(hours=9))
    assert (await team.verb("b1", "claim")).epoch == 2

    lost = await team.verb("a1", "renew", if_epoch=1)

    assert (lost.code, lost.holder) == ("lease_lost", "agent-b1")
    assert (await team.verb(run, "priority", priority="p1")).code == "lease_lost"


async def test_h17_a_rival_that_came_and_went_also_ends_the_run(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim")
    clock.advance(TTL)
    await team.verb("b1", "claim")
    await team.verb("b1", "release")

    assert (await team.verb("a1", "renew", if_epoch=1)).code == "lease_lost"
    anew = await team.verb("a1", "renew")
    assert (anew.epoch, anew.body["reclaimed"]) == (3, True)


# --- H21: a claim and a person's routing -----------------------------------------------------------------------------


async def edges_of(team: Crew, node: str = "task-1") -> Any:  # noqa: ANN401 — JSON
    return (await team.send("ada", "GET", f"/v1/nodes/{node}/edges")).body["edges"]


async def stored_edges(team: Crew) -> list[tuple[object, ...]]:
    return contents(team.url)["edges"]


async def test_h21_claim_and_release_leave_a_persons_routing_as_it_was(team: Crew) -> None:
    await team.verb("ada", "edges", type="assigned", to="agent-a1")
    before, stored = await edges_of(team), await stored_edges(team)

    await team.verb("a1", "claim")
    during = await edges_of(team)
    await team.verb("a1", "release")

    assert len(during) == len(before) + 1, "the claim is shown beside the routing"
    assert await edges_of(team) == before
    assert await stored_edges(team) == stored


async def test_h21_crash_takeover_and_release_leave_a_persons_routing_as_it_was(team: Crew, clock: ManualClock) -> None:
    await team.verb("ada", "edges", type="assigned", to="agent-a1")
    before, stored = await edges_of(team), await stored_edges(team)
    node = (await team.send("ada", "GET", "/v1/nodes/task-1")).body

    await team.verb("a1", "claim")
    clock.advance(TTL)
    await team.verb("b1", "claim")
    shown = [edge for edge in await edges_of(team) if edge["attrs"].get("via") == "claim"]
    await team.verb("b1", "release")

    assert [(edge["to"], edge["attrs"]["epoch"]) for edge in shown] == [("agent-b1", 2)], "one holder, the present one"
    assert await edges_of(team) == before
    assert await stored_edges(team) == stored
    assert (await team.send("ada", "GET", "/v1/nodes/task-1")).body == node


# --- H22: kinship ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["claim", "renew", "extend", "reserve", "release"])
async def test_h22_being_an_agent_of_the_same_person_gives_no_right(team: Crew, verb: str) -> None:
    await team.verb("ann", "claim")
    before = await team.row()

    refused = await team.verb("a1", verb, session="mine", **needed_by(verb))

    assert refused.status == 409
    assert refused.holder == "person-ann"
    assert await team.row() == before


async def test_h22_a_sibling_agent_mints_no_token_for_anothers_tenure(team: Crew) -> None:
    await team.verb("a1", "claim")

    for of in ("a1", "a2"):
        assert (await team.try_mint("a2", "task-1", 1, of=of)).status in {403, 409}


async def test_h22_handing_over_is_the_persons_act_of_minting(team: Crew) -> None:
    await team.verb("ann", "claim")
    run = await team.mint("ann", "task-1", 1, of="a1")

    renewed = await team.verb(run, "renew")

    assert (renewed.epoch, renewed.lease["by"]) == (1, "person-ann")


# --- H23: late duplicates --------------------------------------------------------------------------------------------


async def test_h23_a_claim_delivered_again_after_the_release_acquires_nothing(team: Crew) -> None:
    await team.verb("a1", "claim", dispatch="u1")
    await team.verb("a1", "release", if_epoch=1)
    before = contents(team.url)

    late = await team.verb("a1", "claim", dispatch="u1")

    assert late.code == "conflict"
    assert contents(team.url) == before


async def test_h23_a_claim_delivered_again_after_a_lapse_resumes_and_the_release_ends_it(
    team: Crew, clock: ManualClock
) -> None:
    """The order that beat the first rule: the lapse, then the duplicate, then the release."""
    await team.verb("a1", "claim", dispatch="u1")
    clock.advance(TTL)
    duplicate = await team.verb("a1", "claim", dispatch="u1")
    assert (duplicate.epoch, duplicate.body["reclaimed"]) == (1, True)

    assert (await team.verb("a1", "release", if_epoch=1)).body["edge"] == "removed"
    assert (await team.verb("a1", "claim", dispatch="u1")).code == "conflict"
    assert (await team.row()).kind is Kind.NONE


async def test_h23_a_claim_delivered_again_after_a_takeover_acquires_nothing(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim", dispatch="u1")
    clock.advance(TTL)
    await team.verb("b1", "claim", dispatch="u2")

    assert (await team.verb("a1", "claim", dispatch="u1")).code == "already_claimed"
    await team.verb("b1", "release")
    assert (await team.verb("a1", "claim", dispatch="u1")).code == "conflict"


@pytest.mark.parametrize("verb", ["reserve", "renew", "extend"])
async def test_h23_a_verb_of_a_tenure_that_arrives_after_its_release_acquires_nothing(team: Crew, verb: str) -> None:
    await team.verb("a1", "claim")
    await team.verb("a1", "release", if_epoch=1)
    before = contents(team.url)

    late = await team.verb("a1", verb, if_epoch=1, **needed_by(verb))

    assert late.code == "lease_lost"
    assert contents(team.url) == before


async def test_h23_a_release_delivered_twice_ends_no_later_tenure(team: Crew) -> None:
    await team.verb("a1", "claim", dispatch="u1")
    await team.verb("a1", "release", if_epoch=1)
    await team.verb("a1", "claim", dispatch="u2")

    assert (await team.verb("a1", "release", if_epoch=1)).code == "lease_lost"
    assert (await team.row()).epoch == 2
    assert (await team.row()).kind is Kind.CLAIM


async def test_h23_a_nonce_that_took_a_lease_takes_nothing_again(team: Crew) -> None:
    await team.verb("a1", "claim")
    taken = [await team.verb("ann", "claim", take=True, dispatch="u1") for _ in range(2)]
    await team.verb("ann", "release")
    late = await team.verb("ann", "claim", take=True, dispatch="u1")

    assert [answer.epoch for answer in taken] == [2, 2]
    assert late.code == "conflict"


# --- H26: the clock --------------------------------------------------------------------------------------------------


async def test_h26_a_lease_granted_while_the_clock_was_ahead_ends_with_its_own_span(
    team: Crew, clock: ManualClock
) -> None:
    clock.advance(timedelta(hours=10))
    await team.verb("a1", "claim")
    clock.advance(timedelta(hours=-10))

    refused = await team.verb("b1", "claim")
    listed = (await team.send("b1", "GET", "/v1/leases")).body["leases"]
    clock.advance(TTL)

    assert refused.body["holder"]["expires"] == clock.moment() // 1000
    assert [one["expires_in_ms"] for one in listed] == [TTL_MS]
    assert (await team.verb("b1", "claim")).epoch == 2


async def test_h26_a_view_shows_the_moved_lease_before_any_verb_has_moved_it(team: Crew, clock: ManualClock) -> None:
    clock.advance(timedelta(hours=10))
    await team.verb("a1", "claim")
    clock.advance(timedelta(hours=-10))

    (listed,) = (await team.send("b1", "GET", "/v1/leases", None)).body["leases"]
    read = (await team.send("b1", "GET", "/v1/nodes/task-1")).body

    assert listed["lease"]["expires"] == clock.moment() // 1000 + TTL_MS
    assert read["lease"]["expires"] == clock.moment() // 1000 + TTL_MS


async def test_h26_the_holder_goes_on_when_the_clock_was_set_back(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim")
    run = await team.mint("a1", "task-1", 1)
    clock.advance(timedelta(hours=-3))

    beat = await team.verb("a1", "renew", if_epoch=1)

    assert (beat.epoch, beat.body["expires_in_ms"]) == (1, TTL_MS)
    assert (await team.verb(run, "priority", priority="p1")).ok


# --- H29: a runner that wakes up too late ----------------------------------------------------------------------------


async def test_h29_a_runner_that_wakes_after_a_takeover_changes_nothing_of_the_item(
    team: Crew, clock: ManualClock
) -> None:
    """It holds the agent's unbound token, so that only the tenure it names can stop it."""
    await team.verb("ada", "readiness", readiness="agent")
    await team.verb("a1", "status", status="active")
    clock.advance(TTL)
    await team.verb("b1", "claim")
    before = contents(team.url)

    late = [
        await team.verb("a1", "readiness", readiness="", if_epoch=1),
        await team.verb("a1", "status", status="open", if_epoch=1),
        await team.verb("a1", "priority", priority="p3", if_epoch=1),
        await team.verb("a1", "commits", repo="mail", sha="a" * 40, if_epoch=1),
        await team.verb("a1", "edges", type="relates-to", to="task-2", if_epoch=1),
        await team.write("a1", {"node": task("task-1", body="late"), "if_exists": "update", "if_epoch": 1}),
        await team.verb("a1", "release", if_epoch=1),
    ]

    assert [answer.code for answer in late] == ["lease_lost"] * len(late)
    assert contents(team.url) == before


# --- H30: the working set --------------------------------------------------------------------------------------------


async def test_h30_a_run_that_lost_a_second_item_writes_nothing_onto_it(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim", "task-1")
    run = await team.mint("a1", "task-1", 1)
    assert (await team.verb(run, "claim", "task-2")).epoch == 1
    clock.advance(TTL)
    assert (await team.verb("a1", "renew", "task-1", if_epoch=1)).ok
    assert (await team.verb("b1", "claim", "task-2")).epoch == 2
    before = contents(team.url)

    resolves = {**ARTIFACT, "id": "art-2", "edges": [{"type": "resolves", "to": "task-2"}]}
    late = [
        await team.verb(run, "status", "task-2", status="open"),
        await team.verb(run, "edges", "task-2", type="relates-to", to="task-3"),
        await team.write(run, task("task-2", body="late"), if_exists="update"),
        await team.write(run, resolves),
    ]

    assert [answer.code for answer in late] == ["lease_lost"] * len(late)
    assert contents(team.url) == before
    assert (await team.verb(run, "priority", "task-1", priority="p1")).ok, "its own item is still its own"
    assert (await team.verb(run, "priority", "task-3", priority="p1")).ok, "what it never held is not fenced"


async def test_h30_a_run_may_take_a_lost_item_back_and_write_again(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim", "task-1")
    run = await team.mint("a1", "task-1", 1)
    await team.verb(run, "claim", "task-2")
    clock.advance(TTL)
    await team.verb("b1", "claim", "task-2")
    await team.verb("b1", "release", "task-2")

    assert (await team.verb(run, "priority", "task-2", priority="p1")).code == "lease_lost"
    assert (await team.verb(run, "claim", "task-2")).epoch == 3
    assert (await team.verb(run, "priority", "task-2", priority="p1")).ok


# --- H32: small ones -------------------------------------------------------------------------------------------------


async def test_h32_two_first_claims_of_a_new_item_have_one_winner(team: Crew) -> None:
    for number in range(10):
        await team.write("ada", task(f"task-new-{number}"))
        answers: list[Answer] = await asyncio.gather(
            *(team.verb(who, "claim", f"task-new-{number}", at=at) for at, who in enumerate(("a1", "b1")))
        )

        winner, loser = sorted(answers, key=lambda answer: answer.status)
        assert winner.epoch == 1
        assert loser.code == "already_claimed"
        assert loser.holder == winner.lease["by"]


async def test_h32_no_token_is_minted_for_a_tenure_that_has_not_begun(team: Crew, clock: ManualClock) -> None:
    await team.verb("a1", "claim")
    early = await team.try_mint("a1", "task-1", 2)
    free = await team.try_mint("a1", "task-2", 1)
    clock.advance(TTL)
    lapsed = await team.try_mint("a1", "task-1", 1)

    assert [answer.code for answer in (early, free, lapsed)] == ["lease_lost"] * 3


async def test_h32_a_fence_on_what_does_not_exist_holds_nothing_up(team: Crew) -> None:
    before = contents(team.url)

    refused = await team.verb("a1", "priority", priority="p1", headers={"If-Lease": "task-none; epoch=1"})

    assert refused.code == "lease_lost"
    assert contents(team.url) == before


async def test_h32_a_node_that_begins_while_its_claim_waits_for_a_lock_is_no_broken_promise(
    gathered_postgres: Gathered, clock: ManualClock
) -> None:
    """The claim has locked what there was; the node comes; then the claim reads it. On SQLite nothing comes between."""
    async with crew(gathered_postgres, clock=clock, servers=2) as team:
        await team.verb("a1", "claim", "task-1")
        taker = await team.server.services.identity.authenticate(team.tokens["a1"])
        new, fence = Resource("task-new"), Fence(Resource("task-1"), 1)
        ask = Ask(Request(taker, Verb.CLAIM, new), Fences(named=(fence,), changing=frozenset({new})))
        async with points.held("fence.checked") as checked:
            headers = {"If-Lease": "task-1; epoch=1"}
            write = asyncio.create_task(team.verb("a1", "priority", "task-1", priority="p1", headers=headers))
            await checked.reached()
            # As an item is asked for whose set met an error of the database.
            claim = asyncio.ensure_future(team.servers[1].services.engine._run_alone(ask))  # noqa: SLF001
            await waits(team, claim, at=1)
            assert (await team.write("ada", task("task-new"))).ok
            checked.open()
            await write

        assert isinstance(await claim, NotFound)


# --- H33: the child's reach ------------------------------------------------------------------------------------------


async def test_h33_a_run_token_opens_no_door_but_its_own(team: Crew) -> None:
    await team.verb("ann", "claim")
    run = await team.mint("ann", "task-1", 1, of="a1")
    before = contents(team.url)
    doors = [
        ("POST", "/v1/agents/agent-a1/token", {}),
        ("POST", "/v1/agents/agent-a1/token", {"lease": {"node": "task-1", "epoch": 1}, "replace": True}),
        ("GET", "/v1/agents/agent-a1/tokens", None),
        ("POST", "/v1/me/tokens", {}),
        ("GET", "/v1/me/tokens", None),
        ("POST", "/v1/agents", {"label": "mine"}),
        ("POST", "/v1/admin/people", {"name": "Mallory", "email": "m@example.org"}),
        ("POST", "/v1/admin/tokens", {"person": "person-ann"}),
        ("POST", "/v1/admin/agents", {"label": "mine", "owner": "person-ann"}),
        ("PUT", "/v1/policy/*", {"claim_ttl_ms": 1}),
    ]

    statuses = {f"{method} {path}": (await team.send(run, method, path, body)).status for method, path, body in doors}

    assert statuses == dict.fromkeys(statuses, 403)
    assert contents(team.url) == before
