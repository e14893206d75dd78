"""What a worker does in one round: look at the queue, choose, claim.

    page ─▶ choose ─▶ record ─▶ next ─▶ a slot begins and follows the run
       widens          nonce    claim

`shift` goes round for as long as the worker works. From the claim on a run is
its supervisor's, which outlives us.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Final

from batonpass.core.errors import BatonError, Invalid, NotFound, Unknown
from batonpass.core.ids import AgentId, NodeId
from batonpass.core.points import reach
from batonpass.worker.breaker import Waiting
from batonpass.worker.dispatch import launch
from batonpass.worker.dispatch.launch import Ground
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.graph import Caller, Item, Taken
from batonpass.worker.journal import HeldRun
from batonpass.worker.select import Choice, Kind, Skipped, choose
from batonpass.worker.slot import Slot
from batonpass.worker.worker import Worker

TRIAL_LOOK_S: Final = 30.0
"""When to look again while another run tries whether a harness takes work."""


def look(worker: Worker, agent: AgentId) -> Choice:
    """Return what may be taken, from a page that widens until something on it is, or the queue ends."""
    while True:
        page = worker.graph.page(project=worker.order.project, limit=worker.width.now)
        choice = choose(page.items, accept=worker.settings.accept, agent=agent, cold=worker.cooling.of)
        choice = _able(worker, choice, {item.id: item for item in page.items})
        if choice.candidates:
            worker.width.found([item.id for item in page.items].index(choice.candidates[0]))
        elif page.more and worker.width.widen():
            continue
        return replace(choice, more=page.more, seq=page.seq)


def take(worker: Worker, choice: Choice, *, ground: Ground, caller: Caller) -> Slot | None:
    """Claim the first of the candidates that is free and begin its run; None when none of them was to be had.

    Others were faster then, or began the one run that a half-open breaker lets
    through.
    """
    harness = choice.orders[choice.candidates[0]].harness
    same = tuple(node for node in choice.candidates if choice.orders[node].harness == harness)
    order = replace(worker.order, harness=harness)
    record = launch.new_record(order, ground, server=worker.graph.server, caller=caller, now=worker.now())
    record = replace(record, worker_id=worker.id)
    if worker.breakers.admit(harness, record.run_id, worker.now()) is not None:
        return None
    with ExitStack() as stack:
        stack.callback(worker.breakers.retract, harness, record.run_id)
        held = stack.enter_context(ExitStack())
        run = held.enter_context(worker.journal.create(record))
        taken = _claim(worker, run, same)
        if taken is None:
            return None
        order = choice.orders[taken.item.id]
        run.change(run.read(), profile=order.profile)
        slot = Slot(worker, run, taken, order=order, held=held.pop_all())
        stack.pop_all()
    slot.start(ground)
    return slot


def lines_of(choice: Choice) -> list[str]:
    """Return for a person why each of what was looked at is left alone."""
    lines = [f"{skipped.item}: left alone, {skipped.reason}" for skipped in choice.skipped]
    if choice.more:
        lines.append(f"more of the queue was not looked at: only its first {len(choice.skipped)}")
    return [*lines, "there is nothing to take"]


def _able(worker: Worker, choice: Choice, items: Mapping[NodeId, Item]) -> Choice:
    """Return the choice without what can't be run here, or not now.

    What this box can't do cools off; a harness that takes no work costs no
    item anything. Nothing was claimed for either.
    """
    orders, unable = {}, []
    for node in choice.candidates:
        try:
            order = worker.order_for(worker.order, items[node])
        except (LaunchRefused, Invalid, NotFound) as error:
            worker.cooling.cool(node, kind=Kind.REFUSAL, reason=error.message)
            unable.append(Skipped(node, error.message, Kind.REFUSAL))
            continue
        if (waiting := worker.breakers.waiting(order.harness, worker.now())) is None:
            orders[node] = order
        else:
            unable.append(Skipped(node, str(waiting), Kind.HARNESS, _until_s(worker, waiting)))
    return replace(choice, candidates=tuple(orders), skipped=(*choice.skipped, *unable), orders=orders)


def _until_s(worker: Worker, waiting: Waiting) -> float:
    left_s = TRIAL_LOOK_S if waiting.until is None else (waiting.until - worker.now()).total_seconds()
    return worker.clock() + left_s


def _claim(worker: Worker, run: HeldRun, candidates: Sequence[NodeId]) -> Taken | None:
    """Return what the claim brought, or None; a record stays only where a claim may stand behind it."""
    reach("claim.nonce_written")
    try:
        taken = worker.graph.next(
            project=worker.order.project,
            accept=worker.settings.accept,
            candidates=candidates,
            dispatch=run.read().dispatch,
        )
    except Unknown:
        # It may have been granted. The next round closes the record; nobody renews the lease.
        raise
    except BatonError:
        run.forget()
        raise
    if taken is None:
        run.forget()
    return taken
