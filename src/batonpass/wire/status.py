"""The reply of GET /v1/status (D39)."""

from __future__ import annotations

import msgspec


class StatusReply(msgspec.Struct):
    """What is running: `schema` is the version of the database's schema, `time` the database's."""

    ok: bool
    version: str
    schema: int
    node_count: int
    time: str
    database: str
    incarnation: str
