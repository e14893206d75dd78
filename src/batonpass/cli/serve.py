"""`baton serve`: the server, until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Annotated, Final

import msgspec
import uvloop
from cyclopts import Parameter
from cyclopts.validators import Number
from starlette.applications import Starlette

from batonpass.cli.exits import Exit
from batonpass.cli.local import LOOPBACK, database_url
from batonpass.cli.options import Flag
from batonpass.cli.render import print_json, say, warn
from batonpass.cli.serving import Server
from batonpass.client import config
from batonpass.core.classes import RecordClass
from batonpass.core.errors import Invalid
from batonpass.server.app import create_app, keep_house
from batonpass.server.services.bundle import Services
from batonpass.server.services.service_accounts import ServiceAccounts, believed
from batonpass.server.sockets import listen
from batonpass.store.open import open_store

DB: Final = "BATON_DB"
CLASSES: Final = "BATON_CLASSES"
LISTEN_URL: Final = "BATON_LISTEN_URL"
PORT: Final = 7777
SHUTDOWN_S_MAX: Final = 10
"""How long requests under way may take once the server is told to stop."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Issuer:
    """Whose JSON Web Tokens are believed to be service accounts': all three options, or none."""

    jwt_issuer: Annotated[str | None, Parameter(env_var="BATON_JWT_ISSUER")] = None
    """believe service accounts of this issuer: what their tokens have as `iss`."""

    jwt_audience: Annotated[str | None, Parameter(env_var="BATON_JWT_AUDIENCE")] = None
    """what their tokens have among `aud` when they are meant for this server."""

    jwt_jwks: Annotated[str | None, Parameter(env_var="BATON_JWT_JWKS")] = None
    """where the issuer's keys are: a file with a JSON Web Key Set, or its https address."""


NO_ISSUER: Final = Issuer()
HISTORY_DAYS_MAX: Final = 36_500
"""A hundred years: what is kept longer is kept for ever."""


class Serving(msgspec.Struct):
    """What `--json` says once connections are taken."""

    url: str
    pid: int


def serve(
    *,
    db: Annotated[str | None, Parameter(env_var=DB)] = None,
    host: str = LOOPBACK,
    port: Annotated[int, Parameter(validator=Number(gte=0, lte=65535))] = PORT,
    listen_url: Annotated[str | None, Parameter(env_var=LISTEN_URL)] = None,
    issuer: Issuer = NO_ISSUER,
    classes: Annotated[Path | None, Parameter(env_var=CLASSES)] = None,
    record_history_days: Annotated[int | None, Parameter(validator=Number(gte=1, lte=HISTORY_DAYS_MAX))] = None,
    json: Flag = False,
) -> int:
    """Serve a database over HTTP until SIGTERM or SIGINT.

    Prints the address once connections are taken. When it is told to stop,
    requests under way are finished; leases are in the database and outlive any
    server, of which any number may stand over one PostgreSQL.

    Args:
        db: sqlite:///path or postgresql://user@host/name; without it this machine's own database. The variable
            keeps a password out of the list of processes.
        host: the address to listen on.
        port: the port to listen on; 0 for any that is free.
        listen_url: a way to the same PostgreSQL past a pooler, where LISTEN is to be had: what other servers commit is
            then told to those who wait here at once.
        classes: a folder of class files, which are applied before connections are taken. One that is wrong, or that
            would take away what records hold, stops the start, and nothing is applied.
        record_history_days: forget what was done to records after so many days, but for the last word on each field;
            without it nothing of it is ever forgotten.
        json: say where as {"url", "pid"}.

    """
    wanted = _classes_in(classes) if classes is not None else []
    if db is None:
        home = config.home_of(os.environ)
        with config.changing(home):
            db = database_url(home)
    accounts = believed(issuer.jwt_issuer, issuer.jwt_audience, issuer.jwt_jwks)
    serving = _serve(
        db,
        host,
        port,
        listen_url=listen_url,
        accounts=accounts,
        classes=wanted,
        record_history=timedelta(days=record_history_days) if record_history_days is not None else None,
        as_json=json,
    )
    return uvloop.run(serving)


class _Server(Server):
    """Says when it is up, and ends with an exit code where the plain one would end by the signal it got."""

    def __init__(self, app: Starlette, *, as_json: bool) -> None:
        super().__init__(app, shutdown_s_max=SHUTDOWN_S_MAX)
        self._as_json = as_json
        self.ended_by: signal.Signals | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections, and say where."""
        await super().startup(sockets)
        assert sockets, "the socket is ours, so that its port can be told"
        serving = Serving(_url(sockets[0]), os.getpid())
        if self._as_json:
            print_json(msgspec.json.encode(serving))
        else:
            say(f"serving on {serving.url}")
        sys.stdout.flush()  # whoever started us may be waiting for this line
        gc.collect()
        gc.freeze()  # what a server is made of is not looked at again

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Turn SIGINT and SIGTERM into an orderly end; a second one ends it without waiting for answers."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin the end."""
        del frame
        self.force_exit = self.should_exit
        self.should_exit = True
        self.ended_by = signal.Signals(sig)


async def _serve(
    url: str,
    host: str,
    port: int,
    *,
    listen_url: str | None,
    accounts: ServiceAccounts | None,
    classes: Sequence[RecordClass],
    record_history: timedelta | None,
    as_json: bool,
) -> int:
    with _bind(host, port) as listening:
        if accounts is not None and (why := await accounts.prepare()) is not None:
            warn(f"warning: no service account is let in until the issuer's keys are there: {why}")
        store = await open_store(url, listen_url=listen_url)
        try:
            app = create_app(store, accounts=accounts)
            services: Services = app.state.services
            await services.classes.apply_here(classes)
            if (await services.status()).node_count == 0:
                warn("nobody can use this database yet; make its first person: baton init --db URL")
            server = _Server(app, as_json=as_json)
            house = asyncio.create_task(keep_house(store, record_history=record_history), name="house")
            await server.serve([listening])
            house.cancel()
            await asyncio.gather(house, return_exceptions=True)
        finally:
            await store.close()
    return Exit.INTERRUPTED if server.ended_by is signal.SIGINT else Exit.OK


def _classes_in(folder: Path) -> list[RecordClass]:
    from batonpass.cli import class_files  # YAML is read by a server only where it is started with classes

    return class_files.require_right(class_files.look_at_all(class_files.in_folder(folder)))


def _bind(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        return listen(*address[:2], family=family)
    except OSError as error:
        raise Invalid(f"cannot listen on {host}, port {port}: {error.strerror or error}", field="host") from error


def _url(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if listening.family == socket.AF_INET6 else f"http://{host}:{port}"
