"""The audit of workers that are killed at random finds what it is there for: stories made up, each wrong in one way.

No server is asked: what the graph has of a story is given.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import pytest

from batonpass.client.client import Client
from batonpass.core.feed import StoredEvent
from batonpass.core.ids import AgentId, HolderId, Instant, NodeId, RunId
from batonpass.core.outcome import Terminal
from batonpass.testing.chaos import Mill
from batonpass.testing.chaos_audit import Account, audit
from batonpass.testing.fleet import Fleet
from batonpass.testing.processes import ServerProcess
from batonpass.testing.repos import make_repo, person_environment
from batonpass.testing.runs import put_run, run_record, settled
from batonpass.worker.crew import identify_child

ITEM: Final = NodeId("task-1")
FIRST: Final = RunId("0b101010-1234-4abc-8def-000000000001")
SECOND: Final = RunId("0b101010-1234-4abc-8def-000000000002")


def began(run: RunId, epoch: int, at: float) -> dict[str, Any]:
    return {"what": "begin", "item": ITEM, "epoch": epoch, "run": run, "at": at}


def ended(run: RunId, epoch: int, at: float) -> dict[str, Any]:
    return {"what": "end", "item": ITEM, "epoch": epoch, "run": run, "at": at, "act": "report"}


def put(run: RunId, epoch: int, asked: float, *, status: int = 200) -> dict[str, Any]:
    return {
        "what": "put", "item": ITEM, "epoch": epoch, "run": run, "at": asked + 0.1, "id": f"art-note-{epoch}",
        "status": status, "asked": asked,
    }  # fmt: skip


def word(run: RunId) -> str:
    return f"The word of {run} about {ITEM}."


@dataclass(frozen=True, slots=True)
class Story:
    """What is left of an item that two runs worked on, one after the other: the first reported, the second resolved."""

    diary: tuple[dict[str, Any], ...] = (
        began(FIRST, 1, 1.0),
        put(FIRST, 1, 1.5),
        ended(FIRST, 1, 2.0),
        began(SECOND, 2, 3.0),
        put(FIRST, 1, 3.5, status=401),
        put(SECOND, 2, 3.5),
        ended(SECOND, 2, 4.0),
    )
    verdicts: tuple[tuple[RunId, Terminal], ...] = ((FIRST, Terminal.REPORTED), (SECOND, Terminal.RESOLVED))
    filed: tuple[str, ...] = (word(FIRST),)
    epochs: tuple[int, ...] = (1, 2)
    lost: tuple[str, ...] = ()


RIGHT: Final = Story()


@pytest.fixture
def mill(tmp_path: Path) -> Mill:
    """A mill whose workers are over and done with, in a repository of its own."""
    repo = make_repo(tmp_path / "project", person_environment(tmp_path / "home"))
    nobody, agent = cast("Client", None), AgentId(HolderId("agent-mill"))
    return Mill(Fleet(cast("ServerProcess", None), nobody, nobody, agent, "", repo, tmp_path), seed=1)


def wrong_with(mill: Mill, story: Story) -> list[str]:
    mill.diary.write_text("".join(json.dumps(line) + "\n" for line in story.diary))
    for run, verdict in story.verdicts:
        put_run(mill.home, run_record(run, node_id=ITEM, terminal_state=verdict, **settled()))
    found = Account(Counter(), {ITEM: list(story.filed)}, story.lost)
    return audit(mill.fleet, mill, found, [claimed(seq, epoch) for seq, epoch in enumerate(story.epochs, 1)])


def claimed(seq: int, epoch: int) -> StoredEvent:
    return StoredEvent(
        seq=seq, at=Instant(seq), kind="lease.claimed", node=ITEM, project="chaos", actor="agent-mill", owner=None,
        session=None, revision=None, epoch=epoch, data="{}",
    )  # fmt: skip


def test_nothing_is_wrong_where_all_went_well(mill: Mill) -> None:
    assert wrong_with(mill, RIGHT) == []


@pytest.mark.parametrize(
    "story, finding",
    [
        (replace(RIGHT, lost=(ITEM,)), "task-1: neither resolved, reported, declined nor in the queue"),
        (replace(RIGHT, epochs=(1, 1)), "task-1: epoch 1 after 1"),
        (replace(RIGHT, epochs=(2, 1)), "task-1: epoch 1 after 2"),
        (replace(RIGHT, diary=(*RIGHT.diary, began(SECOND, 2, 9.0))), "task-1: epoch 2 was worked on twice"),
        (
            replace(RIGHT, diary=(*RIGHT.diary, put(FIRST, 1, 3.1))),
            "task-1: art-note-1 landed, though tenure 2 had begun",
        ),
        (replace(RIGHT, verdicts=RIGHT.verdicts[:1]), f"run {SECOND} wrote a report, and has no record"),
        (replace(RIGHT, filed=()), f"task-1: the report of run {FIRST} (reported) is in the graph 0 times"),
        (
            replace(RIGHT, filed=(word(FIRST), word(FIRST))),
            f"task-1: the report of run {FIRST} (reported) is in the graph 2 times",
        ),
        (
            replace(RIGHT, filed=(word(FIRST), word(SECOND))),
            f"task-1: the report of run {SECOND} (resolved) is in the graph 1 times",
        ),
    ],
    ids=[
        "an item is lost", "an epoch twice", "an epoch goes back", "a tenure is worked on twice", "a late word lands",
        "a run without a record", "a report is lost", "a report is filed twice", "a resolver's report is filed",
    ],
)  # fmt: skip
def test_what_went_wrong_is_found_and_nothing_else(mill: Mill, story: Story, finding: str) -> None:
    assert wrong_with(mill, story) == [finding]


def test_a_process_that_a_run_has_left_is_found(mill: Mill) -> None:
    with subprocess.Popen(["sleep", "600"]) as left:
        try:
            one = identify_child(left.pid)
            put_run(mill.home, run_record(RunId("run-child"), child=one, **settled()))
            put_run(mill.home, run_record(RunId("run-supervisor"), runner=one, **settled()))

            assert sorted(wrong_with(mill, RIGHT)) == [
                f"process {left.pid} of run run-child is left",
                f"supervisor {left.pid} of run run-supervisor is left",
            ]
        finally:
            left.kill()


def test_a_worktree_that_stays_for_no_reason_or_that_nobody_lists_is_found(mill: Mill) -> None:
    repo, known, unknown = mill.fleet.repo, mill.home / "worktrees" / "project" / "0b101010", mill.fleet.folder / "odd"
    for path in (known, unknown):
        repo.git("worktree", "add", "--quiet", "--detach", str(path))
    put_run(mill.home, run_record(RunId("run-tree"), worktree=str(known), **settled()))

    wrong = wrong_with(mill, RIGHT)

    assert len(wrong) == 2
    assert wrong[0].startswith(f"the worktree {known} (")
    assert wrong[0].endswith(") stays, and nobody knows why")
    assert wrong[1] == f"git has a worktree at {unknown} that is not listed"
