"""The graph of a real server in this process, as a worker's agent sees it, with the person who owns the agent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from batonpass.cli.local import LocalServer, local_server
from batonpass.client.client import Client
from batonpass.core.ids import AgentId, HolderId, NodeId
from batonpass.server.services.identity import bootstrap
from batonpass.worker.server_graph import ServerGraph


@dataclass(frozen=True, slots=True)
class ServedGraph:
    """A server with Ada, who is its admin, their agent, and the agent's view of the graph."""

    server: LocalServer
    person: Client
    agent: Client
    agent_id: AgentId
    graph: ServerGraph

    def add(self, node: str, **fields: object) -> NodeId:
        """Add a node of the project `mail`, a task unless `fields` say otherwise, and return its id."""
        entry = {"id": node, "type": "task", "title": node, "summary": node, "date": "2026-11-30", "project": "mail"}
        (result,) = self.person.put_nodes([{**entry, **fields}]).results
        assert result.ok, result
        return NodeId(node)


@contextmanager
def served_graph(database_url: str) -> Iterator[ServedGraph]:
    """Run a server over the database while the block runs."""

    async def first_person() -> str:
        _, secret = await bootstrap(server.store, name="Ada Admin", email="ada@example.org")
        return secret.reveal()

    with (
        local_server(database_url) as server,
        server.client(server.portal.call(first_person)) as person,
    ):
        agent_id = AgentId(HolderId(person.add_agent(label="mill").id))
        with server.client(person.mint_standing_token(agent_id, label="test").token) as agent:
            yield ServedGraph(server, person, agent, agent_id, ServerGraph(agent))
