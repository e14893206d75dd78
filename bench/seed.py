"""What is measured on: agents with tokens of their own, and nodes, all made through the API.

Node n of a pool falls to agent n modulo the pool's number of agents; that is
also how the load generator takes tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import httpx
import msgspec

from batonpass.client.client import Client
from batonpass.core.identity import agent_id_for
from batonpass.core.ids import NodeId
from batonpass.wire.nodes import NODES_MAX
from batonpass.wire.policy import PolicyRequest

AGENTS: Final = 128
MAX_CLAIMS: Final = 1_000
"""The policy's limit of claims an agent: a few agents do here what a fleet does."""
SESSION: Final = "race"
"""The session of the claims that are given back after each measurement; what is held for long has none."""
BODY: Final = "Read the failing case first, then the module it exercises. Leave the public names as they are.\n" * 6


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of one purpose, in a project of their own."""

    name: str
    count: int
    agents: int = AGENTS

    def node(self, number: int) -> NodeId:
        """Return the id of a node by its number."""
        return NodeId(f"task-{self.name}-{number}")

    def of_agent(self, agent: int) -> list[NodeId]:
        """Return the nodes that fall to an agent."""
        return [self.node(number) for number in range(agent, self.count, self.agents)] if agent < self.agents else []


CLAIMED: Final = Pool("claimed", 10_240)
"""Free nodes to claim; more than a measurement gets through, so that each is claimed once."""
QUEUED: Final = Pool("queued", 1_280)
"""Free nodes that `queue/next` takes from, all ready for agents."""
HELD: Final = Pool("held", 2_048)
"""Nodes whose leases are renewed one by one."""
BULK: Final = Pool("bulk", 3_200, agents=32)
"""Nodes whose leases are renewed a hundred a call: all that an agent has."""


RECORD_CLASS: Final = "bench"
WORK: Final = "work"
"""The task of each record of that class; `status` is a register."""


@dataclass(frozen=True, slots=True)
class RecordPool:
    """Records of one purpose; record n falls to agent n modulo their number."""

    name: str
    count: int
    agents: int = AGENTS

    def record(self, number: int) -> str:
        """Return the id of a record by its number."""
        return f"{self.name}-{number}"


FREE_RECORDS: Final = RecordPool("free", 8_192)
"""Records whose tasks are free; more than a measurement gets through, so that each is claimed once."""
HELD_RECORDS: Final = RecordPool("held", 1_024)
"""Records whose tasks are held for long, and which are written under that claim."""


class Fleet(msgspec.Struct):
    """The tokens that were made, with which a copy of the database can be used as well."""

    admin: str
    agents: list[str]


def seed(admin: Client, token: str) -> Fleet:
    """Make agents, nodes and the leases that are held for long, and return the tokens."""
    admin.put_policy("*", PolicyRequest(max_claims=MAX_CLAIMS))
    fleet = Fleet(token, [agent_of(admin, number) for number in range(AGENTS)])
    for pool in (CLAIMED, QUEUED, HELD, BULK):
        _fill(admin, pool)
    for number, agent in enumerate(clients_of(admin.server, fleet)):
        for nodes in filter(None, (HELD.of_agent(number), BULK.of_agent(number))):
            reply = agent.claim_many(nodes)
            assert not reply.failed, reply.failed[0]
    return fleet


def give_back(server: str, fleet: Fleet) -> None:
    """Release what the last measurement claimed, as each agent would."""
    for agent in clients_of(server, fleet):
        agent.release_held(session=SESSION)


def clients_of(server: str, fleet: Fleet) -> Iterator[Client]:
    """Yield each agent's client, all on the same connections."""
    with httpx.HTTPTransport() as transport:
        for secret in fleet.agents:
            with Client(server, secret, transport=transport) as client:
                yield client


def agent_of(admin: Client, number: int) -> str:
    """Make an agent, and return a token for it."""
    agent = agent_id_for(f"bench-{number}")
    admin.add_agent(label=f"bench {number}", id_=agent)
    return admin.mint_standing_token(agent).token


def _fill(admin: Client, pool: Pool) -> None:
    for first in range(0, pool.count, NODES_MAX):
        numbers = range(first, min(first + NODES_MAX, pool.count))
        reply = admin.put_nodes([_document(pool, number) for number in numbers])
        assert all(result.ok for result in reply.results), reply.results[0]


def _document(pool: Pool, number: int) -> dict[str, object]:
    return {
        "id": pool.node(number),
        "type": "task",
        "title": f"Task {number} of {pool.name}",
        "summary": "One of many items of a measurement",
        "project": pool.name,
        "readiness": "agent",
        "body": BODY,
    }
