from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Final, assert_never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.clock import iso, micros
from batonpass.core.errors import (
    AlreadyClaimed,
    Conflict,
    ExecutionBoundary,
    Forbidden,
    LeaseLost,
    NotReady,
    Paused,
    TooManyClaims,
)
from batonpass.core.fences import fence_broken, working_fence_broken
from batonpass.core.identity import Kind as Sort
from batonpass.core.identity import Principal
from batonpass.core.ids import Fence, HolderId, Instant, PersonId, Resource, TokenHash
from batonpass.core.lease_law import decide, lost_to_another
from batonpass.core.leases import (
    Answer,
    Edge,
    Granted,
    Happened,
    Kind,
    LeaseView,
    LockedLease,
    Refused,
    Request,
    Standing,
    Verb,
    is_callers,
    is_own,
    may_renew,
    view,
)
from batonpass.core.policy import PROVISIONAL, Policy

NODE: Final = Resource("task-1")
ELSEWHERE: Final = Resource("task-2")
EPOCH: Final = 5
POLICY: Final = Policy()
OPEN: Final = Standing(POLICY)
NOW: Final = Instant(1_780_000_000_000_000)
MINUTE: Final = 60_000_000
TTL: Final = POLICY.ttl
CLAIMED_AT: Final = Instant(NOW - 10 * MINUTE)

ANNA: Final = PersonId(HolderId("person-anna"))
BEN: Final = PersonId(HolderId("person-ben"))


def agent(name: str, owner: PersonId, *, token: str = "", run: Fence | None = None) -> Principal:
    return Principal(
        HolderId(f"agent-{name}"), Sort.AGENT, name, TokenHash(token or f"token-{name}"), person=owner, run=run
    )


def person(which: PersonId, *, admin: bool = False) -> Principal:
    return Principal(which, Sort.PERSON, which, TokenHash(f"token-{which}"), person=which, is_admin=admin)


def on(verb: Verb, who: Principal, **options: object) -> Request:
    return Request(who, verb, NODE, **options)  # type: ignore[arg-type]  # the options are fields of Request


HOLDER: Final = agent("holder", ANNA)
WHO: Final = {
    "holder": HOLDER,
    "owner": person(ANNA),
    "sibling": agent("sibling", ANNA),
    "stranger": agent("stranger", BEN),
    "admin": person(BEN, admin=True),
    # An agent's token never carries an administrator's rights, whoever owns the agent.
    "admin's-agent": replace(agent("errand", BEN), is_admin=True),
    # Run tokens of the holding agent: of this very tenure, of another item under which this one was acquired, and of
    # another item that has nothing to do with it.
    "run": agent("holder", ANNA, token="run", run=Fence(NODE, EPOCH)),
    "working-set": agent("holder", ANNA, token="set", run=Fence(ELSEWHERE, 1)),
    "sibling-run": agent("holder", ANNA, token="other", run=Fence(ELSEWHERE, 2)),
}

FREE: Final = LockedLease(
    resource=NODE,
    kind=Kind.NONE,
    holder=None,
    holder_name=None,
    owner=None,
    session=None,
    dispatch=None,
    epoch=EPOCH,
    version=7,
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
    session="s1",
    dispatch="u1",
    claimed_at=CLAIMED_AT,
    granted_at=CLAIMED_AT,
    expires_at=Instant(CLAIMED_AT + TTL),
    run_token=WHO["run"].token,
)
PARKED: Final = replace(
    LIVE,
    kind=Kind.RESERVATION,
    session=None,
    dispatch=None,
    run_token=None,
    expires_at=Instant(CLAIMED_AT + POLICY.grace),
)
LIVE_UNTIL: Final = Instant(CLAIMED_AT + TTL)
STATES: Final = {
    "free": FREE,
    "live": LIVE,
    "lapsed": replace(LIVE, expires_at=Instant(NOW - MINUTE)),
    "parked": PARKED,
    "faded": replace(PARKED, expires_at=Instant(NOW - MINUTE)),
}
"""The row at epoch 5: released, held, lapsed, reserved, and reserved beyond its grace window."""

