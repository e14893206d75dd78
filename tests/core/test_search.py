"""What a node is found by, what a query asks of it, and what is shown of the place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId
from batonpass.core.nodes import Authored
from batonpass.core.search import (
    QUERY_CHARS_MAX,
    QUERY_WORDS_MAX,
    SNIPPET_CHARS_MAX,
    Nearby,
    any_word,
    entry,
    is_found_alike,
    matched,
    nearby,
    question,
    snippet,
    texts,
    tiers,
)

NODE = Authored(
    NodeId("task-fix"),
    "task",
    "Fix it",
    "All of it.",
    project="web",
    extra={"tags": ("ui",), "commits": ("web@abc1234",)},
    body="Line one.\nAnd the body.",
)


def test_an_entry_has_the_words_of_every_text_and_what_it_is_narrowed_by() -> None:
    assert entry(NODE).tokens.split() == sorted(
        "gweb itask-fix ktask tfix tit wabc1234 wall wand wbody wfix wit wline wof wone wtask wthe wui wweb".split()
    )
    assert entry(NODE).counts == {"fix": 1, "line": 1, "one": 1, "body": 1}


def test_a_status_is_no_part_of_an_entry_and_a_project_is() -> None:
    assert is_found_alike(NODE, replace(NODE, status="done", priority="p1", readiness="agent"))
    assert not is_found_alike(NODE, replace(NODE, project="mail"))
    assert not is_found_alike(NODE, replace(NODE, type="issue"))
    assert not is_found_alike(NODE, replace(NODE, extra={"tags": ("ui", "css")}))


@pytest.mark.parametrize(
    "query, conditions",
    [
        ("fix login", ("'tfix' & 'tlogin'", "'wfix' & 'wlogin'", "'wfix' & 'wlogin':*")),
        ("fix log", ("'tfix' & 'tlog'", "'wfix' & 'wlog'", "'wfix' & 'wlog~'")),
        ("src/a-b", ("'tsrc' & 'ta' & 'tb'", "'wsrc' & 'wa' & 'wb' & 'isrc/a-b'", "'wsrc' & 'wa' & 'wb~'")),
        ("漢字", ("'t漢字'", "'w漢字'", "'w漢字'")),
        ("it's", ("'tit' & 'ts'", "'wit' & 'ws'", "'wit' & 'ws~'")),
    ],
)
def test_a_query_becomes_three_conditions_each_wider_than_the_one_before(
    query: str, conditions: tuple[str, ...]
) -> None:
    assert tiers(question(query)) == conditions


def test_projects_and_types_narrow_every_condition() -> None:
    (title, *_) = tiers(question("fix", projects=["web", "mail"], types=["task"]))

    assert title == "'tfix' & ('gweb' | 'gmail') & ('ktask')"
    assert any_word(["a", "b"]) == "'wa' | 'wb'"


@pytest.mark.parametrize(
    "query, typed",
    [
        ("task-fix", "task-fix"),
        (" TASK-FIX ", "task-fix"),
        ("task-", "task-"),
        ("task", None),
        ("task-fix it", None),
        ("-fix", None),
        ("täsk-fix", "task-fix"),
        (f"task-{'x' * 196}", None),
    ],
)
def test_a_query_may_be_an_id_or_the_beginning_of_one_from_its_hyphen_on(query: str, typed: str | None) -> None:
    assert question(query).id == typed


def test_a_query_is_refused_when_it_is_too_long_and_told_the_limit() -> None:
    with pytest.raises(Invalid, match=f"q: 10000 characters; the limit is {QUERY_CHARS_MAX}"):
        question("x" * 10_000)
    with pytest.raises(Invalid, match=f"q: 65 words; the limit is {QUERY_WORDS_MAX}"):
        question(" ".join(f"w{n}" for n in range(65)))
    assert len(question(" ".join(["same"] * 100)).wanted.words) == 1


def test_what_matched_is_named_field_by_field() -> None:
    asked = question("fix all bod")

    assert matched(asked, texts(NODE)) == ("id", "title", "summary", "body")
    assert matched(question("abc1234"), texts(NODE)) == ("commits",)
    assert matched(question("it"), texts(replace(NODE, title="Fit"))) == ("summary",)  # no word of its own there


@pytest.mark.parametrize(
    "body, query, shown",
    [
        ("Line one.\n  And the   body.", "body", "And the body."),
        (f"{'word ' * 40}here {'more ' * 40}", "here", "… " + "word " * 10 + "here " + "more " * 20 + "mo…"),
        ("x" * 300 + "漢字" + "y" * 300, "漢字", "…" + "x" * 53 + "漢字" + "y" * 103 + "…"),
        ("nothing of it", "fix", "All of it."),
    ],
)
def test_a_snippet_is_one_line_around_the_first_place(body: str, query: str, shown: str) -> None:
    assert snippet(question(query), texts(replace(NODE, body=body))) == shown


@given(st.text(max_size=300), st.text(max_size=40))
def test_a_snippet_is_one_bounded_line_whatever_the_text(body: str, query: str) -> None:
    shown = snippet(question(query), texts(replace(NODE, body=body)))

    assert len(shown) <= SNIPPET_CHARS_MAX
    assert len(shown.splitlines()) <= 1


@pytest.mark.parametrize(
    "query, near",
    [
        ("fix logi", Nearby("'wfix' & 'wlog~'", "wlogi")),
        ("logi", Nearby("'wlog~'", "wlogi")),
        ("log", None),
        ("漢字", None),
        ("", None),
    ],
)
def test_a_begun_word_is_looked_for_where_its_first_letters_are(query: str, near: Nearby | None) -> None:
    assert nearby(question(query)) == near


def test_it_is_looked_for_within_projects_and_types() -> None:
    near = nearby(question("logi", projects=["mail"], types=["task"]))

    assert near == Nearby("'wlog~' & ('gmail') & ('ktask')", "wlogi")
