"""A record's task as a `with` block: claim, keep alive, write under the claim, hand back.

    with client.task("incidents/inc-4471", "remediation") as task:
        for step in plan(task.record):
            task.check()
            task.append("actions_taken", do(step))
        task.put("status", "mitigated")

    claimed ──▶ kept ──settle──▶ settled ──release──▶ handed back
                  └──────lost──────┴──▶ LeaseLost, from whatever is done next and from the block

Every write of the task names its tenure in `based_on`, by epoch, so that the
heartbeat's renewals never break it and a takeover always does: the server then
refuses the write, whatever this process believes. A block whose task was lost
ends with `LeaseLost`, and hands nothing back: it is not its task any more.

Who has a task already is told what it has (D34), so two blocks of *one
identity* for one task both run. Give each process an identity of its own.

A forked child that leaves its parent's block ends nothing: the task is the parent's.

**What a crash leaves.** The claim, until it lapses, and the last checkpoint for
whoever takes the task over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from batonpass.client import record_calls
from batonpass.client.blocks import handed_back
from batonpass.client.calls import Call
from batonpass.client.checkpoint import CheckpointField, checkpoint_field
from batonpass.client.client import Client
from batonpass.client.heartbeat import Heartbeat, Lost, boottime
from batonpass.client.records import Record, record_of
from batonpass.client.renewals import OneTask, why_over
from batonpass.core.errors import Invalid, LeaseLost, StalePremise
from batonpass.core.ids import Fence
from batonpass.core.premises import FENCE, Premise
from batonpass.core.records import FieldName, RecordPath, parse_field_name, parse_record_path
from batonpass.wire.records import FieldWriteReply, TaskReply, WritesReply

T = TypeVar("T")


class Loss:
    """Whether a task is lost: a signal that is given once, heard by whoever waits for it or has asked to be called."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self._lock = threading.Lock()
        self._heard_by: list[Callable[[], object]] = []

    def give(self) -> None:
        """Give the signal; those who have asked are called on this thread."""
        with self._lock:
            self.event.set()
            for call in self._heard_by:
                call()

    @contextmanager
    def heard_by(self, call: Callable[[], object]) -> Iterator[None]:
        """Have `call` called when the signal is given within the block, at once if it was given before."""
        with self._lock:
            self._heard_by.append(call)
            if self.event.is_set():
                call()
        try:
            yield
        finally:
            with self._lock:
                self._heard_by.remove(call)


class HeldTask:
    """A task in the hands of this process. Made by `held`; valid inside its block."""

    def __init__(
        self,
        client: Client,
        path: RecordPath,
        *,
        renewing: OneTask,
        heartbeat: Heartbeat,
        loss: Loss,
        checkpoint: CheckpointField | None = None,
    ) -> None:
        claim = renewing.answer
        self.path = path
        self.field = FieldName(claim.field)
        self.fence = Fence(self.path.task(self.field), claim.epoch)
        """The tenure; ``str(task.fence)`` is the value of an If-Lease header."""
        self.owner = claim.owner
        """Who has the task: the identity that this client writes as."""
        self.took_over_from = claim.took_over_from
        """Who had it before and let it lapse, if somebody did."""
        self.record: Record
        """The record as it was read last, at first right after the claim: all that earlier holders wrote is in it."""
        self.checkpoint: object = None
        """What was left in the checkpoint field by then; None when nothing was."""
        self.client = client.under(self.fence)
        """The client whose writes, to records and to the graph, are refused once the tenure is over."""
        self.heartbeat = heartbeat
        self.loss = loss
        """The signal that the task is lost: wait for `task.loss.event`, or ask to be called."""
        self._plain = client
        self._renewing = renewing
        self._checkpoint = checkpoint
        self._handing_back = False
        self._handed_back = False

    def __repr__(self) -> str:
        return f"HeldTask({str(self.fence)!r})"

    @property
    def epoch(self) -> int:
        """The tenure's epoch."""
        return self.fence.epoch

    @property
    def version(self) -> int:
        """The task's version by the last answer; each renewal moves it, so `settle` before standing on it."""
        return self._renewing.answer.version

    @property
    def premise(self) -> Premise:
        """The fence that every write of this task names."""
        return record_calls.fence(self.field, self.epoch)

    @property
    def lost(self) -> Lost | None:
        """Why the task is lost, or None while it is trusted."""
        return self.heartbeat.lost.get(self.fence.resource)

    def check(self) -> None:
        """Return if the task may still be acted on; raise `LeaseLost` if not. Cheap while it is trusted."""
        self.heartbeat.check(self.fence.resource)

    def read(self) -> Record:
        """Read the record as it is now; `record` and `checkpoint` are what it shows."""
        self.record = record_of(self._plain.send(record_calls.get(self.path)))
        if self._checkpoint is not None:
            self.checkpoint = self._checkpoint.last_of(self.record)
        return self.record

    def put(self, field: str, value: object, *, based_on: Sequence[Premise] = ()) -> FieldWriteReply:
        """Put a register's value under the claim; `LeaseLost` when the task is not ours any more, and nothing done."""
        return self._write(record_calls.put(self.path, field, value, based_on=[self.premise, *based_on]))

    def append(self, field: str, value: object, *, based_on: Sequence[Premise] = ()) -> FieldWriteReply:
        """Append to a list under the claim, as `put` puts."""
        return self._write(record_calls.append(self.path, field, value, based_on=[self.premise, *based_on]))

    def write(
        self, writes: Sequence[Mapping[str, object]], *, based_on: Sequence[Premise] = (), key: str | None = None
    ) -> WritesReply:
        """Make several writes or none of them under the claim; `record_calls.write` says how they look.

        With the same `key` they are made once, however often they are sent (D11).
        """
        return self._write(record_calls.write(self.path, writes, based_on=[self.premise, *based_on]), key=key)

    def save_checkpoint(self, value: object) -> None:
        """Leave `value` for whoever has the task next, should this holder not come to its end."""
        self.write([self.as_checkpoint(value)])

    def as_checkpoint(self, value: object) -> dict[str, object]:
        """Return the write that leaves `value` as the checkpoint, to be made with others in one step."""
        if self._checkpoint is None:
            raise Invalid("checkpoint: no field is named for it; name one of the record's where you claim the task")
        return self._checkpoint.write(value)

    def settle(self) -> None:
        """Renew no more, wait for the renewal in flight, and know the version that stands; `LeaseLost` if ours is over.

        For what is written last: after this nothing of ours moves the task.
        """
        self.heartbeat.settle(self.fence.resource)

    def release(self) -> None:
        """Hand the task back now; safe twice.

        `LeaseLost` when there was nothing to hand back: the tenure had ended
        before. A release whose first answer got lost reads the same. After any
        other error it may be called again.
        """
        # Before the request: a beat that followed it would be told that the tenure is over, and call it lost.
        self._handing_back = True
        self.heartbeat.drop(self.fence.resource)
        if self._handed_back:
            return
        try:
            self._plain.send(record_calls.release(self.path, self.field, based_on=[self.premise]))
        except StalePremise as error:
            raise LeaseLost(why_over(error), holder=error.holder) from error
        self._handed_back = True

    def check_at_end(self) -> None:
        """Check as `check` does, unless the block has begun to hand the task back itself."""
        if not self._handing_back:
            self.check()

    def _write(self, call: Call[T], *, key: str | None = None) -> T:
        self.check()
        try:
            return self._plain.send(call, key=key)
        except StalePremise as error:
            if not any(broken.kind == FENCE and broken.field == self.field for broken in error.premises):
                raise
            lost = Lost(self.fence, why_over(error), error.holder)
            self.heartbeat.give_up(lost)
            raise lost.error() from error


