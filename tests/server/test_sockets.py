from __future__ import annotations

import socket

from batonpass.server.sockets import listen


def test_what_is_accepted_sends_its_answers_at_once() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()) as client:
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert client.getpeername() == accepted.getsockname()
