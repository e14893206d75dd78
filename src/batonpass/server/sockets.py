"""Listening sockets whose answers are not held back."""

from __future__ import annotations

import socket


def listen(host: str, port: int, *, family: int = socket.AF_INET) -> socket.socket:
    """Return a TCP socket that listens on `host` and `port`; 0 is any free port. Raises `OSError`.

    asyncio turns Nagle's algorithm off only on sockets that say they are TCP,
    which those of `socket.create_server` do not. With it on, the body of an
    answer waits for the client's delayed acknowledgement of the head: 40 ms.
    What is accepted from a socket inherits its options.
    """
    listening = socket.create_server((host, port), family=family)
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening
