"""Every URL, once: the server routes by these templates and the client fills them in."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

ME: Final = "/v1/me"
MY_TOKENS: Final = "/v1/me/tokens"
MY_TOKEN: Final = "/v1/me/tokens/{prefix}"  # noqa: S105  # a path, no secret
STATUS: Final = "/v1/status"
OPENAPI: Final = "/v1/openapi.json"

AGENTS: Final = "/v1/agents"
AGENT_SESSION: Final = "/v1/agents/session"
AGENT_TOKEN: Final = "/v1/agents/{id}/token"  # noqa: S105  # a path, no secret
AGENT_TOKENS: Final = "/v1/agents/{id}/tokens"
AGENT_TOKEN_OF: Final = "/v1/agents/{id}/tokens/{prefix}"  # noqa: S105  # a path, no secret

ADMIN_AGENTS: Final = "/v1/admin/agents"
ADMIN_PEOPLE: Final = "/v1/admin/people"
ADMIN_TOKENS: Final = "/v1/admin/tokens"
ADMIN_TOKEN: Final = "/v1/admin/tokens/{prefix}"  # noqa: S105  # a path, no secret

NODES: Final = "/v1/nodes"
NODE: Final = "/v1/nodes/{id}"
NODE_EDGES: Final = "/v1/nodes/{id}/edges"
NODE_STATUS: Final = "/v1/nodes/{id}/status"
NODE_PRIORITY: Final = "/v1/nodes/{id}/priority"
NODE_READINESS: Final = "/v1/nodes/{id}/readiness"
NODE_WHY: Final = "/v1/nodes/{id}/why"
NODE_COMMITS: Final = "/v1/nodes/{id}/commits"
NODES_BATCH: Final = "/v1/nodes/batch"
NODE_EDGES_LIVE: Final = "/v1/nodes/{id}/edges/live"
NODE_HISTORY: Final = "/v1/nodes/{id}/history"
NODE_REVISION: Final = "/v1/nodes/{id}/history/{sha}"
NODE_REDACT: Final = "/v1/nodes/{id}/redact"
COMMIT: Final = "/v1/commits/{sha}"
SCHEMA: Final = "/v1/schema"

QUESTIONS: Final = "/v1/questions"
QUESTION_ANSWER: Final = "/v1/questions/{id}/answer"
CORRECTIONS: Final = "/v1/corrections"
CAPTURE: Final = "/v1/capture"
INBOX: Final = "/v1/inbox"

CLAIM: Final = "/v1/nodes/{id}/claim"
RENEW: Final = "/v1/nodes/{id}/renew"
EXTEND: Final = "/v1/nodes/{id}/extend"
RESERVE: Final = "/v1/nodes/{id}/reserve"
RELEASE: Final = "/v1/nodes/{id}/release"
LEASES: Final = "/v1/leases"

QUEUE: Final = "/v1/queue"
QUEUE_NEXT: Final = "/v1/queue/next"
QUEUE_CLAIM: Final = "/v1/queue/claim"
QUEUE_RENEW: Final = "/v1/queue/renew"
QUEUE_RELEASE: Final = "/v1/queue/release"

DIGEST: Final = "/v1/digest"
BRIEFING: Final = "/v1/briefing/{project}"

EXPORT: Final = "/v1/export"

EVENTS: Final = "/v1/events"
CHANGES: Final = "/v1/changes"

SEARCH: Final = "/v1/search"

POLICY: Final = "/v1/policy/{project}"

RUNS: Final = "/v1/runs"
RUN: Final = "/v1/runs/{run_id}"
RUN_LOG: Final = "/v1/runs/{run_id}/log"
AGENT_CAPABILITIES: Final = "/v1/agents/{id}/capabilities"
AGENT_HEARTBEAT: Final = "/v1/agents/{id}/heartbeat"
PROFILE_HOSTS: Final = "/v1/profiles/{id}/hosts"

CLASSES: Final = "/v1/classes"
CLASS: Final = "/v1/classes/{name}"
RECORDS: Final = "/v1/records/{record_class}"
RECORD: Final = "/v1/records/{record_class}/{id}"
RECORD_FIELD: Final = "/v1/records/{record_class}/{id}/fields/{field}"
RECORD_CLAIM: Final = "/v1/records/{record_class}/{id}/fields/{field}/claim"
RECORD_HISTORY: Final = "/v1/records/{record_class}/{id}/history"
RECORD_BLAME: Final = "/v1/records/{record_class}/{id}/blame"
ADMIN_KEYS: Final = "/v1/admin/keys"
ADMIN_KEY: Final = "/v1/admin/keys/{prefix}"


def fill(template: str, **values: str) -> str:
    """Return `template` with its parameters filled in and percent-encoded."""
    return template.format(**{name: quote(value, safe="") for name, value in values.items()})


def parameters(template: str) -> tuple[str, ...]:
    """Return the names of the parameters in `template`, in order."""
    return tuple(part[1:-1] for part in template.split("/") if part.startswith("{"))
