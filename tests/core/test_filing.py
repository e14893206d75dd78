"""What is derived from a text: title, summary, ids, and parts that are the text again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.filing import body_of, numbered, parts, stem_of, summary_of, title_of
from batonpass.core.ids import NODE_ID_BYTES_MAX, parse_node_id
from batonpass.core.nodes import SUMMARY_CHARS_MAX

WORDS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eight"
)


@pytest.mark.parametrize(
    "text,title",
    [
        ("Which port?", "Which port?"),
        ("\n \n  Which\tport?  \nThe unit file says 80.", "Which port?"),
        (" \n\t", ""),
        (WORDS, "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen…"),
        ("x" * 101, "x" * 99 + "…"),
        ("x" * 100, "x" * 100),
    ],
)
def test_a_title_is_the_first_line_cut_behind_a_word(text: str, title: str) -> None:
    assert title_of(text) == title


def test_a_summary_is_the_whole_text_in_a_line_as_far_as_it_may_go() -> None:
    assert summary_of("Which port?\n\nThe unit file says 80.") == "Which port? The unit file says 80."
    assert len(summary_of("x" * 501)) == SUMMARY_CHARS_MAX


def test_a_body_does_not_repeat_what_the_summary_says() -> None:
    assert body_of("Which port?", "Which port?") == ""
    assert body_of("Which\nport?", "Which port?") == "Which\nport?"


@given(st.text(), st.integers(1, 10**9))
def test_every_title_makes_ids(title: str, n: int) -> None:
    node = numbered(stem_of("question-", title), n)

    assert parse_node_id(node) == node
    assert len(node) <= NODE_ID_BYTES_MAX


def test_the_first_id_of_a_stem_has_no_number() -> None:
    assert (numbered("cap-a", 1), numbered("cap-a", 2)) == ("cap-a", "cap-a-2")


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.integers(4, 40))
def test_parts_are_the_text_again_and_none_is_too_long(text: str, bytes_max: int) -> None:
    found = list(parts(text, bytes_max=bytes_max))

    assert "".join(found) == text
    assert all(len(part.encode()) <= bytes_max for part in found)
    assert all(found) or found == [""]


def test_a_part_ends_behind_a_line_where_there_is_one_in_its_second_half() -> None:
    assert list(parts("1234567\n90123", bytes_max=10)) == ["1234567\n", "90123"]
    assert list(parts("123\n567890123", bytes_max=10)) == ["123\n567890", "123"]
