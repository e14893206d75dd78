"""Items as a dispatch sees them, for tests of what it decides by them."""

from __future__ import annotations

from typing import Final

from batonpass.core.ids import NodeId
from batonpass.worker.dispatch.target import Target

TARGET: Final = Target(
    id=NodeId("task-1"),
    type="task",
    title="Retry e-mails",
    project="mail",
    status="open",
    requires=(),
    profile=None,
    assigned=(),
    retired=None,
    resolver=None,
    execution=None,
    lease=None,
)
"""An open task that asks for nothing, is routed to nobody and held by nobody."""
