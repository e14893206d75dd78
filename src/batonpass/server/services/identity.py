"""Who is who: authentication, the first person, people, agents (companion 6, D39, D40).

People and agents are rows that tokens hang on, and nodes of the graph that
edges hang on, made together. Whose an agent is, is its row's to say, and shown
by the `owned-by` edge; who is an admin is the graph's to say, by a `stewards`
edge onto its root.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from batonpass.core.clock import moment
from batonpass.core.edges import ORG_ROOT, Edge
from batonpass.core.errors import Conflict, Forbidden
from batonpass.core.identity import Agent, Person, Principal, agent_id_for, parse_email, parse_name, person_id_for
from batonpass.core.ids import AgentId, Instant, NodeId, PersonId
from batonpass.core.nodes import Authored, Node
from batonpass.core.tokens import Kind, Secret
from batonpass.server.services.change import Caller, Change, Replayed, change
from batonpass.server.services.editor import Deed, Editor, Step
from batonpass.server.services.principals import Principals, principal_of, require_admin, require_current
from batonpass.server.services.service_accounts import ServiceAccounts
from batonpass.server.services.tokens import Entropy, Minted, Wish, mint, require_person
from batonpass.store import identity, tokens
from batonpass.store.base import SYSTEM, Fences, Store, Tx, retried
from batonpass.store.tokens import KnownToken
from batonpass.wire import identity as wire

T = TypeVar("T", Person, Agent)

PAGE_MAX: Final = 500
FIRST_TOKEN: Final = Wish(expires="365d", label="baton init")


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """People or agents in order of id, and where the next page begins."""

    items: tuple[T, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class NewPerson:
    """A person to be. Without `id` it is made of the name."""

    name: str
    email: str
    id: PersonId | None = None
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent to be. Without `id` it is made of the label."""

    label: str
    id: AgentId | None = None
    pubkey: str | None = None


