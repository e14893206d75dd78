from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from batonpass.core import nodes
from batonpass.core.edges import EDGE_TYPES, Edge, in_order
from batonpass.core.errors import InvalidNode
from batonpass.core.ids import AgentId, HolderId, Instant, NodeId, PersonId
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.nodes import Attribution, Authored, Node, Shape, Stamp
from batonpass.wire.markdown import Claim, Flipped, front_matter, raw, read, read_json, revision, write

YamlReaders = tuple[Callable[[str], object], ...]
STORABLE: Final = st.characters(codec="utf-8", exclude_characters="\0")
TEXTS: Final = st.text(STORABLE, min_size=1, max_size=30).filter(str.strip)
SLUGS: Final = st.from_regex(r"[a-z0-9][a-z0-9-]{0,12}", fullmatch=True)
COMMITS: Final = st.from_regex(r"[a-z]{1,5}@[0-9a-f]{40}", fullmatch=True)
DAYS: Final = st.dates().map(str)
TOKENS: Final = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
ATTR_NAMES: Final = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True).filter(
    lambda name: name not in {"type", "to", "via"}
)


@st.composite
def authored_nodes(draw: st.DrawFn) -> Authored:
    """Any valid node."""
    kind = draw(st.sampled_from(list(NODE_TYPES.values())))
    node = NodeId(draw(st.sampled_from(kind.prefixes)) + draw(SLUGS))
    targets = SLUGS.map(lambda slug: NodeId(f"task-{slug}")).filter(lambda to: to != node)
    edges = draw(
        st.lists(
            st.builds(
                Edge, st.sampled_from(list(EDGE_TYPES)), targets, st.dictionaries(ATTR_NAMES, TOKENS, max_size=3)
            ),
            max_size=5,
            unique_by=lambda edge: edge.key,
        )
    )
    shapes: dict[Shape, st.SearchStrategy[nodes.Value]] = {
        Shape.TEXT: TEXTS,
        Shape.FLAG: st.sampled_from(["true", "false"]),
        Shape.LIST: st.lists(TEXTS, min_size=1, max_size=3).map(tuple),
        Shape.COMMITS: st.lists(COMMITS, min_size=1, max_size=3, unique=True).map(tuple),
    }
    keys = draw(st.lists(st.sampled_from([*nodes.EXTRA_KEYS, "gate_proposal_head"]), max_size=4, unique=True))
    extra = {key: draw(shapes[nodes.extra_shape(key) or Shape.TEXT]) for key in sorted(keys)}
    if "target" in kind.required:
        extra["target"] = "global"
    statuses = st.sampled_from(sorted(kind.statuses)) if kind.statuses else SLUGS
    authored = Authored(
        id=node,
        type=kind.name,
        title=draw(TEXTS),
        summary=draw(TEXTS),
        status=draw(st.none() | statuses),
        date=draw(st.none() | DAYS),
        project=draw(st.none() | SLUGS),
        priority=draw(st.sampled_from([None, *nodes.PRIORITIES])),
        readiness=draw(st.sampled_from([None, "agent"])),
        wake=draw(st.none() | DAYS),
        needed_by=draw(st.none() | DAYS),
        requires=tuple(draw(st.lists(SLUGS, max_size=3))),
        profile=draw(st.none() | SLUGS),
        extra=extra,
        edges=in_order(edges),
        body=draw(st.text(STORABLE, max_size=60)).replace("\r", "\n"),
    )
    assume(not nodes.validate(authored))  # a question may not be a placeholder
    return authored


