from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from batonpass.core.ids import NodeId
from batonpass.core.resolution import Inbound, Resolution, Target, blocks_now, completes, counts, resolve

TASK: Final = Target("task", "open")
QUESTION: Final = Target("question", "open")
FIX: Final = Inbound("resolves", NodeId("art-fix"), "artifact", "The fix", "What it does", "merged", "2026-03-01")
DECIDED: Final = replace(FIX, src=NodeId("dec-drop"), src_type="decision", status="active", date="2026-04-01")


@pytest.mark.parametrize(
    "target,edge,live",
    [
        (TASK, FIX, True),
        (TASK, replace(FIX, status=None), True),
        (TASK, replace(FIX, edge="relates-to"), False),
        (TASK, replace(FIX, edge="no-such-type"), False),
        (TASK, replace(FIX, edge="answers"), False),  # answers nothing that was not asked
        (QUESTION, replace(FIX, edge="answers"), True),
        (QUESTION, FIX, True),
        (TASK, replace(FIX, superseded=True), False),
        (TASK, replace(FIX, status="superseded"), False),
        (TASK, replace(FIX, status="in-review"), False),
        (TASK, replace(FIX, status="approved"), False),
        (TASK, replace(FIX, status="rejected"), False),
        (TASK, replace(FIX, status="abandoned"), False),
    ],
)
def test_which_inbound_edges_resolve(*, target: Target, edge: Inbound, live: bool) -> None:
    assert counts(target, edge) is live
    assert (resolve(target, [edge]) is not None) is live


def test_the_earliest_live_resolver_is_named() -> None:
    edges = [DECIDED, replace(FIX, date=None, src=NodeId("art-a")), replace(FIX, superseded=True), FIX]

    assert resolve(TASK, edges) == Resolution(
        by=NodeId("art-fix"),
        edge="resolves",
        date="2026-03-01",
        summary="What it does",
        title="The fix",
        lagging=True,
    )


@pytest.mark.parametrize("status,lagging", [(None, True), ("open", True), ("active", True), ("done", False)])
def test_a_status_that_still_reads_open_lags_behind_the_edge(*, status: str | None, lagging: bool) -> None:
    resolution = resolve(Target("task", status), [FIX])

    assert resolution is not None
    assert resolution.lagging is lagging


def test_nothing_is_resolved_by_nobody() -> None:
    assert resolve(TASK, []) is None


@pytest.mark.parametrize(
    "target,edge,complete",
    [
        (TASK, FIX, True),
        (TASK, DECIDED, True),
        (TASK, replace(FIX, src_type="task"), False),
        (TASK, replace(FIX, src_type="finding"), False),
        (TASK, replace(FIX, status="in-review"), False),
        (TASK, replace(FIX, superseded=True), False),
        (TASK, replace(FIX, edge="answers"), False),
        (Target("finding"), replace(FIX, edge="mentions"), True),  # no gate, nothing to satisfy
    ],
)
def test_completion_needs_a_standing_decision_or_artifact(*, target: Target, edge: Inbound, complete: bool) -> None:
    assert completes(target, [edge]) is complete


@pytest.mark.parametrize(
    "status,superseded,resolved,live",
    [
        ("open", False, False, True),
        (None, False, False, True),
        ("done", False, False, False),
        ("open", True, False, False),
        ("open", False, True, False),
    ],
)
def test_a_blocker_is_live_until_it_is_dead_superseded_or_resolved(
    *, status: str | None, superseded: bool, resolved: bool, live: bool
) -> None:
    assert blocks_now("task", status, superseded=superseded, resolved=resolved) is live
