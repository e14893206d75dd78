"""Every door of the API: each operation, who may use it, and a body that works in a `populated` database.

Tests that hold for every operation walk this table, and one test compares it
with the server's own (`server/http/routes.py`, which says all else of an
operation), so one that is added and not listed here fails it. In the order in
which they stand, all doors open one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from batonpass.core.tokens import PREFIX_HEX_SHOWN, Secret, hash_of
from batonpass.server.http.operations import Operation
from batonpass.server.http.routes import OPERATIONS
from batonpass.testing.populated import CLAIMED, FREE, INCIDENTS, PROFILE, RUN, Fleet
from batonpass.wire import paths
from batonpass.wire.errors import is_of_records

Who = Literal["admin", "person", "agent", "rival", "run", "key"]
"""Whose token of the populated database."""

AGENT: Final = "agent-mill"


_OPERATIONS: Final = {(operation.method, operation.path): operation for operation in OPERATIONS}


@dataclass(frozen=True, slots=True)
class Door:
    """One operation, and how it opens. `values` fill its path, `ends` names whose token a `{prefix}` is of."""

    operation: Operation
    body: Mapping[str, object] = field(default_factory=dict)
    who: Who = "admin"
    values: Mapping[str, str] = field(default_factory=dict)
    ends: Who | None = None

    @property
    def name(self) -> str:
        """Return what the door is called in a list of findings."""
        return f"{self.method} {self.template}"

    @property
    def method(self) -> str:
        """Return its method."""
        return self.operation.method

    @property
    def template(self) -> str:
        """Return its path as the server routes by it."""
        return self.operation.path

    @property
    def kind(self) -> type[msgspec.Struct] | None:
        """Return what its body is decoded to, None when it takes none."""
        return self.operation.takes

    @property
    def query(self) -> tuple[str, ...]:
        """Return the names of the parameters it takes."""
        return self.operation.query

    @property
    def published(self) -> bool:
        """Whether it overlooks fields that it does not know, as the specifications' routes do (D16b)."""
        return self.operation.published

    @property
    def keyed(self) -> bool:
        """Whether it answers a repeated Idempotency-Key from the store (D11)."""
        return self.operation.keyed

    @property
    def status(self) -> int:
        """Return the status of its success."""
        return self.operation.status

    @property
    def invalid(self) -> int:
        """Return the status with which it refuses what is well-formed and wrong: 400 below `/v1/records` (D16b)."""
        return 400 if is_of_records(self.template) else 422

    @property
    def writes(self) -> bool:
        """Whether anything changes when it opens."""
        return not self.operation.reads

    def path(self, fleet: Fleet, **values: str) -> str:
        """Return the path in the database of `fleet`; `values` go before those of the table."""
        return paths.fill(self.template, **{**self.named(fleet), **values})

    def named(self, fleet: Fleet) -> dict[str, str]:
        """Return the values of the parameters in its path."""
        return {**self.values, **({"prefix": prefix_of(fleet, self.ends)} if self.ends is not None else {})}

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
        "key": fleet.key,
    }
    return tokens[who]


def prefix_of(fleet: Fleet, who: Who) -> str:
    """Return what names somebody's token in lists."""
    return hash_of(Secret(token_of(fleet, who)))[:PREFIX_HEX_SHOWN]


def _get(path: str, *, who: Who = "admin", **values: str) -> Door:
    return Door(_OPERATIONS["GET", path], who=who, values=values)


def _post(path: str, body: Mapping[str, object], who: Who = "admin", **values: str) -> Door:
    return Door(_OPERATIONS["POST", path], body, who, values)


def _put(path: str, body: Mapping[str, object], who: Who = "admin", **values: str) -> Door:
    return Door(_OPERATIONS["PUT", path], body, who, values)


def _delete(path: str, body: Mapping[str, object], who: Who = "admin", **values: str) -> Door:
    return Door(_OPERATIONS["DELETE", path], body, who, values)


