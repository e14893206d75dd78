"""Laws of cooling off: nothing is left alone longer, or shorter, than was said."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.ids import NodeId
from batonpass.worker.cooling import Cooling

TASK = NodeId("task-1")
SPANS = st.floats(min_value=0, max_value=1e6, allow_nan=False)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@given(retry_after_s=SPANS, passed_s=SPANS)
def test_an_item_is_left_alone_for_exactly_as_long_as_was_said(retry_after_s: float, passed_s: float) -> None:
    clock = Hand()
    cooling = Cooling(retry_after_s, clock)
    cooling.cool(TASK, kind="outcome", reason="it failed")
    free_s = clock.now_s + retry_after_s

    clock.now_s += passed_s

    assert (cooling.of(TASK) is None) is (clock.now_s >= free_s)
    assert cooling.of(NodeId("task-2")) is None


@given(moments=st.lists(SPANS, min_size=1, max_size=6))
def test_the_soonest_is_never_after_any_that_cools(moments: list[float]) -> None:
    clock = Hand()
    cooling = Cooling(600, clock)
    for number, at_s in enumerate(sorted(moments)):
        clock.now_s = 100.0 + at_s
        cooling.cool(NodeId(f"task-{number}"), kind="outcome", reason="it failed")

    soonest_s = cooling.soonest_s()

    cold = [found.until_s for number in range(len(moments)) if (found := cooling.of(NodeId(f"task-{number}")))]
    assert soonest_s == min(cold)


def test_what_is_told_again_is_counted_anew() -> None:
    clock = Hand()
    cooling = Cooling(600, clock)
    cooling.cool(TASK, kind="outcome", reason="it failed")
    clock.now_s += 599
    cooling.cool(TASK, kind="refusal", reason="not started")
    clock.now_s += 599

    found = cooling.of(TASK)

    assert found is not None
    assert (found.kind, found.reason) == ("refusal", "not started")


def test_what_is_at_work_here_is_left_alone_without_an_end() -> None:
    cooling = Cooling(0, Hand())
    cooling.busy.add(TASK)
    assert cooling.of(TASK) is not None
    assert cooling.soonest_s() is None

    cooling.busy.discard(TASK)

    assert cooling.of(TASK) is None
