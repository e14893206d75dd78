"""Lines of a child's output: whole, in order, bytes as they came, through a real pipe."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.worker.printed import LINE_BYTES_MAX, Line, Printed


class Pipe:
    """A pipe that a test writes into, and the lines that come out of it."""

    def __init__(self) -> None:
        heard, self.spoken = os.pipe()
        os.set_blocking(heard, False)
        self.ended = threading.Event()
        self.lines = Printed(heard, self.ended).lines()

    def say(self, text: bytes) -> None:
        os.write(self.spoken, text)

    def close(self) -> None:
        os.close(self.spoken)

    def rest(self) -> list[Line]:
        self.ended.set()
        return list(self.lines)


class EndsWhenWaitedFor(threading.Event):
    """The end of a run that comes when somebody waits for it."""

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is None, "there is nothing to look for meanwhile"
        self.set()
        return True


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.rest()


def texts(lines: Sequence[Line]) -> list[bytes | None]:
    return [line.text for line in lines]


def test_a_line_comes_as_soon_as_it_is_whole(pipe: Pipe) -> None:
    pipe.say(b"one\ntw")

    assert next(pipe.lines) == Line(1, b"one")

    pipe.say(b"o\n")
    assert next(pipe.lines) == Line(2, b"two")
    pipe.close()


def test_the_last_line_needs_no_end_and_is_known_as_the_last(pipe: Pipe) -> None:
    pipe.say(b"one\ntwo\nthree")
    pipe.close()

    assert pipe.rest() == [Line(1, b"one"), Line(2, b"two"), Line(3, b"three", last=True)]


def test_nothing_is_the_last_of_nothing(pipe: Pipe) -> None:
    pipe.close()

    assert pipe.rest() == []


def test_only_lf_ends_a_line(pipe: Pipe) -> None:
    """What other readers of lines take for an end, in the bytes that they would meet here."""
    text = b"a\rb\x0bc\x0cd\x1ce\xc2\x85f\xe2\x80\xa8g\x00h\xff"
    pipe.say(text + b"\n")
    pipe.close()

    assert texts(pipe.rest()) == [text]


def test_whoever_still_holds_the_other_end_decides_nothing(pipe: Pipe) -> None:
    pipe.say(b"one\n")

    assert texts(pipe.rest()) == [b"one"]
    pipe.close()


def test_an_output_closed_early_is_waited_over() -> None:
    """The child goes on without it: its end is not the end of the run."""
    heard, spoken = os.pipe()
    os.set_blocking(heard, False)
    end = EndsWhenWaitedFor()
    os.write(spoken, b"one\n")
    os.close(spoken)

    assert texts(list(Printed(heard, end).lines())) == [b"one"]
    assert end.is_set(), "the end was waited for"


def test_a_line_that_is_too_long_is_named_and_the_next_is_whole(pipe: Pipe) -> None:
    def speak() -> None:
        with os.fdopen(pipe.spoken, "wb") as out:
            out.write(b"x" * LINE_BYTES_MAX + b"\n" + b"y" * (LINE_BYTES_MAX + 1) + b"\n{}\n")

    speaker = threading.Thread(target=speak)
    speaker.start()
    longest, too_long, after = (next(pipe.lines) for _ in range(3))
    speaker.join(10)

    assert longest.text is not None
    assert len(longest.text) == LINE_BYTES_MAX
    assert (too_long, after) == (Line(2, None), Line(3, b"{}"))


@settings(max_examples=60)
@given(st.binary(max_size=300), st.integers(1, 9))
def test_every_byte_comes_out_once_and_in_order(text: bytes, size: int) -> None:
    pipe = Pipe()
    for at in range(0, len(text), size):
        pipe.say(text[at : at + size])
    pipe.close()

    lines = pipe.rest()

    whole = b"\n".join(line.text or b"" for line in lines)
    assert whole + (b"\n" if text.endswith(b"\n") else b"") == text
    assert [line.number for line in lines] == list(range(1, len(lines) + 1))
    assert [line.last for line in lines] == [False] * (len(lines) - 1) + [True] * (len(lines) > 0)
