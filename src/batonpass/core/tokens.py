"""Tokens: the secret a caller shows, what is kept of it, and who may mint or end which (companion 6, D2a, D39).

    kind      minted for                         shown as    life: default, most      beyond
    personal  a person                           bat_pat_…   90 days, 365 days        refused
    standing  an agent, for a service            bat_agt_…   90 days, 365 days        refused
    session   an agent, for one session          bat_agt_…   24 hours, 7 days         cut
    run       an agent, for one tenure           bat_agt_…   7 days, 7 days           cut
    key       a name of its own (`core.keys`)    bat_key_…   365 days, 5 years        refused

A secret is 256 random bits. It is shown once, to whoever minted it; what is
kept is its SHA-256, and the first digits of that name the token in lists.
A run token needs no shorter life: it dies with its tenure.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, NoReturn

from batonpass.core.clock import micros
from batonpass.core.durations import parse_moment
from batonpass.core.errors import Conflict, Forbidden, Invalid, LeaseLost
from batonpass.core.fences import not_theirs
from batonpass.core.identity import Agent, Principal
from batonpass.core.ids import AgentId, Fence, Instant, PersonId, TokenHash, json_type, shown
from batonpass.core.leases import Lease, LockedLease, Refused
from batonpass.core.records import is_of_record

SECRET_BYTES: Final = 32
PREFIX_HEX_MIN: Final = 8
PREFIX_HEX_SHOWN: Final = 12
"""48 bits: that two live tokens of one owner share them is not to be expected, and refused where it matters."""
LIFE_MIN: Final = timedelta(seconds=1)
"""Less is a forgotten unit: ``"expires": 90`` is 90 milliseconds."""

_SECRET: Final = re.compile(r"bat_(?:pat|agt|key)_[A-Za-z0-9_-]{43}", re.ASCII)
_HASH_PREFIX: Final = re.compile(rf"[0-9a-f]{{{PREFIX_HEX_MIN},64}}", re.ASCII)


class Secret:
    """The text of a token. It shows itself to nobody who does not ask with `reveal`: no log, message or pickle."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text: for the reply to whoever minted it, and for the header that carries it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not copied into anything that is stored")


class Kind(StrEnum):
    """What a token was minted for."""

    PERSONAL = "personal"
    STANDING = "standing"
    SESSION = "session"
    RUN = "run"
    KEY = "key"


class Scope(StrEnum):
    """What a token allows; a reading one is refused at every write (D40)."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Life:
    """How long tokens of a kind live. `cut`: what is asked beyond `most` is shortened to it, else refused."""

    default: timedelta
    most: timedelta
    cut: bool


LIVES: Final = {
    Kind.PERSONAL: Life(timedelta(days=90), timedelta(days=365), cut=False),
    Kind.STANDING: Life(timedelta(days=90), timedelta(days=365), cut=False),
    Kind.SESSION: Life(timedelta(hours=24), timedelta(days=7), cut=True),
    Kind.RUN: Life(timedelta(days=7), timedelta(days=7), cut=True),
    Kind.KEY: Life(timedelta(days=365), timedelta(days=5 * 365), cut=False),
}
_MARKS: Final = {Kind.PERSONAL: "pat", Kind.KEY: "key"}
"""What a secret shows of its kind; those of agents all show ``agt``."""


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token. `run` is the tenure a run token was minted for."""

    hash: TokenHash
    kind: Kind
    person: PersonId
    agent: AgentId | None
    session: str | None
    run: Fence | None
    scope: Scope
    label: str | None
    created_at: Instant
    expires_at: Instant
    revoked_at: Instant | None = None

    @property
    def hash_prefix(self) -> str:
        """What names the token in lists, and is enough to revoke it."""
        return self.hash[:PREFIX_HEX_SHOWN]

    def valid(self, now: Instant) -> bool:
        """Whether the token still opens anything at `now`."""
        return self.revoked_at is None and now < self.expires_at


