"""Runs as a box has them on record, made without running anything: for tests of what is read off their folders."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from batonpass.core.ids import AgentId, HolderId, NodeId, RunId
from batonpass.core.runs import State
from batonpass.worker.git import Sha
from batonpass.worker.journal import Journal, RunFolder
from batonpass.worker.record import PLAIN, RunRecord, timestamp

BEGAN: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN: Final = RunId("0b101010-1234-4abc-8def-0123456789ab")
AGENT: Final = AgentId(HolderId("agent-mill"))


def run_record(run: RunId = RUN, **changes: Any) -> RunRecord:  # noqa: ANN401 — whichever fields a test is about
    """Return the record of a run on task-1 whose child ended well and that nobody has settled, with `changes`."""
    record = RunRecord(
        run_id=run,
        node_id=NodeId("task-1"),
        name="task-1",
        harness=PLAIN,
        state=State.DONE,
        cwd="/srv/project",
        created_at=timestamp(BEGAN),
        exit_code=0,
        server="http://baton.test",
        agent=AGENT,
        dispatch=run,
        repository="/srv/project",
        base=Sha("a" * 40),
    )
    return replace(record, **changes)


def settled(at: datetime = BEGAN) -> dict[str, Any]:
    """Return the fields of a record that nothing is left to do for."""
    return {"contract_pending": False, "contract_settled_at": timestamp(at)}


def put_run(home: Path, record: RunRecord) -> RunFolder:
    """Make the folder of a run that nobody has in hand, and return it."""
    with Journal(home).create(record) as held:
        return RunFolder(held.path)