# One row per caller and option, one column per state; a cell is what becomes of the row.
#   acquire   a new tenure          renew    the same, further        resume    the same, from a lapse
#   take-up   a new tenure, of a reservation                park, repark, park-resumed, park-acquired: reserved
#   free      ended by its holder   revoke   ended by another         same      200, nothing changed
#   lost held conflict forbidden: refused. @5 names the tenure, @4 one before it; nonce u1 is the tenure's own, u0 one
#   that has acquired before, u2 has not.
TABLE: Final = """
                                free           live       lapsed         parked      faded
claim   holder                  acquire        renew      acquire        take-up     acquire
claim   holder      @5          lost           renew      resume         lost        lost
claim   holder      @4          lost           lost       lost           lost        lost
claim   holder      no-reclaim  acquire        renew      acquire        take-up     acquire
claim   holder      u1          conflict       renew      resume         conflict    conflict
claim   holder      u1 @5       lost           renew      resume         lost        lost
claim   holder      u2          acquire        held       acquire        take-up     acquire
claim   holder      u2 @5       lost           held       held           lost        lost
claim   holder      u0          conflict       conflict   conflict       conflict    conflict
claim   holder      u0 @5       lost           conflict   conflict       lost        lost
claim   owner                   acquire        renew      acquire        take-up     acquire
claim   owner       @5          lost           renew      resume         lost        lost
claim   owner       u1          conflict       renew      resume         conflict    conflict
claim   owner       u2          acquire        held       acquire        take-up     acquire
claim   sibling                 acquire        held       acquire        held        acquire
claim   sibling     @5          lost           lost       lost           lost        lost
claim   sibling     u1          conflict       held       conflict       held        conflict
claim   sibling     u2          acquire        held       acquire        held        acquire
claim   stranger                acquire        held       acquire        held        acquire
claim   admin                   acquire        held       acquire        held        acquire
claim   admin       why         acquire        held       acquire        held        acquire
claim   run                     acquire        renew      resume         held        acquire
claim   run         @5          lost           renew      resume         lost        lost
claim   working-set             acquire        held       acquire        held        acquire
claim   working-set under       acquire        renew      resume         held        acquire
claim   working-set under @5    lost           renew      resume         lost        lost
claim   sibling-run             acquire        held       acquire        held        acquire
claim   sibling-run under       acquire        held       acquire        held        acquire
claim   sibling-run @5          lost           lost       lost           lost        lost

take    holder                  acquire        acquire    acquire        take-up     acquire
take    holder      u1          conflict       renew      resume         conflict    conflict
take    owner                   acquire        acquire    acquire        take-up     acquire
take    owner       u1          conflict       renew      resume         conflict    conflict
take    owner       u2          acquire        acquire    acquire        take-up     acquire
take    owner       u0          conflict       conflict   conflict       conflict    conflict
take    sibling                 acquire        held       acquire        held        acquire
take    stranger    why         acquire        held       acquire        held        acquire
take    admin                   acquire        held       acquire        held        acquire
take    admin       why         acquire        acquire    acquire        take-up     acquire
take    admin       why u1      conflict       conflict   conflict       conflict    conflict
take    admin's-agent why       acquire        held       acquire        held        acquire
take    run                     acquire        held       resume         held        acquire
take    sibling-run             acquire        held       acquire        held        acquire

renew   holder                  acquire        renew      acquire        take-up     acquire
renew   holder      @5          lost           renew      resume         lost        lost
renew   holder      @4          lost           lost       lost           lost        lost
renew   holder      no-reclaim  lost           renew      lost           lost        lost
renew   holder      @5 no-reclaim lost         renew      lost           lost        lost
renew   owner                   acquire        renew      acquire        take-up     acquire
renew   owner       @5          lost           renew      resume         lost        lost
renew   sibling                 acquire        lost       acquire        lost        acquire
renew   sibling     @5          lost           lost       lost           lost        lost
renew   stranger                acquire        lost       acquire        lost        acquire
renew   admin       why         acquire        lost       acquire        lost        acquire
renew   run                     acquire        renew      resume         lost        acquire
renew   run         @5          lost           renew      resume         lost        lost
renew   run         no-reclaim  lost           renew      lost           lost        lost
renew   working-set             acquire        lost       acquire        lost        acquire
renew   working-set under       acquire        renew      resume         lost        acquire
renew   sibling-run             acquire        lost       acquire        lost        acquire
renew   sibling-run @5          lost           lost       lost           lost        lost

extend  holder                  acquire        renew      acquire        take-up     acquire
extend  holder      @5          lost           renew      resume         lost        lost
extend  holder      @4          lost           lost       lost           lost        lost
extend  holder      no-reclaim  lost           renew      lost           lost        lost
extend  owner                   acquire        renew      acquire        take-up     acquire
extend  sibling                 acquire        lost       acquire        lost        acquire
extend  stranger    @5          lost           lost       lost           lost        lost
extend  run                     acquire        renew      resume         lost        acquire
extend  working-set under       acquire        renew      resume         lost        acquire
extend  sibling-run             acquire        lost       acquire        lost        acquire

reserve holder                  park-acquired  park       park-acquired  repark      park-acquired
reserve holder      @5          lost           park       park-resumed   lost        lost
reserve holder      @4          lost           lost       lost           lost        lost
reserve holder      no-reclaim  lost           park       lost           repark      lost
reserve holder      @5 no-reclaim lost         park       lost           lost        lost
reserve owner                   park-acquired  park       park-acquired  repark      park-acquired
reserve owner       @5          lost           park       park-resumed   lost        lost
reserve sibling                 park-acquired  lost       park-acquired  lost        park-acquired
reserve sibling     @5          lost           lost       lost           lost        lost
reserve stranger                park-acquired  lost       park-acquired  lost        park-acquired
reserve admin       why         park-acquired  lost       park-acquired  lost        park-acquired
reserve run                     forbidden      forbidden  forbidden      forbidden   forbidden
reserve run         @5          forbidden      forbidden  forbidden      forbidden   forbidden
reserve working-set             forbidden      forbidden  forbidden      forbidden   forbidden
reserve working-set under       forbidden      park       park-resumed   forbidden   forbidden
reserve working-set under @5    forbidden      park       park-resumed   forbidden   forbidden
reserve sibling-run             forbidden      forbidden  forbidden      forbidden   forbidden

release holder                  same           free       free           free        free
release holder      @5          same           free       free           same        same
release holder      @5 parked-too same         free       free           free        free
release holder      @4          lost           lost       lost           lost        lost
release holder      its-session same           free       free           free        free
release holder      a-session   same           lost       lost           free        free
release owner                   same           revoke     revoke         revoke      revoke
release owner       @5          same           revoke     revoke         same        same
release sibling                 same           held       same           held        same
release sibling     @5          same           held       lost           same        same
release stranger    why         same           held       same           held        same
release admin                   same           held       same           held        same
release admin       why         same           revoke     revoke         revoke      revoke
release admin       why @4      lost           lost       lost           lost        lost
release admin's-agent why       same           held       same           held        same
release run                     same           forbidden  forbidden      forbidden   forbidden
release run         @5          same           forbidden  forbidden      same        same
release working-set             same           forbidden  forbidden      forbidden   forbidden
release working-set under       same           free       free           forbidden   forbidden
release working-set under @4    lost           lost       lost           lost        lost
release working-set under @5    same           free       free           same        same
release sibling-run             same           forbidden  forbidden      forbidden   forbidden
release sibling-run under       same           forbidden  forbidden      forbidden   forbidden
"""

OPTIONS: Final[dict[str, dict[str, object]]] = {
    "@5": {"if_epoch": EPOCH},
    "@4": {"if_epoch": EPOCH - 1},
    "no-reclaim": {"reclaim": False},
    "u0": {"dispatch": "u0"},
    "u1": {"dispatch": "u1"},
    "u2": {"dispatch": "u2"},
    "why": {"reason": "the box is gone"},
    "parked-too": {"parked_too": True},
    "its-session": {"session": "s1"},
    "a-session": {"session": "s2"},
    # The row was acquired under the working-set token, rather than claimed by the runner of a tenure.
    "under": {},
}


@dataclass(frozen=True)
class Cell:
    """One cell of the table: who asks what of which row, and what comes of it."""

    verb: str
    who: str
    options: tuple[str, ...]
    state: str
    told: str

    def __str__(self) -> str:
        return "-".join((self.verb, self.who, *self.options, self.state))

    def lease(self) -> LockedLease:
        row = STATES[self.state]
        if "under" in self.options and row.kind is Kind.CLAIM:
            return replace(row, run_token=None, acquired_under=WHO["working-set"].token)
        return row

    def request(self) -> Request:
        options = {name: value for option in self.options for name, value in OPTIONS[option].items()}
        if self.verb == "take":
            return on(Verb.CLAIM, WHO[self.who], take=True, **options)
        if self.verb == "extend":
            options["extend_us"] = 60 * MINUTE
        return on(Verb[self.verb.upper()], WHO[self.who], **options)

    def standing(self) -> Standing:
        return replace(OPEN, nonce_used=self.request().dispatch in {"u0", "u1"})


