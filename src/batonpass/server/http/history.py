"""Histories: pages of entries, a revision as it was, and a redaction (companion 1.8, D41)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from batonpass.core.clock import iso
from batonpass.core.history import parse_reason, parse_revision
from batonpass.server.http.call import Call, changed, flag, reply
from batonpass.server.http.leases import whole_number
from batonpass.server.services.history import is_act
from batonpass.store.history import Entry
from batonpass.wire import history as wire

LIMIT_DEFAULT: Final = 50


async def page(call: Call) -> Response:
    """List what became of a node, newest first; of one that was deleted too."""
    node, with_text = call.node_id(), flag(call.query, "content")
    before = call.query.get("before")
    found = await call.services.history.page(
        node,
        before=whole_number(before, "before", default=1) if before is not None else None,
        limit=whole_number(call.query.get("limit"), "limit", default=LIMIT_DEFAULT),
        with_text=with_text,
    )
    gone = found.tombstone
    deleted = wire.DeletedBody(iso(gone.deleted_at), gone.deleted_by, gone.reason) if gone is not None else None
    entries = [_entry(entry, with_text=with_text) for entry in found.entries]
    return reply(wire.HistoryReply(node, entries, len(entries), found.next, deleted))


async def revision(call: Call) -> Response:
    """Show a node as it was at one revision, named whole or by its first digits."""
    node = call.node_id()
    found = await call.services.history.revision(node, parse_revision(call.request.path_params["sha"]))
    entry, by = found.entry, found.redaction
    redacted = wire.RedactedBody(iso(by.at), by.author, by.reason) if by is not None else None
    return reply(
        wire.RevisionReply(
            id=node,
            revision=entry.revision,
            raw=entry.content,
            n=entry.n,
            verb=entry.verb,
            at=iso(entry.at),
            author=entry.author,
            agent=entry.agent,
            session=entry.session,
            via=entry.via,
            redacted=redacted,
        )
    )


async def redact(call: Call) -> Response:
    """Take the text of an earlier revision out of a node's history, for good."""
    node = call.node_id()
    body = await call.body(wire.RedactRequest)
    sha, reason = parse_revision(body.value.revision), parse_reason(body.value.reason)
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.history.redact(caller, node, sha, reason=reason))


def _entry(entry: Entry, *, with_text: bool) -> wire.EntryBody:
    return wire.EntryBody(
        n=entry.n,
        revision=entry.revision,
        verb=entry.verb,
        at=iso(entry.at),
        author=entry.author,
        agent=entry.agent,
        session=entry.session,
        via=entry.via,
        reason=entry.reason,
        redaction=entry.redaction,
        raw=entry.content if with_text and not is_act(entry) else None,
    )
