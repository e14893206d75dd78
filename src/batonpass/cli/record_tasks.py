"""`baton record claim`, `renew` and `release`: the tasks of a record, which are leases (D34)."""

from __future__ import annotations

from datetime import timedelta

from batonpass.cli.context import ask, connected
from batonpass.cli.exits import UsageError
from batonpass.cli.options import COMMON, Common, Duration
from batonpass.cli.premises import NO_PREMISES, Premises
from batonpass.cli.records import FieldArg, RecordArg
from batonpass.cli.render import print_json, say, span, warn
from batonpass.client import record_calls
from batonpass.client.client import Answer, Client
from batonpass.core.errors import LeaseLost
from batonpass.core.premises import Premise
from batonpass.core.records import FieldName, RecordPath
from batonpass.wire.records import TaskReply


def claim(
    record: RecordArg,
    field: FieldArg,
    /,
    *,
    lease: Duration | None = None,
    premises: Premises = NO_PREMISES,
    common: Common = COMMON,
) -> None:
    """Claim a task for yourself. A record that is not there is made.

    What is yours already is answered as it stands; nothing is renewed.

    Args:
        record: which, as class/id.
        field: which of its tasks.
        lease: for how long, in whole seconds, a day at most; without it as long as its class says.

    """
    call = record_calls.claim(record, field, lease_s=whole_seconds(lease), based_on=premises.based_on())
    _print(ask(common, call), "claimed", common)


def renew(
    record: RecordArg,
    field: FieldArg,
    /,
    *,
    lease: Duration | None = None,
    premises: Premises = NO_PREMISES,
    common: Common = COMMON,
) -> None:
    """Renew your lease on a task: its end moves away, never nearer.

    One that lapsed, and that nobody has used since, is resumed. Without a
    fence it is the present tenure that is renewed; a free task is not claimed.

    Args:
        record: which, as class/id.
        field: which of its tasks.
        lease: for how long from now, in whole seconds; without it as long as its class says.

    """
    with connected(common) as client:
        based_on = premises.based_on() or [_tenure(client, record, field)]
        answer = client.answer(record_calls.renew(record, field, lease_s=whole_seconds(lease), based_on=based_on))
    _print(answer, "resumed" if answer.value.reclaimed else "renewed", common)


def release(
    record: RecordArg, field: FieldArg, /, *, premises: Premises = NO_PREMISES, common: Common = COMMON
) -> None:
    """Hand a task back: it is free at once. One that nobody holds is left as it is.

    A lapsed one may be released by whoever may claim it; its history says takeover.

    Args:
        record: which, as class/id.
        field: which of its tasks.

    """
    answer = ask(common, record_calls.release(record, field, based_on=premises.based_on()))
    if common.json:
        print_json(answer.raw)
        return
    say(f"{record} {field} is free, at version {answer.value.version}")
    if answer.value.took_over_from is not None:
        warn(f"it had lapsed, and was {answer.value.took_over_from}'s before")


def whole_seconds(lease: timedelta | None) -> int | None:
    """Return a lease in seconds; `UsageError` when they are not whole, or none at all: 0 is how a release is sent."""
    if lease is None:
        return None
    seconds, rest = divmod(lease, timedelta(seconds=1))
    if rest or not seconds:
        raise UsageError(f"--lease: {lease.total_seconds():g} s is not a whole number of seconds from 1 on")
    return seconds


def _tenure(client: Client, record: RecordPath, field: FieldName) -> Premise:
    """Return the fence of the present tenure, in force or lapsed; there is nothing to renew without one."""
    task = client.records.field(record, field)
    if task.owner is None or task.epoch is None:
        raise LeaseLost(f"nobody holds {record} {field}: there is nothing to renew")
    return record_calls.fence(field, task.epoch)


def _print(answer: Answer[TaskReply], done: str, common: Common) -> None:
    if common.json:
        print_json(answer.raw)
        return
    task = answer.value
    left = f" for {span(task.expires_in_ms)}" if task.expires_in_ms is not None else ""
    say(
        f"{task.record} {task.field} is {done}{left}, until {task.lease_expires_at}"
        f" (version {task.version}, epoch {task.epoch})"
    )
    if task.took_over_from is not None:
        warn(f"it was {task.took_over_from}'s before: read what they left before you go on")