@contextmanager
def held(
    client: Client,
    record: RecordPath | str,
    field: str,
    *,
    lease_s: int | None = None,
    checkpoint: CheckpointField | str | None = None,
    on_lost: Callable[[Lost], None] | None = None,
    leave_on_error: bool = False,
    clock: Callable[[], float] = boottime,
) -> Iterator[HeldTask]:
    """Hold a task while the block runs; a claim that is refused raises and the block never starts (D0).

    `AlreadyClaimed` names who has it. `on_lost` is called on the thread that
    finds out. With `leave_on_error` a block that raises leaves the task to its
    lease, for the next holder to take over when that is over.
    """
    path = parse_record_path(record) if isinstance(record, str) else record
    name = parse_field_name(field)
    if isinstance(checkpoint, str):
        checkpoint = checkpoint_field(client, path.record_class, checkpoint)
    sent_at_s = clock()
    claim = client.send(record_calls.claim(path, name, lease_s=lease_s))
    task = kept(
        client, path, claim, lease_s=lease_s, sent_at_s=sent_at_s, checkpoint=checkpoint, on_lost=on_lost, clock=clock
    )
    begun = False
    what = f"{task.path} {task.field}"
    with task.heartbeat, handed_back(task, task.heartbeat, what, is_left=lambda: begun and leave_on_error):
        task.read()  # after the claim: whatever a former holder could still write, it has written
        begun = True
        yield task


def kept(
    client: Client,
    path: RecordPath,
    claim: TaskReply,
    *,
    lease_s: int | None,
    sent_at_s: float,
    checkpoint: CheckpointField | None = None,
    on_lost: Callable[[Lost], None] | None = None,
    clock: Callable[[], float] = boottime,
) -> HeldTask:
    """Return the task of a `claim` that was first sent at `sent_at_s`; it is kept once its heartbeat is started."""
    assert claim.expires_in_ms is not None, claim
    renewing, loss = OneTask(claim, lease_s=lease_s), Loss()

    def lost(what: Lost) -> None:
        loss.give()
        if on_lost is not None:
            on_lost(what)

    heartbeat = Heartbeat(client, renewing=renewing, on_lost=lost, clock=clock)
    task = HeldTask(client, path, renewing=renewing, heartbeat=heartbeat, loss=loss, checkpoint=checkpoint)
    heartbeat.keep(task.fence, expires_in_ms=claim.expires_in_ms, sent_at_s=sent_at_s)
    return task
