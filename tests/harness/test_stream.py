"""A growing log is read line by line: any bytes, any length, bounded memory."""

from __future__ import annotations

import time
import tracemalloc
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.worker.harness.stream import CHUNK_BYTES, LINE_BYTES_MAX, Line, LogLines, Splitter

if TYPE_CHECKING:
    from pathlib import Path


def split(chunks: list[bytes], *, line_bytes_max: int = LINE_BYTES_MAX) -> list[Line]:
    splitter = Splitter(line_bytes_max=line_bytes_max)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    last = splitter.unfinished()
    return [*lines, last] if last else lines


def cut_at(data: bytes, places: list[int]) -> list[bytes]:
    ends = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in pairwise(ends)]


@given(
    data=st.lists(st.sampled_from([b"\n", b"\r", b"\0", b"\xe2\x80\xa8", b"\xf0\x9f", b"abc", b'{"a":1}'])).map(
        b"".join
    ),
    places=st.lists(st.integers(0, 200)),
    line_bytes_max=st.integers(1, 12),
)
def test_the_pieces_that_bytes_arrive_in_change_no_line(data: bytes, places: list[int], line_bytes_max: int) -> None:
    *ended, rest = data.split(b"\n")
    whole = ended + ([rest] if rest else [])
    expected = [Line(each[:line_bytes_max], len(each) > line_bytes_max) for each in whole]

    assert split(cut_at(data, places), line_bytes_max=line_bytes_max) == expected


def test_only_a_line_feed_ends_a_line() -> None:
    inside = "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\rh\0i".encode()

    assert split([inside + b"\r\nnext"]) == [Line(inside + b"\r"), Line(b"next")]


def test_bytes_that_are_no_utf_8_stop_nothing_and_read_as_replacement_characters() -> None:
    lines = split([b"caf\xe9\nbroken \xf0\x9f\x98", b"\x97\n", b"\xed\xa0\x80\nok\n"])

    assert [line.text for line in lines] == [
        "caf\ufffd",
        "broken \U0001f617",
        "\ufffd\ufffd\ufffd",
        "ok",
    ]
    assert lines[0].data == b"caf\xe9"


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2_000_000])
@pytest.mark.parametrize("end", [b"\n", b""])
def test_a_long_line_is_whole(tmp_path: Path, size: int, end: bytes) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"small\n" + b"x" * size + end)
    with LogLines(log) as lines:
        ended = list(lines.lines())
        last = lines.unfinished()

    assert [*ended, *([last] if last else [])] == [Line(b"small"), Line(b"x" * size)]


def test_of_a_line_of_60_mb_the_head_is_kept_and_the_next_line_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as file:
        for _ in range(60):
            file.write(b"x" * 1_000_000)
        file.write(b"\nafter\n")

    tracemalloc.start()
    begun = time.process_time()
    with LogLines(log) as lines:
        first, second = lines.lines()
    seconds = time.process_time() - begun
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert (len(first.data), first.is_cut) == (LINE_BYTES_MAX, True)
    assert second == Line(b"after")
    assert peak_bytes < 3 * LINE_BYTES_MAX
    assert seconds < 2, "about 0.05 s of work: nothing may look at each byte in Python"


def test_a_log_is_followed_as_it_grows(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("ab", buffering=0) as writer, LogLines(log) as lines:
        assert lines.take() is None
        writer.write(b"one\ntw")

        assert list(lines.lines()) == [Line(b"one")]
        assert lines.unfinished() == Line(b"tw")

        writer.write(b"o\n\nthree")

        assert list(lines.lines()) == [Line(b"two"), Line(b"")]
        assert lines.take() is None
        assert lines.unfinished() == Line(b"three")


@given(data=st.lists(st.sampled_from([b"\n", b"ab", b"\xff" * 30])).map(b"".join), stop_after=st.integers(0, 20))
def test_a_log_is_gone_on_with_where_somebody_else_stopped(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, stop_after: int
) -> None:
    log = tmp_path_factory.mktemp("log") / "log"
    log.write_bytes(data[:stop_after])
    with LogLines(log, line_bytes_max=8) as before:
        first = list(before.lines())
    log.write_bytes(data)
    with LogLines(log, offset=before.offset, line_bytes_max=8) as after:
        second = list(after.lines())
        last = after.unfinished()

    assert [*first, *second, *([last] if last else [])] == split([data], line_bytes_max=8)
    assert after.offset == data.rfind(b"\n") + 1


def test_a_log_that_was_emptied_under_us_has_no_more_lines(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n")
    with LogLines(log) as lines:
        assert len(list(lines.lines())) == 2
        log.write_bytes(b"")

        assert lines.take() is None
