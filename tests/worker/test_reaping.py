"""What is made of a run that was left: here, of one whose program only the home's `config.json` describes."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from batonpass.core.ids import RunId
from batonpass.core.outcome import Terminal
from batonpass.testing.graph import AGENT, OWNER, MemoryGraph
from batonpass.worker.git import Sha
from batonpass.worker.journal import Journal
from batonpass.worker.outcome import Settler
from batonpass.worker.reaping import take_up_item
from batonpass.worker.record import RunRecord, State, timestamp
from batonpass.worker.settings import Settings

NOW: Final = datetime(2026, 11, 30, 12, tzinfo=UTC)
RUN: Final = RunId("0b101010-1234-4abc-8def-0123456789ab")


@pytest.mark.parametrize(
    "described, terminal, note",
    [
        ({"own": {"command": "own", "report": "lastText"}}, Terminal.REPORTED, ""),
        ({"own": {"command": 1}}, Terminal.FAILED, "dispatch.harness.own"),
        ({}, Terminal.FAILED, "there is no harness 'own'"),
    ],
    ids=["described", "described wrongly", "not described any more"],
)
def test_what_a_described_program_said_before_its_supervisor_died_is_its_report(
    tmp_path: Path, described: object, terminal: Terminal, note: str
) -> None:
    graph = MemoryGraph()
    node = graph.add_item("task-1")
    taken = graph.next(project=None, accept="ready", candidates=[node], dispatch=RUN)
    assert taken is not None
    left = RunRecord(
        run_id=RUN,
        node_id=node,
        name=node,
        harness="own",
        state=State.RUNNING,
        cwd=str(tmp_path),
        created_at=timestamp(NOW),
        server=graph.server,
        incarnation=graph.me.incarnation,
        repository=str(tmp_path),
        base=Sha("0" * 40),
        title="Retry e-mails",
        node_type="task",
        agent=AGENT,
        owner=OWNER,
        dispatch=RUN,
        epoch=taken.fence.epoch,
        token_prefix=graph.mint(AGENT, taken.fence).prefix,
    )
    settings = Settings(home=tmp_path / "home", inherited={})
    with Journal(settings.home).create(left) as run:
        run.log.write_text("It was looked at.\n")
    (settings.home / "config.json").write_text(json.dumps({"dispatch": {"harness": described}}))

    take_up_item(Settler(graph, settings, lambda: NOW), node, say=lambda _: None)

    record = run.read()
    assert (record.state, record.terminal_state) == (State.VANISHED, terminal)
    assert note in (record.terminal_note or "")
