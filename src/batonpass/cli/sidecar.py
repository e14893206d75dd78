"""`baton sidecar`: hold a record's task around a command, in any language (D37, D49)."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, Self, assert_never

import msgspec
from cyclopts import Parameter

from batonpass.cli.context import connected, given_token
from batonpass.cli.exits import Exit, UsageError
from batonpass.cli.options import COMMON, Common, Duration, Flag
from batonpass.cli.record_tasks import whole_seconds
from batonpass.cli.records import FieldArg, RecordArg
from batonpass.cli.render import Teller, print_json, silence
from batonpass.client import config
from batonpass.client.client import Client
from batonpass.worker import sidecar as running
from batonpass.worker.holding import Wanted
from batonpass.worker.sidecar import Ending, Errand, How, World

BY_SIGNAL: Final = 128
"""What a shell adds to the number of the signal that ended a command."""


def sidecar(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    record: RecordArg,
    field: FieldArg,
    checkpoint: FieldArg | None = None,
    lease: Duration | None = None,
    wait: Annotated[Duration, Parameter(show_default=False)] = timedelta(0),
    release_on_failure: Flag = False,
    common: Common = COMMON,
) -> int:
    """Hold a record's task while COMMAND works, and write to the record what it prints.

    COMMAND gets one JSON document on its standard input: the record, its
    fields, the last checkpoint, and whom the task was taken over from. A line
    of its output that begins with a brace is an instruction, such as
    {"put": {"field": "status", "value": "mitigated"}}, {"append": …} or
    {"checkpoint": …}, and is written under the task's fence. Everything else
    it prints comes out on standard error.

    The task is renewed while COMMAND runs. When it is lost, COMMAND and all it
    has started are stopped, nothing more is written, and the exit code is 3,
    as it is, with nothing started, when somebody else has the task. Else it is
    COMMAND's own, 128 and the signal's number when a signal ended it. After a
    0, 1 says that something it printed was refused, and 5 that there was no
    answer to some of it.

    The task is handed back after a 0, and when SIGINT or SIGTERM told the
    sidecar to end (130); after any other end, and when something that COMMAND
    has started would not end, it is left to its lease.

    Args:
        command: the program that does the work, and its arguments, after --.
        record: which record, as class/id; it is made if need be.
        field: which of its tasks.
        checkpoint: the register, or list, that COMMAND's checkpoints go to and the last one comes from.
        lease: for how long at a time the task is held, in whole seconds; without it as long as its class says.
        wait: wait so long for a task that somebody else has; not at all without it.
        release_on_failure: hand the task back however COMMAND ended.

    """
    if not command:
        raise UsageError(
            "name the command that does the work after --, such as: baton sidecar --record R --field F -- my-agent"
        )
    wanted = Wanted(record, field, lease_s=whole_seconds(lease), wait_s=wait.total_seconds())
    tell = Teller(sys.stderr)
    with _serving(common) as (client, server), _Stderr() as stderr:
        errand = Errand(
            wanted,
            command,
            Path.cwd(),
            server,
            checkpoint=checkpoint,
            release_on_failure=release_on_failure,
        )
        world = World(dict(os.environ), stderr.file, stderr.pass_on, tell)
        ending = running.run(client, errand, world, owns_process=True)
    tell(_words(ending))
    if common.json:
        _print(ending)
    return exit_of_ending(ending)


def exit_of_ending(ending: Ending) -> int:
    """Return how the sidecar ends: the child's own code where nothing stronger is to be said."""
    match ending.ended:
        case How.LOST:
            return Exit.HELD
        case How.STOPPED:
            return Exit.INTERRUPTED
        case How.ENDED:
            return _of_child(ending) or _of_writes(ending)
        case _:
            assert_never(ending.ended)


def _of_child(ending: Ending) -> int:
    if ending.signal is not None:
        return BY_SIGNAL + getattr(signal, ending.signal, 0)
    return ending.exit_code or Exit.OK


def _of_writes(ending: Ending) -> int:
    if ending.unwritten:
        return Exit.UNREACHABLE
    return Exit.FAILED if ending.refused else Exit.OK


def _words(ending: Ending) -> str:
    how = f"exit code {ending.exit_code}" if ending.signal is None else f"signal {ending.signal}"
    counts = [f"{ending.written} written"]
    counts += [f"{ending.refused} refused"] if ending.refused else []
    counts += [f"{ending.unwritten} not written"] if ending.unwritten else []
    after = "the task is handed back" if ending.released else "the task is left to its lease"
    match ending.ended:
        case How.LOST:
            end, after = f"lost: {ending.why}", f"see: baton record history {ending.record}"
        case How.STOPPED:
            end = f"told to end, and the command stopped with {how}"
        case How.ENDED:
            end = f"the command ended with {how}"
        case _:
            assert_never(ending.ended)
    return f"{ending.record}#{ending.field}: {end}; {', '.join(counts)}; {after}"


def _print(ending: Ending) -> None:
    try:
        print_json(msgspec.json.encode(ending))
        sys.stdout.flush()
    except (OSError, ValueError):
        silence(sys.stdout)


@contextmanager
def _serving(common: Common) -> Iterator[tuple[Client, str]]:
    """Speak to the configured server; without one as this machine's agent, with a port for the child (D37)."""
    found = config.load(os.environ, server=common.server)
    if found.server is not None:
        with connected(common) as client:
            yield client, client.server
        return
    from batonpass.cli.local import serve_local

    with serve_local(found.home) as served:
        token = given_token(found)
        inside = served.local.client(token) if token is not None else served.inside(as_agent=True)
        with inside as client:
            yield client, served.address


class _Stderr:
    """Standard error as bytes, also for a child; what nobody reads any more goes nowhere, and nothing is raised."""

    def __init__(self) -> None:
        try:
            self.file = os.fdopen(os.dup(sys.stderr.fileno()), "wb", buffering=0)
        except (OSError, ValueError):  # closed, or put in the place of a file by a test
            self.file = Path(os.devnull).open("wb", buffering=0)  # noqa: SIM115 — closed with us

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def pass_on(self, line: bytes) -> None:
        """Write a line as it is."""
        left = memoryview(line)
        with suppress(OSError):
            while left:
                left = left[self.file.write(left) :]
