from __future__ import annotations

import httpx
import pytest

from batonpass import __version__
from batonpass.client import lease_calls, token_calls
from batonpass.client.calls import Call, Repeat, query_of
from batonpass.client.client import RETRY_AFTER_S_MAX, Client, Patience
from batonpass.core.errors import (
    AlreadyClaimed,
    BatonError,
    Forbidden,
    Internal,
    LeaseLost,
    NotFound,
    Unauthorized,
    Unavailable,
    Unknown,
)
from batonpass.core.identity import agent_id_for
from batonpass.core.ids import Fence, NodeId, Resource, parse_fence
from batonpass.testing.scripted import ScriptedServer, answer, granted, lease, refusal, renewed
from batonpass.wire.leases import LeaseReply, LeasesReply, ReleaseReply

NODE = NodeId("task-1")
LISTED = LeasesReply([], 0, None)


def test_a_call_goes_out_with_token_version_and_only_what_was_said(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease()))

    client.claim(NODE, session="s1")

    (request,) = server.requests
    assert (request.method, request.url.path) == ("POST", "/v1/nodes/task-1/claim")
    assert request.headers["Authorization"] == "Bearer bat_pat_secret"
    assert request.headers["User-Agent"] == f"batonpass/{__version__}"
    assert server.bodies() == [{"session": "s1"}]


def test_an_answer_is_the_wire_struct(client: Client, server: ScriptedServer) -> None:
    server.will(granted(lease(epoch=4)))

    expected = LeaseReply(ok=True, status="claimed", lease=lease(epoch=4), expires_in_ms=2_700_000, edge="added")
    assert client.claim(NODE) == expected


@pytest.mark.parametrize(
    "status, kind",
    [(401, Unauthorized), (403, Forbidden), (404, NotFound), (409, LeaseLost), (500, Internal)],
)
def test_a_refusal_is_raised_as_the_class_the_server_raised_and_not_repeated(
    client: Client, server: ScriptedServer, status: int, kind: type[BatonError]
) -> None:
    server.will(refusal(status, kind.code, "because"))

    with pytest.raises(kind, match="because"):
        client.leases()

    assert len(server.requests) == 1


def test_a_held_lease_is_refused_with_its_holder(client: Client, server: ScriptedServer) -> None:
    server.will(refusal(409, "already_claimed", "held", holder=lease(by="agent-b", epoch=3)))

    with pytest.raises(AlreadyClaimed) as refused:
        client.claim(NODE)

    assert refused.value.holder is not None
    assert (refused.value.holder.by, refused.value.holder.epoch) == ("agent-b", 3)


def test_a_server_that_is_not_there_is_tried_a_bounded_number_of_times(
    client: Client, server: ScriptedServer, slept: list[float]
) -> None:
    server.will(*[httpx.ConnectError("refused")] * 5)

    with pytest.raises(Unavailable, match=r"cannot reach the server at http://baton\.test: refused"):
        client.leases()

    assert slept == [0.25, 0.5, 1.0, 2.0]


def test_pauses_never_grow_past_their_ceiling_and_are_jittered() -> None:
    patience = Patience(tries_max=9, jitter=lambda: 0.5)

    assert list(patience.pauses()) == [0.125, 0.25, 0.5, 1.0, 2.0, 2.5, 2.5, 2.5]


UNPINNED = lease_calls.claim(NODE)
"""A claim without a nonce: nothing tells a second sending from a second launch."""


@pytest.mark.parametrize(
    "first",
    [
        httpx.ConnectError("refused"),
        httpx.ConnectTimeout("slow"),
        refusal(503, "unavailable", "busy"),
        refusal(429, "rate_limited", "slow down"),
        httpx.Response(429, text="slow down"),
    ],
    ids=["refused", "no connection", "503 of ours", "429", "429 of a proxy"],
)
def test_what_certainly_changed_nothing_is_repeated_whatever_it_is(
    client: Client, server: ScriptedServer, first: httpx.Response | httpx.HTTPError
) -> None:
    server.will(first, granted(lease()))

    assert client.send(UNPINNED).lease.node_id == NODE


