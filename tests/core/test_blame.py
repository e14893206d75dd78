"""Whose each key and line is: what stays, what moves, what comes back, and what was redacted in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.core.blame import Blame, Origin, Parts, Step, blame

WORDS = st.sampled_from(["alpha", "beta", "gamma", ""])
PARTS = st.builds(
    Parts,
    keys=st.dictionaries(st.sampled_from(["title", "status", "blocks task-1"]), WORDS, max_size=3),
    lines=st.lists(WORDS, max_size=6).map(tuple),
)
HISTORIES = st.lists(st.none() | PARTS, max_size=6).map(
    lambda all_: [Step(n, parts) for n, parts in enumerate(all_, 1)]
)


def steps(*texts: Mapping[str, str] | Sequence[str] | None) -> list[Step]:
    """Return a history: each text as its keys, or its lines, or None where it was redacted."""
    return [Step(n, text if text is None else _parts(text)) for n, text in enumerate(texts, 1)]


def _parts(text: Mapping[str, str] | Sequence[str]) -> Parts:
    return Parts(text, ()) if isinstance(text, Mapping) else Parts({}, tuple(text))


def lines_of(found: Blame) -> list[tuple[str, int]]:
    return [(line, origin.n) for line, origin in found.lines]


def test_a_value_that_stays_is_its_old_revisions() -> None:
    found = blame(steps({"title": "a"}, {"title": "a", "status": "open"}, {"title": "b", "status": "open"}))

    assert found.keys == {"title": Origin(3), "status": Origin(2)}


def test_a_value_that_was_taken_away_and_put_back_is_who_put_it_back() -> None:
    found = blame(steps({"status": "open"}, {}, {"status": "open"}))

    assert found.keys == {"status": Origin(3)}


def test_a_value_that_moved_to_another_key_is_who_moved_it() -> None:
    found = blame(steps({"blocks task-1": "", "title": "a"}, {"mentions task-1": "", "title": "a"}))

    assert found.keys == {"mentions task-1": Origin(2), "title": Origin(1)}


def test_lines_keep_their_origin_however_much_is_written_around_them() -> None:
    found = blame(steps(["one", "two"], ["zero", "one", "two", "three"], ["one", "half", "two", "three"]))

    assert lines_of(found) == [("one", 1), ("half", 3), ("two", 1), ("three", 2)]


def test_a_line_that_moved_is_who_moved_it() -> None:
    found = blame(steps(["one", "two", "three"], ["two", "three", "one"]))

    assert lines_of(found) == [("two", 1), ("three", 1), ("one", 2)]


def test_what_changed_around_a_redacted_text_is_unsure_and_the_rest_is_not() -> None:
    found = blame(steps(["one", "two"], None, ["one", "2"], ["one", "2", "three"]))

    assert found.lines == (("one", Origin(1)), ("2", Origin(3, unsure=True)), ("three", Origin(4)))


def test_of_a_history_that_begins_redacted_all_is_unsure() -> None:
    assert blame(steps(None, ["one"])).lines == (("one", Origin(2, unsure=True)),)
    assert blame(steps(None, None)) == Blame({}, ())


@given(HISTORIES)
@settings(max_examples=60)
def test_all_of_the_last_known_text_is_blamed_and_on_a_revision_since_which_it_stands(history: list[Step]) -> None:
    found = blame(history)
    known = [(step.n, step.parts) for step in history if step.parts is not None]
    if not known:
        assert found == Blame({}, ())
        return

    last = known[-1][1]
    assert tuple(line for line, _ in found.lines) == last.lines
    assert set(found.keys) == set(last.keys)
    for key, origin in found.keys.items():
        assert all(parts.keys.get(key) == last.keys[key] for n, parts in known if n >= origin.n)
        before = [parts for n, parts in known if n < origin.n]
        assert not before or before[-1].keys.get(key) != last.keys[key]
    for line, origin in found.lines:
        assert all(line in parts.lines for n, parts in known if n >= origin.n)
        hidden = [step.n for step in history if step.parts is None]
        assert origin.unsure is (origin.n - 1 in hidden)


@given(st.lists(WORDS, max_size=4), st.lists(st.text("xyz", min_size=1, max_size=3), unique=True, max_size=5))
@settings(max_examples=40)
def test_lines_that_are_only_added_to_are_each_their_own_revisions(start: list[str], added: list[str]) -> None:
    texts = [[*start, *added[:count]] for count in range(len(added) + 1)]

    assert lines_of(blame(steps(*texts))) == [
        *((line, 1) for line in start),
        *((line, n) for n, line in enumerate(added, 2)),
    ]
