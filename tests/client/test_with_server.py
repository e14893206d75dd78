"""The client against the real server, in this process, on both databases; no clock moves but by the test."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import timedelta

import pytest

from batonpass.client import (
    capability_calls,
    class_calls,
    digest_calls,
    feed_calls,
    graph_calls,
    identity_calls,
    key_calls,
    lease_calls,
    node_calls,
    question_calls,
    queue_calls,
    record_calls,
    run_calls,
    server_calls,
    token_calls,
)
from batonpass.client.calls import Call
from batonpass.client.client import Client
from batonpass.client.heartbeat import Heartbeat, Lost
from batonpass.client.lease import held
from batonpass.core.errors import AlreadyClaimed, Conflict, LeaseLost, Unauthorized, Unavailable
from batonpass.core.identity import agent_id_for, parse_person_id, person_id_for
from batonpass.core.ids import Fence, NodeId, Resource, RunId
from batonpass.server.http.routes import OPERATIONS, ROUTES
from batonpass.testing.world import World
from batonpass.wire.policy import PolicyRequest

TASK = NodeId("task-1")
OTHER = NodeId("task-2")
RUN = RunId("0b101010-run")
RECORD = "incidents/inc-1"
HOUR = timedelta(hours=1)
TASKS: tuple[Mapping[str, object], ...] = tuple(
    {
        "id": node,
        "type": "task",
        "title": f"Do {node}",
        "summary": f"Do {node}",
        "project": "demo",
        "readiness": "agent",
    }
    for node in (TASK, OTHER)
)


@pytest.fixture
def world(bare_world: World) -> World:
    """Return a server with two tasks."""
    assert all(result.ok for result in bare_world.client().put_nodes(TASKS).results)
    return bare_world


# --- one table of routes ---------------------------------------------------------------------------------------------

EVERY_CALL: tuple[Call[object], ...] = (
    lease_calls.claim(TASK),
    lease_calls.renew(TASK),
    lease_calls.extend(TASK, ms=1),
    lease_calls.reserve(TASK),
    lease_calls.release(TASK),
    lease_calls.claim_many([TASK]),
    lease_calls.renew_held(),
    lease_calls.release_held(),
    lease_calls.leases(),
    queue_calls.queue_page(),
    queue_calls.next_item(),
    node_calls.why(TASK),
    server_calls.search_nodes("x"),
    digest_calls.compile_digest(root=TASK),
    digest_calls.briefing("demo"),
    question_calls.ask_question("x"),
    question_calls.answer_question(TASK, "x"),
    question_calls.correct(TASK, "x"),
    question_calls.list_corrections(),
    question_calls.capture("x"),
    question_calls.inbox(),
    node_calls.node(TASK),
    node_calls.list_nodes(),
    node_calls.put_nodes([]),
    node_calls.export(),
    node_calls.edges(TASK),
    node_calls.add_edge(TASK, "blocks", OTHER),
    node_calls.remove_edge(TASK, "blocks", OTHER),
    node_calls.set_status(TASK, None),
    node_calls.set_priority(TASK, None),
    node_calls.set_readiness(TASK, None),
    node_calls.add_commit(TASK, repo="demo", sha="a" * 40),
    graph_calls.read_nodes([TASK]),
    graph_calls.add_live_edge(TASK, "mentions", OTHER),
    graph_calls.history_of(TASK),
    graph_calls.revision(TASK, "0" * 40),
    graph_calls.redact(TASK, revision="0" * 40, reason="x"),
    graph_calls.delete(TASK, reason="x"),
    graph_calls.nodes_with_commit("0" * 40),
    graph_calls.get_schema(),
    identity_calls.me(),
    identity_calls.add_person(name="x", email="x@example.org"),
    identity_calls.people(),
    identity_calls.add_agent(label="x"),
    identity_calls.add_agent(label="x", owner=person_id_for("x")),
    identity_calls.agents(),
    identity_calls.bind_session("s"),
    token_calls.mint_session_token(agent_id_for("x")),
    token_calls.agent_tokens(agent_id_for("x")),
    token_calls.revoke_agent_token(agent_id_for("x"), "00000000"),
    token_calls.mint_token(),
    token_calls.mint_token(person=person_id_for("x")),
    token_calls.my_tokens(),
    token_calls.tokens_of(person_id_for("x")),
    token_calls.revoke_token("00000000"),
    token_calls.revoke_token("00000000", as_admin=True),
    server_calls.server_status(),
    server_calls.get_policy("*"),
    server_calls.put_policy("*", PolicyRequest()),
    feed_calls.get_events(),
    feed_calls.get_changes(),
    run_calls.put_run(RUN, {}),
    run_calls.put_run_log(RUN, offset=0, text="x"),
    run_calls.list_runs(),
    run_calls.get_run(RUN),
    run_calls.get_run_log(RUN),
    capability_calls.publish_capabilities(agent_id_for("x"), {}),
    capability_calls.get_capabilities(agent_id_for("x")),
    capability_calls.beat(agent_id_for("x")),
    capability_calls.profile_hosts(NodeId("profile-x")),
    class_calls.put_class("incidents", {}),
    class_calls.get_class("incidents"),
    class_calls.list_classes(),
    key_calls.mint_key("ci"),
    key_calls.list_keys(),
    key_calls.revoke_key("00000000"),
    record_calls.get(RECORD),
    record_calls.page("incidents"),
    record_calls.history(RECORD),
    record_calls.blame(RECORD),
    record_calls.field(RECORD, "status"),
    record_calls.put(RECORD, "status", None),
    record_calls.append(RECORD, "notes", None),
    record_calls.write(RECORD, []),
    record_calls.delete(RECORD),
    record_calls.claim(RECORD, "remediation"),
    record_calls.renew(RECORD, "remediation"),
    record_calls.release(RECORD, "remediation"),
)


def test_every_route_of_the_server_has_its_call_and_every_call_its_route() -> None:
    served = {(operation.method, operation.path) for operation in OPERATIONS}

    def route_of(call: Call[object]) -> tuple[str, str]:
        scope = {"type": "http", "method": call.method, "path": call.path, "headers": []}
        return next((call.method, route.path) for route in ROUTES if route.matches(scope)[0].name == "FULL")

    assert {route_of(call) for call in EVERY_CALL} == served


# --- the calls, in a story -------------------------------------------------------------------------------------------


def test_a_graph_is_written_and_read_back(world: World) -> None:
    client = world.client()

    assert client.add_edge(TASK, "blocks", OTHER).status == "updated"
    assert client.add_edge(TASK, "blocks", OTHER).status == "skipped"
    assert [(edge.direction, edge.type, edge.to) for edge in client.edges(TASK, types=["blocks"]).edges] == [
        ("out", "blocks", OTHER)
    ]
    assert client.queue(project="demo").blocked == 1
    assert [item.id for item in client.queue(project="demo", include_blocked=True).items] == [TASK, OTHER]
    assert client.remove_edge(TASK, "blocks", OTHER).status == "updated"
    client.set_priority(TASK, "p1")
    client.set_readiness(OTHER, None)
    client.add_commit(TASK, repo="demo", sha="a" * 40)
    front = client.node(TASK).frontmatter
    assert (front["priority"], front["commits"]) == ("p1", ["demo@" + "a" * 40])
    assert client.set_status(TASK, "active").lease is not None
    assert [row.id for row in client.list_nodes(types=["task"], status="active", project="demo").nodes] == [TASK]


def test_people_agents_and_tokens_are_made_listed_and_ended(world: World) -> None:
    admin = world.client()
    person = parse_person_id(admin.add_person(name="Bob Builder", email="bob@example.org").id)
    assert [each.id for each in admin.people().people] == ["person-ada-admin", "person-bob-builder"]
    bob = world.client(admin.mint_token(person=person, label="first").token)
    assert bob.me().person == person

    agent = agent_id_for(bob.add_agent(label="mill").id)
    assert [each.id for each in bob.agents().agents] == [agent]
    session = bob.mint_session_token(agent)
    assert world.client(session.token).bind_session("s1").session == "s1"
    assert [each.session for each in bob.agent_tokens(agent).tokens] == ["s1"]
    bob.revoke_agent_token(agent, session.hash_prefix)
    with pytest.raises(Unauthorized):
        world.client(session.token).me()

    mine = bob.mint_token(label="second", read_only=True, expires="30d")
    assert sorted(each.label or "" for each in bob.my_tokens().tokens) == ["first", "second"]
    assert len(admin.tokens_of(person).tokens) == 2
    bob.revoke_token(mine.hash_prefix)
    admin.revoke_token(bob.my_tokens().tokens[0].hash_prefix, as_admin=True)
    assert admin.status().ok


def test_a_policy_is_changed_in_part(world: World) -> None:
    admin = world.client()

    admin.put_policy("demo", PolicyRequest(claim_ttl_ms=60_000))

    assert admin.get_policy("demo").claim_ttl_ms == 60_000
    assert admin.get_policy("*").claim_ttl_ms == 2_700_000
    assert admin.put_policy("demo", PolicyRequest(claim_ttl_ms=None)).claim_ttl_ms == 2_700_000


def test_a_run_token_stands_on_one_tenure(world: World) -> None:
    mill = world.agent("mill")
    epoch = mill.claim(TASK, dispatch="n1").lease.epoch
    run = world.client(mill.mint_run_token(agent_id_for("mill"), Fence(Resource(TASK), epoch)).token)
    run.set_priority(TASK, "p2")

    mill.release(TASK, if_epoch=epoch)

    with pytest.raises(LeaseLost):
        run.set_priority(TASK, "p1")


# --- answers that are lost -------------------------------------------------------------------------------------------


def test_a_claim_whose_answer_is_lost_is_one_claim(world: World) -> None:
    mill = world.agent("mill")
    world.lose_the_next_answer()

    reply = mill.claim(TASK, dispatch="n1")

    assert (reply.lease.epoch, reply.lease.dispatch) == (1, "n1")


def test_an_item_taken_by_an_answer_that_is_lost_is_the_same_item(world: World) -> None:
    mill = world.agent("mill")
    world.lose_the_next_answer()

    reply = mill.next(dispatch="n1")

    assert reply.item is not None
    assert [row.lease.node_id for row in mill.leases().leases] == [reply.item.id]


def test_a_node_whose_answer_is_lost_is_written_once(world: World) -> None:
    client = world.client()
    world.lose_the_next_answer()
    note = {"id": "find-1", "type": "finding", "title": "x", "summary": "x"}

    answer = client.answer(node_calls.put_nodes([note]))

    assert answer.replayed
    assert [result.status for result in answer.value.results] == ["created"]


def test_a_token_whose_answer_is_lost_is_ended_and_made_anew(world: World) -> None:
    client = world.client()
    world.lose_the_next_answer()

    made = client.mint_token(label="ours")

    assert [each.hash_prefix for each in client.my_tokens().tokens if each.label == "ours"] == [made.hash_prefix]
    assert world.client(made.token).me().person == "person-ada-admin"


def test_a_release_whose_answer_is_lost_is_not_repeated_onto_the_next_tenure(world: World) -> None:
    """H23, law 4: the repeated release names its tenure, so it cannot end the one that followed."""
    mill, kiln = world.agent("mill"), world.agent("kiln")
    epoch = mill.claim(TASK).lease.epoch
    mill.release(TASK, if_epoch=epoch)
    kiln.claim(TASK)

    with pytest.raises(Conflict):
        mill.release(TASK, if_epoch=epoch)

    assert [row.lease.by for row in kiln.leases(holder="me").leases] == ["agent-kiln"]


# --- keeping a lease alive -------------------------------------------------------------------------------------------


def keeping(world: World, client: Client, losses: list[Lost]) -> tuple[Heartbeat, Fence]:
    """Claim task-1 and return a heartbeat that keeps it, ticked by hand."""
    heartbeat = Heartbeat(client, on_lost=losses.append, clock=world.seconds)
    sent_at_s = world.seconds()
    reply = client.claim(TASK, dispatch="n1")
    fence = Fence(Resource(TASK), reply.lease.epoch)
    heartbeat.keep(fence, expires_in_ms=reply.expires_in_ms, sent_at_s=sent_at_s)
    return heartbeat, fence


def test_a_kept_lease_outlives_its_first_horizon_many_times(world: World) -> None:
    losses: list[Lost] = []
    heartbeat, _ = keeping(world, world.agent("mill"), losses)
    for _ in range(10):
        pause_s = heartbeat.tick()
        assert pause_s is not None
        world.pass_time(timedelta(seconds=pause_s))

    assert losses == []
    with pytest.raises(AlreadyClaimed):
        world.agent("kiln").claim(TASK)


def test_a_machine_that_slept_past_the_end_goes_on_with_its_tenure_if_nobody_came(world: World) -> None:
    """H17: same epoch, so the run's token is still good."""
    losses: list[Lost] = []
    mill = world.agent("mill")
    heartbeat, fence = keeping(world, mill, losses)
    world.pass_time(8 * HOUR)

    heartbeat.check(fence.resource)

    assert losses == []
    lease = mill.node(TASK).lease
    assert lease is not None
    assert lease.epoch == fence.epoch


