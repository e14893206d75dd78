"""Nodes as people really have them: what the published format allows, what editors leave, and what is refused."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.errors import InvalidNode
from batonpass.core.nodes import BODY_BYTES_MAX, EDGES_MAX
from batonpass.wire.markdown import Reading, fields, read, read_json, revision, write

HEAD: Final = "---\nid: task-a\ntype: task\n"
REQUIRED: Final = "title: T\nsummary: S\ndate: 2026-10-01\n"


def reading(lines: str, *, head: str = HEAD, body: str = "") -> Reading:
    """Return what a task with these further lines reads as."""
    return read(f"{head}{REQUIRED}{lines}---\n{body}")


def keys(lines: str) -> dict[str, Any]:
    """Return the keys that these lines add to a task."""
    plain = fields(reading("").authored)
    return {key: value for key, value in fields(reading(lines).authored).items() if plain.get(key) != value}


def edge(kind: str, to: str, **attrs: str) -> dict[str, str]:
    """Return an edge as JSON."""
    return {"type": kind, "to": to, **attrs}


# --- lists and edges -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines,expected",
    [
        ("tags: [a, b]\n", {"tags": ("a", "b")}),
        ("tags:\n  - a\n  - b\n", {"tags": ("a", "b")}),
        ("tags:\n- a\n- b\n", {"tags": ("a", "b")}),
        ("tags:\n\t- a\n\t- b\n", {"tags": ("a", "b")}),
        ("tags: a\n", {"tags": ("a",)}),
        ("tags: []\n", {}),
        ("tags:\n", {}),
        ("tags: [yes, 1.0, null, ~, 2026-01-01]\n", {"tags": ("yes", "1.0", "null", "~", "2026-01-01")}),
        ('tags: [\'a, b\', "c: d", "#e"]\n', {"tags": ("a, b", "c: d", "#e")}),
        ("tags: [a,\n  b,\n  c]\n", {"tags": ("a", "b", "c")}),
        ("requires: human\n", {"requires": ("human",)}),
        ("requires:\n- human # always\n", {"requires": ("human",)}),
        ("commits:\n- web@0123456\n- web@01234567\n", {"commits": ("web@01234567",)}),
        ("repo: web\n", {"project": "web"}),
        ("project: web\n", {"project": "web"}),
        ("project: old\nrepo: web\n", {"project": "web"}),
        ("# a comment\npriority: p1 # another\n", {"priority": "p1"}),
        ("priority: 'p1'\n", {"priority": "p1"}),
        ("priority:\tp1\n", {"priority": "p1"}),
        ("priority: p1   \n", {"priority": "p1"}),
        ("status: open\r\n", {"status": "open"}),
    ],
)
def test_every_way_to_write_a_key_reads_the_same(lines: str, expected: dict[str, object]) -> None:
    assert keys(lines) == expected


BLOCKS: Final = [edge("blocks", "task-b")]


@pytest.mark.parametrize(
    "lines,expected",
    [
        ("edges:\n  - {type: blocks, to: task-b}\n", BLOCKS),
        ("edges:\n- {type: blocks, to: task-b}\n", BLOCKS),
        ("edges:\n- { type: blocks ,  to: task-b }\n", BLOCKS),
        ("edges:\n- {type: 'blocks', to: \"task-b\"}\n", BLOCKS),
        ("edges:\n- {to: task-b, type: blocks,}\n", BLOCKS),
        ("edges:\n- type: blocks\n  to: task-b\n", BLOCKS),
        ("edges:\n\t- {type: blocks, to: task-b}\n", BLOCKS),
        ("edges: [{type: blocks, to: task-b}]\n", BLOCKS),
        ("edges:\n- {type: blocks, to: task-b} # first\n# none between\n\n- {type: blocks, to: task-b}\n", BLOCKS),
        (
            "edges:\n- {type: blocks, to: task-b, why: big-one, n: 3}\n",
            [edge("blocks", "task-b", n="3", why="big-one")],
        ),
        (
            "edges:\n- {type: relates-to, to: task-c}\n- {type: blocks, to: task-b}\n",
            [*BLOCKS, edge("relates-to", "task-c")],
        ),
        ("edges:\n- {type: related-to, to: task-c}\n", [edge("relates-to", "task-c")]),
        ("edges: []\n", None),
        ("edges:\n", None),
    ],
)
def test_every_way_to_write_edges_reads_the_same(lines: str, expected: list[dict[str, str]] | None) -> None:
    assert keys(lines).get("edges") == expected


@pytest.mark.parametrize(
    "attr",
    ['"a, b"', '"a: b"', '"a}b"', '"{a"', "'it''s'", '"say \\"x\\""', '"[a]"', "'a, to: task-z'"],
)
def test_what_stands_in_quotes_in_a_flow_map_is_one_value_and_named_as_it_is(attr: str) -> None:
    with pytest.raises(InvalidNode) as refusal:
        reading(f"edges:\n- {{type: blocks, to: task-b, why: {attr}}}\n")

    (finding,) = refusal.value.details
    assert finding.startswith("edges[0].why: ")
    assert finding.endswith("is not a token of letters, digits, _ and -")


def test_as_many_edges_as_there_may_be_with_ids_as_long_as_they_may_be() -> None:
    ids = [f"task-{n:02}-".ljust(200, "x") for n in range(EDGES_MAX)]
    lines = "edges:\n" + "".join(f"- {{type: blocks, to: {to}}}\n" for to in ids)

    assert [found.to for found in reading(lines).authored.edges] == ids
    with pytest.raises(InvalidNode, match="edges: 41 edges; the limit is 40 edges"):
        reading(f"{lines}- {{type: blocks, to: task-one-more}}\n")
    with pytest.raises(InvalidNode, match=r"edges\[0\]\.to: 201 bytes; the limit is 200 bytes"):
        reading(f"edges:\n- {{type: blocks, to: {ids[0]}x}}\n")


# --- titles ----------------------------------------------------------------------------------------------------------

TITLES: Final = [
    "yes", "1.0", "2026-01-01", "null", "~", "- x", "a: b", "#x", "Fix #12", "see a #b: c", "{x}", "[x]", "[WIP] Fix",
    "{a: b", "|x", "> x", "%", "%x", "@", "@ann look", "`code` fails", "`", ",x", "? x", "?", "-", "--- x", "]", "}",
    "x:", "http://x.example/#y", "a\u2028b", "a\u0085b", "a\tb", "it's", 'a "b" c', "🎉 done", "\u200dx", "=", "<<",
    "x" * 300, "a  b", "\\n", "100%", "!", "a & b", "*",
]  # fmt: skip


@pytest.mark.parametrize("title", [title for title in TITLES if title[0] not in "&*!"], ids=ascii)
@pytest.mark.parametrize("key", ["title", "summary"])
def test_a_bare_title_is_the_text_that_stands_there_whatever_yaml_makes_of_it(key: str, title: str) -> None:
    text = f"{HEAD}{REQUIRED}---\n".replace(f"{key}: {key[0].upper()}\n", f"{key}: {title}\n")

    assert getattr(read(text).authored, key) == title


@pytest.mark.parametrize(
    "line,title",
    [
        ('"Fix: it"', "Fix: it"),
        ("'Fix: it'", "Fix: it"),
        ("'it''s'", "it's"),
        ('"tab\\t and \\u00e9"', "tab\t and é"),
        ('"Fix" and "mend"', 'Fix" and "mend'),
        ('"Fix" and mend', '"Fix" and mend'),
        ("'tis broken", "'tis broken"),
        ('"half', '"half'),
        ('"x" # why', "x"),
        ("Fix it\n  on two lines", "Fix it on two lines"),
        ("Fix it:\n  on two lines # here", "Fix it: on two lines # here"),
        ('"Fix\n  it"', "Fix it"),
        (">-\n  Fix\n  it", "Fix it"),
        ("|\n  Fix: it", "Fix: it\n"),
        ("Fix\n\tit", "Fix it"),
        ("  Fix  ", "Fix"),
    ],
)
def test_quotes_and_follow_on_lines_of_a_title(line: str, title: str) -> None:
    assert read(f"{HEAD}{REQUIRED}---\n".replace("title: T", f"title: {line}")).authored.title == title


@pytest.mark.parametrize("title", ["&a", "*a", "*bold* move", "!t", "!important fix"])
def test_a_bare_title_that_begins_an_anchor_alias_or_tag_is_refused_with_the_way_out(title: str) -> None:
    with pytest.raises(InvalidNode, match=r"front matter, line 4: .*quote"):
        read(f"{HEAD}{REQUIRED}---\n".replace("title: T", f"title: {title}"))


def test_only_what_was_taken_otherwise_than_yaml_would_is_warned_about() -> None:
    text = f"{HEAD}{REQUIRED}---\n".replace("title: T", "title: Fix #12").replace("summary: S", "summary: Fix it")

    assert read(text).warnings == ("title: is not quoted, and YAML reads it otherwise; taken as the text it is",)


@given(title=st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), min_size=1, max_size=40))
def test_a_bare_title_is_read_as_it_stands_or_refused_and_never_cut(title: str) -> None:
    stripped = title.strip(" \t")
    try:
        read_title = read(f"{HEAD}{REQUIRED}---\n".replace("title: T", f"title: {title}")).authored.title
    except InvalidNode:
        return

    outer = stripped[:1] in {"'", '"', "|", ">"}
    assert outer or read_title == stripped or read_title.split() == stripped.split()


# --- the file around them --------------------------------------------------------------------------------------------

WHOLE: Final = f"{HEAD}{REQUIRED}tags: [a]\n---\n\nText\n---\nmore\n"


@pytest.mark.parametrize(
    "text",
    [
        WHOLE,
        "\ufeff" + WHOLE,
        WHOLE.replace("\n", "\r\n"),
        WHOLE.replace("\n", "\r"),
        "\ufeff" + WHOLE.replace("\n", "\r\n"),
        WHOLE.replace("---\nid", "--- \t\nid").replace("---\n\nText", "---  \n\nText"),
        WHOLE.removesuffix("\n"),
        WHOLE.replace("---\n\nText", "---\nText"),
        WHOLE.replace("tags: [a]", "\n# why\ntags:\n- a\n"),
    ],
)
def test_what_editors_and_systems_leave_behind_makes_no_other_node(text: str) -> None:
    assert write(read(text).authored) == write(read(WHOLE).authored)
    assert read(text).authored.body == "Text\n---\nmore"


@pytest.mark.parametrize("char", ["x", "é", "語", "🎉"])
def test_a_body_is_counted_in_bytes_whatever_it_is_written_in(char: str) -> None:
    fits = char * (BODY_BYTES_MAX // len(char.encode()))

    assert reading("", body=f"\n{fits}\n").authored.body == fits
    with pytest.raises(InvalidNode, match=r"body: 819[3-6] bytes; the limit is 8192 bytes"):
        reading("", body=f"\n{fits}{char}\n")


@pytest.mark.parametrize(
    "lines,finding",
    [
        ("tags: [a]\ntags: [b]\n", 'front matter, line 8: the key "tags" stands twice'),
        ("edges:\n- {type: blocks, to: task-b, to: task-c}\n", 'front matter, line 8: the key "to" stands twice'),
        ("tags: &x [a]\n", "front matter, line 7: anchors are not read"),
        ("tags: *x\n", "front matter, line 7: aliases are not read"),
        ("tags: !!set {a}\n", "front matter, line 7: tags are not read"),
        ("<<: {status: open}\n", "front matter, line 7: merge keys are not read"),
        ("edges:\n- {type: blocks, to: [task-b]}\n", "front matter, line 8: nested deeper"),
        ("tags: [a\n", "front matter, line 8: "),
        ("edges:\n- {type: blocks, to: task-b\n", "front matter, line 9: "),
        ("edges:\n- {type: blockz, to: task-b}\n", 'edges[0].type: "blockz" is not an edge type; did you mean blocks?'),
        ("edges: {type: blocks, to: task-b}\n", "edges: takes a list"),
        ("wake: tomorrow\n", 'wake: "tomorrow" is not a day of the form YYYY-MM-DD'),
    ],
)
def test_what_is_refused_names_its_line_or_its_field_and_the_way_out(lines: str, finding: str) -> None:
    with pytest.raises(InvalidNode) as refusal:
        reading(lines)

    assert refusal.value.message.startswith(finding)


# --- JSON ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", TITLES, ids=ascii)
def test_a_node_is_the_same_through_json_and_through_markdown(title: str) -> None:
    node = read_json({"id": "task-a", "type": "task", "title": title, "summary": title, "tags": [title], "body": title})
    again = read_json(json.loads(json.dumps(fields(node.authored))))

    assert again.authored == read(write(node.authored)).authored == node.authored
    assert revision(again.authored) == revision(node.authored)