STAMP: Final = Stamp("Ann <ann@a.example>", Instant(1_000_000), "cli")
REQUIRED: Final[dict[str, object]] = {
    "id": "task-a",
    "type": "task",
    "title": "T",
    "summary": "S",
    "date": "2026-10-01",
}
TASK: Final = Authored(NodeId("task-a"), "task", "Fix it", "It is broken", date="2026-10-01", body="Text.")
CANONICAL: Final = """\
---
id: task-a
type: task
title: "Fix: the door"
summary: "It is broken."
status: open
date: "2026-10-01"
project: web
priority: p1
readiness: agent
wake: "2026-10-02"
needed_by: "2026-10-03"
requires: [shell, prod-creds]
profile: profile-big
tags: [doors, "Hinges & co"]
commits: ["web@0123456"]
execution: "pipelines/7f3a"
gate_proposal_url: "https://forge.example/1"
edges:
  - {type: assigned, to: agent-7, profile: profile-big, was: "On"}
  - {type: blocks, to: task-b}
---

Text with `code`.

---
It goes on.
"""


@settings(max_examples=50)
@given(authored=authored_nodes())
def test_what_is_written_reads_back_the_same_to_the_byte(authored: Authored) -> None:
    text = write(authored)
    reading = read(text)

    assert reading.authored == authored
    assert reading.flipped == ()
    assert write(reading.authored) == text


@settings(max_examples=50)
@given(authored=authored_nodes())
def test_both_generations_of_yaml_readers_get_the_same_strings(authored: Authored, yaml_readers: YamlReaders) -> None:
    front = write(authored).removeprefix("---\n").partition("\n---\n")[0]
    expected = {key: value for key, value in _plain_keys(authored).items() if key != "body"}

    assert [read_yaml(front) for read_yaml in yaml_readers] == [expected, expected]


@settings(max_examples=50)
@given(authored=authored_nodes())
def test_the_same_node_as_json_is_the_same_node(authored: Authored) -> None:
    assert read_json(_as_json(_plain_keys(authored))).authored == authored


@settings(max_examples=50)
@given(authored=authored_nodes(), claimed=st.booleans())
def test_all_that_is_shown_reads_back_as_the_authored_part(*, authored: Authored, claimed: bool) -> None:
    node = _stored(authored)
    claim = Claim(HolderId("agent-7"), 3) if claimed else None

    assert read(raw(node, claim=claim)).authored == authored
    assert read_json(_as_json({**front_matter(node, claim=claim), "body": authored.body})).authored == authored


def test_the_canonical_form() -> None:
    reading = read(CANONICAL)

    assert write(reading.authored) == CANONICAL
    assert reading.warnings == ()
    assert revision(reading.authored) == hashlib.sha1(CANONICAL.encode(), usedforsecurity=False).hexdigest()


def test_all_that_is_shown() -> None:
    node = replace(
        _stored(replace(TASK, priority="p1", readiness="agent")), priority_stamp=STAMP, readiness_stamp=STAMP
    )

    assert raw(node, claim=Claim(HolderId("agent-7"), 3)) == (
        "---\n"
        "id: task-a\n"
        "type: task\n"
        'title: "Fix it"\n'
        'summary: "It is broken"\n'
        'date: "2026-10-01"\n'
        "priority: p1\n"
        'priority_by: "Ann <ann@a.example>"\n'
        'priority_at: "1970-01-01T00:00:01.000+00:00"\n'
        "priority_via: cli\n"
        "readiness: agent\n"
        'readiness_by: "Ann <ann@a.example>"\n'
        'readiness_at: "1970-01-01T00:00:01.000+00:00"\n'
        "readiness_via: cli\n"
        "author: person-ann\n"
        "authored_by_agent: agent-7\n"
        "session: s1\n"
        "authored_via: dispatch\n"
        'created_at: "1970-01-01T00:00:02.000+00:00"\n'
        'updated_at: "1970-01-01T00:00:03.000+00:00"\n'
        "edges:\n"
        '  - {type: assigned, to: agent-7, via: claim, epoch: "3"}\n'
        "---\n"
        "\n"
        "Text.\n"
    )
    assert front_matter(node, claim=Claim(HolderId("agent-7"), 3))["edges"] == [
        {"type": "assigned", "to": "agent-7", "via": "claim", "epoch": 3}
    ]


def test_a_node_by_nobody_known_shows_only_its_door() -> None:
    node = replace(_stored(TASK), attribution=Attribution(None, "rest"))

    assert "author" not in front_matter(node)
    assert front_matter(node)["authored_via"] == "rest"