def test_a_machine_that_slept_past_the_end_learns_who_came(world: World) -> None:
    losses: list[Lost] = []
    heartbeat, fence = keeping(world, world.agent("mill"), losses)
    world.pass_time(HOUR)
    world.agent("kiln").claim(TASK)

    with pytest.raises(LeaseLost) as raised:
        heartbeat.check(fence.resource)

    assert raised.value.holder is not None
    assert (raised.value.holder.by, raised.value.holder.epoch) == ("agent-kiln", fence.epoch + 1)
    assert [lost.fence for lost in losses] == [fence]


def test_a_lease_that_its_person_reserves_or_takes_away_is_lost_at_the_next_beat(world: World) -> None:
    losses: list[Lost] = []
    heartbeat, fence = keeping(world, world.agent("mill"), losses)
    world.client().reserve(TASK, if_epoch=fence.epoch)
    world.pass_time(timedelta(minutes=23))

    heartbeat.tick()

    assert [lost.fence for lost in losses] == [fence]
    lease = world.client().node(TASK).lease
    assert lease is not None
    assert lease.reserved, "the beat must leave the reservation parked (H10)"


def test_a_policy_that_shortens_leases_quickens_the_beats(world: World) -> None:
    """Case 24: the horizon is the server's word, never a constant of ours."""
    losses: list[Lost] = []
    heartbeat, _ = keeping(world, world.agent("mill"), losses)
    world.client().put_policy("demo", PolicyRequest(claim_ttl_ms=60_000))
    world.pass_time(timedelta(minutes=44))

    assert heartbeat.tick() == pytest.approx(30)
    assert losses == []


