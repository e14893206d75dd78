"""Runs over HTTP: who may tell of them, which copy stands, their logs and lists, and what is told in the feed (D39)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from batonpass.core.runs import LOG_BYTES_KEPT, RECORD_BYTES_MAX, RUNS_KEPT
from batonpass.server.services import retention
from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

RUN: Final = "/v1/runs/0b7c-run"


def record(**fields: object) -> dict[str, Any]:
    return {"record": {"agent": "agent-mill", "node_id": "task-a", "state": "running", "project": "mail", **fields}}


@pytest.fixture
async def pat(server: InProcessServer) -> str:
    """Return the token of the person whose agent the run's is."""
    return await server.add_person("Pat")


@pytest.fixture
async def mill(server: InProcessServer, pat: str) -> str:
    """Return the token of the run's agent."""
    return await server.add_agent("mill", token=pat)


async def test_a_record_is_kept_whole_and_read_by_anybody(server: InProcessServer, mill: str) -> None:
    sent = record(run_id="0b7c-run", usage={"input": 10**20}, of_a_newer_worker=[None, 1.5, "ü"])

    put = await server.ask("PUT", RUN, sent, token=mill)
    read = await server.ask("GET", RUN)

    assert put == {"run_id": "0b7c-run", "status": "created", "state": "running", "settled": False, "log_end": 0}
    assert read["record"] == sent["record"]
    assert (read["agent"], read["owner"], read["node_id"]) == ("agent-mill", "person-pat", "task-a")


async def test_a_settled_record_is_not_unsettled_by_an_older_copy(server: InProcessServer, mill: str) -> None:
    settled = record(state="done", attempt=1, contract_pending=False, terminal_state="reported")
    await server.ask("PUT", RUN, record(), token=mill)
    await server.ask("PUT", RUN, settled, token=mill)

    late = await server.ask("PUT", RUN, record(state="done", attempt=9), token=mill)
    again = await server.ask("PUT", RUN, settled, token=mill)

    assert (late["status"], late["state"], late["settled"]) == ("older", "done", True)
    assert again["status"] == "unchanged"
    assert (await server.ask("GET", RUN))["record"] == settled["record"]


async def test_the_feed_tells_when_a_run_comes_further_and_not_that_it_goes_on(
    server: InProcessServer, mill: str
) -> None:
    for fields in ({}, {"steps": 1}, {"steps": 2}, {"state": "failed"}):
        await server.ask("PUT", RUN, record(**fields), token=mill)

    events = (await server.ask("GET", "/v1/events?kind=run.changed"))["events"]

    assert [event["data"]["state"] for event in events] == ["running", "failed"]
    assert {(event["node"], event["project"], event["actor"]) for event in events} == {("task-a", "mail", "agent-mill")}


async def test_who_may_tell_of_a_run(server: InProcessServer, pat: str, mill: str) -> None:
    eve = await server.add_person("Eve")
    strangers = [eve, await server.add_agent("other", token=eve), await server.add_agent("sister", token=pat)]
    for token in (mill, pat, server.admin_token):
        assert (await server.send("PUT", RUN, record(), token=token)).status_code == 200
        assert (await server.send("POST", f"{RUN}/log", {"offset": 0, "text": "x"}, token=token)).status_code == 200
    for token in strangers:
        assert (await server.send("PUT", RUN, record(), token=token)).status_code == 403
        assert (await server.send("POST", f"{RUN}/log", {"offset": 1, "text": "y"}, token=token)).status_code == 403
    stolen = await server.send("PUT", RUN, record(agent="agent-other"), token=strangers[1])
    unknown = await server.send("PUT", "/v1/runs/new", record(agent="agent-nobody"), token=server.admin_token)

    assert (stolen.status_code, unknown.status_code) == (422, 422)
    assert (await server.ask("GET", f"{RUN}/log"))["text"] == "x"


async def test_a_run_tells_nothing_of_itself(server: InProcessServer, mill: str) -> None:
    """A child that could would silence its log from a far offset on, or freeze its record with a late attempt."""
    await server.ask("POST", "/v1/nodes", {"nodes": [{"id": "task-a", "type": "task", "title": "A", "summary": "A"}]})
    lease = (await server.ask("POST", "/v1/nodes/task-a/claim", {"dispatch": "n1"}, token=mill))["lease"]
    wish = {"lease": {"node": "task-a", "epoch": lease["epoch"]}}
    run = (await server.ask("POST", "/v1/agents/agent-mill/token", wish, token=mill))["token"]
    own = record(epoch=lease["epoch"])
    await server.ask("PUT", RUN, own, token=mill)

    judged = await server.send("PUT", RUN, record(epoch=lease["epoch"], attempt=10**6), token=run)
    silenced = await server.send("POST", f"{RUN}/log", {"offset": 10**15, "text": "x"}, token=run)
    await server.ask("POST", f"{RUN}/log", {"offset": 0, "text": "what it printed"}, token=mill)

    assert (judged.status_code, silenced.status_code) == (403, 403)
    assert "tells nothing of itself" in judged.text
    assert (await server.ask("GET", RUN))["record"] == own["record"]
    assert (await server.ask("GET", f"{RUN}/log"))["text"] == "what it printed"


