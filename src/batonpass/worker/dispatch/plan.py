"""Sending one run off by name: everything is planned first, and only a plan that stands changes anything.

    wish ─▶ guards, in their order ─▶ Plan ─▶ record with its nonce ─▶ claim ─▶ supervisor
            nothing is changed                 `send` begins here

`prepare` asks and reads; what it refuses leaves no file, no lease, no branch.
`send` writes the nonce down before it is sent (D6), starts nothing without an
answered claim (D0), and hands back only what it claimed itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, TypeVar

from batonpass.client import lease_calls
from batonpass.client.calls import Call
from batonpass.client.client import ONCE, Patience
from batonpass.client.heartbeat import boottime
from batonpass.core.capabilities import Profile
from batonpass.core.errors import AlreadyClaimed, BatonError, Internal, Unavailable
from batonpass.core.ids import AgentId, Fence, HolderId, NodeId, Resource
from batonpass.core.leases import Edge
from batonpass.core.points import reach
from batonpass.wire.identity import AgentsReply
from batonpass.worker import capabilities, profiles
from batonpass.worker.boxfile import BoxFile
from batonpass.worker.dispatch import checkouts, guards, launch, templates
from batonpass.worker.dispatch.checkouts import Map, Place
from batonpass.worker.dispatch.guards import Identity, Sender
from batonpass.worker.dispatch.launch import Begun, Ground, Launcher, NotLaunched, Order
from batonpass.worker.dispatch.target import Nodes, Target, read_target
from batonpass.worker.environment import for_git
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.graph import Graph, Taken
from batonpass.worker.journal import Journal
from batonpass.worker.orders import with_harness
from batonpass.worker.settings import Settings

T = TypeVar("T")


class Server(Nodes, Protocol):
    """What a dispatch asks of the server besides what runs do: a client."""

    def agents(self, *, after: str | None = None) -> AgentsReply:
        """Return a page of the agents of the person who asks."""
        ...

    def send(self, call: Call[T], *, patience: Patience | None = None) -> T:
        """Send one call, and again for as long as `patience` says; without one as long as is usual."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What was asked for. `node` None is a task in free words, which are the `instructions`."""

    node: NodeId | None
    instructions: str = ""
    directory: Path | None = None
    base: str = "main"
    name: str | None = None
    command: tuple[str, ...] = ()
    harness: str | None = None
    model: str | None = None
    profile: NodeId | None = None
    agent: AgentId | None = None
    template: Path | None = None
    read_only: bool = False
    contract: bool = False
    allow_person: bool = False
    force: bool = False


@dataclass(frozen=True, slots=True)
class Sending:
    """What a dispatch works with: `by_person` as for `guards.Sender`, `standing` the folder it was started in."""

    server: Server
    graph: Graph
    box: BoxFile
    settings: Settings
    standing: Path
    by_person: bool | None = None
    configured_agent: AgentId | None = None

    @property
    def inherited(self) -> Mapping[str, str]:
        """The environment that the command was started with."""
        return self.settings.inherited

    @property
    def map(self) -> Map:
        """What this box knows of checkouts."""
        return Map(self.box.repos, self.standing, self.settings.home, for_git(self.inherited))


@dataclass(frozen=True, slots=True)
class Plan:
    """A run that nothing stands against; `warnings` are for whoever sends it off. Nothing was changed for it."""

    target: Target | None
    order: Order
    ground: Ground
    place: Place
    identity: Identity
    sender: Sender
    warnings: tuple[str, ...]
    force: bool


def prepare(sending: Sending, wish: Wish) -> Plan:
    """Return the plan of a run; `LaunchRefused` when something stands against it, with the way out."""
    caller = sending.graph.caller()
    by_person = caller.agent is None if sending.by_person is None else sending.by_person
    sender = Sender(caller, by_person)
    if wish.node is None and caller.agent is not None:
        raise LaunchRefused(
            "a task that is no item needs a token for its run that only a person may make, and this one is an agent's;"
            " file it and send a run to that (baton add TITLE), or use your own token"
        )
    target = None if wish.node is None else read_target(sending.server, wish.node)
    doubts: tuple[str, ...] = ()
    if target is not None:
        guards.require_open(target, sender, force=wish.force)
        doubts = guards.require_not_for_people(target, sender)
    identity, refused = _identity(sending, wish, sender)
    named = profiles.applying(wish.profile, target, None if identity is None else identity.agent, sending.server)
    profile = None if named is None else profiles.read(named, sending.server)
    if profile is not None:
        profiles.require_met(capabilities.look(sending.box, sending.inherited).merged(), profile)
    if target is not None:
        journal = Journal(sending.settings.home)
        guards.require_not_in_flight(journal, target.id, server=sending.graph.server, force=wish.force)
    place = _place(sending, wish, target)
    if identity is None:
        assert refused is not None
        raise refused
    order = _order(sending, wish, profile=profile, place=place, target=target)
    ground = launch.survey(order, sending.settings)
    warnings = guards.warnings(target, identity)
    return Plan(target, order, ground, place, identity, sender, (*doubts, *warnings), wish.force)


