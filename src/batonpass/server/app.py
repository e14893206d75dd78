"""The composition root: a store becomes an ASGI application."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from batonpass.core.errors import MethodNotAllowed, NotFound
from batonpass.server.http.call import refused
from batonpass.server.http.routes import ROUTES
from batonpass.server.services import ranking, retention
from batonpass.server.services.bundle import Services
from batonpass.server.services.search import catch_up
from batonpass.server.services.service_accounts import ServiceAccounts
from batonpass.store.base import Store
from batonpass.store.endings import ended

log = logging.getLogger(__name__)


def create_app(store: Store, *, door: str = "rest", accounts: ServiceAccounts | None = None) -> Starlette:
    """Return the application over an open store, which the caller closes.

    `door` is what is stamped on what people write through it: ``cli`` where
    the commands of this machine are its only clients (companion 4). `accounts`
    are the service accounts that are believed; without them none is.
    """
    app = Starlette(routes=ROUTES, exception_handlers={HTTPException: _unrouted})
    app.router.redirect_slashes = False
    app.state.services = Services.over(store, accounts=accounts)
    app.state.door = door
    return app


async def keep_house(store: Store, *, record_history: timedelta | None = None) -> None:
    """Do what is nobody's request, until cancelled: remove what is past its retention, keep the queue's index true.

    The histories of records are kept for `record_history`, without it for ever.
    """
    tasks = [
        asyncio.create_task(_sweep(store, record_history), name="retention"),
        asyncio.create_task(ranking.keep_ranking(store), name="ranking"),
        asyncio.create_task(_read_unread(store), name="index of words"),
    ]
    try:  # no task group: it cancels each of them once, and waits for ever for one that has lost that
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        await asyncio.gather(*done)
    finally:
        await ended(tasks)


async def _sweep(store: Store, record_history: timedelta | None) -> None:
    """Remove what is past its retention, now and every hour. A round that fails is only logged."""
    while True:
        try:
            await retention.sweep(store, record_history=record_history)
        except Exception:
            log.exception("retention.failed")
        await asyncio.sleep(retention.EVERY.total_seconds())


async def _read_unread(store: Store) -> None:
    """Read into the index of words what an upgrade left unread. When it fails, searches go on with it."""
    try:
        await catch_up(store)
    except Exception:
        log.exception("search.failed")


async def _unrouted(request: Request, error: Exception) -> Response:
    """Answer a path or method that is not in the table, in the error shape that belongs there."""
    assert isinstance(error, HTTPException)
    path = request.url.path
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return refused(NotFound(f"there is nothing at {path}"), path=path)
    taken = sorted({method for route in ROUTES if route.path_regex.match(path) for method in route.methods or ()})
    error = MethodNotAllowed(f"{request.method} is not what {path} takes: {', '.join(taken)}")
    response = refused(error, path=path)
    response.headers["Allow"] = ", ".join(taken)
    return response
