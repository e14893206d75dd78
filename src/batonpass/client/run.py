"""An agent as a loop: find a free task, claim it, do the work, write it under the claim, go on to the next.

    def remediate(task):
        plan = task.checkpoint or {"step": 0}
        ...
        return Finish(put={"status": "mitigated"}, checkpoint={"step": 3})

    run(client, "incidents", "remediation", remediate, checkpoint="progress", wanted=is_open)

    look ──free and wanted──▶ claim ──▶ handler ──returned──▶ settle, write, hand back ──▶ look
     │                         │           ├──raised──▶ left to its lease
     │                         │           └──task lost──▶ cancelled, nothing written ──▶ look
     │                         └──held by somebody──▶ look on
     └──nothing free──▶ wait for an event, or for as long as a lapse may go unnoticed ──▶ look

**What is taken.** A record whose task nobody has and that `wanted` is true of,
asked once before the claim and once after it, of the record as it is then.
Without `wanted` every record is, once, and again when a field of it was written
since. A record that `wanted` goes on to want though nothing was written is
taken again after `look_s`.

**The handler** gets the task (`client.task.HeldTask`), which a thread of its own
keeps alive whatever the handler does. A handler that is an `async def` runs on
an event loop in a thread of its own, and is cancelled there when the task is
lost. One that is a plain function cannot be: `task.loss.event` is set, every
write and check raises `LeaseLost`, and what it returns is not written.

**A handler that raises** leaves the task to its lease, and the checkpoint as it
stands; whoever comes next takes over from there. Then `run` raises it too, or
with `on_error="continue"` logs it and goes on.

**What a crash leaves** is the same: a claim that lapses, and the last checkpoint.
"""

from __future__ import annotations

import inspect
import logging
import math
import threading
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal, TypeVar

from anyio.from_thread import start_blocking_portal
from msgspec import UNSET

from batonpass.client.checkpoint import CheckpointField, checkpoint_field
from batonpass.client.client import Client
from batonpass.client.feed_calls import get_events
from batonpass.client.heartbeat import boottime
from batonpass.client.records import Record
from batonpass.client.task import HeldTask, Loss, held
from batonpass.core.errors import AlreadyClaimed, BatonError, Resync, Unavailable
from batonpass.core.records import ClassName, FieldName, RecordPath, parse_class_name, parse_field_name
from batonpass.wire.events import FROM_NOW

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_S: Final = 15.0
"""How long a lapse, which is no event, may go unnoticed by a loop that waits."""
WAIT_S_MAX: Final = 5
"""Longest wait for an event in one request: as long a loop that is told to stop may take to notice."""
REMEMBERED_MAX: Final = 10_000
"""How many records that were handled, and that somebody else has by now or nobody any more, are remembered."""
FREEING: Final = ("record.put", "record.append", "lease.released", "lease.revoked")
"""Kinds of events after which a task may be free that was not, or a record be wanted."""


@dataclass(frozen=True, slots=True)
class Finish:
    """What a handler's work comes to. It is written in one transaction, after which the task is handed back."""

    put: Mapping[str, object] = field(default_factory=dict)
    append: Mapping[str, object] = field(default_factory=dict)
    checkpoint: object = UNSET

    def writes(self, task: HeldTask) -> list[dict[str, object]]:
        """Return it as the writes of one batch."""
        return [
            *({"field": name, "put": value} for name, value in self.put.items()),
            *({"field": name, "append": value} for name, value in self.append.items()),
            *([] if self.checkpoint is UNSET else [task.as_checkpoint(self.checkpoint)]),
        ]


