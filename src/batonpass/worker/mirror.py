"""The server's copy of a run: its record and the end of its log, pushed while it runs and once it is settled (D39).

A team sees its whole fleet by these copies; nothing of a run depends on them.
So every push is a best effort: one try for each request, bounded in time and
size, and an error is an answer (`Pushed.why`), never raised. While the run
goes on, `Mirroring` pushes on a thread of its own. What could not be sent, the
next `catch_up` sends: a record says in `mirrored_at` when the server last got
all of it, and `owed` compares that with what has happened since.

Tokens of ours are masked in all that is sent. The mask, and what stands for
bytes that are no text, is as long as what it covers: an offset in the server's
copy is the same offset in the file.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self

from batonpass.core.errors import BatonError, Forbidden, Invalid, NotFound
from batonpass.core.ids import RunId
from batonpass.core.runs import LOG_BYTES_KEPT
from batonpass.worker.errors import RunBusy, WorkerError
from batonpass.worker.graph import Graph
from batonpass.worker.journal import HeldRun, Journal, RunFolder
from batonpass.worker.record import RunRecord, as_json, timestamp

PUSH_S_MAX: Final = 10.0
"""After how long a push sends no further request; the one in flight has its own few seconds."""
EVERY_S: Final = 15.0
"""How often a run that goes on is pushed."""
EVERY_S_MAX: Final = 300.0
"""How rarely, while the server does not answer."""
CHUNK_BYTES: Final = 64 * 1024
"""How much of a log one request has: even if every byte of it takes six in JSON, far below a body's limit."""
CATCH_UP_MAX: Final = 20
"""How many runs one `catch_up` sends: it is a part of every round of a worker."""

_SECRET: Final = re.compile(rb"(?<=bat_)(?:pat|agt|key)_[A-Za-z0-9_-]+")
_SECRET_BYTES_MAX: Final = 64
"""More than a token of ours is long."""
_PERHAPS_SECRET: Final = re.compile(rb"b(?:a(?:t(?:_[A-Za-z0-9_-]{0,60})?)?)?\Z")
_UNSTORABLE: Final = re.compile("[\x00\udc80-\udcff]")
_LEAD_BYTE, _TWO_BYTES, _THREE_BYTES, _FOUR_BYTES = 0x80, 0xC0, 0xE0, 0xF0


@dataclass(frozen=True, slots=True)
class Pushed:
    """Whether the server has all of the run now, and why it hasn't if not."""

    whole: bool
    why: str = ""


@dataclass(slots=True)
class Mirror:
    """Pushes runs to the server of `graph`; one that is the journal of another server's is left alone.

    `graph` is under the token of the runs' agent, or of its owner. `now` is
    the time that records show; `clock` counts seconds and is never set. `refused`
    are runs that the server will have nothing of.
    """

    graph: Graph
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    clock: Callable[[], float] = time.monotonic
    refused: set[RunId] = field(default_factory=set)

    def push(self, run: HeldRun) -> Pushed:
        """Send the run's record and what is new of its log, and note it in the record when all of it was taken.

        Blocks for `PUSH_S_MAX` and the few seconds of one request at most.
        """
        try:
            record = run.read()
            if record.server != self.graph.server:
                return Pushed(whole=False, why=f"the run belongs to {record.server}")
            asked_at = self.now()
            whole = self._send(run, record, over=record.state.is_final)
            if whole:
                run.change(record, mirrored_at=timestamp(asked_at))
            return Pushed(whole, "" if whole else "there was no time for all of the log")
        except (BatonError, WorkerError, OSError, ValueError) as error:
            return Pushed(whole=False, why=str(error))

    def catch_up(self, journal: Journal) -> int:
        """Send what the server lacks of runs that nobody holds, the newest first, and return how many it has now.

        The first request that is not answered ends it, so a server that is
        away costs one try; so does `PUSH_S_MAX`. What the server refuses is
        noted in `refused`, and not sent again.
        """
        began, sent, tried = self.clock(), 0, 0
        for folder, known in reversed(journal.records()):
            if tried >= CATCH_UP_MAX or self.clock() - began >= PUSH_S_MAX:
                break
            if not self._is_wanted(known):
                continue
            tried += 1
            try:
                with folder.locked() as run:
                    record = run.read()
                    if owed(record) and self._send(run, record, over=True):
                        run.change(record, mirrored_at=timestamp(self.now()))
                        sent += 1
            except (Forbidden, Invalid, NotFound):
                self.refused.add(RunId(folder.path.name))
            except RunBusy:
                continue
            except (BatonError, WorkerError, OSError, ValueError):
                break
        return sent

    def _is_wanted(self, record: RunRecord) -> bool:
        return record.run_id not in self.refused and record.server == self.graph.server and owed(record)

    def _send(self, run: HeldRun, record: RunRecord, *, over: bool) -> bool:
        """Send record and log; return False when time was up before the log's end."""
        began = self.clock()
        end = self.graph.put_run(record.run_id, scrubbed(as_json(record)))
        for offset, text in pieces(run, after=end, over=over):
            if self.clock() - began >= PUSH_S_MAX:
                return False
            self.graph.put_log(record.run_id, offset=offset, text=text)
        return True


