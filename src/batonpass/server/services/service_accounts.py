"""From a JSON Web Token to a service account: the signature, the issuer and the audience, by PyJWT.

What is configured decides how a token is checked. Of its header only `kid` is
followed, and only to a name in the configured key set: a key in it (`jwk`), an
address of one (`jku`, `x5u`, `x5c`), an extension that has to be understood
(`crit`) and an algorithm that is not the named key's change nothing, or have
the token refused. PyJWT is imported where a server has an issuer to believe.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from batonpass.core.errors import Invalid
from batonpass.core.ids import Instant
from batonpass.core.service_accounts import REQUIRED, Distrusted, Trust, Vouched, decide_trust
from batonpass.server.jwks import JwksError, KeySet, source_of

log = logging.getLogger(__name__)

SETTING_CHARS_MAX: Final = 1000


class ServiceAccounts:
    """The one issuer that is believed, and its keys."""

    def __init__(self, trust: Trust, keys: KeySet) -> None:
        self._trust = trust
        self._keys = keys

    async def prepare(self) -> str | None:
        """Read the keys before the first token comes, and return why they cannot be had, None when they are there.

        Raises `Invalid` when they are a file's: that will not come right by itself.
        """
        try:
            await self._keys.load()
        except JwksError as error:
            why = f"{self._keys.source.shown}: {error}"
            if self._keys.source.is_file:
                raise Invalid(f"jwt-jwks: {why}", field="jwt-jwks") from error
            return why
        return None

    async def vouched(self, text: str, now: Callable[[], Awaitable[Instant]]) -> Vouched | None:
        """Return whose token `text` is, None when it is not to be believed. `now` is asked once the signature is good.

        Why not is for the log, in words that hold nothing of the token.
        """
        signed = await self._signed(text)
        decided = signed if isinstance(signed, Distrusted) else decide_trust(signed, await now())
        if isinstance(decided, Distrusted):
            log.info("service_account.refused", extra={"why": decided.why})
            return None
        return decided

    async def _signed(self, text: str) -> Mapping[str, object] | Distrusted:
        """Return the claims of a token of the issuer's that is meant for us."""
        import jwt

        try:
            header = jwt.get_unverified_header(text)
        except (jwt.PyJWTError, ValueError, RecursionError):
            return Distrusted("header: cannot be read")
        kid, alg = header.get("kid"), header.get("alg")
        if "crit" in header or "b64" in header:
            return Distrusted("crit: asks for an extension")
        if not isinstance(kid, str) or not isinstance(alg, str):
            return Distrusted("kid, alg: missing")
        key = await self._keys.find(kid)
        if key is None:
            return Distrusted("kid: names no key of the issuer's")
        if alg not in key.algorithms:
            return Distrusted("alg: is not one that this key signs with")
        try:
            return jwt.decode(
                text,
                key.key.key,
                algorithms=key.algorithms,
                issuer=self._trust.issuer,
                audience=self._trust.audience,
                options={
                    "require": list(REQUIRED),
                    "enforce_minimum_key_length": True,
                    # By the database's clock, not the process's; see `core.service_accounts`.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except (jwt.PyJWTError, ValueError, RecursionError) as error:
            return Distrusted(type(error).__name__)


def believed(issuer: str | None, audience: str | None, jwks: str | None) -> ServiceAccounts | None:
    """Return who is believed by these settings, None without any; `Invalid` when one of the three is missing or odd."""
    given = {"jwt-issuer": issuer, "jwt-audience": audience, "jwt-jwks": jwks}
    if not any(given.values()):
        return None
    for name, value in given.items():
        if not value:
            raise Invalid(f"{name}: missing; service accounts need an issuer, an audience and its keys", field=name)
        if len(value) > SETTING_CHARS_MAX or not value.isprintable():
            raise Invalid(f"{name}: takes at most {SETTING_CHARS_MAX} printable characters", field=name)
    return ServiceAccounts(Trust(issuer or "", audience or ""), KeySet(source_of(jwks or "")))
