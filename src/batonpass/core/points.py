"""Named points: places where a test may pause, fail or kill the process.

In production nothing is armed and a point is one dictionary look-up that
finds nothing. `batonpass.testing.points` arms them, in this process or, by an
environment variable it owns, in a child. The names are the ones listed in
ARCHITECTURE.md; `reach` refuses a name that is not, so a misspelt point cannot
silently test nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

POINTS: Final = frozenset(
    # server
    "tx.begun lease.locked lease.clock_read lease.decided lease.written edge.written event.written"
    " idem.inserted fence.checked next.chosen next.picked next.relocked commit.sent commit.returned"
    # the queue's index, after the change
    " rank.noted rank.derived rank.refreshed"
    # the coalescing queue and SQLite's group commit
    " batch.taken batch.locked batch.returned"
    " group.opened member.begun member.released group.committing group.committed"
    # the whole database: upgrades, backups, restores
    " migration.applied backup.copied backup.written restore.copied"
    # classes of records: had alone by whoever applies a version
    " class.locked"
    # the feed of events
    " feed.read"
    # client
    " beat.sent beat.answered lease.settling"
    # dispatch and supervisor
    " record.written claim.nonce_written claim.sent claim.answered lease.taken mint.answered token.minted"
    " worktree.added hook.done child.started session.bound child.exited pipe.drained final.read"
    " spool.tmp spool.renamed"
    # sidecar
    " task.taken line.read line.written task.settled"
    # settle
    " settle.locked settle.stopped settle.revoked settle.read report.sent report.filed finding.filed"
    " readiness.cleared release.sent released record.settled"
    # worktrees
    " gc.locked gc.judged gc.pinned gc.renamed gc.rechecked gc.deleted".split()
)

Action = Callable[[], None]
AsyncAction = Callable[[], Awaitable[None]]

armed: dict[str, Action] = {}
armed_async: dict[str, AsyncAction] = {}


def reach(name: str) -> None:
    """Do what a test armed at `name`; nothing otherwise."""
    assert name in POINTS, name
    if armed and (action := armed.get(name)) is not None:
        action()


async def areach(name: str) -> None:
    """`reach` for coroutines: an armed action may also wait."""
    reach(name)
    if armed_async and (action := armed_async.get(name)) is not None:
        await action()
