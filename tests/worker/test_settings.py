from __future__ import annotations

import math
from pathlib import Path

import pytest

from batonpass.core.errors import Invalid
from batonpass.worker.settings import Settings


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 2**31 * 1000.0, 0.0])
def test_a_run_limit_that_makes_no_sense_refuses_to_start(value: float) -> None:
    with pytest.raises(Invalid, match="run_max_s"):
        Settings(home=Path("home"), inherited={}, run_max_s=value)


def test_idleness_can_be_left_unwatched_but_not_misspelt() -> None:
    assert Settings(home=Path("home"), inherited={}, run_idle_s=0).run_idle_s == 0
    with pytest.raises(Invalid, match="run_idle_s"):
        Settings(home=Path("home"), inherited={}, run_idle_s=-5)
