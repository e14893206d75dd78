"""Records through their doors: what is written is read, by whom it may be, and what is refused changes nothing."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.core import record_writes
from batonpass.core.record_writes import APPEND_BYTES_MAX, VALUE_BYTES_MAX, VALUE_DEPTH_MAX, WRITES_MAX
from batonpass.testing.clock import ManualClock
from batonpass.testing.incidents import CAP, CLAIM, INCIDENTS, R, Scene, incidents, refusal
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

STATUS: Final = f"{R}/fields/status"
FACTS: Final = f"{R}/fields/facts"
ACTIONS: Final = f"{R}/fields/actions"
PAGE: Final = "/v1/records/incidents"


@pytest.fixture
async def scene(server: InProcessServer, database_url: str) -> Scene:
    return await incidents(server, database_url)


# --- put, append, several at once ------------------------------------------------------------------------------------


async def test_what_is_put_is_read(scene: Scene) -> None:
    put = await scene.ask("mill", "PUT", STATUS, {"value": "open"})
    record = await scene.ask("mill", "GET", R)

    assert put == {"record": "incidents/inc-1", "field": "status", "version": 1, "record_version": 1}
    at = record["fields"]["status"].pop("updated_at")
    assert at.endswith("+00:00")
    assert record == {
        "record": "incidents/inc-1",
        "class_version": 1,
        "record_version": 1,
        "fields": {"status": {"version": 1, "author": "agent:agent-mill", "value": "open"}},
    }


async def test_an_append_tells_where_its_item_is(scene: Scene) -> None:
    first = await scene.ask("mill", "POST", ACTIONS, {"value": {"did": "restart"}})
    second = await scene.ask("rival", "POST", ACTIONS, {"value": None})

    places = [(each["index"], each["version"], each["record_version"]) for each in (first, second)]
    assert places == [(0, 1, 1), (1, 2, 2)]
    field = await scene.ask("mill", "GET", ACTIONS)
    assert field["value"] == [{"did": "restart"}, None]
    assert (field["author"], field["version"], field["record_version"]) == ("agent:agent-rival", 2, 2)


async def test_several_writes_stand_together_in_their_order(scene: Scene) -> None:
    writes = [
        {"field": "actions", "append": 1},
        {"field": "status", "put": "open"},
        {"field": "actions", "append": 2},
    ]

    answer = await scene.ask("mill", "POST", R, {"writes": writes})

    assert answer == {"record": "incidents/inc-1", "record_version": 1, "versions": {"actions": 2, "status": 1}}
    assert (await scene.ask("mill", "GET", ACTIONS))["value"] == [1, 2]


REFUSED_WRITES: Final = [
    ([{"field": "status", "put": "open"}, {"field": "secret", "put": 1}], ("SCOPE_DENIED", "secret")),
    ([{"field": "status", "put": "open"}, {"field": "status", "put": "closed"}], ("BAD_REQUEST", "writes")),
    ([{"field": "status", "put": "open"}, {"field": "facts", "append": 1}], ("BAD_REQUEST", "facts")),
    ([{"field": "facts", "put": 1}, {"field": "status", "put": "no such"}], ("BAD_REQUEST", "status")),
    ([{"field": "facts", "put": 1}, {"field": "nothing", "put": 1}], ("NOT_FOUND", "nothing")),
    ([{"field": "actions", "append": 1}] * (CAP + 1), ("CAP_REACHED", "actions")),
    ([{"field": "facts", "put": 1, "append": 1}], ("BAD_REQUEST", "writes[0]")),
    ([{"field": "facts"}], ("BAD_REQUEST", "writes[0]")),
    ([{"field": "facts", "put": 1, "by": "me"}], ("BAD_REQUEST", "writes[0]")),
    ([{"field": "FACTS", "put": 1}], ("BAD_REQUEST", "writes[0].field")),
    (["facts"], ("BAD_REQUEST", "writes[0]")),
    ([], ("BAD_REQUEST", "writes")),
    ([{"field": "actions", "append": 1}] * (WRITES_MAX + 1), ("BAD_REQUEST", "writes")),
    ({"field": "facts", "put": 1}, ("BAD_REQUEST", "writes")),
]


async def test_of_several_writes_one_that_is_refused_refuses_them_all(scene: Scene) -> None:
    with scene.unchanged():
        for writes, told in REFUSED_WRITES:
            answer = await scene.refused("mill", "POST", R, {"writes": writes})

            assert (answer["error"], answer.get("field")) == told, writes


async def test_an_append_takes_no_more_than_its_cap(scene: Scene) -> None:
    for place in range(CAP):
        await scene.ask("mill", "POST", ACTIONS, {"value": place})

    with scene.unchanged():
        answer = await scene.refused("mill", "POST", ACTIONS, {"value": CAP})

        assert answer == {"status": 409, "error": "CAP_REACHED", "field": "actions"}


async def test_a_repeated_write_is_answered_once_done_once(scene: Scene) -> None:
    seen = [{"field": "status", "version": 0}]
    body = {"value": "open", "based_on": seen}
    first, again = [await scene.send("mill", "PUT", STATUS, body, idempotency_key="k-1") for _ in range(2)]

    assert first.json() == again.json()
    assert first.json()["version"] == 1
    assert again.headers["idempotency-replayed"] == "true", "though what it was based on has moved by then: by itself"
    assert (await scene.ask("mill", "GET", STATUS))["version"] == 1


async def test_a_value_is_held_to_its_registers_schema(scene: Scene) -> None:
    with scene.unchanged():
        answer = await scene.refused("mill", "PUT", STATUS, {"value": "on fire"})

        assert (answer["status"], answer["error"], answer["field"]) == (400, "BAD_REQUEST", "status")
        assert answer["details"]


async def test_a_record_remembers_the_version_of_its_class_that_it_was_written_under(scene: Scene) -> None:
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})
    wider = {**INCIDENTS, "fields": {**INCIDENTS["fields"], "owner": {"type": "register"}}}
    await scene.ask("admin", "PUT", "/v1/classes/incidents", wider)
    before = await scene.ask("mill", "GET", R)
    await scene.ask("mill", "PUT", STATUS, {"value": "closed"})

    assert (before["class_version"], (await scene.ask("mill", "GET", R))["class_version"]) == (1, 2)


async def test_writes_that_come_together_to_a_record_that_is_not_there_are_counted_each(scene: Scene) -> None:
    sent = [scene.send("mill", "PUT", FACTS, {"value": place}) for place in range(8)]
    sent += [scene.send("rival", "POST", R, {"writes": [{"field": "actions", "append": 1}]}) for _ in range(CAP + 1)]

    answers = await asyncio.gather(*sent)

    puts, appends = answers[:8], answers[8:]
    assert sorted(answer.json()["version"] for answer in puts) == list(range(1, 9))
    assert sorted(answer.status_code for answer in appends) == [*[200] * CAP, 409]
    assert (await scene.ask("mill", "GET", R))["record_version"] == 8 + CAP
    numbers = [entry["n"] for entry in (await scene.ask("mill", "GET", f"{R}/history"))["entries"]]
    assert numbers == list(range(8 + CAP, 0, -1))


# --- values ----------------------------------------------------------------------------------------------------------

VALUES: Final = (
    "null",
    "0",
    "-0.0",
    "1.50",
    "1E3",
    "0.1000000000000000055511151231257827",
    "123456789012345678901234567890",
    '""',
    '"\\u0000 and \\u00e9 and é and 🪃 and \\ud83e\\ude83"',
    '{"b": 1,   "a":[ ], "\\u0000": {}}',
    '"' + "x" * (VALUE_BYTES_MAX - 2) + '"',
    "[" * VALUE_DEPTH_MAX + "]" * VALUE_DEPTH_MAX,
)


async def test_a_value_comes_back_byte_for_byte(scene: Scene) -> None:
    for place, text in enumerate(VALUES):
        record = f"{PAGE}/r{place}"
        put = await scene.send_raw("mill", "PUT", f"{record}/fields/facts", f'{{"value": {text} }}'.encode())
        assert put.status_code == 200, put.text
        writes = f'{{"writes":[{{"append":{text},"field":"actions"}}]}}'.encode()
        appended = await scene.send_raw("mill", "POST", record, writes)
        assert appended.status_code == 200, appended.text

        read = (await scene.send("mill", "GET", record)).content
        history = (await scene.send("mill", "GET", f"{record}/history?values=1")).content

        assert f'"value":{text}'.encode() in read
        assert f'"value":[{text}]'.encode() in read
        assert history.count(f'"value":{text}'.encode()) == 2


UNKEPT: Final[list[tuple[str, str, str | None]]] = [
    ("1e400", "BAD_REQUEST", None),
    ("NaN", "BAD_REQUEST", None),
    ("1" * 5000, "BAD_REQUEST", None),
    ('{"a": 1, "a": 2}', "BAD_REQUEST", None),
    ('"\\ud800"', "BAD_REQUEST", "value"),
    ('{"a": ["\\\\\\udc00"]}', "BAD_REQUEST", "value"),
    ('{"\\udbff": 1}', "BAD_REQUEST", "value"),
    ("[" * (VALUE_DEPTH_MAX + 1) + "]" * (VALUE_DEPTH_MAX + 1), "BAD_REQUEST", "value"),
    ("[" * 100_000 + "]" * 100_000, "BAD_REQUEST", None),
    ('"' + "x" * (VALUE_BYTES_MAX - 1) + '"', "TOO_LARGE", "value"),
    ('"' + "x" * 1024 * 1024 + '"', "TOO_LARGE", None),
]


async def test_a_value_that_cannot_be_kept_is_refused(scene: Scene) -> None:
    with scene.unchanged():
        for text, code, field in UNKEPT:
            told = refusal(await scene.send_raw("mill", "PUT", FACTS, f'{{"value":{text}}}'.encode()))

            assert (told["error"], told.get("field")) == (code, field), text[:40]

        assert (await scene.send("mill", "GET", R)).status_code == 404


async def test_an_append_is_bounded_in_bytes_too(scene: Scene) -> None:
    wide = {**INCIDENTS, "fields": {**INCIDENTS["fields"], "actions": {"type": "append", "cap": 100}}}
    await scene.ask("admin", "PUT", "/v1/classes/incidents", wide)
    item = "x" * (VALUE_BYTES_MAX - 2)
    for _ in range(APPEND_BYTES_MAX // VALUE_BYTES_MAX):
        await scene.ask("mill", "POST", ACTIONS, {"value": item})

    answer = await scene.send("mill", "POST", ACTIONS, {"value": 1})

    assert refusal(answer) == {"status": 413, "error": "TOO_LARGE", "field": "actions"}


async def test_a_record_is_bounded_in_bytes_altogether(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_writes, "RECORD_BYTES_MAX", 2 * VALUE_BYTES_MAX)
    most = "x" * (VALUE_BYTES_MAX - 2)
    await scene.ask("mill", "PUT", FACTS, {"value": most})
    await scene.ask("mill", "POST", ACTIONS, {"value": most[:-10]})
    await scene.ask("mill", "PUT", FACTS, {"value": most})
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})

    for method, path, body in (
        ("POST", ACTIONS, {"value": "one"}),
        ("PUT", STATUS, {"value": "mitigated"}),
        ("POST", R, {"writes": [{"field": "status", "put": "open"}, {"field": "actions", "append": "more"}]}),
    ):
        with scene.unchanged():
            assert await scene.refused("mill", method, path, body) == {"status": 413, "error": "TOO_LARGE"}, path
    await scene.ask("mill", "PUT", FACTS, {"value": 1})
    await scene.ask("mill", "POST", ACTIONS, {"value": "one"})


# --- who may ---------------------------------------------------------------------------------------------------------

DELETION: Final[tuple[str, str, Any]] = ("DELETE", R, {})
READS: Final = {"get": ("GET", R, None), "list": ("GET", PAGE, None), "blame": ("GET", f"{R}/blame", None)}
VERBS: Final[dict[str, tuple[str, str, Any]]] = {
    **READS,
    "history": ("GET", f"{R}/history", None),
    "status": ("GET", STATUS, None),
    "secret": ("GET", f"{R}/fields/secret", None),
    "named": ("GET", f"{R}?fields=status,secret", None),
    "put": ("PUT", STATUS, {"value": "closed"}),
    "put facts": ("PUT", FACTS, {"value": 1}),
    "put secret": ("PUT", f"{R}/fields/secret", {"value": 1}),
    "append": ("POST", ACTIONS, {"value": 1}),
    "claim": ("PUT", CLAIM, {}),
    "delete": DELETION,
}
MAY: Final[dict[str, set[str]]] = {
    "pat": set(VERBS),
    "mill": set(VERBS) - {"secret", "named", "put secret", "delete"},
    "key": set(VERBS) - {"secret", "named", "put secret", "delete"},
    "reader": {"get", "list", "blame", "history", "status"},
    "writer": {"put facts"},
    "stranger": set(),
    "admin": {"delete"},
}


async def test_roles_alone_say_who_may_do_what(scene: Scene) -> None:
    allowed: dict[str, set[str]] = {}
    for who in MAY:
        await scene.ask("mill", "PUT", STATUS, {"value": "open"})
        for verb, (method, path, body) in VERBS.items():
            answer = await scene.send(who, method, path, body)
            if answer.is_success:
                allowed.setdefault(who, set()).add(verb)
            else:
                assert refusal(answer)["error"] == "SCOPE_DENIED", (who, verb, answer.text)
        await scene.send("admin", *DELETION)

    assert {who: allowed.get(who, set()) for who in MAY} == MAY


async def test_a_reader_sees_the_fields_it_may_read_and_no_trace_of_others(scene: Scene) -> None:
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})
    await scene.ask("pat", "PUT", f"{R}/fields/secret", {"value": 1, "based_on": [{"field": "status", "version": 1}]})
    await scene.ask("pat", "PUT", STATUS, {"value": "closed", "based_on": [{"field": "secret", "version": 1}]})

    record = await scene.ask("reader", "GET", R)
    history = await scene.ask("reader", "GET", f"{R}/history?values=1")
    blame = await scene.ask("reader", "GET", f"{R}/blame")

    assert set(record["fields"]) == set(blame["fields"]) == {"status"}
    assert [entry["field"] for entry in history["entries"]] == ["status", "status"]
    assert "secret" not in json.dumps([record, history, blame])


async def test_a_token_that_may_only_read_writes_nothing(scene: Scene) -> None:
    reads = (await scene.ask("pat", "POST", "/v1/me/tokens", {"scope": "read"}))["token"]
    await scene.ask("pat", "PUT", STATUS, {"value": "open"})

    for method, path, body in VERBS.values():
        answer = await scene.server.send(method, path, body, token=reads)

        if method == "GET":
            assert answer.is_success
        else:
            assert refusal(answer) == {"status": 403, "error": "SCOPE_DENIED"}


SENSELESS: Final = [
    ("/v1/records/nothing/inc-1", "NOT_FOUND"),
    (f"{PAGE}/inc-9", "NOT_FOUND"),
    (f"{PAGE}/inc-9/fields/status", "NOT_FOUND"),
    (f"{PAGE}/inc-9/history", "NOT_FOUND"),
    (f"{PAGE}/inc-9/blame", "NOT_FOUND"),
    (f"{R}/fields/nothing", "NOT_FOUND"),
    (f"{R}?fields=status,nothing", "NOT_FOUND"),
    ("/v1/records/nothing", "NOT_FOUND"),
    (f"{PAGE}?free=nothing", "NOT_FOUND"),
    (f"{PAGE}?free=review", "SCOPE_DENIED"),
    (f"{PAGE}?free=status", "NOT_TASK_FIELD"),
    (f"{PAGE}?free=remediation&holder=me", "BAD_REQUEST"),
    (f"{PAGE}?limit=0", "BAD_REQUEST"),
    (f"{PAGE}/-1", "BAD_REQUEST"),
    (f"{R}?fields=", "BAD_REQUEST"),
    (f"{R}/nothing", "NOT_FOUND"),
]


async def test_what_is_not_there_or_makes_no_sense_is_refused_by_its_code(scene: Scene) -> None:
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})

    with scene.unchanged():
        answers = {path: (await scene.refused("mill", "GET", path))["error"] for path, _ in SENSELESS}

        assert answers == dict(SENSELESS)


# --- deletion --------------------------------------------------------------------------------------------------------


async def test_a_deleted_record_is_gone_and_its_versions_go_on(scene: Scene) -> None:
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})
    await scene.ask("mill", "POST", ACTIONS, {"value": 1})
    claimed = await scene.ask("mill", "PUT", CLAIM, {})

    deleted = await scene.ask("pat", "DELETE", R, {})
    gone = await scene.send("pat", "GET", R)
    again = await scene.ask("mill", "PUT", STATUS, {"value": "closed"})
    retaken = await scene.ask("rival", "PUT", CLAIM, {})

    assert deleted == {"record": "incidents/inc-1", "record_version": 4, "deleted": True}
    assert refusal(gone) == {"status": 404, "error": "NOT_FOUND", "field": "record"}
    assert (again["version"], again["record_version"]) == (3, 5)
    assert (retaken["version"], retaken["epoch"]) > (claimed["version"] + 1, claimed["epoch"] + 1)
    assert (await scene.ask("mill", "GET", ACTIONS))["value"] == []
    with scene.unchanged():
        assert (await scene.refused("pat", "DELETE", f"{PAGE}/inc-9", {}))["error"] == "NOT_FOUND"


async def test_a_deletion_ends_every_tenure_and_says_whose(scene: Scene) -> None:
    claimed = await scene.ask("mill", "PUT", CLAIM, {})
    fence = [{"kind": "fence", "field": "remediation", "epoch": claimed["epoch"]}]

    await scene.ask("pat", "DELETE", R, {})
    answer = await scene.refused("mill", "PUT", STATUS, {"value": "open", "based_on": fence})
    history = await scene.ask("pat", "GET", f"{R}/history")

    assert answer["error"] == "STALE_PREMISE"
    told = [(each["verb"], each["field"], each.get("took_over_from")) for each in history["entries"]]
    assert told == [
        ("delete", None, None),
        ("release", "remediation", "agent:agent-mill"),
        ("claim", "remediation", None),
    ]


# --- lists -----------------------------------------------------------------------------------------------------------


async def test_records_are_listed_by_id_page_by_page(scene: Scene) -> None:
    for name in ("b", "a-b", "a", "C", "a.b"):
        await scene.ask("mill", "PUT", f"{PAGE}/{name}/fields/status", {"value": "open"})
    await scene.ask("pat", "DELETE", f"{PAGE}/a-b", {})

    found, after = [], ""
    while True:
        page = await scene.ask("mill", "GET", f"{PAGE}?limit=2{after}")
        found += [record["record"] for record in page["records"]]
        if page["next"] is None:
            break
        after = f"&after={page['next']}"

    assert found == [f"incidents/{name}" for name in ("C", "a", "a.b", "b")]


async def test_free_and_held_tasks_are_found(scene: Scene, clock: ManualClock) -> None:
    for name in ("held", "free", "given-back", "lapsed"):
        await scene.ask("mill", "PUT", f"{PAGE}/{name}/fields/status", {"value": "open"})
    await scene.ask("mill", "PUT", f"{PAGE}/lapsed/fields/remediation/claim", {"lease_seconds": 1})
    await scene.ask("mill", "PUT", f"{PAGE}/given-back/fields/remediation/claim", {})
    await scene.ask("mill", "PUT", f"{PAGE}/given-back/fields/remediation/claim", {"lease_seconds": 0})
    clock.advance(timedelta(seconds=2))
    await scene.ask("mill", "PUT", f"{PAGE}/held/fields/remediation/claim", {})

    async def listed(query: str, who: str = "mill") -> list[str]:
        page = await scene.ask(who, "GET", f"{PAGE}?{query}")
        assert page["next"] is None
        return [record["record"].partition("/")[2] for record in page["records"]]

    assert await listed("free=remediation") == ["free", "given-back", "lapsed"]
    assert await listed("holder=me") == ["held"]
    assert await listed("holder=agent:agent-mill", "rival") == ["held"]
    assert await listed("holder=me", "rival") == []
    assert await listed("holder=agent:agent-mill", "reader") == [], "whose role reads no task"


async def test_a_page_ends_where_it_has_looked_far_enough(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batonpass.server.services.record_pages.SCANNED_MAX", 2)
    for place in range(4):
        await scene.ask("mill", "PUT", f"{PAGE}/r{place}/fields/remediation/claim", {})

    pages = []
    after = ""
    for _ in range(3):
        page = await scene.ask("mill", "GET", f"{PAGE}?free=remediation{after}")
        pages.append((page["records"], page["next"]))
        after = f"&after={page['next']}"

    assert pages == [([], "r1"), ([], "r3"), ([], None)]


async def test_a_page_has_no_more_than_its_bytes(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("batonpass.server.services.record_pages.PAGE_BYTES_MAX", 250)
    for place in range(3):
        await scene.ask("mill", "PUT", f"{PAGE}/r{place}/fields/facts", {"value": "x" * 100})

    page = await scene.ask("mill", "GET", PAGE)

    assert ([record["record"] for record in page["records"]], page["next"]) == (["incidents/r0", "incidents/r1"], "r1")
