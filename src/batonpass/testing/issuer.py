"""An issuer of service accounts' tokens, with keys of its own: what a platform is to a server, for tests.

issuer = Issuer()
accounts = issuer.believed()                       # for `in_process_server(url, accounts=…)`
token = issuer.token("prod", "remediator", at=clock.moment())
issuer.rotate("second")                            # from here on it signs with a new key
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from jwt.algorithms import get_default_algorithms

from batonpass.core.clock import MICROS_PER_S
from batonpass.core.service_accounts import Trust
from batonpass.server.jwks import KeySet, Source
from batonpass.server.services.service_accounts import ServiceAccounts

ISSUER: Final = "https://issuer.example"
AUDIENCE: Final = "batonpass"
LIFE_S: Final = 600
RSA_BITS: Final = 2048

MAKERS: Final[Mapping[str, Callable[[], PrivateKeyTypes]]] = {
    "RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ES384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A key of the issuer's: its name, the algorithm it signs with, and its private half."""

    kid: str
    alg: str
    private: Any
    """One of cryptography's private keys, as PyJWT takes them."""

    @staticmethod
    def made(kid: str, alg: str = "ES256") -> KeyPair:
        """Return a new key."""
        return KeyPair(kid, alg, MAKERS[alg]())

    def jwk(self) -> dict[str, Any]:
        """Return its public half, as key sets have it."""
        public = get_default_algorithms()[self.alg].to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "alg": self.alg, "use": "sig"}


@dataclass(slots=True)
class Issuer:
    """Signs tokens, and publishes its keys. `reads` counts how often somebody has read them."""

    key: KeyPair = field(default_factory=lambda: KeyPair.made("first"))
    published: list[dict[str, Any]] = field(default_factory=list)
    reads: int = 0

    def __post_init__(self) -> None:
        self.published = self.published or [self.key.jwk()]

    def rotate(self, kid: str, *, keep: bool = True) -> None:
        """Sign with a new key from now on; without `keep` the ones before are withdrawn."""
        self.key = KeyPair.made(kid)
        self.published = [*(self.published if keep else ()), self.key.jwk()]

    def read(self) -> bytes:
        """Return the key set as it is published."""
        self.reads += 1
        return json.dumps({"keys": self.published}).encode()

    def believed(self, *, monotonic_s: Callable[[], float] | None = None) -> ServiceAccounts:
        """Return what a server that believes this issuer is made with."""
        source = Source("the test's issuer", self.read)
        keys = KeySet(source) if monotonic_s is None else KeySet(source, monotonic_s=monotonic_s)
        return ServiceAccounts(Trust(ISSUER, AUDIENCE), keys)

    def claims(self, namespace: str, name: str, *, at: int, **changed: object) -> dict[str, object]:
        """Return good claims at a moment, in microseconds, with some `changed`, or left out where None is given."""
        now_s = at // MICROS_PER_S
        claims = {
            "iss": ISSUER,
            "aud": [AUDIENCE],
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "exp": now_s + LIFE_S,
            "nbf": now_s,
            "iat": now_s,
            **changed,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def token(self, namespace: str, name: str, *, at: int, **changed: object) -> str:
        """Return a token of an account, good from the moment `at`; see `claims`."""
        return self.signed(self.claims(namespace, name, at=at, **changed))

    def signed(self, claims: Mapping[str, object], *, key: KeyPair | None = None, **header: object) -> str:
        """Return a token of these claims, signed as usual unless `key` or parts of the header are others."""
        by = key or self.key
        return jwt.encode(dict(claims), by.private, algorithm=by.alg, headers={"kid": by.kid, **header})