def secret_of(kind: Kind, randomness: bytes) -> Secret:
    """Return a secret of `kind` made of `SECRET_BYTES` of somebody's randomness."""
    assert len(randomness) == SECRET_BYTES, len(randomness)
    return Secret(f"bat_{_MARKS.get(kind, 'agt')}_{base64.urlsafe_b64encode(randomness).decode().rstrip('=')}")


def well_formed(secret: Secret) -> bool:
    """Whether `secret` looks like one of ours at all."""
    return _SECRET.fullmatch(secret.reveal()) is not None


def is_of_key(secret: Secret) -> bool:
    """Whether `secret` says that it is an API key's, which are kept in a table of their own."""
    return secret.reveal().startswith(f"bat_{_MARKS[Kind.KEY]}_")


def hash_of(secret: Secret) -> TokenHash:
    """Return what is kept of `secret`. Nothing slower than SHA-256 is needed: there is nothing to guess in 256 bits."""
    return TokenHash(hashlib.sha256(secret.reveal().encode(errors="surrogatepass")).hexdigest())


def parse_hash_prefix(text: object) -> str:
    """Return `text` as the beginning of a token's hash: 8 to 64 lower-case hex digits."""
    if not isinstance(text, str) or not _HASH_PREFIX.fullmatch(text):
        what = shown(text) if isinstance(text, str) else json_type(text)
        raise Invalid(f"prefix: {what} is not {PREFIX_HEX_MIN} to 64 lower-case hex digits", field="prefix")
    return text


def expiry_of(kind: Kind, asked: object, now: Instant) -> tuple[Instant, bool]:
    """Return when a token of `kind` minted now ends, and whether its greatest life cut what was asked.

    Raises `Invalid` for what is no moment, is past, or is beyond a limit that does not cut.
    """
    life = LIVES[kind]
    if asked is None:
        return Instant(now + micros(life.default)), False
    asked_for = parse_moment(asked, now=now, field="expires")
    if asked_for < now + micros(LIFE_MIN):
        raise Invalid(
            f"expires: {shown(str(asked))} is over in less than {LIFE_MIN.seconds} second;"
            " a number alone is milliseconds, so write 12h or 90d",
            field="expires",
        )
    latest = Instant(now + micros(life.most))
    if asked_for <= latest:
        return asked_for, False
    if not life.cut:
        what = "an API key" if kind is Kind.KEY else f"a {kind} token"
        raise Invalid(
            f"expires: {shown(str(asked))} is too long; {what} lives at most {life.most.days} days",
            field="expires",
        )
    return latest, True


def kind_asked(*, standing: bool, session: str | None, lease: Fence | None, replace: bool) -> Kind:
    """Return the kind of agent's token that a request describes; `Invalid` when its parts contradict each other."""
    if standing and session is not None:
        raise Invalid(
            "standing: a standing token serves many sessions and is bound to none; leave one out", field="standing"
        )
    if standing and lease is not None:
        raise Invalid(
            "standing: a token for one lease ends with it and does not stand; leave one out", field="standing"
        )
    if replace and lease is None:
        raise Invalid("replace: only a lease's run token is replaced; name the lease", field="replace")
    if lease is not None:
        return Kind.RUN
    return Kind.STANDING if standing else Kind.SESSION


def bind_refusal(token: Token, session: str) -> Conflict | Forbidden | Invalid | None:
    """Return why `token` may not carry `session` from now on, or None. A session is written once (companion 6.2).

    A standing token is refused as the mint refuses it with a session: it is
    shared by many, and the first would put its name on the others' work.
    """
    if token.agent is None:
        return Forbidden("only an agent's own token is bound to a session; this one is a person's")
    if token.kind is Kind.STANDING:
        return Invalid(
            "session: a standing token serves many sessions and is bound to none; mint one for this session",
            field="session",
        )
    if token.session not in (None, session):
        return Conflict(f"this token is bound to session {token.session} already, and stays so; mint another")
    return None


# --- who may ---------------------------------------------------------------------------------------------------------


