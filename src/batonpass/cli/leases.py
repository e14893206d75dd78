"""The lease verbs: claim, renew, extend, reserve, release, take, and who holds what.

Besides `claim` and `take`, a verb acts on the tenure that is the node's at
present or on none: the epoch is read first and sent along (D2), so that a
command typed too late never takes a node anew.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from cyclopts import Parameter

from batonpass.cli.context import ask, connected
from batonpass.cli.exits import Exit, UsageError, exit_of_code
from batonpass.cli.options import COMMON, Common, Duration, Flag, Label, Node
from batonpass.cli.render import Column, again, cut_short, print_json, print_table, say, span, warn
from batonpass.client import lease_calls
from batonpass.client.client import Answer, Client
from batonpass.core.errors import LeaseLost
from batonpass.core.ids import NodeId
from batonpass.wire.leases import BulkClaimReply, LeaseBody, LeaseListed, LeaseReply

COLUMNS: Final = (
    Column("node"),
    Column("held by"),
    Column("for"),
    Column("state"),
    Column("epoch"),
    Column("session"),
    Column("project"),
    Column("title", cut=True),
)


def claim(
    *nodes: Node,
    session: Label | None = None,
    dispatch: Label | None = None,
    force: Flag = False,
    common: Common = COMMON,
) -> int:
    """Claim nodes for yourself.

    While the lease lasts nobody else may work on them. One node that somebody
    holds ends with 3 and says who. Of several those that are free are claimed,
    and the others named.

    Args:
        nodes: which.
        session: the session that the leases are for.
        dispatch: a launch's nonce: a second launch with another one is refused, even yours. For one node.
        force: also what is resolved or retired. For one node.

    """
    if not nodes:
        raise UsageError("name at least one node")
    if len(nodes) == 1:
        call = lease_calls.claim(nodes[0], session=session, dispatch=dispatch, force=force)
        _print(ask(common, call), "claimed", common)
        return Exit.OK
    if dispatch is not None or force:
        raise UsageError("--dispatch and --force are for one node")
    return _print_claimed(ask(common, lease_calls.claim_many(nodes, session=session)), common)


def renew(node: Node, /, *, session: Label | None = None, epoch: int | None = None, common: Common = COMMON) -> None:
    """Renew your lease: its end moves away, never nearer.

    One that lapsed, and that nobody has used since, is resumed.

    Args:
        node: which.
        session: bind the lease to this session.
        epoch: the tenure you believe in; without it the present one.

    """
    with connected(common) as client:
        tenure = _tenure(client, node) if epoch is None else epoch
        answer = client.answer(lease_calls.renew(node, if_epoch=tenure, session=session))
    _print(answer, "resumed" if answer.value.reclaimed else "renewed", common)


def extend(
    node: Node,
    duration: Duration,
    /,
    *,
    session: Label | None = None,
    epoch: int | None = None,
    common: Common = COMMON,
) -> None:
    """Stretch your lease over a long gap, up to the policy's maximum.

    Args:
        node: which.
        duration: from now, such as 2h or 90m.
        session: bind the lease to this session.
        epoch: the tenure you believe in; without it the present one.

    """
    ms = max(round(duration.total_seconds() * 1000), 1)
    with connected(common) as client:
        tenure = _tenure(client, node) if epoch is None else epoch
        answer = client.answer(lease_calls.extend(node, ms=ms, if_epoch=tenure, session=session))
    if answer.value.claim_ttl_max_ms is not None:
        warn(f"the policy allows {span(answer.value.claim_ttl_max_ms)} at most")
    _print(answer, "extended", common)


def reserve(node: Node, /, *, epoch: int | None = None, common: Common = COMMON) -> None:
    """Give the work back for now, but keep the node for yourself.

    It stays first in your queue and out of others'. A node that nobody holds is reserved as well.

    Args:
        node: which.
        epoch: the tenure you believe in; without it the present one.

    """
    with connected(common) as client:
        answer = client.answer(lease_calls.reserve(node, if_epoch=_present(client, node) if epoch is None else epoch))
    _print(answer, "reserved", common)


def release(
    node: Node | None = None,
    /,
    *,
    all_: Annotated[Flag, Parameter(name="--all")] = False,
    reservations: Flag = False,
    session: Label | None = None,
    epoch: int | None = None,
    reason: str | None = None,
    common: Common = COMMON,
) -> None:
    """Give a node back for good, or all that you hold.

    What you do not hold is left as it is.

    Args:
        node: which.
        all_: all that you hold.
        reservations: with --all: also what you have reserved.
        session: with --all: only what is held for this session.
        epoch: the tenure you believe in; without it the present one.
        reason: as an admin: why you end somebody else's lease.

    """
    if node is None:
        if not all_:
            raise UsageError("name a node, or say --all")
        _release_all(common, session=session, reservations=reservations)
        return
    if all_ or reservations or session is not None:
        raise UsageError("--all, --reservations and --session are for all that you hold, not for one node")
    with connected(common) as client:
        answer = client.answer(
            lease_calls.release(node, if_epoch=_present(client, node) if epoch is None else epoch, reason=reason)
        )
    if common.json:
        print_json(answer.raw)
    else:
        say(f"{node} is released" if answer.value.edge == "removed" else f"{node} was not held: nothing changed")


def take(node: Node, /, *, reason: str, session: Label | None = None, common: Common = COMMON) -> None:
    """End the lease on a node, whoever has it, and claim it yourself.

    It is for the holder's owner, or an admin. Whatever its holder still sends is refused from then on.

    Args:
        node: which.
        reason: why; it is kept.
        session: the session that the lease is for.

    """
    _print(ask(common, lease_calls.take(node, reason=reason, session=session)), "taken", common)


def leases(
    *,
    holder: str | None = None,
    project: str | None = None,
    state: Literal["live", "lapsed", "reserved"] | None = None,
    limit: int | None = None,
    after: str | None = None,
    common: Common = COMMON,
) -> None:
    """List who holds what, and for how long.

    Args:
        holder: only this agent's or person's; "me" for your own.
        project: only of this project.
        state: only those in force, those that lapsed, or reservations.
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    call = lease_calls.leases(holder=holder, project=project, state=state, limit=limit, after=after)
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
        return
    print_table(COLUMNS, [_row(listed) for listed in answer.value.leases], empty="nothing is held")
    more = again("baton leases", holder=holder, project=project, state=state)
    cut_short(answer.value.count, more, after=answer.value.next)


