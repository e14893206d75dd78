"""What an adapter knows of its agent program: how to start it, and how to read what it prints.

    Wish ──command()──▶ Command ──▶ a child of the supervisor
                                      │ its standard output, line by line
                      reader() ──▶ Reader.line() … ──▶ Heard

An adapter is pure: it starts nothing, opens no file and asks nobody for the
time. It is told what is wished for and answers with an argument list, the
variables to add and the private files to write; the supervisor does the rest.
The prompt always goes to standard input, so it is in no process list and has
no limit. Which program is run is decided on the box (`Wish.program`), never by
an adapter, the graph or a checkout.

A reader is given whole lines as bytes. It never raises: a line that it does
not understand tells it nothing. Nothing the *model* wrote is ever evidence for
how the run went; only the program's own structured fields are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class Trouble(StrEnum):
    """What stopped an agent program that did not do its work, as far as it said so itself."""

    RATE_LIMIT = "rate_limit"
    CREDIT = "credit"
    USAGE_LIMIT = "usage_limit"
    AUTH = "auth"
    OVERLOADED = "overloaded"
    NETWORK = "network"
    MODEL = "model"
    CONTEXT = "context"
    CONFIG = "config"
    SESSION = "session"
    """The session to go on with is not known here: the work can begin afresh."""
    TURNS = "turns"
    OTHER = "other"

    @property
    def is_environment(self) -> bool:
        """Whether it says nothing of the item: another try, later or elsewhere, may do it (D22)."""
        return self in {
            Trouble.RATE_LIMIT,
            Trouble.CREDIT,
            Trouble.USAGE_LIMIT,
            Trouble.AUTH,
            Trouble.OVERLOADED,
            Trouble.NETWORK,
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """The program's own word for why it failed; `retry_at` is when it said that it may be asked again."""

    trouble: Trouble
    message: str
    retry_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that a run used; `cached` are those of `input` that were read from a cache."""

    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0


@dataclass(frozen=True, slots=True)
class McpServer:
    """A tool server that the agent program is to start for its agent, by standard input and output."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def described(self) -> dict[str, object]:
        """Return how it is started, as JSON in the words that most programs take."""
        return {"command": self.command[0], "args": list(self.command[1:]), "env": dict(self.environment)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted of one start.

    `program` is the binary this box decided on. `cwd` is the worktree,
    `folder` a private folder of this run, outside of it, for what the program
    needs of files. `session` is an id that may be proposed for a new session,
    `resume` one to go on with, in the directory it began in. `read_only` asks
    for a program that changes nothing.
    """

    program: Path
    cwd: Path
    folder: Path
    session: str
    model: str | None = None
    read_only: bool = False
    mcp: tuple[McpServer, ...] = ()
    resume: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """How a child is started: arguments, variables to add, and files to write first, mode 0600.

    A variable that is None is taken out of the child's environment.
    `session_id` is the session's, where it is known before the program says so.
    `final_message` is a file that the program writes its last message to.
    `told_later` are files that it leaves at its end; once it has ended, the
    reader is given each that is there, whole, as one more line.
    """

    argv: tuple[str, ...]
    environment: Mapping[str, str | None] = field(default_factory=dict)
    files: Mapping[Path, bytes] = field(default_factory=dict)
    session_id: str | None = None
    final_message: Path | None = None
    told_later: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What a program has told so far.

    `final_text` is what its agent said last, None while that is unknown.
    `final_text` is None again when the agent went on to work after it, and
    once the program gave up: the text of a failure is nobody's report.
    `failure` stands only when the program gave up. `retrying` is why its last
    try failed while it repeats that by itself, None as soon as one went well:
    with `Trouble.AUTH` there is nothing to wait for. `is_over` says that it has said its last word,
    though it may not have ended. `has_open_tool` says that it waits for a tool
    of its own. `steps` counts the model's turns or tool calls, `progress`
    whatever counts as life: it grows with each event that is not a mere retry.
    `denied` are tool calls that were refused for want of permission.
    `usage` and `cost_usd` are as the program counts them, and some count a
    session that was gone on with from its very beginning: see its adapter.
    """

    session_id: str | None = None
    final_text: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    failure: Failure | None = None
    retrying: Failure | None = None
    is_over: bool = False
    has_open_tool: bool = False
    steps: int = 0
    progress: int = 0
    denied: int = 0


class Reader(Protocol):
    """Reads one run's standard output."""

    def line(self, line: bytes, *, is_cut: bool = False) -> None:
        """Take the next line, without its line feed; never raises.

        `is_cut` says that the line was longer than what is kept of one
        (`stream.LINE_BYTES_MAX`): only its head is here.
        """
        ...

    def heard(self) -> Heard:
        """Return what is known now."""
        ...


class Harness(Protocol):
    """One agent program."""

    @property
    def id(self) -> str:
        """Its name in records, profiles and capabilities, such as ``claude-code``."""
        ...

    @property
    def binary(self) -> str:
        """What its program is called on PATH."""
        ...

    def command(self, wish: Wish) -> Command:
        """Return how to start it; `LaunchRefused` names what of the wish it can't do."""
        ...

    def reader(self) -> Reader:
        """Return a reader for one run."""
        ...

    def judge(self, heard: Heard, *, code: int | None, signal: str | None, stderr: bytes) -> Failure | None:
        """Return why the run failed, or None when it did not, once its process is over.

        `stderr` is the end of what the program itself printed there; it counts
        only together with an abnormal exit (case 52).
        """
        ...
