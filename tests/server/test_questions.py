"""Questions through the API: where they go, what waits for them, what answers them, and what is refused."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from batonpass.testing.points import held
from batonpass.testing.server import InProcessServer, in_process_server
from batonpass.testing.waits import until_blocked

pytestmark = pytest.mark.anyio

TOGETHER = 6


async def put(server: InProcessServer, *nodes: dict[str, object], token: str | None = None) -> None:
    """Put nodes that need nothing but an id and a type."""
    entries = [{"title": f"About {node['id']}", "summary": "S", "date": "2026-06-01", **node} for node in nodes]
    results = (await server.ask("POST", "/v1/nodes", {"nodes": entries}, token=token))["results"]
    assert all(result["ok"] for result in results), results


def task(id_: str, **rest: object) -> dict[str, object]:
    return {"id": id_, "type": "task", **rest}


async def ask(server: InProcessServer, text: str, *, token: str | None = None, **rest: object) -> Any:  # noqa: ANN401
    return await server.ask("POST", "/v1/questions", {"text": text, **rest}, token=token)


async def shown(server: InProcessServer, node: str) -> Any:  # noqa: ANN401 — a reply as JSON
    return await server.ask("GET", f"/v1/nodes/{node}")


async def test_a_question_is_a_node_with_what_it_mentions_and_whom_it_goes_to(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    await put(server, task("task-a", project="mail"), token=pat)

    reply = await ask(server, "Which port?\n\nThe unit file says 80.", mentions=["task-a"])
    node = await shown(server, "question-which-port")

    revision = reply.pop("revision")
    assert reply == {
        "status": "created",
        "id": "question-which-port",
        "project": "mail",
        "routed_to": "person-pat",
        "via": "author",
        "asker": "person-ada-admin",
        "warnings": [],
    }
    front = node["frontmatter"]
    assert node["revision"] == revision
    assert {key: front[key] for key in ("type", "title", "summary", "status", "project", "author")} == {
        "type": "question",
        "title": "Which port?",
        "summary": "Which port? The unit file says 80.",
        "status": "open",
        "project": "mail",
        "author": "person-ada-admin",
    }
    assert front["edges"] == [{"type": "mentions", "to": "task-a"}, {"type": "routed-to", "to": "person-pat"}]
    assert node["body"] == "Which port?\n\nThe unit file says 80."


async def run_on(server: InProcessServer, node: str, *, token: str | None = None) -> str:
    """Return the text of a run token for a new tenure of ``agent-mill`` on `node`."""
    agent = await server.add_agent("mill", token=token)
    lease = (await server.ask("POST", f"/v1/nodes/{node}/claim", {}, token=agent))["lease"]
    tenure = {"lease": {"node": node, "epoch": lease["epoch"]}}
    return str((await server.ask("POST", "/v1/agents/agent-mill/token", tenure, token=agent))["token"])


async def item(server: InProcessServer, node: str) -> Any:  # noqa: ANN401 — a reply as JSON
    found = (await server.ask("GET", "/v1/queue?include_blocked=1"))["items"]
    return next(each for each in found if each["id"] == node)


async def test_the_stewards_of_a_repository_are_asked_before_those_of_what_groups_it(server: InProcessServer) -> None:
    await server.add_person("Pat")
    await server.add_person("Sue")
    grouping: dict[str, object] = {"id": "proj-all", "type": "project"}
    grouped = [{"type": "grouped-under", "to": "proj-all"}]
    await put(server, grouping, {"id": "repo-mail", "type": "repo", "edges": grouped}, task("task-a", project="mail"))
    await server.ask("POST", "/v1/nodes/person-pat/edges", {"type": "stewards", "to": "proj-all"})

    first = await ask(server, "Which port?", mentions=["task-a"])
    await server.ask("POST", "/v1/nodes/person-sue/edges", {"type": "stewards", "to": "repo-mail"})
    second = await ask(server, "Which host?", project="mail")

    assert (first["routed_to"], first["via"]) == ("person-pat", "steward")
    assert (second["routed_to"], second["via"], second["project"]) == ("person-sue", "steward", "mail")


async def test_what_a_run_asks_is_about_its_own_node_which_waits_for_the_answer(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    await put(server, task("task-a", project="mail", readiness="agent"), token=pat)
    await put(server, task("task-b"), token=pat)
    run = await run_on(server, "task-a", token=pat)

    reply = await ask(server, "Which port?", token=run)
    front = (await shown(server, reply["id"]))["frontmatter"]
    await server.ask("POST", "/v1/nodes/task-a/release", {"reason": "It asks."})
    waiting = await item(server, "task-a")
    await server.ask("POST", f"/v1/questions/{reply['id']}/answer", {"text": "8080."}, token=pat)
    ready = await item(server, "task-a")

    assert (reply["asker"], reply["project"], reply["routed_to"], reply["via"]) == (
        "agent-mill",
        "mail",
        "person-pat",
        "author",
    )
    assert {"type": "mentions", "to": "task-a"} in front["edges"]
    assert (front["author"], front["authored_by_agent"], front["authored_via"]) == (
        "person-pat",
        "agent-mill",
        "dispatch",
    )
    assert (waiting["readiness"], waiting["readiness_reasons"]) == (
        "human",
        [f"open question {reply['id']} in neighborhood"],
    )
    assert ready["readiness"] == "agent"


async def test_a_session_asks_about_the_one_node_it_holds(server: InProcessServer) -> None:
    """Pitfall 44: such a question belongs to the session's project and not to its asker's."""
    await put(server, task("task-a", project="mail"), task("task-b", project="web"))
    agent = await server.add_agent("mill", session="s-1")
    await server.ask("POST", "/v1/nodes/task-a/claim", {"session": "s-1"}, token=agent)
    await server.ask("POST", "/v1/nodes/task-b/claim", {"session": "s-2"}, token=agent)

    one = await ask(server, "Which port?", token=agent)
    await server.ask("POST", "/v1/nodes/task-b/claim", {"session": "s-1"}, token=agent)
    two = await ask(server, "Which host?", token=agent)

    assert one["project"] == "mail"
    assert {"type": "mentions", "to": "task-a"} in (await shown(server, one["id"]))["frontmatter"]["edges"]
    assert two["project"] is None


async def test_what_a_question_blocks_is_out_of_the_queue_until_there_is_an_answer(server: InProcessServer) -> None:
    await put(server, task("task-a"))
    reply = await ask(server, "Which port?", blocks=["task-a"])
    blocked = await item(server, "task-a")
    await server.ask("POST", f"/v1/questions/{reply['id']}/answer", {"text": "8080."})

    assert (blocked["suggest"], blocked["blocked_by"]) == ("blocked", [reply["id"]])
    assert (await item(server, "task-a"))["suggest"] == "do"


REFUSED: tuple[tuple[dict[str, object], int, str], ...] = (
    ({"text": "Q?", "mentions": ["task-x", "task-a", "task-y"]}, 404, "mentions: there is no node task-x, task-y"),
    ({"text": "Q?", "blocks": ["task-x"]}, 404, "blocks: there is no node task-x"),
    ({"text": "Q?", "to": "person-nobody"}, 404, "to: there is no node person-nobody"),
    ({"text": "Q?", "project": "Not a slug"}, 400, "project: "),
    ({"text": "Q?", "project": ""}, 400, "project: "),
    ({"text": "Q?", "to": "agent-mill"}, 422, "to: "),
    ({"text": "Q?", "mentions": ["Task-a"]}, 422, "mentions[0]: "),
    ({"text": "Q?", "mentions": [7]}, 422, "mentions[0]: must be a string, not a number"),
    ({"text": "Q?", "mentions": [f"task-{n}" for n in range(41)]}, 422, "mentions: 41 ids; the limit is 40"),
    ({"text": "Q?", "based_on": [{"kind": "read"}]}, 400, "based_on[0]: "),
    ({"text": "Q?", "title": "x" * 301}, 422, "title: 301 code points; the limit is 300"),
    ({"text": "<your question>"}, 422, "is a template's placeholder"),
    ({"text": "TODO"}, 422, "is a template's placeholder"),
    ({"text": "Which port?", "title": "…"}, 422, "is a template's placeholder"),
    ({"text": " \n"}, 422, "text: required"),
    ({"text": "x" * 8193}, 422, "text: 8193 bytes; the limit is 8192 bytes; file the rest as a node of its own"),
    ({"text": None}, 422, "text: "),
    ({}, 422, "text: "),
)


async def test_what_is_no_question_is_refused_by_name_and_nothing_is_filed(server: InProcessServer) -> None:
    await put(server, task("task-a"))

    for body, status, words in REFUSED:
        refused = await server.send("POST", "/v1/questions", body)
        assert (refused.status_code, words in refused.json()["error"]["message"]) == (status, True), refused.text

    assert (await server.ask("GET", "/v1/nodes?type=question"))["count"] == 0


async def test_who_asks_is_who_the_token_says(server: InProcessServer) -> None:
    reply = await ask(server, "Which port?", author="person-eve", asker="person-eve")

    assert reply["asker"] == "person-ada-admin"
    assert reply["warnings"] == [
        "author: not a field of this request; ignored",
        "asker: not a field of this request; ignored",
    ]
    assert (await shown(server, reply["id"]))["frontmatter"]["author"] == "person-ada-admin"


async def test_questions_of_one_title_that_come_together_get_an_id_each(server: InProcessServer) -> None:
    replies = await asyncio.gather(*(ask(server, f"Which port?\n\n{n}") for n in range(TOGETHER)))

    ids = ["question-which-port", *(f"question-which-port-{n}" for n in range(2, TOGETHER + 1))]
    assert sorted(reply["id"] for reply in replies) == ids


async def test_who_asks_while_a_question_of_that_title_is_being_written_waits_and_gets_the_next_id(
    postgres_url: str,
) -> None:
    """PostgreSQL only: on SQLite nobody writes beside another. The first was put by hand, under no stem's lock."""
    by_hand = {"id": "question-which-port", "type": "question", "title": "Which port?", "summary": "Which?"}
    async with in_process_server(postgres_url) as server, asyncio.TaskGroup() as group:
        async with held("edge.written") as door:
            first = group.create_task(server.ask("POST", "/v1/nodes", {"nodes": [by_hand]}))
            await door.reached()
            second = group.create_task(ask(server, "Which port?"))
            third = group.create_task(ask(server, "Which port?"))
            await until_blocked(postgres_url, sessions=2)
            door.open()
        assert (await first)["results"][0]["status"] == "created"
        assert {(await second)["id"], (await third)["id"]} == {"question-which-port-2", "question-which-port-3"}


