"""GET /v1/queue and POST /v1/queue/next (companion 3, D15)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace
from starlette.responses import Response

from batonpass.core.clock import iso
from batonpass.core.eligibility import Hidden
from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId, PersonId, json_type, parse_label, parse_node_id
from batonpass.core.node_types import require_type
from batonpass.core.nodes import parse_slug
from batonpass.core.queue import OFFSET_MAX, Accept
from batonpass.core.readiness import Ready
from batonpass.server.http.call import Call, flag, reply
from batonpass.server.http.inbox import lists
from batonpass.server.http.leases import expires_in_ms, whole_number
from batonpass.server.http.waiting import when_changed, when_there
from batonpass.server.services.choosing import CANDIDATES_MAX, EXCLUDED_MAX, Wish, require_few
from batonpass.server.services.inbox import Inbox
from batonpass.server.services.paging import Page, View
from batonpass.wire import queue as wire
from batonpass.wire.leases import lease_body_of

LIMIT_DEFAULT: Final = 20


async def page(call: Call) -> Response:
    """Read a page of the queue, best first, with counts of what it hides."""
    asked = _view(call)
    read = functools.partial(call.services.queue.page, call.principal, asked)
    found, seq = await when_changed(call, asked.project, read)
    return reply(_with_inbox(_envelope(found, asked, seq), await _inbox(call, asked)))


async def take_next(call: Call) -> Response:
    """Choose the best item and claim it, in one step."""
    body = await call.body(wire.NextRequest)
    asked = body.value
    require_few(asked.exclude, "exclude", EXCLUDED_MAX)
    require_few(asked.candidates or (), "candidates", CANDIDATES_MAX)
    wish = Wish(
        project=parse_slug(asked.project, name="project") if asked.project is not None else None,
        accept=Accept(asked.accept),
        types=_types(asked.types, "types") if asked.types is not None else None,
        exclude=frozenset(_ids(asked.exclude, "exclude")),
        candidates=_ids(asked.candidates, "candidates") if asked.candidates is not None else None,
        session=parse_label(asked.session, field="session") if asked.session is not None else None,
        dispatch=parse_label(asked.dispatch, field="dispatch") if asked.dispatch is not None else None,
    )
    attempt = functools.partial(call.services.queue.next, call.caller(), wish)
    taken, waited_ms = await when_there(call, wish, attempt, within_s=asked.wait)
    if taken is None:
        return reply(wire.NextReply(ok=True, status="empty"), ignored=body.ignored)
    return reply(
        wire.NextReply(
            ok=True,
            status="claimed",
            item=wire.item_body(taken.item),
            lease=lease_body_of(taken.done.granted.lease, taken.done.now),
            expires_in_ms=expires_in_ms(taken.done),
            waited_ms=waited_ms,
        ),
        ignored=body.ignored,
    )


def _view(call: Call) -> View:
    params = call.query
    project, assignee, readiness = params.get("project"), params.get("assignee"), params.get("readiness")
    types = _listed(call.request.query_params.getlist("type"))
    if readiness is not None and readiness not in tuple(Ready):
        raise Invalid(f"readiness: {readiness[:40]} is none of {', '.join(Ready)}", field="readiness")
    return View(
        project=parse_slug(project, name="project") if project is not None else None,
        types=_types(types, "type") if types else None,
        exclude_types=_types(_listed(call.request.query_params.getlist("exclude_type")), "exclude_type"),
        readiness=Ready(readiness) if readiness is not None else None,
        assignee=_assignee(call, assignee) if assignee is not None else None,
        include_blocked=flag(params, "include_blocked"),
        limit=whole_number(params.get("limit"), "limit", default=LIMIT_DEFAULT),
        offset=_offset(params.get("offset")),
        count_all=flag(params, "counts"),
    )


def _offset(text: str | None) -> int:
    offset = whole_number(text, "offset", default=0, least=0)
    if offset > OFFSET_MAX:
        raise Invalid(
            f"offset: {offset} items; the limit is {OFFSET_MAX} items: narrow the page by project, type or readiness",
            field="offset",
        )
    return offset


async def _inbox(call: Call, asked: View) -> Inbox | None:
    """Return what waits for the viewer's word: for people on a first page, otherwise only where it is asked for.

    So it costs the fleet's pollers nothing, and somebody who pages on does not get it again.
    """
    wanted = call.principal.is_person and asked.offset == 0
    if "inbox" in call.query:
        wanted = flag(call.query, "inbox")
    return await call.services.inboxes.of(call.principal) if wanted else None


def _with_inbox(envelope: wire.QueueReply, inbox: Inbox | None) -> wire.QueueReply:
    """Return the envelope with the inbox in it, where that was read."""
    if inbox is None:
        return envelope
    return replace(envelope, **lists(inbox), inbox_truncated=[box.value for box in inbox.truncated])


def _envelope(page: Page, asked: View, seq: str) -> wire.QueueReply:
    counts, end = page.counts, asked.offset + len(page.items)
    envelope = wire.QueueReply(
        items=[wire.item_body(item, in_cycle=item.candidate.id in page.cycles) for item in page.items],
        count=counts.total,
        offset=asked.offset,
        returned_count=len(page.items),
        total_count=counts.total,
        truncated=page.more,
        next_offset=end if page.more else None,
        counts_by_type=_most_first(counts.by_type),
        counts_by_project=_most_first(counts.by_project),
        counts_by_suggest=_most_first(counts.by_suggest),
        counts_by_readiness=_most_first(counts.by_readiness),
        generated_at=iso(page.now),
        counts_capped=counts.capped,
        project_warning=page.project_warning,
        seq=seq,
    )
    return replace(envelope, **{why.value: page.hidden.get(why, 0) for why in Hidden if why is not Hidden.GONE})


def _most_first(counts: Mapping[str, int]) -> dict[str, int]:
    present = [(name, count) for name, count in counts.items() if count]
    return dict(sorted(present, key=lambda pair: (-pair[1], pair[0])))


def _assignee(call: Call, text: str) -> PersonId:
    if text == "me":
        return PersonId(call.principal.id)
    return PersonId(parse_node_id(text, field="assignee"))  # type: ignore[arg-type]  # a person's id is a node's


def _listed(values: Sequence[str]) -> list[str]:
    return [part for value in values for part in value.split(",") if part]


def _types(values: Sequence[Any], field: str) -> tuple[str, ...]:
    for i, value in enumerate(values):
        if not isinstance(value, str):
            raise Invalid(f"{field}[{i}]: must be a string, not {json_type(value)}", field=field)
    return tuple(require_type(value).name for value in values)


def _ids(values: Sequence[Any], field: str) -> tuple[NodeId, ...]:
    return tuple(parse_node_id(value, field=f"{field}[{i}]") for i, value in enumerate(values))
