"""Why an item is or isn't taken: every reason, each with its way out (D41)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.server.test_eligibility import node, put

from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def why(server: InProcessServer, name: str, **kwargs: Any) -> Any:  # noqa: ANN401 — JSON
    return await server.ask("GET", f"/v1/nodes/{name}/why", **kwargs)


def codes(said: Any) -> list[str]:  # noqa: ANN401 — JSON
    return [reason["code"] for reason in said["reasons"]]


def says(said: Any, code: str) -> tuple[str, str | None]:  # noqa: ANN401 — JSON
    (reason,) = [one for one in said["reasons"] if one["code"] == code]
    return reason["says"], reason.get("way_out")


async def test_what_an_agent_would_be_given_says_who_consented(server: InProcessServer) -> None:
    seven = await server.add_agent("seven")
    await put(server, node("a"), node("raw"))
    await server.ask("POST", "/v1/nodes/task-a/readiness", {"readiness": "agent"})

    ready, raw = await why(server, "task-a", token=seven), await why(server, "task-raw", token=seven)

    assert (ready["taken"], codes(ready), ready["item"]["suggest"]) == (
        {"ready": True, "open": True},
        ["consent"],
        "dispatch",
    )
    assert says(ready, "consent")[0].startswith("for agents: marked ready by Ada Admin")
    assert (raw["taken"], codes(raw)) == ({"ready": False, "open": True}, ["untriaged"])
    assert says(raw, "untriaged")[1] == "a person says so: baton ready task-raw"


async def test_each_obstacle_is_named_with_its_way_out(server: InProcessServer) -> None:
    seven = await server.add_agent("seven")
    await put(
        server,
        node("mail", "repo", status="archived"),
        node("a", project="mail", wake="2027-01-01", requires=["human"], execution="pipelines/r1"),
        node("b", "task", ("blocks", "task-a"), ("assigned", "agent-nine")),
        node("q", "question", ("mentions", "task-a")),
    )
    await server.ask("PUT", "/v1/policy/mail", {"paused": "incident 7"})

    said = await why(server, "task-a", token=seven)

    assert "item" not in said
    assert said["taken"] == {"ready": False, "open": False}
    assert codes(said) == ["gating", "archived", "dormant", "blocked", "human", "human", "paused"]
    assert says(said, "blocked") == ("blocked by task-b", "finish task-b, or baton unlink task-b blocks task-a")
    assert says(said, "dormant") == ("asleep until 2027-01-01", "wait, or baton edit task-a --set wake=")
    assert says(said, "paused") == ("claims are paused: incident 7", "an admin resumes: baton resume --project mail")
    human = [reason["way_out"] for reason in said["reasons"] if reason["code"] == "human"]
    assert human == ["baton edit task-a --set requires=", "baton answer question-q TEXT"]


async def test_whose_lease_is_in_the_way_and_whose_is_over(server: InProcessServer, clock: ManualClock) -> None:
    seven, ben = await server.add_agent("seven"), await server.add_person("Ben")
    await put(server, node("a"))
    await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=seven)

    theirs, mine = await why(server, "task-a", token=ben), await why(server, "task-a", token=seven)
    assert (says(theirs, "leased")[1], says(mine, "leased")[1]) == (
        "wait, or baton take task-a --reason WHY",
        "baton release task-a",
    )
    assert says(theirs, "leased")[0].startswith("held by seven until ")

    clock.advance(timedelta(hours=1))
    lapsed = await why(server, "task-a", token=ben)
    assert (codes(lapsed), lapsed["taken"]["open"]) == (["lapsed", "untriaged"], True)
    await server.ask("POST", "/v1/nodes/task-a/reserve", {}, token=seven)
    assert codes(await why(server, "task-a", token=ben)) == ["reserved", "untriaged"]


@pytest.mark.parametrize(
    "ending, says_",
    [
        (node("d", "decision", ("resolves", "task-a")), "resolved by dec-d"),
        (node("b", "task", ("supersedes", "task-a")), "superseded by task-b"),
    ],
)
async def test_what_is_done_says_by_what(server: InProcessServer, ending: dict[str, object], says_: str) -> None:
    await put(server, node("a"))
    await put(server, ending)

    said = await why(server, "task-a")

    assert (codes(said), said["reasons"][0]["says"]) == (["done"], says_)


async def test_what_an_agent_has_said_is_no_consent_and_says_what_would_be(server: InProcessServer) -> None:
    seven, _ = await server.add_agent("seven"), await server.add_agent("nine")
    await put(server, node("a", "task", ("assigned", "agent-nine"), readiness="agent"), token=seven)

    said = await why(server, "task-a", token=seven)

    assert codes(said) == ["untriaged", "consent", "consent", "routed"]
    assert says(said, "routed")[1] == "baton unlink task-a assigned agent-nine"


async def test_what_is_no_item_says_so(server: InProcessServer) -> None:
    await put(server, node("d", "decision"), node("w", "workflow"))

    assert codes(await why(server, "dec-d")) == ["no_item"]
    assert codes(await why(server, "workflow-w"))[0] == "no_work"
    assert (await server.send("GET", "/v1/nodes/task-none/why")).status_code == 404


@pytest.mark.parametrize("limit", [1])
async def test_who_holds_too_much_is_told_so(server: InProcessServer, limit: int) -> None:
    await server.ask("PUT", "/v1/policy/*", {"max_claims": limit})
    seven = await server.add_agent("seven")
    await put(server, node("a"), node("b"))
    await server.ask("POST", "/v1/nodes/task-a/claim", {}, token=seven)

    said = await why(server, "task-b", token=seven)

    assert (said["taken"]["open"], codes(said)) == (False, ["untriaged", "too_many_claims"])
