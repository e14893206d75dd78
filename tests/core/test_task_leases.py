"""The law of leases on records' tasks: what differs from nodes', and what holds whatever is asked (D32 to D34)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.core.errors import AlreadyClaimed, Conflict, Forbidden, LeaseLost
from batonpass.core.identity import Kind as Sort
from batonpass.core.identity import Principal
from batonpass.core.ids import Fence, HolderId, Instant, PersonId, Resource, TokenHash
from batonpass.core.lease_law import decide, ended
from batonpass.core.leases import (
    Answer,
    Granted,
    Happened,
    Kind,
    LockedLease,
    Refused,
    Request,
    Standing,
    Verb,
    may_renew,
)
from batonpass.core.policy import Policy

TASK: Final = Resource("record:incidents/inc-1#remediation")
ELSEWHERE: Final = Resource("task-2")
EPOCH: Final = 5
VERSION: Final = 7
SECOND: Final = 1_000_000
NOW: Final = Instant(1_780_000_000_000_000)
LEASE_S: Final = 300
LEASE: Final = LEASE_S * SECOND
CLAIMED_AT: Final = Instant(NOW - 100 * SECOND)
ANNA: Final = PersonId(HolderId("person-anna"))
BEN: Final = PersonId(HolderId("person-ben"))


def standing(lease_s: int = LEASE_S) -> Standing:
    policy = Policy(claim_ttl=timedelta(seconds=lease_s), claim_ttl_max=timedelta(days=1))
    return Standing(policy, counts_lapses=False)


def agent(name: str, owner: PersonId, *, token: str = "", run: Fence | None = None) -> Principal:
    return Principal(
        HolderId(f"agent-{name}"), Sort.AGENT, name, TokenHash(token or f"token-{name}"), person=owner, run=run
    )


def key(name: str) -> Principal:
    return Principal(HolderId(f"apikey:{name}"), Sort.KEY, name, TokenHash(f"token-{name}"))


HOLDER: Final = agent("holder", ANNA)
WHO: Final = {
    "holder": HOLDER,
    "owner": Principal(ANNA, Sort.PERSON, "Anna", TokenHash("token-anna"), person=ANNA),
    "sibling": agent("sibling", ANNA),
    "stranger": key("remediator/worker-1"),
    "run": agent("holder", ANNA, token="run", run=Fence(TASK, EPOCH)),
    "sibling-run": agent("holder", ANNA, token="other", run=Fence(ELSEWHERE, 2)),
}
FREE: Final = LockedLease(
    resource=TASK,
    kind=Kind.NONE,
    holder=None,
    holder_name=None,
    owner=None,
    session=None,
    dispatch=None,
    epoch=EPOCH,
    version=VERSION,
    claimed_at=None,
    granted_at=None,
    expires_at=None,
    lapses=0,
    run_token=None,
    acquired_under=None,
    taken_from=None,
    provisional=False,
)
LIVE: Final = replace(
    FREE,
    kind=Kind.CLAIM,
    holder=HOLDER.id,
    holder_name="holder",
    owner=ANNA,
    claimed_at=CLAIMED_AT,
    granted_at=CLAIMED_AT,
    expires_at=Instant(CLAIMED_AT + LEASE),
    run_token=WHO["run"].token,
)
STATES: Final = {"free": FREE, "live": LIVE, "lapsed": replace(LIVE, expires_at=Instant(NOW - SECOND))}

# One row per caller, one column per state; a cell is what becomes of the row. @5 names the tenure, as a fence does.
#   acquire  a new tenure         take over  a new tenure in place of another's     resume  the same, from a lapse
#   renew    the same, further    same       200, nothing changed                   free    ended by its holder
#   revoke   ended by its owner   clear      another's lapsed tenure ended, its epoch with it
#   held lost forbidden: refused
TABLE: Final = """
                        free      live        lapsed
