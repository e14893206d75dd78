"""The composition root: a store becomes an ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from batonpass.core.errors import BatonError, MethodNotAllowed, NotFound
from batonpass.server.http.call import refused
from batonpass.server.http.routes import ROUTES
from batonpass.server.services.bundle import Services
from batonpass.store.base import Store
from batonpass.store.open import open_store


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
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED
        else NotFound(f"there is nothing at {request.url.path}")
    )
    return refused(what)