def cells() -> list[Cell]:
    header, *lines = [line.split() for line in TABLE.splitlines() if line.strip()]
    found = []
    for verb, who, *rest in lines:
        options, told = tuple(rest[: -len(header)]), rest[-len(header) :]
        found += [Cell(verb, who, options, state, word) for state, word in zip(header, told, strict=True)]
    return found


def told(before: LockedLease, request: Request, answer: Answer) -> str:
    """Say in a word what the answer is; the word is checked against the whole row by `assert_row`."""
    match answer:
        case Refused(error=error):
            names: dict[type[Conflict | Forbidden], str] = {
                AlreadyClaimed: "held",
                LeaseLost: "lost",
                Forbidden: "forbidden",
                Conflict: "conflict",
            }
            return names[error]
        case Granted(lease=after, acquired=acquired, reclaimed=reclaimed):
            return _granted(before, request, after, acquired=acquired, reclaimed=reclaimed)
        case unknown:
            assert_never(unknown)


def _granted(before: LockedLease, request: Request, after: LockedLease, *, acquired: bool, reclaimed: bool) -> str:
    if after == before:
        return "same"
    if after.kind is Kind.NONE:
        return "free" if before.holder == request.principal.id else "revoke"
    if after.kind is Kind.RESERVATION:
        again = "repark" if before.kind is Kind.RESERVATION else "park-resumed" if reclaimed else "park"
        return "park-acquired" if acquired else again
    if acquired:
        return "take-up" if before.kind is Kind.RESERVATION and before.in_force(NOW) else "acquire"
    return "resume" if reclaimed else "renew"


def test_the_table_has_every_verb_and_every_caller() -> None:
    table = cells()

    assert {cell.verb for cell in table} == {"take", *(verb.name.lower() for verb in Verb)}
    assert {cell.who for cell in table} == set(WHO)
    assert len({str(cell) for cell in table}) == len(table)


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_every_verb_on_every_state(cell: Cell) -> None:
    before, request = cell.lease(), cell.request()

    answer = decide(before, request, cell.standing(), NOW)

    assert told(before, request, answer) == cell.told
    assert_row(before, request, answer)


def assert_row(before: LockedLease, request: Request, answer: Answer) -> None:
    """Check the whole row an answer leaves, field by field."""
    after, who = answer.lease, request.principal
    if isinstance(answer, Refused) or after == before:
        assert after == before
        return
    assert after.version > before.version
    assert after.resource == before.resource
    if answer.acquired:
        assert after.epoch == before.epoch + 1
        assert (after.holder, after.holder_name, after.owner) == (who.id, who.name, who.person)
        assert after.claimed_at == NOW
        assert after.dispatch == (request.dispatch if after.kind is Kind.CLAIM else None)
        assert after.session == (request.session if after.kind is Kind.CLAIM else None)
        assert after.run_token is None
        assert after.acquired_under == (who.token if who.run is not None and after.kind is Kind.CLAIM else None)
        assert answer.edge is Edge.ADDED
        assert answer.displaced == (before.holder if before.holder != who.id else None)
        assert after.taken_from == answer.displaced
    else:
        assert after.epoch == before.epoch
        assert after.lapses == before.lapses
        assert answer.edge is (Edge.REMOVED if after.kind is Kind.NONE else Edge.SKIPPED)
    match after.kind:
        case Kind.NONE:
            kept = {"resource", "kind", "epoch", "version", "lapses", "provisional"}
            assert {f.name for f in fields(after) if getattr(after, f.name) is not None} == kept
        case Kind.RESERVATION:
            assert (after.session, after.dispatch, after.run_token, after.acquired_under) == (None, None, None, None)
            assert after.expires_at == NOW + POLICY.grace
            assert after.holder == (who.id if answer.acquired else before.holder)
        case Kind.CLAIM:
            assert after.expires_at is not None
            assert NOW < after.expires_at <= NOW + POLICY.ttl_max
            if not answer.acquired:
                assert before.expires_at is not None
                assert after.expires_at >= before.expires_at
                kept = {"holder", "holder_name", "owner", "dispatch", "run_token", "acquired_under"}
                assert {n: getattr(after, n) for n in kept} == {n: getattr(before, n) for n in kept}
                assert after.claimed_at == (NOW if answer.reclaimed else before.claimed_at)
        case unknown:
            assert_never(unknown)


# --- what a refusal says ---------------------------------------------------------------------------------------------


def refusal(
    lease: LockedLease, request: Request, standing: Standing = OPEN, now: Instant = NOW
) -> Conflict | Forbidden:
    answer = decide(lease, request, standing, now)
    assert isinstance(answer, Refused), answer
    return answer.raised(now)


def test_a_refused_claim_names_the_holder_and_the_expiry() -> None:
    error = refusal(LIVE, on(Verb.CLAIM, WHO["stranger"]))

    assert isinstance(error, AlreadyClaimed)
    assert error.holder == view(LIVE, NOW)
    assert "agent-holder" in error.message
    assert f"until {iso(LIVE_UNTIL)} (epoch 5)" in error.message


def test_a_refused_claim_of_a_reservation_says_that_it_is_reserved() -> None:
    error = refusal(PARKED, on(Verb.CLAIM, WHO["stranger"]))

    assert error.message.startswith("task-1 is reserved by agent-holder until ")


def test_a_lost_renewal_names_the_holder_only_while_there_is_one() -> None:
    contested = refusal(LIVE, on(Verb.RENEW, WHO["stranger"]))
    lapsed = refusal(STATES["lapsed"], on(Verb.RENEW, HOLDER, reclaim=False))

    assert isinstance(contested, LeaseLost)
    assert contested.holder == view(LIVE, NOW)
    assert isinstance(lapsed, LeaseLost)
    assert lapsed.holder is None


def test_a_second_launch_is_told_of_the_first_ones_nonce() -> None:
    error = refusal(LIVE, on(Verb.CLAIM, HOLDER, dispatch="u2"))

    assert isinstance(error, AlreadyClaimed)
    assert error.holder == view(LIVE, NOW)
    assert "u1" in error.message


