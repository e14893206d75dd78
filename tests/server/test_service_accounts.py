"""Service accounts over HTTP: whose JSON Web Tokens open something, and every way in which one does not (D1, D35)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import warnings
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any, Final

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from batonpass.core.service_accounts import LEEWAY, TOKEN_CHARS_MAX
from batonpass.server.services.principals import UNKNOWN
from batonpass.testing.clock import ManualClock
from batonpass.testing.doors import DOORS
from batonpass.testing.issuer import AUDIENCE, ISSUER, LIFE_S, MAKERS, Issuer, KeyPair
from batonpass.testing.populated import Populated, contents, serving
from batonpass.testing.scripted import ManualSeconds
from batonpass.testing.server import InProcessServer, in_process_server

pytestmark = pytest.mark.anyio

WHO: Final = ("prod", "remediator")
EXTENDED: Final[Mapping[str, Any]] = {"crit": ["urn:example:x"], "urn:example:x": True}
REMEMBERED_S: Final = 6
"""After so many seconds no token is remembered any more."""


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def server(
    issuer: Issuer, clock: ManualClock, seconds: ManualSeconds, sqlite_url: str
) -> AsyncIterator[InProcessServer]:
    """A server that believes the issuer. What is asked of the database here is the time."""
    accounts = issuer.believed(monotonic_s=seconds)
    async with in_process_server(sqlite_url, clock=clock, monotonic_s=seconds, accounts=accounts) as running:
        yield running


async def asked(server: InProcessServer, token: str) -> httpx.Response:
    return await server.send("GET", "/v1/me", token=token)


async def require_refused(server: InProcessServer, token: str, why: str = "") -> None:
    """Fail unless the token is refused as any unknown one is, and nothing of it is told."""
    answer = await asked(server, token)
    assert (answer.status_code, answer.headers.get("WWW-Authenticate")) == (401, "Bearer"), why
    assert answer.json() == {"error": {"code": "unauthorized", "message": UNKNOWN}}, why


async def identity(server: InProcessServer, token: str) -> str:
    return str((await server.ask("GET", "/v1/me", token=token))["identity"])


# Who is let in


async def test_an_account_is_told_who_it_is(database_url: str, issuer: Issuer, clock: ManualClock) -> None:
    async with in_process_server(database_url, clock=clock, accounts=issuer.believed()) as server:
        assert await server.ask("GET", "/v1/me", token=issuer.token(*WHO, at=clock.moment())) == {
            "person": None,
            "name": "prod/remediator",
            "email": "",
            "bound": False,
            "is_admin": False,
            "org": "org-root",
            "scope": "write",
            "identity": "sa:prod/remediator",
        }


@pytest.mark.parametrize("alg", MAKERS)
async def test_keys_of_each_type_sign(server: InProcessServer, issuer: Issuer, clock: ManualClock, alg: str) -> None:
    issuer.key = KeyPair.made("of-a-type", alg)
    issuer.published = [issuer.key.jwk()]
    assert await identity(server, issuer.token(*WHO, at=clock.moment())) == "sa:prod/remediator"


async def test_a_key_that_does_not_say_its_algorithm_signs_with_those_of_its_type(
    server: InProcessServer, issuer: Issuer, clock: ManualClock
) -> None:
    key = KeyPair.made("rsa", "RS256")
    issuer.published = [{name: value for name, value in key.jwk().items() if name not in {"alg", "use"}}]
    claims = issuer.claims(*WHO, at=clock.moment())

    for alg in ("RS256", "PS384"):
        token = jwt.encode(claims, key.private, algorithm=alg, headers={"kid": "rsa"})
        assert await identity(server, token) == "sa:prod/remediator", alg


async def test_a_key_that_says_its_algorithm_signs_with_no_other(
    server: InProcessServer, issuer: Issuer, clock: ManualClock
) -> None:
    key = KeyPair.made("rsa", "RS256")
    issuer.published = [key.jwk()]
    token = jwt.encode(issuer.claims(*WHO, at=clock.moment()), key.private, algorithm="PS256", headers={"kid": "rsa"})
    await require_refused(server, token)


async def test_a_short_rsa_key_is_of_no_use(server: InProcessServer, issuer: Issuer, clock: ManualClock) -> None:
    private = rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 — that is the point
    issuer.key = KeyPair("short", "RS256", private)
    issuer.published = [issuer.key.jwk()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jwt.InsecureKeyLengthWarning)  # signing warns
        token = issuer.token(*WHO, at=clock.moment())
    await require_refused(server, token)


@pytest.mark.parametrize("aud", [AUDIENCE, [AUDIENCE], ["other", AUDIENCE]])
async def test_an_audience_may_be_one_of_several(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, aud: object
) -> None:
    assert await identity(server, issuer.token(*WHO, at=clock.moment(), aud=aud)) == "sa:prod/remediator"


async def test_nbf_and_iat_may_be_missing(server: InProcessServer, issuer: Issuer, clock: ManualClock) -> None:
    assert await identity(server, issuer.token(*WHO, at=clock.moment(), nbf=None, iat=None)) == "sa:prod/remediator"


# Who is not


def forged(issuer: Issuer, clock: ManualClock) -> Mapping[str, str]:
    """Return tokens that nobody should believe, by what is wrong with them."""
    at, key = clock.moment(), issuer.key
    good = issuer.claims(*WHO, at=at)
    stranger = KeyPair.made(key.kid)
    public = key.private.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    head, body, signature = issuer.signed(good).split(".")
    now_s = int(str(good["iat"]))

    def changed(**claims: Any) -> str:  # noqa: ANN401 — some are of the wrong type on purpose
        return issuer.token(*WHO, at=at, **claims)

    return {
        "another key under the kid of ours": issuer.signed(good, key=stranger),
        "another key, in the header": issuer.signed(good, key=stranger, jwk=stranger.jwk()),
        "another key, at an address": issuer.signed(good, key=stranger, jku="https://evil.example/k", x5u="https://e"),
        "an audience of others": changed(aud="other"),
        "audiences of others": changed(aud=["other", AUDIENCE + "x", AUDIENCE.upper()]),
        "audiences that are no texts": changed(aud=[AUDIENCE, 1]),
        "an audience that is an object": changed(aud={AUDIENCE: 1}),
        "no audience": changed(aud=None),
        "an empty list of audiences": changed(aud=[]),
        "another issuer": changed(iss=ISSUER + "/"),
        "an issuer that is a list": spelled(issuer, good, iss=[ISSUER]),
        "no issuer": changed(iss=None),
        "expired": changed(exp=now_s - LEEWAY.seconds),
        "no expiry": changed(exp=None),
        "an expiry that is a text": spelled(issuer, good, exp=str(now_s + LIFE_S)),
        "an expiry that is true": spelled(issuer, good, exp=True),
        "an expiry that never comes": spelled(issuer, good, exp=float("inf")),
        "an expiry that is no number": spelled(issuer, good, exp=float("nan")),
        "an expiry beyond time": spelled(issuer, good, exp=10**30),
        "not yet valid": changed(nbf=now_s + LEEWAY.seconds + 1),
        "a beginning that is no number": spelled(issuer, good, nbf="now"),
        "issued in the future": changed(iat=now_s + LEEWAY.seconds + 1),
        "issued at no time": spelled(issuer, good, iat=[now_s]),
        "no subject": changed(sub=None),
        "a subject that is a number": spelled(issuer, good, sub=7),
        **{
            f"the subject {subject}": changed(sub=subject)
            for subject in (
                "",
                "remediator",
                "system:serviceaccount:prod",
                "system:serviceaccount:prod:",
                "system:serviceaccount::remediator",
                "system:serviceaccount:prod:a:b",
                "system:serviceaccount:prod:a/b",
                "system:serviceaccount:prod/x:a",
                "system:serviceaccount:Prod:a",
                "system:serviceaccount:prod:a\n",
                "system:serviceaccount:prod:*",
                "system:serviceaccount:prod:a..b",
                "system:serviceaccount:" + "p" * 64 + ":a",
                "system:serviceaccount:prod:" + "a" * 254,
                "system:node:prod:remediator",
                "xsystem:serviceaccount:prod:remediator",
                "apikey:remediator",
                "person-ada-admin",
            )
        },
        "alg none": f"{encoded({'alg': 'none', 'kid': key.kid})}.{body}.AA",
        "alg None": f"{encoded({'alg': 'None', 'kid': key.kid})}.{body}.{signature}",
        "no alg": f"{encoded({'kid': key.kid})}.{body}.{signature}",
        "an alg that is a list": f"{encoded({'alg': ['ES256'], 'kid': key.kid})}.{body}.{signature}",
        "alg none without a signature": f"{encoded({'alg': 'none', 'kid': key.kid})}.{body}.",
        "HS256 with the public key": hmac_signed(pem, {"alg": "HS256", "kid": key.kid}, body),
        "HS256 with the public key's set": hmac_signed(issuer.read(), {"alg": "HS256", "kid": key.kid}, body),
        "HS256 with nothing": hmac_signed(b"", {"alg": "HS256", "kid": key.kid}, body),
        "an algorithm of the wrong type": f"{encoded({'alg': 'RS256', 'kid': key.kid})}.{body}.{signature}",
        "an unknown kid": issuer.signed(good, kid="unknown"),
        "a kid that is a path": issuer.signed(good, kid="../../dev/null"),
        "a kid that is an address": issuer.signed(good, kid="https://evil.example/jwks.json"),
        "a kid that is SQL": issuer.signed(good, kid="first' OR '1'='1"),
        "a kid with a NUL": issuer.signed(good, kid="first\0"),
        "an empty kid": issuer.signed(good, kid=""),
        "a kid that is a number": f"{encoded({'alg': key.alg, 'kid': 1})}.{body}.{signature}",
        "no kid": f"{encoded({'alg': key.alg})}.{body}.{signature}",
        "an extension that has to be understood": issuer.signed(good, crit=["exp"], exp=1),
        "another extension": issuer.signed(good, **EXTENDED),
        "a payload that is no base64": issuer.signed(good, crit=["b64"], b64=True),
        "claims that were changed": f"{head}.{encoded({**good, 'exp': now_s + 2 * LIFE_S})}.{signature}",
        "no signature": f"{head}.{body}.",
        "a signature cut short": f"{head}.{body}.{signature[:-4]}",
        "another's signature": f"{head}.{body}.{issuer.signed({**good, 'n': 1}).split('.')[2]}",
        "two parts": f"{head}.{body}",
        "five parts": f"{head}.{body}.{signature}.AA.AA",
        "a header that is no object": f"{encoded([1])}.{body}.{signature}",
        "a header that is no JSON": f"AAAA.{body}.{signature}",
        "a header without end": f"{b64(b'[' * 4000)}.{body}.{signature}",
        "padding": f"{head}==.{body}.{signature}",
        "too long": issuer.signed({**good, "pad": "x" * TOKEN_CHARS_MAX}),
    }


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def encoded(value: object) -> str:
    return b64(json.dumps(value).encode())


def spelled(issuer: Issuer, claims: Mapping[str, object], **changed: object) -> str:
    """Return a token over claims that no library would sign, with a good signature."""
    payload = json.dumps({**claims, **changed}).encode()
    key = issuer.key
    return jwt.PyJWS().encode(payload, key.private, algorithm=key.alg, headers={"kid": key.kid})


def hmac_signed(secret: bytes, header: Mapping[str, object], body: str) -> str:
    """Return a token signed as with a shared secret; libraries refuse to make one with a public key."""
    signed = f"{encoded(header)}.{body}"
    return f"{signed}.{b64(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


async def test_no_forged_token_opens_anything(server: InProcessServer, issuer: Issuer, clock: ManualClock) -> None:
    assert await identity(server, issuer.token(*WHO, at=clock.moment())) == "sa:prod/remediator"
    for why, token in forged(issuer, clock).items():
        await require_refused(server, token, why)
    assert await identity(server, issuer.token(*WHO, at=clock.moment(), jti="2")) == "sa:prod/remediator"


async def test_headers_that_offer_keys_are_overlooked(
    server: InProcessServer, issuer: Issuer, clock: ManualClock
) -> None:
    token = issuer.signed(
        issuer.claims(*WHO, at=clock.moment()), jwk=KeyPair.made("x").jwk(), jku="https://evil.example", x5u="file:///"
    )
    assert await identity(server, token) == "sa:prod/remediator"


async def test_without_an_issuer_a_jwt_is_an_unknown_token(sqlite_url: str, issuer: Issuer, clock: ManualClock) -> None:
    async with in_process_server(sqlite_url, clock=clock) as server:
        await require_refused(server, issuer.token(*WHO, at=clock.moment()))
    assert issuer.reads == 0


async def test_what_is_too_long_or_no_token_is_refused_before_the_keys_are_asked_for(
    server: InProcessServer, issuer: Issuer, clock: ManualClock
) -> None:
    for token in (issuer.token(*WHO, at=clock.moment(), pad="x" * TOKEN_CHARS_MAX), "a.b", "a.b.c.d", "a.b.c=", "..."):
        await require_refused(server, token)
    assert issuer.reads == 0


# Times are the database's


async def test_a_token_holds_until_its_end_and_the_leeway(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, seconds: ManualSeconds
) -> None:
    token = issuer.token(*WHO, at=clock.moment())
    clock.advance(timedelta(seconds=LIFE_S) + LEEWAY - timedelta(seconds=1))
    assert await identity(server, token) == "sa:prod/remediator"
    clock.advance(timedelta(seconds=1))
    seconds.advance(1)
    await require_refused(server, token, "a token is not remembered beyond its end")


async def test_a_token_is_remembered_for_five_seconds(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, seconds: ManualSeconds
) -> None:
    token = issuer.token(*WHO, at=clock.moment())
    assert await identity(server, token) == "sa:prod/remediator"
    clock.advance(timedelta(hours=1))
    assert await identity(server, token) == "sa:prod/remediator"
    seconds.advance(REMEMBERED_S)
    await require_refused(server, token)


async def test_a_clock_that_is_a_little_behind_is_overlooked(
    server: InProcessServer, issuer: Issuer, clock: ManualClock
) -> None:
    ahead = clock.moment() + LEEWAY.seconds * 1_000_000
    assert await identity(server, issuer.token(*WHO, at=ahead)) == "sa:prod/remediator"


# What it may do


async def test_an_account_is_refused_at_every_door_that_writes_and_at_every_admins(
    populated: Populated, issuer: Issuer
) -> None:
    fleet = populated.fleet
    clock = fleet.clock()
    closed = [
        door
        for door in DOORS
        if door.template.startswith("/v1/admin/") or (door.writes and not door.template.startswith("/v1/records"))
    ]
    token, found = issuer.token(*WHO, at=clock.moment()), {}
    async with serving(populated.url, clock=clock, token=token, accounts=issuer.believed()) as server:
        before = contents(populated.url)
        for door in closed:
            answer = await server.send(door.method, door.path(fleet), door.body if door.kind is not None else None)
            found[door.name] = answer.status_code

    assert found == dict.fromkeys((door.name for door in closed), 403)
    assert contents(populated.url) == before


async def test_nothing_of_a_token_is_logged(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    tokens = [issuer.token(*WHO, at=clock.moment()), *forged(issuer, clock).values()]
    for token in tokens:
        await asked(server, token)

    logged = [str(vars(record)) for record in caplog.records]
    assert any("service_account.refused" in line for line in logged)
    parts = {part for token in tokens for part in token.split(".") if len(part) > 20}
    assert not [part for part in parts for line in logged if part in line]
