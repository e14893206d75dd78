"""Every operation of the API on one screen. Hot ones first: the router tries them in order.

To add one:

* its path goes into `wire/paths.py`, and its bodies into `wire/<noun>.py` as structs;
* its handler into `server/http/<noun>.py`: ``async def verb(call: Call) -> Response``, with a docstring whose first
  line says what it does, as the reference page and the OpenAPI document will. `call.body(Kind)` reads the body,
  `call.query` holds the parameters, `call.caller(body.raw)` has the fences and, where the operation is keyed, the
  Idempotency-Key. None of them is told again what the line in this table says; a handler that reads its body as
  something else fails at its first request;
* its line into this table: `read(path, handler, Reply, "names", "of", "parameters")`, or for a write that takes an
  Idempotency-Key `change` (POST), `create` (POST, answered 201), `replace` (PUT) or `remove` (DELETE), with what the
  body is read as and what the reply is; `verb` for a POST that is repeatable without a key, `ask` for one that changes
  nothing. Say ``published=True`` when a specification has it: then it overlooks fields that it does not know (D16b);
* what a new parameter means, and what it may be, into `server/http/parameters.py`; what a new field may be, into its
  type where it is not plain (`wire/schemas.py`). The OpenAPI document and docs/reference/api.md are made of all this;
* its call into `client/<noun>_calls.py`, and its door into `testing/doors.py`: who may use it, and a body that works.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from batonpass.core.errors import RateLimited, Resync
from batonpass.server.http import (
    batch,
    capabilities,
    capture,
    classes,
    commits,
    corrections,
    digest,
    events,
    health,
    history,
    identity,
    inbox,
    keys,
    leases,
    nodes,
    policy,
    questions,
    queue,
    records,
    runs,
    schema,
    search,
    tasks,
    tokens,
    tombstones,
    transfer,
    why,
)
from batonpass.server.http.call import endpoint
from batonpass.server.http.operations import JSON, Operation, ask, change, create, read, remove, replace, verb
from batonpass.wire import capabilities as capable
from batonpass.wire import capture as captured
from batonpass.wire import classes as classed
from batonpass.wire import corrections as corrected
from batonpass.wire import digest as brief
from batonpass.wire import events as happened
from batonpass.wire import history as past
from batonpass.wire import identity as who
from batonpass.wire import keys as key
from batonpass.wire import leases as lease
from batonpass.wire import nodes as graph
from batonpass.wire import paths
from batonpass.wire import questions as question
from batonpass.wire import queue as queued
from batonpass.wire import records as recorded
from batonpass.wire import runs as run
from batonpass.wire import tokens as token
from batonpass.wire import transfer as moved
from batonpass.wire import why as reason
from batonpass.wire.batch import BatchReply, BatchRequest
from batonpass.wire.commits import CommitReply
from batonpass.wire.inbox import InboxReply
from batonpass.wire.policy import PolicyReply, PolicyRequest
from batonpass.wire.schema import SchemaReply
from batonpass.wire.search import SearchReply
from batonpass.wire.status import StatusReply
from batonpass.wire.tombstones import DeleteReply, DeleteRequest

_PAGE: Final = ("after", "limit")
_FILTERS: Final = (
    "project", "assignee", "type", "exclude_type", "readiness", "include_blocked", "counts", "limit", "offset",
    "inbox", "wait", "after",
)  # fmt: skip
_FEED: Final = ("after", "wait", "limit", "project", "kind", "node", "record", "class", "field")
_FULL: Final = (RateLimited,)
_ENDED: Final = (Resync, RateLimited)
_RUNS: Final = ("node", "project", "agent", "state", *_PAGE)
_TARS: Final = (moved.TAR, moved.GZIP)
_NODES: Final = ("type", "status", "project", "assignee", "text", "limit", "after")

OPERATIONS: Final[tuple[Operation, ...]] = (
    verb(paths.CLAIM, leases.claim, lease.ClaimRequest, lease.LeaseReply),
    verb(paths.RENEW, leases.renew, lease.RenewRequest, lease.LeaseReply),
    verb(paths.QUEUE_RENEW, leases.renew_many, lease.BulkRenewRequest, lease.BulkRenewReply),
    verb(paths.QUEUE_NEXT, queue.take_next, queued.NextRequest, queued.NextReply, published=False, refuses=_FULL),
    verb(paths.RELEASE, leases.release, lease.ReleaseRequest, lease.ReleaseReply),
    verb(paths.RECORD_CLAIM, tasks.claim, recorded.TaskRequest, recorded.TaskReply, method="PUT"),
    verb(paths.EXTEND, leases.extend, lease.ExtendRequest, lease.LeaseReply),
    verb(paths.RESERVE, leases.reserve, lease.RenewRequest, lease.LeaseReply),
    verb(paths.QUEUE_CLAIM, leases.claim_many, lease.BulkClaimRequest, lease.BulkClaimReply),
    verb(paths.QUEUE_RELEASE, leases.release_many, lease.BulkReleaseRequest, lease.BulkReleaseReply),
    read(paths.QUEUE, queue.page, queued.QueueReply, *_FILTERS, listed=("type", "exclude_type"), refuses=_ENDED),
    read(paths.NODE, nodes.get, graph.NodeReply),
    change(paths.NODES, nodes.put, graph.PutRequest, graph.PutReply, published=True, also=(207,)),
    read(paths.NODES, nodes.listed, graph.NodesReply, *_NODES),
    read(paths.NODE_EDGES, nodes.edges, graph.EdgesReply, "direction", "type", "limit", "after"),
    change(paths.NODE_EDGES, nodes.add_edge, graph.EdgeRequest, graph.ChangeReply, published=True),
    remove(paths.NODE_EDGES, nodes.remove_edge, graph.EdgeRemoval, graph.ChangeReply, published=True),
    change(paths.NODE_STATUS, nodes.status, graph.StatusRequest, graph.ChangeReply, published=True),
    change(paths.NODE_PRIORITY, nodes.priority, graph.PriorityRequest, graph.ChangeReply, published=True),
    change(paths.NODE_READINESS, nodes.readiness, graph.ReadinessRequest, graph.ChangeReply, published=True),
    change(paths.NODE_COMMITS, nodes.commits, graph.CommitRequest, graph.ChangeReply, published=True),
    create(paths.QUESTIONS, questions.ask, question.QuestionRequest, question.QuestionReply, published=True),
    create(paths.QUESTION_ANSWER, questions.answer, question.AnswerRequest, question.AnswerReply),
    create(paths.CORRECTIONS, corrections.file, corrected.CorrectionRequest, corrected.CorrectionReply, published=True),
    read(paths.CORRECTIONS, corrections.listed, corrected.CorrectionsReply, "target", *_PAGE),
    create(paths.CAPTURE, capture.keep, captured.CaptureRequest, captured.CaptureReply),
    read(paths.INBOX, inbox.show, InboxReply, "limit"),
    ask(paths.NODES_BATCH, batch.page, BatchRequest, BatchReply, published=True),
    change(paths.NODE_EDGES_LIVE, nodes.add_live_edge, graph.EdgeRequest, graph.ChangeReply, published=True),
    read(paths.NODE_WHY, why.get, reason.WhyReply),
    read(paths.NODE_HISTORY, history.page, past.HistoryReply, "limit", "before", "content"),
    read(paths.NODE_REVISION, history.revision, past.RevisionReply),
    change(paths.NODE_REDACT, history.redact, past.RedactRequest, past.RedactReply),
    remove(paths.NODE, tombstones.delete, DeleteRequest, DeleteReply),
    read(paths.COMMIT, commits.carriers, CommitReply, "repo", "limit", "after"),
    read(paths.SCHEMA, schema.get, SchemaReply),
    ask(paths.DIGEST, digest.compile_, brief.DigestRequest, brief.DigestReply, published=True),
    read(paths.BRIEFING, digest.briefing, brief.BriefingReply, "fp"),
    read(paths.ME, identity.me, who.MeReply),
    read(paths.LEASES, leases.listed, lease.LeasesReply, "holder", "project", "state", *_PAGE),
    read(paths.POLICY, policy.get, PolicyReply),
    replace(paths.POLICY, policy.put, PolicyRequest, PolicyReply),
    verb(paths.AGENT_SESSION, tokens.bind_session, token.SessionRequest, token.SessionReply),
    create(paths.AGENT_TOKEN, tokens.mint_agents, token.AgentTokenRequest, token.AgentTokenReply, published=True),
    read(paths.AGENT_TOKENS, tokens.list_agents, token.TokensReply, *_PAGE),
    remove(paths.AGENT_TOKEN_OF, tokens.revoke_agents, None, token.RevokeReply),
    read(paths.AGENTS, identity.list_agents, who.AgentsReply, "all", *_PAGE),
    create(paths.AGENTS, identity.create_agent, who.AgentRequest, who.AgentReply, published=True),
    read(paths.MY_TOKENS, tokens.list_own, token.TokensReply, *_PAGE),
    create(paths.MY_TOKENS, tokens.mint_own, token.PersonalTokenRequest, token.PersonalTokenReply),
    remove(paths.MY_TOKEN, tokens.revoke_own, None, token.RevokeReply),
    read(paths.ADMIN_PEOPLE, identity.list_people, who.PeopleReply, *_PAGE),
    create(paths.ADMIN_PEOPLE, identity.create_person, who.PersonRequest, who.PersonReply),
    create(paths.ADMIN_AGENTS, identity.create_agent_for, who.AdminAgentRequest, who.AgentReply),
    read(paths.ADMIN_TOKENS, tokens.list_personal, token.TokensReply, "person", *_PAGE),
    create(paths.ADMIN_TOKENS, tokens.mint_for, token.AdminTokenRequest, token.PersonalTokenReply),
    remove(paths.ADMIN_TOKEN, tokens.revoke_personal, None, token.RevokeReply),
    read(paths.ADMIN_KEYS, keys.listed, key.KeysReply, "name", *_PAGE),
    create(paths.ADMIN_KEYS, keys.mint, key.KeyRequest, key.KeyReply),
    remove(paths.ADMIN_KEY, keys.revoke, None, key.KeyRevokeReply),
    read(paths.RECORDS, records.listed, recorded.RecordsReply, "free", "holder", *_PAGE),
    read(paths.RECORD_HISTORY, records.history, recorded.RecordHistoryReply, "limit", "before", "values"),
    read(paths.RECORD_BLAME, records.blame, recorded.RecordBlameReply),
    read(paths.RECORD, records.get, recorded.RecordReply, "fields"),
    read(paths.RECORD_FIELD, records.get_field, recorded.FieldReply, "wait", "version", "held", refuses=_FULL),
    replace(paths.RECORD_FIELD, records.put, recorded.ValueRequest, recorded.FieldWriteReply),
    change(paths.RECORD_FIELD, records.append, recorded.ValueRequest, recorded.FieldWriteReply),
    change(paths.RECORD, records.write_all, recorded.WritesRequest, recorded.WritesReply),
    remove(paths.RECORD, records.delete, recorded.DeleteRecordRequest, recorded.DeleteRecordReply),
    read(paths.CLASSES, classes.listed, classed.ClassesReply, *_PAGE),
    read(paths.CLASS, classes.get, classed.ClassDocumentReply, "version"),
    replace(paths.CLASS, classes.put, classed.ClassRequest, classed.ClassReply, also=(201,)),
    replace(paths.RUN, runs.put, run.RunRequest, run.RunPutReply),
    change(paths.RUN_LOG, runs.put_log, run.RunLogRequest, run.RunLogPutReply),
    read(paths.RUNS, runs.listed, run.RunsReply, *_RUNS),
    read(paths.RUN, runs.get, run.RunBody),
    read(paths.RUN_LOG, runs.log, run.RunLogReply),
    change(
        paths.AGENT_CAPABILITIES,
        capabilities.publish,
        capable.CapabilitiesRequest,
        capable.CapabilitiesReply,
        published=True,
    ),
    read(paths.AGENT_CAPABILITIES, capabilities.get, capable.CapabilitiesReply),
    change(paths.AGENT_HEARTBEAT, capabilities.beat, capable.HeartbeatRequest, capable.HeartbeatReply, published=True),
    read(paths.PROFILE_HOSTS, capabilities.hosts, capable.HostsReply, "owner", "max_age"),
    read(paths.EXPORT, transfer.export, None, "gzip", "project", "authored", media=_TARS, headers=(moved.NODE_COUNT,)),
    read(paths.EVENTS, events.page, happened.EventsReply, *_FEED, media=(JSON, happened.STREAM), refuses=_ENDED),
    read(paths.CHANGES, events.changes, happened.ChangesReply, "since", "project", "limit", refuses=_ENDED),
    read(paths.SEARCH, search.found, SearchReply, "q", "project", "type", "limit", "offset"),
    read(paths.STATUS, health.status, StatusReply),
)


async def _openapi(request: Request) -> Response:
    """Return the OpenAPI document of these operations. It tells nothing of anybody's, so it needs no token."""
    from batonpass.server.http.openapi import served  # asked for by tools, not by workers: start-up time stays (D37)

    del request
    return Response(served(OPERATIONS), media_type=JSON)


ROUTES: Final[list[Route]] = [
    *(Route(operation.path, endpoint(operation), methods=[operation.method]) for operation in OPERATIONS),
    Route(paths.OPENAPI, _openapi, methods=["GET"]),
]
