"""An issuer's keys: how they come, change, and fail to come; and what that means for those who show its tokens."""

from __future__ import annotations

import asyncio
import functools
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from batonpass.core.errors import Invalid
from batonpass.core.service_accounts import Trust
from batonpass.server.jwks import (
    AGAIN_S,
    BYTES_MAX,
    FRESH_S,
    KEYS_MAX,
    JwksError,
    KeySet,
    Source,
    parse_keys,
    source_of,
)
from batonpass.server.services.service_accounts import ServiceAccounts, believed
from batonpass.testing.clock import ManualClock
from batonpass.testing.issuer import AUDIENCE, ISSUER, Issuer
from batonpass.testing.scripted import ManualSeconds
from batonpass.testing.server import InProcessServer, in_process_server

pytestmark = pytest.mark.anyio

WHO: Final = ("prod", "remediator")
SLOW: Final = {"silent", "drops"}
S_MAX: Final = 0.3
"""How long the slow ones are waited for."""
KEYS: Final = Issuer().read()


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def server(
    issuer: Issuer, clock: ManualClock, seconds: ManualSeconds, sqlite_url: str
) -> AsyncIterator[InProcessServer]:
    accounts = issuer.believed(monotonic_s=seconds)
    async with in_process_server(sqlite_url, clock=clock, monotonic_s=seconds, accounts=accounts) as running:
        yield running


async def require_refused(server: InProcessServer, token: str, why: str = "") -> None:
    """Fail unless the token is refused."""
    assert (await server.send("GET", "/v1/me", token=token)).status_code == 401, why


async def identity(server: InProcessServer, token: str) -> str:
    return str((await server.ask("GET", "/v1/me", token=token))["identity"])


# Keys that change


async def test_a_new_key_is_found_when_its_name_is_met(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, seconds: ManualSeconds
) -> None:
    first = issuer.token(*WHO, at=clock.moment())
    assert await identity(server, first) == "sa:prod/remediator"
    issuer.rotate("second")
    seconds.advance(AGAIN_S)

    assert await identity(server, issuer.token(*WHO, at=clock.moment())) == "sa:prod/remediator"
    assert await identity(server, first) == "sa:prod/remediator"
    assert issuer.reads == 2


async def test_a_key_that_was_withdrawn_is_forgotten_once_the_set_is_old(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, seconds: ManualSeconds
) -> None:
    token = issuer.token(*WHO, at=clock.moment())
    assert await identity(server, token) == "sa:prod/remediator"
    issuer.rotate("second", keep=False)
    seconds.advance(FRESH_S)

    await require_refused(server, token)


async def test_made_up_kids_ask_the_issuer_once_in_a_while(
    server: InProcessServer, issuer: Issuer, clock: ManualClock, seconds: ManualSeconds
) -> None:
    claims = issuer.claims(*WHO, at=clock.moment())
    await asyncio.gather(*(require_refused(server, issuer.signed(claims, kid=f"made-up-{n}")) for n in range(20)))
    assert issuer.reads == 1
    seconds.advance(AGAIN_S)
    await asyncio.gather(*(require_refused(server, issuer.signed(claims, kid=f"another-{n}")) for n in range(20)))
    assert issuer.reads == 2


async def test_many_who_come_together_wait_for_one_reading(sqlite_url: str, issuer: Issuer, clock: ManualClock) -> None:
    go, begun, reads = threading.Event(), threading.Event(), 0

    def read() -> bytes:
        nonlocal reads
        reads += 1
        begun.set()
        assert go.wait(30)
        return issuer.read()

    accounts = ServiceAccounts(Trust(ISSUER, AUDIENCE), KeySet(Source("slow", read), read_s_max=30))
    async with in_process_server(sqlite_url, clock=clock, accounts=accounts) as server:
        waiting = [
            asyncio.create_task(identity(server, issuer.token("prod", f"a-{n}", at=clock.moment()))) for n in range(10)
        ]
        await asyncio.to_thread(begun.wait, 30)
        assert await server.ask("GET", "/v1/me"), "others are served meanwhile"
        go.set()
        assert await asyncio.gather(*waiting) == [f"sa:prod/a-{n}" for n in range(10)]
    assert reads == 1


# Keys that cannot be had


def failing(error: Exception) -> Callable[[], bytes]:
    def read() -> bytes:
        raise error

    return read


