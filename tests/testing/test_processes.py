from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from batonpass.testing.clock import SharedClock
from batonpass.testing.processes import server_process


@pytest.fixture
def clock(tmp_path: Path) -> SharedClock:
    return SharedClock(tmp_path / "clock")


def test_every_process_reads_the_moment_the_test_has_set(clock: SharedClock) -> None:
    other = SharedClock(clock.path)

    moved = clock.advance(timedelta(hours=-1))

    assert other.moment() == moved == clock.moment()


def test_a_killed_server_comes_back_at_its_address(database_url: str, clock: SharedClock) -> None:
    with server_process(database_url, clock=clock) as first:
        assert httpx.get(f"{first.url}/v1/status").status_code == httpx.codes.UNAUTHORIZED
        first.kill()
        with server_process(database_url, clock=clock, port=first.port) as second:
            assert second.url == first.url
            assert httpx.get(f"{second.url}/v1/status").status_code == httpx.codes.UNAUTHORIZED


def test_a_stopped_server_answers_when_it_is_resumed(sqlite_url: str, clock: SharedClock) -> None:
    with server_process(sqlite_url, clock=clock) as server:
        server.stop()
        with pytest.raises(httpx.TimeoutException):
            httpx.get(f"{server.url}/v1/status", timeout=0.1)
        server.resume()
        assert httpx.get(f"{server.url}/v1/status").status_code == httpx.codes.UNAUTHORIZED


def test_a_database_that_cannot_be_opened_is_an_error_here() -> None:
    with pytest.raises(RuntimeError, match="before it listened"), server_process("sqlite:////no/such/folder/b.db"):
        pass
