"""Requests that arrive while a set is under way become the next set.

A queue in front of the list-shaped lease engine. It has no timer: a lone
request runs at once, and what has gathered when the set before returns is
taken together, so a busy server pays for one transaction where it would have
paid for a hundred. Items stay independent: one whose row somebody else holds
locked, or whose set met an error of the database, is asked for alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from batonpass.core import points
from batonpass.core.errors import Unknown

SET_MAX: Final = 256
"""How many requests one transaction decides at most."""

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
    answers: dict[int, R | _Failed] = field(default_factory=dict)

    def settle(self, place: int, answer: R | _Failed) -> None:
        """Note the answer of one ask."""
        self.answers[place] = answer
        if len(self.answers) == len(self.asks) and not self.settled.done():
            self.settled.set_result(None)

    def results(self) -> list[R]:
        """Return the answers in order, or raise the first failure."""
        results: list[R] = []
        for place in range(len(self.asks)):
            answer = self.answers[place]
            if isinstance(answer, _Failed):
                raise answer.error
            results.append(answer)
        return results


@dataclass(frozen=True, slots=True)
class _Failed:
    """The answer of an ask that the database failed."""

    error: Exception


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[A, R]):
    """One ask of a submission."""

    submission: _Submission[A, R]
    place: int

    @property
    def ask(self) -> A:
        """Return what is asked."""
        return self.submission.asks[self.place]

    def settle(self, answer: R | _Failed) -> None:
        """Hand over the answer."""
        self.submission.settle(self.place, answer)


class Coalescer(Generic[A, R]):
    """Feeds `run_set`, one set at a time; `run_alone` waits for what a set would not."""

    def __init__(
        self,
        run_set: Callable[[Sequence[A]], Awaitable[Sequence[R | Alone]]],
        run_alone: Callable[[A], Awaitable[R]],
    ) -> None:
        self._run_set = run_set
        self._run_alone = run_alone
        self._waiting: deque[_Waiting[A, R]] = deque()
        self._draining: asyncio.Task[None] | None = None
        self._alone: set[asyncio.Task[None]] = set()

    async def submit(self, asks: Sequence[A]) -> list[R]:
        """Return the answer of each of `asks`, in order. A failure of the database raises."""
        submission: _Submission[A, R] = _Submission(asks, asyncio.get_running_loop().create_future())
        self._waiting.extend(_Waiting(submission, place) for place in range(len(asks)))
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain(), name="lease sets")
        await submission.settled
        return submission.results()

    async def _drain(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(SET_MAX, len(self._waiting)))]
            await points.areach("batch.taken")
            try:
                answers = await self._run_set([one.ask for one in taken])
            except Unknown as error:
                for one in taken:
                    one.settle(_Failed(error))
            except Exception:  # noqa: BLE001  # one item's trouble must not be the others': each gets its own answer
                self._ask_alone(taken)
            else:
                await points.areach("batch.returned")
                self._deliver(taken, answers)

    def _deliver(self, taken: Sequence[_Waiting[A, R]], answers: Sequence[R | Alone]) -> None:
        for one, answer in zip(taken, answers, strict=True):
            if isinstance(answer, Alone):
                self._ask_alone([one])
            else:
                one.settle(answer)

    def _ask_alone(self, taken: Sequence[_Waiting[A, R]]) -> None:
        for one in taken:
            task = asyncio.create_task(self._run_one(one), name="lease alone")
            self._alone.add(task)
            task.add_done_callback(self._alone.discard)

    async def _run_one(self, one: _Waiting[A, R]) -> None:
        try:
            answer = await self._run_alone(one.ask)
        except Exception as error:  # noqa: BLE001  # it is raised where the request waits
            one.settle(_Failed(error))
        else:
            one.settle(answer)