def test_a_run_that_may_not_end_its_own_item_is_told_who_does() -> None:
    own = refusal(LIVE, on(Verb.RELEASE, WHO["run"]))
    other = refusal(LIVE, on(Verb.RESERVE, WHO["sibling-run"]))

    assert isinstance(own, Forbidden)
    assert "its runner settles it" in own.message
    assert "did not acquire task-1, so it may not reserve it" in other.message


# --- sessions and nonces ---------------------------------------------------------------------------------------------


def granted(lease: LockedLease, request: Request, standing: Standing = OPEN, now: Instant = NOW) -> Granted:
    answer = decide(lease, request, standing, now)
    assert isinstance(answer, Granted), answer
    return answer


def test_the_first_nonce_binds_a_live_lease_that_has_none() -> None:
    unbound = replace(LIVE, dispatch=None)

    bound = granted(unbound, on(Verb.CLAIM, HOLDER, dispatch="u2"))

    assert bound.lease.dispatch == "u2"
    assert not bound.acquired
    assert isinstance(refusal(bound.lease, on(Verb.CLAIM, HOLDER, dispatch="u3")), AlreadyClaimed)


def test_a_nonce_that_has_acquired_before_binds_nothing() -> None:
    unbound = replace(LIVE, dispatch=None)

    error = refusal(unbound, on(Verb.CLAIM, HOLDER, dispatch="u0"), replace(OPEN, nonce_used=True))

    assert type(error) is Conflict


def test_a_claim_without_a_nonce_is_a_deliberate_reattachment_and_keeps_the_launchs_nonce() -> None:
    again = granted(LIVE, on(Verb.CLAIM, HOLDER))

    assert again.lease.dispatch == "u1"
    assert again.lease.epoch == LIVE.epoch


def test_a_renewal_that_names_a_session_rebinds_and_one_that_names_none_keeps_it() -> None:
    rebound = granted(LIVE, on(Verb.RENEW, HOLDER, session="s2")).lease
    kept = granted(rebound, on(Verb.RENEW, HOLDER)).lease

    assert (rebound.session, kept.session) == ("s2", "s2")


def test_an_owner_who_renews_leaves_the_agent_in_place() -> None:
    renewed = granted(LIVE, on(Verb.CLAIM, WHO["owner"])).lease

    assert (renewed.holder, renewed.owner) == (HOLDER.id, ANNA)


def test_an_agent_bound_to_the_session_of_its_persons_lease_reaches_it_by_enumeration_alone() -> None:
    persons = replace(LIVE, holder=ANNA, owner=ANNA)
    heir = replace(WHO["sibling"], session="s1")
    named = Request(heir, Verb.RENEW, persons.resource, if_epoch=persons.epoch)
    found = replace(named, enumerated=True)

    assert is_callers(persons, heir)
    assert not may_renew(persons, heir), "being an agent of the same person gives no right by itself"
    assert isinstance(decide(persons, named, OPEN, NOW), Refused)
    assert granted(persons, found).lease.holder == ANNA
    assert granted(persons, replace(found, verb=Verb.RELEASE)).edge is Edge.REMOVED
    assert not is_callers(persons, replace(heir, session="s2"))
    assert not is_callers(persons, WHO["sibling"])
    assert not is_callers(replace(persons, holder=BEN, owner=BEN), heir)
    assert not is_callers(LIVE, heir), "the lease is another agent's, not the person's"
    assert not is_callers(replace(persons, session=None), WHO["sibling"]), "no session binds nobody"


# --- whose lease it is -----------------------------------------------------------------------------------------------


def test_own_is_what_one_holds_and_for_a_person_what_its_agents_hold() -> None:
    assert is_own(LIVE, HOLDER)
    assert is_own(LIVE, WHO["owner"])
    assert not is_own(LIVE, WHO["sibling"])
    assert not is_own(LIVE, person(BEN))


def test_a_key_owns_what_it_holds_and_nothing_that_has_no_owner() -> None:
    key = Principal(HolderId("apikey:ci"), Sort.KEY, "ci", TokenHash("key"))
    keys = replace(LIVE, holder=key.id, owner=None)

    assert is_own(keys, key)
    assert may_renew(keys, key)
    assert not is_own(keys, person(ANNA))
    assert not may_renew(keys, person(ANNA))


# --- spans: TTL, extension, grace, caps ------------------------------------------------------------------------------


def expiry(lease: LockedLease, request: Request, standing: Standing = OPEN) -> int:
    after = granted(lease, request, standing).lease
    assert after.expires_at is not None
    return after.expires_at - NOW


def test_an_ordinary_grant_lasts_the_policys_ttl() -> None:
    assert expiry(FREE, on(Verb.CLAIM, HOLDER)) == micros(timedelta(minutes=45))


def test_a_ttl_above_the_maximum_counts_as_the_maximum() -> None:
    policy = Policy(claim_ttl=timedelta(hours=2), claim_ttl_max=timedelta(hours=1))

    assert expiry(FREE, on(Verb.CLAIM, HOLDER), Standing(policy)) == micros(timedelta(hours=1))


def test_a_lower_policy_touches_the_next_grant_and_no_live_lease() -> None:
    lower = Standing(Policy(claim_ttl=timedelta(seconds=60)))

    assert isinstance(refusal(LIVE, on(Verb.CLAIM, WHO["stranger"]), lower), AlreadyClaimed)
    assert expiry(LIVE, on(Verb.RENEW, HOLDER), lower) == TTL - 10 * MINUTE
    assert expiry(FREE, on(Verb.CLAIM, HOLDER), lower) == MINUTE


def test_an_extension_survives_the_next_heartbeat_and_a_shorter_extension() -> None:
    two_hours = micros(timedelta(hours=2))
    extended = granted(LIVE, on(Verb.EXTEND, HOLDER, extend_us=two_hours))
    after_beat = granted(extended.lease, on(Verb.RENEW, HOLDER), now=Instant(NOW + MINUTE))
    after_second = granted(after_beat.lease, on(Verb.EXTEND, HOLDER, extend_us=1_000_000), now=Instant(NOW + MINUTE))

    assert extended.happened is Happened.EXTENDED
    assert [one.lease.expires_at for one in (extended, after_beat, after_second)] == [NOW + two_hours] * 3