class Identity:
    """Who asks, and the people and agents there are."""

    def __init__(
        self,
        store: Store,
        *,
        accounts: ServiceAccounts | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self.principals = Principals(store, accounts=accounts, monotonic_s=monotonic_s)

    async def authenticate(self, text: str) -> Principal:
        """Return who stands behind the token `text`; raise `Unauthorized` for one that opens nothing (any more)."""
        return await self.principals.behind(text)

    # --- people -------------------------------------------------------------------------------------------------

    @retried
    async def create_person(self, caller: Caller, new: NewPerson) -> wire.PersonReply | Replayed:
        """Make a person, and their node; an admin's. They have no token yet."""
        require_admin(caller.principal)
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            require_admin(await require_current(made.tx, made.now))
            person = Person(new.id or person_id_for(new.name), new.name, new.email, made.now, is_admin=new.is_admin)
            await _require_new_person(made.tx, person)
            node = await _put_node(made, _person_node(person))
            return made.answer(
                wire.PersonReply(
                    id=person.id,
                    name=person.name,
                    email=person.email,
                    is_admin=person.is_admin,
                    status="created",
                    revision=node.revision,
                    warnings=list(caller.warnings),
                )
            )

    async def list_people(self, principal: Principal, *, after: str, limit: int) -> Page[Person]:
        """Return people in order of id; an admin's."""
        require_admin(principal)
        most = min(limit, PAGE_MAX)
        async with self._store.read() as tx:
            return _page(await identity.list_people(tx, after=after, most=most + 1), most)

    # --- agents -------------------------------------------------------------------------------------------------

    async def create_agent(self, caller: Caller, new: NewAgent) -> wire.AgentReply | Replayed:
        """Make an agent of the person who asks, and its node. An agent makes no agents."""
        return await self._create_agent(caller, _owner(caller.principal), new, may=_owner)

    async def create_agent_for(self, caller: Caller, owner: PersonId, new: NewAgent) -> wire.AgentReply | Replayed:
        """Make an agent of `owner`; an admin's."""
        require_admin(caller.principal)
        return await self._create_agent(caller, owner, new, may=require_admin)

    @retried
    async def _create_agent(
        self, caller: Caller, owner: PersonId, new: NewAgent, *, may: Callable[[Principal], object]
    ) -> wire.AgentReply | Replayed:
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            may(await require_current(made.tx, made.now))
            person = await require_person(made.tx, owner)
            agent = Agent(new.id or agent_id_for(new.label), person.id, new.label, new.pubkey, made.now)
            if not await identity.add_agent(made.tx, agent):
                raise Conflict(f"there is an agent {agent.id} already; give this one another label, or an id")
            node = await _put_node(made, _agent_node(agent, person))
            return made.answer(
                wire.AgentReply(
                    id=agent.id,
                    owner=agent.owner,
                    label=agent.label,
                    spiffe=agent.spiffe,
                    pubkey=agent.pubkey,
                    status="created",
                    revision=node.revision,
                    warnings=list(caller.warnings),
                )
            )

    async def list_agents(self, principal: Principal, *, everybody: bool, after: str, limit: int) -> Page[Agent]:
        """Return the agents of the person behind the caller in order of id, or everybody's to an admin."""
        if everybody:
            require_admin(principal)
        elif principal.person is None:
            return Page((), None)
        most = min(limit, PAGE_MAX)
        owner = None if everybody else principal.person
        async with self._store.read() as tx:
            return _page(await identity.list_agents(tx, owner=owner, after=after, most=most + 1), most)


# --- the first person ------------------------------------------------------------------------------------------------


@retried
async def bootstrap(
    store: Store, *, name: str, email: str, entropy: Entropy = secrets.token_bytes
) -> tuple[Person, Secret]:
    """Make the organization and its first person, an admin, and return them with their token (`baton init`).

    Raises `Conflict` when there is anybody already, however many try at once.
    """
    name, email = parse_name(name, field="name"), parse_email(email)
    async with store.write(SYSTEM, Fences()) as tx:
        if await identity.any_people_locked(tx):
            raise Conflict("this database has its people already; ask an admin for a token, or init another database")
        now = await tx.now()
        person = Person(person_id_for(name), name, email, now, is_admin=True)
        await _require_new_person(tx, person)
        minted = _put_first_token(tx, person, now=now, entropy=entropy)
        by = principal_of(KnownToken(minted.token, person.name, person.email, None, steward=True))
        made = Change(tx, Caller(by, door="cli"), now)
        for authored in (_organization(), _person_node(person)):
            await _put_node(made, authored)
    return person, minted.secret


@retried
async def reissue(store: Store, *, entropy: Entropy = secrets.token_bytes) -> tuple[Person, Secret]:
    """Return the longest known admin with a new token: for whoever has the database itself, but lost the secret."""
    async with store.write(SYSTEM, Fences()) as tx:
        person = await identity.get_first_admin(tx)
        if person is None:
            raise Conflict("this database has no admin; `baton init` makes the first person one")
        minted = _put_first_token(tx, person, now=await tx.now(), entropy=entropy)
    return person, minted.secret


def _put_first_token(tx: Tx, person: Person, *, now: Instant, entropy: Entropy) -> Minted:
    minted = mint(Kind.PERSONAL, person, FIRST_TOKEN, now=now, entropy=entropy)
    tokens.add(tx, minted.token)
    return minted


def _owner(principal: Principal) -> PersonId:
    """Return the person who asks, who will own the agent; an agent makes no agents."""
    if not principal.is_person or principal.person is None:
        raise Forbidden("agents are made by the person who will own them, under a personal token")
    return principal.person


async def _require_new_person(tx: Tx, person: Person) -> None:
    """Insert `person`, or raise `Conflict` saying what of theirs is somebody's already."""
    if await identity.add_person(tx, person):
        return
    other = await identity.person_with_email(tx, person)
    if other is not None:
        raise Conflict(f"{person.email} is the address of {other} already; people are unique by it")
    raise Conflict(f"there is a person {person.id} already; give this one an id of their own")


# --- nodes -----------------------------------------------------------------------------------------------------------


def _organization() -> Authored:
    return Authored(
        id=ORG_ROOT,
        type="organization",
        title="The organization",
        summary="The root of this graph; whoever stewards it is an admin.",
    )


def _person_node(person: Person) -> Authored:
    return Authored(
        id=NodeId(person.id),
        type="person",
        title=person.name,
        summary=f"{person.name} <{person.email}>",
        extra={"name": person.name, "email": person.email},
        edges=(Edge("stewards", ORG_ROOT),) if person.is_admin else (),
    )


def _agent_node(agent: Agent, owner: Person) -> Authored:
    pubkey = {"pubkey": agent.pubkey} if agent.pubkey is not None else {}
    return Authored(
        id=NodeId(agent.id),
        type="agent",
        title=agent.label,
        summary=f"An agent of {owner.name}: {agent.label}",
        extra={"label": agent.label, **pubkey},
        edges=(Edge("owned-by", NodeId(owner.id)),),
    )


async def _put_node(made: Change, authored: Authored) -> Node:
    """Return a new node, stored with its history and its event, or raise `Conflict` when its id is taken.

    Who may make whom has been decided by now: for an agent it is its owner, whom the graph's own door would refuse.
    """
    editor = await Editor.over(made, [authored.id], new=frozenset({authored.id}))
    if authored.id in editor.nodes:
        raise Conflict(f"there is a node {authored.id} already; give another id")
    dated = replace(authored, date=moment(made.now).date().isoformat())
    node = await editor.carry_out(Step(None, dated), Deed("put", "node.put", {"status": "created"}, authors=True))
    await editor.finish()
    return node


def _page(rows: Sequence[T], most: int) -> Page[T]:
    page = tuple(rows[:most])
    return Page(page, page[-1].id if len(rows) > most else None)