def send(plan: Plan, launcher: Launcher, server: Server) -> Begun | NotLaunched:
    """Send the run off.

    A claim that is refused raises what was answered, and no record stays of a
    run that never was; one without an answer keeps its record, with the nonce
    in it, for the next look to settle.
    """
    caller = replace(plan.sender.caller, agent=plan.identity.agent)
    record = launch.new_record(
        plan.order,
        plan.ground,
        server=launcher.graph.server,
        caller=caller,
        now=launcher.now(),
        node=None if plan.target is None else plan.target.id,
    )
    record = replace(record, borrowed_epoch=_standing_epoch(plan.target))
    with Journal(launcher.settings.home).create(record) as run:
        reach("claim.nonce_written")
        try:
            taken = None if plan.target is None else _claim(plan, plan.target, server, record.dispatch)
        except (Unavailable, Internal):
            raise
        except BatonError:
            run.forget()
            raise
        return launch.begin(launcher, run, taken, order=plan.order, ground=plan.ground)


def _claim(plan: Plan, target: Target, server: Server, nonce: str) -> Taken:
    """Claim the item; `AlreadyClaimed` too where a lease of one's own has come to stand on it since it was looked at.

    Such a lease answers any claim of its owner as a renewal, and so does our
    own when it is asked for again: the first answer tells the two apart.
    """
    sent_at_s = boottime()
    call = lease_calls.claim(target.id, dispatch=nonce, force=plan.force)
    reach("claim.sent")
    try:
        reply, is_first = server.send(call, patience=ONCE), True
    except Unavailable:
        reply, is_first = server.send(call), False
    reach("claim.answered")
    lease = reply.lease
    stood = lease.epoch == _standing_epoch(target)
    came = is_first and not stood and reply.edge != Edge.ADDED
    if came and not plan.force:
        raise AlreadyClaimed(f"{target.id} was claimed by {lease.by_name or lease.by} a moment ago")
    fence = Fence(Resource(lease.node_id), lease.epoch)
    return Taken(target.item, fence, reply.expires_in_ms, sent_at_s, borrowed=stood or came)


def _standing_epoch(target: Target | None) -> int | None:
    """Return the tenure that stands on the item already: whatever a claim makes of it, it is not the run's to end."""
    lease = None if target is None else target.lease
    return None if lease is None or lease.reserved else lease.epoch


def _identity(sending: Sending, wish: Wish, sender: Sender) -> tuple[Identity | None, LaunchRefused | None]:
    """Return whose name the run carries, or why nobody's: that is said only once the item itself has passed."""
    caller = sender.caller
    try:
        own = own_agents(sending.server) if caller.agent is None and caller.person is not None else ()
        return (
            guards.resolve_identity(
                caller,
                named=wish.agent,
                configured=sending.configured_agent,
                own=own,
                allow_person=wish.allow_person or sending.box.allow_person,
            ),
            None,
        )
    except LaunchRefused as error:
        return None, error


def own_agents(server: Server) -> Sequence[AgentId]:
    """Return every agent of the person who asks, however many pages they fill."""
    page = server.agents()
    own = [agent.id for agent in page.agents]
    while page.next is not None:
        page = server.agents(after=page.next)
        own += [agent.id for agent in page.agents]
    return [AgentId(HolderId(agent)) for agent in own]


def _place(sending: Sending, wish: Wish, target: Target | None) -> Place:
    if target is None:
        return checkouts.without_item(sending.map, directory=wish.directory)
    return checkouts.locate(target.project, sending.map, directory=wish.directory, force=wish.force)


def _order(sending: Sending, wish: Wish, *, profile: Profile | None, place: Place, target: Target | None) -> Order:
    """Return what is run where; which program that is, is this box's word alone."""
    template = wish.template or sending.box.template
    order = Order(
        wish.command,
        place.folder,
        base=wish.base,
        project=None if target is None else target.project,
        model=wish.model or (profile.model if profile is not None else None),
        profile=None if profile is None else profile.id,
        read_only=wish.read_only,
        mcp=() if profile is None else sending.box.servers(profile),
        name=wish.name,
        instructions=wish.instructions,
        template=None if template is None else templates.read(template),
        set_up=sending.box.set_up,
        tear_down=sending.box.tear_down,
        contract=wish.contract,
    )
    if wish.command:
        return order
    named = wish.harness or (profile.harness if profile is not None else None) or sending.box.harness
    return with_harness(order, named, sending.box, sending.inherited)
