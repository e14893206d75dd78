"""What a worker works with, and what it remembers from one round to the next."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from batonpass.core.ids import RunId
from batonpass.worker.breaker import Breakers
from batonpass.worker.cooling import RETRY_AFTER, Cooling
from batonpass.worker.dispatch.launch import Order, Starter
from batonpass.worker.graph import Graph, Item
from batonpass.worker.journal import Journal
from batonpass.worker.settings import Settings

PAGE: Final = 25
"""How many items the first look takes; it doubles while nothing on the page may be taken."""
PAGE_MAX: Final = 1_000
"""How far down the queue a worker looks at most."""


@dataclass(slots=True)
class Width:
    """How many items a look takes: `base` at first, twice as many while none of them may be taken, and that is kept.

    It comes back to `base` once something was found that a narrow page would have shown.
    """

    base: int = PAGE
    now: int = PAGE

    @classmethod
    def of(cls, concurrency: int) -> Width:
        """Return the width that begins with four items for each slot."""
        base = min(max(PAGE, 4 * concurrency), PAGE_MAX)
        return cls(base, base)

    def widen(self) -> bool:
        """Look further down from now on; False when it can't."""
        if self.now >= PAGE_MAX:
            return False
        self.now = min(2 * self.now, PAGE_MAX)
        return True

    def found(self, place: int) -> None:
        """Note that something could be taken, the `place`-th of the page."""
        if place < self.base:
            self.now = self.base


@dataclass(frozen=True, slots=True)
class Worker:
    """What a worker works with.

    `now` is the time that records show, `clock` counts seconds and is never set. `starter` starts the supervisors of
    its runs. `stopping` says that nothing more is to be taken, `interrupted` ends the runs that are followed as well,
    `leaving` leaves them to their supervisors. `say` gets a line for a person at every turn. `order_for` makes of
    `order` the order for one item, and raises `LaunchRefused` when this box can't do it. `news` gets something
    whenever there is a reason to look up.
    """

    graph: Graph
    settings: Settings
    order: Order
    now: Callable[[], datetime]
    interrupted: threading.Event
    say: Callable[[str], None]
    starter: Starter
    stopping: threading.Event = field(default_factory=threading.Event)
    leaving: threading.Event = field(default_factory=threading.Event)
    clock: Callable[[], float] = time.monotonic
    order_for: Callable[[Order, Item], Order] = lambda order, _item: order
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    retry_after_s: float = RETRY_AFTER.total_seconds()
    width: Width = field(default_factory=Width)
    news: queue.SimpleQueue[None] = field(default_factory=queue.SimpleQueue)
    cooling: Cooling = field(init=False)
    unmirrored: set[RunId] = field(default_factory=set)
    """Runs that the server will have no copy of, so that it is not asked each round."""

    def __post_init__(self) -> None:
        """Begin with nothing that cools off."""
        object.__setattr__(self, "cooling", Cooling(self.retry_after_s, self.clock))

    @property
    def journal(self) -> Journal:
        """The records of this box's runs."""
        return Journal(self.settings.home)

    @property
    def breakers(self) -> Breakers:
        """The breakers of this box's harnesses."""
        return Breakers(self.settings.home)

    def tell(self) -> None:
        """Have the worker look up; safe in a signal's handler, which may have stopped the worker anywhere."""
        self.news.put(None)
