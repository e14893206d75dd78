"""What machines can run, and which will do for a profile (companion 7.4).

An agent stands for a machine. What it publishes is kept beside it and is
nobody's consent: it says where work may be sent, and the worker that gets it
asks its own machine again before it starts anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import msgspec

from batonpass.core.capabilities import Layers, Profile, Verdict, parse_capabilities, parse_profile, satisfies
from batonpass.core.clock import iso, micros
from batonpass.core.errors import Forbidden, InvalidNode, NotFound
from batonpass.core.identity import Agent, Principal
from batonpass.core.ids import AgentId, Instant, NodeId, PersonId
from batonpass.core.tokens import may_manage, may_manage_runs
from batonpass.server.services.change import Caller, Replayed, change
from batonpass.server.services.tokens import require_agent
from batonpass.store import capabilities, nodes, tombstones
from batonpass.store.base import Reader, Store, as_json, retried
from batonpass.store.capabilities import Published
from batonpass.wire import capabilities as wire


@dataclass(frozen=True, slots=True)
class Host:
    """A machine, and whether it will do."""

    published: Published
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Hosts:
    """A person's machines as they are for one profile, the freshest first; `stale` ones were not looked at."""

    owner: PersonId
    hosts: tuple[Host, ...]
    stale: int
    now: Instant


class Fleet:
    """The machines of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retried
    async def publish(self, caller: Caller, agent_id: AgentId, layers: Layers) -> wire.CapabilitiesReply | Replayed:
        """Keep what an agent's machine can run; its owner's to say, or the agent's own, and no run's."""
        document = as_json(layers.merged())
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            agent = await require_agent(made.tx, agent_id)
            _require(may_manage_runs(agent, caller.principal), agent)
            before = await capabilities.lock(made.tx, agent.id)
            principal = caller.principal
            after = Published(agent.id, document, made.now, principal.id, principal.session, made.now)
            capabilities.publish(made.tx, after)
            changed = before is None or before.document != after.document
            return made.answer(reply_of(after, changed=changed, warnings=caller.warnings))

    async def published(self, principal: Principal, agent_id: AgentId) -> Published:
        """Return what was published of an agent's machine, to its owner, itself or an admin; else `NotFound`."""
        async with self._store.read() as tx:
            agent = await require_agent(tx, agent_id)
            _require(may_manage(agent, principal) or principal.id == agent.id, agent)
            found = await capabilities.get(tx, agent.id)
        if found is None:
            raise _never(agent)
        return found

    @retried
    async def beat(self, caller: Caller, agent_id: AgentId) -> wire.HeartbeatReply | Replayed:
        """Note that an agent's machine is there."""
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            agent = await require_agent(made.tx, agent_id)
            _require(may_manage_runs(agent, caller.principal), agent)
            seen = await capabilities.beat(made.tx, agent.id, now=made.now)
            if seen is None:
                raise _never(agent)
            return made.answer(wire.HeartbeatReply(agent.id, iso(seen), list(caller.warnings)))

    async def hosts(
        self, principal: Principal, profile: NodeId, *, owner: PersonId | None, max_age: timedelta | None
    ) -> Hosts:
        """Return which of a person's machines will do for a profile; another's are an admin's to see."""
        whose = owner if owner is not None else principal.person
        if whose is None:
            raise Forbidden(f"{principal.id} has no machines; a person's or an agent's token has, or name an owner")
        if whose != principal.person and not principal.is_admin:
            raise Forbidden(f"the machines of {whose} are for that person, or an admin, to see")
        async with self._store.read() as tx:
            now = await tx.now()
            wanted = await _profile(tx, profile)
            since = Instant(0) if max_age is None else Instant(now - micros(max_age))
            found, stale = await capabilities.hosts(tx, whose, since=since)
        return Hosts(whose, tuple(Host(each, _verdict(each, wanted)) for each in found), stale, now)


def reply_of(
    published: Published, *, changed: bool | None = None, warnings: tuple[str, ...] = ()
) -> wire.CapabilitiesReply:
    """Return what was published as it goes over the wire."""
    return wire.CapabilitiesReply(
        agent=published.agent,
        capabilities=msgspec.json.decode(published.document, type=wire.CapabilitiesBody),
        published_at=iso(published.published_at),
        last_seen=iso(published.last_seen),
        published_by=published.published_by,
        session=published.session if published.session is not None else msgspec.UNSET,
        changed=changed if changed is not None else msgspec.UNSET,
        warnings=list(warnings) or msgspec.UNSET,
    )


def _verdict(published: Published, profile: Profile) -> Verdict:
    return satisfies(parse_capabilities(msgspec.json.decode(published.document)).merged(), profile)


def _require(allowed: bool, agent: Agent) -> None:  # noqa: FBT001 — the one thing it is about
    if not allowed:
        raise Forbidden(f"{agent.id} is {agent.owner}'s; what its machine can run is for it, its owner or an admin")


def _never(agent: Agent) -> NotFound:
    return NotFound(f"{agent.id} has never published what it can run; `baton agent capabilities --publish` does")


async def _profile(tx: Reader, node: NodeId) -> Profile:
    found = (await nodes.nodes_of(tx, [node])).get(node)
    if found is None:
        raise await tombstones.absence(tx, node)
    if found.authored.type != "profile":
        raise InvalidNode(f"{node} is a {found.authored.type}, not a profile", field="id")
    return parse_profile(node, found.authored.extra)
