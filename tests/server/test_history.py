"""What became of a node: its history page by page, every revision as it was, and texts taken out of it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from batonpass.core.history import REDACTED
from batonpass.core.ids import Instant, NodeId
from batonpass.server.services.history import STAYS
from batonpass.store import history
from batonpass.store.base import SYSTEM, Fences, q
from batonpass.store.history import Written
from batonpass.store.open import sqlite_path
from batonpass.testing.clock import ManualClock
from batonpass.testing.populated import contents
from batonpass.testing.server import InProcessServer, in_process_server

pytestmark = pytest.mark.anyio

SECRET: Final = "hunter2-is-no-password"
WORD: Final = "hunter2qzxv"
TASK: Final = "/v1/nodes/task-a"


def task(**keys: object) -> dict[str, object]:
    return {"id": "task-a", "type": "task", "title": "About a", "summary": "In short", "date": "2026-05-01", **keys}


async def put(server: InProcessServer, *, token: str | None = None, revision: str | None = None, **keys: object) -> str:
    """Write task-a, over what it is if there is one, and return the revision."""
    entry = task(**keys) if revision is None else {"node": task(**keys), "if_exists": "update", "revision": revision}
    (result,) = (await server.ask("POST", "/v1/nodes", {"nodes": [entry]}, token=token))["results"]
    return str(result["revision"])


async def written(server: InProcessServer, *bodies: str) -> list[str]:
    """Write task-a with one body after the other, and return the revisions."""
    revisions: list[str] = []
    for body in bodies:
        revisions.append(await put(server, revision=revisions[-1] if revisions else None, body=body))
    return revisions


async def entries(server: InProcessServer, **query: object) -> list[Any]:
    asked = "&".join(f"{name}={value}" for name, value in query.items())
    found: list[Any] = (await server.ask("GET", f"{TASK}/history?{asked}"))["entries"]
    return found


async def test_each_verb_leaves_an_entry_that_says_who_when_and_how(server: InProcessServer) -> None:
    pat = await server.add_person("Pat")
    mill = await server.add_agent("mill", token=pat, session="s-1")
    first = await put(server)
    status = (await server.ask("POST", f"{TASK}/status", {"status": "open"}, token=pat))["revision"]
    commit = await server.ask("POST", f"{TASK}/commits", {"repo": "web", "sha": "abcdef1"}, token=mill)
    await server.ask("POST", f"{TASK}/claim", {}, token=mill)  # no lease verb writes history

    newest, middle, oldest = await entries(server)

    assert newest == {
        "n": 3,
        "revision": commit["revision"],
        "verb": "commit",
        "at": "2026-06-01T12:00:00.000+00:00",
        "author": "person-pat",
        "agent": "agent-mill",
        "session": "s-1",
        "via": "rest",
    }
    assert [(each["n"], each["verb"], each["revision"], each["author"]) for each in (middle, oldest)] == [
        (2, "status", status, "person-pat"),
        (1, "put", first, "person-ada-admin"),
    ]


async def test_pages_together_are_the_whole_history_each_entry_once(server: InProcessServer) -> None:
    revisions = await written(server, *(f"text {i}" for i in range(7)))

    pages, before = [], ""
    while True:
        page = await server.ask("GET", f"{TASK}/history?limit=3{before}")
        pages.append([entry["revision"] for entry in page["entries"]])
        assert page["count"] == len(page["entries"])
        if page["next"] is None:
            break
        before = f"&before={page['next']}"

    assert [len(page) for page in pages] == [3, 3, 1]
    assert [revision for page in pages for revision in page] == revisions[::-1]


async def test_a_page_has_50_entries_unless_asked_and_never_more_than_200(server: InProcessServer) -> None:
    await put(server)
    for i in range(205):
        await server.ask("POST", f"{TASK}/priority", {"priority": ("p1", "p2")[i % 2]})

    lengths = [len(await entries(server, **asked)) for asked in ({}, {"limit": 1000}, {"limit": 1000, "content": 1})]

    assert lengths == [50, 200, 50]


async def test_a_revision_is_read_as_it_was_and_named_by_its_first_digits(server: InProcessServer) -> None:
    first, second = await written(server, "one", "two")
    whole = await server.ask("GET", f"{TASK}/history/{first}")
    short = await server.ask("GET", f"{TASK}/history/{second[:8]}")

    assert whole["raw"].endswith("---\n\none\n")
    assert (whole["n"], whole["verb"], whole["revision"]) == (1, "put", first)
    assert "redacted" not in whole
    assert (short["revision"], short["raw"].splitlines()[-1]) == (second, "two")
    assert [each["raw"] for each in await entries(server, content=1)] == [short["raw"], whole["raw"]]


async def test_a_revision_that_the_node_came_back_to_is_told_by_its_last_time(server: InProcessServer) -> None:
    revisions = await written(server, "one", "two", "one")

    assert revisions[0] == revisions[2]
    assert (await server.ask("GET", f"{TASK}/history/{revisions[0]}"))["n"] == 3


async def test_a_prefix_that_begins_several_revisions_is_refused_naming_them(server: InProcessServer) -> None:
    revisions = await written(server, "one", "two")
    twins = [f"{revisions[0][:8]}{digit * 32}" for digit in "ab"]
    async with server.store.write(SYSTEM, Fences()) as tx:
        for twin in twins:
            history.add(tx, NodeId("task-a"), twin, Written("put", "x"), by=SYSTEM, via="rest", at=Instant(1))

    refused = await server.send("GET", f"{TASK}/history/{revisions[0][:8]}")
    exact = await server.send("GET", f"{TASK}/history/{twins[0]}")

    assert (refused.status_code, exact.status_code) == (422, 200)
    assert refused.json()["error"]["details"] == sorted([revisions[0], *twins])


@pytest.mark.parametrize("sha", ["abcdef1", "ABCDEF12", "xyzxyzxy", "a" * 41])
async def test_what_is_no_revision_is_refused_and_what_is_none_of_the_nodes_not_found(
    server: InProcessServer, sha: str
) -> None:
    await put(server)

    refused = await server.send("GET", f"{TASK}/history/{sha}")
    missing = await server.send("GET", f"{TASK}/history/{'0' * 8}")

    assert refused.status_code == 422
    assert "8 to 40 lower-case hex digits" in refused.json()["error"]["message"]
    assert missing.status_code == 404
    assert "GET /v1/nodes/task-a/history lists them" in missing.json()["error"]["message"]


# --- redaction -------------------------------------------------------------------------------------------------------


async def redact(server: InProcessServer, revision: str, *, token: str | None = None) -> Any:  # noqa: ANN401 — JSON
    body = {"revision": revision, "reason": "a password"}
    return await server.send("POST", f"{TASK}/redact", body, token=token)


async def test_a_redacted_text_is_nowhere_in_the_database_and_the_act_is(
    server: InProcessServer, database_url: str
) -> None:
    """No row of a table has it: of the history, the feed, replies kept for repetition, the words that are searched.

    Pages that PostgreSQL has freed are another matter: docs/howto/remove-a-text.md.
    """
    entry = task(body=f"it is {SECRET}")
    (made,) = (await server.ask("POST", "/v1/nodes", {"nodes": [entry]}, idempotency_key="k-1"))["results"]
    clean = await put(server, revision=made["revision"], body="it is gone")
    assert SECRET in repr(contents(database_url))

    answer = (await redact(server, made["revision"])).json()

    assert SECRET not in repr(contents(database_url))
    assert answer == {
        "status": "updated",
        "id": "task-a",
        "revision": made["revision"],
        "entries": 1,
        "warnings": [],
    }
    act, second, first = await entries(server, content=1)
    assert (act["verb"], act["revision"], act["reason"], "raw" in act) == ("redact", clean, "a password", False)
    assert ("redaction" in second, first["redaction"], first["raw"]) == (False, act["n"], REDACTED)
    shown = await server.ask("GET", f"{TASK}/history/{made['revision']}")
    assert (shown["raw"], shown["redacted"]) == (
        REDACTED,
        {"at": act["at"], "by": "person-ada-admin", "reason": "a password"},
    )
    kinds = [(row[2], row[3]) for row in contents(database_url)["events"]]
    assert kinds.count(("node.redacted", "task-a")) == 1


def files_that_have(text: str, url: str) -> list[str]:
    """Return which files of a SQLite database have `text`, or the end of it: an index leaves out what words share."""
    path = sqlite_path(url)
    end = text.encode()[-8:]
    return sorted(file.name for file in path.parent.glob(f"{path.name}*") if end in file.read_bytes())


@pytest.mark.parametrize("deleted", [False, True])
async def test_no_file_of_a_sqlite_database_has_a_redacted_word(
    sqlite_url: str, clock: ManualClock, *, deleted: bool
) -> None:
    async with in_process_server(sqlite_url, clock=clock) as server:
        await server.ask(
            "POST", "/v1/nodes", {"nodes": [{**task(body=f"text {n}"), "id": f"task-{n}"} for n in range(40)]}
        )
        made = await put(server, body=f"it is {WORD}", title=f"{WORD} it is")
        await put(server, revision=made, body="it is gone", title="Another")
        if deleted:
            await server.ask("DELETE", TASK, {"reason": "filed by mistake"})
        assert files_that_have(WORD, sqlite_url)

        answer = (await redact(server, made)).json()

        assert answer["warnings"] == []
        assert files_that_have(WORD, sqlite_url) == []


async def test_a_redaction_while_an_older_state_is_read_says_that_the_files_still_have_it(
    sqlite_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batonpass.store.sqlite.LOG_WAIT_S_MAX", 0.0)
    async with in_process_server(sqlite_url, clock=clock) as server:
        made = await put(server, body=f"it is {WORD}")
        await put(server, revision=made, body="it is gone")
        async with server.store.read_long() as reader:
            await reader.now()
            await reader.fetch(q("search.top"))
            during = (await redact(server, made)).json()
        after = (await redact(server, made)).json()

    assert (during["status"], during["warnings"]) == ("updated", [STAYS])
    assert (after["status"], after["warnings"]) == ("skipped", [])
    assert files_that_have(WORD, sqlite_url) == []


async def test_a_redaction_takes_the_text_wherever_the_node_had_it_and_once(server: InProcessServer) -> None:
    revisions = await written(server, "secret", "clean", "secret", "clean")

    first, again = (await redact(server, revisions[0][:8])).json(), (await redact(server, revisions[0])).json()

    assert (first["status"], first["entries"], first["revision"]) == ("updated", 2, revisions[0])
    assert (again["status"], again["entries"]) == ("skipped", 0)
    assert [each["verb"] for each in await entries(server)] == ["redact", "put", "put", "put", "put"]


async def test_what_a_node_reads_at_present_is_not_redacted(server: InProcessServer) -> None:
    (revision,) = await written(server, "secret")

    refused = await redact(server, revision)

    assert refused.status_code == 409
    assert "write a clean revision first" in refused.json()["error"]["message"]
    assert [each["verb"] for each in await entries(server)] == ["put"]


async def test_a_redaction_is_an_admins_own_and_says_why(server: InProcessServer) -> None:
    first, _ = await written(server, "secret", "clean")
    pat = await server.add_person("Pat")
    mill = await server.add_agent("mill")

    refused = [(await redact(server, first, token=token)).status_code for token in (pat, mill)]
    unsaid = await server.send("POST", f"{TASK}/redact", {"revision": first, "reason": " "})

    assert refused == [403, 403]
    assert (unsaid.status_code, unsaid.json()["error"]["field"]) == (422, "reason")
    assert (await server.ask("GET", f"{TASK}/history/{first}"))["raw"].endswith("secret\n")


async def test_who_is_no_admin_any_more_redacts_nothing_though_the_server_remembers_them_as_one(
    server: InProcessServer,
) -> None:
    first, _ = await written(server, "secret", "clean")
    bob = await server.add_person("Bob", admin=True)
    assert (await server.ask("GET", "/v1/me", token=bob))["is_admin"] is True
    # The clock by which tokens are remembered stands still, so the server goes on thinking so.
    await server.ask("DELETE", "/v1/nodes/person-bob/edges", {"type": "stewards", "to": "org-root"})

    assert (await redact(server, first, token=bob)).status_code == 403
