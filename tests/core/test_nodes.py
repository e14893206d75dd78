from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from batonpass.core import nodes
from batonpass.core.edges import Edge
from batonpass.core.errors import Invalid, InvalidNode
from batonpass.core.ids import Instant, NodeId
from batonpass.core.nodes import Attribution, Authored, Node, parse_sha, validate

TASK: Final = Authored(NodeId("task-a"), "task", "Fix it", "It is broken", date="2026-10-01")
QUESTION: Final = Authored(NodeId("question-a"), "question", "Which one?", "Two would do")


def findings(**changed: Any) -> list[str]:  # noqa: ANN401 — any field of a node
    return validate(replace(TASK, **changed))


def test_a_node_with_the_required_fields_is_valid() -> None:
    assert validate(TASK) == []
    assert validate(replace(TASK, date=None)) == []


@pytest.mark.parametrize(
    "field,value,finding",
    [
        ("id", "", "id: required"),
        ("id", "task-", 'id: "task-" does not begin with a prefix of task (task-)'),
        ("id", "issue-a", 'id: "issue-a" does not begin with a prefix of task (task-)'),
        ("type", "", "type: required"),
        ("type", "tasks", 'type: "tasks" is not a node type; did you mean task?'),
        ("title", " \n", "title: required"),
        ("title", "x" * 301, "title: 301 code points; the limit is 300 code points"),
        ("title", "x" * 100_000, "title: 100000 code points; the limit is 300 code points"),
        ("summary", "", "summary: required"),
        ("summary", "🎉" * 501, "summary: 501 code points; the limit is 500 code points"),
        ("body", "é" * 4097, "body: 8194 bytes; the limit is 8192 bytes"),
        (
            "status",
            "closed",
            'status: "closed" is not a status of task; it takes abandoned, active, done, open, or none',
        ),
        ("date", "2026-02-29", 'date: "2026-02-29" is not a day of the form YYYY-MM-DD'),
        ("date", "20260228", 'date: "20260228" is not a day of the form YYYY-MM-DD'),
        ("date", "2026-02-28T00:00:00Z", 'date: "2026-02-28T00:00:00Z" is not a day of the form YYYY-MM-DD'),
        ("date", "\N{ARABIC-INDIC DIGIT TWO}026-02-28", "date: "),  # a digit, but not one of ours
        ("wake", "tomorrow", 'wake: "tomorrow" is not a day of the form YYYY-MM-DD'),
        ("needed_by", "2026-1-1", 'needed_by: "2026-1-1" is not a day of the form YYYY-MM-DD'),
        ("priority", "p4", 'priority: "p4" is none of p1, p2, p3, clear, none, p0'),
        ("readiness", "human", 'readiness: "human" is none of agent, clear, none; say `requires: [human]` for that'),
        ("readiness", "yes", 'readiness: "yes" is none of agent, clear, none'),
        ("requires", ("Prod",), 'requires: "Prod" is not a word of lower-case letters, digits and hyphens'),
        ("requires", ("a",) * 101, "requires: 101 items; the limit is 100 items"),
        ("extra", {"tags": ("x" * 501,)}, "tags: 501 code points; the limit is 500 code points"),
        ("extra", {"tags": ("",)}, "tags: an empty text is written by leaving it out"),
        ("extra", {"tags": "x"}, "tags: takes a list"),
        ("extra", {"email": ("x",)}, "email: takes a text"),
        ("extra", {"email": "x" * 501}, "email: 501 code points; the limit is 500 code points"),
        ("extra", {"always_on": "maybe"}, 'always_on: "maybe" is neither true nor false'),
        ("extra", {"argv": "rm"}, "argv: is not a key of a node"),
        (
            "extra",
            {"commits": ("web@ABCDEF1",)},
            'commits: "web@ABCDEF1" is not repo@sha with 7 to 40 lower-case hex digits',
        ),
        (
            "extra",
            {"commits": tuple(f"web@{n:040x}" for n in range(41))},
            "commits: 41 commits; the limit is 40 commits",
        ),
        ("edges", (Edge("blocks", NodeId("task-a")),), "edges: blocks may not lead from a node to itself"),
        ("edges", (Edge("stops", NodeId("task-b")),), "edges.type: "),
        ("edges", (Edge("blocks", NodeId("Task B")),), 'edges.to: "Task B" is not an id'),
        ("edges", (Edge("blocks", NodeId("task-b"), {"a": "b c"}),), "edges.blocks.a: "),
        (
            "edges",
            (Edge("blocks", NodeId("task-b")), Edge("blocks", NodeId("task-b"), {"a": "b"})),
            'edges: blocks to "task-b" stands twice with different attributes',
        ),
        (
            "edges",
            tuple(Edge("blocks", NodeId(f"task-{n}")) for n in range(41)),
            "edges: 41 edges; the limit is 40 edges",
        ),
    ],
)
def test_one_thing_wrong_is_one_finding_that_names_field_limit_and_unit(
    field: str, value: object, finding: str
) -> None:
    (found,) = findings(**{field: value})

    assert found.startswith(finding)