def test_an_extension_beyond_the_maximum_is_cut_and_says_so() -> None:
    cut = granted(LIVE, on(Verb.EXTEND, HOLDER, extend_us=micros(timedelta(hours=9))))
    whole = granted(LIVE, on(Verb.EXTEND, HOLDER, extend_us=micros(timedelta(hours=8))))

    assert (cut.capped, whole.capped) == (True, False)
    assert cut.lease.expires_at == whole.lease.expires_at == NOW + micros(timedelta(hours=8))


def test_an_extension_above_the_ceiling_never_brings_the_expiry_nearer() -> None:
    lowered = Standing(Policy(claim_ttl_max=timedelta(minutes=5)))

    answer = granted(LIVE, on(Verb.EXTEND, HOLDER, extend_us=micros(timedelta(hours=1))), lowered)

    assert answer.capped
    assert answer.lease.expires_at == LIVE.expires_at


@pytest.mark.parametrize("state", ["free", "lapsed", "parked", "faded"])
def test_an_extension_that_first_takes_the_lease_gives_at_least_the_ordinary_horizon(state: str) -> None:
    assert expiry(STATES[state], on(Verb.EXTEND, HOLDER, extend_us=1)) == TTL
    assert expiry(STATES[state], on(Verb.EXTEND, HOLDER, extend_us=2 * TTL)) == 2 * TTL


def test_an_extension_that_resumes_gives_at_least_the_ordinary_horizon() -> None:
    assert expiry(STATES["lapsed"], on(Verb.EXTEND, HOLDER, extend_us=1, if_epoch=EPOCH)) == TTL


def test_taking_up_ones_own_reservation_gives_the_ordinary_horizon() -> None:
    for verb in (Verb.CLAIM, Verb.RENEW):
        assert expiry(PARKED, on(verb, HOLDER)) == TTL < POLICY.grace


def test_a_reservation_lasts_the_grace_window() -> None:
    parked = granted(LIVE, on(Verb.RESERVE, HOLDER))

    assert parked.lease.expires_at == NOW + micros(timedelta(hours=48))
    assert parked.lease.claimed_at == LIVE.claimed_at
    assert parked.happened is Happened.RESERVED


def test_a_reservation_never_ends_before_the_claim_it_came_from_would_have() -> None:
    short = Standing(Policy(reserve_grace=timedelta(minutes=1)))

    assert granted(LIVE, on(Verb.RESERVE, HOLDER), short).lease.expires_at == LIVE.expires_at


def test_a_grant_of_the_queue_lasts_a_minute_until_its_first_renewal() -> None:
    taken = granted(FREE, on(Verb.CLAIM, HOLDER, dispatch="u2", provisional=True)).lease
    repeated = granted(taken, on(Verb.CLAIM, HOLDER, dispatch="u2", provisional=True)).lease
    renewed = granted(repeated, on(Verb.RENEW, HOLDER)).lease
    repeated_late = granted(renewed, on(Verb.CLAIM, HOLDER, dispatch="u2", provisional=True)).lease

    assert [row.provisional for row in (taken, repeated, renewed, repeated_late)] == [True, True, False, False]
    assert taken.expires_at == repeated.expires_at == NOW + micros(PROVISIONAL)
    assert renewed.expires_at == repeated_late.expires_at == NOW + TTL


def test_a_provisional_horizon_is_no_longer_than_the_policys() -> None:
    policy = Standing(Policy(claim_ttl=timedelta(seconds=5)))

    assert expiry(FREE, on(Verb.CLAIM, HOLDER, provisional=True), policy) == 5_000_000


# --- the clock set back (H26) ----------------------------------------------------------------------------------------


def test_a_lease_granted_while_the_clock_was_ahead_keeps_only_its_span() -> None:
    ten_hours = 600 * MINUTE
    ahead = replace(LIVE, granted_at=Instant(NOW + ten_hours), expires_at=Instant(NOW + ten_hours + TTL))

    refused = decide(ahead, on(Verb.CLAIM, WHO["stranger"]), OPEN, NOW)

    assert isinstance(refused, Refused)
    assert refused.lease == replace(ahead, granted_at=NOW, expires_at=Instant(NOW + TTL))
    assert view(ahead, NOW) == view(refused.lease, NOW)
    assert refused.raised(NOW).holder == view(refused.lease, NOW)  # type: ignore[union-attr]  # a Conflict
    assert isinstance(decide(refused.lease, on(Verb.CLAIM, WHO["stranger"]), OPEN, Instant(NOW + TTL)), Granted)


def test_a_renewal_after_the_clock_was_set_back_moves_the_expiry_to_where_it_belongs() -> None:
    ahead = replace(LIVE, granted_at=Instant(NOW + 600 * MINUTE), expires_at=Instant(NOW + 600 * MINUTE + TTL))

    assert expiry(ahead, on(Verb.RENEW, HOLDER)) == TTL


def test_a_clock_that_reads_the_grants_own_moment_moves_nothing() -> None:
    assert LIVE.anchored(CLAIMED_AT) is LIVE
    assert FREE.anchored(Instant(0)) is FREE


# --- the moment of expiry --------------------------------------------------------------------------------------------


def test_a_lease_is_in_force_before_its_expiry_and_not_at_it() -> None:
    assert LIVE.expires_at is not None
    last, first = Instant(LIVE.expires_at - 1), LIVE.expires_at

    assert LIVE.in_force(last)
    assert not LIVE.in_force(first)
    assert isinstance(decide(LIVE, on(Verb.CLAIM, WHO["stranger"]), OPEN, last), Refused)
    assert granted(LIVE, on(Verb.CLAIM, WHO["stranger"]), now=first).displaced == HOLDER.id


def test_a_free_row_is_held_by_nobody() -> None:
    assert not FREE.in_force(NOW)
    assert view(FREE, NOW) is None
    assert not may_renew(FREE, HOLDER)


def test_the_view_shows_who_holds_what_for_how_long() -> None:
    assert LIVE.expires_at is not None

    assert view(PARKED, NOW) == LeaseView(
        node_id=NODE,
        by=HOLDER.id,
        by_name="holder",
        owner=ANNA,
        expires_at=Instant(CLAIMED_AT + POLICY.grace),
        session=None,
        dispatch=None,
        claimed_at=CLAIMED_AT,
        epoch=EPOCH,
        reserved=True,
    )


