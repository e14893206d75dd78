"""The end of work that goes on in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

CANCEL_AGAIN_S: Final = 0.05
"""After so long a task that was cancelled, and goes on, is cancelled again."""


async def ended(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel `tasks` until all of them are over.

    Once may not do: before Python 3.12 `asyncio.wait_for`, by which the driver
    waits, loses a cancellation that comes together with what it waits for.
    """
    while going := {task for task in tasks if not task.done()}:
        for task in going:
            task.cancel()
        await asyncio.wait(going, timeout=CANCEL_AGAIN_S)
    await asyncio.gather(*tasks, return_exceptions=True)