GARBAGE: Final[Mapping[str, bytes]] = {
    "nothing": b"",
    "no JSON": b"<html>",
    "no UTF-8": b"\xff\xfe",
    "a list": b"[]",
    "no keys": b"{}",
    "an empty set": b'{"keys": []}',
    "keys that are no objects": b'{"keys": [1, null, "x", []]}',
    "a shared secret": json.dumps({"keys": [{"kty": "oct", "k": "AAAA", "kid": "first", "alg": "HS256"}]}).encode(),
    "half a key": b'{"keys": [{"kty": "EC", "crv": "P-256", "kid": "first", "x": "AA"}]}',
    "odd members": b'{"keys": [{"kty": ["EC"], "crv": 1, "kid": "first"}, {"kty": "RSA", "kid": {}}]}',
    "depth": b'{"keys": ' + b"[" * 100_000,
    "too many": json.dumps({"keys": [{}] * (KEYS_MAX + 1)}).encode(),
}


@dataclass
class Published:
    """What a test's issuer answers at present."""

    read: Callable[[], bytes]

    def believed(self, monotonic_s: Callable[[], float]) -> ServiceAccounts:
        source = Source("an issuer", lambda: self.read())  # noqa: PLW0108 — what is read changes
        return ServiceAccounts(Trust(ISSUER, AUDIENCE), KeySet(source, monotonic_s=monotonic_s))


async def test_a_set_of_garbage_keeps_the_keys_of_before(sqlite_url: str, issuer: Issuer) -> None:
    clock, seconds, published = ManualClock(), ManualSeconds(), Published(issuer.read)
    accounts = published.believed(seconds)
    async with in_process_server(sqlite_url, clock=clock, monotonic_s=seconds, accounts=accounts) as server:
        token = issuer.token(*WHO, at=clock.moment())
        unknown = issuer.signed(issuer.claims(*WHO, at=clock.moment()), kid="unknown")
        assert await identity(server, token) == "sa:prod/remediator"
        for why, garbage in GARBAGE.items():
            with pytest.raises(JwksError):
                parse_keys(garbage)
            published.read = functools.partial(bytes, garbage)
            seconds.advance(FRESH_S)
            assert await identity(server, token) == "sa:prod/remediator", why
            await require_refused(server, unknown, why)


