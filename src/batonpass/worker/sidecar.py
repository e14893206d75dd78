"""A record's task held around a child process: what a program in any language needs to be one of a fleet.

    claim ─▶ run token ─▶ record ─▶ child ──ends by itself────▶ its rest is written ─▶ released, or left to the lease
      │                              ├──the task is lost──▶ stopped, nothing more is written
    held: nothing is started         └──told to end───────▶ stopped, its rest is written ─▶ released

**Who decides what.** The heartbeat says whether the task may still be acted on,
and the server whether a write under it stands; the child says only what it
wants written. No claim that was answered, no child (D0).

**What is stopped.** Every process of the run, however the child ended: whoever
takes the task next must not meet one that is still at it.

**What a crash leaves.** A child that nobody listens to, which its next line of
output tells so, and a lease that nobody renews. The child has a token for this
very tenure at most (D2a): once somebody takes over it can't write that way either.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Final

import msgspec

from batonpass.client.checkpoint import CheckpointField, checkpoint_field
from batonpass.client.client import Client
from batonpass.core.errors import BatonError, LeaseLost
from batonpass.core.points import reach
from batonpass.core.records import FieldName
from batonpass.wire.records import FieldBody
from batonpass.worker import environment, proc, signals
from batonpass.worker.crew import Crew, Exit, Graces, become_subreaper
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.holding import Holding, Wanted, take
from batonpass.worker.printed import Printed
from batonpass.worker.proc import Child
from batonpass.worker.scribe import Scribe, Tally

TICK_S: Final = 0.25
"""How soon a lost task or an interruption stops the child."""
LOOK_S: Final = 2.0
"""How often the run's processes are looked at, so that none is unknown when its parents are gone."""
AT_ONCE: Final = Graces(interrupt_s=0, terminate_s=0, kill_s=2)


class How(StrEnum):
    """How a sidecar's run came to its end."""

    ENDED = "ended"
    LOST = "lost"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Errand:
    """What to run for which task. `checkpoint` is the field that its checkpoints go to and come from.

    `server` is the address the child reaches the server at.
    """

    wanted: Wanted
    command: tuple[str, ...]
    folder: Path
    server: str
    checkpoint: FieldName | None = None
    release_on_failure: bool = False
    graces: Graces = field(default_factory=Graces)


