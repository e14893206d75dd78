"""What the lease engine must know of the tasks in a set, and what a grant leaves in their records (D32 to D34).

A record's task field is decided by the same engine as a node, in the same
sets. Beside its lease row it takes the class in force, held so that nobody
applies another, and the record's row, locked: with every claim, renewal and
release its version rises, and what is no renewal goes into its history.

    hold the classes ─┐
    read their newest │ in the round trip of the lease rows' locks, after
    lock the records ─┘ them and before the clock is read (D5, D44)

A record whose row somebody else has locked, or that is not there, is not
waited for in a set: its request is asked for alone, and may make it then.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from batonpass.core.classes import RecordClass
from batonpass.core.errors import Invalid, StalePremise
from batonpass.core.ids import Instant, Resource
from batonpass.core.leases import Granted, Happened, LockedLease, Verb
from batonpass.core.policy import Policy
from batonpass.core.premises import BasedOn, broken_among, stale_premise
from batonpass.core.record_writes import FieldState, require_claimable, require_may_name
from batonpass.core.records import LEASE_S_MAX, ClassName, FieldName, RecordPath, identity_of, task_of
from batonpass.core.values import value
from batonpass.server.services.asks import Ask
from batonpass.server.services.classes import Classes, require_class
from batonpass.store import classes, leases, record_fields, records
from batonpass.store.base import Retry, Row, Statement, Tx
from batonpass.store.records import LockedRecord, LogEntry

_VERBS: Final = {
    Happened.CLAIMED: "claim",
    Happened.TAKEN_OVER: "takeover",
    Happened.RELEASED: "release",
    Happened.REVOKED: "release",
}
"""What a record's history calls what happened; what is not here happens to no task."""


@value(frozen=True, slots=True)
class Terms:
    """What a request on a task is decided by: its class's version, and a policy made of nothing but its length."""

    class_version: int
    policy: Policy


@dataclass(slots=True)
class TaskBoard:
    """The classes and records of one set, as each decision leaves them for the next."""

    classes: Mapping[ClassName, tuple[RecordClass, int]] = field(default_factory=dict)
    before: dict[RecordPath, LockedRecord] = field(default_factory=dict)
    fields: Mapping[RecordPath, Mapping[FieldName, FieldState]] = field(default_factory=dict)
    """What the registers and appends are at of the records of which an ask names some as premises."""
    alone: bool = False
    rows: dict[RecordPath, LockedRecord] = field(default_factory=dict)
    entries: list[LogEntry] = field(default_factory=list)

    def terms(self, ask: Ask) -> Terms:
        """Return what `ask` is decided by; raise why its caller may not ask it (D35), or why it is for no length."""
        path, name = task_of(ask.request.resource)
        kind, version = require_class(path.record_class, self.classes)
        spec = require_claimable(kind, ask.request.principal, name)
        if ask.fences.based_on is not None:
            require_may_name(kind, ask.request.principal, ask.fences.based_on)
        if ask.request.verb is Verb.RELEASE:
            return Terms(version, Policy())
        lease_s = ask.lease_s if ask.lease_s is not None else spec.lease_s
        if lease_s is None:
            raise Invalid(
                f"lease_seconds: required: the class {kind.name} says of {name} no lease of its own",
                field="lease_seconds",
            )
        return Terms(version, _policy(lease_s))

    def must_wait(self, ask: Ask) -> bool:
        """Whether the record's row may be somebody else's at this moment, or is still to be made."""
        return not self.alone and task_of(ask.request.resource)[0] not in self.before

    def record(self, resource: Resource) -> LockedRecord | None:
        """Return the record of a task as the decisions before left it; None when there is none."""
        path, _ = task_of(resource)
        return self.rows.get(path) or self.before.get(path)

    def stale(self, ask: Ask, held: Mapping[Resource, LockedLease]) -> StalePremise | None:
        """Return the refusal of an ask whose premises do not hold (D33)."""
        based_on = ask.fences.based_on
        if based_on is None:
            return None
        versions = {name: state.version for name, state in self.fields.get(based_on.record, {}).items()}
        broken = broken_among(based_on, leases=held, versions=versions, principal=ask.request.principal)
        return stale_premise(broken) if broken else None

    def note(self, ask: Ask, terms: Terms, before: LockedLease, granted: Granted, *, now: Instant) -> None:
        """Raise the record's version with the lease's, and tell its history what was no renewal."""
        if granted.lease.version == before.version:
            return
        record = self.record(ask.request.resource)
        assert record is not None, "whatever changes a task has its record's lock"
        logged = granted.happened is not None
        after = replace(
            record,
            class_version=terms.class_version,
            version=record.version + 1,
            history_n=record.history_n + logged,
            created_at=record.created_at if record.is_there else now,
            updated_at=now,
            deleted_at=None,
        )
        self.rows[after.path] = after
        if granted.happened is not None:
            self.entries.append(_entry(ask, granted, after, granted.happened))

    def hand_over(self, tx: Tx, now: Instant) -> None:
        """Send every changed row once, and what goes into the histories."""
        records.write(tx, [(self.before[path], after) for path, after in sorted(self.rows.items())])
        records.log(tx, self.entries, at=now)


