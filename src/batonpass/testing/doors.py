"""Every door of the API: each route, who may use it, and a body that works in a `populated` database.

Tests that hold for every route walk this table, and one test compares it with
the server's own, so a route that is added and not listed here fails it. In the
order in which they stand, all doors open one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from batonpass.core.tokens import PREFIX_HEX_SHOWN, Secret, hash_of
from batonpass.testing.populated import CLAIMED, FREE, Fleet
from batonpass.wire import identity, leases, nodes, paths, policy, queue, tokens

Who = Literal["admin", "person", "agent", "rival", "run"]
"""Whose token of the populated database."""

AGENT: Final = "agent-mill"


@dataclass(frozen=True, slots=True)
class Door:
    """One method of one route.

    `kind` is what its body is decoded to, None when it takes none. `published`
    routes overlook fields that they do not know, ours refuse them (D16b).
    `keyed` ones answer a repeated Idempotency-Key from the store (D11).
    `query` are the parameters it takes. `values` fill its path, `ends` names
    whose token a `{prefix}` is of.
    """

    method: str
    template: str
    kind: type[msgspec.Struct] | None = None
    body: Mapping[str, object] = field(default_factory=dict)
    who: Who = "admin"
    published: bool = False
    keyed: bool = False
    status: int = 200
    query: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)
    ends: Who | None = None

    @property
    def name(self) -> str:
        """Return what the door is called in a list of findings."""
        return f"{self.method} {self.template}"

    @property
    def writes(self) -> bool:
        """Whether anything changes when it opens."""
        return self.method != "GET"

    def path(self, fleet: Fleet, **values: str) -> str:
        """Return the path in the database of `fleet`; `values` go before those of the table."""
        own = {**self.values, **({"prefix": prefix_of(fleet, self.ends)} if self.ends is not None else {})}
        return paths.fill(self.template, **{**own, **values})

    def token(self, fleet: Fleet) -> str:
        """Return the token under which the door opens."""
        return token_of(fleet, self.who)


def token_of(fleet: Fleet, who: Who) -> str:
    """Return somebody's token."""
    tokens: Mapping[Who, str] = {
        "admin": fleet.admin,
        "person": fleet.person,
        "agent": fleet.agent,
        "rival": fleet.rival,
        "run": fleet.run,
    }
    return tokens[who]


def prefix_of(fleet: Fleet, who: Who) -> str:
    """Return what names somebody's token in lists."""
    return hash_of(Secret(token_of(fleet, who)))[:PREFIX_HEX_SHOWN]


def _lease(template: str, kind: type[msgspec.Struct], **body: object) -> Door:
    values = {"id": FREE} if "{id}" in template else {}
    return Door("POST", template, kind, body, "agent", published=True, values=values)  # never keyed: see D11


def _node(template: str, kind: type[msgspec.Struct], method: str = "POST", **body: object) -> Door:
    return Door(method, template, kind, body, "person", published=True, keyed=True, values={"id": FREE})


def _list(template: str, *query: str, who: Who = "admin", **values: str) -> Door:
    return Door("GET", template, who=who, query=query, values=values)


NEW_NODE: Final = {"id": "task-new", "type": "task", "title": "New", "summary": "New", "date": "2026-06-01"}

DOORS: Final[tuple[Door, ...]] = (
    # leases
    _lease(paths.CLAIM, leases.ClaimRequest, dispatch="door-1"),
    _lease(paths.RENEW, leases.RenewRequest),
    _lease(paths.EXTEND, leases.ExtendRequest, ms=1000),
    _lease(paths.RESERVE, leases.RenewRequest),
    _lease(paths.RELEASE, leases.ReleaseRequest),
    _lease(paths.QUEUE_CLAIM, leases.BulkClaimRequest, ids=[FREE]),
    _lease(paths.QUEUE_RENEW, leases.BulkRenewRequest),
    _lease(paths.QUEUE_RELEASE, leases.BulkReleaseRequest),
    Door("POST", paths.QUEUE_NEXT, queue.NextRequest, {"accept": "open"}, "agent"),
    _list(paths.LEASES, "holder", "project", "state", "after", "limit"),
    _list(
        paths.QUEUE,
        *("project", "assignee", "type", "exclude_type", "readiness", "include_blocked", "limit", "offset"),
        who="agent",
    ),
    # the graph
    Door("POST", paths.NODES, nodes.PutRequest, {"nodes": [NEW_NODE]}, "person", published=True, keyed=True),
    _list(paths.NODES, "type", "status", "project", "assignee", "text", "limit", "after"),
    _list(paths.NODE, id=CLAIMED),
    _list(paths.NODE_EDGES, "direction", "type", "limit", "after", id=CLAIMED),
    _node(paths.NODE_EDGES, nodes.EdgeRequest, type="mentions", to=CLAIMED),
    _node(paths.NODE_EDGES, nodes.EdgeRemoval, "DELETE", type="mentions", to=CLAIMED),
    _node(paths.NODE_STATUS, nodes.StatusRequest, status="open"),
    _node(paths.NODE_PRIORITY, nodes.PriorityRequest, priority="p3"),
    _node(paths.NODE_READINESS, nodes.ReadinessRequest, readiness="clear"),
    _node(paths.NODE_COMMITS, nodes.CommitRequest, repo="web", sha="abcdef1"),
    # policy and status
    _list(paths.POLICY, project="mail"),
    Door(
        "PUT", paths.POLICY, policy.PolicyRequest, {"claim_ttl_ms": 1_800_000}, keyed=True, values={"project": "mail"}
    ),
    _list(paths.STATUS),
    # who is who
    _list(paths.ME),
    _list(paths.AGENTS, "all", "after", "limit"),
    Door(
        "POST", paths.AGENTS, identity.AgentRequest, {"label": "new"}, "person", published=True, keyed=True, status=201
    ),
    _list(paths.ADMIN_PEOPLE, "after", "limit"),
    Door(
        "POST",
        paths.ADMIN_PEOPLE,
        identity.PersonRequest,
        {"name": "Nia New", "email": "nia@example.org"},
        keyed=True,
        status=201,
    ),
    Door(
        "POST",
        paths.ADMIN_AGENTS,
        identity.AdminAgentRequest,
        {"label": "other", "owner": "person-pat"},
        keyed=True,
        status=201,
    ),
    # tokens
    Door("POST", paths.AGENT_SESSION, tokens.SessionRequest, {"session": "s-door"}, "agent", published=True),
    Door(
        "POST",
        paths.AGENT_TOKEN,
        tokens.AgentTokenRequest,
        {"standing": True, "label": "door"},
        "person",
        published=True,
        keyed=True,
        status=201,
        values={"id": AGENT},
    ),
    _list(paths.AGENT_TOKENS, "after", "limit", who="person", id=AGENT),
    Door("DELETE", paths.AGENT_TOKEN_OF, who="person", keyed=True, values={"id": AGENT}, ends="run"),
    _list(paths.MY_TOKENS, "after", "limit", who="person"),
    Door("POST", paths.MY_TOKENS, tokens.PersonalTokenRequest, {"label": "door"}, "person", keyed=True, status=201),
    _list(paths.ADMIN_TOKENS, "person", "after", "limit"),
    Door("POST", paths.ADMIN_TOKENS, tokens.AdminTokenRequest, {"person": "person-pat"}, keyed=True, status=201),
    Door("DELETE", paths.MY_TOKEN, who="person", keyed=True, ends="person"),
    Door("DELETE", paths.ADMIN_TOKEN, keyed=True, ends="person"),
)
"""In this order each opens, and finds what it needs of those before it."""