Handler = Callable[[HeldTask], Finish | Coroutine[object, object, Finish | None] | None]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many tasks were worked on to their end, lost to somebody, and left because the handler raised."""

    done: int = 0
    lost: int = 0
    failed: int = 0

    @property
    def taken(self) -> int:
        """How many tasks a handler was called for."""
        return self.done + self.lost + self.failed


def run(  # noqa: PLR0913 — one for each thing an agent may want otherwise
    client: Client,
    record_class: str,
    field: str,
    handler: Handler,
    *,
    wanted: Callable[[Record], bool] | None = None,
    checkpoint: str | None = None,
    lease_s: int | None = None,
    once: bool = False,
    max_tasks: int | None = None,
    stop: threading.Event | None = None,
    on_error: Literal["raise", "continue"] = "raise",
    look_s: float = LOOK_S,
    clock: Callable[[], float] = boottime,
) -> Tally:
    """Work on the tasks `field` of a class's records as they come free; return what became of them.

    It ends when `stop` is set and the task in hand is done, after `max_tasks`,
    with `once` when what was free has been gone through, and by an error: what
    the server refuses for good (`ScopeDenied`, `NotFound`), or the handler's
    own. A server that is away is waited for, unless `once`; what a handler
    returned waits for it either way, for as long as the task is ours.
    """
    name = parse_class_name(record_class)
    loop = _Loop(
        client=client,
        record_class=name,
        task_field=parse_field_name(field),
        handler=handler,
        wanted=wanted,
        checkpoint=None,
        lease_s=lease_s,
        max_tasks=math.inf if max_tasks is None else max_tasks,
        stop=stop or threading.Event(),
        goes_on=on_error == "continue",
        look_s=look_s,
        clock=clock,
    )
    if checkpoint is not None:
        kept = partial(checkpoint_field, client, name, checkpoint)
        loop.checkpoint = kept() if once else loop.waited_for(kept)
    if once:
        loop.look()
    else:
        loop.run()
    if loop.failure is not None:
        raise loop.failure
    return loop.tally


@dataclass(frozen=True, slots=True)
class _Handled:
    """How a record was when its task was handed back, and when that was on our clock."""

    versions: Mapping[str, int]
    at_s: float


@dataclass(kw_only=True, slots=True)
class _Loop:
    client: Client
    record_class: ClassName
    task_field: FieldName
    handler: Handler
    wanted: Callable[[Record], bool] | None
    checkpoint: CheckpointField | None
    lease_s: int | None
    max_tasks: float
    stop: threading.Event
    goes_on: bool
    look_s: float
    clock: Callable[[], float]
    tally: Tally = Tally()
    failure: Exception | None = None
    handled: dict[RecordPath, _Handled] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Whether no further task is to be taken."""
        return self.stop.is_set() or self.tally.taken >= self.max_tasks or self.failure is not None

    def run(self) -> None:
        """Look and wait until it is over."""
        while not self.over:
            self.waited_for(self.turn)

    def turn(self) -> None:
        """Look, and wait if nothing was taken."""
        # Before the look: what happens while we look is not missed by the wait.
        position = self.client.send(get_events(after=FROM_NOW)).next
        if not self.look():
            self.wait(position)

    def waited_for(self, ask: Callable[[], T]) -> T | None:
        """Return what `ask` does, as soon as the server is there; None when it is over before that."""
        while not self.over:
            try:
                return ask()
            except Unavailable as error:
                log.warning("run.server_away", extra={"why": error.message})
                self.stop.wait(self.client.patience.pause_s_max)
        return None

    def look(self) -> bool:
        """Go through the records whose task is free, once; return whether any was taken."""
        taken, seen = False, set[RecordPath]()
        for record in self.client.records.list(self.record_class, free=self.task_field):
            if self.over:
                return True
            seen.add(record.path)
            if self.wants(record):
                taken |= self.take(record.path)
        self.forget_beyond(seen)
        return taken

    def forget_beyond(self, seen: Collection[RecordPath]) -> None:
        """Forget the oldest of what was handled and is not `seen` any more: others have it, or it is deleted."""
        unseen = [path for path in self.handled if path not in seen]
        for path in unseen[: max(len(unseen) - REMEMBERED_MAX, 0)]:
            del self.handled[path]

    def wants(self, record: Record) -> bool:
        """Whether `record` is one to work on, as the head of this module says."""
        handled = self.handled.get(record.path)
        unchanged = handled is not None and handled.versions == _versions(record, self.task_field)
        if self.wanted is None:
            return not unchanged
        rested = handled is None or self.clock() - handled.at_s >= self.look_s
        return (rested or not unchanged) and self.wanted(record)

    def take(self, path: RecordPath) -> bool:
        """Claim a task and work on it; return whether a handler was called."""
        task: HeldTask | None = None
        worked = ended = False
        try:
            with ExitStack() as block:
                task = self.claimed(block, path)
                if task is None:
                    return False
                worked = self.wants(task.record)
                if worked:
                    self.work(task)
                ended = True
        except Exception as error:
            if task is None:
                raise
            if not ended:
                self.broke_off(task, error)
                return True
            log.warning("run.not_handed_back", exc_info=error, extra=_about(task))
        if worked:
            self.tally = replace(self.tally, done=self.tally.done + 1)
        return worked

    def claimed(self, block: ExitStack, path: RecordPath) -> HeldTask | None:
        """Return the task, held until the end of `block`; None when somebody else was faster."""
        try:
            return block.enter_context(
                held(
                    self.client,
                    path,
                    self.task_field,
                    lease_s=self.lease_s,
                    checkpoint=self.checkpoint,
                    leave_on_error=True,
                    clock=self.clock,
                )
            )
        except AlreadyClaimed:
            return None

    def work(self, task: HeldTask) -> None:
        """Call the handler, and write what it comes to."""
        log.info("run.taken", extra=_about(task))
        result = self.handler(task)
        finish = awaited(result, task.loss) if inspect.iscoroutine(result) else result
        if not isinstance(finish, Finish | None):
            raise TypeError(f"a handler returns a Finish or nothing, not {finish!r}")
        task.settle()  # nothing of ours moves the task from here on, and one that is lost has ended here
        if finish is not None and (writes := finish.writes(task)):
            self.write(task, writes)
        self.remember(task)

    def write(self, task: HeldTask, writes: Sequence[Mapping[str, object]]) -> None:
        """Write what the work came to, once, however long the server is away: for as long as the task is ours."""
        key = uuid.uuid4().hex
        while True:
            try:
                task.write(writes, key=key)
            except Unavailable as error:
                log.warning("run.not_written_yet", extra={**_about(task), "why": error.message})
                self.client.patience.rest()
            else:
                return

    def remember(self, task: HeldTask) -> None:
        """Note how the record is now that it is worked on; without it, it would be taken once more."""
        with suppress(BatonError):
            self.handled.pop(task.path, None)  # the newest stand last
            self.handled[task.path] = _Handled(_versions(task.read(), self.task_field), self.clock())

    def broke_off(self, task: HeldTask, error: Exception) -> None:
        """Count a task that did not come to its end, and keep what the handler raised if it is to be raised."""
        if task.lost is not None:
            log.warning("run.lost", extra={**_about(task), "why": task.lost.why})
            self.tally = replace(self.tally, lost=self.tally.lost + 1)
            return
        log.error("run.failed", exc_info=error, extra=_about(task))
        self.tally = replace(self.tally, failed=self.tally.failed + 1)
        self.failure = None if self.goes_on else error

    def wait(self, position: str) -> None:
        """Return when a task may have become free: after an event, and at the latest after `look_s`."""
        until_s = self.clock() + self.look_s
        while not self.over and (left_s := until_s - self.clock()) > 0:
            wait_s = min(math.ceil(left_s), WAIT_S_MAX)
            try:
                page = self.client.send(
                    get_events(after=position, wait=wait_s, record_class=self.record_class, kinds=FREEING)
                )
            except Resync:
                return
            if page.events:
                return
            position = page.next


def awaited(work: Coroutine[object, object, T], loss: Loss) -> T:
    """Return what `work` returns, run on an event loop in a thread of its own; cancelled there when the task is lost.

    It has ended when this returns or raises, whichever way.
    """

    async def whole() -> T:
        return await work

    with start_blocking_portal(name="handler") as portal:
        future = portal.start_task_soon(whole)
        with loss.heard_by(future.cancel):
            return future.result()


def _about(task: HeldTask) -> dict[str, str]:
    """Return what a line of the log says of a task."""
    return {"record": str(task.path), "field": task.field, "fence": str(task.fence)}


def _versions(record: Record, task: FieldName) -> Mapping[str, int]:
    """Return the versions of what a record holds; its tasks move with every claim, and say nothing about it."""
    return {name: body.version for name, body in record.fields.items() if name != task and body.held is None}
