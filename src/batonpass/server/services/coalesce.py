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
from dataclasses import dataclass
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
class _Waiting(Generic[A, R]):
    ask: A
    answer: asyncio.Future[R]


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
        loop = asyncio.get_running_loop()
        waiting = [_Waiting(ask, loop.create_future()) for ask in asks]
        self._waiting += waiting
        if self._draining is None or self._draining.done():
            self._draining = asyncio.create_task(self._drain(), name="lease sets")
        await asyncio.wait([one.answer for one in waiting])
        return [one.answer.result() for one in waiting]

    async def _drain(self) -> None:
        while self._waiting:
            taken = [self._waiting.popleft() for _ in range(min(SET_MAX, len(self._waiting)))]
            await points.areach("batch.taken")
            try:
                answers = await self._run_set([one.ask for one in taken])
            except Unknown as error:
                for one in taken:
                    _fail(one, error)
            except Exception:  # noqa: BLE001  # one item's trouble must not be the others': each gets its own answer
                self._ask_alone(taken)
            else:
                await points.areach("batch.returned")
                self._deliver(taken, answers)

    def _deliver(self, taken: Sequence[_Waiting[A, R]], answers: Sequence[R | Alone]) -> None:
        for one, answer in zip(taken, answers, strict=True):
            if isinstance(answer, Alone):
                self._ask_alone([one])
            elif not one.answer.done():
                one.answer.set_result(answer)

    def _ask_alone(self, taken: Sequence[_Waiting[A, R]]) -> None:
        for one in taken:
            task = asyncio.create_task(self._run_one(one), name="lease alone")
            self._alone.add(task)
            task.add_done_callback(self._alone.discard)

    async def _run_one(self, one: _Waiting[A, R]) -> None:
        try:
            answer = await self._run_alone(one.ask)
        except Exception as error:  # noqa: BLE001  # it is raised where the request waits
            _fail(one, error)
        else:
            if not one.answer.done():
                one.answer.set_result(answer)


def _fail(one: _Waiting[A, R], error: Exception) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
