"""GET /v1/search: what is found by which words, in which order, and that nothing in a query acts as anything."""

# ruff: noqa: RUF001 — letters that look alike are what is tested

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

import pytest

from batonpass.core.search import FOUND_MAX
from batonpass.store.open import open_session
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

ODD: Final = {
    'the "quoted" title': ["task-quoted"],
    '"quoted': ["task-quoted"],
    "quoted -title": ["task-quoted"],
    "-quoted": ["task-quoted"],
    "quot*": ["task-quoted"],
    "*": [],
    "title:quoted": ["task-quoted"],
    "quoted NEAR title": [],
    "NEAR(quoted title)": [],
    "quoted OR nothing": [],
    "quoted AND title": [],
    "NOT quoted": [],
    "quoted & title | !x": [],
    "'quoted' && (title)": ["task-quoted"],
    "<-> quoted:*": ["task-quoted"],
    "quoted\\": ["task-quoted"],
    "50%": ["task-percent"],
    "50_": ["task-percent"],
    "%": [],
    "_": [],
    "'; DROP TABLE nodes; --": [],
    "{quoted}: [title] ^quoted $": ["task-quoted"],
    "quoted\ttitle\n": ["task-quoted"],
    "strasse": ["task-german"],
    "STRAẞE": ["task-german"],
    "istanbul": ["task-turkish"],
    "İSTANBUL": ["task-turkish"],
    "ıstanbul": ["task-turkish"],
    "cafe": ["task-french"],
    "CAFÉ": ["task-french"],
    "cafe\u0301": ["task-french"],
    "ｃａｆｅ": ["task-french"],
    "שלום": ["task-hebrew"],
    "\u202eשָׁלוֹם\u202c": ["task-hebrew"],
    "🪃": ["task-emoji"],
    "🪃🪃": ["task-emoji"],
    "漢": ["task-han"],
    "字": ["task-han"],
    "漢字": ["task-han"],
    "字漢": [],
    "漢字かな": ["task-han"],
    "ｶﾅ": ["task-han"],
    "한": ["task-hangul"],
    "한국어": ["task-hangul"],
    "ไทย": ["task-thai"],
    "हिन्दी": ["task-hindi"],
    "x" * 64: ["task-long"],
    "x" * 300: ["task-long"],
    "x" * 63: ["task-long"],
}
"""What each of these finds among `NODES`."""


def node(name: str, title: str, **more: object) -> dict[str, object]:
    """Return a task as it is put."""
    return {"id": f"task-{name}", "type": "task", "title": title, "summary": "…", "date": "2026-06-01", **more}


NODES: Final = [
    node("quoted", 'The "quoted" title'),
    node("percent", "50%_ of it"),
    node("german", "Große Straße"),
    node("turkish", "İstanbul'da"),
    node("french", "Le Cafe\u0301"),
    node("hebrew", "שָׁלוֹם עולם"),
    node("emoji", "A boomerang 🪃"),
    node("han", "これは漢字かなとカナ"),
    node("hangul", "한국어를 찾다"),
    node("thai", "ภาษาไทย"),
    node("hindi", "हिन्दी भाषा"),
    node("long", f"A {'x' * 250}"),
]


async def put(server: InProcessServer, *nodes: dict[str, object]) -> Any:  # noqa: ANN401 — a reply as JSON
    """Write nodes, in this order, and return what became of each."""
    return (await server.ask("POST", "/v1/nodes", {"nodes": list(nodes)}))["results"]


async def search(server: InProcessServer, q: str, **query: object) -> Any:  # noqa: ANN401 — a reply as JSON
    """Return what a query is answered."""
    return await server.ask("GET", f"/v1/search?{urlencode({'q': q, **query})}")


async def ids(server: InProcessServer, q: str, **query: object) -> list[str]:
    """Return the ids that a query finds, in their order."""
    return [item["id"] for item in (await search(server, q, **query))["items"]]


async def refusal(server: InProcessServer, **query: object) -> tuple[int, str]:
    """Return the status and message of a query that is refused."""
    response = await server.send("GET", f"/v1/search?{urlencode(query)}")
    return response.status_code, response.json()["error"]["message"]


