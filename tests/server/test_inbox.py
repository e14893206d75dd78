"""The inbox through the API: whose box a node is in, when it leaves it, and how a list is cut."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

BOXES = ("questions", "asked", "findings", "pending", "reviews")
NOBODYS: dict[str, list[str]] = {box: [] for box in BOXES}


async def put(server: InProcessServer, *nodes: dict[str, object], token: str | None = None) -> None:
    entries = [{"title": f"About {node['id']}", "summary": "S", "date": "2026-06-01", **node} for node in nodes]
    results = (await server.ask("POST", "/v1/nodes", {"nodes": entries}, token=token))["results"]
    assert all(result["ok"] for result in results), results


async def ask(server: InProcessServer, text: str, *, token: str | None = None, **rest: object) -> str:
    return str((await server.ask("POST", "/v1/questions", {"text": text, **rest}, token=token))["id"])


async def inbox(server: InProcessServer, *, token: str | None = None, query: str = "") -> dict[str, list[str]]:
    """Return the ids in each box."""
    found = await server.ask("GET", f"/v1/inbox{query}", token=token)
    return {box: [entry["id"] for entry in found[box]] for box in BOXES}


async def boxes_of(server: InProcessServer, *nodes: str, token: str | None = None) -> dict[str, list[str]]:
    """Return the boxes of the viewer in which any of `nodes` is, with those that are."""
    found = await inbox(server, token=token)
    return {box: kept for box, ids in found.items() if (kept := [node for node in ids if node in nodes])}


async def test_a_question_is_with_whom_it_was_routed_to_and_with_whom_asked_it(server: InProcessServer) -> None:
    pat, sue = await server.add_person("Pat"), await server.add_person("Sue")

    question = await ask(server, "Which port?", to="person-pat")

    assert await inbox(server, token=pat) == {**NOBODYS, "questions": [question]}
    assert await inbox(server) == {**NOBODYS, "asked": [question]}
    assert await inbox(server, token=sue) == NOBODYS


async def test_an_entry_says_what_it_is_about_whose_it_is_and_how_long_it_waits(
    server: InProcessServer, clock: ManualClock
) -> None:
    pat = await server.add_person("Pat")
    await server.add_agent("mill", token=pat)
    agent = await server.ask("POST", "/v1/agents/agent-mill/token", {"session": "s-1"}, token=pat)
    await ask(server, "Which port?", token=agent["token"], to="person-pat", project="mail")
    clock.advance(timedelta(days=3, hours=1))

    (entry,) = (await server.ask("GET", "/v1/inbox", token=pat))["questions"]

    at = entry.pop("at")
    assert at.endswith("+00:00")
    assert entry == {
        "id": "question-which-port",
        "title": "Which port?",
        "project": "mail",
        "by": "agent-mill",
        "age_days": 3,
        "routed_to": "person-pat",
    }


async def test_what_an_agent_asks_is_asked_by_its_person_and_an_agent_sees_its_persons_inbox(
    server: InProcessServer,
) -> None:
    pat = await server.add_person("Pat")
    agent = await server.add_agent("mill", token=pat, session="s-1")

    question = await ask(server, "Which port?", token=agent, to="person-ada-admin")

    assert await inbox(server, token=pat) == {**NOBODYS, "asked": [question]}
    assert await inbox(server, token=agent) == {**NOBODYS, "asked": [question]}


async def test_what_is_routed_to_nobody_is_in_everybodys_box_until_it_is(server: InProcessServer) -> None:
    pat, sue = await server.add_person("Pat"), await server.add_person("Sue")
    question = await ask(server, "Which port?")
    await put(server, {"id": "find-slow", "type": "finding"})
    capture = (await server.ask("POST", "/v1/capture", {"text": "The build is slow."}))["ids"][0]
    everybodys = {"questions": [question], "findings": ["find-slow"], "pending": [capture]}

    assert await boxes_of(server, question, "find-slow", capture, token=pat) == everybodys
    for node in (question, "find-slow", capture):
        await server.ask("POST", f"/v1/nodes/{node}/edges", {"type": "routed-to", "to": "person-sue"})

    assert await inbox(server, token=pat) == NOBODYS
    assert await boxes_of(server, question, "find-slow", capture, token=sue) == everybodys
    await server.ask("DELETE", "/v1/nodes/find-slow/edges", {"type": "routed-to", "to": "person-sue"})
    assert (await inbox(server, token=pat))["findings"] == ["find-slow"]


async def test_a_route_to_somebody_who_is_no_person_leaves_the_entry_with_everybody(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    await server.add_agent("mill", token=pat)
    edge = {"type": "routed-to", "to": "agent-mill"}
    await put(server, {"id": "find-slow", "type": "finding", "edges": [edge]})

    assert (await inbox(server, token=pat))["findings"] == ["find-slow"]


@pytest.mark.parametrize("end", ["answer", "status", "edge", "successor", "deletion"])
async def test_an_entry_ends_with_its_question_however_that_ends(server: InProcessServer, end: str) -> None:
    pat = await server.add_person("Pat")
    question = await ask(server, "Which port?", to="person-pat")
    match end:
        case "answer":
            await server.ask("POST", f"/v1/questions/{question}/answer", {"text": "8080."}, token=pat)
        case "status":
            await server.ask("POST", f"/v1/nodes/{question}/status", {"status": "answered"})
        case "edge":
            edge = {"type": "answers", "to": question}
            await put(server, {"id": "dec-port", "type": "decision", "edges": [edge]})
        case "successor":
            edge = {"type": "supersedes", "to": question}
            await put(server, {"id": "question-better", "type": "question", "edges": [edge], "status": "answered"})
        case _:
            await server.ask("DELETE", f"/v1/nodes/{question}", {"reason": "A slip."})

    assert await inbox(server, token=pat) == NOBODYS
    assert await inbox(server) == NOBODYS


async def test_a_question_whose_answer_is_taken_back_waits_again(server: InProcessServer) -> None:
    question = await ask(server, "Which port?")
    await server.ask("POST", f"/v1/questions/{question}/answer", {"text": "8080."})
    await server.ask("POST", f"/v1/nodes/{question}/status", {"status": "open"})
    assert await inbox(server) == NOBODYS

    await server.ask("DELETE", "/v1/nodes/dec-answer-which-port/edges", {"type": "answers", "to": question})

    assert await inbox(server) == {**NOBODYS, "questions": [question], "asked": [question]}


async def test_reviews_are_requests_to_the_viewer_that_nobody_has_met_yet(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    edges = [{"type": "review-requested", "to": "person-pat"}]
    await put(
        server,
        {"id": "art-plan", "type": "artifact", "edges": edges, "status": "in-review"},
        {"id": "task-a", "type": "task", "edges": edges},
        {"id": "art-old", "type": "artifact", "edges": edges, "status": "merged"},
    )

    assert await inbox(server, token=pat) == {**NOBODYS, "reviews": ["art-plan", "task-a"]}
    assert (await inbox(server))["reviews"] == []
    await server.ask("POST", "/v1/nodes/art-plan/edges", {"type": "reviewed-by", "to": "person-pat"})
    assert (await inbox(server, token=pat))["reviews"] == ["task-a"]


async def test_a_list_begins_with_what_waits_longest_and_says_where_it_was_cut(
    server: InProcessServer, clock: ManualClock
) -> None:
    asked = []
    for n in range(4):
        asked.append(await ask(server, f"Number {n}?", **({"to": "person-ada-admin"} if n % 2 else {})))
        clock.advance(timedelta(minutes=1))

    cut: Any = await server.ask("GET", "/v1/inbox?limit=3")
    whole = await server.ask("GET", "/v1/inbox?limit=4")

    assert [entry["id"] for entry in cut["questions"]] == asked[:3]
    assert [entry["routed_to"] for entry in cut["questions"]] == [None, "person-ada-admin", None]
    assert cut["truncated"] == ["questions", "asked"]
    assert [entry["id"] for entry in whole["questions"]] == asked
    assert whole["truncated"] == []


async def test_what_an_edge_has_resolved_hides_nothing_behind_it(server: InProcessServer) -> None:
    """Resolved entries whose status lags stand before those that wait: more of them than one look takes."""
    lagging: list[dict[str, object]] = [{"id": f"find-{n}", "type": "finding"} for n in range(8)]
    edges = [{"type": "resolves", "to": str(each["id"])} for each in lagging]
    await put(server, *lagging, {"id": "find-waits", "type": "finding"})
    await put(server, {"id": "dec-all", "type": "decision", "edges": edges})

    assert (await inbox(server, query="?limit=2"))["findings"] == ["find-waits"]
    found = await server.ask("GET", "/v1/inbox?limit=2")
    assert found["truncated"] == []


async def test_a_limit_that_is_none_is_refused(server: InProcessServer) -> None:
    for limit in ("0", "-1", "x", "1.5"):
        refused = await server.send("GET", f"/v1/inbox?limit={limit}")

        assert refused.status_code == 422
        assert refused.json()["error"]["message"].startswith("limit: ")


async def test_a_persons_first_page_of_the_queue_brings_the_inbox_along(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    question = await ask(server, "Which port?", to="person-pat")
    await ask(server, "Which host?")

    page = await server.ask("GET", "/v1/queue", token=pat)
    inbox_alone = await server.ask("GET", "/v1/inbox", token=pat)

    assert {box: page[box] for box in BOXES} == {box: inbox_alone[box] for box in BOXES}
    assert [entry["id"] for entry in page["questions"]] == ["question-which-host", question]
    assert "inbox_truncated" not in page


async def test_a_poller_and_who_pages_on_pay_for_no_inbox_unless_they_ask(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    agent = await server.add_agent("mill", token=pat)
    await ask(server, "Which port?", to="person-pat")

    async def brings(query: str, token: str) -> bool:
        return "questions" in await server.ask("GET", f"/v1/queue{query}", token=token)

    assert [await brings(query, agent) for query in ("", "?offset=1", "?inbox=1")] == [False, False, True]
    assert [await brings(query, pat) for query in ("", "?offset=1", "?inbox=0")] == [True, False, False]
    refused = await server.send("GET", "/v1/queue?inbox=maybe", token=pat)
    assert (refused.status_code, refused.json()["error"]["message"]) == (422, "inbox: takes 1 or 0")


async def test_a_queues_inbox_names_the_lists_that_go_on(server: InProcessServer) -> None:
    findings: list[dict[str, object]] = [{"id": f"find-{n:02}", "type": "finding"} for n in range(21)]
    await put(server, *findings)

    page = await server.ask("GET", "/v1/queue")

    assert (len(page["findings"]), page["inbox_truncated"]) == (20, ["findings"])
