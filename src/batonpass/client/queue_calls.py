"""The calls that read the queue and take from it; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from batonpass.client.calls import READ_S_MAX, Call, Repeat, post, query_of
from batonpass.core.ids import NodeId
from batonpass.wire import paths, queue


def queue_page(  # noqa: PLR0913 — one for each parameter of the route
    *,
    project: str | None = None,
    types: Sequence[str] = (),
    exclude_types: Sequence[str] = (),
    assignee: str | None = None,
    readiness: str | None = None,
    include_blocked: bool = False,
    limit: int | None = None,
    offset: int = 0,
    wait: int = 0,
    after: str | None = None,
) -> Call[queue.QueueReply]:
    """Read a ranked page of what there is to do; with `wait`, when something has changed `after` a page's `seq`."""
    query = query_of(
        project=project,
        type=types,
        exclude_type=exclude_types,
        assignee=assignee,
        readiness=readiness,
        include_blocked=include_blocked,
        limit=limit,
        offset=offset or None,
        wait=wait or None,
        after=after,
    )
    return Call("GET", paths.QUEUE, queue.QueueReply, query, answer_s_max=READ_S_MAX + wait)


def next_item(
    *,
    project: str | None = None,
    accept: Literal["ready", "open"] = "ready",
    types: Sequence[str] | None = None,
    exclude: Sequence[NodeId] = (),
    candidates: Sequence[NodeId] | None = None,
    session: str | None = None,
    dispatch: str | None = None,
    wait: int = 0,
) -> Call[queue.NextReply]:
    """Choose the best item and claim it in one step; with `candidates` the first of them that is still free.

    With `wait` it waits so many seconds at most for one. The lease's time is counted from its grant, which is
    `waited_ms` after the call was sent.
    """
    request = queue.NextRequest(
        project=project,
        accept=accept,
        types=None if types is None else list(types),
        exclude=list(exclude),
        candidates=None if candidates is None else list(candidates),
        session=session,
        dispatch=dispatch,
        wait=wait,
    )
    call = post(paths.QUEUE_NEXT, request, queue.NextReply, Repeat.NEVER if dispatch is None else Repeat.SAFE)
    return replace(call, answer_s_max=call.answer_s_max + wait)