async def test_odd_queries_find_text_and_never_act(server: InProcessServer) -> None:
    await put(server, *NODES)

    found = {query: await ids(server, query) for query in ODD}

    assert found == ODD


async def test_a_query_without_a_word_finds_nothing_and_says_why(server: InProcessServer) -> None:
    for query in ("", "-", "\"'", "%_*", "( )", "\u200d", "\u0301"):
        assert await search(server, query) == {
            "items": [],
            "count": 0,
            "truncated": False,
            "warnings": ["q: there is no letter, digit or symbol in it to look for; punctuation is passed over"],
        }


async def test_bytes_that_are_no_text_are_passed_over_with_a_warning(server: InProcessServer) -> None:
    await put(server, node("a", "Fix"))

    found = await server.ask("GET", "/v1/search?q=fix%ff%ed%a0%80")

    assert [item["id"] for item in found["items"]] == ["task-a"]
    assert found["warnings"] == ["q: has U+FFFD, which stands for what was no text; it is passed over"]


async def test_what_is_too_long_or_no_parameter_is_refused_with_its_limit(server: InProcessServer) -> None:
    assert await refusal(server, q="x" * 10_000) == (422, "q: 10000 characters; the limit is 500")
    for many in (" ".join(map(str, range(65))), "".join(chr(0x4E00 + n) for n in range(66))):
        assert (await refusal(server, q=many))[1].startswith("q: 65 words; the limit is 64")
    assert await refusal(server, q="a\0b") == (422, "q: has a NUL")
    assert await refusal(server, q="a", limit=101) == (422, "limit: 101 nodes; the limit is 100 nodes")
    assert (await refusal(server, q="a", limit=0))[0] == 422
    assert (await refusal(server, q="a", offset=-1))[0] == 422
    status, message = await refusal(server, q="a", offset=FOUND_MAX)
    assert (status, message) == (422, "offset: 1000 nodes; a search finds at most 1000 nodes, so add a word to it")
    assert (await refusal(server, q="a", type="task,tusk"))[0] == 422
    assert (await refusal(server, q="a", project="No Slug"))[0] == 422
    assert (await refusal(server, q="a", colour="red"))[0] == 422


async def test_every_text_of_a_node_is_searched_and_the_answer_says_which_matched(server: InProcessServer) -> None:
    await put(
        server,
        node(
            "everywhere",
            "Alpha",
            summary="Bravo",
            body="One line.\nAnd charlie in <b>another</b>.",
            tags=["delta-wing"],
            commits=["web@ec40000"],
            project="web",
            status="open",
        ),
    )

    matched = {
        word: (await search(server, word))["items"][0]["matched"]
        for word in ("everywhere", "alpha", "bravo", "charlie", "wing", "ec4", "web")
    }
    item = (await search(server, "charlie"))["items"][0]

    assert matched == {
        "everywhere": ["id"],
        "alpha": ["title"],
        "bravo": ["summary"],
        "charlie": ["body"],
        "wing": ["tags"],
        "ec4": ["commits"],
        "web": ["commits"],
    }
    assert item == {
        "id": "task-everywhere",
        "type": "task",
        "title": "Alpha",
        "summary": "Bravo",
        "status": "open",
        "project": "web",
        "date": "2026-06-01",
        "matched": ["body"],
        "snippet": "And charlie in <b>another</b>.",
    }


async def test_every_word_must_be_there_and_the_last_may_only_be_begun(server: InProcessServer) -> None:
    await put(server, node("a", "Login page"), node("b", "Login form"), node("c", "Pages that are long ago"))

    assert await ids(server, "login page") == ["task-a"]
    assert await ids(server, "login pa") == ["task-a"]
    assert await ids(server, "page login") == ["task-a"]
    assert await ids(server, "pag login") == []
    assert await ids(server, "pag") == ["task-c", "task-a"]
    assert await ids(server, "logi") == ["task-b", "task-a"]
    assert await ids(server, "lo") == ["task-c", "task-b", "task-a"]