def require_minter(principal: Principal) -> None:
    """Raise `Forbidden` under a run token: it mints and revokes nothing (D2a)."""
    if principal.run is not None:
        raise Forbidden("a run's token mints and revokes no tokens; that is for whoever started the run")


def may_manage(agent: Agent, principal: Principal) -> bool:
    """Whether `principal` may mint, list and end all tokens of `agent`: its owner, or an admin."""
    return principal.is_person and (principal.person == agent.owner or principal.is_admin)


def may_manage_runs(agent: Agent, principal: Principal) -> bool:
    """Whether `principal` may do so with run tokens of `agent`: also the agent itself, unless under one (D2a, D20a)."""
    return may_manage(agent, principal) or (principal.id == agent.id and principal.run is None)


@dataclass(frozen=True, slots=True)
class RunMint:
    """A wish for the one run token of the tenure `fence`.

    `token` is the hash it will have. `replace` ends the one there may be.
    `repeats` is the token that this very request minted before (D11).
    """

    fence: Fence
    token: TokenHash
    replace: bool = False
    repeats: TokenHash | None = None


@dataclass(frozen=True, slots=True)
class RunMinted:
    """The run token may be minted. `lease` is the row to write, `ends` the token whose place it takes.

    Its version stays: a fence by version pins what was claimed and renewed (D33), and neither has moved.
    """

    lease: LockedLease
    ends: TokenHash | None


def decide_run_mint(lease: LockedLease, mint: RunMint, principal: Principal, now: Instant) -> RunMinted | Refused:
    """Say whether `principal` may have the run token of this tenure (D2a, H9, H32): lease in force, epoch current."""
    standing = lease.anchored(now)
    assert isinstance(standing, LockedLease), standing
    if is_of_record(standing.resource) and not _may_hand_over(standing, principal):
        # Alike whatever is wrong: who has it is for those whom its class lets read it.
        return Refused(standing, LeaseLost, f"{not_theirs(mint.fence, principal)}; no token was minted")
    if not (standing.in_force(now) and standing.tenure_stands and standing.epoch == mint.fence.epoch):
        return _no_such_tenure(standing, mint.fence, now)
    if not _may_hand_over(standing, principal):
        return Refused(
            standing,
            Forbidden,
            f"{principal.id} may not mint a token for the lease of {standing.holder} on {standing.resource};"
            " its holder, that agent's owner and admins may",
        )
    named = standing.run_token
    if named is not None and named != mint.repeats and not mint.replace:
        return Refused(
            standing,
            Conflict,
            f"{standing.resource} at epoch {standing.epoch} has its run token ({named[:PREFIX_HEX_SHOWN]}) already;"
            ' send "replace": true to end that one',
        )
    return RunMinted(replace(standing, run_token=mint.token), ends=named)


def without_run_token(lease: LockedLease, token: TokenHash) -> LockedLease | None:
    """Return the row to write so that `token` is its run token no more, or None when it is not."""
    if lease.run_token != token:
        return None
    return replace(lease, run_token=None)


def _may_hand_over(lease: Lease, principal: Principal) -> bool:
    """Whether `principal` is the holder, the person behind the holding agent, or an admin.

    That it is an agent of the person who holds the lease gives no right (D1, H22).
    """
    owns = principal.is_person and lease.owner is not None and lease.owner == principal.person
    return lease.holder == principal.id or owns or (principal.is_person and principal.is_admin)


def _no_such_tenure(lease: LockedLease, fence: Fence, now: Instant) -> Refused:
    if lease.epoch != fence.epoch:
        why = f"{fence.resource} is at epoch {lease.epoch}, not {fence.epoch}"
    elif lease.tenure_stands:
        why = f"the lease on {fence.resource} at epoch {fence.epoch} has lapsed; renew it with if_epoch first"
    else:
        why = f"the tenure of {fence.resource} at epoch {fence.epoch} has ended"
    return Refused(lease, LeaseLost, f"{why}; no token was minted", names_holder=lease.in_force(now))
