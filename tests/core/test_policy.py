from __future__ import annotations

from datetime import timedelta

import pytest

from batonpass.core.policy import Policy


def test_the_defaults_are_the_documented_ones() -> None:
    assert Policy() == Policy(
        claim_ttl=timedelta(minutes=45),
        claim_ttl_max=timedelta(hours=8),
        reserve_grace=timedelta(hours=48),
        lapse_limit=5,
        run_limit=10,
        max_claims=50,
        paused=None,
        agents_may_ready=False,
    )


@pytest.mark.parametrize("ttl, most, horizon", [(45, 480, 45), (480, 480, 480), (600, 480, 480)])
def test_an_ordinary_horizon_is_never_above_the_maximum(ttl: int, most: int, horizon: int) -> None:
    policy = Policy(claim_ttl=timedelta(minutes=ttl), claim_ttl_max=timedelta(minutes=most))

    assert policy.ttl == horizon * 60_000_000
    assert policy.ttl_max == most * 60_000_000


def test_spans_are_whole_microseconds() -> None:
    assert Policy(reserve_grace=timedelta(milliseconds=1)).grace == 1_000