async def test_an_answer_is_a_decision_that_ends_the_question_and_leaves_it_its_asker(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    asked = await ask(server, "Which port?", project="mail")

    reply = await server.ask(
        "POST", f"/v1/questions/{asked['id']}/answer", {"text": "8080.\n\n80 is taken.", "title": "8080"}, token=pat
    )
    answer, question = await shown(server, reply["id"]), await shown(server, asked["id"])

    assert reply == {
        "status": "created",
        "id": "dec-answer-which-port",
        "revision": answer["revision"],
        "question": asked["id"],
        "question_revision": question["revision"],
        "warnings": [],
    }
    front = answer["frontmatter"]
    assert (front["type"], front["title"], front["project"], front["author"], front["edges"]) == (
        "decision",
        "8080",
        "mail",
        "person-pat",
        [{"type": "answers", "to": asked["id"]}],
    )
    assert (question["frontmatter"]["status"], question["frontmatter"]["author"]) == ("answered", "person-ada-admin")
    assert (question["resolution"]["by"], question["resolution"]["lagging"]) == (reply["id"], False)


async def test_of_two_answers_that_come_together_one_stands(server: InProcessServer) -> None:
    question = (await ask(server, "Which port?"))["id"]
    path = f"/v1/questions/{question}/answer"

    sent = await asyncio.gather(*(server.send("POST", path, {"text": f"808{n}."}) for n in range(2)))

    assert sorted(each.status_code for each in sent) == [201, 409]
    refused = next(each for each in sent if each.status_code == 409)
    assert refused.json()["error"]["code"] == "conflict"
    assert (await server.ask("GET", f"/v1/nodes/{question}/edges?direction=in&type=answers"))["count"] == 1


NO_ANSWERS: tuple[tuple[str, dict[str, object], int, str], ...] = (
    ("task-a", {"text": "8080."}, 422, "task-a is a task, and only a question is answered"),
    ("question-x", {"text": "8080."}, 404, "question-x"),
    ("question-which-port", {"text": ""}, 422, "text: required"),
    ("question-which-port", {"text": "8080.", "status": "answered"}, 422, "status: not a field"),
    ("question-which-port", {"text": "8080.", "if_epoch": 7}, 409, "question-which-port"),
)


async def test_what_is_no_answer_is_refused(server: InProcessServer) -> None:
    await put(server, task("task-a"))
    await ask(server, "Which port?")

    for node, body, status, words in NO_ANSWERS:
        refused = await server.send("POST", f"/v1/questions/{node}/answer", body)
        assert (refused.status_code, words in refused.json()["error"]["message"]) == (status, True), refused.text

    assert (await shown(server, "question-which-port"))["frontmatter"]["status"] == "open"
    assert (await server.ask("GET", "/v1/nodes?type=decision"))["count"] == 0


async def test_a_question_that_is_sent_again_is_asked_once(server: InProcessServer) -> None:
    body = {"text": "Which port?"}
    first = await server.send("POST", "/v1/questions", body, headers={"Idempotency-Key": "k-1"})
    again = await server.send("POST", "/v1/questions", body, headers={"Idempotency-Key": "k-1"})

    assert (again.status_code, again.json(), again.headers["Idempotency-Replayed"]) == (201, first.json(), "true")
    assert (await server.ask("GET", "/v1/nodes?type=question"))["count"] == 1
