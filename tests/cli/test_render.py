from __future__ import annotations

from datetime import timedelta

import pytest

from batonpass.cli import render
from batonpass.cli.render import Column


@pytest.mark.parametrize(
    "ms, expected",
    [
        (0, "0 s"),
        (999, "0 s"),
        (-5000, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (2_699_999, "44 min 59 s"),
        (7_260_000, "2 h 1 min"),
        (7_200_000 + 5_000, "2 h"),
        (172_800_000, "2 d"),
        (180_000_000, "2 d 2 h"),
    ],
)
def test_a_duration_is_said_in_two_units_at_most_and_never_rounded_up(ms: int, expected: str) -> None:
    assert render.span(ms) == expected


def test_a_timedelta_is_said_the_same_way() -> None:
    assert render.span_of(timedelta(minutes=90)) == "1 h 30 min"


@pytest.mark.parametrize(
    "text, expected",
    [
        ("plain", "plain"),
        ("caf\u00e9 \u4f60\u597d \U0001f469\u200d\U0001f680", "caf\u00e9 \u4f60\u597d \U0001f469\u200d\U0001f680"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("two\nlines\ttabbed", "two\\nlines\\ttabbed"),
        ("\u202eevil", "\\u202eevil"),
        ("lone \ud800", "lone \\ud800"),
        ("\x07\x9b31m", "\\x07\\x9b31m"),
    ],
    ids=ascii,
)
def test_text_from_outside_can_only_appear(text: str, expected: str) -> None:
    assert render.clean(text) == expected


@pytest.mark.parametrize(
    "text, cells", [("abc", 3), ("\u4f60\u597d", 4), ("e\u0301", 1), ("\U0001f680", 2), ("a\u200db", 2)], ids=ascii
)
def test_widths_are_those_of_a_terminal(text: str, cells: int) -> None:
    assert render.width(text) == cells


@pytest.mark.parametrize(
    "environ, expected",
    [
        ({}, False),
        ({"LANG": "C"}, False),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, False),
        ({"LANG": "en_US.UTF-8"}, True),
        ({"LANG": "en_US.utf8"}, True),
        ({"LANG": "en_US.UTF-8", "LC_CTYPE": "C"}, False),
        ({"LANG": "en_US.UTF-8", "LC_ALL": "POSIX"}, False),
        ({"LANG": "C", "LC_ALL": "C.UTF-8"}, True),
        ({"LANG": "de_DE@euro"}, False),
    ],
    ids=str,
)
def test_the_locale_is_what_the_environment_says_and_not_what_python_made_of_it(
    environ: dict[str, str], *, expected: bool
) -> None:
    assert render.locale_is_utf8(environ) is expected


def test_columns_are_aligned_and_empty_ones_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (Column("node"), Column("priority"), Column("title"))

    render.print_table(columns, [("task-1", None, "\u4f60\u597d"), ("t", None, "x")], empty="none")

    assert capsys.readouterr().out == "node    title\ntask-1  \u4f60\u597d\nt       x\n"


def test_an_empty_table_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_table((Column("node"),), [], empty="nothing is held")

    assert capsys.readouterr().out == "nothing is held\n"


def test_fields_are_aligned_and_missing_ones_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_fields({"a": "1", "longer": "2", "gone": None})

    assert capsys.readouterr().out == "a       1\nlonger  2\n"


def test_text_of_several_lines_keeps_them(capsys: pytest.CaptureFixture[str]) -> None:
    render.print_text("a\n\tb\x1b[1m\n")

    assert capsys.readouterr().out == "a\n    b\\x1b[1m\n"


def test_json_with_lone_surrogates_is_still_a_document(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "C.UTF-8")

    render.print_json(b'{"a": "\\ud800", "b": "caf\\u00e9"}')

    assert capsys.readouterr().out == '{"a": "\\ud800", "b": "caf\\u00e9"}\n'