LOST_ANSWERS = [
    httpx.ReadTimeout("too long"),
    httpx.ReadError("reset"),
    httpx.RemoteProtocolError("hung up"),
    refusal(503, "outcome_unknown", "commit lost"),
    httpx.Response(503, text="<html>no upstream</html>"),
    httpx.Response(502, text="bad gateway"),
    httpx.Response(504, text="gateway timeout"),
    httpx.Response(200, text="<html>sign in to the hotel</html>"),
]
LOST_IDS = ["timeout", "reset", "hung up", "unknown", "503 of a proxy", "502", "504", "portal"]


@pytest.mark.parametrize("lost", LOST_ANSWERS, ids=LOST_IDS)
def test_after_a_lost_answer_an_unpinned_claim_is_unknown_and_not_repeated(
    client: Client, server: ScriptedServer, lost: httpx.Response | httpx.HTTPError
) -> None:
    server.will(lost)

    with pytest.raises(Unknown):
        client.send(UNPINNED)


@pytest.mark.parametrize("lost", LOST_ANSWERS, ids=LOST_IDS)
def test_after_a_lost_answer_a_claim_with_a_nonce_is_repeated_with_the_same_one(
    client: Client, server: ScriptedServer, lost: httpx.Response | httpx.HTTPError
) -> None:
    server.will(lost, granted(lease()))

    client.claim(NODE, dispatch="n1")

    assert server.bodies() == [{"dispatch": "n1"}, {"dispatch": "n1"}]


def test_a_read_that_stays_without_an_answer_is_unavailable_for_nothing_can_have_changed(
    client: Client, server: ScriptedServer
) -> None:
    server.will(*[httpx.ReadTimeout("too long")] * 5)

    with pytest.raises(Unavailable) as raised:
        client.leases()

    assert not isinstance(raised.value, Unknown)


@pytest.mark.parametrize(
    "verb, repeated",
    [
        (lease_calls.renew(NODE, if_epoch=3), True),
        (lease_calls.renew(NODE), False),
        (lease_calls.extend(NODE, ms=1, if_epoch=3), True),
        (lease_calls.extend(NODE, ms=1), False),
        (lease_calls.release(NODE, if_epoch=3), True),
        (lease_calls.release(NODE), False),
        (lease_calls.claim(NODE, if_epoch=3), True),
        (lease_calls.take(NODE, reason="why"), False),
        (lease_calls.reserve(NODE, if_epoch=3), False),
        (lease_calls.renew_many([Fence(Resource("task-1"), 3)]), True),
        (lease_calls.claim_many([NODE]), False),
        (lease_calls.release_held(), False),
    ],
    ids=lambda value: f"{value.path} {value.body!r}" if isinstance(value, Call) else str(value),
)
def test_a_lease_verb_is_repeated_only_when_pinned_to_one_tenure(
    client: Client, server: ScriptedServer, verb: Call[object], *, repeated: bool
) -> None:
    server.will(*[httpx.ReadTimeout("too long")] * 5)

    with pytest.raises(Unknown):
        client.send(verb)

    assert len(server.requests) == (5 if repeated else 1)


def test_the_pause_is_at_least_what_the_server_asks_for(
    client: Client, server: ScriptedServer, slept: list[float]
) -> None:
    server.will(refusal(503, "unavailable", Retry_After="7"), answer(LISTED))

    assert client.leases() == LISTED

    assert slept == [7]


def test_a_server_that_asks_for_too_long_is_not_waited_for(
    client: Client, server: ScriptedServer, slept: list[float]
) -> None:
    after_s = int(RETRY_AFTER_S_MAX) + 1
    server.will(refusal(429, "rate_limited", Retry_After=str(after_s)))

    with pytest.raises(Unavailable) as raised:
        client.leases()

    assert raised.value.retry_after_s == after_s
    assert slept == []


