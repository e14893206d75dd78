"""Runs as the server keeps them: which copy of a record stands, which run counts against its item, where a log ends.

A worker owns the record of its run and sends it whole, as often as it likes
and in any order (D39). The server believes of it what only the worker can know
and keeps the copy that is furthest on: a settled record is never un-settled by
an older copy that arrives late. What a run counts as (D22) is decided here
too, from what the record claims and from the tenure it names: one tenure
counts once, whatever is sent of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from batonpass.core.errors import Invalid
from batonpass.core.identity import parse_agent_id
from batonpass.core.ids import AgentId, Fence, NodeId, Resource, RunId, json_type, parse_label, parse_node_id, shown
from batonpass.core.outcome import Terminal

RECORD_BYTES_MAX: Final = 64 * 1024
"""What a record takes as JSON at most; a real one has two or three thousand bytes."""
LOG_BYTES_KEPT: Final = 256 * 1024
"""How much of a run's log is kept: its end."""
RUNS_KEPT: Final = timedelta(days=14)
"""How long a run can be looked up after it was last heard of (D43)."""
WORD_CHARS_MAX: Final = 100
NUMBER_MAX: Final = 2**53 - 1
"""What every reader of JSON can hold."""


class State(StrEnum):
    """How far a run's process is; the last four are final. Workers may be newer and know others."""

    LAUNCHING = "launching"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    FAILED_LAUNCH = "failed_launch"
    VANISHED = "vanished"

    @property
    def is_final(self) -> bool:
        """Whether the process is over."""
        return self not in {State.LAUNCHING, State.RUNNING}


class Ended(StrEnum):
    """Why a run's process ended, in broad classes; readers must expect others.

    `ENVIRONMENT` costs an item nothing: what failed was the harness's surroundings (D22).
    """

    COMPLETED = "completed"
    ENVIRONMENT = "environment"
    LAUNCH = "launch"
    FAILED = "failed"
    IDLE = "idle"
    UNKNOWN = "unknown"


_PROGRESS: Final[Mapping[str, int]] = {State.LAUNCHING: 0, State.RUNNING: 1}
_OVER: Final = 2


class Standing(StrEnum):
    """What became of a copy that was sent: the first of its run, one that is further on, the same, or an older one."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    OLDER = "older"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCopy:
    """What the server reads in a run's record; the rest is kept as it came.

    `epoch` is that of the run's tenure of `node`, None before it has one.
    `settled` says that nothing is left to do for the run.
    """

    id: RunId
    agent: AgentId
    node: NodeId | None
    project: str | None
    epoch: int | None
    state: str
    attempt: int
    settled: bool
    terminal: Terminal | None
    termination: str | None

    @property
    def place(self) -> tuple[bool, int, int]:
        """How far the run is: a copy with a lower place is an older one."""
        return (self.settled, self.attempt, _PROGRESS.get(self.state, _OVER))

    @property
    def tenure(self) -> Fence | None:
        """The tenure that the run was under, or None while it has none."""
        return Fence(Resource(self.node), self.epoch) if self.node is not None and self.epoch is not None else None

    @property
    def counted(self) -> Fence | None:
        """The tenure that this run uses up of its item's budget, or None while it costs it nothing (D22)."""
        costs = self.settled and self.terminal is not None and self.termination != Ended.ENVIRONMENT
        return self.tenure if costs else None


def parse_run_id(text: object, *, field: str = "run_id") -> RunId:
    """Return `text` as a run's id: what may stand in the name of a folder, a branch and a URL alike."""
    return RunId(parse_node_id(text, field=field))


def parse_state(text: str, *, field: str = "state") -> str:
    """Return `text` as a state that runs are asked for by."""
    if text not in set(State):
        raise Invalid(f"{field}: {shown(text)} is no state of a run; it is {', '.join(State)}", field=field)
    return text


def parse_run(run: RunId, record: Mapping[str, object]) -> RunCopy:
    """Return what `record` says of the run `run`; `Invalid` names the field that can't be read.

    Keys that are not known here are no mistake: workers may be newer.
    """
    if record.get("run_id", run) != run:
        raise Invalid(f"record.run_id: it is not {run}, which the path names", field="record.run_id")
    node, project = record.get("node_id"), record.get("project")
    terminal = _word(record, "terminal_state")
    return RunCopy(
        id=run,
        agent=parse_agent_id(record.get("agent"), field="record.agent"),
        node=None if node is None else parse_node_id(node, field="record.node_id"),
        project=None if project is None else parse_node_id(project, field="record.project"),
        epoch=_number(record, "epoch", least=1),
        state=_require_word(record, "state"),
        attempt=_number(record, "attempt", least=0) or 0,
        settled=not _truth(record, "contract_pending", absent=True),
        terminal=None if terminal is None else _terminal(terminal),
        termination=_word(record, "termination_class"),
    )