def test_neither_stamps_nor_times_nor_a_claim_move_the_revision() -> None:
    bare = revision(read(raw(_stored(TASK))).authored)
    claimed = revision(read(raw(_stored(TASK), claim=Claim(HolderId("agent-7"), 3))).authored)

    assert bare == claimed == revision(TASK)


@pytest.mark.parametrize(
    "changed",
    [
        {"title": "Fix that"},
        {"summary": "It was broken"},
        {"status": "active"},
        {"date": None},
        {"project": "web"},
        {"priority": "p2"},
        {"readiness": "agent"},
        {"wake": "2026-10-02"},
        {"needed_by": "2026-10-02"},
        {"requires": ("human",)},
        {"profile": "profile-big"},
        {"extra": {"tags": ("a",)}},
        {"edges": (Edge("blocks", NodeId("task-b")),)},
        {"edges": (Edge("assigned", NodeId("agent-7")),)},
        {"body": "Text"},
        {"body": "Text.\n"},
    ],
)
def test_whatever_a_client_may_write_moves_the_revision(changed: dict[str, Any]) -> None:
    assert revision(replace(TASK, **changed)) != revision(TASK)


def test_the_order_of_edges_and_of_optional_keys_moves_nothing() -> None:
    a, b = Edge("blocks", NodeId("task-b")), Edge("blocks", NodeId("task-c"), {"x": "1", "y": "2"})
    one = read_json({**REQUIRED, "tags": ["t"], "outcome": "o", "edges": [_flat(a), _flat(b)]})
    two = read_json({**REQUIRED, "edges": [{"y": "2", "x": "1", **_flat(b)}, _flat(a)], "outcome": "o", "tags": ["t"]})

    assert revision(one.authored) == revision(two.authored)


@pytest.mark.parametrize(
    "text",
    [
        CANONICAL.replace("\n", "\r\n"),
        "\ufeff" + CANONICAL,
        CANONICAL.replace("---\nid", "---  \nid"),
        CANONICAL.replace('tags: [doors, "Hinges & co"]', "tags:\n- doors\n- Hinges & co"),
        CANONICAL.replace('commits: ["web@0123456"]', "commits: web@0123456"),
        CANONICAL.replace("project: web", "repo: web"),
        CANONICAL.replace("type: blocks, to", "type: blocks , to"),
        CANONICAL.replace("  - {type: blocks, to: task-b}", "  - type: blocks\n    to: task-b"),
    ],
)
def test_other_ways_to_write_the_same_node_read_the_same(text: str) -> None:
    assert write(read(text).authored) == CANONICAL


@pytest.mark.parametrize(
    "text,body",
    [
        ("", ""),
        ("\n", ""),
        ("\nText\n", "Text"),
        ("Text", "Text"),
        ("\n\n\n", "\n"),
        ("\r\na\rb\r\n", "a\nb"),
        ("\n---\nid: task-z\n---\n", "---\nid: task-z\n---"),
    ],
)
def test_what_follows_the_front_matter_is_the_body(text: str, body: str) -> None:
    front = "---\nid: task-a\ntype: task\ntitle: T\nsummary: S\n---\n"

    assert read(front + text).authored.body == body
    assert read(write(read(front + text).authored)).authored.body == body


@pytest.mark.parametrize("text", ["", "# A heading\n", "---\nid: task-a\n", " ---\nid: task-a\n---\n", "----\n---\n"])
def test_a_text_without_front_matter_is_refused(text: str) -> None:
    with pytest.raises(InvalidNode, match="a node begins with its keys between two lines of ---"):
        read(text)


def test_a_bare_colon_in_a_published_report_is_a_warning_not_a_lost_report() -> None:
    report = (
        "---\nid: art-dispatch-report-a-0b101010\ntype: artifact\nproject: web\ntitle: Dispatch report — task-a\n"
        "summary: Final report from the dispatched codex run on task-a, ended without\n  resolving it: fix: a # b\n"
        "date: 2026-10-01\nedges:\n  - {type: relates-to, to: task-a}\n---\n\nWhat I did.\n"
    )
    reading = read(report)

    assert reading.authored.summary == (
        "Final report from the dispatched codex run on task-a, ended without resolving it: fix: a # b"
    )
    assert reading.warnings == ("summary: is not quoted, and YAML reads it otherwise; taken as the text it is",)