def asked(tasks: Sequence[Ask], *, alone: bool) -> list[Statement]:
    """Return what is asked for `tasks` in the round trip of the locks; alone, a record is waited for and made."""
    paths = {task_of(ask.request.resource)[0] for ask in tasks}
    names = {path.record_class for path in paths}
    makes = alone and any(ask.makes for ask in tasks)
    named = _named(tasks)
    return [
        classes.held_asked(names),
        classes.versions_asked(names),
        *([records.created_asked(paths)] if makes else []),
        records.locked_asked(paths, skip_locked=not alone),
        *(_named_asked(named) if named else []),
    ]


async def read(
    tx: Tx, found: Classes, tasks: Sequence[Ask], answers: Sequence[Sequence[Row]], *, alone: bool
) -> TaskBoard:
    """Return the board of `tasks`, from the answers to `asked`; a class that is not known yet is read.

    Raises `Retry` if a task that a premise names was claimed for the first
    time after its lease row was looked for, and found missing.
    """
    *first, states, standing = answers if _named(tasks) else (*answers, [], [])
    if alone and any(row[0] not in tx.locked for row in standing):
        raise Retry(f"{tasks[0].request.resource}: a task it is based on was claimed for the first time meanwhile")
    return TaskBoard(
        classes=await found.of_versions(tx, first[1]),
        before=records.locked(first[-1]),
        fields=record_fields.states(states),
        alone=alone,
    )


def _named(tasks: Sequence[Ask]) -> list[BasedOn]:
    """Return the premises among which some name what may be a register."""
    named = [ask.fences.based_on for ask in tasks]
    return [based_on for based_on in named if based_on is not None and based_on.read_fields(())]


def _named_asked(named: Sequence[BasedOn]) -> tuple[Statement, Statement]:
    """Ask what premises are compared with besides locked leases, and which leases there are under the records' locks.

    A task has no row before its first claim, so there may be one by now; who makes one locks the record after it.
    """
    return (
        record_fields.states_asked(based_on.record for based_on in named),
        leases.asked(frozenset().union(*(based_on.resources for based_on in named))),
    )


def _policy(lease_s: int) -> Policy:
    """Return the policy of a task: how long the request or its class says, and no other limit (D34)."""
    return Policy(
        claim_ttl=timedelta(seconds=lease_s), claim_ttl_max=timedelta(seconds=LEASE_S_MAX), max_claims=sys.maxsize
    )


def _entry(ask: Ask, granted: Granted, record: LockedRecord, happened: Happened) -> LogEntry:
    based_on = ask.fences.based_on
    return LogEntry(
        record=record.path,
        n=record.history_n,
        author=identity_of(ask.request.principal.id),
        verb=_VERBS[happened],
        field=task_of(ask.request.resource)[1],
        version=granted.lease.version,
        record_version=record.version,
        class_version=record.class_version,
        based_on=based_on.premises if based_on is not None else (),
        took_over_from=granted.displaced if happened is Happened.TAKEN_OVER else None,
    )