async def test_a_run_never_gets_another_item_by_way_of_none(server: InProcessServer, mill: str) -> None:
    await server.ask("PUT", RUN, record(epoch=1), token=mill)

    dropped = await server.ask("PUT", RUN, record(node_id=None, epoch=None, state="done"), token=mill)

    assert (dropped["status"], dropped["state"]) == ("older", "running")
    assert (await server.ask("GET", RUN))["node_id"] == "task-a"


async def test_a_record_that_is_too_long_is_refused_and_nothing_kept(server: InProcessServer, mill: str) -> None:
    refused = await server.send("PUT", RUN, record(name="x" * RECORD_BYTES_MAX), token=mill)

    assert (refused.status_code, f"limit is {RECORD_BYTES_MAX} bytes" in refused.text) == (422, True)
    assert (await server.send("GET", RUN)).status_code == 404


async def test_a_log_is_sent_again_at_will_and_a_gap_is_told(server: InProcessServer, mill: str) -> None:
    await server.ask("PUT", RUN, record(), token=mill)

    async def send(offset: int, text: str) -> dict[str, Any]:
        answer: dict[str, Any] = await server.ask("POST", f"{RUN}/log", {"offset": offset, "text": text}, token=mill)
        del answer["run_id"]
        return answer

    assert await send(0, "one\n") == {"status": "appended", "end": 4}
    assert await send(0, "one\n") == {"status": "unchanged", "end": 4}
    assert await send(2, "e\ntwo\n") == {"status": "appended", "end": 8}
    assert await send(20, "tail") == {"status": "appended", "end": 24, "gap": {"offset": 8, "until": 20}}
    read = await server.ask("GET", f"{RUN}/log")
    assert (read["start"], read["end"], read["text"]) == (0, 24, "one\ntwo\ntail")
    assert read["gaps"] == [{"offset": 8, "until": 20}]
    assert (await server.ask("PUT", RUN, record(), token=mill))["log_end"] == 24


async def test_of_a_log_the_last_256_kib_are_kept(server: InProcessServer, mill: str) -> None:
    await server.ask("PUT", RUN, record(), token=mill)
    for i, letter in enumerate("abc"):
        stretch = {"offset": i * LOG_BYTES_KEPT, "text": letter * LOG_BYTES_KEPT}
        await server.ask("POST", f"{RUN}/log", stretch, token=mill)
    await server.ask("POST", f"{RUN}/log", {"offset": 3 * LOG_BYTES_KEPT, "text": "d"}, token=mill)
    longer = await server.send("POST", f"{RUN}/log", {"offset": 0, "text": "x" * (LOG_BYTES_KEPT + 1)}, token=mill)

    read = await server.ask("GET", f"{RUN}/log")

    assert (read["text"][:1], read["text"][-1:], len(read["text"])) == ("c", "d", LOG_BYTES_KEPT)
    assert (read["start"], read["end"]) == (2 * LOG_BYTES_KEPT + 1, 3 * LOG_BYTES_KEPT + 1)
    assert longer.status_code == 422


async def test_a_log_comes_after_its_record(server: InProcessServer, mill: str) -> None:
    refused = await server.send("POST", f"{RUN}/log", {"offset": 0, "text": "x"}, token=mill)

    assert (refused.status_code, "its record comes first" in refused.text) == (404, True)
    assert (await server.send("GET", f"{RUN}/log")).status_code == 404


async def test_the_fleets_runs_are_listed_newest_first_by_page_and_by_what_they_are(
    server: InProcessServer, mill: str, clock: ManualClock
) -> None:
    for i in range(5):
        fields = {"node_id": f"task-{i % 2}", "state": "done" if i == 4 else "running", "project": None}
        await server.ask("PUT", f"/v1/runs/run-{i}", record(**fields), token=mill)
        clock.advance(timedelta(seconds=i % 2))

    async def ids(query: str) -> list[str]:
        return [run["run_id"] for run in (await server.ask("GET", f"/v1/runs?{query}"))["runs"]]

    first = await server.ask("GET", "/v1/runs?limit=2")
    rest = await server.ask("GET", f"/v1/runs?limit=9&after={first['next']}")
    assert [run["run_id"] for page in (first, rest) for run in page["runs"]] == [f"run-{i}" for i in (4, 3, 2, 1, 0)]
    assert rest["next"] is None
    assert await ids("node=task-1") == ["run-3", "run-1"]
    assert await ids("state=done") == ["run-4"]
    assert await ids("agent=agent-other") == []
    assert await ids("project=mail") == []


async def test_a_run_is_kept_for_two_weeks_after_it_was_heard_of(
    server: InProcessServer, mill: str, clock: ManualClock
) -> None:
    for run in (RUN, "/v1/runs/quiet"):
        await server.ask("PUT", run, record(), token=mill)
        await server.ask("POST", f"{run}/log", {"offset": 0, "text": "x"}, token=mill)
    clock.advance(RUNS_KEPT - timedelta(hours=1))
    await server.ask("PUT", RUN, record(), token=mill)
    clock.advance(timedelta(hours=2))

    await retention.sweep(server.store)

    assert [run["run_id"] for run in (await server.ask("GET", "/v1/runs"))["runs"]] == ["0b7c-run"]
    assert (await server.ask("GET", f"{RUN}/log"))["text"] == "x"