@pytest.mark.parametrize(
    "field,value",
    [
        ("title", "x" * 300),
        ("summary", "🎉" * 500),
        ("body", "x" * 8192),
        ("status", None),
        ("date", "2028-02-29"),
        ("priority", "p1"),
        ("readiness", "agent"),
        ("project", "repo-web"),
        ("profile", "profile-big"),
        ("requires", ("human", "prod-creds")),
        ("extra", {"commits": tuple(f"org/web.py@{n:07x}" for n in range(40)), "gate_proposal_head": "abc"}),
        ("extra", {"always_on": "true", "tags": ("a b", "ö"), "outcome": "merged"}),
        ("edges", tuple(Edge("blocks", NodeId(f"task-{n}")) for n in range(40))),
    ],
)
def test_values_at_their_limits_are_valid(field: str, value: object) -> None:
    assert findings(**{field: value}) == []


@pytest.mark.parametrize("size", [200, 201, 255, 3000])
def test_an_id_is_limited_in_bytes_since_it_is_indexed(size: int) -> None:
    found = findings(id=NodeId("task-" + "x" * (size - 5)))

    assert found == ([] if size == 200 else [f"id: {size} bytes; the limit is 200 bytes"])


@pytest.mark.parametrize("slug", ["Web", "a/b", "é", "-a", "a" * 201, "a\0"])
def test_a_project_or_profile_is_a_slug(slug: str) -> None:
    for field in ("project", "profile"):
        (found,) = findings(**{field: slug})
        assert found.startswith(f"{field}: ")


@pytest.mark.parametrize("status", ["on fire", "x" * 51, "Ü", ""])
def test_a_type_without_a_vocabulary_still_takes_only_words(status: str) -> None:
    incident = Authored(NodeId("inc-a"), "incident", "Down", "It is down", status=status)

    (found,) = validate(incident)
    assert found.endswith("is not a word of lower-case letters, digits and hyphens, at most 50 characters")


@pytest.mark.parametrize("text", ["<what do you need to know?>", "TODO", " tbd. ", "...", "[question]"])
def test_a_question_that_was_never_filled_in_is_refused(text: str) -> None:
    for field in ("title", "summary", "body"):
        found = validate(replace(QUESTION, **{field: text}))  # type: ignore[arg-type]  # each of the three is a text
        assert [finding.partition(":")[0] for finding in found] == [field]
    assert validate(replace(TASK, title=text)) == []


def test_a_correction_needs_its_target() -> None:
    correction = Authored(NodeId("corr-a-1"), "correction", "No", "It is not so")

    assert validate(correction) == ["target: required for a correction"]
    assert validate(replace(correction, extra={"target": "global"})) == []


