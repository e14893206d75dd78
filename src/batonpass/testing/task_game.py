"""The task of a record as a game: claims, renewals and fenced writes over a network that delays, repeats and loses.

Beside `batonpass.testing.game`, which plays launches at nodes by the same law,
and at the same tables. Players know of the task what they were told in an
answer; the record's row, its history and the lease are read after every move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Protocol

import httpx

from batonpass.core.ids import HolderId, Resource
from batonpass.core.leases import Lease
from batonpass.core.records import RecordPath, identity_of, parse_field_name, parse_record_path
from batonpass.store.record_history import Entry
from batonpass.testing.crew import Answer
from batonpass.testing.game import Broken, Fate, Table, Way

INVARIANTS: Final = frozenset(
    "version-up epoch-up one-holder no-shorten answer-is-now refused-changes-nothing fence no-ghost no-false-refusal"
    " told commit-iff-200 no-failure".split()
)
FIELD: Final = parse_field_name("remediation")
CLASS: Final = {
    "fields": {"status": {"type": "register"}, FIELD: {"type": "task", "lease": "300s"}},
    "roles": {"all": {"identities": ["agent:*", "person:*"], "read": "*", "write": "*", "claim": "*"}},
}
FAILING: Final = {Fate.FAILS, Fate.UNKNOWN}
WRITE: Final = "write"
DELETE: Final = "delete"


class TaskTable(Table, Protocol):
    """The same table, with a look at a record."""

    def look_at_task(self, task: Resource) -> Look:
        """Return what is committed about a record's task."""
        ...


@dataclass(slots=True)
class Player:
    """An agent, and what it was told of its latest tenure."""

    name: str
    version: int | None = None
    epoch: int | None = None

    @property
    def holder(self) -> HolderId:
        """The player as a holder of leases."""
        return HolderId(f"agent-{self.name}")


@dataclass(frozen=True, slots=True)
class Message:
    """A request on its way; `named` is the version or epoch in its fence, if it has one."""

    kind: str
    who: str
    method: str
    path: str
    body: Mapping[str, Any]
    player: Player | None = None
    named: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What is committed of a task: its lease, its record's version and history, newest first, and the last event."""

    lease: Lease | None
    record_version: int
    history: tuple[Entry, ...]
    events: int

    @property
    def version(self) -> int:
        """The version of the task."""
        return self.lease.version if self.lease is not None else 0

    @property
    def epoch(self) -> int:
        """The epoch of the task."""
        return self.lease.epoch if self.lease is not None else 0

    @property
    def holder(self) -> HolderId | None:
        """Who has the task, or had it and let it lapse."""
        return self.lease.holder if self.lease is not None else None