claim   holder          acquire   same        acquire
claim   holder      @5  lost      same        resume
claim   owner           acquire   same        take-over
claim   sibling         acquire   held        take-over
claim   stranger        acquire   held        take-over
claim   run             acquire   same        resume
claim   sibling-run     acquire   held        acquire
renew   holder          acquire   renew       resume
renew   holder      @5  lost      renew       resume
renew   owner           acquire   renew       resume
renew   sibling         acquire   held        take-over
renew   stranger        acquire   held        take-over
renew   run             acquire   renew       resume
renew   sibling-run     acquire   held        acquire
release holder          same      free        free
release holder      @5  same      free        free
release owner           same      revoke      clear
release owner       @5  same      revoke      clear
release sibling         same      held        clear
release stranger        same      held        clear
release run             same      forbidden   forbidden
release sibling-run     same      forbidden   forbidden
"""


@dataclass(frozen=True)
class Cell:
    """One cell of the table: who asks what of which row, and what comes of it."""

    verb: str
    who: str
    named: bool
    state: str
    told: str

    def __str__(self) -> str:
        return "-".join((self.verb, self.who, *(["@5"] if self.named else []), self.state))


def cells() -> list[Cell]:
    header, *lines = [line.split() for line in TABLE.splitlines() if line.strip()]
    return [
        Cell(verb, who, len(rest) > len(header), state, word)
        for verb, who, *rest in lines
        for state, word in zip(header, rest[-len(header) :], strict=True)
    ]


def freed(lease: LockedLease) -> LockedLease:
    """Return the row without whoever holds it, a version later."""
    return replace(FREE, epoch=lease.epoch, version=lease.version + 1)


def granted(before: LockedLease, who: Principal, verb: Verb) -> dict[str, Granted]:
    """Return by its word what each grant must be, whole."""
    until = Instant(NOW + LEASE)
    acquired = replace(
        before,
        kind=Kind.CLAIM,
        holder=who.id,
        holder_name=who.name,
        owner=who.person,
        epoch=EPOCH + 1,
        version=VERSION + 1,
        claimed_at=NOW,
        granted_at=NOW,
        expires_at=until,
        run_token=None,
        acquired_under=who.token if who.run is not None else None,
        taken_from=None,
    )
    further = replace(before, version=VERSION + 1, granted_at=NOW, expires_at=until)
    from_lapse = verb is Verb.RENEW
    return {
        "same": Granted(before, verb),
        "acquire": Granted(acquired, verb, acquired=True, reclaimed=from_lapse, happened=Happened.CLAIMED),
        "take-over": Granted(
            replace(acquired, taken_from=HOLDER.id),
            verb,
            acquired=True,
            reclaimed=from_lapse,
            displaced=HOLDER.id,
            happened=Happened.TAKEN_OVER,
        ),
        "renew": Granted(further, verb),
        "resume": Granted(replace(further, claimed_at=NOW), verb, reclaimed=True),
        "free": Granted(freed(before), verb, happened=Happened.RELEASED),
        "revoke": Granted(freed(before), verb, displaced=HOLDER.id, happened=Happened.REVOKED),
        "clear": Granted(
            replace(freed(before), epoch=EPOCH + 1), verb, displaced=HOLDER.id, happened=Happened.TAKEN_OVER
        ),
    }


REFUSALS: Final[dict[str, type[Conflict | Forbidden]]] = {
    "held": AlreadyClaimed,
    "lost": LeaseLost,
    "forbidden": Forbidden,
}


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_the_table(cell: Cell) -> None:
    before, who, verb = STATES[cell.state], WHO[cell.who], Verb[cell.verb.upper()]

    answer = decide(before, Request(who, verb, TASK, if_epoch=EPOCH if cell.named else None), standing(), NOW)

    match answer:
        case Refused():
            assert (answer.lease, answer.error) == (before, REFUSALS[cell.told])
            assert answer.names_holder == (cell.told == "held")
        case Granted():
            assert (
                replace(answer, edge=granted(before, who, verb)[cell.told].edge)
                == granted(before, who, verb)[cell.told]
            )


def test_every_state_and_verb_is_in_the_table() -> None:
    asked = {(cell.verb, cell.state) for cell in cells()}

    assert asked == {(verb, state) for verb in ("claim", "renew", "release") for state in STATES}
    assert {cell.who for cell in cells()} == set(WHO)


def test_what_is_deleted_with_its_record_holds_no_fence_any_more() -> None:
    for row in STATES.values():
        assert ended(row) == replace(FREE, epoch=EPOCH + 1, version=VERSION + 1)


# --- whatever is asked -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Move:
    """One request, and how much time went by before it."""

    who: str
    verb: Verb
    lease_s: int
    after_s: int
    pinned: bool


moves: Final = st.builds(
    Move,
    who=st.sampled_from(["holder", "owner", "sibling", "stranger"]),
    verb=st.sampled_from([Verb.CLAIM, Verb.RENEW, Verb.RELEASE]),
    lease_s=st.sampled_from([1, 60, LEASE_S, 86_400]),
    after_s=st.sampled_from([0, 1, 59, 60, 301, 90_000, -500]),
    pinned=st.booleans(),
)


def played(steps: Iterable[Move]) -> Iterable[tuple[LockedLease, Move, Instant, Answer]]:
    """Yield the row before each move, the move, its moment, and the answer."""
    lease, now = replace(FREE, epoch=0, version=0), NOW
    for step in steps:
        now = Instant(now + step.after_s * SECOND)
        request = Request(WHO[step.who], step.verb, TASK, if_epoch=lease.epoch if step.pinned else None)
        answer = decide(lease, request, standing(step.lease_s), now)
        yield lease, step, now, answer
        lease = answer.lease


@settings(max_examples=150)
@given(st.lists(moves, max_size=25))
def test_whatever_is_asked_of_a_task_its_law_holds(steps: list[Move]) -> None:
    for before, step, now, answer in played(steps):
        after, who = answer.lease, WHO[step.who]
        set_back = before.anchored(now)
        if isinstance(answer, Refused):
            assert after == set_back, "a refusal changes nothing"
            assert answer.error is LeaseLost or before.in_force(now)
            continue
        if after.version == before.version:
            assert after == set_back
            assert answer.happened is None
            assert not answer.acquired
            continue
        assert after.version == before.version + 1, "each change is one version"
        assert after.epoch - before.epoch in {0, 1}
        if set_back.in_force(now):
            assert may_renew(before, who), "nobody changes what another has"
        if answer.acquired:
            assert (after.epoch, after.holder) == (before.epoch + 1, who.id)
            assert not step.pinned, "a fence never acquires"
        elif after.kind is Kind.CLAIM:
            assert (after.epoch, after.holder) == (before.epoch, before.holder)
            assert set_back.expires_at is not None
            assert after.expires_at is not None
            assert after.expires_at >= set_back.expires_at, "a renewal never shortens"
            assert answer.happened is None
        if after.kind is Kind.CLAIM:
            assert after.in_force(now)
            assert after.expires_at is not None
            assert after.expires_at <= max(now + 86_400 * SECOND, set_back.expires_at or 0), "no lease without an end"
