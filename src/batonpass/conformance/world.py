"""A corner of a server that is one test's alone: two people, an agent of each, a project, and time that passes.

People are made by whoever runs the server, which is no part of the protocol:
`found` uses Batonpass's own routes for that, and everything else published ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from batonpass.conformance.client import Answer, Client
from batonpass.conformance.proxy import Record

TTL: Final = timedelta(minutes=45)
TTL_MAX: Final = timedelta(hours=8)
GRACE: Final = timedelta(hours=48)


class NotSeen(Exception):
    """Something that can't be tried on this server; the message says why."""


@dataclass(frozen=True)
class Server:
    """Where a server listens, an admin's token, and how to let time pass on its clock, None where nobody can.

    What is asked of it is written down in `record`, if there is one.
    """

    address: str
    admin_token: str
    passes: Callable[[timedelta], object] | None = None
    record: Record | None = None

    def client(self, token: str | None) -> Client:
        """Return a client under some token, or under none."""
        return Client(self.address, token, record=self.record)


@dataclass(frozen=True)
class World:
    """`ann` and `ben` are people, `agent` is Ann's agent, `rival` Ben's; `ids` has their ids by these names."""

    server: Server
    number: int
    admin: Client
    ann: Client
    ben: Client
    agent: Client
    rival: Client
    ids: dict[str, str]
    _serial: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    @property
    def project(self) -> str:
        """Return the project of this corner's nodes."""
        return f"project-{self.number}"

    def client(self, token: str | None) -> Client:
        """Return a client under some token, or under none."""
        return self.server.client(token)

    def name(self, stem: str) -> str:
        """Return an id that nobody else has and that begins with `stem`."""
        return f"{stem}-{self.number}-{next(self._serial)}"

    def entry(self, node: str, kind: str = "task", **keys: object) -> dict[str, object]:
        """Return a node as JSON, of this corner's project unless `keys` name another."""
        given = {"title": f"About {node}", "summary": "To do", "date": "2026-06-01", "project": self.project}
        return {"id": node, "type": kind, **given, **keys}

    def node(self, kind: str = "task", *, prefix: str | None = None, **keys: object) -> str:
        """File a node as the admin, and return its id."""
        node = self.name(prefix or kind)
        answer = self.admin.post("/v1/nodes", {"nodes": [self.entry(node, kind, **keys)]})
        assert all(result["ok"] for result in done(answer)["results"]), answer
        return node

    def ready(self, kind: str = "task", *, prefix: str | None = None, **keys: object) -> str:
        """File an item that a person has marked for agents, and return its id."""
        node = self.node(kind, prefix=prefix, **keys)
        done(self.ann.post(f"/v1/nodes/{node}/readiness", {"readiness": "agent"}))
        return node

    def resolver(self, node: str, **keys: object) -> str:
        """File an artifact that resolves `node`, and return its id."""
        return self.node("artifact", prefix="art", edges=[{"type": "resolves", "to": node}], **keys)

    def passes(self, span: timedelta) -> None:
        """Let time pass on the server's clock."""
        if self.server.passes is None:
            raise NotSeen(f"it takes a server whose clock can be moved by {span}")
        self.server.passes(span)

    def read(self, node: str) -> Any:  # noqa: ANN401 — JSON
        """Return a node as anybody reads it."""
        return done(self.admin.get(f"/v1/nodes/{node}"))

    def assigned(self, node: str) -> list[str]:
        """Return to whom the node has an assigned edge."""
        edges = self.read(node)["frontmatter"].get("edges", [])
        return [edge["to"] for edge in edges if edge["type"] == "assigned"]

    def page(self, who: Client, **query: object) -> Any:  # noqa: ANN401 — JSON
        """Return this project's queue as `who` sees it."""
        return done(who.get("/v1/queue", **{"project": self.project, **query}))

    def queued(self, who: Client, **query: object) -> list[str]:
        """Return the ids on that page."""
        return [item["id"] for item in self.page(who, **query)["items"]]


def found(server: Server, number: int) -> World:
    """Make the two people and their agents, who are called by `number`, and return their corner."""
    admin = server.client(server.admin_token)
    ids: dict[str, str] = {}
    clients: dict[str, Client] = {}
    for person, agent in (("ann", "agent"), ("ben", "rival")):
        called = {"name": f"{person} {number}", "email": f"{person}-{number}@example.org"}
        ids[person] = done(admin.post("/v1/admin/people", called))["id"]
        token = done(admin.post("/v1/admin/tokens", {"person": ids[person]}))["token"]
        clients[person] = server.client(token)
        ids[agent] = done(clients[person].post("/v1/agents", {"label": f"{agent} {number}"}))["id"]
        minted = done(clients[person].post(f"/v1/agents/{ids[agent]}/token", {"standing": True}))
        clients[agent] = server.client(minted["token"])
    return World(
        server,
        number,
        admin,
        ann=clients["ann"],
        ben=clients["ben"],
        agent=clients["agent"],
        rival=clients["rival"],
        ids=ids,
    )


def done(answer: Answer) -> Any:  # noqa: ANN401 — JSON
    """Return the body of an answer that must be a 2xx."""
    assert answer.ok, answer
    return answer.body