# --- policy ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.CLAIM, Verb.RENEW, Verb.EXTEND, Verb.RESERVE])
def test_a_pause_refuses_acquisitions_and_no_renewal(verb: Verb) -> None:
    paused = Standing(Policy(paused="the database moves tonight"))
    request = on(verb, HOLDER, extend_us=MINUTE)

    error = refusal(FREE, request, paused)

    assert isinstance(error, Paused)
    assert "the database moves tonight" in error.message
    assert isinstance(decide(LIVE, request, paused, NOW), Granted)
    assert isinstance(decide(STATES["lapsed"], replace(request, if_epoch=EPOCH), paused, NOW), Granted)
    assert isinstance(decide(LIVE, on(Verb.RELEASE, HOLDER), paused, NOW), Granted)


def test_a_holder_at_its_limit_acquires_nothing_more_and_keeps_what_it_has() -> None:
    full = replace(OPEN, live_claims=POLICY.max_claims)

    error = refusal(FREE, on(Verb.CLAIM, HOLDER), full)

    assert isinstance(error, TooManyClaims)
    assert "50" in error.message
    assert isinstance(decide(FREE, on(Verb.CLAIM, HOLDER), replace(full, live_claims=49), NOW), Granted)
    assert isinstance(decide(LIVE, on(Verb.RENEW, HOLDER), full, NOW), Granted)


def test_a_person_at_its_limit_may_take_anew_what_it_holds_already() -> None:
    full = replace(OPEN, live_claims=POLICY.max_claims)
    own = replace(LIVE, holder=ANNA, owner=ANNA)

    assert granted(own, on(Verb.CLAIM, person(ANNA), take=True), full).lease.epoch == EPOCH + 1
    assert isinstance(refusal(LIVE, on(Verb.CLAIM, person(ANNA), take=True), full), TooManyClaims)


def test_a_node_that_is_done_is_not_claimed_unless_forced() -> None:
    done = replace(OPEN, unclaimable="task-1 is resolved by art-1")

    error = refusal(FREE, on(Verb.CLAIM, HOLDER), done)

    assert isinstance(error, NotReady)
    assert error.message == "task-1 is resolved by art-1"
    assert isinstance(decide(FREE, on(Verb.CLAIM, HOLDER, force=True), done, NOW), Granted)
    assert isinstance(decide(LIVE, on(Verb.RENEW, HOLDER), done, NOW), Granted), "what is held may be settled"


def test_force_lifts_nothing_but_readiness() -> None:
    assert isinstance(refusal(LIVE, on(Verb.CLAIM, WHO["stranger"], force=True)), AlreadyClaimed)
    assert isinstance(refusal(FREE, on(Verb.CLAIM, HOLDER, force=True), Standing(Policy(paused="x"))), Paused)


def test_what_a_pipeline_has_is_nobodys_to_claim_by_force_neither() -> None:
    """D24a."""
    gating = replace(OPEN, boundary="pipelines/r1")

    for forced in (False, True):
        error = refusal(FREE, on(Verb.CLAIM, HOLDER, force=forced), gating)
        assert isinstance(error, ExecutionBoundary)
        assert error.message.startswith("pipelines/r1 has this item")
    assert isinstance(decide(LIVE, on(Verb.RENEW, HOLDER), gating, NOW), Granted), "what is held may be settled"


# --- the lapse counter (D9) ------------------------------------------------------------------------------------------


def lapses(lease: LockedLease, standing: Standing = OPEN, who: Principal = WHO["stranger"]) -> int:
    return granted(lease, on(Verb.CLAIM, who), standing).lease.lapses


def test_a_lapse_that_left_nothing_counts_when_the_node_is_acquired_anew() -> None:
    lapsed = replace(STATES["lapsed"], lapses=2)

    assert lapses(lapsed) == 3
    assert lapses(lapsed, who=HOLDER) == 3, "the same agent's next tenure is another tenure"


def test_what_does_not_count_as_a_lapse() -> None:
    lapsed = replace(STATES["lapsed"], lapses=2)

    assert lapses(lapsed, replace(OPEN, left_trace=True)) == 2
    assert lapses(lapsed, replace(OPEN, counts_lapses=False)) == 2
    assert lapses(replace(lapsed, holder=ANNA)) == 2, "a person's own"
    assert lapses(replace(lapsed, provisional=True)) == 2, "a grant of the queue that nobody renewed"
    assert lapses(replace(STATES["faded"], lapses=2)) == 2, "a reservation"
    assert lapses(replace(FREE, lapses=2)) == 2, "a release"
    assert granted(lapsed, on(Verb.RENEW, HOLDER, if_epoch=EPOCH)).lease.lapses == 2, "a resume"


# --- what is recorded ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "state, request_, happened",
    [
        ("free", on(Verb.CLAIM, HOLDER), Happened.CLAIMED),
        ("lapsed", on(Verb.CLAIM, HOLDER), Happened.CLAIMED),
        ("lapsed", on(Verb.CLAIM, WHO["stranger"]), Happened.TAKEN_OVER),
        ("faded", on(Verb.CLAIM, WHO["stranger"]), Happened.TAKEN_OVER),
        ("live", on(Verb.CLAIM, WHO["admin"], take=True, reason="r"), Happened.TAKEN_OVER),
        ("live", on(Verb.RENEW, HOLDER), None),
        ("live", on(Verb.EXTEND, HOLDER, extend_us=1), Happened.EXTENDED),
        ("live", on(Verb.RESERVE, HOLDER), Happened.RESERVED),
        ("free", on(Verb.RESERVE, HOLDER), Happened.RESERVED),
        ("live", on(Verb.RELEASE, HOLDER), Happened.RELEASED),
        ("live", on(Verb.RELEASE, WHO["owner"]), Happened.REVOKED),
        ("live", on(Verb.RELEASE, WHO["admin"], reason="r"), Happened.REVOKED),
        ("free", on(Verb.RELEASE, HOLDER), None),
    ],
)
def test_what_is_recorded_as_having_happened(state: str, request_: Request, happened: Happened | None) -> None:
    assert granted(STATES[state], request_).happened is happened


def test_a_revocation_names_whose_tenure_it_ended() -> None:
    assert granted(LIVE, on(Verb.RELEASE, WHO["owner"])).displaced == HOLDER.id
    assert granted(LIVE, on(Verb.RELEASE, HOLDER)).displaced is None


