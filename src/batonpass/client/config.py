"""Where the server is and whose token to show: every value with the place it came from (D37, D49).

Flag, then environment, then the files of the home folder:

    BATON_HOME        the folder; without it ~/.baton
    BATON_SERVER      the server's address
    BATON_TOKEN       a token, for whichever server is used
    config.json       {"server": …, "agent": …}
    credentials.json  {"servers": {"<address>": {"token": …}}, "local": {…}}; mode 0600

A stored token belongs to one address and is sent to no other. Without a
server all is local: the same server in this process, over the home folder's
database. Nothing here guesses: a file that can't be read as it should is
`ConfigError`, naming the file and what is wrong with it.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec

from batonpass.core.ids import shown

S = TypeVar("S", bound=msgspec.Struct)

HOME: Final = "BATON_HOME"
SERVER: Final = "BATON_SERVER"
TOKEN: Final = "BATON_TOKEN"  # noqa: S105  # the variable's name
CONFIG: Final = "config.json"
CREDENTIALS: Final = "credentials.json"
LOCK: Final = "home.lock"
DATABASE: Final = "baton.db"
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,1000}", re.ASCII)


class ConfigError(Exception):
    """What is configured can't be used as it is; the message names the place, the fault and the remedy."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value and where it came from: ``--server``, ``BATON_SERVER``, or a file. Secrets are kept out of its repr."""

    text: str
    source: str

    def __repr__(self) -> str:
        return f"Value(…, source={self.source!r})"


class Token(msgspec.Struct, omit_defaults=True):
    """A stored token and whose it is; the rest is for people."""

    token: str
    person: str | None = None
    agent: str | None = None

    def __repr__(self) -> str:
        return f"Token(person={self.person!r}, agent={self.agent!r}, …)"


class Local(msgspec.Struct, omit_defaults=True):
    """The tokens of the local database, made at its first use: its person's, then its agent's."""

    person: Token
    agent: Token | None = None


class Credentials(msgspec.Struct, omit_defaults=True):
    """What credentials.json holds."""

    servers: dict[str, Token] = {}
    local: Local | None = None


class Settings(msgspec.Struct, omit_defaults=True):
    """What of config.json concerns the client; other keys are the worker's."""

    server: str | None = None
    agent: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """What is in force. `server` None means local; `token` None that there is none for this server."""

    home: Path
    server: Value | None
    token: Value | None
    agent: Value | None = None

    @property
    def database_url(self) -> str:
        """Return the URL of the home folder's database."""
        return f"sqlite:///{self.home / DATABASE}"


def load(environ: Mapping[str, str], *, server: str | None = None) -> Config:
    """Return what is in force: `server` is the flag's value, if there was one. Raises `ConfigError`."""
    home = home_of(environ)
    settings = _read(home / CONFIG, Settings)
    address = _first(
        (server, "--server"),
        (environ.get(SERVER), SERVER),
        (settings.server, str(home / CONFIG)),
    )
    where = Value(parse_address(address.text, source=address.source), address.source) if address is not None else None
    agent = _first((environ.get("BATON_AGENT"), "BATON_AGENT"), (settings.agent, str(home / CONFIG)))
    return Config(home, where, _token(environ, home, where), agent)


def home_of(environ: Mapping[str, str]) -> Path:
    """Return the home folder, which need not exist; `ConfigError` when it is said to be in nobody's."""
    named = environ.get(HOME)
    try:
        return Path(named).expanduser().absolute() if named else Path("~/.baton").expanduser()
    except RuntimeError as error:
        folder = shown(named or "~")
        raise ConfigError(f"{HOME}: nobody knows whose home {folder} is in; name a whole path") from error


def parse_address(text: str, *, source: str) -> str:
    """Return a server's address in the one form in which addresses are compared; `ConfigError` if it is none."""
    none = ConfigError(f"{source}: {shown(text)} is no server's address; write http://host:port or https://host")
    try:
        parts = urlsplit(text.strip())
        port = parts.port
    except ValueError as error:  # a bracket that isn't closed, a port that is no number
        raise none from error
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise none
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError(f"{source}: an address holds no user, password or query; the token goes into {TOKEN}")
    return f"{parts.scheme}://{parts.netloc.lower()}{parts.path.rstrip('/')}"


def parse_token(text: str, *, source: str) -> str:
    """Return a token as it may stand in a header; `ConfigError` says what is wrong without repeating it."""
    token = text.strip()
    if not _TOKEN.fullmatch(token):
        raise ConfigError(f"{source}: this is no token: it must be one word of printable ASCII")
    return token


def in_the_clear(address: str) -> bool:
    """Whether a token sent to `address` could be read on the way."""
    parts = urlsplit(address)
    return parts.scheme == "http" and parts.hostname not in {"127.0.0.1", "::1", "localhost"}


def credentials(home: Path) -> Credentials:
    """Return what is stored; nothing when there is no file. Refuses a file that others can read."""
    path = home / CREDENTIALS
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return Credentials()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if mode & 0o077:
        raise ConfigError(f"{path}: others can read it (mode {mode:04o}); run: chmod 600 {path}")
    return _read(path, Credentials)


@contextmanager
def changing(home: Path) -> Iterator[None]:
    """Keep other processes from changing the home folder's files meanwhile; makes the folder if need be."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigError(f"{home}: {error.strerror}; set {HOME} to a folder of yours") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def save_credentials(home: Path, stored: Credentials) -> None:
    """Replace credentials.json, whole or not at all, readable by its owner only. Hold `changing` around it."""
    _replace(home / CREDENTIALS, msgspec.json.format(msgspec.json.encode(stored)))


def setting(home: Path, name: str) -> object:
    """Return the value of one key of config.json, or None."""
    return _object(home / CONFIG).get(name)


def save_setting(home: Path, name: str, value: object) -> None:
    """Change one key of config.json and keep the others; None removes it. Hold `changing` around it."""
    path = home / CONFIG
    present = _object(path)
    changed = {**present, name: value} if value is not None else {k: v for k, v in present.items() if k != name}
    _replace(path, msgspec.json.format(msgspec.json.encode(changed)))


def _token(environ: Mapping[str, str], home: Path, server: Value | None) -> Value | None:
    if given := environ.get(TOKEN):
        return Value(parse_token(given, source=TOKEN), TOKEN)
    stored = credentials(home)
    path = home / CREDENTIALS
    if server is None:
        local = stored.local
        return Value(parse_token(local.person.token, source=f"{path}, local"), str(path)) if local is not None else None
    mine = stored.servers.get(server.text)
    return Value(parse_token(mine.token, source=f"{path}, {server.text}"), str(path)) if mine is not None else None


def _first(*candidates: tuple[str | None, str]) -> Value | None:
    """Return the first value that is there and not empty."""
    return next((Value(text, source) for text, source in candidates if text), None)


def _read(path: Path, kind: type[S]) -> S:
    try:
        return msgspec.convert(_object(path), kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: {error}") from error


def _object(path: Path) -> dict[str, object]:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=dict[str, object])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: not a JSON object we can read: {error}") from error
    return found


def _replace(path: Path, content: bytes) -> None:
    """Write `content` beside `path` and move it there, so that a crash leaves the old file or the new one."""
    beside = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)  # a leftover of another mode is not inherited
            file.write(content + b"\n")
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
