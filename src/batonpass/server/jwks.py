"""The keys that an issuer signs with: a JSON Web Key Set out of a file or from an address, kept up to date.

    keys = KeySet(source_of("https://issuer.example/keys"))
    key = await keys.find("kid-1")        # None: no key of that name, as far as can be known now

What was read is good for `FRESH_S`. A name that is not in it is a reason to read
again, but not more often than every `AGAIN_S`, and one reading serves all who
wait: tokens with made-up names cost the issuer nothing. When reading fails, the
keys of before stay; who waited is told what they say.

An address is https, or http on this machine. Redirects are not followed, and
neither is more read than `BYTES_MAX`, nor for longer than `FETCH_S_MAX`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from batonpass.core.errors import Invalid
from batonpass.core.service_accounts import ALGORITHMS

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger(__name__)

FRESH_S: Final = 600.0
AGAIN_S: Final = 10.0
FETCH_S_MAX: Final = 5.0
BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 100
KID_CHARS_MAX: Final = 200
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_OK: Final = 200


class JwksError(Exception):
    """A key set that cannot be had, or is none; the message says why, and holds nothing secret."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a key set is read: `read` blocks, and `shown` is what the place is called in messages."""

    shown: str
    read: Callable[[], bytes]
    is_file: bool = False


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key of the set, and the algorithms that it may have signed with."""

    key: PyJWK
    algorithms: tuple[str, ...]


def source_of(text: str, *, fetch_s_max: float = FETCH_S_MAX) -> Source:
    """Return the source that a setting names: an address, or else a file. Raises `Invalid` for what can be neither."""
    if "://" not in text:
        path = Path(text).expanduser()
        return Source(str(path), lambda: _read_file(path), is_file=True)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"jwt-jwks: not an address: {error}", field="jwt-jwks") from error
    if not host or parts.fragment or (parts.scheme, host in _LOOPBACK) not in {
        ("https", False), ("https", True), ("http", True),
    }:  # fmt: skip
        raise Invalid("jwt-jwks: takes https://…, or http://… on this machine, or the path of a file", field="jwt-jwks")
    if parts.username is not None or parts.password is not None:
        raise Invalid("jwt-jwks: an address with a password in it would be in every log; use a file", field="jwt-jwks")
    shown = f"{parts.scheme}://{parts.netloc}{parts.path}"
    return Source(shown, lambda: _fetch(text, on_this_machine=host in _LOOPBACK, s_max=fetch_s_max))


class KeySet:
    """The keys of one source, as they were read last."""

    def __init__(
        self, source: Source, *, monotonic_s: Callable[[], float] = time.monotonic, read_s_max: float = FETCH_S_MAX
    ) -> None:
        self.source = source
        self._monotonic_s = monotonic_s
        self._read_s_max = read_s_max
        self._keys: Mapping[str, SigningKey] = {}
        self._read_s: float | None = None
        self._tried_s: float | None = None
        self._failed = False
        self._reading: asyncio.Task[None] | None = None

    async def find(self, kid: str) -> SigningKey | None:
        """Return the key of a name, None when the issuer has none, or cannot be asked and had none."""
        known = self._keys.get(kid)
        if known is not None and self._fresh():
            return known
        if known is not None and self._failed:
            # The issuer is away: nobody waits for it as long as the keys of before are known.
            self._start_reading()
            return known
        reading = self._start_reading()
        if reading is not None:
            # Shielded: one caller that hangs up must not fail the others.
            await asyncio.shield(reading)
        return self._keys.get(kid)

    async def load(self) -> None:
        """Read the keys; raise `JwksError` when they cannot be had."""
        tried_s = self._tried_s = self._monotonic_s()
        try:
            self._keys = parse_keys(await self._read())
        except Exception:
            self._failed = True
            raise
        self._failed, self._read_s = False, tried_s

    async def _read(self) -> bytes:
        try:
            async with asyncio.timeout(self._read_s_max):
                return await asyncio.to_thread(self.source.read)
        except TimeoutError as error:
            raise JwksError(f"no answer within {self._read_s_max:g} s") from error
        except OSError as error:
            raise JwksError(f"it cannot be read: {error.strerror or error}") from error

    def _fresh(self) -> bool:
        return self._read_s is not None and self._monotonic_s() - self._read_s < FRESH_S

    def _start_reading(self) -> asyncio.Task[None] | None:
        """Return the reading under way, begun now unless the last one was too short a time ago."""
        if self._reading is not None and not self._reading.done():
            return self._reading
        if self._tried_s is not None and self._monotonic_s() - self._tried_s < AGAIN_S:
            return None
        self._reading = asyncio.create_task(self._read_or_log(), name="read a key set")
        return self._reading

    async def _read_or_log(self) -> None:
        try:
            await self.load()
        except JwksError as error:
            log.warning("jwks.failed", extra={"source": self.source.shown, "why": str(error)})
        except Exception:  # a library's surprise over an issuer's bytes: it must not fail whoever waits
            log.exception("jwks.failed", extra={"source": self.source.shown})


def parse_keys(raw: bytes) -> dict[str, SigningKey]:
    """Return the keys of a set by name, those that can sign for us; raise `JwksError` when there are none.

    Keys without a name, for encryption, secret ones and ones of other types are passed over.
    """
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise JwksError("it is no JSON") from error
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise JwksError('it is no key set: {"keys": […]}')
    if len(listed) > KEYS_MAX:
        raise JwksError(f"it has {len(listed)} keys; the limit is {KEYS_MAX}")
    keys: dict[str, SigningKey] = {}
    for each in listed:
        found = _signing_key(each) if isinstance(each, dict) else None
        if found is not None:
            keys.setdefault(each["kid"], found)
    if not keys:
        raise JwksError("it has no key that can be used: one with a kid, of type RSA, EC or OKP")
    return keys


def _signing_key(data: dict[str, object]) -> SigningKey | None:
    """Return a key of the set, None for one that is of no use here."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    kid, kind, curve, alg = data.get("kid"), data.get("kty"), data.get("crv"), data.get("alg")
    if not isinstance(kid, str) or not 0 < len(kid) <= KID_CHARS_MAX or data.get("use", "sig") != "sig" or "d" in data:
        return None
    if not isinstance(kind, str) or not isinstance(curve, str | None):
        return None
    algorithms = ALGORITHMS.get((kind, curve if kind != "RSA" else None), ())
    if alg is not None:
        algorithms = tuple(each for each in algorithms if each == alg)
    if not algorithms:
        return None
    try:
        return SigningKey(PyJWK(data, algorithm=algorithms[0]), algorithms)
    except (PyJWTError, ValueError, TypeError, KeyError):
        return None


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return _bounded(file.read(BYTES_MAX + 1))


def _fetch(url: str, *, on_this_machine: bool, s_max: float) -> bytes:
    """Return what an address answers, if that is 200, in time and not too much."""
    import httpx  # only a server that asks an issuer pays for it

    deadline_s = time.monotonic() + s_max
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    raw = b""
    try:
        with (
            # A proxy for the world is not one for this machine.
            httpx.Client(timeout=s_max, follow_redirects=False, trust_env=not on_this_machine) as client,
            client.stream("GET", url, headers=headers) as response,
        ):
            if response.status_code != _OK:
                raise JwksError(f"it answers {response.status_code}")
            for piece in response.iter_raw():
                raw = _bounded(raw + piece)
                if time.monotonic() > deadline_s:
                    raise JwksError(f"no answer within {s_max:g} s")
    except httpx.HTTPError as error:
        raise JwksError(f"it cannot be reached: {type(error).__name__}") from error
    return raw


def _bounded(raw: bytes) -> bytes:
    if len(raw) > BYTES_MAX:
        raise JwksError(f"it has more than {BYTES_MAX // 1024} KiB")
    return raw
