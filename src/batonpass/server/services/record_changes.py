"""A write to a record in a transaction of its own: whatever it needs is waited for, or made.

The locks come in the order of `store.base`: the lease rows of the tasks that
premises name, or that a deletion ends; the class, which nobody changes then;
the record's row, which serializes all writes of one record. What a write is
decided by is read after them, the time too (D5, D44): `record_board`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from batonpass.server.services import record_board
from batonpass.server.services.change import recognized
from batonpass.server.services.classes import Classes
from batonpass.server.services.record_board import RecordAsk, RecordChange
from batonpass.store.base import Retry, Store


@asynccontextmanager
async def record_change(store: Store, classes: Classes, ask: RecordAsk) -> AsyncIterator[RecordChange]:
    """Open the change that is asked for: all it stands on locked and compared, a repeated request recognized.

    Raises `LeaseLost` for a broken fence of the headers, `StalePremise` with
    all premises that do not hold, `ScopeDenied` for one on a field the caller
    may not read, `NotFound` for an unknown class, `Invalid` when the
    Idempotency-Key was used for another body, or `Retry` if a task it stands on
    was claimed for the first time meanwhile.
    """
    async with store.write_set([ask.writer], along=record_board.asked(store.clock, [ask], alone=True)) as tx:
        board = await record_board.read(tx, classes)
        if board.appeared(ask):
            raise Retry(f"{ask.record}: a task of it was claimed for the first time meanwhile")
        change = board.change(0, ask)
        # Before what was only read is compared: it may have moved since the first sending of this very write, or by it.
        replayed = await recognized(tx, ask.caller, board.now)
        if replayed is None:
            change.require_premises()
        yield replace(change, replayed=replayed)
