"""What counts as a word, and how little of how it was typed matters."""

# ruff: noqa: RUF001 — letters that look alike are what is tested

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from batonpass.core.words import WHOLE_CHARS_MAX, WORD_CHARS_MAX, Wanted, counts, fold, read, tally, wanted

SAFE = re.compile(r"""[^\s"'*:&|()~!<>\\%\0\ud800-\udfff]+""")
"""No word can part, quote, negate or end anything in the query of any database."""


@pytest.mark.parametrize(
    "text, words",
    [
        ("Fix the login-page, now!", "fix the login page now"),
        ("v1.2.3 of src/lib/a_b.py", "v1 2 3 of src lib a b py"),
        ("STRASSE Straße", "strasse strasse"),
        ("Istanbul İSTANBUL ISTANBUL ıstanbul", "istanbul istanbul istanbul istanbul"),
        ("Cafe\u0301 CAFÉ cafe", "cafe cafe cafe"),
        ("ＦＵＬＬ　ｗｉｄｔｈ ﬁne ²", "full width fine 2"),
        ("הַשָּׁלוֹם العَرَبِيَّة", "השלום العربية"),
        ("हिन्दी में", "हिन्दी में"),
        ("Ελλάδα ΕΛΛΆΔΑ", "ελλαδα ελλαδα"),
        ("漢字", "漢 字 漢字"),
        ("ｶﾞ가", "ガ 가 ガ가"),
        ("ไทย", "ไ ท ย ไท ทย"),
        ("abc漢def", "abc 漢 def"),
        ("🪃ok👩\u200d💻👍🏽", "🪃 ok 👩 💻 👍"),
        ("soft\u00adhyphen zero\u200bwidth \u202eright", "softhyphen zero width right"),
        ("\"-*:()\\%_~&|' \ufffd", ""),
    ],
)
def test_words_are_runs_of_letters_and_digits_however_they_were_typed(text: str, words: str) -> None:
    assert list(read(text).words) == words.split()


@pytest.mark.parametrize(
    "text, wholes",
    [
        ("see task-fix-login.", ["task-fix-login"]),
        ("(src/a-b/c.py)", ["src/a-b/c.py", "a-b"]),
        ("nodes/task-12.md", ["nodes/task-12.md", "task-12"]),
        ("web@abcdef1 -x- a - b ...", []),
        ("漢字-2", ["漢字-2"]),
    ],
)
def test_what_joiners_hold_together_is_a_whole_beside_its_parts(text: str, wholes: list[str]) -> None:
    assert list(read(text).wholes) == wholes


@pytest.mark.parametrize(
    "query, asked",
    [
        ("login pag", Wanted(("login", "pag"), (), "pag")),
        ("login login", Wanted(("login",), (), "login")),
        ("task-12", Wanted(("task", "12"), ("task-12",), "12")),
        ("漢", Wanted(("漢",), (), None)),
        ("漢字", Wanted(("漢字",), (), None)),
        ("漢字か ab", Wanted(("漢字", "字か", "ab"), (), "ab")),
        ("ok 🪃", Wanted(("ok", "🪃"), (), None)),
        ("b a b", Wanted(("b", "a"), (), "b")),
        ('"NEAR" -(OR)', Wanted(("near", "or"), (), "or")),
        ("--- ' * \" \\", Wanted((), (), None)),
        ("", Wanted((), (), None)),
    ],
)
def test_a_query_asks_for_words_of_which_the_last_may_be_begun(query: str, asked: Wanted) -> None:
    assert wanted(query) == asked


def test_words_and_wholes_are_cut_where_an_index_row_ends() -> None:
    long = read("x" * 5000 + " " + "ab-" * 200)

    assert long.words[0] == "x" * WORD_CHARS_MAX
    assert [len(whole) for whole in long.wholes] == [WHOLE_CHARS_MAX]
    assert wanted("x" * 300).words == (long.words[0],)


def test_only_telling_words_count_when_texts_are_compared() -> None:
    assert counts("The login page, and the log-in of it: Login!") == {"login": 2, "page": 1, "log": 1}


def test_unspaced_scripts_are_compared_by_pairs() -> None:
    found: Mapping[str, int] = counts("漢字漢字")

    assert found == {"漢字": 2, "字漢": 1}


@given(st.text())
@example("ΐ\u0301ŉ\u0345")
@example("\u1e9e\u0130\u0131")
def test_folding_once_is_folding_for_good(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text())
@example("ǰ-\u0301_./")
def test_no_word_or_whole_has_anything_in_it_that_could_act(text: str) -> None:
    found = read(text)

    for word in (*found.words, *found.wholes, *counts(text)):
        assert SAFE.fullmatch(word), word
    assert all(0 < len(word) <= WORD_CHARS_MAX for word in found.words)


@given(st.text())
def test_a_text_asked_for_whole_asks_for_nothing_that_it_does_not_hold(text: str) -> None:
    found, asked = read(text), wanted(text)

    assert set(asked.words) <= set(found.words)
    assert set(asked.wholes) <= set(found.wholes)
    assert set(counts(text)) <= set(found.words)
    assert asked.last is None or asked.last in asked.words
    assert bool(asked.words) == bool(found.words)


@given(st.text(), st.integers(1, 3))
@example("Log-in, log-in: 漢字漢字 x_y/z.md", 2)
def test_a_tally_is_what_a_reading_holds_however_often_it_is_repeated(text: str, times: int) -> None:
    found, tallied = read(text), tally("\n".join([text] * times))

    assert tallied.words == set(found.words)
    assert tallied.wholes == set(found.wholes)
    assert tallied.counts == {word: often * times for word, often in counts(text).items()}