def test_a_release_keeps_the_epoch_so_that_it_never_repeats() -> None:
    freed = granted(LIVE, on(Verb.RELEASE, HOLDER)).lease

    assert freed == replace(FREE, version=LIVE.version + 1)
    assert granted(freed, on(Verb.CLAIM, HOLDER)).lease.epoch == EPOCH + 1


def test_a_first_claim_of_a_new_row_begins_at_epoch_one() -> None:
    assert granted(replace(FREE, epoch=0, version=0), on(Verb.CLAIM, HOLDER)).lease.epoch == 1


# --- fences ----------------------------------------------------------------------------------------------------------

STANDS: Final = Fence(NODE, EPOCH)


@pytest.mark.parametrize("who", ["holder", "owner", "run"])
@pytest.mark.parametrize("state", ["live", "lapsed"])
def test_a_fence_holds_for_whoever_may_act_while_nobody_has_acquired_since(who: str, state: str) -> None:
    assert fence_broken(STATES[state], STANDS, WHO[who]) is None


@pytest.mark.parametrize("who", ["holder", "owner", "run"])
@pytest.mark.parametrize("state", ["free", "parked", "faded"])
def test_a_fence_breaks_when_its_tenure_ends(who: str, state: str) -> None:
    why = fence_broken(STATES[state], STANDS, WHO[who])

    assert why == "the tenure of task-1 at epoch 5 has ended"


@pytest.mark.parametrize("who", ["sibling", "stranger", "admin", "sibling-run"])
def test_a_fence_does_not_hold_for_those_who_may_not_act(who: str) -> None:
    assert fence_broken(LIVE, STANDS, WHO[who]) == "task-1 at epoch 5 is agent-holder's"


@pytest.mark.parametrize(
    "epoch, why",
    [
        (EPOCH - 1, "task-1 is at epoch 5, not 4: somebody acquired it since"),
        (EPOCH + 1, "task-1 is at epoch 5, not 6: nobody has had that tenure"),
    ],
)
def test_a_fence_of_another_epoch_does_not_hold(epoch: int, why: str) -> None:
    assert fence_broken(LIVE, Fence(NODE, epoch), HOLDER) == why


def test_a_fence_on_nothing_does_not_hold() -> None:
    assert fence_broken(None, STANDS, HOLDER) == "there is no lease on task-1"


def test_a_run_token_that_was_replaced_does_not_hold() -> None:
    replaced = replace(LIVE, run_token=TokenHash("its successor"))

    assert fence_broken(replaced, STANDS, WHO["run"]) == ("this run's token is no longer the one of task-1 at epoch 5")


def test_a_run_may_stand_on_a_tenure_it_acquired() -> None:
    row = replace(LIVE, resource=NODE, run_token=None, acquired_under=WHO["working-set"].token)

    assert fence_broken(row, STANDS, WHO["working-set"]) is None
    assert fence_broken(row, STANDS, WHO["sibling-run"]) is not None


@pytest.mark.parametrize(
    "row, holds",
    [
        (replace(LIVE, acquired_under=TokenHash("set")), True),
        (replace(STATES["lapsed"], acquired_under=TokenHash("set")), True),
        (replace(LIVE, acquired_under=TokenHash("set"), epoch=EPOCH + 1), False),
        (LIVE, False),
        (FREE, False),
        (PARKED, False),
        (None, False),
    ],
)
def test_a_working_set_is_a_runs_while_its_tenure_there_stands(row: LockedLease | None, holds: bool) -> None:  # noqa: FBT001  # a column of the table
    why = working_fence_broken(row, STANDS, TokenHash("set"))

    assert (why is None) == holds


# --- laws over whole histories ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One request of a history, made `wait` microseconds after the one before; negative: the clock was set back."""

    wait: int
    who: str
    verb: Verb
    nonce: int | None
    tenure: int | None
    """Which tenure it names, counted back from the latest; None names none."""
    reclaim: bool
    take: bool
    extend_us: int
    session: str | None

    def request(self, lease: LockedLease) -> Request:
        return on(
            self.verb,
            WHO[self.who],
            dispatch=f"u{self.nonce}" if self.nonce is not None and self.verb is Verb.CLAIM else None,
            if_epoch=max(lease.epoch - self.tenure, 0) if self.tenure is not None else None,
            reclaim=self.reclaim,
            take=self.take and self.verb is Verb.CLAIM and self.tenure is None,
            extend_us=self.extend_us,
            session=self.session,
            reason="because" if self.who == "admin" else None,
        )


spans = st.integers(1, 50 * 60 * MINUTE) | st.sampled_from([TTL - 1, TTL, TTL + 1, POLICY.grace])
steps = st.builds(
    Step,
    wait=spans | spans.map(lambda span: -span) | st.just(0),
    who=st.sampled_from(sorted(WHO)),
    verb=st.sampled_from(Verb),
    nonce=st.none() | st.integers(1, 4),
    tenure=st.none() | st.integers(0, 2),
    reclaim=st.booleans(),
    take=st.booleans(),
    extend_us=spans,
    session=st.sampled_from([None, "s1", "s2"]),
)
histories = st.lists(steps, max_size=25)


@dataclass
class History:
    """A row, its clock and the nonces that have acquired it, as a sequence of requests leaves them."""

    lease: LockedLease
    now: Instant
    used: set[str]

    def take(self, step: Step) -> tuple[LockedLease, Request, Answer]:
        self.now = Instant(self.now + step.wait)
        before, request = self.lease, step.request(self.lease)
        answer = decide(before, request, replace(OPEN, nonce_used=request.dispatch in self.used), self.now)
        self.lease = answer.lease
        after = answer.lease
        if isinstance(answer, Granted) and after.dispatch is not None:
            if answer.acquired:
                assert after.dispatch not in self.used, "nonce-once"
            self.used.add(after.dispatch)
        return before.anchored(self.now), request, answer  # type: ignore[return-value]  # a LockedLease stays one


def played(history: list[Step]) -> list[tuple[Instant, LockedLease, Request, Answer]]:
    """Return each step's moment, the row before it (re-anchored if the clock was set back), request and answer."""
    game = History(replace(FREE, epoch=0, version=0), NOW, set())
    trail = []
    for step in history:
        before, request, answer = game.take(step)
        trail.append((game.now, before, request, answer))
    return trail


