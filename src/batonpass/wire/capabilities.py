"""Bodies and replies about what machines can run, and which will do for a profile (companion 7.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from batonpass.core.capabilities import NAMES_MAX
from batonpass.wire.schemas import ID, NAME, Schema

_NAMES: Final[Schema] = {
    "anyOf": [{"type": "array", "items": NAME, "maxItems": NAMES_MAX}, {**NAME, "type": ["string", "null"]}]
}
_DENIED: Final[Schema] = {
    "anyOf": [{"type": "array", "items": ID, "maxItems": NAMES_MAX}, {**ID, "type": ["string", "null"]}]
}
_AXES: Final[Schema] = {
    "type": "object",
    "properties": dict.fromkeys(("harnesses", "reachable_mcp", "skills", "plugins"), _NAMES)
    | {"gh": {"type": "boolean"}, "deny": _DENIED},
}
Names = Annotated[Any, Meta(extra_json_schema=_NAMES)]
Denied = Annotated[Any, Meta(extra_json_schema=_DENIED)]
Axes = Annotated[Any, Meta(extra_json_schema=_AXES)]
Whether = Annotated[Any, Meta(extra_json_schema={"type": "boolean"})]


class CapabilitiesRequest(msgspec.Struct, kw_only=True):
    """Body of `POST /v1/agents/{id}/capabilities`: axes, or axes in layers, or either in `capabilities`.

    An axis is a list of names; the layers are `probed` and `declared`. `deny` are profiles kept from this machine.
    """

    harnesses: Names = UNSET
    reachable_mcp: Names = UNSET
    skills: Names = UNSET
    plugins: Names = UNSET
    gh: Whether = UNSET
    deny: Denied = UNSET
    probed: Axes = UNSET
    declared: Axes = UNSET
    capabilities: Axes = UNSET

    def fields(self) -> Mapping[str, object]:
        """Return what was given."""
        given = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: each for name, each in given.items() if each is not UNSET}


class CapabilitiesBody(msgspec.Struct, kw_only=True):
    """What a machine can run, whoever says so: the layers of what was published, merged."""

    harnesses: list[str] = []
    reachable_mcp: list[str] = []
    skills: list[str] = []
    plugins: list[str] = []
    gh: bool = False
    deny: list[str] = []


class CapabilitiesReply(msgspec.Struct, kw_only=True):
    """What was published of an agent's machine; `changed` only in the reply to what published it."""

    http_status: ClassVar[int] = 200

    agent: str
    capabilities: CapabilitiesBody
    published_at: str
    last_seen: str
    published_by: str
    session: str | UnsetType = UNSET
    changed: bool | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class HeartbeatRequest(msgspec.Struct):
    """Body of `POST /v1/agents/{id}/heartbeat`: nothing."""


class HeartbeatReply(msgspec.Struct, omit_defaults=True):
    """Reply of `POST /v1/agents/{id}/heartbeat`."""

    http_status: ClassVar[int] = 200

    agent: str
    last_seen: str
    warnings: list[str] = []


class HostBody(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A machine, and every reason why it won't do for the profile; none when it does."""

    agent: str
    owner: str
    published_at: str
    last_seen: str
    age_seconds: int
    reasons: list[str] = []


class HostCounts(msgspec.Struct):
    """How many machines will do, how many won't, and how many were not seen for longer than was asked for."""

    satisfiable: int
    unsatisfiable: int
    stale: int


class HostsReply(msgspec.Struct):
    """Reply of `GET /v1/profiles/{id}/hosts`, the machines seen last first."""

    profile: str
    satisfiable: list[HostBody]
    unsatisfiable: list[HostBody]
    counts: HostCounts
