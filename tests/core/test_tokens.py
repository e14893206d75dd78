from __future__ import annotations

import copy
import hashlib
import pickle
from dataclasses import replace
from datetime import timedelta

import pytest

from batonpass.core import tokens
from batonpass.core.clock import micros
from batonpass.core.errors import Conflict, Forbidden, Invalid, LeaseLost
from batonpass.core.identity import Agent, Principal
from batonpass.core.identity import Kind as PrincipalKind
from batonpass.core.ids import AgentId, Fence, HolderId, Instant, PersonId, Resource, TokenHash
from batonpass.core.leases import Kind as LeaseKind
from batonpass.core.leases import LockedLease, Refused
from batonpass.core.tokens import Kind, RunMint, RunMinted, Scope, Secret, Token

NOW = Instant(1_780_000_000_000_000)
MINUTE = micros(timedelta(minutes=1))
NODE = Resource("task-1")
ADA, BOB = PersonId(HolderId("person-ada")), PersonId(HolderId("person-bob"))
ADAS, BOBS = AgentId(HolderId("agent-adas")), AgentId(HolderId("agent-bobs"))
NEW, OLD = TokenHash("a" * 64), TokenHash("b" * 64)


def person(who: PersonId, *, is_admin: bool = False) -> Principal:
    return Principal(who, PrincipalKind.PERSON, "P", TokenHash("p" * 64), person=who, is_admin=is_admin)


def agent(who: AgentId, owner: PersonId, *, run: Fence | None = None, session: str | None = None) -> Principal:
    return Principal(who, PrincipalKind.AGENT, "A", TokenHash("e" * 64), person=owner, run=run, session=session)


def held(by: HolderId, owner: PersonId | None, *, epoch: int = 5, run_token: TokenHash | None = None) -> LockedLease:
    return LockedLease(
        resource=NODE,
        kind=LeaseKind.CLAIM,
        holder=by,
        holder_name="A",
        owner=owner,
        session=None,
        dispatch=None,
        epoch=epoch,
        version=9,
        claimed_at=Instant(NOW - MINUTE),
        granted_at=Instant(NOW - MINUTE),
        expires_at=Instant(NOW + MINUTE),
        lapses=0,
        run_token=run_token,
        acquired_under=None,
        taken_from=None,
        provisional=False,
    )


def mint(
    lease: LockedLease, by: Principal, *, epoch: int = 5, replaces: bool = False, repeats: TokenHash | None = None
) -> RunMinted | Refused:
    wanted = RunMint(Fence(NODE, epoch), NEW, replace=replaces, repeats=repeats)
    return tokens.decide_run_mint(lease, wanted, by, NOW)


# Secrets


def test_a_secret_carries_256_bits_and_says_whose_kind_it_is() -> None:
    personal = tokens.secret_of(Kind.PERSONAL, bytes(range(32)))
    standing = tokens.secret_of(Kind.STANDING, b"\xff" * 32)

    assert personal.reveal() == "bat_pat_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
    assert standing.reveal() == "bat_agt_" + "_" * 42 + "8"
    assert tokens.well_formed(personal)
    assert tokens.well_formed(standing)


def test_a_secret_of_too_little_randomness_cannot_be_made() -> None:
    with pytest.raises(AssertionError):
        tokens.secret_of(Kind.RUN, b"short")


@pytest.mark.parametrize("text", ["", "bat_pat_", "bat_pat_" + "x" * 42, "bat_kex_" + "x" * 43, "bat_pat_" + "é" * 43])
def test_what_is_not_of_our_form_is_no_secret(text: str) -> None:
    assert not tokens.well_formed(Secret(text))


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret("bat_pat_visible")

    shown = [repr(secret), str(secret), f"{secret}", f"{[secret]}", "%s" % secret, repr({"token": secret})]  # noqa: UP031

    assert [text for text in shown if "visible" in text] == []
    with pytest.raises(TypeError, match="not copied"):
        pickle.dumps(secret)
    with pytest.raises(TypeError, match="not copied"):
        copy.copy(secret)


def test_secrets_are_equal_by_their_text() -> None:
    assert {Secret("a"), Secret("a")} == {Secret("a")}
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


def test_the_hash_is_sha_256_whatever_the_text() -> None:
    assert tokens.hash_of(Secret("bat_pat_x")) == hashlib.sha256(b"bat_pat_x").hexdigest()
    assert len(tokens.hash_of(Secret("\ud800"))) == 64


@pytest.mark.parametrize("prefix", ["0123abcd", "f" * 64])
def test_a_prefix_is_8_to_64_hex_digits(prefix: str) -> None:
    assert tokens.parse_hash_prefix(prefix) == prefix


@pytest.mark.parametrize("prefix", ["0123abc", "f" * 65, "0123ABCD", "0123abcg", "", None, 12345678, "0123abcd\n"])
def test_any_other_prefix_is_refused(prefix: object) -> None:
    with pytest.raises(Invalid, match=r"prefix: .* is not 8 to 64 lower-case hex digits"):
        tokens.parse_hash_prefix(prefix)


# Lives


