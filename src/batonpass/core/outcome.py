"""What a run did to the graph: facts in, ordered steps out.

The terminal-state algorithm of the worker protocol, as one pure function. The
caller stops the run, revokes its token, reads the target again, and puts what
it found into `Facts`; `plan` answers with the steps still to take, always
ending in `Conclude`. The caller carries them out one after another. Only a
filing step can change the course: when it is answered, the caller puts the
answer into the facts and asks again. A restart does the same, so there is one
path through a settlement whether or not anything was killed.

What no plan ever does, and the tests state as laws:

* read `resolved` from anything but a live resolving edge that was read after
  the run had ended;
* hand a lease back while its run has a report that is not filed;
* hand back a lease its run does not hold;
* hand back the lease of a target whose completion it cannot judge, unless the
  run declined it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from batonpass.core.ids import Fence, NodeId
from batonpass.core.node_types import NODE_TYPES, JudgedBy
from batonpass.core.reports import Standing, is_usable, parse_decline


class Terminal(StrEnum):
    """How a run ended, as the graph tells it."""

    RESOLVED = "resolved"
    REPORTED = "reported"
    DECLINED = "declined"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Resolver:
    """The live inbound edge that retires the target, and the node it comes from."""

    by: NodeId
    edge: str


@dataclass(frozen=True, slots=True)
class Read:
    """The target was read again after the run had ended; without a resolver it is open."""

    resolver: Resolver | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """Nothing could be read: there is no verdict yet, only a guess."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotFiled:
    """Nothing was sent yet."""


@dataclass(frozen=True, slots=True)
class Filed:
    """The graph has the run's report as `node`, or its decline when it is `finding`."""

    node: NodeId
    finding: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The graph was asked and said no; asking again would bring the same answer."""

    message: str


@dataclass(frozen=True, slots=True)
class Undelivered:
    """It is not known to be filed, and may be sent again."""

    reason: str


Reading = Read | Unread
Filing = NotFiled | Filed | Refused | Undelivered


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known once a run has ended.

    `lease` is the tenure this run's own claim took and may hand back; None
    when it took none, or lost it. `has_commits` is True as well when nobody
    can tell: a decline is believed only when there is nothing behind it.
    """

    target_type: str
    reading: Reading
    report: str
    has_commits: bool
    lease: Fence | None
    filing: Filing = NotFiled()


@dataclass(frozen=True, slots=True)
class FileReport:
    """File the report as an artifact that relates to the target."""

    standing: Standing


@dataclass(frozen=True, slots=True)
class FileFinding:
    """File the decline as an open finding that relates to the target."""

    reason: str


@dataclass(frozen=True, slots=True)
class ClearReadiness:
    """Take the target's stamp away, if this tenure still stands (D20a)."""

    lease: Fence


@dataclass(frozen=True, slots=True)
class Release:
    """Hand the lease back, if this tenure still stands (D20a)."""

    lease: Fence


@dataclass(frozen=True, slots=True)
class Conclude:
    """The verdict for the run's record.

    Only an `enforced` one was read off the graph; anything else is a best
    guess at how the run ended. `pending` means the settlement is to be taken
    up again: nothing has been handed back.
    """

    state: Terminal
    enforced: bool
    note: str = ""
    resolver: Resolver | None = None
    declined_reason: str | None = None
    pending: bool = False


Step = FileReport | FileFinding | ClearReadiness | Release | Conclude


def is_judged_by_edge(node_type: str) -> bool:
    """Whether a target of this type can read `resolved` at all (D17: this is the one place that knows)."""
    kind = NODE_TYPES.get(node_type)
    return kind is not None and kind.judged_by is JudgedBy.EDGE


def plan(facts: Facts) -> tuple[Step, ...]:
    """Return the steps that settle a run, in order; the last one is its verdict.

    When a filing step has been answered, ask again with the answer in the facts.
    """
    if isinstance(facts.reading, Unread):
        return (_guess(facts, f"the target could not be read: {facts.reading.reason}"),)
    resolver = facts.reading.resolver
    filed = isinstance(facts.filing, Filed)
    if resolver is not None and is_judged_by_edge(facts.target_type) and not filed:
        # A report that is filed already has decided the run: whoever resolves the item later takes nothing back.
        return (Conclude(Terminal.RESOLVED, enforced=True, resolver=resolver),)
    reason = declined(facts)
    if reason is not None:
        return _decline(facts, reason)
    if is_usable(facts.report):
        return _report(facts)
    return _silence(facts)