@given(histories)
def test_the_epoch_rises_by_one_with_every_acquisition_and_with_nothing_else(history: list[Step]) -> None:
    for _, before, _, answer in played(history):
        acquired = isinstance(answer, Granted) and answer.acquired

        assert answer.lease.epoch == before.epoch + acquired


@given(histories)
def test_a_refusal_leaves_the_row_as_it_was(history: list[Step]) -> None:
    for _, before, _, answer in played(history):
        if isinstance(answer, Refused):
            assert answer.lease == before


@given(histories)
def test_every_change_raises_the_version(history: list[Step]) -> None:
    for _, before, _, answer in played(history):
        changed = answer.lease != before

        assert answer.lease.version > before.version if changed else answer.lease.version == before.version


@given(histories)
def test_a_grant_is_in_force_when_it_is_answered(history: list[Step]) -> None:
    for now, _, request, answer in played(history):
        if isinstance(answer, Granted) and request.verb is not Verb.RELEASE:
            assert answer.lease.expires_at is not None
            assert 0 < answer.lease.expires_at - now <= max(POLICY.ttl_max, POLICY.grace)


@given(histories)
def test_no_renewal_brings_an_expiry_nearer(history: list[Step]) -> None:
    for _, before, _, answer in played(history):
        after = answer.lease
        if after.epoch == before.epoch and after.kind is not Kind.NONE:
            assert after.expires_at is not None
            assert before.expires_at is not None
            assert after.expires_at >= before.expires_at


@given(histories)
def test_the_same_tenure_keeps_its_holder(history: list[Step]) -> None:
    for _, before, _, answer in played(history):
        after = answer.lease
        if after.epoch == before.epoch and after.kind is not Kind.NONE:
            assert after.holder == before.holder


@given(histories)
def test_nobody_takes_a_live_lease_but_its_owner_or_an_admin_who_says_why(history: list[Step]) -> None:
    for now, before, request, answer in played(history):
        who = request.principal
        ended = before.in_force(now) and (answer.lease.epoch > before.epoch or answer.lease.kind is Kind.NONE)
        if ended and not may_renew(before, who):
            assert who.is_person
            assert (request.take and is_own(before, who)) or (who.is_admin and request.reason)


@given(histories)
def test_a_run_token_never_survives_its_tenure(history: list[Step]) -> None:
    for _, before, _, answer in played(history):
        after = answer.lease
        if not after.tenure_stands or after.epoch != before.epoch:
            assert after.run_token is None
        if not after.tenure_stands:
            assert after.acquired_under is None


@given(histories)
def test_a_verb_that_names_a_tenure_never_acquires(history: list[Step]) -> None:
    for _, before, request, answer in played(history):
        if request.if_epoch is not None and isinstance(answer, Granted) and answer.lease != before:
            assert not answer.acquired
            assert request.if_epoch == before.epoch


@given(histories)
def test_a_verb_that_forbids_reclaiming_never_acquires_what_is_not_in_force(history: list[Step]) -> None:
    for now, before, request, answer in played(history):
        if not request.reclaim and request.verb is not Verb.CLAIM and isinstance(answer, Granted):
            assert not answer.acquired
            assert before.in_force(now) or request.verb is Verb.RELEASE


@given(histories, st.builds(Standing, st.just(POLICY), st.none() | st.just("no"), st.booleans(), st.integers(0, 99)))
def test_what_may_not_acquire_is_decided_without_looking_at_the_standing(
    history: list[Step], standing: Standing
) -> None:
    for now, before, request, answer in played(history):
        if not request.may_acquire:
            assert decide(before, request, standing, now) == answer
        elif isinstance(answer, Granted) and answer.acquired:
            assert request.may_acquire


@given(histories)
def test_a_holder_can_always_take_up_its_own_reservation(history: list[Step]) -> None:
    game = History(replace(FREE, epoch=0, version=0), NOW, set())
    for step in history:
        game.take(step)
        lease = game.lease
        if lease.kind is Kind.RESERVATION:
            holder = next(who for who in WHO.values() if who.id == lease.holder and who.run is None)
            taken = decide(lease, on(Verb.CLAIM, holder, dispatch="a fresh one"), OPEN, game.now)
            assert isinstance(taken, Granted)
            assert taken.acquired


@given(histories)
def test_a_lapse_that_nobody_used_costs_its_tenure_nothing(history: list[Step]) -> None:
    game = History(replace(FREE, epoch=0, version=0), NOW, set())
    for step in history:
        game.take(step)
        lease = game.lease
        if lease.tenure_stands:
            assert lease.expires_at is not None
            holder = next(who for who in WHO.values() if who.id == lease.holder and who.run is None)
            late = Instant(lease.expires_at + 60 * MINUTE)
            resumed = decide(lease, on(Verb.RENEW, holder, if_epoch=lease.epoch), OPEN, late)
            assert isinstance(resumed, Granted)
            assert resumed.reclaimed
            assert resumed.lease.epoch == lease.epoch
            assert fence_broken(lease, Fence(NODE, lease.epoch), holder) is None


def test_what_a_run_acquired_is_its_and_no_other_run_s() -> None:
    run = agent("holder", ANNA, token="run-a", run=Fence(ELSEWHERE, 1))

    assert is_callers(replace(LIVE, acquired_under=run.token), run)
    assert not is_callers(LIVE, run)
    assert not is_callers(replace(LIVE, acquired_under=TokenHash("run-b")), run)


def test_a_run_that_would_end_a_rivals_lease_is_told_who_holds_it() -> None:
    run = agent("stranger", BEN, token="run-a", run=Fence(ELSEWHERE, 1))

    for verb, error in ((Verb.RELEASE, AlreadyClaimed), (Verb.RESERVE, LeaseLost)):
        answer = decide(LIVE, on(verb, run), OPEN, NOW)
        assert isinstance(answer, Refused)
        assert (answer.error, answer.names_holder) == (error, True)


def test_who_lost_a_lease_is_told_who_has_it_while_somebody_has() -> None:
    live = lost_to_another(LIVE, NOW)
    lapsed = lost_to_another(replace(LIVE, expires_at=NOW), NOW)

    assert live.holder is not None
    assert live.holder.by == LIVE.holder
    assert lapsed.holder is None


def test_taking_up_ones_own_reservation_costs_no_further_place() -> None:
    parked = replace(LIVE, kind=Kind.RESERVATION)

    assert granted(parked, on(Verb.CLAIM, HOLDER), replace(OPEN, live_claims=POLICY.max_claims)).acquired