@pytest.mark.parametrize("kind, days", [(Kind.PERSONAL, 90), (Kind.STANDING, 90), (Kind.SESSION, 1), (Kind.RUN, 7)])
def test_each_kind_has_its_own_life(kind: Kind, days: int) -> None:
    assert tokens.expiry_of(kind, None, NOW) == (NOW + micros(timedelta(days=days)), False)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_shorter_life_may_be_asked_of_every_kind(kind: Kind) -> None:
    assert tokens.expiry_of(kind, "90s", NOW) == (NOW + 90_000_000, False)


@pytest.mark.parametrize("kind", [Kind.SESSION, Kind.RUN])
def test_beyond_seven_days_a_session_or_run_is_cut(kind: Kind) -> None:
    week = NOW + micros(timedelta(days=7))

    assert tokens.expiry_of(kind, "7d", NOW) == (week, False)
    assert tokens.expiry_of(kind, "168.1h", NOW) == (week, True)


@pytest.mark.parametrize("kind", [Kind.PERSONAL, Kind.STANDING])
def test_beyond_a_year_a_person_or_service_is_refused(kind: Kind) -> None:
    assert tokens.expiry_of(kind, "365d", NOW) == (NOW + micros(timedelta(days=365)), False)
    with pytest.raises(Invalid, match=f"expires: .*a {kind} token lives at most 365 days"):
        tokens.expiry_of(kind, "365.1d", NOW)


@pytest.mark.parametrize("asked", [90, "0", "999ms", "2020-01-01"])
def test_a_life_that_is_over_at_once_is_refused_and_the_unit_named(asked: object) -> None:
    with pytest.raises(Invalid, match=r"expires: .* a number alone is milliseconds"):
        tokens.expiry_of(Kind.SESSION, asked, NOW)


def token(kind: Kind = Kind.SESSION, *, session: str | None = None) -> Token:
    return Token(
        hash=NEW,
        kind=kind,
        person=ADA,
        agent=None if kind is Kind.PERSONAL else ADAS,
        session=session,
        run=None,
        scope=Scope.WRITE,
        label=None,
        created_at=NOW,
        expires_at=Instant(NOW + MINUTE),
    )


def test_a_token_is_valid_until_it_ends_or_is_revoked() -> None:
    assert token().valid(Instant(NOW + MINUTE - 1))
    assert not token().valid(Instant(NOW + MINUTE))
    assert not replace(token(), revoked_at=NOW).valid(NOW)
    assert token().hash_prefix == "a" * 12


# What a request describes


LEASE = Fence(NODE, 1)


@pytest.mark.parametrize("session", [None, "s1"])
def test_the_parts_of_a_request_say_its_kind(session: str | None) -> None:
    asked = tokens.kind_asked

    assert asked(standing=False, session=session, lease=None, replace=False) is Kind.SESSION
    assert asked(standing=False, session=session, lease=LEASE, replace=False) is Kind.RUN
    assert asked(standing=False, session=session, lease=LEASE, replace=True) is Kind.RUN
    assert asked(standing=True, session=None, lease=None, replace=False) is Kind.STANDING


def test_parts_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Invalid, match=r"^standing: .* bound to none"):
        tokens.kind_asked(standing=True, session="s1", lease=None, replace=False)
    with pytest.raises(Invalid, match=r"^standing: .* ends with it"):
        tokens.kind_asked(standing=True, session=None, lease=LEASE, replace=False)
    with pytest.raises(Invalid, match=r"^replace: .* name the lease"):
        tokens.kind_asked(standing=False, session=None, lease=None, replace=True)


# Sessions


def test_a_session_is_written_once() -> None:
    assert tokens.bind_refusal(token(), "s1") is None
    assert tokens.bind_refusal(token(session="s1"), "s1") is None
    assert type(tokens.bind_refusal(token(session="s1"), "s2")) is Conflict
    assert tokens.bind_refusal(token(Kind.RUN), "s1") is None


def test_only_a_token_of_one_session_can_carry_one() -> None:
    assert type(tokens.bind_refusal(token(Kind.STANDING), "s1")) is Invalid
    assert type(tokens.bind_refusal(token(Kind.PERSONAL), "s1")) is Forbidden


# Who may see to an agent's tokens

AGENT = Agent(ADAS, ADA, "Ada's", None, NOW)


@pytest.mark.parametrize(
    "who, every_kind, runs",
    [
        (person(ADA), True, True),
        (person(BOB, is_admin=True), True, True),
        (person(BOB), False, False),
        (agent(ADAS, ADA), False, True),
        (agent(ADAS, ADA, session="s1"), False, True),
        (agent(ADAS, ADA, run=Fence(NODE, 5)), False, False),
        (agent(AgentId(HolderId("agent-sibling")), ADA), False, False),
        (agent(BOBS, BOB), False, False),
    ],
)
def test_who_may_manage_an_agents_tokens(
    who: Principal,
    every_kind: bool,  # noqa: FBT001 — a column of the table
    runs: bool,  # noqa: FBT001 — a column of the table
) -> None:
    assert (tokens.may_manage(AGENT, who), tokens.may_manage_runs(AGENT, who)) == (every_kind, runs)


