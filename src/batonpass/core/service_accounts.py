"""Service accounts: who a workload is by the JSON Web Token that its platform gave it (D1, D35).

A token is believed when a key of the configured issuer signed it, it is meant
for this server, and its times hold by the database's clock. Who asks is then
its subject, in the form that Kubernetes gives it:

    system:serviceaccount:<namespace>:<name>  ─▶  sa:<namespace>/<name>

Nothing in the token chooses how it is checked: algorithms stand in a list here,
keys come from the configured set alone, by `kid`. Signature, issuer and audience
are the library's to check (`server.services.service_accounts`); times and
subject are decided here. All pods of one service account are one holder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from batonpass.core.clock import MICROS_PER_S, micros
from batonpass.core.identity import SERVICE_PREFIX
from batonpass.core.ids import HolderId, Instant

TOKEN_CHARS_MAX: Final = 8192
"""A longer one is refused before anything of it is read; those of Kubernetes have about 1200 characters."""
LEEWAY: Final = timedelta(seconds=10)
"""How far the issuer's clock may be from the database's."""
REQUIRED: Final = ("exp", "iss", "aud", "sub")
"""Claims without which a token says too little."""
TIME_S_MAX: Final = 253_402_300_799
"""The end of the year 9999."""

ALGORITHMS: Final[Mapping[tuple[str, str | None], tuple[str, ...]]] = {
    ("RSA", None): ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
"""What keys of each type and curve may sign with: asymmetric algorithms, and nothing else is ever tried."""

_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+", re.ASCII)
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SUBJECT: Final = re.compile(
    rf"system:serviceaccount:(?P<namespace>{_LABEL}):(?P<name>(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose tokens are believed, and for whom they have to be meant."""

    issuer: str
    audience: str


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """An account of a workload in a namespace of its platform."""

    namespace: str
    name: str

    @property
    def identity(self) -> HolderId:
        """Who holds what the account claims."""
        return HolderId(f"{SERVICE_PREFIX}{self.namespace}/{self.name}")


@dataclass(frozen=True, slots=True)
class Vouched:
    """A token that holds: whose it is, and for how many microseconds more it will be believed."""

    account: ServiceAccount
    left: int


@dataclass(frozen=True, slots=True)
class Distrusted:
    """A token that does not hold. `why` is for the server's log, never for the caller."""

    why: str


def is_jwt(text: str) -> bool:
    """Whether `text` has the form of a signed JSON Web Token that is short enough to be read."""
    return len(text) <= TOKEN_CHARS_MAX and _JWT.fullmatch(text) is not None


def parse_subject(subject: object) -> ServiceAccount | None:
    """Return the account that a subject names, None for a subject of any other form."""
    found = _SUBJECT.fullmatch(subject) if isinstance(subject, str) else None
    return ServiceAccount(found["namespace"], found["name"]) if found is not None else None


def decide_trust(claims: Mapping[str, object], now: Instant) -> Vouched | Distrusted:
    """Say whose a token is whose signature, issuer and audience have been found good, if its times hold at `now`.

    `exp` is required; `nbf` and `iat` count where they stand. A time that is no number counts as broken.
    """
    account = parse_subject(claims.get("sub"))
    if account is None:
        return Distrusted("sub: is no service account's")
    if (ends := _moment(claims.get("exp"))) is None:
        return Distrusted("exp: is no time")
    left = ends + micros(LEEWAY) - now
    if left <= 0:
        return Distrusted("exp: has passed")
    for name in ("nbf", "iat"):
        if name not in claims:
            continue
        if (begins := _moment(claims[name])) is None:
            return Distrusted(f"{name}: is no time")
        if begins - micros(LEEWAY) > now:
            return Distrusted(f"{name}: is yet to come")
    return Vouched(account, left)


def _moment(seconds: object) -> int | None:
    """Return a NumericDate in microseconds, None when it is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    if not 0 <= seconds <= TIME_S_MAX:  # neither is what is no number at all
        return None
    return int(seconds * MICROS_PER_S)
