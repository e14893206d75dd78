from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.errors import InvalidNode
from batonpass.wire.frontmatter import dump, load, scalar

YamlReaders = tuple[Callable[[str], object], ...]
STORABLE: Final = st.characters(codec="utf-8", exclude_characters="\0")


def test_what_we_write_reads_back_as_the_same_string_by_every_reader(hostile: str, yaml_readers: YamlReaders) -> None:
    text = hostile
    written = dump([("summary", text), ("tags", (text, text)), ("edges", [{"type": text, "to": text}])])
    expected = {"summary": text, "tags": [text, text], "edges": [{"type": text, "to": text}]}

    assert load(written) == (expected, [])
    assert [read(written) for read in yaml_readers] == [expected, expected]


@given(text=st.text(STORABLE))
def test_any_storable_text_reads_back_by_every_reader(text: str, yaml_readers: YamlReaders) -> None:
    written = dump([("title", text)])

    assert load(written) == ({"title": text}, [])
    assert [read(written) for read in yaml_readers] == [{"title": text}, {"title": text}]
    assert written.count("\n") == 1


@given(text=st.from_regex(r"[a-z0-9-]{1,12}", fullmatch=True))
def test_words_and_ids_read_back_by_every_reader(text: str, yaml_readers: YamlReaders) -> None:
    assert [read(f"k: {scalar(text)}") for read in yaml_readers] == [{"k": text}, {"k": text}]


@pytest.mark.parametrize(
    "text,written",
    [
        ("task", "task"),
        ("fix-the-2nd-door", "fix-the-2nd-door"),
        ("0-first", '"0-first"'),
        ("a-", '"a-"'),
        ("a--b", '"a--b"'),
        ("Task", '"Task"'),
        ("a b", '"a b"'),
        ('say "hi" \\', '"say \\"hi\\" \\\\"'),
        ("a\tb\r\n", '"a\\tb\\r\\n"'),
        ("\x00\x1b\x85\u2028\ufeff", '"\\u0000\\u001b\\u0085\\u2028\\ufeff"'),
        ("on", '"on"'),
        ("", '""'),
    ],
)
def test_only_plain_lower_case_words_are_written_bare(text: str, written: str) -> None:
    assert scalar(text) == written


def test_a_key_without_a_value_is_left_out() -> None:
    assert dump([("tags", ()), ("edges", []), ("id", "task-a")]) == "id: task-a\n"


@pytest.mark.parametrize(
    "text,keys",
    [
        ("", {}),
        ("# nothing but a comment\n", {}),
        ("id: task-a # why\n", {"id": "task-a"}),
        (
            "n: 22.10\nd: 2026-01-01\nb: yes\nz: ~\ne:\n",
            {"n": "22.10", "d": "2026-01-01", "b": "yes", "z": "~", "e": ""},
        ),
        ("tags: [a, 'b c']\n", {"tags": ["a", "b c"]}),
        ("tags:\n  - a\n  - b\n", {"tags": ["a", "b"]}),
        ("tags:\n- a\n- b\n", {"tags": ["a", "b"]}),
        ("s: one\n  two\n", {"s": "one two"}),
        ("s: >-\n  one\n  two\nt: |\n  x\n", {"s": "one two", "t": "x\n"}),
        ("edges:\n  - {type: blocks, to: task-b}\n", {"edges": [{"type": "blocks", "to": "task-b"}]}),
        ("edges:\n- type: blocks\n  to: task-b\n", {"edges": [{"type": "blocks", "to": "task-b"}]}),
        ("x: {a: b}\ny: [[a], b]\n", {"x": {"a": "b"}, "y": [["a"], "b"]}),
    ],
)
def test_what_front_matter_may_hold(text: str, keys: dict[str, object]) -> None:
    assert load(text) == (keys, [])


