from __future__ import annotations

import pytest

from batonpass.core.patterns import what_is_wrong


@pytest.mark.parametrize(
    "pattern",
    [
        "^[a-z]+$",
        "^[a-z]+(-[a-z]+)*$",
        r"^\d{4}-\d{2}-\d{2}$",
        "^(open|closed)$",
        "^(?:open|closed)-[0-9]+$",
        r"^[a-z0-9]+(\.[a-z0-9]+)*@[a-z]+$",
        "(?P<year>[0-9]{4})",
        r"\(a+\)",
        "[(a+)+]",
        "(?!x)y",
        "(abc)+",
        "([0-9]{2}:)+",
        "(-(a|b+))*",
        "^(?=a)b+$",
        "",
    ],
)
def test_a_pattern_with_one_way_to_read_a_text_is_taken(pattern: str) -> None:
    assert what_is_wrong(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+$",
        "(a*)*$",
        "(a|a)*$",
        "(a|ab)+$",
        "(?:a+)+$",
        "((a+)b?)+$",
        "(a+){2,}$",
        "([a-z]+[a-z]+)*$",
        "(-?[a-z]+)*$",
        "(-a|b+)*$",
        "((-|b+)c)*$",
        "((?!-)a+)*$",
        "(a+b)+$",
        "((a+)){3}$",
        "(.[a-z]+)*$",
        "(-[a-z-]+)*$",
        r"(\w+\s*)+$",
    ],
)
def test_a_pattern_with_ever_more_ways_is_not(pattern: str) -> None:
    assert (
        what_is_wrong(pattern)
        == "a repetition repeats another one, or an alternative, and no character parts its turns"
    )


@pytest.mark.parametrize(
    "pattern, why",
    [
        ("(", "no regular expression of Python's: missing ), unterminated subpattern at position 0"),
        ("[[a]", "no regular expression of Python's: Possible nested set at position 1"),
        ("a*a*a*a*a*b", "5 repetitions; the limit is 4"),
        (r"(a)\1", "references back to a group are not taken"),
        ("(?i:a)", "groups with flags, comments or conditions are not taken"),
        ("a" * 501, "501 characters; the limit is 500"),
    ],
)
def test_what_is_no_pattern_says_why(pattern: str, why: str) -> None:
    assert what_is_wrong(pattern) == why