# --- a lease as a block ----------------------------------------------------------------------------------------------


def test_two_blocks_for_one_node_never_run_at_once_not_even_of_one_agent(world: World) -> None:
    """Case 10: the second launch of the same identity must not start."""
    mill = world.agent("mill")

    with mill.lease(TASK), pytest.raises(AlreadyClaimed), mill.lease(TASK):
        pytest.fail("two launches of one node run at once")

    with mill.lease(TASK) as again:
        assert again.epoch == 2


def test_two_threads_that_reach_for_one_node_at_once_have_one_winner(world: World) -> None:
    clients = [world.agent(f"racer-{n}") for n in range(2)]
    both_there = threading.Barrier(2)
    done: list[str] = []

    def race(client: Client) -> None:
        both_there.wait(10)
        try:
            with client.lease(TASK):
                both_there.wait(10)
                done.append("won")
        except AlreadyClaimed:
            both_there.wait(10)
            done.append("lost")

    threads = [threading.Thread(target=race, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(done) == ["lost", "won"]
    assert world.client().node(TASK).lease is None


def test_what_a_block_writes_after_it_lost_its_lease_is_refused(world: World) -> None:
    mill, kiln = world.agent("mill"), world.agent("kiln")

    def outlived() -> None:
        with held(mill, TASK, clock=world.seconds) as task:
            task.client.set_priority(TASK, "p2")
            # The holder's clock stands still until the node is taken over: a beat in between would resume the tenure.
            world.database_clock.advance(HOUR)
            kiln.claim(TASK)
            world.seconds.advance(HOUR.total_seconds())
            with pytest.raises(LeaseLost):
                task.client.set_priority(TASK, "p1")

    with pytest.raises(LeaseLost):
        outlived()

    assert kiln.node(TASK).frontmatter["priority"] == "p2"


def test_a_paused_project_is_left_alone_until_it_is_resumed(world: World) -> None:
    admin, mill = world.client(), world.agent("mill")
    admin.put_policy("demo", PolicyRequest(paused="deploy"))

    with pytest.raises(Conflict, match="deploy"), mill.lease(TASK):
        pytest.fail("claimed in a paused project")

    admin.put_policy("demo", PolicyRequest(paused=None))
    with mill.lease(TASK) as task:
        assert task.acquired


def test_a_server_that_is_gone_is_unavailable(world: World) -> None:
    world.transport.losing = 1000

    with pytest.raises(Unavailable):
        world.client().status()