def standing(known: RunCopy | None, sent: RunCopy, *, same: bool) -> Standing:
    """Return what becomes of a copy that was sent, beside the one that is `known`; `same` says that they are equal.

    One that does not know yet what item or tenure the run has is an older one.
    `Invalid` when it is another run: one that another agent made, or that has
    another item or tenure.
    """
    if known is None:
        return Standing.CREATED
    knows_less = False
    for field, before, now in (
        ("agent", known.agent, sent.agent),
        ("node_id", known.node, sent.node),
        ("epoch", known.epoch, sent.epoch),
    ):
        knows_less |= before is not None and now is None
        if before is not None and now is not None and before != now:
            raise Invalid(
                f"record.{field}: the run {known.id} has {before}, not {now}; a run never changes it",
                field=f"record.{field}",
            )
    if same:
        return Standing.UNCHANGED
    return Standing.OLDER if knows_less or sent.place < known.place else Standing.UPDATED


# --- logs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a run's log; `offset` counts bytes from the log's beginning."""

    offset: int
    text: str

    @property
    def end(self) -> int:
        """Where the stretch ends, in bytes."""
        return self.offset + len(self.text.encode())


@dataclass(frozen=True, slots=True)
class Log:
    """The end of a run's log: its text, where that begins and ends in bytes, and what of it never came."""

    start: int
    end: int
    text: str
    gaps: tuple[tuple[int, int], ...] = ()


def news(piece: Piece, *, end: int) -> Piece | None:
    """Return what of `piece` lies behind `end`, cut to what is kept; None when that is nothing.

    `Invalid` when the stretch that was sent again would be cut inside a
    character: then it is not the log that was sent before.
    """
    data = piece.text.encode()
    begin = max(piece.offset, end)
    fresh = data[begin - piece.offset :]
    if not fresh:
        return None
    if len(fresh) > LOG_BYTES_KEPT:
        begin += (cut := _character_at(fresh, len(fresh) - LOG_BYTES_KEPT))
        fresh = fresh[cut:]
    if _is_inside(fresh):
        raise Invalid(
            f"offset: {end} lies inside a character of what was sent; the log ends there, so send from there on",
            field="offset",
        )
    return Piece(begin, fresh.decode())


def log_of(pieces: Iterable[Piece]) -> Log:
    """Return the kept end of a log of which `pieces` came, in order; what lies between them is named as a gap."""
    stretches = list(pieces)
    if not stretches:
        return Log(0, 0, "")
    end = stretches[-1].end
    kept = [_from(piece, end - LOG_BYTES_KEPT) for piece in stretches if piece.end > end - LOG_BYTES_KEPT]
    gaps = [(before.end, after.offset) for before, after in itertools.pairwise(kept)]
    return Log(
        start=kept[0].offset,
        end=end,
        text="".join(piece.text for piece in kept),
        gaps=tuple(gap for gap in gaps if gap[0] != gap[1]),
    )


def _from(piece: Piece, start: int) -> Piece:
    """Return `piece` without what lies before `start`."""
    data = piece.text.encode()
    cut = _character_at(data, max(0, start - piece.offset))
    return Piece(piece.offset + cut, data[cut:].decode())


def _character_at(data: bytes, at: int) -> int:
    """Return where the first character begins that does so at `at` or behind it."""
    while at < len(data) and _is_inside(data[at:]):
        at += 1
    return at


def _is_inside(data: bytes) -> bool:
    """Whether `data` begins in the middle of a character of UTF-8."""
    return bool(data) and data[0] & 0xC0 == 0x80  # noqa: PLR2004 — the mark of a following byte


# --- fields ----------------------------------------------------------------------------------------------------------


def _word(record: Mapping[str, object], key: str) -> str | None:
    value = record.get(key)
    if value is None:
        return None
    word = parse_label(value, field=f"record.{key}")
    if len(word) > WORD_CHARS_MAX:
        raise Invalid(f"record.{key}: {len(word)} characters; the limit is {WORD_CHARS_MAX}", field=f"record.{key}")
    return word


def _require_word(record: Mapping[str, object], key: str) -> str:
    word = _word(record, key)
    if word is None:
        raise Invalid(f"record.{key}: required", field=f"record.{key}")
    return word


def _number(record: Mapping[str, object], key: str, *, least: int) -> int | None:
    value = record.get(key)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= NUMBER_MAX:
        raise Invalid(
            f"record.{key}: a whole number from {least} to {NUMBER_MAX}, not {shown(str(value))}", field=f"record.{key}"
        )
    return value


def _truth(record: Mapping[str, object], key: str, *, absent: bool) -> bool:
    value = record.get(key, absent)
    if not isinstance(value, bool):
        raise Invalid(f"record.{key}: true or false, not {json_type(value)}", field=f"record.{key}")
    return value


def _terminal(word: str) -> Terminal:
    if word not in set(Terminal):
        raise Invalid(
            f"record.terminal_state: {shown(word)} is none; it is {', '.join(Terminal)}", field="record.terminal_state"
        )
    return Terminal(word)
