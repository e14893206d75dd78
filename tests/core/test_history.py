from __future__ import annotations

import pytest

from batonpass.core.errors import Invalid
from batonpass.core.history import REASON_CHARS_MAX, parse_reason, parse_revision


@pytest.mark.parametrize("text", ["abcdef12", "0" * 40])
def test_a_revision_is_named_by_its_beginning(text: str) -> None:
    assert parse_revision(text) == text


@pytest.mark.parametrize("text", ["", "abcdef1", "ABCDEF12", "0" * 41, "abcdefgh", "abcdef12\n"])
def test_what_names_no_revision_is_refused_with_the_limit(text: str) -> None:
    with pytest.raises(Invalid, match="8 to 40 lower-case hex digits"):
        parse_revision(text)


def test_a_reason_is_always_given_and_no_essay() -> None:
    assert parse_reason("a secret") == "a secret"
    with pytest.raises(Invalid, match="required"):
        parse_reason(" \n")
    with pytest.raises(Invalid, match=f"the limit is {REASON_CHARS_MAX} code points"):
        parse_reason("x" * (REASON_CHARS_MAX + 1))
