"""Closing a run that holds no tenure: about no item, or dead before it heard whether its claim was granted.

There is no verdict to read for either. What it has left is taken back: its
processes, its token, its worktree, and a lease that bears its nonce, which
nobody else can be at work under (D6).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from batonpass.core import reports
from batonpass.core.errors import BatonError, Forbidden, LeaseLost, NotFound
from batonpass.core.ids import NodeId
from batonpass.core.outcome import Terminal
from batonpass.worker import worktree
from batonpass.worker.crew import Crew
from batonpass.worker.graph import Graph
from batonpass.worker.journal import HeldRun
from batonpass.worker.record import RunRecord, timestamp
from batonpass.worker.settings import Settings

NEVER_ASKED = "the run ended before its claim was answered; if it was granted, it lapses by itself"
NOT_GRANTED = "the run ended before its claim was answered, and it was not granted"
GIVEN_BACK = "the run ended before its claim was answered; it was granted, and is given back"
BORROWED = "the run ended before its claim was answered; the lease stood before, and is left to whoever claimed it"
NO_ITEM = "the run was about no item, so there is no verdict"


def close(graph: Graph, settings: Settings, now: Callable[[], datetime], *, run: HeldRun, crew: Crew) -> RunRecord:
    """Close a run without a tenure, and return its record; one that can't be closed now says so, and why."""
    crew.stop(settings.graces)
    record = run.read()
    if record.node_id is not None:
        return _unanswered(graph, now, run=run, record=record, node=record.node_id)
    if record.token_prefix is None:
        return _closed(run, record, now, note=NEVER_ASKED)
    return _about_no_item(graph, settings, now, run=run, record=record)


def _unanswered(
    graph: Graph, now: Callable[[], datetime], *, run: HeldRun, record: RunRecord, node: NodeId
) -> RunRecord:
    """Hand back what was claimed under the run's nonce, if it was; the item reads which tenure that is."""
    try:
        require_its_graph(graph, record)
        tenure = graph.node(node).tenure
        if tenure is None or tenure.dispatch != record.dispatch:
            return _closed(run, record, now, note=NOT_GRANTED, lease_released=False)
        if tenure.fence.epoch == record.borrowed_epoch:
            return _closed(run, record, now, note=BORROWED, lease_released=False)
        graph.release(tenure.fence)
    except (NotFound, LeaseLost):
        return _closed(run, record, now, note=NOT_GRANTED, lease_released=False)
    except BatonError as error:
        return run.change(record, terminal_note=f"not settled yet: {error.message}", pending_for=error.code)
    return _closed(run, record, now, note=GIVEN_BACK, lease_released=True)


def _about_no_item(
    graph: Graph, settings: Settings, now: Callable[[], datetime], *, run: HeldRun, record: RunRecord
) -> RunRecord:
    with suppress(BatonError):  # it ends by itself
        graph.revoke(record.agent, record.token_prefix or "")
    tree = worktree.of_run(record, settings.inherited)
    kept = () if tree is None else worktree.remove(tree, disposable=settings.disposable)
    said = reports.is_usable(run.final_text())
    return _closed(run, record, now, note=NO_ITEM, said=said, worktree_kept=kept or None)


def _closed(
    run: HeldRun, record: RunRecord, now: Callable[[], datetime], *, note: str, said: bool = False, **more: object
) -> RunRecord:
    return run.change(
        record,
        # A guess from what the process left behind, and marked as one: nothing was read from the graph.
        terminal_state=Terminal.REPORTED if said else Terminal.FAILED,
        terminal_enforced=False,
        terminal_note=note,
        pending_for=None,
        contract_pending=False,
        contract_settled_at=timestamp(now()),
        **more,
    )


def require_its_graph(graph: Graph, record: RunRecord) -> None:
    """Raise `Forbidden` unless this is the graph and the identity that the run belongs to (D20)."""
    caller = graph.caller()
    if graph.server != record.server:
        raise Forbidden(f"the run belongs to the server {record.server}, and this worker uses {graph.server}")
    if caller.incarnation != record.incarnation:
        raise Forbidden("the database was restored since the run began, so its tenure is not there any more")
    if record.agent != caller.agent and (record.owner is None or record.owner != caller.person):
        raise Forbidden(f"the run is {record.agent}'s, and this token is neither its own nor its owner's")
