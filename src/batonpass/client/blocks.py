"""What a `with` block that holds a lease owes at its end, whether on a node or on a record's task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from batonpass.client.heartbeat import Heartbeat, Lost
from batonpass.core.errors import BatonError


class Held(Protocol):
    """A lease in the hands of this process."""

    @property
    def lost(self) -> Lost | None:
        """Why it is lost, or None while it is trusted."""
        ...

    def check_at_end(self) -> None:
        """Raise `LeaseLost` if it may not be acted on any more, unless it was being handed back."""
        ...

    def release(self) -> None:
        """Hand it back."""
        ...


@contextmanager
def handed_back(
    held: Held, heartbeat: Heartbeat, what: str, *, is_left: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Hand back what is held once the block is over, however it ends; a block whose lease was lost ends with that.

    `is_left` says of a block that raised that its lease is left to lapse
    instead. A forked child that leaves its parent's block ends nothing: what
    is held is the parent's. `what` names it in a note on an error.
    """
    try:
        yield
    except BaseException as error:
        if heartbeat.is_inherited:
            raise
        heartbeat.stop()
        if not is_left():
            _release_after(error, held, what)
        raise
    if heartbeat.is_inherited:
        return
    # While the heartbeat can still ask: a process that slept through the window has noticed nothing.
    held.check_at_end()
    heartbeat.stop()
    if held.lost is not None:
        raise held.lost.error()
    held.release()


def _release_after(error: BaseException, held: Held, what: str) -> None:
    """Hand back what the failed block held; that this fails too is a note on its error and not the error."""
    if held.lost is not None:
        return
    try:
        held.release()
    except BatonError as refusal:
        error.add_note(f"and {what} was not handed back, it will lapse: {refusal.message}")