@pytest.mark.parametrize(
    "text,finding",
    [
        ("a: &x b\n", "line 2: anchors are not read"),
        ("a: b\nc: *b\n", "line 3: aliases are not read"),
        ("a: [&x b, c]\n", "line 2: anchors are not read"),
        ("a: &x [b]\n", "line 2: anchors are not read"),
        ("a: !x b\n", "line 2: tags are not read"),
        ("a: !!python/object/apply:os.system [ls]\n", "line 2: tags are not read"),
        ("a: !!str b\n", "line 2: tags are not read"),
        ("<<: {a: b}\n", "line 2: merge keys are not read"),
        ("edges:\n- {<<: x}\n", "line 3: merge keys are not read"),
        ("a: b\na: c\n", 'line 3: the key "a" stands twice'),
        ("edges:\n- {to: a, to: b}\n", 'line 3: the key "to" stands twice'),
        ("a:\n  b: c\n", "line 3: nested deeper than a list of edges"),
        ("a: {b: [c]}\n", "line 2: nested deeper than a list of edges"),
        ("a: [{b: {c: d}}]\n", "line 2: nested deeper than a list of edges"),
        ("a:\n- - b\n", "line 3: nested deeper than a list of edges"),
        ("[a]: b\n", "line 2: nested deeper than a list of edges"),
        ("- a\n", "line 2: this must be keys and values"),
        ("just text\n", "line 2: this must be keys and values"),
        ("%YAML 1.1\n--- \na: b\n", "line 2: directives are not read"),
        ("%TAG ! tag:x,2002:\n--- \na: b\n", "line 2: directives are not read"),
        ("a: b\n--- c\n", "line 3: a second document begins"),
        ("a: b\n...\nc: d\n", "line 4: did not find expected <document start>"),
        ("a: [b\n", "line 3: did not find expected ',' or ']'"),
        ("a: b: c\n", "line 2: mapping values are not allowed in this context; quote texts"),
        ("a: @b\n", "line 2: found character that cannot start any token"),
        ('a: "\\ud800"\n', "line 2: found invalid Unicode character escape code"),
        ("a: \x07\n", "front matter: control characters are not allowed; quote texts"),
    ],
)
def test_what_two_readers_could_read_differently_is_refused_by_its_line(text: str, finding: str) -> None:
    with pytest.raises(InvalidNode) as refusal:
        load(text)

    assert finding in refusal.value.message
    assert refusal.value.details == (refusal.value.message,)


@pytest.mark.parametrize(
    "text,key,value",
    [
        ("title: fix: a\n", "title", "fix: a"),
        ("title:   Fix: a # not a comment \n", "title", "Fix: a # not a comment"),
        ("summary: Final report on task-a, ended without\n  resolving it: it: works\n", "summary",
         "Final report on task-a, ended without resolving it: it: works"),
        ("summary: as follows:\n", "summary", "as follows:"),
    ],
)  # fmt: skip
def test_a_bare_title_or_summary_with_a_colon_is_taken_as_text(text: str, key: str, value: str) -> None:
    assert load(f"id: task-a\n{text}type: task\n") == (
        {"id": "task-a", key: value, "type": "task"},
        [f"{key}: is not quoted, and YAML reads it otherwise; taken as the text it is"],
    )


@pytest.mark.parametrize(
    "text,line",
    [
        ("title: fix: a\nname: fix: a\n", 3),
        ("summary: long\n  and: longer\n\nname: fix: a\n", 5),
        ("name: - a: b\n", 2),
        ("name: [a: b\n", 3),
    ],
)
def test_other_keys_and_other_breakage_are_refused_with_the_line_they_are_on(text: str, line: int) -> None:
    with pytest.raises(InvalidNode, match=f"line {line}: "):
        load(text)


def test_a_text_that_yaml_reads_is_left_to_yaml() -> None:
    assert load('title: "fix: a"\nsummary: http://a.example\n') == (
        {"title": "fix: a", "summary": "http://a.example"},
        [],
    )


@given(text=st.text(st.characters(codec="utf-8"), max_size=60))
def test_no_text_does_more_than_be_read_or_refused(text: str) -> None:
    try:
        load(text)
    except InvalidNode as refusal:
        assert refusal.message.startswith("front matter")  # noqa: PT017 — either outcome is right
