"""The application over HTTP, the same for `serve` and for local mode."""

from __future__ import annotations

import socket

import uvicorn
from starlette.applications import Starlette


class Server(uvicorn.Server):
    """Serves an application whose store is opened, and closed, around it.

    Told to stop, it finishes the requests under way, for at most
    `shutdown_s_max` seconds. Those that wait for something to happen are
    answered at once.
    """

    def __init__(self, app: Starlette, *, shutdown_s_max: int) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=shutdown_s_max,
            )
        )
        self._app = app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End every wait, then take no more connections and finish what is under way."""
        self._app.state.services.feed.stop()
        await super().shutdown(sockets)