def test_a_report_whose_first_line_looks_like_yaml_keeps_its_summary(hostile: str) -> None:
    summary = f"Ended without resolving it: {hostile}"

    assert read(write(replace(TASK, summary=summary))).authored.summary == summary


def test_values_that_look_like_numbers_or_dates_stay_strings_everywhere(
    hostile: str, yaml_readers: YamlReaders
) -> None:
    name = hostile or "-"
    node = _stored(replace(TASK, extra={"outcome": name, "tags": (name,)}))
    front = raw(node).removeprefix("---\n").rpartition("---\n")[0]
    expected = {"outcome": name, "tags": [name], "date": "2026-10-01"}

    for shown in (*(read_yaml(front) for read_yaml in yaml_readers), _as_json(front_matter(node))):
        assert isinstance(shown, dict)
        assert {key: shown[key] for key in expected} == expected


@pytest.mark.parametrize(
    "summary,fits",
    [("🎉" * 460, True), ("🎉" * 500, True), ("🎉" * 501, False), ("x" * 459 + "👨‍👩‍👧‍👦", True)],
)
def test_a_summary_is_counted_in_code_points(*, summary: str, fits: bool) -> None:
    fields = {**REQUIRED, "summary": summary}
    if fits:
        assert read_json(fields).authored.summary == summary
    else:
        with pytest.raises(InvalidNode, match="summary: 501 code points; the limit is 500 code points"):
            read_json(fields)


@pytest.mark.parametrize(
    "body,stored,warned",
    [
        ("a\0b", "a\ufffdb", True),
        ("h\0i\0", "h\ufffdi\ufffd", True),  # UTF-16 read as if it were text
        ("\ud800", "\ufffd", True),
        ("literally \\u0000", "literally \\u0000", False),
    ],
)
def test_what_cannot_be_stored_in_a_text_is_replaced_and_named(*, body: str, stored: str, warned: bool) -> None:
    by_json = read_json({**REQUIRED, "title": "T\0", "body": body})
    by_text = read(f"---\nid: task-a\ntype: task\ndate: 2026-10-01\ntitle: T\0\nsummary: S\ntags: [x\0]\n---\n{body}")

    assert by_json.authored.body == by_text.authored.body == stored
    assert by_json.authored.title == by_text.authored.title == "T\ufffd"
    assert by_text.authored.extra["tags"] == ("x\ufffd",)
    fields = ["title", "body"] if warned else ["title"]
    assert [warning.partition(":")[0] for warning in by_json.warnings] == fields
    assert [warning.partition(":")[0] for warning in by_text.warnings] == ["title", "tags", *fields[1:]]


def test_a_nul_by_escape_is_replaced_too() -> None:
    assert read('---\nid: task-a\ntype: task\ntitle: "T\\0"\nsummary: S\n---\n').authored.title == "T\ufffd"


@pytest.mark.parametrize("bad", ["\0", "\ud800"])
@pytest.mark.parametrize("key", ["id", "type", "status", "date", "project", "profile", "priority", "readiness"])
@pytest.mark.parametrize("as_text", [True, False])
def test_what_cannot_be_stored_in_an_identifier_is_refused(*, as_text: bool, key: str, bad: str) -> None:
    fields = {**REQUIRED, key: f"task-{bad}"}
    with pytest.raises(InvalidNode) as refusal:
        read(_as_text(fields)) if as_text else read_json(fields)

    assert all(finding.startswith((f"{key}: ", "id: ")) for finding in refusal.value.details)
    str(refusal.value.details).encode()


