"""Keeping leases alive from a thread of its own, and knowing when they are lost (D2).

    trusted ──its share of the horizon is over──▶ beat ──answered: renewed──▶ trusted, counted from when it was sent
       │                                          ├──answered: the tenure is over──▶ lost
       │                                          └──no answer──▶ trusted, next beat soon
       └──the trust window is over──▶ one last renewal decides ──▶ trusted (resumed) │ lost

**Trust window.** A lease is trusted for the horizon the server answered with,
counted from the moment the answered request was *first sent*, on a clock that
goes on while the machine sleeps. Of several answers the latest end counts. The
server counts from when it ran the request, which is later, so the window
closes on this side first, whatever either clock says the time is.

**Who decides what.** The server says who holds; this module says whether the
holder may still act on what it was told. How a beat is sent and how often, for
nodes and for the tasks of records, is `client.renewals`'. A beat without an answer, or with one
that is not about the lease (401, 500), decides nothing before the window is
over. Every renewal names its tenure's epoch: it resumes a tenure that lapsed
unused, and never acquires.

**Settling.** Who is about to write for the last time settles a tenure: it sends
no further beat of its own accord, the beat in flight has been waited for, and
one whose answer was lost has been asked again, so that what was answered last
is what stands (a renewal moves a task's version).

**What a crash leaves.** Nothing: the lease lapses by itself.

The thread only waits and calls `tick`, which does one round; tests call it
themselves. It uses connections of its own, so nothing that the work sends can
hold it up. Work that blocks does not delay it at all; work that computes
delays it by the interpreter's switching interval.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self, assert_never

from batonpass.client.client import ONCE, Client, Patience
from batonpass.client.renewals import NodesInBulk, Over, Renewed, Renewing, Unclear
from batonpass.core.errors import LeaseLost
from batonpass.core.ids import Fence, Resource
from batonpass.core.leases import LeaseView
from batonpass.core.points import reach

BEAT_S_MAX: Final = 10.0
"""How long one beat waits for its answer; less when the window closes sooner."""
BEAT_S_MIN: Final = 1.0
DECIDING_TRIES_MAX: Final = 3
"""How often the last renewal is sent: a machine that has just woken up may not have its network yet."""
DECIDING_S_MAX: Final = 5.0
MISSED_SHARE: Final = 8
"""After a beat without an answer the next one follows within this share of what is left of the window."""
MISSED_S_MIN: Final = 0.25
MISSED_S_MAX: Final = 15.0
SLICE_S_MAX: Final = 10.0
"""Longest wait in one piece: the wait's own clock stands still while the machine sleeps, so ours is read again."""


