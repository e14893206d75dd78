"""Which copy of a run stands, what counts, and where a log ends (D22, D39)."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core import runs
from batonpass.core.errors import Invalid
from batonpass.core.ids import Fence, Resource, RunId
from batonpass.core.runs import LOG_BYTES_KEPT, Log, Piece, RunCopy, Standing, State, log_of, news, parse_run, standing

RUN: Final = RunId("0b7c-run")
SETTLED: Final = {"state": "done", "contract_pending": False, "terminal_state": "reported", "attempt": 1}


def copy(**fields: object) -> RunCopy:
    record = {"agent": "agent-mill", "node_id": "task-a", "epoch": 3, "state": "running"}
    return parse_run(RUN, {**record, **fields})


@pytest.mark.parametrize(
    "earlier, later",
    [
        ({"state": "launching"}, {"state": "running"}),
        ({"state": "running"}, {"state": "failed"}),
        ({"state": "running"}, {"state": "sleeping"}),
        ({"state": "done", "attempt": 1}, {"state": "done", "attempt": 2}),
        ({"state": "vanished", "attempt": 7}, SETTLED),
    ],
)
def test_a_copy_that_is_further_on_stands_and_the_one_before_it_is_older(
    earlier: dict[str, object], later: dict[str, object]
) -> None:
    assert standing(copy(**earlier), copy(**later), same=False) is Standing.UPDATED
    assert standing(copy(**later), copy(**earlier), same=False) is Standing.OLDER


def test_the_first_copy_is_new_and_the_same_again_changes_nothing() -> None:
    assert standing(None, copy(), same=False) is Standing.CREATED
    assert standing(copy(), copy(), same=True) is Standing.UNCHANGED


@pytest.mark.parametrize("changed", [{"agent": "agent-other"}, {"node_id": "task-b"}, {"epoch": 4}])
def test_a_run_never_changes_whose_it_is_or_what_it_is_about(changed: dict[str, object]) -> None:
    with pytest.raises(Invalid, match=f"record.{next(iter(changed))}: the run 0b7c-run has"):
        standing(copy(), copy(**changed), same=False)


def test_a_run_may_learn_its_item_and_tenure() -> None:
    assert standing(copy(node_id=None, epoch=None), copy(), same=False) is Standing.UPDATED


@pytest.mark.parametrize("unknown", ["node_id", "epoch"])
def test_a_copy_from_before_the_run_had_its_item_or_tenure_is_an_older_one(unknown: str) -> None:
    assert standing(copy(), copy(state="done", **{unknown: None}), same=False) is Standing.OLDER


@pytest.mark.parametrize(
    "fields, counts",
    [
        (SETTLED, True),
        ({**SETTLED, "termination_class": "failed"}, True),
        ({**SETTLED, "termination_class": "environment"}, False),
        ({**SETTLED, "contract_pending": True}, False),
        ({**SETTLED, "terminal_state": None}, False),
        ({**SETTLED, "epoch": None}, False),
        ({**SETTLED, "node_id": None}, False),
    ],
)
def test_only_a_settled_run_of_a_tenure_whose_surroundings_did_not_fail_counts(
    fields: dict[str, object], *, counts: bool
) -> None:
    assert copy(**fields).counted == (Fence(Resource("task-a"), 3) if counts else None)


@pytest.mark.parametrize(
    "field, value",
    [
        ("run_id", "another"),
        ("agent", None),
        ("agent", "mill"),
        ("node_id", "Task A"),
        ("project", 7),
        ("epoch", 0),
        ("epoch", True),
        ("epoch", 2**53),
        ("attempt", -1),
        ("attempt", "1"),
        ("state", None),
        ("state", 7),
        ("state", "s" * 101),
        ("terminal_state", "won"),
        ("termination_class", ["x"]),
        ("contract_pending", "no"),
    ],
)
def test_what_can_not_be_read_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(Invalid, match=rf"^record\.{field}: "):
        copy(**{field: value})


def test_a_run_is_over_in_every_state_behind_running() -> None:
    assert [state for state in State if not state.is_final] == [State.LAUNCHING, State.RUNNING]


def test_runs_are_asked_for_by_the_states_there_are() -> None:
    assert runs.parse_state("running") == "running"
    with pytest.raises(Invalid, match=r'^state: "nope" is no state'):
        runs.parse_state("nope")


# Logs


def test_a_stretch_that_came_before_is_nothing_new_and_the_rest_of_one_is() -> None:
    assert news(Piece(0, "abc"), end=3) is None
    assert news(Piece(0, "abc"), end=1) == Piece(1, "bc")
    assert news(Piece(5, "abc"), end=1) == Piece(5, "abc")


def test_a_stretch_that_would_be_cut_inside_a_character_is_not_the_log_that_came_before() -> None:
    with pytest.raises(Invalid, match=r"^offset: 2 lies inside a character"):
        news(Piece(0, "aé"), end=2)


def test_of_a_long_stretch_the_end_is_kept_from_a_whole_character_on() -> None:
    found = news(Piece(0, "é" * LOG_BYTES_KEPT + "!"), end=0)

    assert found is not None
    assert (found.end, len(found.text.encode())) == (2 * LOG_BYTES_KEPT + 1, LOG_BYTES_KEPT - 1)


def test_nothing_that_came_is_an_empty_log() -> None:
    assert log_of([]) == Log(0, 0, "")


@given(st.lists(st.tuples(st.integers(0, 40), st.text(max_size=30)), max_size=12), st.text(min_size=1, max_size=40))
def test_a_log_that_came_in_any_stretches_is_the_log_where_it_came(cuts: list[tuple[int, str]], log: str) -> None:
    """Law: pieces of one log, in order and repeated at will, give its text back; gaps are exactly what never came."""
    data, end, kept = log.encode(), 0, list[Piece]()
    came = bytearray(len(data))
    for start, extent in cuts:
        text = data[start : start + len(extent.encode())]
        try:
            piece = Piece(start, text.decode())
        except UnicodeDecodeError:
            continue  # a worker sends whole characters
        fresh = news(piece, end=end) if text else None
        if fresh is not None:
            came[fresh.offset : fresh.end] = b"\x01" * (fresh.end - fresh.offset)
            kept.append(fresh)
            end = fresh.end

    found = log_of(kept)

    missing = sum(until - offset for offset, until in found.gaps)
    assert found.end == end
    assert found.text.encode() == bytes(byte for byte, there in zip(data, came, strict=True) if there)
    assert not kept or found.end - found.start == len(found.text.encode()) + missing


def test_what_lies_too_far_before_the_end_is_dropped_from_a_whole_character_on() -> None:
    found = log_of([Piece(0, "old"), Piece(3, "é" * 8), Piece(19, "x" * (LOG_BYTES_KEPT - 3))])

    assert (found.start, found.text[:2], found.gaps) == (17, "éx", ())
