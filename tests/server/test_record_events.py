"""What happens to records is in the feed, and shown to whoever may read it there: by roles, as they are now (D15a)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.server.services import feed as feeds
from batonpass.server.services.feed import Feed
from batonpass.testing.callers import calling
from batonpass.testing.clock import ManualClock
from batonpass.testing.crew import Crew, Gathered, crew
from batonpass.testing.waits import until_waiting

pytestmark = pytest.mark.anyio

R: Final = "/v1/records/incidents/inc-1"
RECORD: Final = "incidents/inc-1"
LEASE: Final = timedelta(seconds=300)
FIELDS: Final = {
    "status": {"type": "register"},
    "facts": {"type": "register"},
    "actions": {"type": "append"},
    "remediation": {"type": "task", "lease": "300s"},
}
WORKERS: Final = {
    "identities": ["agent:agent-a1", "agent:agent-b1"],
    "read": ["*"],
    "write": ["*"],
    "claim": ["remediation"],
}


def incidents(*read: str) -> dict[str, Any]:
    """Return the class, with the fields that agent-a2 may read; agent-b2 and all people may read nothing."""
    reader = {"identities": ["agent:agent-a2"], "read": list(read)}
    return {"fields": FIELDS, "roles": {"workers": WORKERS, "reader": reader} if read else {"workers": WORKERS}}


@pytest.fixture
async def team(gathered: Gathered) -> AsyncIterator[Crew]:
    async with crew(gathered, clock=ManualClock()) as team:
        await apply(team, "status")
        yield team


async def apply(team: Crew, *read: str) -> None:
    applied = await team.send("ada", "PUT", "/v1/classes/incidents", incidents(*read))
    assert applied.ok, applied


async def done(team: Crew, who: str, method: str, path: str, **body: object) -> Any:  # noqa: ANN401 — a reply as JSON
    answer = await team.send(who, method, path, body)
    assert answer.ok, answer
    return answer.body


async def put(team: Crew, field: str, value: object = "x", *, record: str = R) -> None:
    await done(team, "a1", "PUT", f"{record}/fields/{field}", value=value)


async def claim(team: Crew, who: str = "a1", *, record: str = R, **body: object) -> None:
    await done(team, who, "PUT", f"{record}/fields/remediation/claim", **body)


async def read(team: Crew, who: str, **query: object) -> Any:  # noqa: ANN401 — a reply as JSON
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await team.send(who, "GET", f"/v1/events?{asked}")
    assert answer.ok, answer
    return answer.body


async def now(team: Crew) -> str:
    position: str = (await read(team, "a1", after="now"))["next"]
    return position


def told(reply: Any) -> list[tuple[str, str | None]]:  # noqa: ANN401 — a reply as JSON
    return [(event["kind"], event.get("field")) for event in reply["events"]]


# --- what is told ----------------------------------------------------------------------------------------------------


async def test_everything_that_happens_to_a_record_is_told_with_its_field_and_version(team: Crew) -> None:
    start = await now(team)
    await put(team, "status")
    await done(team, "a1", "POST", f"{R}/fields/actions", value="restarted")
    await claim(team)
    await claim(team, renew=True)
    team.server.store.clock.advance(LEASE)  # type: ignore[attr-defined]  # the ManualClock that the crew was given
    await claim(team, "b1")
    await claim(team, "b1", lease_seconds=0)
    await done(team, "a1", "DELETE", R)

    events = (await read(team, "a1", after=start))["events"]

    shown = [(e["kind"], e["record"], e.get("field"), e.get("version"), e.get("epoch"), e["actor"]) for e in events]
    assert shown == [
        ("record.put", RECORD, "status", 1, None, "agent-a1"),
        ("record.append", RECORD, "actions", 1, None, "agent-a1"),
        ("lease.claimed", RECORD, "remediation", 1, 1, "agent-a1"),
        ("lease.taken_over", RECORD, "remediation", 3, 2, "agent-b1"),
        ("lease.released", RECORD, "remediation", 4, 2, "agent-b1"),
        ("record.deleted", RECORD, None, events[-1]["version"], None, "agent-a1"),
    ], "and of the renewal nothing"
    assert {event["node"] for event in events} == {None}
    assert events[3]["data"] == {"displaced": "agent:agent-a1"}
    assert not any("restarted" in str(event) for event in events), "what was written is read where it is"


async def test_a_record_a_class_and_a_field_can_be_asked_for(team: Crew) -> None:
    start = await now(team)
    await put(team, "status")
    await put(team, "facts")
    await put(team, "status", record="/v1/records/incidents/inc-2")
    await claim(team)
    await done(team, "a1", "POST", "/v1/nodes/task-1/claim")

    async def of(**query: str) -> list[tuple[str, str | None]]:
        return told(await read(team, "a1", after=start, **query))

    assert await of(record=RECORD) == [
        ("record.put", "status"),
        ("record.put", "facts"),
        ("lease.claimed", "remediation"),
    ]
    assert await of(record=RECORD, kind="lease") == [("lease.claimed", "remediation")]
    assert await of(field="status") == [("record.put", "status")] * 2
    assert await of(**{"class": "incidents"}, kind="lease") == [("lease.claimed", "remediation")]
    assert await of(**{"class": "pages"}) == []
    assert await of(node="task-1") == [("lease.claimed", None)]


async def test_what_is_no_name_is_refused_by_its_parameter(team: Crew) -> None:
    for query, field in (("record=inc-1", "record"), ("class=No", "class"), ("field=No%20field", "field")):
        answer = await team.send("a1", "GET", f"/v1/events?{query}")

        assert (query, answer.status, answer.body["error"]["field"]) == (query, 422, field)


async def test_changes_are_of_nodes_only(team: Crew) -> None:
    await put(team, "status")

    changes = (await team.send("a1", "GET", "/v1/changes")).body["changes"]

    assert changes
    assert all(change["node"] and "record" not in change for change in changes)


# --- to whom ---------------------------------------------------------------------------------------------------------


async def test_each_is_told_what_its_roles_let_it_read_and_nobody_more_for_being_an_admin(team: Crew) -> None:
    start = await now(team)
    await put(team, "status")
    await put(team, "facts")
    await claim(team)
    await done(team, "a1", "POST", "/v1/nodes/task-1/claim")
    await done(team, "a1", "DELETE", R)

    shown = {who: told(await read(team, who, after=start)) for who in ("b1", "a2", "b2", "ann", "ada")}

    node, deleted = ("lease.claimed", None), ("record.deleted", None)
    assert shown == {
        "b1": [
            ("record.put", "status"),
            ("record.put", "facts"),
            ("lease.claimed", "remediation"),
            node,
            ("lease.revoked", "remediation"),
            deleted,
        ],
        "a2": [("record.put", "status"), node, deleted],
        "b2": [node],
        "ann": [node],
        "ada": [node],
    }


async def test_the_class_as_it_is_now_decides_of_what_happened_before(team: Crew) -> None:
    start = await now(team)
    await put(team, "status")
    await claim(team)

    seen = [told(await read(team, "a2", after=start, record=RECORD))]
    for readable in (("status", "remediation"), ("remediation",), ()):
        await apply(team, *readable)
        seen.append(told(await read(team, "a2", after=start, record=RECORD)))

    status, lease = ("record.put", "status"), ("lease.claimed", "remediation")
    assert seen == [[status], [status, lease], [lease], []]


async def test_what_is_read_from_the_database_is_shown_by_the_same_rule(
    team: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feeds, "WINDOW", 2)
    start = await now(team)
    for field in ("facts", "status", "facts", "facts", "status"):
        await put(team, field)
    team.server.app.state.services = replace(team.server.services, feed=Feed(team.server.store))  # nothing in memory

    page = await read(team, "a2", after=start, limit=1)
    rest = await read(team, "a2", after=page["next"])

    assert (told(page), page["more"]) == ([("record.put", "status")], True)
    assert (told(rest), rest["more"]) == ([("record.put", "status")], False)


# --- and nothing else, by no sign ------------------------------------------------------------------------------------


async def test_what_is_hidden_counts_neither_for_the_limit_nor_as_more_and_is_left_behind(team: Crew) -> None:
    start = await now(team)
    await put(team, "facts")
    await put(team, "status")
    await put(team, "facts")
    await claim(team)

    page = await read(team, "a2", after=start, limit=1)

    assert (told(page), page["more"]) == ([("record.put", "status")], False)
    assert page["next"] == await now(team)


async def test_a_wait_is_not_ended_by_what_is_hidden(team: Crew) -> None:
    start = await now(team)
    waiting = asyncio.create_task(read(team, "a2", after=start, wait=30))
    await until_waiting(team.server.services.feed)

    await put(team, "facts")
    await claim(team)
    await put(team, "status")

    assert told(await waiting) == [("record.put", "status")]


async def test_a_stream_gives_no_sign_of_what_is_hidden_not_even_a_beat(team: Crew) -> None:
    path = f"/v1/events?after=now&record={RECORD}"
    async with calling(team.server, "GET", path, token=team.tokens["a2"], accept="text/event-stream") as caller:
        opening = [await caller.message() for _ in range(3)]  # the head, `retry`, and where it begins
        for _ in range(3):
            await put(team, "facts")
        await put(team, "status")
        first = (await caller.message())["body"].decode()

    assert b"still here" in opening[-1]["body"]
    assert '"field":"status"' in first, "nothing between the beginning and what is theirs"


# --- and the queue ---------------------------------------------------------------------------------------------------


async def test_what_happens_to_records_does_not_wake_those_who_wait_for_the_queue(team: Crew) -> None:
    start = await now(team)
    page = await team.send("b1", "GET", "/v1/queue")
    waiting = asyncio.create_task(team.send("b1", "GET", f"/v1/queue?wait=30&after={page.body['seq']}"))
    await until_waiting(team.server.services.feed)
    hearing = asyncio.create_task(read(team, "a1", after=start, wait=30, record=RECORD))
    await until_waiting(team.server.services.feed, requests=2)

    await claim(team)

    assert told(await hearing) == [("lease.claimed", "remediation")]
    assert not waiting.done(), "it has heard of it too, by the same look"
    await done(team, "a1", "POST", "/v1/nodes/task-1/claim")
    assert (await waiting).ok
