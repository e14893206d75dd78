"""What a worker runs for an item: the same for all, but for the profile that an item, or its routing, asks for.

    -- COMMAND  >  --harness  >  the profile's  >  `work.harness`  >  the only one that is installed

A profile is met as a whole, or the item is left to a box that meets it
(`profiles`); nothing takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from batonpass.core.capabilities import Profile
from batonpass.core.ids import AgentId, NodeId
from batonpass.worker import capabilities, profiles
from batonpass.worker.boxfile import BoxFile
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.dispatch.target import Nodes, profile_id, read_target
from batonpass.worker.graph import Item
from batonpass.worker.harness import registry
from batonpass.worker.profiles import Named

FRESH_S: Final = 60.0
"""How long a profile that was read, and the one an agent uses, are taken to be as they were."""


@dataclass(slots=True)
class Orders:
    """Makes orders for items. `harness`, `model` and `profile` are what was asked for on the command line."""

    nodes: Nodes
    box: BoxFile
    inherited: Mapping[str, str]
    agent: AgentId | None
    clock: Callable[[], float]
    harness: str | None = None
    model: str | None = None
    profile: NodeId | None = None
    _profiles: dict[NodeId, tuple[float, Profile]] = field(default_factory=dict)
    _agents: tuple[float, Named | None] | None = None

    def __call__(self, order: Order, item: Item) -> Order:
        """Return the order for an item; `LaunchRefused` when this box can't do what its profile asks for."""
        named = self._named(item)
        if named is None:
            return order
        profile = self._read(named)
        profiles.require_met(capabilities.look(self.box, self.inherited).merged(), profile)
        order = replace(order, profile=profile.id, model=self.model or profile.model, mcp=self.box.servers(profile))
        if order.command or self.harness is not None or profile.harness is None:
            return order
        return with_harness(order, profile.harness, self.box, self.inherited)

    def standing_harness(self) -> str | None:
        """Return the harness that every run is with whose item asks for nothing, if a profile names one."""
        named = self._standing()
        return None if named is None else self._read(named).harness

    def _named(self, item: Item) -> Named | None:
        if self.profile is None and item.profile:
            profile = profile_id(item.profile)
            return None if profile is None else Named(profile, f"the profile of {item.id}")
        if self.profile is None and self.agent in item.assigned:
            return profiles.applying(None, read_target(self.nodes, item.id), self.agent, self.nodes)
        return self._standing()

    def _standing(self) -> Named | None:
        """Return the profile of every item that names none itself."""
        if self._agents is None or self._agents[0] + FRESH_S <= self.clock():
            self._agents = (self.clock(), profiles.applying(self.profile, None, self.agent, self.nodes))
        return self._agents[1]

    def _read(self, named: Named) -> Profile:
        known = self._profiles.get(named.id)
        if known is None or known[0] + FRESH_S <= self.clock():
            known = self._profiles[named.id] = (self.clock(), profiles.read(named, self.nodes))
        return known[1]


def with_harness(order: Order, named: str | None, box: BoxFile, inherited: Mapping[str, str]) -> Order:
    """Return the order with the harness `named`, or the only one there is; `LaunchRefused` when it is not there."""
    known = capabilities.box_of(box, inherited)
    found = registry.only(known) if named is None else registry.resolve(named, known)
    return replace(order, harness=found.harness.id, program=found.program, declared=found.description)
