"""A lease as a `with` block: claim, keep alive, hand back.

    with client.lease("task-1") as lease:
        for part in work:
            lease.check()
            do(part)
            lease.client.send(…)

Each block is a launch of its own: it claims under a fresh dispatch nonce, so
a second block for the same node, even by the same agent, is refused while the
first is live (D6). It hands back only what it acquired itself, and only that
tenure (D2). A block whose lease was lost ends with `LeaseLost`, so that what
was done in it is not taken for done under the lease.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Final

from batonpass.client.blocks import handed_back
from batonpass.client.client import Client
from batonpass.client.heartbeat import Heartbeat, Lost, boottime
from batonpass.core.errors import LeaseLost
from batonpass.core.ids import Fence, NodeId, Resource
from batonpass.wire.leases import LeaseReply

ROUNDING_MS: Final = 2
"""Times and horizons on the wire are cut to milliseconds, each of them."""


class HeldLease:
    """A lease in the hands of this process. Made by `held`; valid inside its block."""

    def __init__(self, client: Client, reply: LeaseReply, heartbeat: Heartbeat, *, acquired: bool) -> None:
        self.node = NodeId(reply.lease.node_id)
        self.fence = Fence(Resource(reply.lease.node_id), reply.lease.epoch)
        """The tenure; ``str(lease.fence)`` is the value of an If-Lease header."""
        self.acquired = acquired
        """Whether this block began the tenure; one it only joined is not its to hand back."""
        self.session = reply.lease.session
        self.client = client.under(self.fence)
        """The client whose writes are refused once the tenure is over."""
        self._plain = client
        self._heartbeat = heartbeat
        self._handing_back = False
        self._handed_back = False

    def __repr__(self) -> str:
        return f"HeldLease({str(self.fence)!r})"

    @property
    def epoch(self) -> int:
        """The tenure's epoch."""
        return self.fence.epoch

    @property
    def lost(self) -> Lost | None:
        """Why the lease is lost, or None while it is trusted."""
        return self._heartbeat.lost.get(self.fence.resource)

    def check(self) -> None:
        """Return if the lease may still be acted on; raise `LeaseLost` if not. Cheap while it is trusted."""
        self._heartbeat.check(self.fence.resource)

    def extend(self, span: timedelta) -> LeaseReply:
        """Stretch the lease to `span` from now, for a gap in which nothing will be able to renew it."""
        sent_at_s = self._heartbeat.clock()
        reply = self._plain.extend(self.node, ms=span // timedelta(milliseconds=1), if_epoch=self.epoch)
        self._heartbeat.keep(self.fence, expires_in_ms=reply.expires_in_ms, sent_at_s=sent_at_s)
        return reply

    def reserve(self) -> LeaseReply:
        """End the tenure and park the node for its holder; the block then hands nothing back."""
        self._stop_keeping()
        reply = self._plain.reserve(self.node, if_epoch=self.epoch)
        self._handed_back = True
        return reply

    def release(self) -> None:
        """Hand the node back now, if this block acquired it; safe twice.

        `LeaseLost` when there was nothing to hand back: the tenure had ended
        before, and what was done since was not done under it. A release whose
        first answer got lost reads the same, and is better taken for that than
        the other way round. After any other error it may be called again.
        """
        self._stop_keeping()
        if self._handed_back or not self.acquired:
            return
        reply = self._plain.release(self.node, if_epoch=self.epoch)
        self._handed_back = True
        if reply.edge != "removed":
            raise LeaseLost(f"the tenure {self.epoch} of {self.node} had ended before it was handed back")

    def check_at_end(self) -> None:
        """Check as `check` does, unless the block has begun to hand the node back itself."""
        if not self._handing_back:
            self.check()

    def _stop_keeping(self) -> None:
        # Before the request: a beat that followed it would be told that the tenure is over, and call it lost.
        self._handing_back = True
        self._heartbeat.drop(self.fence.resource)


@contextmanager
def held(
    client: Client,
    node: NodeId,
    *,
    session: str | None = None,
    dispatch: str | None = None,
    on_lost: Callable[[Lost], None] | None = None,
    clock: Callable[[], float] = boottime,
) -> Iterator[HeldLease]:
    """Hold the lease on `node` while the block runs; a claim that is refused raises and the block never starts (D0).

    `dispatch` is the nonce of a launch that has written its own down; without
    it the block makes one. `on_lost` is called on the heartbeat's thread.
    """
    nonce = dispatch or uuid.uuid4().hex
    sent_at_s = clock()
    reply = client.claim(node, session=session, dispatch=nonce)
    acquired = began(reply, nonce=nonce, elapsed_s=clock() - sent_at_s)
    with Heartbeat(client, on_lost=on_lost, clock=clock) as heartbeat:
        lease = HeldLease(client, reply, heartbeat, acquired=acquired)
        heartbeat.keep(lease.fence, expires_in_ms=reply.expires_in_ms, sent_at_s=sent_at_s)
        with handed_back(lease, heartbeat, f"the lease on {node}"):
            yield lease


def began(reply: LeaseReply, *, nonce: str, elapsed_s: float) -> bool:
    """Whether the claim answered by `reply`, first sent `elapsed_s` ago under `nonce`, began its tenure.

    The answer to a first sending may have been lost; the repeated one is then
    told that nothing was added. So a tenure under this nonce that is no older
    than the first sending counts too, each age read off one clock only.
    """
    if reply.edge == "added":
        return True
    if reply.lease.dispatch != nonce or reply.lease.claimed_at is None:
        return False
    ran_at_ms = reply.lease.expires - reply.expires_in_ms
    claimed_at_ms = datetime.fromisoformat(reply.lease.claimed_at).timestamp() * 1000
    return ran_at_ms - claimed_at_ms <= elapsed_s * 1000 + ROUNDING_MS