def test_a_run_mints_and_revokes_nothing() -> None:
    tokens.require_minter(agent(ADAS, ADA))
    with pytest.raises(Forbidden):
        tokens.require_minter(agent(ADAS, ADA, run=Fence(NODE, 5)))


# Run tokens (D2a)


@pytest.mark.parametrize(
    "lease, by",
    [
        pytest.param(held(ADAS, ADA), agent(ADAS, ADA), id="the holding agent"),
        pytest.param(held(ADAS, ADA), person(ADA), id="the person who owns the holder"),
        pytest.param(held(ADA, ADA), person(ADA), id="the person who holds"),
        pytest.param(held(ADAS, ADA), person(BOB, is_admin=True), id="an admin"),
    ],
)
def test_who_holds_or_owns_the_lease_gets_its_run_token(lease: LockedLease, by: Principal) -> None:
    assert mint(lease, by) == RunMinted(replace(lease, run_token=NEW), ends=None)


@pytest.mark.parametrize(
    "lease, by",
    [
        pytest.param(held(ADAS, ADA), person(BOB), id="another person"),
        pytest.param(held(ADAS, ADA), agent(BOBS, BOB), id="another's agent"),
        pytest.param(held(ADA, ADA), agent(ADAS, ADA), id="an agent of the person who holds (H22)"),
        pytest.param(held(ADA, ADA), agent(ADAS, ADA, session="s1"), id="the same with a session (H22)"),
        pytest.param(held(ADAS, ADA), agent(AgentId(HolderId("agent-sibling")), ADA), id="a sibling agent"),
        pytest.param(held(HolderId("apikey:ci"), None), person(ADA), id="a person, of a key's lease"),
    ],
)
def test_nobody_else_gets_it(lease: LockedLease, by: Principal) -> None:
    refusal = mint(lease, by)

    assert isinstance(refusal, Refused)
    assert refusal.error is Forbidden
    assert refusal.lease == lease


def test_a_tenure_has_one_run_token() -> None:
    refusal = mint(held(ADAS, ADA, run_token=OLD), agent(ADAS, ADA))

    assert isinstance(refusal, Refused)
    assert refusal.error is Conflict
    assert '"replace": true' in refusal.message
    assert OLD[:12] in refusal.message


def test_replacing_or_repeating_ends_the_first() -> None:
    lease = held(ADAS, ADA, run_token=OLD)
    minted = RunMinted(replace(lease, run_token=NEW), ends=OLD)

    assert mint(lease, agent(ADAS, ADA), replaces=True) == minted
    assert mint(lease, agent(ADAS, ADA), repeats=OLD) == minted


def test_a_repetition_does_not_end_what_another_request_has_minted_since() -> None:
    assert isinstance(mint(held(ADAS, ADA, run_token=OLD), agent(ADAS, ADA), repeats=TokenHash("c" * 64)), Refused)


@pytest.mark.parametrize("epoch", [4, 6])
def test_no_token_is_minted_for_an_earlier_or_a_coming_tenure(epoch: int) -> None:
    refusal = mint(held(ADAS, ADA), agent(ADAS, ADA), epoch=epoch)

    assert isinstance(refusal, Refused)
    assert refusal.error is LeaseLost
    assert f"at epoch 5, not {epoch}" in refusal.message
    assert refusal.names_holder


def test_no_token_is_minted_for_a_lapsed_lease() -> None:
    lease = replace(held(ADAS, ADA), expires_at=NOW)
    refusal = mint(lease, agent(ADAS, ADA))

    assert isinstance(refusal, Refused)
    assert refusal.error is LeaseLost
    assert "has lapsed" in refusal.message
    assert not refusal.names_holder


@pytest.mark.parametrize(
    "lease",
    [
        replace(held(ADAS, ADA), kind=LeaseKind.RESERVATION),
        replace(held(ADAS, ADA), kind=LeaseKind.NONE, holder=None, owner=None, expires_at=None, granted_at=None),
    ],
)
def test_no_token_is_minted_for_a_tenure_that_has_ended(lease: LockedLease) -> None:
    refusal = mint(lease, agent(ADAS, ADA))

    assert isinstance(refusal, Refused)
    assert refusal.error is LeaseLost
    assert "has ended" in refusal.message


def test_a_clock_set_back_does_not_end_the_tenure_and_the_row_is_moved_with_it() -> None:
    hour = micros(timedelta(hours=1))
    ahead = held(ADAS, ADA)
    lease = replace(ahead, granted_at=Instant(NOW + hour), expires_at=Instant(NOW + hour + MINUTE))

    minted = mint(lease, agent(ADAS, ADA))

    assert isinstance(minted, RunMinted)
    assert (minted.lease.granted_at, minted.lease.expires_at) == (NOW, NOW + MINUTE)


def test_a_lease_forgets_its_run_token_and_no_other() -> None:
    lease = held(ADAS, ADA, run_token=OLD)

    assert tokens.without_run_token(lease, OLD) == replace(lease, run_token=None)
    assert tokens.without_run_token(lease, NEW) is None
