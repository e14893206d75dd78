"""`baton queue` and `baton next`: what there is to do, and taking the best of it."""

from __future__ import annotations

import uuid
from typing import Annotated, Final, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from batonpass.cli.context import ask
from batonpass.cli.exits import Exit
from batonpass.cli.options import COMMON, Common, Flag, Label, Node
from batonpass.cli.render import Column, again, print_json, print_table, say, span, warn
from batonpass.client import queue_calls
from batonpass.wire.events import WAIT_S_MAX
from batonpass.wire.queue import ItemBody, QueueReply

COLUMNS: Final = (
    Column("node"),
    Column("priority"),
    Column("readiness"),
    Column("suggest"),
    Column("project"),
    Column("score"),
    Column("held by"),
    Column("title", cut=True),
)
Types = Annotated[list[str] | None, Parameter(name="--type", negative=())]


def queue(
    *,
    project: str | None = None,
    types: Types = None,
    exclude_types: Annotated[list[str] | None, Parameter(name="--exclude-type", negative=())] = None,
    readiness: Literal["agent", "human", "untriaged"] | None = None,
    assignee: str | None = None,
    include_blocked: Flag = False,
    limit: int | None = None,
    offset: int = 0,
    common: Common = COMMON,
) -> None:
    """List what there is to do, best first.

    What others hold, and what waits for something, is counted and not listed.

    Args:
        project: only this project's.
        types: only nodes of this type; may be given several times.
        exclude_types: no nodes of this type; may be given several times.
        readiness: only what is for agents, for people, or not sorted yet.
        assignee: what this person is assigned to, blocked or held as it may be; "me" for yourself.
        include_blocked: also what waits for something else.
        limit: how many at most; 20 unless given.
        offset: how many to pass over.

    """
    call = queue_calls.queue_page(
        project=project,
        types=types or (),
        exclude_types=exclude_types or (),
        readiness=readiness,
        assignee=assignee,
        include_blocked=include_blocked,
        limit=limit,
        offset=offset,
    )
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
        return
    reply = answer.value
    total = f"{reply.total_count}{'+' if reply.counts_capped else ''}"
    empty = f"nothing from {offset + 1} on: there are {total}" if offset and reply.total_count else "the queue is empty"
    print_table(COLUMNS, [_row(item) for item in reply.items], empty=empty)
    same = again(
        "baton queue",
        project=project,
        type=types,
        exclude_type=exclude_types,
        readiness=readiness,
        assignee=assignee,
        include_blocked=include_blocked,
        limit=None if limit is None else str(limit),
    )
    for line in _footers(reply, same):
        say(line)


def next_(
    *,
    project: str | None = None,
    accept: Literal["ready", "open"] = "ready",
    types: Types = None,
    exclude: Annotated[list[Node] | None, Parameter(negative=())] = None,
    session: Label | None = None,
    dispatch: Label | None = None,
    wait: Annotated[int, Parameter(validator=Number(gte=0, lte=WAIT_S_MAX))] = 0,
    common: Common = COMMON,
) -> int:
    """Claim the best item you may take, in one step.

    An empty queue ends with 1. The first lease lasts a minute: renew it once you have begun.

    Args:
        project: only of this project.
        accept: "ready" takes what is meant for agents, "open" also what nobody has sorted yet; neither what is a
            person's.
        types: only nodes of this type; may be given several times.
        exclude: not this node; may be given several times.
        session: the session that the lease is for.
        dispatch: a launch's nonce: the same again returns the same claim. One is made unless it is given.
        wait: how many seconds to wait for an item when there is none, up to 60.

    """
    call = queue_calls.next_item(
        project=project,
        accept=accept,
        types=types,
        exclude=exclude or (),
        session=session,
        dispatch=dispatch or uuid.uuid4().hex,
        wait=wait,
    )
    answer = ask(common, call)
    reply = answer.value
    code = Exit.OK if reply.status == "claimed" else Exit.FAILED
    if common.json:
        print_json(answer.raw)
        return code
    if reply.item is None or reply.lease is None or reply.expires_in_ms is None:
        say("there is nothing to take")
        return code
    say(f"{reply.item.id} is claimed for {span(reply.expires_in_ms)} (epoch {reply.lease.epoch}): {reply.item.title}")
    warn(f"keep it with: baton renew {reply.item.id}")
    return code


def _row(item: ItemBody) -> tuple[str | None, ...]:
    state = {"in_progress": "", "reserved": " (reserved)", None: ""}[item.lease_state]
    held = None if item.lease_by is None else f"{item.lease_by_name or item.lease_by}{state}"
    return (
        item.id,
        item.priority,
        item.readiness,
        item.suggest if not item.blocked_by else f"{item.suggest} by {', '.join(item.blocked_by)}",
        item.project,
        f"{item.score:.2f}",
        held,
        item.title,
    )


def _footers(reply: QueueReply, same: str) -> list[str]:
    """Return what a reader must know of what is not in the table (case 174); `same` is the command that was given."""
    lines = [] if reply.project_warning is None else [reply.project_warning]
    if reply.truncated:
        shown = f"{reply.offset + 1} to {reply.offset + reply.returned_count}"
        more = f"; more: {same} --offset {reply.next_offset}" if reply.next_offset is not None else ""
        lines.append(f"… {shown} of {reply.total_count}{'+' if reply.counts_capped else ''}{more}")
    hidden = [
        (reply.leased, "held by others (baton leases)"),
        (reply.reserved, "reserved by others (baton leases --state reserved)"),
        (reply.blocked, "blocked (baton queue --include-blocked)"),
        (reply.dormant, "asleep until their day"),
        (reply.muted, "muted by you"),
        (reply.gating, "in a pipeline"),
        (reply.archived, "of archived repositories"),
    ]
    waiting = [
        (reply.questions, "questions", "question"),
        (reply.reviews, "reviews", "review"),
        (reply.findings, "findings", "finding"),
        (reply.pending, "pending", "capture"),
    ]
    if told := ", ".join(
        _how_many(len(entries), what, more=name in reply.inbox_truncated) for entries, name, what in waiting if entries
    ):
        lines.append(f"waits for your word: {told} (baton inbox)")
    if counted := ", ".join(f"{count} {what}" for count, what in hidden if count):
        lines.append(f"not listed: {counted}")
    return lines


def _how_many(count: int, what: str, *, more: bool) -> str:
    return f"{count}{'+' if more else ''} {what}{'s' if more or count != 1 else ''}"