def test_stamps_and_attribution_that_come_in_count_for_nothing() -> None:
    forged = dict.fromkeys(nodes.STAMPED_KEYS, "person-somebody")

    reading = read_json({**REQUIRED, **forged})

    assert reading.authored == read_json(REQUIRED).authored
    assert reading.warnings == ()


def test_unknown_keys_are_ignored_and_named() -> None:
    reading = read_json({**REQUIRED, "colour": "red", "a key\nof two lines": {"x": [1]}})

    assert reading.authored == read_json(REQUIRED).authored
    assert reading.warnings == (
        "colour: not a key of a node; ignored",
        "'a key\\nof two lines': not a key of a node; ignored",
    )


def test_a_body_in_front_matter_is_no_body() -> None:
    reading = read("---\nid: task-a\ntype: task\ntitle: T\nsummary: S\ndate: 2026-10-01\nbody: B\n---\n")

    assert reading.authored.body == ""
    assert reading.warnings == ("body: not a key of front matter; ignored",)


@pytest.mark.parametrize(
    "keys,project,warned",
    [
        ({"project": "web"}, "web", False),
        ({"repo": "web"}, "web", False),
        ({"repo": "web", "project": "web"}, "web", False),
        ({"repo": "web", "project": "old"}, "web", True),
        ({"repo": "", "project": "old"}, "old", False),
        ({"repo": None}, None, False),
    ],
)
def test_repo_is_read_as_project(*, keys: dict[str, object], project: str | None, warned: bool) -> None:
    reading = read_json({**REQUIRED, **keys})

    assert reading.authored.project == project
    assert bool(reading.warnings) is warned


@pytest.mark.parametrize(
    "key,value,read_as",
    [
        ("requires", "human", ("human",)),
        ("requires", ["human", "", None], ("human",)),
        ("requires", None, ()),
        ("priority", "none", None),
        ("priority", "p0", None),
        ("readiness", "clear", None),
        ("status", "", None),
        ("date", None, None),
    ],
)
def test_short_forms_and_forms_that_clear(key: str, value: object, read_as: object) -> None:
    assert getattr(read_json({**REQUIRED, key: value}).authored, key) == read_as


@pytest.mark.parametrize(
    "key,value,read_as",
    [
        ("tags", "one", ("one",)),
        ("tags", [], None),
        ("always_on", True, "true"),
        ("always_on", "false", "false"),
        ("outcome", "", None),
        ("commits", ["web@abcdef1", "web@abcdef12"], ("web@abcdef12",)),
    ],
)
def test_optional_keys_as_they_come(key: str, value: object, read_as: object) -> None:
    assert read_json({**REQUIRED, key: value}).authored.extra.get(key) == read_as