@dataclass(frozen=True, slots=True)
class World:
    """What a sidecar has around it: the environment it was started in, and who hears what.

    The child shares `stderr`. `pass_on` gets lines of its output that are not
    meant for us, `tell` words for a person; neither may raise.
    """

    inherited: Mapping[str, str]
    stderr: IO[bytes]
    pass_on: Callable[[bytes], None]
    tell: Callable[[str], None]


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, as `baton sidecar --json` prints it. `why` says of a lost task how it was lost."""

    record: str
    field: str
    epoch: int
    ended: How
    exit_code: int | None
    signal: str | None
    written: int
    refused: int
    unwritten: int
    released: bool
    why: str | None = None


class Given(msgspec.Struct, kw_only=True):
    """What the child reads on its standard input: one JSON document on one line."""

    record: str
    field: str
    epoch: int
    version: int
    owner: str | None
    lease_seconds: float
    lease_expires_at: str | None
    took_over_from: str | None
    checkpoint_field: str | None
    checkpoint: msgspec.Raw | None
    record_version: int
    class_version: int
    fields: dict[str, FieldBody]


def run(client: Client, errand: Errand, world: World, *, owns_process: bool = False) -> Ending:
    """Hold the task around the command and return how that ended. Blocks for as long as the command runs.

    `owns_process` says that this process does nothing else: it listens to
    SIGINT, SIGTERM and SIGHUP while it holds the task (the first stops the
    child in good order, the second at once, as `KeyboardInterrupt`), and
    becomes the reaper of the child's orphans. `AlreadyClaimed` when somebody
    else has the task, `LaunchRefused` when the command can't be run here;
    errors of the server are raised as they come.
    """
    command = _runnable(errand, world)
    checkpoint = None
    if errand.checkpoint is not None:
        checkpoint = checkpoint_field(client, errand.wanted.record.record_class, errand.checkpoint)
    holding = take(client, errand.wanted, checkpoint=checkpoint)
    told_to_end = threading.Event()
    with _signals(told_to_end) if owns_process else nullcontext():
        adopts = owns_process and become_subreaper()
        _tell_taken(holding, world)
        attempt = _Run(holding, replace(errand, command=command), world, checkpoint=checkpoint, adopts=adopts)
        return attempt.see_through(told_to_end)


@dataclass(frozen=True, slots=True)
class _Over:
    """How a child ended, whether because we were told to end ourselves, and whether no process of its run lives on."""

    exit: Exit
    was_told: bool
    none_left: bool


class _Run:
    """One child and its task."""

    def __init__(
        self, holding: Holding, errand: Errand, world: World, *, checkpoint: CheckpointField | None, adopts: bool
    ) -> None:
        self._holding = holding
        self._task = holding.task
        self._errand = errand
        self._world = world
        self._checkpoint = checkpoint
        self._adopts = adopts
        self._mark = uuid.uuid4().hex
        self._ended = threading.Event()

    def see_through(self, told_to_end: threading.Event) -> Ending:
        """Start the child, follow it to its end, and give the task back or leave it."""
        with ExitStack() as after:
            try:
                # What the command has done with its folder is no reason to end otherwise than it did.
                folder = tempfile.TemporaryDirectory(prefix="baton-sidecar-", ignore_cleanup_errors=True)
                child, heard = self._start(Path(after.enter_context(folder)))
            except BaseException:
                # There is no child, or none that has done much: nothing is lost by giving the task back at once.
                if not Crew(self._mark, adopts=self._adopts).stop(AT_ONCE):
                    self._give_back()
                raise
            scribe = self._scribe(heard)
            scribe.start()
            try:
                over = self._follow(child, scribe, told_to_end)
                self._ended.set()
                tally = scribe.finish()
            except BaseException:
                child.stop(AT_ONCE)
                self._ended.set()
                self._holding.leave()
                raise
            return self._close(over, tally)

    def _start(self, home: Path) -> tuple[Child, int]:
        document = msgspec.json.encode(self._given()) + b"\n"
        self._task.check()
        return proc.start_heard(
            self._errand.command,
            mark=self._mark,
            cwd=self._errand.folder,
            environment=self._environment(home),
            stdin=document,
            stderr=self._world.stderr,
            adopts=self._adopts,
        )

    def _given(self) -> Given:
        claim, record = self._holding.claim, self._task.read()
        return Given(
            record=claim.record,
            field=claim.field,
            epoch=claim.epoch,
            version=claim.version,
            owner=claim.owner,
            lease_seconds=(claim.expires_in_ms or 0) / 1000,
            lease_expires_at=claim.lease_expires_at,
            took_over_from=claim.took_over_from,
            checkpoint_field=self._errand.checkpoint,
            checkpoint=self._checkpoint.raw_last_of(record) if self._checkpoint is not None else None,
            record_version=record.version,
            class_version=record.class_version,
            fields=dict(record.fields),
        )

    def _environment(self, home: Path) -> dict[str, str]:
        about = {
            "BATON_SERVER": self._errand.server,
            "BATON_HOME": str(home),
            "BATON_RECORD": str(self._task.path),
            "BATON_FIELD": self._task.field,
            "BATON_EPOCH": str(self._task.epoch),
            "PWD": str(self._errand.folder),
        }
        if self._holding.token is not None:
            about["BATON_TOKEN"] = self._holding.token.secret
        return {**environment.plain(self._world.inherited), **about}

    def _scribe(self, heard: int) -> Scribe:
        return Scribe(
            Printed(heard, self._ended),
            self._task,
            checkpoint=self._checkpoint,
            ended=self._ended,
            pass_on=self._world.pass_on,
            tell=self._world.tell,
        )

    def _follow(self, child: Child, scribe: Scribe, told_to_end: threading.Event) -> _Over:
        """Return how the child ended, by itself or stopped; no process of the run is left then."""
        looked_at_s = time.monotonic()
        was_told = False
        while (ended := child.wait(TICK_S)) is None:
            was_told = told_to_end.is_set()
            if self._task.lost is not None or was_told or scribe.failed:
                break
            if time.monotonic() - looked_at_s >= LOOK_S:
                child.crew.look()
                looked_at_s = time.monotonic()
        left = child.stop(self._errand.graces)
        if left:
            self._world.tell(f"{len(left)} processes of the command would not end, and live on")
        ended = ended or child.wait(self._errand.graces.kill_s) or Exit(None, "SIGKILL")
        return _Over(ended, was_told=was_told, none_left=not left)

    def _close(self, over: _Over, tally: Tally) -> Ending:
        """Give the task back, or leave it to its lease, and return how it all went."""
        why = self._settled()
        reach("task.settled")
        is_good = over.none_left and (over.exit == Exit(0) or over.was_told or self._errand.release_on_failure)
        released = False
        if why is None and is_good and not tally.unwritten:
            released = self._give_back()
        else:
            self._holding.leave()
        return Ending(
            record=str(self._task.path),
            field=self._task.field,
            epoch=self._task.epoch,
            ended=How.LOST if why is not None else How.STOPPED if over.was_told else How.ENDED,
            exit_code=over.exit.code,
            signal=over.exit.signal,
            written=tally.written,
            refused=tally.refused,
            unwritten=tally.unwritten,
            released=released,
            why=why,
        )

    def _settled(self) -> str | None:
        """Renew no more. Return why the task is lost, or None when it is ours to give back."""
        try:
            self._task.settle()
        except LeaseLost as error:
            return error.message
        return None

    def _give_back(self) -> bool:
        try:
            self._holding.give_back()
        except BatonError as error:
            self._world.tell(f"{self._errand.wanted} was not handed back, its lease will lapse: {error.message}")
            return False
        return True


def _runnable(errand: Errand, world: World) -> tuple[str, ...]:
    """Return the command with a relative path made whole; refuse before the claim what could not be started after."""
    command = proc.located(errand.command, errand.folder)
    if shutil.which(command[0], path=environment.plain(world.inherited).get("PATH")) is None:
        raise LaunchRefused(f"{errand.command[0]} is not a command that can be run here; is it installed, and on PATH?")
    return command


def _tell_taken(holding: Holding, world: World) -> None:
    claim = holding.claim
    before = f", taken over from {claim.took_over_from}" if claim.took_over_from is not None else ""
    world.tell(f"{claim.record}#{claim.field} is held by {claim.owner}, epoch {claim.epoch}{before}")


@contextmanager
def _signals(told_to_end: threading.Event) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into the mark `told_to_end`; the second one raises `KeyboardInterrupt` as well.

    No other does: what that begins, stopping the command at once, must not be stopped by a third.
    """
    count = 0

    def told(_: int) -> None:
        nonlocal count
        count += 1
        told_to_end.set()
        if count == 2:  # noqa: PLR2004 — the second
            raise KeyboardInterrupt

    with signals.heard(told):
        yield
