"""A server that answers from a script, and a clock that only the test moves: for the corners no real server shows."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httpx
import msgspec

from batonpass.core.clock import iso
from batonpass.core.ids import Instant
from batonpass.wire.errors import ErrorBody, ErrorInfo
from batonpass.wire.leases import BulkRenewReply, Failed, LeaseBody, LeaseReply
from batonpass.wire.records import RecordErrorBody, StaleBody, TaskReply

Scripted = httpx.Response | httpx.HTTPError | Callable[[httpx.Request], httpx.Response]


@dataclass
class ManualSeconds:
    """A clock: seconds that stand still until they are told to pass."""

    now_s: float = 1000.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now_s

    def advance(self, seconds: float) -> None:
        """Let `seconds` pass."""
        self.now_s += seconds


@dataclass
class ScriptedServer:
    """The handler of an `httpx.MockTransport`: gives the next answer to each request, and keeps the requests.

    An `httpx.HTTPError` among the answers is raised as the network's doing; a
    function is called with the request. To be asked once more than there are
    answers is a failure.
    """

    answers: deque[Scripted] = field(default_factory=deque)
    requests: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Answer `request`."""
        self.requests.append(request)
        assert self.answers, f"no answer is scripted for {request.method} {request.url}"
        answer = self.answers.popleft()
        if isinstance(answer, httpx.HTTPError):
            raise answer
        return answer(request) if callable(answer) else answer

    def will(self, *answers: Scripted) -> None:
        """Add what is answered next."""
        self.answers.extend(answers)

    def bodies(self) -> list[object]:
        """Return the bodies that were sent, decoded."""
        return [msgspec.json.decode(request.content) for request in self.requests if request.content]

    def paths(self) -> list[str]:
        """Return where it was sent."""
        return [request.url.path for request in self.requests]


def answer(body: object, status: int = 200, **headers: str) -> httpx.Response:
    """Return `body` as a JSON answer; header names are written with underscores."""
    named = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Response(status, content=msgspec.json.encode(body), headers=named)


def refusal(
    status: int, code: str, message: str = "no", *, holder: LeaseBody | None = None, **headers: str
) -> httpx.Response:
    """Return an error in the one shape."""
    return answer(ErrorBody(ErrorInfo(code, message), holder), status, **headers)


def lease(node: str = "task-1", *, epoch: int = 1, expires_ms: int = 4_600_000, by: str = "agent-a") -> LeaseBody:
    """Return a lease as everybody may see it."""
    expires_at = iso(Instant(expires_ms * 1000))
    return LeaseBody(node, by, expires_ms, expires_at, epoch, session=None, claimed_at=iso(Instant(0)))


def granted(view: LeaseBody, *, in_ms: int = 2_700_000, edge: str | None = "added") -> httpx.Response:
    """Return the answer of a single lease verb that was granted."""
    return answer(LeaseReply(ok=True, status="claimed", lease=view, expires_in_ms=in_ms, edge=edge))


def renewed(*views: LeaseBody, in_ms: int = 2_700_000, failed: Sequence[Failed] = ()) -> httpx.Response:
    """Return the answer of a bulk renewal; `in_ms` is the horizon of the lease that ends soonest."""
    ids = [view.node_id for view in views]
    return answer(
        BulkRenewReply(
            ok=True,
            status="partial" if ids and failed else "refused" if failed else "renewed",
            count=len(ids),
            renewed=ids,
            leases=list(views),
            failed=list(failed),
            expires_in_ms=in_ms if ids else None,
        )
    )


# --- records ---------------------------------------------------------------------------------------------------------


def task_answer(
    version: int = 1, *, epoch: int = 1, in_ms: int | None = 300_000, took_over_from: str | None = None
) -> httpx.Response:
    """Return what a claim or renewal of `incidents/inc-1`'s remediation is answered; without `in_ms` a release."""
    held = in_ms is not None
    reply = TaskReply(
        record="incidents/inc-1",
        field="remediation",
        version=version,
        record_version=version,
        epoch=epoch,
        owner="agent:agent-a" if held else None,
        lease_expires_at=iso(Instant(4_600_000_000)) if held else None,
        expires_in_ms=in_ms,
        took_over_from=took_over_from,
    )
    return answer(reply)


def record_answer(record_version: int = 1, record: str = "incidents/inc-1", **values: object) -> httpx.Response:
    """Return a record whose fields have these values, each at version 1."""
    fields = {
        name: {"version": 1, "author": "agent:agent-a", "updated_at": iso(Instant(0)), "value": value}
        for name, value in values.items()
    }
    return answer({"record": record, "class_version": 1, "record_version": record_version, "fields": fields})


def stale(field: str, *, expected: int, actual: int, kind: str | None = "fence") -> httpx.Response:
    """Return the refusal of a write one of whose premises does not hold."""
    broken = StaleBody(field=field, expected=expected, actual=actual, kind=kind, owner="agent:agent-b")
    expires_at = iso(Instant(4_600_000_000))
    message = f"{field} is at {actual}, not {expected}; nothing was changed"
    return answer(RecordErrorBody("STALE_PREMISE", message, None, "agent:agent-b", expires_at, premises=[broken]), 409)


def task_held(owner: str = "agent:agent-b") -> httpx.Response:
    """Return the refusal of a claim because somebody has the task."""
    expires_at = iso(Instant(4_600_000_000))
    return answer(RecordErrorBody("HELD", f"held by {owner}", "remediation", owner, expires_at, 7), 409)
