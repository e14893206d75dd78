from __future__ import annotations

from typing import Any

import pytest

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

INCIDENTS: dict[str, Any] = {
    "fields": {
        "status": {"type": "register", "schema": {"enum": ["open", "closed"]}},
        "actions": {"type": "append", "cap": 5},
        "work": {"type": "task", "lease": "5m"},
    },
    "roles": {
        "fleet": {
            "identities": ["agent:*", "person:*"],
            "read": "*",
            "write": ["status", "actions"],
            "claim": ["work"],
        }
    },
}
PUT = "/v1/classes/incidents"


def changed(**fields: object) -> dict[str, Any]:
    """Return the class with other fields; None takes one away."""
    kept = {name: spec for name, spec in {**INCIDENTS["fields"], **fields}.items() if spec is not None}
    fleet = {"identities": ["agent:*", "person:*"], "read": "*", "write": "*", "claim": "*"}
    return {"fields": kept, "roles": {"fleet": fleet}}


async def test_a_new_class_is_its_first_version_and_reads_back_as_the_same_document(server: InProcessServer) -> None:
    made = await server.send("PUT", PUT, INCIDENTS)
    found = await server.ask("GET", PUT)

    assert (made.status_code, made.json()) == (201, {"class": "incidents", "version": 1, "changed": True})
    assert found["document"] == {
        "name": "incidents",
        **INCIDENTS,
        "fields": {**INCIDENTS["fields"], "work": {"type": "task", "lease": "300s"}},
        "roles": {"fleet": {**INCIDENTS["roles"]["fleet"], "write": ["actions", "status"]}},
    }
    assert (found["class"], found["version"], found["latest"]) == ("incidents", 1, 1)
    assert found["applied_by"].startswith("person:person-")


async def test_the_same_document_again_is_no_new_version_whatever_its_order_and_units(server: InProcessServer) -> None:
    await server.ask("PUT", PUT, INCIDENTS)
    again = {
        "name": "incidents",
        "roles": INCIDENTS["roles"],
        "fields": {**dict(reversed(INCIDENTS["fields"].items())), "work": {"type": "task", "lease": 300}},
    }

    sent = await server.send("PUT", PUT, again)

    assert (sent.status_code, sent.json()) == (200, {"class": "incidents", "version": 1, "changed": False})


async def test_every_version_is_kept(server: InProcessServer) -> None:
    await server.ask("PUT", PUT, INCIDENTS)
    await server.ask("PUT", PUT, changed(summary={"type": "register"}))

    first = await server.ask("GET", PUT + "?version=1")
    latest = await server.ask("GET", PUT)
    missing = await server.send("GET", PUT + "?version=3")

    assert (first["version"], first["latest"], "summary" in first["document"]["fields"]) == (1, 2, False)
    assert (latest["version"], latest["latest"], "summary" in latest["document"]["fields"]) == (2, 2, True)
    assert (missing.status_code, missing.json()["error"]["message"]) == (404, "version: incidents has no version 3")


async def test_classes_are_listed_by_name_page_by_page(server: InProcessServer) -> None:
    for name in ("b-two", "a-one", "c-three"):
        await server.ask("PUT", f"/v1/classes/{name}", INCIDENTS)
    await server.ask("PUT", "/v1/classes/a-one", changed())

    first = await server.ask("GET", "/v1/classes?limit=2")
    rest = await server.ask("GET", f"/v1/classes?limit=2&after={first['next']}")

    assert [(each["class"], each["version"]) for each in first["classes"]] == [("a-one", 2), ("b-two", 1)]
    assert ([each["class"] for each in rest["classes"]], rest["next"]) == (["c-three"], None)


async def test_everybody_reads_classes_and_only_an_admin_applies_them(server: InProcessServer) -> None:
    await server.ask("PUT", PUT, INCIDENTS)
    tokens = [await server.add_person("Bob"), await server.add_agent("seven"), await server.add_key("fleet/one")]

    for token in tokens:
        assert (await server.ask("GET", PUT, token=token))["version"] == 1
        assert len((await server.ask("GET", "/v1/classes", token=token))["classes"]) == 1
        refused = await server.send("PUT", PUT, changed(), token=token)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert (await server.ask("GET", PUT))["latest"] == 1


async def test_all_that_is_wrong_is_told_at_once_and_nothing_changes(server: InProcessServer) -> None:
    wrong = {
        "fields": {"work": {"type": "task", "lease": "2d"}, "note": {"type": "register", "schema": {"type": "strin"}}},
        "roles": {"r": {"identities": ["*"], "claim": ["work"]}},
    }

    refused = await server.send("PUT", PUT, wrong)

    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["field"]) == (422, "invalid_request", "class")
    rules = [line.split(": ")[-2 if "strin" in line else 3] for line in error["details"]]
    assert len(rules) == len(error["details"]) == 4
    assert all(line.startswith("class incidents: ") for line in error["details"])
    assert (await server.send("GET", PUT)).status_code == 404


@pytest.mark.parametrize("name", ["pipelines", "landings"])
async def test_built_in_names_are_not_applied_by_hand(server: InProcessServer, name: str) -> None:
    refused = await server.send("PUT", f"/v1/classes/{name}", INCIDENTS)

    assert refused.status_code == 422
    assert "reserved-name" in refused.json()["error"]["message"]


async def test_the_name_in_the_document_is_the_paths(server: InProcessServer) -> None:
    refused = await server.send("PUT", PUT, {"name": "invoices", **INCIDENTS})

    assert refused.status_code == 422
    assert "class invoices: other-name: " in refused.json()["error"]["message"]


async def test_an_applied_version_is_in_the_feed(server: InProcessServer) -> None:
    await server.ask("PUT", PUT, INCIDENTS)
    await server.ask("PUT", PUT, INCIDENTS)

    events = (await server.ask("GET", "/v1/events?kind=class.applied"))["events"]

    assert [each["data"] for each in events] == [{"class": "incidents", "version": 1}]
