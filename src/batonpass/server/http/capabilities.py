"""What machines can run, and which will do for a profile (companion 7.4)."""

from __future__ import annotations

from starlette.responses import Response

from batonpass.core.capabilities import parse_capabilities
from batonpass.core.clock import MICROS_PER_S, iso
from batonpass.core.durations import parse_duration
from batonpass.core.identity import parse_person_id
from batonpass.server.http.call import Call, changed, reply
from batonpass.server.http.identity import agent_in_path
from batonpass.server.services.capabilities import Host, Hosts, reply_of
from batonpass.wire import capabilities as wire


async def publish(call: Call) -> Response:
    """Say what an agent's machine can run, in the place of what was said before."""
    body = await call.body(wire.CapabilitiesRequest)
    layers = parse_capabilities(body.value.fields())
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.fleet.publish(caller, agent_in_path(call), layers))


async def get(call: Call) -> Response:
    """Read what an agent's machine can run: for its owner, itself or an admin."""
    return reply(reply_of(await call.services.fleet.published(call.principal, agent_in_path(call))))


async def beat(call: Call) -> Response:
    """Say that an agent's machine is there; once in five minutes is enough."""
    body = await call.body(wire.HeartbeatRequest)
    caller = call.caller(body.raw, warnings=body.notices)
    return changed(await call.services.fleet.beat(caller, agent_in_path(call)))


async def hosts(call: Call) -> Response:
    """Say which of one's machines will do for a profile, and why the others won't; the one seen last first."""
    asked = call.query
    owner = asked.get("owner", "me")
    max_age = parse_duration(asked["max_age"], field="max_age") if "max_age" in asked else None
    profile = call.node_id()
    found = await call.services.fleet.hosts(
        call.principal,
        profile,
        owner=None if owner == "me" else parse_person_id(owner, field="owner"),
        max_age=max_age,
    )
    fit = [_body(host, found) for host in found.hosts if host.verdict.ok]
    unfit = [_body(host, found) for host in found.hosts if not host.verdict.ok]
    return reply(wire.HostsReply(profile, fit, unfit, wire.HostCounts(len(fit), len(unfit), found.stale)))


def _body(host: Host, found: Hosts) -> wire.HostBody:
    published = host.published
    return wire.HostBody(
        agent=published.agent,
        owner=found.owner,
        published_at=iso(published.published_at),
        last_seen=iso(published.last_seen),
        age_seconds=max(0, found.now - published.last_seen) // MICROS_PER_S,
        reasons=list(host.verdict.reasons),
    )
