"""Keeping leases alive from a thread of its own, and knowing when they are lost (D2).

    trusted ──half the horizon is over──▶ beat ──answered: renewed──▶ trusted, counted from when the beat was sent
       │                                   ├──answered: the tenure is over──▶ lost
       │                                   └──no answer──▶ trusted, next beat soon
       └──the trust window is over──▶ one last renewal decides ──▶ trusted (resumed) │ lost

**Trust window.** A lease is trusted for the horizon the server answered with,
counted from the moment the answered request was *first sent*, on a clock that
goes on while the machine sleeps. Of several answers the latest end counts. The
server counts from when it ran the request, which is later, so the window
closes on this side first, whatever either clock says the time is.

**Who decides what.** The server says who holds; this module says whether the
holder may still act on what it was told. A beat without an answer, or with one
that is not about the lease (401, 500), decides nothing before the window is
over. Every renewal names its tenure's epoch: it resumes a tenure that lapsed
unused, and never acquires.

**What a crash leaves.** Nothing: the lease lapses by itself.

The thread only waits and calls `tick`, which does one round; tests call it
themselves. It uses connections of its own, so nothing that the work sends can
hold it up. Work that blocks does not delay it at all; work that computes
delays it by the interpreter's switching interval.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from batonpass.client import calls
from batonpass.client.client import ONCE, Client, Patience
from batonpass.core.errors import BatonError, LeaseLost, NotFound
from batonpass.core.ids import Fence, Resource
from batonpass.core.leases import LeaseView
from batonpass.core.points import reach
from batonpass.wire.leases import BulkRenewReply, lease_view

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
NODES_A_BEAT_MAX: Final = 200
"""How many leases one bulk call takes (D7)."""
OVER: Final = frozenset({LeaseLost.code, NotFound.code})
"""Codes of a failed renewal that say the tenure is over; any other says nothing about it."""


def boottime() -> float:
    """Return seconds on a clock that nobody sets and that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Kept:
    """One tenure being kept, on the heartbeat's clock: trusted until then, next beat at `due_s`."""

    fence: Fence
    trusted_until_s: float
    due_s: float

    def renewed(self, horizon_s: float, *, sent_at_s: float) -> Kept:
        """Return it after an answer to a request first sent at `sent_at_s`; an end already promised stays."""
        return replace(
            self,
            trusted_until_s=max(self.trusted_until_s, sent_at_s + horizon_s),
            due_s=sent_at_s + horizon_s / 2,
        )

    def missed(self, now_s: float) -> Kept:
        """Return it after a beat without an answer: try again soon, at the latest when the window closes."""
        left_s = self.trusted_until_s - now_s
        pause_s = min(max(left_s / MISSED_SHARE, MISSED_S_MIN), MISSED_S_MAX)
        return replace(self, due_s=min(now_s + pause_s, max(self.trusted_until_s, now_s)))


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
        on_lost: Callable[[Lost], None] | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._client = client.sibling()
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
        self.stop()

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

    def keep(self, fence: Fence, *, expires_in_ms: int, sent_at_s: float) -> None:
        """Keep a tenure granted by a request first sent at `sent_at_s` on this heartbeat's clock."""
        new = Kept(fence, trusted_until_s=sent_at_s, due_s=sent_at_s)
        with self._state:
            present = self._kept.get(fence.resource)
            base = present if present is not None and present.fence == fence else new
            self._kept[fence.resource] = base.renewed(expires_in_ms / 1000, sent_at_s=sent_at_s)
            self._lost.pop(fence.resource, None)
        self._wake.set()

    def drop(self, resource: Resource) -> None:
        """Beat for `resource` no more; an answer still on its way is ignored."""
        with self._state:
            self._kept.pop(resource, None)

    @property
    def lost(self) -> Mapping[Resource, Lost]:
        """Return what has been lost so far."""
        with self._state:
            return dict(self._lost)

    def check(self, resource: Resource) -> None:
        """Return if the tenure may still be acted on; raise `LeaseLost` if not.

        When the trust window is over this asks the server once more itself, so
        the answer is never older than the window.
        """
        if not self._trusted(resource):
            with self._round:  # a round that is deciding this very question is waited for
                if not self._trusted(resource):
                    self.tick()
        with self._state:
            lost = self._lost.get(resource)
            kept = resource in self._kept
        if lost is not None:
            raise lost.error()
        if not kept:
            raise LeaseLost(f"the lease on {resource} is not being kept: it was handed back")

    def tick(self) -> float | None:
        """Do one round: send the beats that are due. Return the seconds until the next, None when nothing is kept."""
        with self._round:
            now_s = self.clock()
            kept = self._snapshot()
            over = [one for one in kept if now_s >= one.trusted_until_s]
            rest = [one for one in kept if now_s < one.trusted_until_s]
            if over:
                self._beat(over, self._deciding, answer_s_max=DECIDING_S_MAX, last=True)
            if any(one.due_s <= now_s for one in rest):
                left_s = min(one.trusted_until_s for one in rest) - now_s
                self._beat(rest, ONCE, answer_s_max=min(max(left_s, BEAT_S_MIN), BEAT_S_MAX), last=False)
            dues = [min(one.due_s, one.trusted_until_s) for one in self._snapshot()]
            return max(min(dues) - self.clock(), 0.0) if dues else None

    def _run(self) -> None:
        while not self._stopping.is_set():
            left_s = self.tick()
            self._wake.wait(SLICE_S_MAX if left_s is None else min(left_s, SLICE_S_MAX))
            self._wake.clear()

    @property
    def _deciding(self) -> Patience:
        return replace(self._client.patience, tries_max=DECIDING_TRIES_MAX)

    def _snapshot(self) -> list[Kept]:
        with self._state:
            return list(self._kept.values())

    def _trusted(self, resource: Resource) -> bool:
        with self._state:
            kept = self._kept.get(resource)
        return kept is not None and self.clock() < kept.trusted_until_s

    def _beat(self, kept: Sequence[Kept], patience: Patience, *, answer_s_max: float, last: bool) -> None:
        """Renew `kept`, one request for all that fit in one, and act on the answers."""
        for start in range(0, len(kept), NODES_A_BEAT_MAX):
            some = kept[start : start + NODES_A_BEAT_MAX]
            call = replace(calls.renew_many([one.fence for one in some]), answer_s_max=answer_s_max)
            sent_at_s = self.clock()
            reach("beat.sent")
            try:
                reply = self._client.send(call, patience=patience)
            except BatonError as error:
                reach("beat.answered")
                self._unanswered(some, error.message, last=last)
            else:
                reach("beat.answered")
                self._answered(some, reply, sent_at_s=sent_at_s, last=last)

    def _answered(self, some: Sequence[Kept], reply: BulkRenewReply, *, sent_at_s: float, last: bool) -> None:
        horizons = dict(_horizons(reply))
        failed = {each.node_id: each for each in reply.failed}
        for one in some:
            resource = one.fence.resource
            refusal = failed.get(resource)
            if resource in horizons:
                self._renewed(one.fence, horizons[resource], sent_at_s=sent_at_s)
            elif refusal is not None and refusal.code in OVER:
                holder = lease_view(refusal.holder) if refusal.holder is not None else None
                self._lose(Lost(one.fence, refusal.message, holder))
            else:
                why = refusal.message if refusal is not None else "the server's answer leaves it out"
                self._unanswered([one], why, last=last)

    def _renewed(self, fence: Fence, horizon_s: float, *, sent_at_s: float) -> None:
        with self._state:
            present = self._kept.get(fence.resource)
            if present is not None and present.fence == fence:
                self._kept[fence.resource] = present.renewed(horizon_s, sent_at_s=sent_at_s)

    def _unanswered(self, some: Sequence[Kept], why: str, *, last: bool) -> None:
        now_s = self.clock()
        for one in some:
            if last:
                self._lose(Lost(one.fence, f"the lease on {one.fence.resource} could not be renewed in time: {why}"))
                continue
            with self._state:
                present = self._kept.get(one.fence.resource)
                if present is not None and present.fence == one.fence:
                    self._kept[one.fence.resource] = present.missed(now_s)

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


def _horizons(reply: BulkRenewReply) -> Iterator[tuple[str, float]]:
    """Return how long each renewed lease has, in seconds from when the call ran.

    The reply tells it for the one that ends soonest; how much later the others
    end follows from their times, which are all of one clock: the server's.
    """
    if reply.expires_in_ms is None:
        return
    soonest = min((lease.expires for lease in reply.leases), default=0)
    for lease in reply.leases:
        yield lease.node_id, (reply.expires_in_ms + lease.expires - soonest) / 1000