class Mirroring:
    """Pushes one run on a thread of its own for as long as the block lasts, so that nobody waits for a push.

    Leaving the block waits for a push in flight, `PUSH_S_MAX` at most. The
    run's last record is not pushed by it: whoever settled the run does that.
    """

    def __init__(self, mirror: Mirror, run: HeldRun) -> None:
        self._mirror = mirror
        self._run = run
        self._over = threading.Event()
        self._nudged = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name=f"mirror-{run.path.name[:8]}", daemon=True)

    def __enter__(self) -> Self:
        """Begin with a push at once."""
        self._nudged.set()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Push no more."""
        self._over.set()
        self._nudged.set()
        self._thread.join(PUSH_S_MAX)

    def nudge(self) -> None:
        """Push soon: something happened that others want to see."""
        self._nudged.set()

    def _go_on(self) -> None:
        pause_s = EVERY_S
        while True:
            self._nudged.wait(pause_s)
            self._nudged.clear()
            if self._over.is_set():
                return
            pause_s = EVERY_S if self._mirror.push(self._run).whole else min(2 * pause_s, EVERY_S_MAX)


def owed(record: RunRecord) -> bool:
    """Return whether something has happened to the run since the server last got all of it."""
    if record.mirrored_at is None:
        return True
    moments = (record.created_at, record.started_at, record.finished_at, record.contract_settled_at)
    mirrored = datetime.fromisoformat(record.mirrored_at)
    return any(datetime.fromisoformat(moment) > mirrored for moment in moments if moment is not None)


def scrubbed(value: Any) -> Any:  # noqa: ANN401 — JSON in, JSON out
    """Return what JSON holds with our tokens masked and what no database keeps replaced, keys left as they are."""
    match value:
        case str():
            return _text(_masked(value.encode(errors="surrogatepass")))
        case list():
            return [scrubbed(each) for each in value]
        case dict():
            return {key: scrubbed(each) for key, each in value.items()}
        case _:
            return value


def pieces(run: RunFolder, *, after: int, over: bool) -> Iterator[tuple[int, str]]:
    """Return the log behind the byte `after` in pieces with their offsets, at most the last 256 KiB of it.

    While the log may grow, half a character and what may be half a token are
    left for the next time; once the run is `over`, all of it is given.
    """
    try:
        handle = os.open(run.log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    with os.fdopen(handle, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        offset = max(after, size - LOG_BYTES_KEPT)
        while offset < size:
            ends = min(size, offset + CHUNK_BYTES)
            piece = _piece(file.fileno(), offset, ends)
            whole = piece if over and ends == size else _without_halves(piece)
            if not whole:
                return
            yield offset, _text(whole)
            offset += len(whole)


def _piece(handle: int, offset: int, ends: int) -> bytes:
    """Return the bytes of a stretch, masked with a little of what stands before it: a token may have begun there."""
    begin = max(0, offset - _SECRET_BYTES_MAX)
    return _masked(os.pread(handle, ends - begin, begin))[offset - begin :]


def _masked(data: bytes) -> bytes:
    return _SECRET.sub(lambda found: found[0][:4] + b"*" * (len(found[0]) - 4), data)


def _without_halves(data: bytes) -> bytes:
    """Return `data` without the beginning of a token or character at its end, unless that is all there is."""
    if (found := _PERHAPS_SECRET.search(data)) is not None:
        data = data[: found.start()] or data
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < _LEAD_BYTE:
            break
        if byte >= _TWO_BYTES:
            needs = 2 + (byte >= _THREE_BYTES) + (byte >= _FOUR_BYTES)
            return data[:-back] if back < needs else data
    return data


def _text(data: bytes) -> str:
    """Return `data` as text of as many bytes, with a question mark for each byte that is none."""
    return _UNSTORABLE.sub("?", data.decode(errors="surrogateescape"))