def test_a_date_in_retry_after_is_passed_over(client: Client, server: ScriptedServer, slept: list[float]) -> None:
    server.will(refusal(503, "unavailable", Retry_After="Fri, 31 Dec 1999 23:59:59 GMT"), answer(LISTED))

    client.leases()

    assert slept == [0.25]


def test_a_redirect_is_not_followed_for_the_token_would_go_along(client: Client, server: ScriptedServer) -> None:
    server.will(httpx.Response(302, headers={"Location": "http://elsewhere.test/"}))

    with pytest.raises(Unavailable, match=r"has moved to http://elsewhere\.test/"):
        client.leases()

    assert len(server.requests) == 1


def test_writes_under_a_fence_carry_it_and_reads_do_not(client: Client, server: ScriptedServer) -> None:
    fence = Fence(Resource("task-1"), 4)
    server.will(answer(LISTED), answer(ReleaseReply("task-2", "removed")))
    fenced = client.under(fence)

    fenced.leases()
    fenced.release(NodeId("task-2"))

    read, write = server.requests
    assert "If-Lease" not in read.headers
    assert parse_fence(write.headers["If-Lease"]) == fence
    assert client.fences == ()


def test_a_call_with_a_key_repeats_it(client: Client, server: ScriptedServer) -> None:
    keyed = Call("POST", "/v1/nodes", LeasesReply, body=b"{}", repeat=Repeat.KEYED)
    server.will(httpx.ReadTimeout("too long"), answer(LISTED), answer(LISTED, Idempotency_Replayed="true"))

    assert not client.answer(keyed).replayed
    assert client.answer(keyed, key="mine").replayed

    first, second, third = (request.headers["Idempotency-Key"] for request in server.requests)
    assert first == second
    assert len(first) == 32
    assert third == "mine"


def test_an_answer_keeps_the_bytes_it_came_as(client: Client, server: ScriptedServer) -> None:
    server.will(httpx.Response(200, content=b'{"leases":[],"count":0,"next":null,"later":1}'))

    found = client.answer(lease_calls.leases())

    assert (found.value, found.raw) == (LISTED, b'{"leases":[],"count":0,"next":null,"later":1}')


def test_a_failing_renewal_of_a_set_is_an_answer_and_not_an_error(client: Client, server: ScriptedServer) -> None:
    server.will(renewed(lease()))

    assert client.renew_many([Fence(Resource("task-1"), 1)]).renewed == ["task-1"]

    assert server.bodies() == [{"leases": [{"node_id": "task-1", "epoch": 1}]}]


@pytest.mark.parametrize(
    "resource, named",
    [
        ("task-1", '"node":"task-1","record":null,"field":null'),
        ("record:pipelines/run-1#driver", '"node":null,"record":"pipelines/run-1","field":"driver"'),
    ],
)
def test_a_runs_token_names_the_node_or_the_records_field_it_stands_on(resource: str, named: str) -> None:
    call = token_calls.mint_run_token(agent_id_for("mill"), Fence(Resource(resource), 3), replace=True)

    assert call.body == f'{{"lease":{{"epoch":3,{named}}},"replace":true}}'.encode()


def test_query_parameters_leave_out_what_was_not_said() -> None:
    assert query_of(a=None, b="", c=0, d=True, e=False, f=["x", "y"], g=()) == (
        ("c", "0"),
        ("d", "1"),
        ("f", "x,y"),
    )


def test_a_client_that_made_its_connections_closes_them() -> None:
    with Client("http://127.0.0.1:9", None, patience=Patience(tries_max=1)) as client, pytest.raises(Unavailable):
        client.leases()
    with pytest.raises(RuntimeError, match="closed"):
        client.leases()


def test_the_token_is_not_in_the_clients_own_words(client: Client) -> None:
    assert repr(client) == "Client('http://baton.test')"