def declined(facts: Facts) -> str | None:
    """Return why the run declined its item, or None when it makes another claim (D18).

    A decline with commits or a resolver behind it is judged as the claim those
    make. One that is filed stands, whatever turned up since.
    """
    decline = parse_decline(facts.report)
    match facts.filing:
        case Filed(finding=finding):
            return decline.reason if finding and decline is not None else None
        case _:
            return None if decline is None or facts.has_commits or _has_resolver(facts) else decline.reason


def _has_resolver(facts: Facts) -> bool:
    return isinstance(facts.reading, Read) and facts.reading.resolver is not None


def _decline(facts: Facts, reason: str) -> tuple[Step, ...]:
    verdict = Conclude(
        Terminal.DECLINED,
        enforced=is_judged_by_edge(facts.target_type),
        declined_reason=reason,
        note=_lease_note(facts),
    )
    lease = facts.lease
    handing_back = () if lease is None else (ClearReadiness(lease), Release(lease))
    match facts.filing:
        case NotFiled():
            return (FileFinding(reason), *handing_back, verdict)
        case Filed():
            return (*handing_back, verdict)
        case Refused(message):
            note = f"the decline could not be filed, so the lease is left to lapse: {message}"
            return (Conclude(Terminal.DECLINED, enforced=False, declined_reason=reason, note=note),)
        case Undelivered(why):
            return (_guess(facts, f"the decline is not filed yet: {why}"),)
        case unknown:
            assert_never(unknown)


def _report(facts: Facts) -> tuple[Step, ...]:
    judged = is_judged_by_edge(facts.target_type)
    note = _lease_note(facts) if judged else _status_note(facts)
    verdict = Conclude(Terminal.REPORTED, enforced=judged, note=note)
    match facts.filing:
        case NotFiled():
            standing = Standing.UNRESOLVED if judged else Standing.NOT_VERIFIED
            # The report first: a crash here leaves the lease held, not the work lost.
            return (FileReport(standing), *_handing_back(facts), verdict)
        case Filed():
            return (*_handing_back(facts), verdict)
        case Refused(message):
            refusal = f"the report could not be filed, so the lease is left to lapse: {message}"
            return (Conclude(Terminal.FAILED, enforced=False, note=refusal),)
        case Undelivered(why):
            return (_guess(facts, f"the report is not filed yet: {why}"),)
        case unknown:
            assert_never(unknown)


def _silence(facts: Facts) -> tuple[Step, ...]:
    judged = is_judged_by_edge(facts.target_type)
    notes = ("the run left no report", _lease_note(facts) if judged else _status_note(facts))
    verdict = Conclude(Terminal.FAILED, enforced=judged, note="; ".join(filter(None, notes)))
    return (*_handing_back(facts), verdict)


def _handing_back(facts: Facts) -> tuple[Step, ...]:
    """Return the release of a judged target's lease; nothing when there is none to give, or none we may."""
    if facts.lease is None or not is_judged_by_edge(facts.target_type):
        return ()
    return (Release(facts.lease),)


def _guess(facts: Facts, note: str) -> Conclude:
    """Return the unenforced classification of a run whose settlement has to wait; never `resolved`."""
    reason = declined(facts)
    if reason is not None:
        state = Terminal.DECLINED
    else:
        state = Terminal.REPORTED if is_usable(facts.report) else Terminal.FAILED
    return Conclude(state, enforced=False, declined_reason=reason, note=note, pending=True)


def _lease_note(facts: Facts) -> str:
    return "" if facts.lease is not None else "the run holds no lease, so none was handed back"


def _status_note(facts: Facts) -> str:
    return (
        f"a {facts.target_type} is closed by its status, which is not verified here;"
        " the lease is left to lapse by itself"
    )
