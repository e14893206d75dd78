"""Requests that arrive while a set is under way become the next set.

A queue in front of what decides lists: the lease engine, or writes to records.
It has no timer: a lone
request runs at once, and what has gathered when the set before returns is
taken together, so a busy server pays for one transaction where it would have
paid for a hundred. Where the database lets writes go on side by side, and many
wait, there are two sets under way: one is decided while the other is on its way
to the disk.

Items stay independent. A set of lease requests holds each key once, so every
answer is the row as it is at COMMIT; of writes to records a set may hold
several to one. What somebody else holds locked is not waited for there:
it goes to the *lane* of its key, which waits with a transaction of its own,
one item after another; only a few lanes wait at a time, so that a row that is
stuck takes neither the sets nor the connections of everybody else. An item
whose set met a failure of the database is asked for by itself as well.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from batonpass.core import points
from batonpass.core.errors import BatonError, Unavailable
from batonpass.core.values import value

SET_MAX: Final = 256
"""How many requests one transaction decides at most."""
SETS_MAX: Final = 2
"""How many sets are under way at most; more would only make each smaller."""
FURTHER_SET_MIN: Final = 32
"""How many must wait before a set is begun beside another: the statements of a small one cost as much."""
LANES_MAX: Final = 4
"""How many rows are waited for at a time; each takes a connection."""
LANE_WAIT_S_MAX: Final = 15.0
"""How long an item may have stood in its lane; after that nobody waits for its answer any more, and it is not begun."""

A = TypeVar("A")
R = TypeVar("R")


class Alone:
    """The answer of an item that must be asked for by itself."""


ALONE: Final = Alone()


@dataclass(slots=True)
class _Submission(Generic[A, R]):
    """The asks of one caller, who is woken once, when each of them has its answer."""

    asks: Sequence[A]
    settled: asyncio.Future[None]
    answers: dict[int, R | BatonError | _Failed] = field(default_factory=dict)

    def settle(self, place: int, answer: R | BatonError | _Failed) -> None:
        """Note the answer of one ask."""
        self.answers[place] = answer
        if len(self.answers) == len(self.asks) and not self.settled.done():
            self.settled.set_result(None)

    def results(self) -> list[R | BatonError]:
        """Return the answers in order, or raise the first that is a fault of ours."""
        results: list[R | BatonError] = []
        for place in range(len(self.asks)):
            answer = self.answers[place]
            if isinstance(answer, _Failed):
                raise answer.error
            results.append(answer)
        return results


@value(frozen=True, slots=True)
class _Failed:
    """The answer of an ask at which something of ours broke."""

    error: Exception


@value(frozen=True, slots=True)
class _Waiting(Generic[A, R]):
    """One ask of a submission."""

    submission: _Submission[A, R]
    place: int
    until: float

    @property
    def ask(self) -> A:
        """Return what is asked."""
        return self.submission.asks[self.place]

    def settle(self, answer: R | BatonError | _Failed) -> None:
        """Hand over the answer."""
        self.submission.settle(self.place, answer)


class Coalescer(Generic[A, R]):
    """Feeds `run_set`, at most `sets_max` at a time; `run_alone` waits for what a set would not.

    A key is in one set at a time, so that no set finds another one in its way; and once in it, unless `key_repeats`:
    then `run_set` decides those that share one in their order, each on what the one before left.
    """

    def __init__(
        self,
        run_set: Callable[[Sequence[A]], Awaitable[Sequence[R | Alone]]],
        run_alone: Callable[[A], Awaitable[R]],
        *,
        key: Callable[[A], Hashable],
        sets_max: int = SETS_MAX,
        key_repeats: bool = False,
    ) -> None:
        self._run_set = run_set
        self._run_alone = run_alone
        self._key = key
        self._sets_max = min(sets_max, SETS_MAX)
        self._key_repeats = key_repeats
        self._waiting: deque[_Waiting[A, R]] = deque()
        self._draining = 0
        self._under_way: set[Hashable] = set()
        self._lanes: dict[Hashable, deque[_Waiting[A, R]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._lanes_free = asyncio.Semaphore(LANES_MAX)

    @property
    def waiting(self) -> int:
        """Return how many asks wait for the next set."""
        return len(self._waiting)

    async def submit(self, asks: Sequence[A]) -> list[R | BatonError]:
        """Return the answer of each of `asks`, in order; one that could not be had is its error, the others stand."""
        loop = asyncio.get_running_loop()
        submission: _Submission[A, R] = _Submission(asks, loop.create_future())
        until = loop.time() + LANE_WAIT_S_MAX
        self._waiting.extend(_Waiting(submission, place, until) for place in range(len(asks)))
        if self._draining < self._sets_max and self._worth_a_set(beside=self._draining):
            self._draining += 1
            self._start(self._drain(), "sets")
        await submission.settled
        return submission.results()

    async def _drain(self) -> None:
        try:
            while self._worth_a_set(beside=self._draining - 1) and (taken := self._take()):
                keys = {self._key(one.ask) for one in taken}
                self._under_way |= keys
                try:
                    await self._run(taken)
                finally:
                    self._under_way -= keys
        finally:
            # In the same step in which nothing was left to take: whoever submits next starts another.
            self._draining -= 1

    def _worth_a_set(self, *, beside: int) -> bool:
        return len(self._waiting) >= (FURTHER_SET_MIN if beside else 1)

    def _take(self) -> list[_Waiting[A, R]]:
        """Take the next set: in order of arrival; who asks for a key that is taken, comes later."""
        taken: list[_Waiting[A, R]] = []
        keys: set[Hashable] = set()
        later: list[_Waiting[A, R]] = []
        while self._waiting and len(taken) < SET_MAX:
            one = self._waiting.popleft()
            key = self._key(one.ask)
            if key in self._under_way or (key in keys and not self._key_repeats):
                later.append(one)
            else:
                taken.append(one)
                keys.add(key)
        self._waiting.extendleft(reversed(later))
        return taken

    async def _run(self, taken: Sequence[_Waiting[A, R]]) -> None:
        await points.areach("batch.taken")
        try:
            answers = await self._run_set([one.ask for one in taken])
        except BatonError as error:
            for one in taken:
                one.settle(error)
        except Exception:  # noqa: BLE001  # one item's trouble must not be the others': each gets its own answer
            for one in taken:
                self._join_lane(one)
        else:
            await points.areach("batch.returned")
            self._deliver(taken, answers)

    def _deliver(self, taken: Sequence[_Waiting[A, R]], answers: Sequence[R | Alone]) -> None:
        for one, answer in zip(taken, answers, strict=True):
            if isinstance(answer, Alone):
                self._join_lane(one)
            else:
                one.settle(answer)

    def _join_lane(self, one: _Waiting[A, R]) -> None:
        """Let an item wait for its key behind those that do already."""
        key = self._key(one.ask)
        lane = self._lanes.get(key)
        if lane is not None:
            lane.append(one)
            return
        self._lanes[key] = deque([one])
        self._start(self._run_lane(key), "lane")

    async def _run_lane(self, key: Hashable) -> None:
        lane = self._lanes[key]
        while lane:
            async with self._lanes_free:
                one = lane.popleft()
                one.settle(await self._alone(one))
        del self._lanes[key]

    async def _alone(self, one: _Waiting[A, R]) -> R | BatonError | _Failed:
        if asyncio.get_running_loop().time() > one.until:
            return Unavailable("somebody has held this row for too long; nothing was changed", retry_after_s=2)
        try:
            return await self._run_alone(one.ask)
        except BatonError as error:
            return error
        except Exception as error:  # noqa: BLE001  # it is raised where the request waits
            return _Failed(error)

    def _start(self, work: Coroutine[None, None, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
