"""The fleet's runs: what workers tell of theirs, and what anybody reads of all (D39)."""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.responses import Response

from batonpass.core.clock import iso
from batonpass.core.errors import Invalid
from batonpass.core.ids import HolderId, RunId, parse_node_id
from batonpass.core.nodes import parse_slug
from batonpass.core.runs import LOG_BYTES_KEPT, Piece, parse_run_id, parse_state
from batonpass.server.http.call import Call, changed, reply
from batonpass.server.http.identity import limit
from batonpass.store.runs import StoredRun, Wanted
from batonpass.wire import runs as wire
from batonpass.wire.schemas import INT_MAX

MOMENT_DIGITS_MAX: Final = 18
"""What a column holds, in whichever year."""


async def put(call: Call) -> Response:
    """Send a run's record as its worker has it now; the copy that is furthest on is kept."""
    body = await call.body(wire.RunRequest)
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.runs.put(caller, _run(call), body.value.record))


async def put_log(call: Call) -> Response:
    """Send text of a run's log from a byte on; the last 256 KiB are kept."""
    body = await call.body(wire.RunLogRequest)
    asked = body.value
    if not 0 <= asked.offset <= INT_MAX // 2:
        raise Invalid(f"offset: {asked.offset} is no number of bytes, 0 to {INT_MAX // 2}", field="offset")
    if (size := len(asked.text.encode())) > LOG_BYTES_KEPT:
        raise Invalid(f"text: {size} bytes; the limit is {LOG_BYTES_KEPT} bytes, as much as is kept", field="text")
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.runs.put_log(caller, _run(call), Piece(asked.offset, asked.text)))


async def listed(call: Call) -> Response:
    """List runs, the newest first: of an item, a project, an agent, or in one state."""
    asked = call.query
    wanted = Wanted(
        node=parse_node_id(asked["node"], field="node") if "node" in asked else None,
        project=parse_slug(asked["project"], name="project") if "project" in asked else None,
        agent=HolderId(parse_node_id(asked["agent"], field="agent")) if "agent" in asked else None,
        state=parse_state(asked["state"]) if "state" in asked else None,
    )
    page = await call.services.runs.listed(wanted, before=_place(asked.get("after")), limit=limit(asked))
    after = None if page.next is None else ".".join(map(str, page.next))
    return reply(wire.RunsReply([_body(run) for run in page.runs], after))


async def get(call: Call) -> Response:
    """Read a run as its worker told of it last."""
    return reply(_body(await call.services.runs.get(_run(call))))


async def log(call: Call) -> Response:
    """Read the end of a run's log."""
    run = _run(call)
    kept = await call.services.runs.log(run)
    gaps = [wire.Gap(offset, until) for offset, until in kept.gaps]
    return reply(wire.RunLogReply(run, kept.start, kept.end, kept.text, gaps))


def _run(call: Call) -> RunId:
    return parse_run_id(call.request.path_params["run_id"])


def _place(after: str | None) -> tuple[int, str] | None:
    """Return where a page begins; it is the `next` of another, so what is not of that form is refused."""
    if not after:
        return None
    at, _, run = after.partition(".")
    if not (at.isascii() and at.isdigit()) or len(at) > MOMENT_DIGITS_MAX:
        raise Invalid("after: it is not the `next` of a page of runs", field="after")
    return int(at), parse_run_id(run, field="after")


def _body(stored: StoredRun) -> wire.RunBody:
    copy = stored.copy
    return wire.RunBody(
        run_id=copy.id,
        agent=copy.agent,
        owner=stored.owner,
        node_id=copy.node,
        project=copy.project,
        state=copy.state,
        settled=copy.settled,
        counts=stored.counted,
        record=msgspec.json.decode(stored.record),
        first_seen=iso(stored.first_seen),
        last_seen=iso(stored.last_seen),
    )
