"""Records through a client whose server answers from a script: what is sent, and what is read off the answers."""

from __future__ import annotations

import math

import httpx
import msgspec
import pytest

from batonpass.client import record_calls
from batonpass.client.client import Client
from batonpass.core.errors import AlreadyClaimed, CapReached, Invalid, NotTaskField, ScopeDenied, StalePremise, Unknown
from batonpass.core.records import parse_record_path
from batonpass.testing.scripted import ScriptedServer, answer, record_answer, stale, task_answer, task_held
from batonpass.wire.records import FieldWriteReply, RecordErrorBody

RECORD = "incidents/inc-1"
PUT = answer(FieldWriteReply(RECORD, "status", 2, 9))
NO_ANSWER = httpx.ReadTimeout("too long")


def test_a_record_is_named_by_text_or_by_path(client: Client, server: ScriptedServer) -> None:
    server.will(record_answer(), record_answer())

    client.records.get(RECORD)
    client.records.get(parse_record_path(RECORD), fields=["status", "notes"])

    assert server.paths() == ["/v1/records/incidents/inc-1"] * 2
    assert server.requests[1].url.params["fields"] == "status,notes"


@pytest.mark.parametrize("name", ["incidents", "incidents/", "/inc-1", "Incidents/x", "incidents/a b", "incidents/a/b"])
def test_what_cannot_be_a_record_is_refused_before_anything_is_sent(
    client: Client, server: ScriptedServer, name: str
) -> None:
    with pytest.raises(Invalid):
        client.records.get(name)

    assert server.requests == []


def test_a_value_is_read_as_what_it_is_to_be(client: Client, server: ScriptedServer) -> None:
    server.will(record_answer(9, status="open", notes=[1, 2]))

    record = client.records.get(RECORD)

    assert (str(record.path), record.version) == (RECORD, 9)
    assert record.value("status", str) == "open"
    assert record.value("notes") == [1, 2]
    assert record.value("severity") is None
    with pytest.raises(msgspec.ValidationError):
        record.value("status", int)


def test_what_was_seen_is_a_premise_of_what_is_written(client: Client, server: ScriptedServer) -> None:
    server.will(record_answer(status="open"), PUT)
    record = client.records.get(RECORD)

    client.records.put(
        RECORD,
        "status",
        "closed",
        based_on=[
            record.seen("status"),
            record.seen("severity"),
            record_calls.fence("remediation", 3),
            record_calls.fence_at("remediation", 8),
        ],
    )

    assert server.bodies() == [
        {
            "value": "closed",
            "based_on": [
                {"field": "status", "version": 1},
                {"field": "severity", "version": 0},
                {"kind": "fence", "field": "remediation", "epoch": 3},
                {"kind": "fence", "field": "remediation", "version": 8},
            ],
        }
    ]


@pytest.mark.parametrize("value", [math.nan, {"load": [1.5, -math.inf]}, (math.inf,)], ids=repr)
def test_a_float_that_json_has_no_number_for_is_refused_and_not_written_as_null(
    client: Client, server: ScriptedServer, value: object
) -> None:
    for write in (
        lambda: client.records.put(RECORD, "status", value),
        lambda: client.records.append(RECORD, "notes", value),
        lambda: client.records.write(RECORD, [{"field": "status", "put": 1}, {"field": "notes", "append": value}]),
    ):
        with pytest.raises(Invalid, match="no JSON number"):
            write()

    assert server.requests == []


def test_null_is_a_value(client: Client, server: ScriptedServer) -> None:
    server.will(PUT)

    client.records.put(RECORD, "status", None)

    assert server.bodies() == [{"value": None}]


def test_a_list_is_read_page_after_page(client: Client, server: ScriptedServer) -> None:
    def page(*names: str, after: str | None) -> httpx.Response:
        records = [
            {"record": f"incidents/{name}", "class_version": 1, "record_version": 1, "fields": {}} for name in names
        ]
        return answer({"records": records, "next": after})

    server.will(page("a", "b", after="b"), page("c", after=None))

    found = [record.path.id for record in client.records.list("incidents", free="remediation", page_size=2)]

    assert found == ["a", "b", "c"]
    assert [dict(request.url.params) for request in server.requests] == [
        {"free": "remediation", "limit": "2"},
        {"free": "remediation", "limit": "2", "after": "b"},
    ]