def boottime() -> float:
    """Return seconds on a clock that nobody sets and that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Kept:
    """One tenure being kept, on the heartbeat's clock: trusted until then, next beat at `due_s`.

    `unsure` is one whose last beat had no answer, `settled` one that is not
    renewed any more unless somebody asks.
    """

    fence: Fence
    trusted_until_s: float
    due_s: float
    unsure: bool = False
    settled: bool = False

    def renewed(self, horizon_s: float, *, sent_at_s: float, due_share: float) -> Kept:
        """Return it after an answer to a request first sent at `sent_at_s`; an end already promised stays."""
        return replace(
            self,
            trusted_until_s=max(self.trusted_until_s, sent_at_s + horizon_s),
            due_s=sent_at_s + horizon_s * due_share,
            unsure=False,
        )

    def missed(self, now_s: float) -> Kept:
        """Return it after a beat without an answer: try again soon, at the latest when the window closes."""
        left_s = self.trusted_until_s - now_s
        pause_s = min(max(left_s / MISSED_SHARE, MISSED_S_MIN), MISSED_S_MAX)
        return replace(self, due_s=min(now_s + pause_s, max(self.trusted_until_s, now_s)), unsure=True)


@dataclass(frozen=True, slots=True)
class Lost:
    """A tenure that is over for us, and why; `holder` is who has the node now, where the server named one."""

    fence: Fence
    why: str
    holder: LeaseView | None = None

    def error(self) -> LeaseLost:
        """Return it as the error to raise: stop, and write nothing more under this tenure."""
        return LeaseLost(self.why, holder=self.holder)


class Heartbeat:
    """Keeps the tenures it is given until each is dropped or lost.

    `on_lost` is called once for each lost tenure, on the thread that found out;
    it may drop, keep and stop, and must not raise. `client` lends its address
    and token; the beats use connections of their own.
    """

    def __init__(
        self,
        client: Client,
        *,
        renewing: Renewing | None = None,
        on_lost: Callable[[Lost], None] | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._process = os.getpid()
        self._client = client.sibling()
        self._renewing = renewing or NodesInBulk()
        self._on_lost = on_lost
        self.clock = clock
        self._state = threading.Lock()
        self._kept: dict[Resource, Kept] = {}
        self._lost: dict[Resource, Lost] = {}
        self._round = threading.RLock()
        """Held for a whole round, so that a beat in flight is waited for and never sent twice at once."""
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_inherited:
            self.stop()

    @property
    def is_inherited(self) -> bool:
        """Whether this is the copy in a forked child: what is kept is the parent's, and so are the connections."""
        return os.getpid() != self._process

    def start(self) -> None:
        """Beat on a thread of its own until `stop`."""
        assert self._thread is None, "a heartbeat is started once"
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no further beat and wait for the one in flight; safe twice, and from `on_lost`."""
        self._stopping.set()
        self._wake.set()
        if self._thread is threading.current_thread():
            return
        if self._thread is not None:
            self._thread.join()
        self._client.close()

    def wake(self) -> None:
        """Look at the clock now: for whoever knows that it has leapt, as it does when a machine wakes up."""
        self._wake.set()

    def keep(self, fence: Fence, *, expires_in_ms: int, sent_at_s: float) -> None:
        """Keep a tenure granted by a request first sent at `sent_at_s` on this heartbeat's clock."""
        new = Kept(fence, trusted_until_s=sent_at_s, due_s=sent_at_s)
        with self._state:
            present = self._kept.get(fence.resource)
            base = present if present is not None and present.fence == fence else new
            self._kept[fence.resource] = self._after(base, expires_in_ms / 1000, sent_at_s=sent_at_s)
            self._lost.pop(fence.resource, None)
        self._wake.set()

    def drop(self, resource: Resource) -> None:
        """Beat for `resource` no more; an answer still on its way is ignored."""
        with self._state:
            self._kept.pop(resource, None)

    def settle(self, resource: Resource) -> None:
        """Send no further beat for `resource`, and return when what was answered last is what stands.

        The beat in flight is waited for; after one whose answer was lost the
        server is asked once more. Raises `LeaseLost` as `check` does.
        """
        reach("lease.settling")
        self._raise_if_lost(resource)
        with self._round:
            with self._state:
                kept = self._kept.get(resource)
                if kept is not None:
                    self._kept[resource] = kept = replace(kept, settled=True)
            if kept is not None and kept.unsure and self.clock() < kept.trusted_until_s:
                self._beat([kept], self._deciding, answer_s_max=DECIDING_S_MAX, last=False)
        self.check(resource)

    def give_up(self, lost: Lost) -> None:
        """Take a tenure for lost because the server said so to somebody else: to a write that named it."""
        self._lose(lost)

    @property
    def lost(self) -> Mapping[Resource, Lost]:
        """Return what has been lost so far."""
        with self._state:
            return dict(self._lost)

    def check(self, resource: Resource) -> None:
        """Return if the tenure may still be acted on; raise `LeaseLost` if not.

        When the trust window is over this asks the server once more itself, so
        the answer is never older than the window. A loss that is known is told
        at once, even while `on_lost` is still at it.
        """
        if not self._trusted(resource):
            self._raise_if_lost(resource)
            with self._round:  # a round that is deciding this very question is waited for
                over = [one for one in self._snapshot() if one.fence.resource == resource]
                if over and not self._trusted(resource):
                    self._decide(over)
        with self._state:
            kept, lost = resource in self._kept, self._lost.get(resource)
        if lost is not None:
            raise lost.error()
        if not kept:
            raise LeaseLost(f"the lease on {resource} is not being kept: it was handed back")

    def tick(self) -> float | None:
        """Do one round: send the beats that are due. Return the seconds until the next, None when nothing is kept."""
        with self._round:
            now_s = self.clock()
            kept = [one for one in self._snapshot() if not one.settled]
            over = [one for one in kept if now_s >= one.trusted_until_s]
            rest = [one for one in kept if now_s < one.trusted_until_s]
            if over:
                self._decide(over)
            if any(one.due_s <= now_s for one in rest):
                left_s = min(one.trusted_until_s for one in rest) - now_s
                self._beat(rest, ONCE, answer_s_max=min(max(left_s, BEAT_S_MIN), BEAT_S_MAX), last=False)
            dues = [min(one.due_s, one.trusted_until_s) for one in self._snapshot() if not one.settled]
            return max(min(dues) - self.clock(), 0.0) if dues else None

    def _run(self) -> None:
        while not self._stopping.is_set():
            left_s = self.tick()
            self._wake.wait(SLICE_S_MAX if left_s is None else min(left_s, SLICE_S_MAX))
            self._wake.clear()

    @property
    def _deciding(self) -> Patience:
        return replace(self._client.patience, tries_max=DECIDING_TRIES_MAX)

    def _decide(self, over: Sequence[Kept]) -> None:
        """Renew those whose window is over, for the last time unless the server says they stand."""
        self._beat(over, self._deciding, answer_s_max=DECIDING_S_MAX, last=True)

    def _snapshot(self) -> list[Kept]:
        with self._state:
            return list(self._kept.values())

    def _raise_if_lost(self, resource: Resource) -> None:
        with self._state:
            lost = self._lost.get(resource)
        if lost is not None:
            raise lost.error()

    def _trusted(self, resource: Resource) -> bool:
        with self._state:
            kept = self._kept.get(resource)
        return kept is not None and self.clock() < kept.trusted_until_s

    def _beat(self, kept: Sequence[Kept], patience: Patience, *, answer_s_max: float, last: bool) -> None:
        """Renew `kept`, as many in one request as it takes, and act on the answers."""
        for start in range(0, len(kept), self._renewing.a_request_max):
            fences = [one.fence for one in kept[start : start + self._renewing.a_request_max]]
            sent_at_s = self.clock()
            reach("beat.sent")
            renewals = self._renewing.renew(self._client, fences, patience=patience, answer_s_max=answer_s_max)
            reach("beat.answered")
            for renewal in renewals:
                match renewal:
                    case Renewed():
                        self._renewed(renewal, sent_at_s=sent_at_s)
                    case Over():
                        self._lose(Lost(renewal.fence, renewal.why, renewal.holder))
                    case Unclear():
                        self._unanswered(renewal, last=last)
                    case _:
                        assert_never(renewal)

    def _renewed(self, renewal: Renewed, *, sent_at_s: float) -> None:
        resource = renewal.fence.resource
        with self._state:
            present = self._kept.get(resource)
            if present is not None and present.fence == renewal.fence:
                self._kept[resource] = self._after(present, renewal.horizon_s, sent_at_s=sent_at_s)

    def _after(self, kept: Kept, horizon_s: float, *, sent_at_s: float) -> Kept:
        return kept.renewed(horizon_s, sent_at_s=sent_at_s, due_share=self._renewing.due_share)

    def _unanswered(self, renewal: Unclear, *, last: bool) -> None:
        resource = renewal.fence.resource
        if last:
            self._lose(Lost(renewal.fence, f"the lease on {resource} could not be renewed in time: {renewal.why}"))
            return
        with self._state:
            present = self._kept.get(resource)
            if present is not None and present.fence == renewal.fence:
                self._kept[resource] = present.missed(self.clock())

    def _lose(self, lost: Lost) -> None:
        resource = lost.fence.resource
        with self._state:
            present = self._kept.get(resource)
            if present is None or present.fence != lost.fence:
                return
            del self._kept[resource]
            self._lost[resource] = lost
        if self._on_lost is not None:
            self._on_lost(lost)