def _end(path: str, whose: Who, who: Who = "admin", **values: str) -> Door:
    return Door(_OPERATIONS["DELETE", path], who=who, values=values, ends=whose)


FREE_AT_FIRST: Final = "e7576d155560a8791b0716e459cd8f8d2be5f5ea"
"""The first revision of `FREE`, which it has left behind."""
NEW_NODE: Final = {"id": "task-new", "type": "task", "title": "New", "summary": "New", "date": "2026-06-01"}
RUN_NOW: Final = {
    "agent": AGENT,
    "node_id": CLAIMED,
    "state": "done",
    "created_at": "2026-06-01T00:00:00.000+00:00",
}
NEW_CLASS: Final = {
    "fields": {"status": {"type": "register"}, "work": {"type": "task", "lease": "5m"}},
    "roles": {"fleet": {"identities": ["agent:*"], "read": "*", "write": "*", "claim": "*"}},
}
INCIDENT_AT: Final = {"record_class": "incidents", "id": "inc-1"}
_MENTION: Final = {"type": "mentions", "to": CLAIMED}

DOORS: Final[tuple[Door, ...]] = (
    # leases
    _post(paths.CLAIM, {"dispatch": "door-1"}, "agent", id=FREE),
    _post(paths.RENEW, {}, "agent", id=FREE),
    _post(paths.EXTEND, {"ms": 1000}, "agent", id=FREE),
    _post(paths.RESERVE, {}, "agent", id=FREE),
    _post(paths.RELEASE, {}, "agent", id=FREE),
    _post(paths.QUEUE_CLAIM, {"ids": [FREE]}, "agent"),
    _post(paths.QUEUE_RENEW, {}, "agent"),
    _post(paths.QUEUE_RELEASE, {}, "agent"),
    _post(paths.QUEUE_NEXT, {"accept": "open"}, "agent"),
    _get(paths.LEASES),
    _post(paths.DIGEST, {"root": CLAIMED, "project": "mail"}, "agent"),
    _get(paths.BRIEFING, project="mail"),
    _get(paths.QUEUE, who="agent"),
    # the graph
    _post(paths.NODES, {"nodes": [NEW_NODE]}, "person"),
    _get(paths.NODES),
    _get(paths.NODE, id=CLAIMED),
    _get(paths.NODE_EDGES, id=CLAIMED),
    _post(paths.NODE_EDGES, _MENTION, "person", id=FREE),
    _delete(paths.NODE_EDGES, _MENTION, "person", id=FREE),
    _post(paths.NODE_STATUS, {"status": "open"}, "person", id=FREE),
    _post(paths.NODE_PRIORITY, {"priority": "p3"}, "person", id=FREE),
    _post(paths.NODE_READINESS, {"readiness": "clear"}, "person", id=FREE),
    _post(paths.NODE_COMMITS, {"repo": "web", "sha": "abcdef1"}, "person", id=FREE),
    # questions, corrections, captures
    _post(paths.QUESTIONS, {"text": "Which port?", "mentions": [CLAIMED]}, "agent"),
    _post(paths.QUESTION_ANSWER, {"text": "8080."}, "person", id="question-which-port"),
    _post(paths.CORRECTIONS, {"target": FREE, "text": "It is free."}, "agent"),
    _get(paths.CORRECTIONS),
    _post(paths.CAPTURE, {"text": "The build is slow.", "during": FREE}, "agent"),
    _get(paths.INBOX),
    _post(paths.NODES_BATCH, {"ids": [FREE, CLAIMED, "task-nobody"]}, "agent"),
    _post(paths.NODE_EDGES_LIVE, _MENTION, "person", id=FREE),
    _get(paths.SCHEMA, who="agent"),
    # what became of nodes
    _get(paths.NODE_WHY, id=FREE),
    _get(paths.NODE_HISTORY, id=FREE),
    _get(paths.NODE_REVISION, id=FREE, sha=FREE_AT_FIRST),
    _post(paths.NODE_REDACT, {"reason": "a door", "revision": FREE_AT_FIRST}, id=FREE),
    _get(paths.COMMIT, sha="abcdef1"),
    # policy and status
    _get(paths.POLICY, project="mail"),
    _put(paths.POLICY, {"claim_ttl_ms": 1_800_000}, project="mail"),
    _get(paths.SEARCH),
    _get(paths.STATUS),
    # the feed
    _get(paths.EVENTS, who="agent"),
    _get(paths.CHANGES, who="agent"),
    _get(paths.EXPORT),
    # who is who
    _get(paths.ME),
    _get(paths.AGENTS),
    _post(paths.AGENTS, {"label": "new"}, "person"),
    _get(paths.ADMIN_PEOPLE),
    _post(paths.ADMIN_PEOPLE, {"name": "Nia New", "email": "nia@example.org"}),
    _post(paths.ADMIN_AGENTS, {"label": "other", "owner": "person-pat"}),
    # tokens
    _post(paths.AGENT_SESSION, {"session": "s-door"}, "agent"),
    _post(paths.AGENT_TOKEN, {"standing": True, "label": "door"}, "person", id=AGENT),
    _get(paths.AGENT_TOKENS, who="person", id=AGENT),
    _end(paths.AGENT_TOKEN_OF, "run", "person", id=AGENT),
    _get(paths.MY_TOKENS, who="person"),
    _post(paths.MY_TOKENS, {"label": "door"}, "person"),
    _get(paths.ADMIN_TOKENS),
    _post(paths.ADMIN_TOKENS, {"person": "person-pat"}),
    _end(paths.MY_TOKEN, "person", "person"),
    _end(paths.ADMIN_TOKEN, "person"),
    # API keys
    _post(paths.ADMIN_KEYS, {"name": "remediator/worker-2"}),
    _get(paths.ADMIN_KEYS),
    _end(paths.ADMIN_KEY, "key"),
    # the fleet
    _put(paths.RUN, {"record": RUN_NOW}, "agent", run_id=RUN),
    _post(paths.RUN_LOG, {"offset": 0, "text": "It begins."}, "agent", run_id=RUN),
    _get(paths.RUNS, who="agent"),
    _get(paths.RUN, who="agent", run_id=RUN),
    _get(paths.RUN_LOG, who="agent", run_id=RUN),
    _post(paths.AGENT_CAPABILITIES, {"probed": {"harnesses": ["codex"]}}, "agent", id=AGENT),
    _get(paths.AGENT_CAPABILITIES, who="agent", id=AGENT),
    _post(paths.AGENT_HEARTBEAT, {}, "agent", id=AGENT),
    _get(paths.PROFILE_HOSTS, id=PROFILE),
    # classes of records
    _put(paths.CLASS, INCIDENTS, name="incidents"),
    _get(paths.CLASSES),
    _get(paths.CLASS, name="incidents"),
    # records
    _put(paths.RECORD_FIELD, {"value": "closed"}, "agent", **INCIDENT_AT, field="status"),
    _post(paths.RECORD_FIELD, {"value": "done"}, "agent", **INCIDENT_AT, field="actions"),
    _post(paths.RECORD, {"writes": [{"field": "actions", "append": [1]}]}, "agent", **INCIDENT_AT),
    _put(paths.RECORD_CLAIM, {"lease_seconds": 60}, "agent", **INCIDENT_AT, field="review"),
    _get(paths.RECORD, who="agent", **INCIDENT_AT),
    _get(paths.RECORD_FIELD, who="agent", **INCIDENT_AT, field="remediation"),
    _get(paths.RECORDS, who="agent", record_class="incidents"),
    _get(paths.RECORD_HISTORY, who="agent", **INCIDENT_AT),
    _get(paths.RECORD_BLAME, who="agent", **INCIDENT_AT),
    _delete(paths.RECORD, {"based_on": [{"field": "summary", "version": 0}]}, "admin", **INCIDENT_AT),
    # last, for what is deleted is not found again
    _delete(paths.NODE, {"reason": "a door", "force": True}, id=FREE),
)
"""In this order each opens, and finds what it needs of those before it."""
