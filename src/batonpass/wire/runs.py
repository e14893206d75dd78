"""Bodies and replies about runs: the mirror of a worker's records, and the ends of their logs (D39)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import Meta

from batonpass.core.runs import LOG_BYTES_KEPT, RECORD_BYTES_MAX, State
from batonpass.wire.schemas import ID, INT_MAX

Record = Annotated[
    dict[str, Any],
    Meta(
        extra_json_schema={
            "description": f"The record as the worker has it, whole; as JSON at most {RECORD_BYTES_MAX} bytes.",
            "additionalProperties": True,
            "required": ["agent", "state"],
            "properties": {"agent": ID, "state": {"type": "string", "examples": list(State)}},
        }
    ),
]
Offset = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": INT_MAX // 2})]
_TEXT: Final = {"maxLength": LOG_BYTES_KEPT}


class RunRequest(msgspec.Struct):
    """Body of `PUT /v1/runs/{run_id}`."""

    record: Record


class RunPutReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Reply of `PUT /v1/runs/{run_id}`.

    `status` is `created`, `updated`, `unchanged`, or `older` when the server
    has a copy that is further on, and keeps it. `counts` says that the run is
    one of those that its item may have (D22); `log_end` where the log that the
    server has ends, in bytes.
    """

    http_status: ClassVar[int] = 200

    run_id: str
    status: str
    state: str
    settled: bool
    log_end: int
    counts: bool = False
    warnings: list[str] = []


class RunLogRequest(msgspec.Struct):
    """Body of `POST /v1/runs/{run_id}/log`: text of the log from the byte `offset` on."""

    offset: Offset
    text: Annotated[str, Meta(extra_json_schema=_TEXT)]


class Gap(msgspec.Struct):
    """Bytes of a log that never came, up to the one before `until`."""

    offset: int
    until: int


class RunLogPutReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Reply of `POST /v1/runs/{run_id}/log`: where the log ends now, and the `gap` that this left before its text.

    `status` is `appended`, or `unchanged` when all of it had come before.
    """

    http_status: ClassVar[int] = 200

    run_id: str
    status: str
    end: int
    gap: Gap | None = None
    warnings: list[str] = []


class RunLogReply(msgspec.Struct):
    """Reply of `GET /v1/runs/{run_id}/log`: the log's last bytes, `start` to `end`, and what is missing there."""

    run_id: str
    start: int
    end: int
    text: str
    gaps: list[Gap]


class RunBody(msgspec.Struct, kw_only=True):
    """A run: its record as the worker sent it last, whose it is, and when the server first and last heard of it."""

    run_id: str
    agent: str
    owner: str | None
    node_id: str | None
    project: str | None
    state: str
    settled: bool
    counts: bool
    record: Record
    first_seen: str
    last_seen: str


class RunsReply(msgspec.Struct):
    """Reply of `GET /v1/runs`, the newest first; `next` is the `after` of the next page, null at the end."""

    runs: list[RunBody]
    next: str | None