def held_by(lease: LeaseBody) -> str:
    """Return who holds a lease: the id, and the name where it says more."""
    return f"{lease.by} ({lease.by_name})" if lease.by_name and lease.by_name != lease.by else lease.by


def _row(listed: LeaseListed) -> tuple[str | None, ...]:
    lease = listed.lease
    left = span(listed.expires_in_ms) if listed.state != "lapsed" else None
    return (
        lease.node_id,
        held_by(lease),
        left,
        listed.state,
        str(lease.epoch),
        lease.session,
        listed.project,
        listed.title,
    )


def _print(answer: Answer[LeaseReply], done: str, common: Common) -> None:
    if common.json:
        print_json(answer.raw)
        return
    reply = answer.value
    lease = reply.lease
    say(f"{lease.node_id} is {done} for {span(reply.expires_in_ms)}, until {lease.expires_at} (epoch {lease.epoch})")
    if reply.took_over_from is not None:
        warn(f"it was {reply.took_over_from}'s before")
    elif reply.edge == "skipped" and done == "claimed":
        warn("it was yours already")


def _print_claimed(answer: Answer[BulkClaimReply], common: Common) -> int:
    """Print what of a set was claimed; return the exit code of what was not, or 1 when the reasons differ."""
    reply = answer.value
    ends = {exit_of_code(failed.code) for failed in reply.failed}
    code = Exit.OK if not ends else ends.pop() if len(ends) == 1 else Exit.FAILED
    if common.json:
        print_json(answer.raw)
        return code
    if reply.expires_in_ms is not None:
        say(f"claimed {', '.join(reply.claimed)}: for {span(reply.expires_in_ms)}")
    for failed in reply.failed:
        warn(failed.message)
    return code


def _release_all(common: Common, *, session: str | None, reservations: bool) -> None:
    answer = ask(common, lease_calls.release_held(session=session, reservations=reservations))
    if common.json:
        print_json(answer.raw)
    else:
        say(f"released {', '.join(answer.value.released) or 'nothing: you hold nothing'}")


def _tenure(client: Client, node: NodeId) -> int:
    """Return the epoch of the lease on `node`, in force or lapsed; there is nothing to carry on without one."""
    lease = client.node(node).lease
    if lease is None:
        raise LeaseLost(f"nobody holds {node}")
    return lease.epoch


def _present(client: Client, node: NodeId) -> int | None:
    """Return the epoch of the tenure on `node`, or None when nobody holds it, or it is reserved and so has none."""
    lease = client.node(node).lease
    return lease.epoch if lease is not None and not lease.reserved else None
