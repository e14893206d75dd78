"""What becomes of each line a child prints when the server is away, says no, or has given the task to another."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import cast

import pytest

from batonpass.client.heartbeat import Lost
from batonpass.client.task import HeldTask
from batonpass.core.errors import LeaseLost, ScopeDenied, Unavailable, Unknown
from batonpass.core.ids import Fence, Resource
from batonpass.worker import scribe
from batonpass.worker.instructions import Write
from batonpass.worker.printed import Printed
from batonpass.worker.scribe import Scribe, Tally

FENCE = Fence(Resource("record:incidents/a#remediation"), 1)


class Server:
    """A task whose writes are answered as a test says, one answer after the other, and well when none is left."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = deque(answers)
        self.lost: Lost | None = None
        self.sent: list[tuple[object, str]] = []
        self.settled_at: list[int] = []

    def settle(self) -> None:
        self.settled_at.append(len(self.sent))

    def write(self, writes: Sequence[Write], *, key: str) -> None:
        ((_, value), *_) = [(each, bytes(cast("bytes", each["append"]))) for each in writes]
        self.sent.append((int(value), key))
        answer = self.answers.popleft() if self.answers else None
        if isinstance(answer, LeaseLost):
            self.lost = Lost(FENCE, answer.message)
        if answer is not None:
            raise answer


class Heard:
    """What was passed on and told."""

    def __init__(self) -> None:
        self.passed: list[bytes] = []
        self.told: list[str] = []


def line(n: int) -> bytes:
    return b'{"append": {"field": "actions", "value": %d}}\n' % n


def written(
    server: Server,
    lines: Iterable[bytes],
    *,
    heard: Heard | None = None,
    pass_on: Callable[[bytes], None] | None = None,
) -> Tally:
    """Have the lines taken, all of them printed and the child over before the first one is read."""
    heard = heard or Heard()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"".join(lines))
    os.close(writing)
    ended = threading.Event()
    ended.set()
    scribing = Scribe(
        Printed(reading, ended),
        cast("HeldTask", server),
        checkpoint=None,
        ended=ended,
        pass_on=pass_on or heard.passed.append,
        tell=heard.told.append,
    )
    scribing.start()
    return scribing.finish()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is waited for between two tries."""
    monkeypatch.setattr(scribe, "AGAIN_S", 0.0)


def test_lines_are_written_in_order_each_under_a_key_of_its_own() -> None:
    server = Server()

    tally = written(server, [line(1), line(2), line(3)])

    assert tally == Tally(written=3)
    assert [value for value, _ in server.sent] == [1, 2, 3]
    assert len({key for _, key in server.sent}) == 3
    assert server.settled_at == [2], "the heart stops before the last line, and not before the others"


def test_a_line_without_an_answer_is_sent_again_under_the_same_key() -> None:
    server, heard = Server(None, Unavailable("away"), Unknown("lost"), None), Heard()

    tally = written(server, [line(1), line(2), line(3)], heard=heard)

    assert tally == Tally(written=3)
    assert [value for value, _ in server.sent] == [1, 2, 2, 2, 3]
    assert len({key for _, key in server.sent[1:4]}) == 1
    assert heard.told == ["line 2 is not written yet: away"], "it is told once"


def test_a_server_that_stays_away_leaves_that_line_and_all_after_it_unwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the server would answer again: what was printed later never stands without what came before."""
    monkeypatch.setattr(scribe, "AFTER_END_S_MAX", 0.0)
    server, heard = Server(None, Unavailable("away")), Heard()

    tally = written(server, [line(1), line(2), b"words\n", line(3)], heard=heard)

    assert tally == Tally(written=1, unwritten=2)
    assert [value for value, _ in server.sent] == [1, 2]
    assert heard.passed == [b"words\n"]


def test_a_refused_line_is_named_and_the_next_is_written() -> None:
    server, heard = Server(ScopeDenied("you may not write actions"), None), Heard()

    tally = written(server, [line(1), line(2)], heard=heard)

    assert tally == Tally(written=1, refused=1)
    assert heard.told == ["line 1 is not written: you may not write actions"]


def test_after_a_loss_nothing_is_sent_and_the_rest_is_still_passed_on() -> None:
    server, heard = Server(None, LeaseLost("agent-b1 has it")), Heard()

    tally = written(server, [line(1), line(2), line(3), b"words\n", line(4)], heard=heard)

    assert tally == Tally(written=1, unwritten=3)
    assert [value for value, _ in server.sent] == [1, 2]
    assert heard.passed == [b"words\n"]


def test_a_fault_of_ours_is_raised_where_the_end_is_waited_for() -> None:
    def fail(_: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        written(Server(), [b"words\n"], pass_on=fail)
