"""What became of a record: who did what and on which premises, and whose word stands (D36, D38)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.server.services import retention
from batonpass.testing.clock import ManualClock
from batonpass.testing.incidents import CLAIM, R, Scene, incidents
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

STATUS: Final = f"{R}/fields/status"


@pytest.fixture
async def scene(server: InProcessServer, database_url: str) -> Scene:
    return await incidents(server, database_url)


async def history(scene: Scene, query: str = "", who: str = "pat") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await scene.ask(who, "GET", f"{R}/history{query}"))["entries"]
    return found


async def test_history_tells_a_takeover_and_what_each_write_stood_on(scene: Scene, clock: ManualClock) -> None:
    first = await scene.ask("mill", "PUT", CLAIM, {})
    fence = {"kind": "fence", "field": "remediation", "version": first["version"]}
    await scene.ask("mill", "PUT", STATUS, {"value": "open", "based_on": [fence]})
    await scene.ask("mill", "PUT", CLAIM, {"renew": True})
    clock.advance(timedelta(seconds=301))
    await scene.ask("rival", "PUT", CLAIM, {})

    taken, put, claimed = [{**each, "at": ...} for each in await history(scene)]

    common = {"at": ...}
    assert taken == {
        **common,
        "n": 3,
        "author": "agent:agent-rival",
        "verb": "takeover",
        "field": "remediation",
        "version": 3,
        "record_version": 4,
        "took_over_from": "agent:agent-mill",
    }
    assert put == {
        **common,
        "n": 2,
        "author": "agent:agent-mill",
        "verb": "put",
        "field": "status",
        "version": 1,
        "record_version": 2,
        "based_on": [fence],
    }
    assert (claimed["n"], claimed["verb"], claimed["version"]) == (1, "claim", 1)


async def test_values_are_told_to_whom_asks_for_them(scene: Scene) -> None:
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})
    await scene.ask("mill", "PUT", CLAIM, {})

    plain, told = await history(scene), await history(scene, "?values=1")

    assert [each.get("value", ...) for each in plain] == [..., ...]
    assert [each.get("value", ...) for each in told] == [..., "open"]


async def test_history_is_read_page_by_page_past_what_one_may_not_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batonpass.server.services.record_history.SCANNED_MAX", 3)
    for place in range(4):
        await scene.ask("pat", "PUT", f"{R}/fields/secret", {"value": place})
        await scene.ask("mill", "PUT", f"{R}/fields/facts", {"value": place})

    async def walked(who: str, limit: int) -> tuple[list[int], int]:
        found, pages, before = [], 0, ""
        while True:
            page = await scene.ask(who, "GET", f"{R}/history?limit={limit}{before}")
            found += [each["n"] for each in page["entries"]]
            pages += 1
            if page["next"] is None:
                return found, pages
            before = f"&before={page['next']}"

    assert await walked("pat", 2) == ([8, 7, 6, 5, 4, 3, 2, 1], 4)
    assert (await walked("mill", 10))[0] == [8, 6, 4, 2]
    assert (await walked("reader", 10))[0] == []


async def test_blame_names_the_last_writer_of_every_field(scene: Scene, clock: ManualClock) -> None:
    await scene.ask("mill", "PUT", STATUS, {"value": "open"})
    await scene.ask("rival", "PUT", STATUS, {"value": "closed"})
    await scene.ask("mill", "POST", f"{R}/fields/actions", {"value": 1})
    held = await scene.ask("key", "PUT", CLAIM, {})
    clock.advance(timedelta(seconds=10))
    renewed = await scene.ask("key", "PUT", CLAIM, {"renew": True})

    blame = await scene.ask("pat", "GET", f"{R}/blame")
    await scene.ask("key", "PUT", CLAIM, {"lease_seconds": 0})
    released = (await scene.ask("pat", "GET", f"{R}/blame"))["fields"]["remediation"]
    field = await scene.ask("pat", "GET", f"{R}/fields/remediation")

    told = {name: (each["author"], each["verb"], each["n"], each["version"]) for name, each in blame["fields"].items()}
    assert told == {
        "status": ("agent:agent-rival", "put", 2, 2),
        "actions": ("agent:agent-mill", "append", 3, 1),
        "remediation": ("apikey:remediator/worker-1", "claim", 4, renewed["version"]),
    }
    assert blame["record_version"] == renewed["record_version"] == held["record_version"] + 1
    assert (released["author"], released["verb"]) == ("apikey:remediator/worker-1", "release")
    assert (field["author"], field["updated_at"], field["held"]) == (released["author"], released["updated_at"], False)
    assert "owner" not in field


async def test_a_task_shows_its_holder_in_force_and_lapsed(scene: Scene, clock: ManualClock) -> None:
    granted = await scene.ask("mill", "PUT", CLAIM, {})
    held = await scene.ask("rival", "GET", f"{R}/fields/remediation")
    clock.advance(timedelta(seconds=301))
    lapsed = await scene.ask("rival", "GET", f"{R}/fields/remediation")

    told = {name: held[name] for name in ("owner", "author", "lease_expires_at", "version", "epoch", "held")}
    assert told == {
        "owner": "agent:agent-mill",
        "author": "agent:agent-mill",
        "lease_expires_at": granted["lease_expires_at"],
        "version": 1,
        "epoch": 1,
        "held": True,
    }
    assert held["expires_in_ms"] == 300_000
    assert (lapsed["owner"], lapsed["held"], lapsed["expires_in_ms"]) == ("agent:agent-mill", False, 0)
    assert "value" not in held


async def test_history_is_kept_for_ever_unless_told_otherwise(scene: Scene, clock: ManualClock) -> None:
    for value in ("open", "closed"):
        await scene.ask("mill", "PUT", STATUS, {"value": value})
    clock.advance(timedelta(days=4000))
    await retention.sweep(scene.server.store)

    assert [each["n"] for each in await history(scene)] == [2, 1]


async def test_what_is_past_its_days_is_forgotten_but_for_the_last_word_on_each_field(
    scene: Scene, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batonpass.store.retention.ROWS_MAX", 2)
    for value in ("open", "closed", "open"):
        await scene.ask("mill", "PUT", STATUS, {"value": value})
    await scene.ask("rival", "PUT", f"{R}/fields/facts", {"value": 1})
    await scene.ask("mill", "PUT", CLAIM, {})
    await scene.ask("mill", "PUT", CLAIM, {"lease_seconds": 0})
    clock.advance(timedelta(days=20))
    await scene.ask("mill", "PUT", STATUS, {"value": "closed"})
    before = await scene.ask("pat", "GET", f"{R}/blame")

    await retention.sweep(scene.server.store, record_history=timedelta(days=10))

    assert [(each["n"], each["field"]) for each in await history(scene)] == [
        (7, "status"),
        (6, "remediation"),
        (4, "facts"),
    ]
    assert await scene.ask("pat", "GET", f"{R}/blame") == before
