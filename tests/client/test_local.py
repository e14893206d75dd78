"""The in-process transport against small applications; tests of the commands use it against the real one."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from batonpass.client.local import ADDRESS, AHEAD_MOST, Application, LocalTransport

WAIT_S_MAX = 10


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


def client_of(portal: BlockingPortal, app: Application) -> httpx.Client:
    return httpx.Client(base_url=ADDRESS, transport=LocalTransport(portal, app))


async def echo(request: Request) -> Response:
    return JSONResponse(
        {
            "method": request.method,
            "path": request.path_params["rest"],
            "query": dict(request.query_params),
            "sent": request.headers.get("x-sent"),
            "body": (await request.body()).decode(),
        }
    )


ECHO = Starlette(routes=[Route("/{rest:path}", echo, methods=["GET", "POST"])])


def test_a_request_arrives_whole_and_its_answer_comes_back(portal: BlockingPortal) -> None:
    answer = client_of(portal, ECHO).post("/a%20b/c?x=1&y=%26", content=b"hello", headers={"X-Sent": "yes"})

    assert answer.json() == {
        "method": "POST",
        "path": "a b/c",
        "query": {"x": "1", "y": "&"},
        "sent": "yes",
        "body": "hello",
    }


def test_several_threads_share_one_transport(portal: BlockingPortal) -> None:
    client = client_of(portal, ECHO)
    found: list[str] = []
    threads = [threading.Thread(target=lambda n=n: found.append(client.get(f"/{n}").json()["path"])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S_MAX)

    assert sorted(found) == [str(n) for n in range(8)]


def test_a_part_of_the_answer_can_be_read_before_the_next_is_made(portal: BlockingPortal) -> None:
    read_first = threading.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        await anyio.to_thread.run_sync(read_first.wait, WAIT_S_MAX)
        yield b"second"

    async def stream(_request: Request) -> Response:
        return StreamingResponse(parts())

    app = Starlette(routes=[Route("/", stream)])
    with client_of(portal, app).stream("GET", "/") as answer:
        chunks = (chunk for chunk in answer.iter_raw() if chunk)
        assert next(chunks) == b"first"
        read_first.set()
        assert next(chunks) == b"second"


def test_closing_an_answer_early_ends_its_task(portal: BlockingPortal) -> None:
    ended = threading.Event()

    async def parts() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await anyio.sleep_forever()
        finally:
            ended.set()

    async def stream(_request: Request) -> Response:
        return StreamingResponse(parts())

    app = Starlette(routes=[Route("/", stream)])
    with client_of(portal, app).stream("GET", "/") as answer:
        assert next(chunk for chunk in answer.iter_raw() if chunk) == b"first"

    assert ended.wait(WAIT_S_MAX)


def test_an_application_that_does_not_answer_runs_into_the_time_out(portal: BlockingPortal) -> None:
    ended = threading.Event()

    async def silent(_request: Request) -> Response:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    app = Starlette(routes=[Route("/", silent)])
    with pytest.raises(httpx.ReadTimeout):
        client_of(portal, app).get("/", timeout=0.01)

    assert ended.wait(WAIT_S_MAX)


def test_an_application_that_breaks_off_is_a_broken_answer(portal: BlockingPortal) -> None:
    async def broken(_scope: object, _receive: object, _send: object) -> None:
        raise ZeroDivisionError

    with pytest.raises(httpx.RemoteProtocolError, match="ZeroDivisionError"):
        client_of(portal, broken).get("/")


def test_an_application_is_only_so_far_ahead_of_its_reader(portal: BlockingPortal) -> None:
    sent = 0

    async def flood(scope: object, receive: object, send: Any) -> None:  # noqa: ANN401 — ASGI's
        nonlocal sent
        del scope, receive
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(10 * AHEAD_MOST):
            await send({"type": "http.response.body", "body": b"x", "more_body": True})
            sent += 1
        await send({"type": "http.response.body"})

    with client_of(portal, flood).stream("GET", "/") as answer:
        portal.call(anyio.lowlevel.checkpoint)
        ahead = sent
        length = len(answer.read())

    assert ahead <= AHEAD_MOST
    assert length == 10 * AHEAD_MOST
