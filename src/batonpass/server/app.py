"""The composition root: a store becomes an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from batonpass.core.errors import BatonError, MethodNotAllowed, NotFound
from batonpass.core.ids import Instant
from batonpass.server.http.call import refused
from batonpass.server.http.routes import ROUTES
from batonpass.server.services.engine import LeaseEngine
from batonpass.server.services.identity import Identity
from batonpass.server.services.leases import Leases
from batonpass.store.base import Store, q
from batonpass.store.open import open_store


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What GET /v1/status says."""

    schema: int
    node_count: int
    now: Instant
    dialect: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Services:
    """Every service over one store. The HTTP layer reaches nothing else."""

    store: Store
    engine: LeaseEngine
    leases: Leases
    identity: Identity

    @staticmethod
    def over(store: Store) -> Services:
        """Return the services over `store`."""
        engine = LeaseEngine(store)
        return Services(store=store, engine=engine, leases=Leases(store, engine), identity=Identity(store))

    async def status(self) -> ServerFacts:
        """Return what is running here."""
        async with self.store.read() as tx:
            applied, ((count,),) = await tx.fetch(q("schema.applied"), q("schema.node_count"))
            return ServerFacts(
                applied[-1][0], count, await tx.now(), self.store.dialect, self.store.incarnation
            )


def create_app(store: Store) -> Starlette:
    """Return the application over an open store, which the caller closes."""
    app = Starlette(routes=ROUTES, exception_handlers={HTTPException: _unrouted})
    app.router.redirect_slashes = False
    app.state.services = Services.over(store)
    return app


def app_from_url(url: str) -> Starlette:
    """Return an application that opens the store at `url` when it starts, and closes it when it stops."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        store = await open_store(url)
        app.state.services = Services.over(store)
        try:
            yield
        finally:
            await store.close()

    app = Starlette(routes=ROUTES, lifespan=lifespan, exception_handlers={HTTPException: _unrouted})
    app.router.redirect_slashes = False
    return app


async def _unrouted(request: Request, error: Exception) -> Response:
    """Answer a path or method that is not in the table, in the one error shape."""
    assert isinstance(error, HTTPException)
    what: BatonError = (
        MethodNotAllowed(f"{request.method} is not what {request.url.path} takes")
        if error.status_code == 405
        else NotFound(f"there is nothing at {request.url.path}")
    )
    return refused(what)