async def test_the_order_is_id_then_ids_begun_then_titles_then_as_typed_then_begun_and_the_newest_first(
    server: InProcessServer,
) -> None:
    await put(
        server,
        node("fix-login", "Named so"),
        node("1", "A title with task fix login in it"),
        node("2", "Mentions it", body="see task-fix-login"),
        node("fix-login-2", "Named alike"),
        node("3", "The words only", body="a task: fix it, login is broken"),
        node("4", "Goes on", body="task fix logins"),
        node("5", "Mentions it too", body="done in task-fix-login"),
    )

    found = await ids(server, "task-fix-login")

    assert found == [
        "task-fix-login",  # the id itself
        "task-fix-login-2",  # an id that it begins
        "task-1",  # every word in the title
        "task-5",  # as it was typed, the newest first
        "task-2",
        "task-4",  # every word, the last one begun
        "task-3",
    ]


async def test_projects_and_types_narrow_what_is_found(server: InProcessServer) -> None:
    await put(
        server,
        node("a", "Fix", project="web"),
        node("b", "Fix", project="mail"),
        node("c", "Fix"),
        {**node("d", "Fix"), "id": "issue-d", "type": "issue", "project": "web"},
    )

    assert await ids(server, "fix", project="web") == ["issue-d", "task-a"]
    assert await ids(server, "fix", type="task") == ["task-c", "task-b", "task-a"]
    assert await ids(server, "fix", type="issue,task", project="web") == ["issue-d", "task-a"]
    assert await ids(server, "task-a", project="mail") == []
    assert await ids(server, "task-", project="mail") == ["task-b"]
    assert await ids(server, "issue-d", type="task") == []
    assert await ids(server, "fix", project="proj-nothing") == []
    assert await ids(server, "fix", project="nothing") == []


async def test_a_project_is_its_grouping_as_in_the_queue(server: InProcessServer) -> None:
    repos = [
        {
            **node(name, name),
            "id": f"repo-{name}",
            "type": "repo",
            "edges": [{"type": "grouped-under", "to": "proj-site"}],
        }
        for name in ("web", "api")
    ]
    await put(server, {**node("site", "Site"), "id": "proj-site", "type": "project"}, *repos)
    await put(
        server,
        *(node(name, "Fix", project=project) for name, project in (("a", "web"), ("b", "api"), ("c", "mail"))),
    )

    assert await ids(server, "fix", project="web") == ["task-b", "task-a"]
    assert await ids(server, "fix", project="proj-site") == ["task-b", "task-a"]
    assert await ids(server, "fix", project="repo-web") == ["task-a"]


async def test_pages_follow_each_other_and_the_last_one_says_so(server: InProcessServer) -> None:
    await put(server, *(node(f"{n:02}", "Fix") for n in range(25)))
    every = [f"task-{n:02}" for n in reversed(range(25))]

    first = await search(server, "fix")
    second = await search(server, "fix", offset=20)
    small = await search(server, "fix", limit=5, offset=10)

    assert [item["id"] for item in (*first["items"], *second["items"])] == every
    assert (first["count"], first["truncated"]) == (25, True)
    assert (second["count"], second["truncated"]) == (25, False)
    assert [item["id"] for item in small["items"]] == every[10:15]
    assert (await search(server, "fix", offset=25)) == {"items": [], "count": 25, "truncated": False}


