"""What is made of a run that was left: here, of one whose program only the home's `config.json` describes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from batonpass.core.outcome import Terminal
from batonpass.core.runs import State
from batonpass.testing.graph import AGENT, OWNER, MemoryGraph
from batonpass.testing.runs import BEGAN, RUN, run_record
from batonpass.worker.journal import Journal
from batonpass.worker.outcome import Settler
from batonpass.worker.reaping import take_up_item
from batonpass.worker.settings import Settings


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
    left = run_record(
        harness="own",
        state=State.RUNNING,
        exit_code=None,
        cwd=str(tmp_path),
        server=graph.server,
        incarnation=graph.me.incarnation,
        repository=str(tmp_path),
        title="Retry e-mails",
        node_type="task",
        agent=AGENT,
        owner=OWNER,
        epoch=taken.fence.epoch,
        token_prefix=graph.mint(AGENT, taken.fence).prefix,
    )
    settings = Settings(home=tmp_path / "home", inherited={})
    with Journal(settings.home).create(left) as run:
        run.log.write_text("It was looked at.\n")
    (settings.home / "config.json").write_text(json.dumps({"dispatch": {"harness": described}}))

    take_up_item(Settler(graph, settings, lambda: BEGAN), node, say=lambda _: None)

    record = run.read()
    assert (record.state, record.terminal_state) == (State.VANISHED, terminal)
    assert note in (record.terminal_note or "")
