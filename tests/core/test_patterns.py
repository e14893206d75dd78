from __future__ import annotations

import re
import time

import pytest

from batonpass.core.patterns import chars_max, what_is_wrong


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
        "^(red|green)(,(red|green))*$",
        r"^[^@]+@[^@]+\.[a-z]+$",
        r"^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?$",
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
        "((?!x)a|a)*$",
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
    "pattern", ["(-a*a*)*$", "(-a?a?)*$", "(x(?:a|a))*$", "(-(a|ab)c)*$", "(-a*b?)*$", "(-(|a))*$"]
)
def test_a_pattern_whose_turns_are_parted_and_each_read_in_several_ways_is_not(pattern: str) -> None:
    assert (
        what_is_wrong(pattern)
        == "a repetition repeats several others, or alternatives, so that each turn can be read in several ways"
    )


@pytest.mark.parametrize(
    "pattern", ["a?" * 26 + "a" * 26, "(a|a)" * 24 + "b", "((){1000}){1000}", "(((a|b){100}){100}){100}"]
)
def test_a_pattern_with_too_many_options_is_not(pattern: str) -> None:
    assert (
        what_is_wrong(pattern) == "its options and alternatives can be read together in too many ways; make it simpler"
    )


@pytest.mark.parametrize(
    "pattern, most",
    [
        ("^[a-z]+(-[a-z]+)*$", 1_000),
        (r"^[^@]+@[^@]+\.[a-z]+$", 391),
        ("a*a*b", 271),
        ("a*a*a*a*b", 47),
        ("^a*a*a*a*$", 124),
    ],
)
def test_the_more_a_pattern_repeats_the_shorter_are_its_texts(pattern: str, most: int) -> None:
    assert what_is_wrong(pattern) is None
    assert chars_max(pattern) == most


@pytest.mark.parametrize(
    "pattern", ["a*a*a*a*b", "a*a*a*b", "^a*a*a*a*b", "a*a*b", "a?" * 12 + "b", "(a|a)(a|a)(a|a)a*b"]
)
def test_the_longest_text_of_a_pattern_is_soon_matched(pattern: str) -> None:
    assert what_is_wrong(pattern) is None
    began = time.perf_counter()

    assert re.search(pattern, "a" * chars_max(pattern)) is None

    assert time.perf_counter() - began < 2


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