async def test_no_more_than_a_thousand_are_found_and_the_answer_says_there_are_more(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batonpass.server.services.search.FOUND_MAX", 10)
    await put(server, *(node(f"{n:02}", "Fix") for n in range(12)))

    page = await search(server, "fix", limit=10)

    assert [item["id"] for item in page["items"]] == [f"task-{n:02}" for n in range(11, 1, -1)]
    assert (page["count"], page["truncated"]) == (10, True)


async def test_a_word_that_begins_very_many_is_found_in_the_newest_and_the_answer_says_so(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batonpass.store.search.BEGUN_LOOKED_AT_MAX", 6)
    monkeypatch.setattr("batonpass.server.services.search.BEGUN_ENOUGH", 4)
    await put(server, *(node(f"{n:02}", "Logins" if n % 3 else "Logic") for n in range(12)))

    many = await search(server, "login")
    few = await search(server, "logic")
    rare = await search(server, "logi")

    assert [item["id"] for item in many["items"]] == ["task-11", "task-10", "task-08", "task-07"]
    assert many["warnings"] == [
        "q: login begins words of very many nodes, of which the newest are listed; type more of it"
    ]
    assert [item["id"] for item in rare["items"]] == [f"task-{n:02}" for n in range(11, 5, -1)]
    assert (few["count"], few.get("warnings")) == (4, None)


async def test_a_word_that_is_begun_rarely_is_found_in_all_there_is(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("batonpass.store.search.BEGUN_LOOKED_AT_MAX", 6)
    await put(server, node("old", "Login"), *(node(f"{n:02}", "Logic") for n in range(12)), node("new", "Logins"))

    found = await search(server, "login")

    assert [item["id"] for item in found["items"]] == ["task-old", "task-new"]
    assert "warnings" not in found


async def test_what_is_written_is_found_at_once_and_by_its_new_words_only(server: InProcessServer) -> None:
    first = await put(server, node("a", "Before", body="old words"))
    assert await ids(server, "before") == ["task-a"]

    after = {"node": node("a", "After", body="new words"), "if_exists": "update", "revision": first[0]["revision"]}
    assert [result["status"] for result in await put(server, after)] == ["updated"]

    found = {word: await ids(server, word) for word in ("before", "old", "after", "new", "words")}
    assert found == {"before": [], "old": [], "after": ["task-a"], "new": ["task-a"], "words": ["task-a"]}


async def test_a_refused_write_leaves_no_word_behind(server: InProcessServer) -> None:
    await put(server, node("a", "First"))

    refused = await server.send("POST", "/v1/nodes", {"nodes": [node("a", "Second")]})

    assert refused.json()["results"][0]["status"] == "error", refused.text
    assert await ids(server, "second") == []
    assert await ids(server, "first") == ["task-a"]


async def test_a_deleted_node_is_found_no_more_and_the_others_still_are(server: InProcessServer) -> None:
    await put(server, node("a", "Fix one"), node("b", "Fix two"))

    await server.ask("DELETE", "/v1/nodes/task-a", {"reason": "a duplicate"})

    assert await ids(server, "fix") == ["task-b"]
    assert await ids(server, "task-a") == []


async def test_a_status_or_a_lease_does_not_touch_the_index(server: InProcessServer, database_url: str) -> None:
    await put(server, node("a", "Fix", status="open"))
    before = entries(database_url)

    await server.ask("POST", "/v1/nodes/task-a/priority", {"priority": "p1"})
    await server.ask("POST", "/v1/nodes/task-a/claim", {})
    await server.ask("POST", "/v1/nodes/task-a/status", {"status": "abandoned"})

    assert entries(database_url) == before
    assert (await search(server, "fix"))["items"][0]["status"] == "abandoned"


def entries(url: str) -> list[tuple[object, ...]]:
    """Return the rows of the index, with what changes in PostgreSQL whenever one is written."""
    with open_session(url, read_only=True) as session:
        version = "xmin::text, ctid::text" if session.dialect == "postgres" else "doc"
        rows = session.ask_written(f"SELECT {version}, node, words FROM search_nodes ORDER BY node")
        return [tuple(row) for row in rows]


async def test_people_and_agents_are_found_like_any_node(server: InProcessServer) -> None:
    await server.add_person("Grace")

    assert await ids(server, "grac") == ["person-grace"]


async def test_everybody_may_search_and_nobody_without_a_token(server: InProcessServer) -> None:
    person = await server.add_person("Pat")
    minted = await server.ask("POST", "/v1/me/tokens", {"label": "eyes", "scope": "read"}, token=person)

    assert (await server.send("GET", "/v1/search?q=pat", token=minted["token"])).status_code == 200
    assert (await server.http.get("/v1/search?q=pat")).status_code == 401