@pytest.mark.parametrize(
    "key,value,finding",
    [
        ("title", 3, "title: must be a string, not a number"),
        ("title", None, "title: required"),
        ("summary", ["a"], "summary: must be a string, not an array"),
        ("status", {"a": 1}, "status: must be a string, not an object"),
        ("repo", ["web"], "project: must be a string, not an array"),
        ("body", 7, "body: must be a string, not a number"),
        ("always_on", 1, "always_on: must be a string, not a number"),
        ("tags", [1, "a"], "tags: takes strings, not a number"),
        ("requires", [["human"]], "requires: takes strings, not an array"),
        ("edges", {"type": "blocks"}, "edges: takes a list of {type: …, to: …}"),
        ("edges", "blocks", "edges: takes a list of {type: …, to: …}"),
        ("edges", ["blocks"], "edges[0]: must be {type: …, to: …}, not a string"),
        ("edges", [{"to": "task-b"}], "edges[0].type: must be a string, not null"),
        ("edges", [{"type": "blocks"}], "edges[0].to: must be a string, not null"),
        ("edges", [{"type": "blocks", "to": "Task"}], 'edges[0].to: "Task" is not an id'),
        ("edges", [{"type": "resolved-by", "to": "task-b"}], 'edges[0].type: "resolved-by" is not an edge type'),
        ("edges", [{"type": "blocks", "to": "task-b", "n": 1}], "edges[0].n: must be a string, not a number"),
        ("edges", [{"type": "blocked-by", "to": "task-a"}], "edges: blocks may not lead from a node to itself"),
        (
            "edges",
            [{"type": "blocks", "to": "task-b"}, {"type": "blocks", "to": "task-b", "x": "y"}],
            'edges: blocks to "task-b" stands twice with different attributes',
        ),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_finding(key: str, value: object, finding: str) -> None:
    with pytest.raises(InvalidNode) as refusal:
        read_json({**REQUIRED, key: value})

    (found,) = refusal.value.details
    assert found.startswith(finding)


def test_a_profile_that_says_what_to_run_is_refused() -> None:
    profile = {**REQUIRED, "id": "profile-a", "type": "profile", "argv": ["rm"]}

    with pytest.raises(InvalidNode, match="argv: a profile says what a worker needs, never what it runs"):
        read_json(profile)


def test_every_finding_of_a_bad_node_comes_at_once() -> None:
    with pytest.raises(InvalidNode) as refusal:
        read_json(
            {"id": "Task", "type": "task", "title": 1, "priority": "high", "edges": [3, {"type": "x", "to": "y"}]}
        )

    assert [finding.partition(":")[0] for finding in refusal.value.details] == [
        "edges[0]",
        "edges[1].type",
        "title",
        "id",
        "id",
        "summary",
        "priority",
    ]


def test_aliases_are_renamed_repeats_merged_and_inverses_flipped_onto_the_other_node() -> None:
    reading = read_json(
        {
            **REQUIRED,
            "edges": [
                {"type": "related-to", "to": "task-c"},
                {"type": "relates-to", "to": "task-c"},
                {"type": "blocked-by", "to": "task-b", "why": "x"},
            ],
        }
    )

    assert reading.authored.edges == (Edge("relates-to", NodeId("task-c")),)
    assert reading.flipped == (Flipped(NodeId("task-b"), Edge("blocks", NodeId("task-a"), {"why": "x"})),)
    assert reading.warnings == ("edges[2]: blocked-by task-b is written as blocks on task-b",)


def test_the_edge_of_a_claim_is_dropped_and_the_hand_made_one_beside_it_kept() -> None:
    reading = read_json(
        {
            **REQUIRED,
            "edges": [
                {"type": "assigned", "to": "agent-7"},
                {"type": "assigned", "to": "agent-7", "via": "claim", "epoch": 3},
            ],
        }
    )

    assert reading.authored.edges == (Edge("assigned", NodeId("agent-7")),)


@pytest.mark.parametrize("size", [255, 3000])
def test_long_ids_and_titles_are_refused_by_their_limit(size: int) -> None:
    with pytest.raises(InvalidNode) as refusal:
        read_json({**REQUIRED, "id": "task-" + "x" * (size - 5), "title": "T" * 100_000})

    assert refusal.value.details == (
        f"id: {size} bytes; the limit is 200 bytes",
        "title: 100000 code points; the limit is 300 code points",
    )


def _as_json(value: object) -> dict[str, object]:
    return msgspec.json.decode(msgspec.json.encode(value), type=dict[str, object])


def _as_text(fields: dict[str, object]) -> str:
    return "---\n" + "".join(f'{key}: "{value}"\n' for key, value in fields.items()) + "---\n"


def _flat(edge: Edge) -> dict[str, str]:
    return {"type": edge.type, "to": edge.to, **edge.attrs}


def _plain_keys(authored: Authored) -> dict[str, object]:
    """The node as a client would say it in JSON."""
    named = {
        key: getattr(authored, key)
        for key in (
            "id type title summary status date project priority readiness wake needed_by requires profile body".split()
        )
    }
    every = {**named, **authored.extra, "edges": [_flat(edge) for edge in authored.edges]}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in every.items() if value}


def _stored(authored: Authored) -> Node:
    return Node(
        authored,
        revision(authored),
        Attribution(PersonId(HolderId("person-ann")), "dispatch", AgentId(HolderId("agent-7")), "s1"),
        created_at=Instant(2_000_000),
        updated_at=Instant(3_000_000),
    )
