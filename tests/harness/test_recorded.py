"""What real programs printed in every case that was tried, read by their adapters: the matrix without the programs.

`streams/` has their standard output, the end of their standard error, and how
they ended. Paths in them are written as $HOME, $WORK and the like; those that
went on for minutes were cut at a line. All had a scripted model.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Final

import pytest
from tests.harness.test_adapters import DONE, HARNESSES, STREAMS, hear

from batonpass.worker.harness import registry
from batonpass.worker.harness.base import Failure, Heard, Trouble

RECORDED: Final = sorted(path.name.removesuffix(".meta.json") for path in STREAMS.glob("*.meta.json"))
REFUSED: Final = {
    "s429": Trouble.RATE_LIMIT,
    "late429": Trouble.RATE_LIMIT,
    "s401": Trouble.AUTH,
    "s403": Trouble.AUTH,
    "s402": Trouble.CREDIT,
    "s402b": Trouble.CREDIT,
    "usage": Trouble.USAGE_LIMIT,
    "s404": Trouble.MODEL,
    "s400": Trouble.CONTEXT,
    "s500": Trouble.OVERLOADED,
    "s529": Trouble.OVERLOADED,
    "dead": Trouble.NETWORK,
    "drop": Trouble.NETWORK,
    "badsse": Trouble.NETWORK,
    "streamerr": Trouble.RATE_LIMIT,
}
"""What each scenario is: a status, a limit, a service that is not there, a stream that breaks off or makes no sense."""
OTHERWISE: Final = {
    # It asks once more without a stream, and goes on.
    **dict.fromkeys(("claude-code-drop", "claude-code-badsse", "claude-code-streamerr"), None),
    # It does not look at what kind of error came in the stream.
    "gemini-streamerr": Trouble.NETWORK,
    # It was stopped while it tried again without a word.
    "gemini-late429": Trouble.OTHER,
}


@dataclass(frozen=True)
class Recorded:
    harness: str
    scenario: str
    heard: Heard
    failure: Failure | None


def read(name: str) -> Recorded:
    harness = next(each for each in HARNESSES if name.startswith(f"{each}-"))
    adapter = registry.harness(harness)
    heard = hear(harness, content(f"{name}.jsonl"))
    # A negative code is the number of the signal that ended it.
    (told,) = re.findall(r'"rc": (-?\d+)', (STREAMS / f"{name}.meta.json").read_text())
    code, number = (int(told), None) if int(told) >= 0 else (None, signal.Signals(-int(told)).name)
    failure = adapter.judge(heard, code=code, signal=number, stderr=content(f"{name}.stderr"))
    return Recorded(harness, name.removeprefix(f"{harness}-"), heard, failure)


def content(name: str) -> bytes:
    path = STREAMS / name
    return path.read_bytes() if path.exists() else b""


def expected(name: str, scenario: str) -> Trouble | None:
    return OTHERWISE[name] if name in OTHERWISE else REFUSED[scenario]


@pytest.mark.parametrize("name", [name for name in RECORDED if name.rpartition("-")[2] in REFUSED])
def test_a_failure_is_taken_for_what_it_was(name: str) -> None:
    recorded = read(name)
    trouble = expected(name, recorded.scenario)

    assert (None if recorded.failure is None else recorded.failure.trouble) is trouble
    assert recorded.heard.final_text == (DONE if trouble is None else None)


@pytest.mark.parametrize("harness", HARNESSES)
def test_the_good_path_is_understood_whole(harness: str) -> None:
    recorded = read(f"{harness}-ok")

    assert recorded.failure is None
    assert recorded.heard.final_text == DONE
    assert recorded.heard.is_over
    assert not recorded.heard.has_open_tool
    assert recorded.heard.session_id
    assert recorded.heard.steps >= 1
    assert recorded.heard.progress > recorded.heard.steps


@pytest.mark.parametrize("name", [name for name in RECORDED if re.search(r"-(?:hang\d|term)$", name)])
def test_a_program_that_was_stopped_has_said_no_last_word(name: str) -> None:
    recorded = read(name)

    assert recorded.failure is not None
    assert not recorded.heard.is_over


def test_every_program_was_recorded_in_the_same_scenarios() -> None:
    by_harness = {
        harness: {name.removeprefix(f"{harness}-") for name in RECORDED if name.startswith(f"{harness}-")}
        for harness in HARNESSES
    }

    for scenarios in by_harness.values():
        assert scenarios >= REFUSED.keys() - {"usage"} | {"ok"}


def test_a_program_that_calls_being_stopped_a_success_is_not_believed() -> None:
    heard = hear("copilot", b'{"type":"abort","data":{"reason":"user_initiated"}}\n{"type":"result","exitCode":0}')

    failure = registry.harness("copilot").judge(heard, code=0, signal=None, stderr=b"")

    assert failure is not None
    assert "stopped" in failure.message