class TaskGame:
    """Plays agents against a table, and checks the invariants after every move."""

    def __init__(self, table: TaskTable, record: str, players: tuple[str, ...]) -> None:
        """Begin with a record that is not there yet; its class is applied."""
        self.table = table
        self.record: RecordPath = parse_record_path(record)
        self.players = {name: Player(name) for name in players}
        self.net: list[Message] = []
        self.answered: set[int] = set()
        self.serial = 0
        self.look = self._seen()

    # --- moves --------------------------------------------------------------------------------------------------

    def claim(self, player: Player, way: Way, fence: str | None = None) -> None:
        """Claim the task."""
        self._send(self._asking(player, "claim", {}, fence), way)

    def renew(self, player: Player, way: Way, fence: str | None = None) -> None:
        """Renew the task, or resume or take what nobody has."""
        self._send(self._asking(player, "renew", {"renew": True}, fence), way)

    def release(self, player: Player, way: Way, fence: str | None = None) -> None:
        """Hand the task back."""
        self._send(self._asking(player, "release", {"lease_seconds": 0}, fence), way)

    def write(self, player: Player, way: Way, fence: str | None = None) -> None:
        """Put the status."""
        self.serial += 1
        body, named = self._fenced({"value": self.serial}, player, fence)
        path = f"/v1/records/{self.record}/fields/status"
        self._send(Message(WRITE, player.name, "PUT", path, body, player, named), way)

    def steal(self, player: Player, way: Way, fence: str) -> None:
        """Put the status under the fence of whoever has the task: version and epoch are no secret."""
        stolen = Player(player.name, self.look.version, self.look.epoch)
        self.write(stolen, way, fence)

    def delete(self, way: Way) -> None:
        """Let an admin delete the record."""
        self._send(Message(DELETE, "ada", "DELETE", f"/v1/records/{self.record}", {}), way)

    def deliver(self, place: int, way: Way) -> None:
        """Carry out a message that is on its way."""
        if self.net:
            self._send(self.net.pop(place % len(self.net)), way)

    def lapse(self) -> None:
        """Let the lease run out."""
        ends = self.look.lease.expires_at if self.look.lease is not None else None
        if ends is not None and (left := ends - self.table.moment()) > 0:
            self.advance(timedelta(microseconds=left))

    def advance(self, span: timedelta) -> None:
        """Move the clock, backwards too."""
        self.table.advance(span)

    # --- carrying out -------------------------------------------------------------------------------------------

    def _asking(self, player: Player, kind: str, body: Mapping[str, Any], fence: str | None) -> Message:
        fenced, named = self._fenced(body, player, fence)
        path = f"/v1/records/{self.record}/fields/{FIELD}/claim"
        return Message(kind, player.name, "PUT", path, fenced, player, named)

    def _fenced(
        self, body: Mapping[str, Any], player: Player, fence: str | None
    ) -> tuple[Mapping[str, Any], tuple[str, int] | None]:
        known = getattr(player, fence) if fence is not None else None
        if fence is None or known is None:
            return body, None
        return {**body, "based_on": [{"kind": "fence", "field": FIELD, fence: known}]}, (fence, known)

    def _send(self, message: Message, way: Way) -> None:
        if way.fate is Fate.LATER:
            self.net.append(message)
            return
        if way.fate is Fate.TWICE:
            self.net.append(message)
        before = self.look
        answer = self.table.send(message.who, message.method, message.path, message.body, at=way.at, fate=way.fate)
        self.look = self._seen()
        if answer is not None and way.fate in FAILING and answer.status == httpx.codes.SERVICE_UNAVAILABLE:
            unchanged = self.look == before
            _require(unchanged or way.fate is Fate.UNKNOWN, "commit-iff-200", f"{message} failed, and is there")
            answer = None
        self._judge_change(message, before)
        if answer is not None:
            self._judge_answer(message, answer, before)
        _require(self.answered <= self._written(), "commit-iff-200", f"{self.answered} were answered, {self.look}")
        if answer is not None and answer.ok and way.fate is not Fate.LOST and message.player is not None:
            self._tell(message.player, answer)

    def _tell(self, player: Player, answer: Answer) -> None:
        if answer.body.get("owner") == identity_of(player.holder):
            player.version, player.epoch = answer.body["version"], answer.body["epoch"]

    def _seen(self) -> Look:
        return self.table.look_at_task(self.record.task(FIELD))

    def _written(self) -> set[int]:
        return {int(entry.value) for entry in self.look.history if entry.value is not None}

    # --- what must hold -----------------------------------------------------------------------------------------

    def _judge_change(self, message: Message, before: Look) -> None:
        """Check how the rows moved, whatever was answered."""
        now, moved = self.look, self.look.version != before.version
        _require(now.version in {before.version, before.version + 1}, "version-up", f"{before} became {now}")
        _require(now.epoch in {before.epoch, before.epoch + 1}, "epoch-up", f"{before} became {now}")
        _require(moved or now.epoch == before.epoch, "version-up", f"{before} became {now}")
        changed = moved or len(now.history) != len(before.history)
        raised = now.record_version - before.record_version
        _require(raised == int(changed), "version-up", f"{message.kind}: {before} became {now}")
        self._judge_holding(before)

    def _judge_holding(self, before: Look) -> None:
        """Check whose the task is now, and for how long."""
        now, was, moment = self.look, before.lease, self.table.moment()
        loser = before.holder
        if was is None or now.lease is None or loser is None or now.holder is None:
            return
        was = was.anchored(moment)
        if now.epoch == before.epoch:
            assert was.expires_at is not None, was
            assert now.lease.expires_at is not None, now
            _require(now.lease.expires_at >= was.expires_at, "no-shorten", f"{before} became {now}")
        elif now.holder != loser:
            _require(not was.in_force(moment), "one-holder", f"{before} became {now} at {moment}")
            last = now.history[0]
            as_it_was = (last.verb, last.took_over_from) == ("takeover", identity_of(loser))
            _require(as_it_was, "told", f"{last} of {before}")

    def _judge_answer(self, message: Message, answer: Answer, before: Look) -> None:
        _require(
            answer.status < httpx.codes.INTERNAL_SERVER_ERROR,
            "no-failure",
            f"{message.kind}: {answer.status} {answer.body}",
        )
        moment = self.table.moment()
        if not answer.ok:
            same = (self.look.record_version, self.look.history, self.look.events) == (
                before.record_version,
                before.history,
                before.events,
            )
            row = self.look.lease
            same = same and row in {before.lease, before.lease.anchored(moment) if before.lease is not None else None}
            _require(same, "refused-changes-nothing", f"{message.kind}: {answer.body}; {before} became {self.look}")
            stale = answer.body["error"] == "STALE_PREMISE"
            _require(not (stale and self._holds(message, before)), "no-false-refusal", f"{message}: {answer.body}")
            return
        if message.named is not None:
            _require(self._holds(message, before), "fence", f"{message.kind} under {message.named} in {before}")
            _require(self.look.epoch == before.epoch, "no-ghost", f"{message} began {self.look}")
        if message.kind == WRITE:
            self.answered.add(message.body["value"])
        elif message.kind != DELETE:
            told = (answer.body["version"], answer.body.get("epoch", self.look.epoch))
            _require(told == (self.look.version, self.look.epoch), "answer-is-now", f"{answer.body} is not {self.look}")
        _require(answer.body["record_version"] == self.look.record_version, "answer-is-now", f"{answer.body}")

    def _holds(self, message: Message, before: Look) -> bool:
        """Whether the fence of a message is of its sender's tenure, which stands."""
        if message.named is None or message.player is None:
            return message.named is None
        what, named = message.named
        return before.holder == message.player.holder and named == getattr(before, what)


def _require(holds: bool, name: str, why: str) -> None:  # noqa: FBT001  # an assertion with a name
    assert name in INVARIANTS, name
    if not holds:
        raise Broken(name, why)
