"""People and agents as rows; their nodes are the graph's. Who may make them is the service's to say."""

from __future__ import annotations

from batonpass.core.edges import ORG_ROOT
from batonpass.core.identity import Agent, Person, email_key
from batonpass.core.ids import AgentId, PersonId
from batonpass.store.base import Reader, Row, Tx, q


async def any_people_locked(tx: Tx) -> bool:
    """Return whether there is anybody, and let nobody else be added until this transaction ends."""
    tx.put(q("identity.lock_people"))
    (((found,),),) = await tx.fetch(q("identity.any_people"))
    return bool(found)


async def add_person(tx: Tx, person: Person) -> bool:
    """Insert `person` and return True, or False when the id or the address is somebody's; see `people_like`."""
    (added,) = await tx.fetch(
        q(
            "identity.add_person",
            id=person.id,
            name=person.name,
            email=person.email,
            email_key=email_key(person.email),
            now=person.created_at,
        )
    )
    return bool(added)


async def person_with_email(tx: Reader, person: Person) -> PersonId | None:
    """Return who else has the address of `person`, or None."""
    key = email_key(person.email)
    (rows,) = await tx.fetch(q("identity.people_like", id=person.id, email_key=key))
    return next((row[0] for row in rows if row[1] == key), None)


async def get_person(tx: Reader, person: PersonId) -> Person | None:
    """Return one person, or None."""
    (rows,) = await tx.fetch(q("identity.person", id=person, org=ORG_ROOT))
    return _person(rows[0]) if rows else None


async def list_people(tx: Reader, *, after: str, most: int) -> list[Person]:
    """Return at most `most` people after the id `after`, in order of id."""
    (rows,) = await tx.fetch(q("identity.people", org=ORG_ROOT, after=after, most=most))
    return [_person(row) for row in rows]


async def get_first_admin(tx: Reader) -> Person | None:
    """Return the longest known admin, or None."""
    (rows,) = await tx.fetch(q("identity.first_admin", org=ORG_ROOT))
    return _person(rows[0]) if rows else None


async def add_agent(tx: Tx, agent: Agent) -> bool:
    """Insert `agent` and return True, or False when its id is taken."""
    (added,) = await tx.fetch(
        q(
            "identity.add_agent",
            id=agent.id,
            owner=agent.owner,
            label=agent.label,
            pubkey=agent.pubkey,
            now=agent.created_at,
        )
    )
    return bool(added)


async def get_agent(tx: Reader, agent: AgentId) -> Agent | None:
    """Return one agent, or None."""
    (rows,) = await tx.fetch(q("identity.agent", id=agent))
    return Agent(*rows[0]) if rows else None


async def list_agents(tx: Reader, *, owner: PersonId | None, after: str, most: int) -> list[Agent]:
    """Return at most `most` agents after the id `after`, of one owner or of everybody."""
    (rows,) = await tx.fetch(q("identity.agents", owner=owner, after=after, most=most))
    return [Agent(*row) for row in rows]


def _person(row: Row) -> Person:
    return Person(row[0], row[1], row[2], row[3], bool(row[4]))