@pytest.mark.parametrize(
    "read",
    [failing(JwksError("down")), failing(OSError("unplugged")), failing(ValueError("a surprise")), lambda: b"<html>"],
    ids=["down", "unreadable", "surprise", "garbage"],
)
async def test_before_any_keys_are_there_no_account_is_let_in(
    sqlite_url: str, issuer: Issuer, read: Callable[[], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    clock, seconds, published = ManualClock(), ManualSeconds(), Published(read)
    accounts = published.believed(seconds)
    async with in_process_server(sqlite_url, clock=clock, monotonic_s=seconds, accounts=accounts) as server:
        token = issuer.token(*WHO, at=clock.moment())
        await require_refused(server, token)
        assert "jwks.failed" in caplog.messages
        assert await server.ask("GET", "/v1/me"), "people are let in all the same"

        published.read = issuer.read
        seconds.advance(AGAIN_S)
        assert await identity(server, token) == "sa:prod/remediator"


async def test_an_issuer_that_does_not_answer_is_waited_for_only_so_long(
    sqlite_url: str, issuer: Issuer, clock: ManualClock
) -> None:
    answered = threading.Event()

    def hang() -> bytes:
        answered.wait(30)
        return issuer.read()

    keys = KeySet(Source("a slow issuer", hang), read_s_max=0.05)
    accounts = ServiceAccounts(Trust(ISSUER, AUDIENCE), keys)
    async with in_process_server(sqlite_url, clock=clock, accounts=accounts) as server:
        try:
            await require_refused(server, issuer.token(*WHO, at=clock.moment()))
        finally:
            answered.set()


# Addresses


class Answers(BaseHTTPRequestHandler):
    """Answers by path."""

    ended: threading.Event

    def do_GET(self) -> None:
        match self.path:
            case "/keys":
                self._answer(200, KEYS)
            case "/moved":
                self._answer(302, b"", Location="/keys")
            case "/broken":
                self._answer(500, KEYS)
            case "/long":
                self._answer(200, KEYS + b" " * BYTES_MAX)
            case "/cut":
                self._begin(200, len(KEYS) + 1)
                self.wfile.write(KEYS)
                self.close_connection = True
            case "/silent":
                self.ended.wait(30)
            case "/drops":
                self._begin(200, 10**6)
                while not self.ended.wait(S_MAX / 10):
                    self.wfile.write(b" ")
            case other:
                raise AssertionError(other)

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self._begin(status, len(body), **headers)
        self.wfile.write(body)

    def _begin(self, status: int, length: int, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@contextmanager
def answering() -> Iterator[str]:
    """Serve on this machine, and yield the address."""

    class Answering(Answers):
        ended = threading.Event()

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, name="an issuer", args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            Answering.ended.set()
            server.shutdown()
            thread.join()


async def read(address: str, *, s_max: float = 30) -> KeySet:
    keys = KeySet(source_of(address, fetch_s_max=s_max), read_s_max=30)
    await keys.load()
    return keys


async def test_keys_are_read_from_an_address() -> None:
    with answering() as address:
        keys = await read(f"{address}/keys")
    found = await keys.find("first")
    assert found is not None
    assert found.algorithms == ("ES256",)


@pytest.mark.parametrize(
    "path, why",
    [
        ("moved", "it answers 302"),
        ("broken", "it answers 500"),
        ("nowhere", "it cannot be reached"),
        ("long", "it has more than 256 KiB"),
        ("cut", "it cannot be reached"),
        ("silent", "it cannot be reached: ReadTimeout"),
        ("drops", "no answer within 0.3 s"),
    ],
)
async def test_an_address_that_does_not_answer_with_keys_is_refused(path: str, why: str) -> None:
    s_max = S_MAX if path in SLOW else 30
    with answering() as address, pytest.raises(JwksError, match=why):
        await read(f"{address}/{path}", s_max=s_max)


async def test_an_address_at_which_nobody_listens() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    with pytest.raises(JwksError, match="it cannot be reached: ConnectError"):
        await read(address)


async def test_no_password_of_an_address_is_shown() -> None:
    source = source_of("https://issuer.example/keys?token=secret")
    assert source.shown == "https://issuer.example/keys"


# Settings


@pytest.mark.parametrize(
    "given, named",
    [
        ((ISSUER, None, None), "jwt-audience"),
        ((ISSUER, AUDIENCE, ""), "jwt-jwks"),
        ((None, AUDIENCE, "/keys"), "jwt-issuer"),
        (("x" * 1001, AUDIENCE, "/keys"), "jwt-issuer"),
        ((ISSUER, "a\nb", "/keys"), "jwt-audience"),
        *(
            ((ISSUER, AUDIENCE, jwks), "jwt-jwks")
            for jwks in (
                "http://issuer.example/keys",
                "ftp://issuer.example/keys",
                "file:///etc/keys",
                "https://",
                "https://[::1",
                "https://issuer.example:x/keys",
                "https://user:secret@issuer.example/keys",
                "https://issuer.example/keys#part",
                "http://127.0.0.1.evil.example/keys",
            )
        ),
    ],
)
async def test_settings_that_say_too_little_or_too_much_are_refused(
    given: tuple[str | None, str | None, str | None], named: str
) -> None:
    with pytest.raises(Invalid, match=f"^{named}: ") as refused:
        believed(*given)
    assert "secret" not in str(refused.value)


async def test_without_settings_nobody_is_believed() -> None:
    assert believed(None, None, None) is None
    assert believed("", "", "") is None


@pytest.mark.parametrize(
    "address", ["https://issuer.example/keys", "http://127.0.0.1:8080/keys", "http://localhost/k", "http://[::1]:9/k"]
)
async def test_addresses_that_keys_may_come_from(address: str) -> None:
    assert source_of(address).shown == address


async def test_keys_out_of_a_file(issuer: Issuer, tmp_path: Path, clock: ManualClock, sqlite_url: str) -> None:
    file = tmp_path / "keys.json"
    accounts = believed(ISSUER, AUDIENCE, str(file))
    assert accounts is not None
    with pytest.raises(Invalid, match="cannot be read"):
        await accounts.prepare()
    file.write_bytes(b" " * (BYTES_MAX + 1))
    with pytest.raises(Invalid, match="more than 256 KiB"):
        await accounts.prepare()
    file.write_bytes(issuer.read())
    assert await accounts.prepare() is None

    async with in_process_server(sqlite_url, clock=clock, accounts=accounts) as server:
        assert await identity(server, issuer.token(*WHO, at=clock.moment())) == "sa:prod/remediator"
