"""The calls about what machines can run, and which will do for a profile; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from batonpass.client.calls import Call, query_of
from batonpass.core.ids import AgentId, NodeId
from batonpass.wire import capabilities as wire
from batonpass.wire import paths


def publish_capabilities(agent: AgentId, axes: Mapping[str, Any]) -> Call[wire.CapabilitiesReply]:
    """Say what an agent's machine can run: axes, axes in the layers `probed` and `declared`, in place of before."""
    path = paths.fill(paths.AGENT_CAPABILITIES, id=agent)
    return Call("POST", path, wire.CapabilitiesReply, body=msgspec.json.encode(dict(axes)))


def get_capabilities(agent: AgentId) -> Call[wire.CapabilitiesReply]:
    """Read what was published of an agent's machine."""
    return Call("GET", paths.fill(paths.AGENT_CAPABILITIES, id=agent), wire.CapabilitiesReply)


def beat(agent: AgentId) -> Call[wire.HeartbeatReply]:
    """Say that an agent's machine is there; once in five minutes is enough."""
    return Call("POST", paths.fill(paths.AGENT_HEARTBEAT, id=agent), wire.HeartbeatReply, body=b"{}")


def profile_hosts(profile: NodeId, *, owner: str | None = None, max_age: str | None = None) -> Call[wire.HostsReply]:
    """Ask which of one's machines will do for a profile: `owner` is a person's id, `max_age` such as ``12h``."""
    query = query_of(owner=owner, max_age=max_age)
    return Call("GET", paths.fill(paths.PROFILE_HOSTS, id=profile), wire.HostsReply, query)