def test_every_finding_is_listed_and_the_first_is_the_message() -> None:
    bad = replace(TASK, title="", status="closed", priority="p9", edges=(Edge("blocks", NodeId("task-a")),))

    with pytest.raises(InvalidNode) as refusal:
        nodes.require_valid(bad, also=["edges[1].to: must be a string, not null"])

    assert [finding.partition(":")[0] for finding in refusal.value.details] == [
        "edges[1].to",
        "status",
        "title",
        "priority",
        "edges",
    ]
    assert refusal.value.message == "edges[1].to: must be a string, not null (and 4 more)"
    assert refusal.value.field == "edges[1].to"


def test_a_field_that_could_not_be_read_is_not_called_missing_too() -> None:
    with pytest.raises(InvalidNode) as refusal:
        nodes.require_valid(replace(TASK, title=""), also=["title: must be a string, not a number"])

    assert refusal.value.details == ("title: must be a string, not a number",)


def test_a_valid_node_passes() -> None:
    nodes.require_valid(TASK)


def test_what_is_usual_but_not_required_is_a_warning() -> None:
    person = Authored(NodeId("person-a"), "person", "Ann", "Ann", extra={"name": "Ann"})

    assert nodes.advice(TASK) == []
    assert nodes.advice(person) == [
        "date: missing; age counts from the day it was written",
        "email: a person usually has one",
    ]


@pytest.mark.parametrize("form", [None, "", "none", "clear", "p0"])
def test_every_form_that_clears_a_priority(form: str | None) -> None:
    assert nodes.parse_priority(form) is None


@pytest.mark.parametrize("form", [None, "", "none", "clear"])
def test_every_form_that_clears_a_readiness(form: str | None) -> None:
    assert nodes.parse_readiness(form) is None


def test_other_priorities_and_readinesses_are_refused_with_the_values_allowed() -> None:
    assert nodes.parse_priority("p2") == "p2"
    assert nodes.parse_readiness("agent") == "agent"
    with pytest.raises(InvalidNode) as refusal:
        nodes.parse_priority("high")
    assert refusal.value.details == ("p1", "p2", "p3", "clear", "none", "p0")
    with pytest.raises(InvalidNode) as refusal:
        nodes.parse_readiness("human")
    assert refusal.value.details == ("agent", "clear", "none")


@pytest.mark.parametrize("key", ["argv", "command", "env", "shell"])
def test_a_profile_cannot_say_what_to_run(key: str) -> None:
    assert nodes.refused_key("profile", key) is not None
    assert nodes.refused_key("task", key) is None
    assert nodes.refused_key("profile", "model") is None


@pytest.mark.parametrize(
    "commits,merged",
    [
        ((), ()),
        (("web@abcdef1", "web@abcdef1"), ("web@abcdef1",)),
        (("web@abcdef1", "api@1234567", "web@abcdef1234"), ("web@abcdef1234", "api@1234567")),
        (("web@abcdef1234", "web@abcdef1"), ("web@abcdef1234",)),
        (("web@abcdef1", "api@abcdef1"), ("web@abcdef1", "api@abcdef1")),
    ],
)
def test_a_commit_is_listed_once_by_the_longest_id_known(commits: tuple[str, ...], merged: tuple[str, ...]) -> None:
    assert nodes.merge_commits(commits) == merged


@pytest.mark.parametrize(
    "commit", ["abcdef1", "@abcdef1", "web@abcdef", "web@" + "a" * 41, "w b@abcdef1", "web@abcdefg"]
)
def test_a_commit_that_is_not_repo_and_sha_is_refused(commit: str) -> None:
    assert nodes.check_commit(commit) is not None


def test_a_node_knows_its_id_and_type() -> None:
    node = Node(TASK, "0" * 40, Attribution(None, "rest"), created_at=Instant(1), updated_at=Instant(2))

    assert node.id == "task-a"
    assert node.kind.name == "task"


def test_a_commit_is_named_by_seven_to_forty_hex_digits() -> None:
    assert parse_sha("abcdef1") == "abcdef1"
    for text in ("abcdef", "ABCDEF1", "0" * 41):
        with pytest.raises(Invalid, match="7 to 40 lower-case hex digits"):
            parse_sha(text)