def test_claims_are_the_fields_that_have_a_tenure(client: Client, server: ScriptedServer) -> None:
    nobodys = {"version": 1, "author": "agent:agent-a", "updated_at": None}
    fields = {
        "status": {**nobodys, "value": "open"},
        "remediation": {**nobodys, "version": 5, "epoch": 2, "owner": "agent:agent-a", "held": True},
    }
    server.will(answer({"record": RECORD, "class_version": 1, "record_version": 1, "fields": fields}))

    claims = client.records.claims(RECORD)

    assert [(name, body.owner, body.version) for name, body in claims.items()] == [("remediation", "agent:agent-a", 5)]


def test_a_claim_that_somebody_is_in_the_way_of_names_who(client: Client, server: ScriptedServer) -> None:
    server.will(task_held())

    with pytest.raises(AlreadyClaimed, match="agent:agent-b") as raised:
        client.records.claim(RECORD, "remediation")

    assert raised.value.holder is not None
    assert (raised.value.holder.by, raised.value.version) == ("agent-b", 7)


def test_a_stale_premise_says_which_and_by_how_much(client: Client, server: ScriptedServer) -> None:
    server.will(stale("status", expected=1, actual=4, kind=None))

    with pytest.raises(StalePremise) as raised:
        client.records.put(RECORD, "status", "closed", based_on=[record_calls.seen("status", 1)])

    (broken,) = raised.value.premises
    assert (broken.field, broken.expected, broken.actual) == ("status", 1, 4)


REFUSALS: tuple[tuple[str, int, type[Exception]], ...] = (
    ("SCOPE_DENIED", 403, ScopeDenied),
    ("NOT_TASK_FIELD", 400, NotTaskField),
    ("BAD_REQUEST", 400, Invalid),
    ("CAP_REACHED", 409, CapReached),
)


@pytest.mark.parametrize("refused", REFUSALS, ids=lambda refused: refused[0])
def test_a_refusal_is_raised_as_the_class_it_was(
    client: Client, server: ScriptedServer, refused: tuple[str, int, type[Exception]]
) -> None:
    code, status, kind = refused
    server.will(answer(RecordErrorBody(code, "no", "status"), status))

    with pytest.raises(kind, match="no"):
        client.records.append(RECORD, "status", 1)


def test_a_busy_server_is_asked_again_even_for_what_must_not_be_done_twice(
    client: Client, server: ScriptedServer
) -> None:
    """Its own 503 says that nothing was changed, in the flat shape as in the other."""
    server.will(answer(RecordErrorBody("UNAVAILABLE", "busy"), 503), task_answer())

    assert client.records.renew(RECORD, "remediation").version == 1


def test_a_write_whose_answer_is_lost_is_sent_again_under_the_same_key(client: Client, server: ScriptedServer) -> None:
    server.will(NO_ANSWER, PUT)

    client.records.put(RECORD, "status", "closed")

    first, second = server.requests
    assert first.headers["Idempotency-Key"] == second.headers["Idempotency-Key"]


def test_only_a_lease_verb_that_names_its_tenure_is_sent_again(client: Client, server: ScriptedServer) -> None:
    fenced = [record_calls.fence("remediation", 1)]
    server.will(NO_ANSWER, task_answer(2), NO_ANSWER, task_answer(3, in_ms=None), NO_ANSWER, NO_ANSWER)

    client.records.renew(RECORD, "remediation", based_on=fenced)
    client.records.release(RECORD, "remediation", based_on=fenced)
    with pytest.raises(Unknown):
        client.records.renew(RECORD, "remediation")
    with pytest.raises(Unknown):
        client.records.release(RECORD, "remediation")

    assert len(server.requests) == 6


def test_a_read_premise_pins_a_lease_verb_to_no_tenure(client: Client, server: ScriptedServer) -> None:
    server.will(NO_ANSWER)

    with pytest.raises(Unknown):
        client.records.release(RECORD, "remediation", based_on=[record_calls.seen("remediation", 1)])
