"""Local mode: the real server in this process, over a database of this machine (D37).

The only commands' module besides `serve` that knows the server. Without a
configured server every command comes here: `local_client` opens the home
folder's database, runs the server's application behind a portal, and hands out
a client whose transport leads into it. Whoever starts children serves the
same application to them on a port of its own (`serve_local`): children never
open the database.

The person, the agent and their tokens are made at the first use, and made
anew when they no longer open anything: the tokens expired, or the database
was replaced. Whoever can open the file could do as much by hand.
"""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette

from batonpass.client import config
from batonpass.client.client import Client
from batonpass.client.config import ConfigError, Local, Token
from batonpass.client.local import ADDRESS, LocalTransport
from batonpass.core.clock import Clock
from batonpass.core.errors import Conflict, Invalid, Unauthorized
from batonpass.core.identity import agent_id_for, parse_email, parse_name
from batonpass.core.keys import KeyName
from batonpass.core.tokens import Scope
from batonpass.server.app import create_app
from batonpass.server.services.bundle import Services
from batonpass.server.services.identity import bootstrap, reissue
from batonpass.server.services.keys import PAGE_MAX, KeyWish, issue, issued, key_reply, withdraw
from batonpass.server.sockets import listen
from batonpass.store.base import Store
from batonpass.store.open import open_store, require_there, sqlite_path
from batonpass.wire.keys import KeyReply, KeyRevokeReply, KeysReply, key_body

if TYPE_CHECKING:
    import uvicorn

AGENT_EXPIRES: Final = "365d"
LOOPBACK: Final = "127.0.0.1"
SHUTDOWN_S_MAX: Final = 5
"""How long answers still under way may take when serving ends; a waiting reader is cut off then."""
_UNFIT: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Person:
    """Who a new person is."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class LocalServer:
    """The server in this process: its database, its event loop, its application."""

    url: str
    portal: BlockingPortal
    store: Store
    app: Starlette

    def client(self, token: str) -> Client:
        """Return a client that leads into this server."""
        return Client(ADDRESS, token, transport=LocalTransport(self.portal, self.app))

    def opens(self, token: str) -> bool:
        """Whether `token` opens anything here."""
        services: Services = self.app.state.services
        try:
            self.portal.call(services.identity.authenticate, token)
        except Unauthorized:
            return False
        return True


@dataclass(frozen=True, slots=True)
class ServedLocal:
    """The same server on a port, and whose tokens there are."""

    local: LocalServer
    address: str
    person: Token
    agent: Token

    def client(self, *, as_agent: bool = False) -> Client:
        """Return a client over the port, of the person or of the agent."""
        return Client(self.address, self._token(as_agent=as_agent))

    def inside(self, *, as_agent: bool = False) -> Client:
        """Return a client that leads into the server without the port; its address is the same at every start."""
        return self.local.client(self._token(as_agent=as_agent))

    def _token(self, *, as_agent: bool) -> str:
        return (self.agent if as_agent else self.person).token


@contextmanager
def local_server(url: str, *, clock: Clock | None = None, door: str = "cli") -> Iterator[LocalServer]:
    """Run the server over the database at `url` while the block runs; its folder is made if need be.

    `door` is by which way what comes in is said to have come, `clock` a clock in place of the database's.
    """
    if url.startswith("sqlite:"):
        _make_folder(sqlite_path(url).parent)
    with start_blocking_portal("asyncio", name="local server") as portal:
        store = portal.call(partial(open_store, url, clock=clock))
        try:
            yield LocalServer(url, portal, store, create_app(store, door=door))
        finally:
            portal.call(store.close)


@contextmanager
def local_client(home: Path, *, token: str | None = None) -> Iterator[Client]:
    """Speak to the home folder's own database, as its person unless `token` is somebody else's."""
    with local_server(database_url(home)) as server:
        yield server.client(token or person_token(server, home).token)


@contextmanager
def serve_local(home: Path) -> Iterator[ServedLocal]:
    """Serve the home folder's own database on this machine while the block runs, for children of this process.

    The address is on the loopback interface, at a port that was free. It takes
    connections when the block begins, and none any more when it has ended.
    """
    with local_server(database_url(home)) as local:
        person, agent = person_token(local, home), agent_token(local, home)
        with _on_a_port(local) as address:
            yield ServedLocal(local, address, person, agent)


@contextmanager
def serve_throwaway(folder: Path, person: Person, *, clock: Clock | None = None) -> Iterator[tuple[str, Token]]:
    """Serve a new database in `folder` as `baton serve` would; yields the address, and the token of its one admin."""
    with local_server(f"sqlite:///{folder / config.DATABASE}", clock=clock, door="rest") as local:
        token = local.portal.call(_first_token, local.store, person)
        with _on_a_port(local) as address:
            yield address, token


@contextmanager
def _on_a_port(local: LocalServer) -> Iterator[str]:
    with listen(LOOPBACK, 0) as listening:
        server = http_server(local.app, shutdown_s_max=SHUTDOWN_S_MAX)
        serving = local.portal.start_task_soon(server.serve, [listening])
        try:
            yield f"http://{LOOPBACK}:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            serving.result()


def http_server(app: Starlette, *, shutdown_s_max: int) -> uvicorn.Server:
    """Return what serves the application over HTTP, wherever it is."""
    from batonpass.cli.serving import Server  # uvicorn takes its time to load

    return Server(app, shutdown_s_max=shutdown_s_max)


def database_url(home: Path) -> str:
    """Return the URL of the home folder's own database (D42)."""
    return f"sqlite:///{home / config.DATABASE}"


