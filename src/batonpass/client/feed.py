"""The feed as a client reads it: call by call, or followed for as long as one likes (D15a).

    for happened in follow(client, after=position, project="web"):
        ...

What is followed is a series of requests that wait, each behind the one before.
A server that goes away is asked again until it is back, and nothing is missed
and nothing comes twice meanwhile. Whoever wants to go on after a restart of its
own keeps `position`, and reads what came after it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from batonpass.client.client import Client
from batonpass.client.feed_calls import About, get_events
from batonpass.core.errors import Unavailable
from batonpass.wire import events
from batonpass.wire.events import EventBody


class Following:
    """Events as they happen, without an end. `position` is behind the last page that was handed out whole."""

    def __init__(
        self,
        client: Client,
        *,
        after: str,
        wait_s: int = events.WAIT_S_MAX // 2,
        **about: Unpack[About],
    ) -> None:
        self.position = after
        self._client = client
        self._wait_s = wait_s
        self._about = about

    def __iter__(self) -> Iterator[EventBody]:
        """Yield one event after the other; `Resync` when the position means nothing any more."""
        while True:
            page = self._page()
            yield from page.events
            self.position = page.next

    def _page(self) -> events.EventsReply:
        """Return the next page, however long the server is away."""
        call = get_events(after=self.position, wait=self._wait_s, **self._about)
        while True:
            try:
                return self._client.send(call)
            except Unavailable:
                self._client.patience.rest()


def follow(client: Client, *, after: str = events.FROM_NOW, **about: Unpack[About]) -> Following:
    """Return an iterator over what happens after a position, from now on without one."""
    if after == events.FROM_NOW:
        after = client.send(get_events(after=after)).next  # once: what happens while a server is away counts too
    return Following(client, after=after, **about)
