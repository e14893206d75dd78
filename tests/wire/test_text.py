from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.wire.text import Cleaner, marked, unix_newlines

ANY_TEXT = st.text(st.characters(codec=None), max_size=40)  # lone surrogates and NUL included


@pytest.mark.parametrize(
    "text,stored,warning",
    [
        ("plain", "plain", None),
        ("six letters: \\u0000", "six letters: \\u0000", None),
        ("a\0b", "a\ufffdb", "title: 1 character that cannot be stored (NUL or lone surrogates) became U+FFFD"),
        (
            "\ud800x\udfff",
            "\ufffdx\ufffd",
            "title: 2 characters that cannot be stored (NUL or lone surrogates) became U+FFFD",
        ),
        (
            "h\0i\0",
            "h\ufffdi\ufffd",
            "title: 2 characters that cannot be stored (NUL or lone surrogates) became U+FFFD",
        ),
        ("\U0001f389 \ufffd", "\U0001f389 \ufffd", None),
    ],
)
def test_what_no_database_holds_is_replaced_and_named(text: str, stored: str, warning: str | None) -> None:
    cleaner = Cleaner()

    assert cleaner.text(text, field="title") == stored
    assert cleaner.warnings == ([warning] if warning else [])


def test_an_identifier_is_replaced_in_silence_since_its_rule_refuses_it() -> None:
    cleaner = Cleaner()

    assert cleaner.identifier("task-\0") == "task-\ufffd"
    assert cleaner.warnings == []


@given(text=ANY_TEXT)
def test_a_marked_text_can_be_encoded_and_cleans_to_the_same_as_the_text_itself(text: str) -> None:
    through, mark = marked(text)

    assert "\0" not in through
    through.encode()
    assert Cleaner(mark).text(through, field="body") == Cleaner().text(text, field="body")


def test_a_text_that_uses_up_every_private_character_is_still_cleaned() -> None:
    crowded = "".join(map(chr, range(0xE000, 0xF900))) + "\0"

    through, mark = marked(crowded)

    assert Cleaner(mark).text(through, field="body") == crowded[:-1] + "\ufffd"


@given(text=st.text(st.sampled_from("a\r\n"), max_size=12))
def test_newlines_are_made_one_kind_once_and_for_all(text: str) -> None:
    assert "\r" not in unix_newlines(text)
    assert unix_newlines(unix_newlines(text)) == unix_newlines(text)
    assert unix_newlines("a\r\nb\rc\n") == "a\nb\nc\n"
