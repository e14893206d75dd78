"""The record of a run: everything known of it, and how that reads as JSON.

Where records are kept, and who may change one, is `worker/journal.py`'s.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, TypeVar

import msgspec

from batonpass.core.ids import AgentId, NodeId, PersonId, RunId
from batonpass.core.outcome import Terminal
from batonpass.core.runs import Ended, State
from batonpass.worker.crew import Identity
from batonpass.worker.git import Sha

PLAIN: Final = "command"
"""The harness of a plain command, which has no adapter: all that it prints is its last word, as far as it leaves no
report."""

T = TypeVar("T")


class Stopped(StrEnum):
    """Why a worker itself stopped a run's process."""

    IDLE = "idle"
    MAX = "max"
    LEASE_LOST = "lease_lost"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """Everything known of one run. Moments are ISO 8601 with an offset; paths are absolute.

    The first group is the process: `failure` is a `Trouble` of its harness,
    `usage` counts tokens, `cost_usd` is the program's own figure. The second is
    what is needed to take the run up again after a crash: `worker` is the
    process that dispatched it, `runner` the supervisor that owns it,
    `borrowed_epoch` the tenure that stood on the item before this run was sent
    for, `mirrored_at` when the server last got all of this. The third is its outcome,
    which is absent until the run was settled.
    """

    run_id: RunId
    node_id: NodeId | None
    name: str | None
    harness: str
    launch_mode: str = "supervised-jsonl"
    state: State = State.LAUNCHING
    cwd: str
    created_at: str
    started_at: str | None = None
    finished_at: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    termination_class: Ended | None = None
    termination_reason: str | None = None
    session_id: str | None = None
    log_path: str | None = None
    report_path: str | None = None
    stopped_for: Stopped | None = None
    failure: str | None = None
    retry_at: str | None = None
    usage: dict[str, int] | None = None
    cost_usd: float | None = None
    steps: int | None = None
    denied: int | None = None
    profile: str | None = None
    read_only: bool | None = None
    instructions: str | None = None

    host: str | None = None
    worker_id: str | None = None
    worker: Identity | None = None
    mirrored_at: str | None = None
    attempt: int = 0
    server: str
    incarnation: str | None = None
    project: str | None = None
    title: str | None = None
    node_type: str | None = None
    agent: AgentId
    owner: PersonId | None = None
    dispatch: str
    epoch: int | None = None
    borrowed_epoch: int | None = None
    lease_lost: bool = False
    token_prefix: str | None = None
    repository: str
    worktree: str | None = None
    branch: str | None = None
    base: Sha
    runner: Identity | None = None
    child: Identity | None = None

    terminal_state: Terminal | None = None
    terminal_enforced: bool | None = None
    terminal_note: str | None = None
    terminal_unreachable: bool | None = None
    resolved_by: NodeId | None = None
    resolved_edge: str | None = None
    report_node_id: NodeId | None = None
    finding_node_id: NodeId | None = None
    declined_reason: str | None = None
    readiness_cleared: bool | None = None
    lease_released: bool | None = None
    commits: int | None = None
    worktree_kept: tuple[str, ...] | None = None
    contract_pending: bool = True
    pending_for: str | None = None
    contract_settled_at: str | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left to do for this run."""
        return not self.contract_pending


_NULLABLE: Final = frozenset("node_id name exit_code signal session_id".split())
"""Keys that are null rather than absent while they have no value."""


class AnyRecord(msgspec.Struct):
    """What a record of any version has."""

    run_id: RunId


def timestamp(now: datetime) -> str:
    """Return `now` as records have it: ISO 8601 with milliseconds, in UTC."""
    return now.astimezone(UTC).isoformat(timespec="milliseconds")


def as_json(record: RunRecord) -> dict[str, Any]:
    """Return the record as programs read it; what has no value yet is left out, or null where the contract says so.

    What is no text in it, a byte of a path say, is shown as U+FFFD: no reader of JSON has to take a lone surrogate.
    """
    text = json.dumps(_builtins(record), ensure_ascii=False).encode("utf-16", "surrogatepass")
    told: dict[str, Any] = json.loads(text.decode("utf-16", "replace"))
    return told


def encoded(record: RunRecord) -> bytes:
    """Return the record as a file: every string comes back as it was, also a path that is not UTF-8."""
    told = _builtins(record)
    try:
        data = json.dumps(told, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        data = json.dumps(told, indent=2).encode()
    return data + b"\n"


def decoded(data: bytes, kind: type[T]) -> T:
    """Return what a file holds; `msgspec.DecodeError` when that is no `kind`."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError:
        # Python's own reader takes the lone surrogates that stand for what was no text.
        try:
            return msgspec.convert(json.loads(data), type=kind)
        except (ValueError, RecursionError) as error:
            raise msgspec.DecodeError(str(error)) from error


def _builtins(record: RunRecord) -> dict[str, Any]:
    return {
        field.name: msgspec.to_builtins(value)
        for field in fields(record)
        if (value := getattr(record, field.name)) is not None or field.name in _NULLABLE
    }