# --- whose tokens ----------------------------------------------------------------------------------------------------


def person_token(server: LocalServer, home: Path) -> Token:
    """Return a good token of the local person. At the first use person and agent are made, with theirs."""
    stored = config.credentials(home).local
    if stored is not None and server.opens(stored.person.token):
        return stored.person
    return _set_up(server, home).person


def agent_token(server: LocalServer, home: Path) -> Token:
    """Return a good token of the local agent, which is this machine's; made if there is none."""
    stored = config.credentials(home).local
    if stored is not None and stored.agent is not None and server.opens(stored.agent.token):
        return stored.agent
    agent = _set_up(server, home).agent
    assert agent is not None, "set up without an agent"
    return agent


def initialise(url: str, person: Person) -> Token:
    """Make the first person of the database at `url`, an admin; return their token. `Conflict` if it has people."""
    with local_server(url) as server:
        return server.portal.call(_first_token, server.store, person)


def mint_key(url: str, name: KeyName, *, expires: str | None, read_only: bool, replace: bool) -> KeyReply:
    """Make the API key `name` in the database at `url` itself; `Conflict` if it has a live one and is to keep it."""
    wish = KeyWish(name, expires, Scope.READ if read_only else Scope.WRITE, replace=replace)
    with local_server(url) as server:
        return key_reply(server.portal.call(issue, server.store, wish))


def list_keys(url: str, *, after: str | None, limit: int | None) -> KeysReply:
    """Return the valid API keys of the database at `url`; `NotFound` if there is none."""
    require_there(url)
    with local_server(url) as server:
        page = server.portal.call(partial(issued, server.store, after=after or "", limit=limit or PAGE_MAX))
    return KeysReply([key_body(key) for key in page.keys], page.next)


def revoke_key(url: str, which: str) -> KeyRevokeReply:
    """End the API key of a name, or whose hash begins so, in the database at `url` itself; `NotFound` without it."""
    require_there(url)
    with local_server(url) as server:
        return server.portal.call(withdraw, server.store, which)


def local_person(environ: Mapping[str, str]) -> Person:
    """Return who uses this machine: as git knows them, else as the operating system does."""
    from batonpass.worker import git
    from batonpass.worker.environment import for_git
    from batonpass.worker.errors import WorkerError

    login, name = _system_user()
    email = f"{login}@{socket.gethostname()}"
    try:
        here = git.Checkout(Path.cwd(), for_git(environ))
        name, email = git.setting(here, "user.name") or name, git.setting(here, "user.email") or email
        return Person(parse_name(name, field="name"), parse_email(email))
    except (WorkerError, OSError, Invalid):  # no git, no such folder any more, or a name that can't be one here
        return Person(login, f"{login}@localhost")


def _system_user() -> tuple[str, str]:
    """Return the login and the name of who runs this; a container may run as somebody its system has not heard of."""
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return f"user-{os.getuid()}", f"User {os.getuid()}"
    return entry.pw_name, entry.pw_gecos.split(",")[0] or entry.pw_name


def _set_up(server: LocalServer, home: Path) -> Local:
    """Make and store what is missing or opens nothing, one process at a time; keep what is good."""
    with config.changing(home):
        stored = config.credentials(home).local
        if stored is None or not server.opens(stored.person.token):
            person = server.portal.call(_any_token, server.store, local_person(os.environ))
            # Stored at once: after a crash here only the agent is left to be made.
            stored = _save(home, Local(person, stored.agent if stored is not None else None))
        if stored.agent is None or not server.opens(stored.agent.token):
            with server.client(stored.person.token) as client:
                stored = _save(home, Local(stored.person, _mint_agent_token(client)))
        return stored


def _mint_agent_token(client: Client) -> Token:
    label = _UNFIT.sub("-", socket.gethostname().lower()).strip("-") or "local"
    agent = agent_id_for(label)
    with suppress(Conflict):  # it is there: only its token is not
        client.add_agent(label=label, id_=agent)
    minted = client.mint_standing_token(agent, label="local", expires=AGENT_EXPIRES)
    return Token(minted.token, agent=agent)


def _save(home: Path, local: Local) -> Local:
    credentials = config.credentials(home)
    config.save_credentials(home, msgspec.structs.replace(credentials, local=local))
    return local


async def _first_token(store: Store, person: Person) -> Token:
    made, secret = await bootstrap(store, name=person.name, email=person.email)
    return Token(secret.reveal(), person=made.id)


async def _any_token(store: Store, person: Person) -> Token:
    """Return the token of the first person; if the database has people already, a new one of its first admin."""
    try:
        return await _first_token(store, person)
    except Conflict:
        made, secret = await reissue(store)
        return Token(secret.reveal(), person=made.id)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror}; set {config.HOME} to a folder of yours") from error
