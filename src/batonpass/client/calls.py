"""Each API call as a pure function that returns a `Call`: what to send, and what the answer is decoded to.

Nothing here sends. `client.client` does, and reads from `Call.repeat` whether
a request whose answer was lost may be sent again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Generic, Literal, TypeVar

import msgspec

from batonpass.core.ids import AgentId, Fence, NodeId, PersonId
from batonpass.wire import capture as captured
from batonpass.wire import corrections, digest, identity, nodes, paths, policy, questions, queue, tokens
from batonpass.wire import leases as wire
from batonpass.wire import why as reasons
from batonpass.wire.inbox import InboxReply
from batonpass.wire.search import SearchReply
from batonpass.wire.status import StatusReply

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

READ_S_MAX: Final = 30.0
"""How long an answer may take. The server bounds its own waits far below (D44)."""
LEASE_S_MAX: Final = 15.0
"""The same for a lease verb: two round trips to the database, and a horizon that is running meanwhile."""


class Repeat(Enum):
    """What a second sending does after the answer of the first was lost."""

    SAFE = auto()
    """Nothing more: a read, or a verb that a nonce or an epoch pins to one tenure (D2, D6)."""
    KEYED = auto()
    """Nothing more, thanks to an Idempotency-Key that the sender adds (D11)."""
    NEVER = auto()
    """It might change something a second time, so the caller is told that the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T_co]):
    """One request, and the wire struct that its 2xx answer is decoded to."""

    method: str
    path: str
    reply: type[T_co]
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    repeat: Repeat = Repeat.SAFE
    answer_s_max: float = READ_S_MAX


def body_of(request: msgspec.Struct) -> bytes:
    """Return `request` as JSON with only what differs from its default: an absent key is what the protocol shows."""
    given = {
        field.encode_name: value
        for field in msgspec.structs.fields(request)
        if (value := getattr(request, field.name)) != field.default
    }
    return msgspec.json.encode(given)


def query_of(**values: str | int | bool | Sequence[str] | None) -> tuple[tuple[str, str], ...]:
    """Return query parameters; None and empty ones are left out, a list becomes one comma-separated value."""
    found = []
    for name, value in values.items():
        match value:
            case None | False | "" | [] | ():
                continue
            case True:
                found.append((name, "1"))
            case str() | int():
                found.append((name, str(value)))
            case _:
                found.append((name, ",".join(value)))
    return tuple(found)


# --- leases ----------------------------------------------------------------------------------------------------------


def claim(
    node: NodeId,
    *,
    session: str | None = None,
    dispatch: str | None = None,
    if_epoch: int | None = None,
    force: bool = False,
) -> Call[wire.LeaseReply]:
    """Take the lease on `node`. With a `dispatch` nonce of its own a launch excludes every other, its twin included."""
    pinned = dispatch is not None or if_epoch is not None
    request = wire.ClaimRequest(session=session, dispatch=dispatch, if_epoch=if_epoch, force=force)
    return _post(paths.fill(paths.CLAIM, id=node), request, wire.LeaseReply, Repeat.SAFE if pinned else Repeat.NEVER)


def take(node: NodeId, *, reason: str, session: str | None = None) -> Call[wire.LeaseReply]:
    """End whatever tenure stands on `node` and claim it in the same step (D41); each sending begins a new tenure."""
    request = wire.ClaimRequest(session=session, take=True, reason=reason)
    return _post(paths.fill(paths.CLAIM, id=node), request, wire.LeaseReply, Repeat.NEVER)


def renew(
    node: NodeId, *, if_epoch: int | None = None, session: str | None = None, reclaim: bool = True
) -> Call[wire.LeaseReply]:
    """Move the lease's end away. Without `if_epoch` a free node is claimed, as the protocol has it."""
    request = wire.RenewRequest(session=session, if_epoch=if_epoch, reclaim=reclaim)
    return _post(paths.fill(paths.RENEW, id=node), request, wire.LeaseReply, _pinned(if_epoch))


def extend(
    node: NodeId, *, ms: int, if_epoch: int | None = None, session: str | None = None, reclaim: bool = True
) -> Call[wire.LeaseReply]:
    """Stretch the lease to `ms` milliseconds from now, at most to the policy's maximum."""
    request = wire.ExtendRequest(ms=ms, session=session, if_epoch=if_epoch, reclaim=reclaim)
    return _post(paths.fill(paths.EXTEND, id=node), request, wire.LeaseReply, _pinned(if_epoch))


def reserve(node: NodeId, *, if_epoch: int | None = None, session: str | None = None) -> Call[wire.LeaseReply]:
    """Park `node` for its holder. It ends the tenure, so a second sending could only be told that it is over."""
    request = wire.RenewRequest(session=session, if_epoch=if_epoch)
    return _post(paths.fill(paths.RESERVE, id=node), request, wire.LeaseReply, Repeat.NEVER)


def release(node: NodeId, *, if_epoch: int | None = None, reason: str | None = None) -> Call[wire.ReleaseReply]:
    """Give `node` back; with `if_epoch`, only if that tenure is still the node's."""
    request = wire.ReleaseRequest(if_epoch=if_epoch, reason=reason)
    return _post(paths.fill(paths.RELEASE, id=node), request, wire.ReleaseReply, _pinned(if_epoch))


def claim_many(nodes: Sequence[NodeId], *, session: str | None = None) -> Call[wire.BulkClaimReply]:
    """Claim a working set; the reply's `failed` says which did not land, and why."""
    request = wire.BulkClaimRequest(ids=list(nodes), session=session)
    return _post(paths.QUEUE_CLAIM, request, wire.BulkClaimReply, Repeat.NEVER)


def renew_many(
    fences: Sequence[Fence], *, session: str | None = None, reclaim: bool = True
) -> Call[wire.BulkRenewReply]:
    """Renew exactly these tenures, one request for all; none is ever acquired anew (D2b)."""
    tenures = [wire.HeldTenure(fence.resource, fence.epoch) for fence in fences]
    request = wire.BulkRenewRequest(leases=tenures, session=session, reclaim=reclaim)
    return _post(paths.QUEUE_RENEW, request, wire.BulkRenewReply, Repeat.SAFE)


def renew_held(*, session: str | None = None) -> Call[wire.BulkRenewReply]:
    """Renew every live lease the caller holds, of one session if given; reclaims nothing, leaves reservations."""
    return _post(paths.QUEUE_RENEW, wire.BulkRenewRequest(session=session), wire.BulkRenewReply, Repeat.SAFE)


def release_held(*, session: str | None = None, reservations: bool = False) -> Call[wire.BulkReleaseReply]:
    """Give back every live claim the caller holds, of one session if given."""
    request = wire.BulkReleaseRequest(session=session, reservations=reservations)
    return _post(paths.QUEUE_RELEASE, request, wire.BulkReleaseReply, Repeat.NEVER)


def leases(
    *,
    holder: str | None = None,
    project: str | None = None,
    state: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Call[wire.LeasesReply]:
    """List who holds what: `state` is live, lapsed or reserved (D41)."""
    query = query_of(holder=holder, project=project, state=state, limit=limit, after=after)
    return Call("GET", paths.LEASES, wire.LeasesReply, query)


def _post(path: str, request: msgspec.Struct, reply: type[T], repeat: Repeat) -> Call[T]:
    return Call("POST", path, reply, body=body_of(request), repeat=repeat, answer_s_max=LEASE_S_MAX)


def _pinned(if_epoch: int | None) -> Repeat:
    """Return how a verb may be repeated: pinned to a tenure it is idempotent, without it it could acquire."""
    return Repeat.SAFE if if_epoch is not None else Repeat.NEVER


# --- the queue -------------------------------------------------------------------------------------------------------


def queue_page(  # noqa: PLR0913 — one for each parameter of the route
    *,
    project: str | None = None,
    types: Sequence[str] = (),
    exclude_types: Sequence[str] = (),
    assignee: str | None = None,
    readiness: str | None = None,
    include_blocked: bool = False,
    limit: int | None = None,
    offset: int = 0,
    wait: int = 0,
    after: str | None = None,
) -> Call[queue.QueueReply]:
    """Read a ranked page of what there is to do; with `wait`, when something has changed `after` a page's `seq`."""
    query = query_of(
        project=project,
        type=types,
        exclude_type=exclude_types,
        assignee=assignee,
        readiness=readiness,
        include_blocked=include_blocked,
        limit=limit,
        offset=offset or None,
        wait=wait or None,
        after=after,
    )
    return Call("GET", paths.QUEUE, queue.QueueReply, query, answer_s_max=READ_S_MAX + wait)


def next_item(
    *,
    project: str | None = None,
    accept: Literal["ready", "open"] = "ready",
    types: Sequence[str] | None = None,
    exclude: Sequence[NodeId] = (),
    candidates: Sequence[NodeId] | None = None,
    session: str | None = None,
    dispatch: str | None = None,
    wait: int = 0,
) -> Call[queue.NextReply]:
    """Choose the best item and claim it in one step; with `candidates` the first of them that is still free.

    With `wait` it waits so many seconds at most for one. The lease's time is counted from its grant, which is
    `waited_ms` after the call was sent.
    """
    request = queue.NextRequest(
        project=project,
        accept=accept,
        types=None if types is None else list(types),
        exclude=list(exclude),
        candidates=None if candidates is None else list(candidates),
        session=session,
        dispatch=dispatch,
        wait=wait,
    )
    call = _post(paths.QUEUE_NEXT, request, queue.NextReply, Repeat.NEVER if dispatch is None else Repeat.SAFE)
    return replace(call, answer_s_max=call.answer_s_max + wait)


# --- nodes and edges -------------------------------------------------------------------------------------------------


def compile_digest(
    *,
    root: NodeId | None = None,
    query: str | None = None,
    project: str | None = None,
    min_sim: float | None = None,
    mode: Literal["digest", "full"] = "digest",
) -> Call[digest.DigestReply]:
    """Compile what is known around `root`, or about `query` (companion 5); a read, whatever its method."""
    request = digest.DigestRequest(query=query, root=root, project=project, min_sim=min_sim, mode=mode)
    return Call("POST", paths.DIGEST, digest.DigestReply, body=body_of(request))


def briefing(project: str, *, fingerprints: Sequence[str] = ()) -> Call[digest.BriefingReply]:
    """Read the briefing of a project; `fingerprints` tell it apart where the slug does not."""
    path = paths.fill(paths.BRIEFING, project=project)
    return Call("GET", path, digest.BriefingReply, query_of(fp=fingerprints))


def node(id_: NodeId) -> Call[nodes.NodeReply]:
    """Read one node, with what the graph says about it."""
    return Call("GET", paths.fill(paths.NODE, id=id_), nodes.NodeReply)


def why(id_: NodeId) -> Call[reasons.WhyReply]:
    """Ask why a node is or isn't taken."""
    return Call("GET", paths.fill(paths.NODE_WHY, id=id_), reasons.WhyReply)


def list_nodes(
    *,
    types: Sequence[str] = (),
    status: str | None = None,
    project: str | None = None,
    assignee: str | None = None,
    text: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Call[nodes.NodesReply]:
    """List nodes that match everything that is given, in order of their ids (D41)."""
    query = query_of(type=types, status=status, project=project, assignee=assignee, text=text, limit=limit, after=after)
    return Call("GET", paths.NODES, nodes.NodesReply, query)


def put_nodes(
    entries: Sequence[str | Mapping[str, object]],
    *,
    if_exists: nodes.IfExists = "error",
    cycles: nodes.Cycles = "refuse",
    keep_attribution: bool = False,
) -> Call[nodes.PutReply]:
    """Write nodes in order, each on its own: markdown, JSON, or an entry with conditions. Read every result."""
    request = nodes.PutRequest(
        nodes=list(entries), if_exists=if_exists, cycles=cycles, keep_attribution=keep_attribution
    )
    return _change("POST", paths.NODES, request, nodes.PutReply)


def export(*, project: str | None = None, authored: bool = False, gzip: bool = False) -> Call[bytes]:
    """Ask for the graph, or one project's nodes, as a tar; to be read as it comes, with `Client.stream`."""
    return Call("GET", paths.EXPORT, bytes, query_of(project=project, authored=authored, gzip=gzip))


def edges(
    id_: NodeId,
    *,
    direction: Literal["in", "out"] | None = None,
    types: Sequence[str] = (),
    limit: int | None = None,
    after: str | None = None,
) -> Call[nodes.EdgesReply]:
    """List the edges of a node, both ways unless `direction` says which."""
    query = query_of(direction=direction, type=types, limit=limit, after=after)
    return Call("GET", paths.fill(paths.NODE_EDGES, id=id_), nodes.EdgesReply, query)


def add_edge(
    id_: NodeId,
    type_: str,
    to: NodeId,
    *,
    attrs: Mapping[str, object] | None = None,
    if_epoch: int | None = None,
) -> Call[nodes.ChangeReply]:
    """Add an edge; one that is there is skipped, with other attributes it gets these."""
    request = nodes.EdgeRequest(type=type_, to=to, attrs=dict(attrs or {}), if_epoch=if_epoch)
    return _change("POST", paths.fill(paths.NODE_EDGES, id=id_), request, nodes.ChangeReply)


def remove_edge(id_: NodeId, type_: str, to: NodeId, *, if_epoch: int | None = None) -> Call[nodes.ChangeReply]:
    """Remove an edge; one that is not there is skipped, so a second sending changes nothing."""
    body = body_of(nodes.EdgeRemoval(type=type_, to=to, if_epoch=if_epoch))
    return Call("DELETE", paths.fill(paths.NODE_EDGES, id=id_), nodes.ChangeReply, body=body)


def set_status(
    id_: NodeId,
    status: str | None,
    *,
    if_epoch: int | None = None,
    session: str | None = None,
    dispatch: str | None = None,
) -> Call[nodes.ChangeReply]:
    """Set a node's status, None for none; an in-progress one claims the node (D10a)."""
    request = nodes.StatusRequest(status=status, if_epoch=if_epoch, session=session, dispatch=dispatch)
    return _change("POST", paths.fill(paths.NODE_STATUS, id=id_), request, nodes.ChangeReply)


def set_priority(id_: NodeId, priority: str | None, *, if_epoch: int | None = None) -> Call[nodes.ChangeReply]:
    """Set a node's priority: p1, p2, p3, or None."""
    request = nodes.PriorityRequest(priority=priority, if_epoch=if_epoch)
    return _change("POST", paths.fill(paths.NODE_PRIORITY, id=id_), request, nodes.ChangeReply)


def set_readiness(
    id_: NodeId, readiness: Literal["agent"] | None, *, if_epoch: int | None = None
) -> Call[nodes.ChangeReply]:
    """Say that agents may take a node, or take that back."""
    request = nodes.ReadinessRequest(readiness=readiness, if_epoch=if_epoch)
    return _change("POST", paths.fill(paths.NODE_READINESS, id=id_), request, nodes.ChangeReply)


def add_commit(id_: NodeId, *, repo: str, sha: str, if_epoch: int | None = None) -> Call[nodes.ChangeReply]:
    """Note a commit on a node; one that is noted is skipped."""
    request = nodes.CommitRequest(repo=repo, sha=sha, if_epoch=if_epoch)
    return _change("POST", paths.fill(paths.NODE_COMMITS, id=id_), request, nodes.ChangeReply)


# --- questions, corrections, captures ---------------------------------------------------------------------------------


def ask_question(
    text: str,
    *,
    title: str | None = None,
    mentions: Sequence[NodeId] = (),
    project: str | None = None,
    to: PersonId | None = None,
    blocks: Sequence[NodeId] = (),
) -> Call[questions.QuestionReply]:
    """Ask a question; the reply says whom it went to. What the caller is at work on waits for the answer."""
    request = questions.QuestionRequest(
        text=text, title=title, mentions=list(mentions), project=project, to=to, blocks=list(blocks)
    )
    return _change("POST", paths.QUESTIONS, request, questions.QuestionReply)


def answer_question(
    id_: NodeId, text: str, *, title: str | None = None, if_epoch: int | None = None
) -> Call[questions.AnswerReply]:
    """Answer a question and complete it, in one step."""
    request = questions.AnswerRequest(text=text, title=title, if_epoch=if_epoch)
    return _change("POST", paths.fill(paths.QUESTION_ANSWER, id=id_), request, questions.AnswerReply)


def correct(target: str, text: str, *, title: str | None = None) -> Call[corrections.CorrectionReply]:
    """File a correction of a node, of ``project:<slug>``, or of everything: ``global``."""
    request = corrections.CorrectionRequest(target=target, text=text, title=title)
    return _change("POST", paths.CORRECTIONS, request, corrections.CorrectionReply)


def list_corrections(
    *, target: str | None = None, limit: int | None = None, after: str | None = None
) -> Call[corrections.CorrectionsReply]:
    """List the corrections that stand, of one target or all."""
    query = query_of(target=target, limit=limit, after=after)
    return Call("GET", paths.CORRECTIONS, corrections.CorrectionsReply, query)


def capture(
    text: str,
    *,
    title: str | None = None,
    project: str | None = None,
    during: NodeId | None = None,
    blocks: Sequence[NodeId] = (),
    date: str | None = None,
) -> Call[captured.CaptureReply]:
    """Keep a text, whatever it is; a long one in several nodes."""
    request = captured.CaptureRequest(
        text=text, title=title, project=project, during=during, blocks=list(blocks), date=date
    )
    return _change("POST", paths.CAPTURE, request, captured.CaptureReply)


def inbox(*, limit: int | None = None) -> Call[InboxReply]:
    """Read what waits for the caller's person, and what they have asked."""
    return Call("GET", paths.INBOX, InboxReply, query_of(limit=limit))


# --- who is who ------------------------------------------------------------------------------------------------------


def me() -> Call[identity.MeReply]:
    """Ask whose token this is."""
    return Call("GET", paths.ME, identity.MeReply)


def add_person(*, name: str, email: str, id_: str | None = None, admin: bool = False) -> Call[identity.PersonReply]:
    """Add a person; admins only."""
    request = identity.PersonRequest(name=name, email=email, id=id_, admin=admin)
    return _change("POST", paths.ADMIN_PEOPLE, request, identity.PersonReply)


def people(*, limit: int | None = None, after: str | None = None) -> Call[identity.PeopleReply]:
    """List people; admins only."""
    return Call("GET", paths.ADMIN_PEOPLE, identity.PeopleReply, query_of(limit=limit, after=after))


def add_agent(
    *, label: str, id_: AgentId | None = None, pubkey: str | None = None, owner: PersonId | None = None
) -> Call[identity.AgentReply]:
    """Add an agent of one's own, or as an admin of `owner`."""
    if owner is None:
        mine = identity.AgentRequest(label=label, id=id_, pubkey=pubkey)
        return _change("POST", paths.AGENTS, mine, identity.AgentReply)
    theirs = identity.AdminAgentRequest(label=label, id=id_, pubkey=pubkey, owner=owner)
    return _change("POST", paths.ADMIN_AGENTS, theirs, identity.AgentReply)


def agents(
    *, everybodys: bool = False, limit: int | None = None, after: str | None = None
) -> Call[identity.AgentsReply]:
    """List one's own agents, or as an admin everybody's."""
    return Call("GET", paths.AGENTS, identity.AgentsReply, query_of(all=everybodys, limit=limit, after=after))


def bind_session(session: str) -> Call[tokens.SessionReply]:
    """Bind the agent token in use to `session`, once and for all; the same again changes nothing."""
    return _post(paths.AGENT_SESSION, tokens.SessionRequest(session=session), tokens.SessionReply, Repeat.SAFE)


# --- tokens: a repeated mint ends the token whose answer was lost, and makes a new one (D11) -------------------------


def mint_session_token(
    agent: AgentId, *, session: str | None = None, expires: tokens.Expires = None
) -> Call[tokens.SessionTokenReply]:
    """Mint a token for one session of an agent, to be bound later when `session` is not known yet."""
    request = tokens.AgentTokenRequest(session=session, expires=expires)
    return _change("POST", paths.fill(paths.AGENT_TOKEN, id=agent), request, tokens.SessionTokenReply)


def mint_run_token(
    agent: AgentId, tenure: Fence, *, session: str | None = None, replace: bool = False
) -> Call[tokens.SessionTokenReply]:
    """Mint the one token of a tenure: it dies with it (D2a). `replace` ends the one there may be."""
    lease = tokens.NamedLease(epoch=tenure.epoch, **_named(tenure))
    request = tokens.AgentTokenRequest(session=session, lease=lease, replace=replace)
    return _change("POST", paths.fill(paths.AGENT_TOKEN, id=agent), request, tokens.SessionTokenReply)


def mint_standing_token(
    agent: AgentId, *, label: str | None = None, expires: tokens.Expires = None
) -> Call[tokens.StandingTokenReply]:
    """Mint a token for a service that runs as an agent."""
    request = tokens.AgentTokenRequest(standing=True, label=label, expires=expires)
    return _change("POST", paths.fill(paths.AGENT_TOKEN, id=agent), request, tokens.StandingTokenReply)


def agent_tokens(agent: AgentId, *, limit: int | None = None, after: str | None = None) -> Call[tokens.TokensReply]:
    """List an agent's tokens."""
    path = paths.fill(paths.AGENT_TOKENS, id=agent)
    return Call("GET", path, tokens.TokensReply, query_of(limit=limit, after=after))


def revoke_agent_token(agent: AgentId, prefix: str) -> Call[tokens.RevokeReply]:
    """End the agent's token whose hash begins with `prefix`."""
    return Call("DELETE", paths.fill(paths.AGENT_TOKEN_OF, id=agent, prefix=prefix), tokens.RevokeReply)


def mint_token(
    *,
    label: str | None = None,
    expires: tokens.Expires = None,
    read_only: bool = False,
    person: PersonId | None = None,
) -> Call[tokens.PersonalTokenReply]:
    """Mint a personal token for oneself, or as an admin for `person`."""
    scope: Literal["read", "write"] = "read" if read_only else "write"
    if person is None:
        mine = tokens.PersonalTokenRequest(label=label, expires=expires, scope=scope)
        return _change("POST", paths.MY_TOKENS, mine, tokens.PersonalTokenReply)
    theirs = tokens.AdminTokenRequest(label=label, expires=expires, scope=scope, person=person)
    return _change("POST", paths.ADMIN_TOKENS, theirs, tokens.PersonalTokenReply)


def my_tokens(*, limit: int | None = None, after: str | None = None) -> Call[tokens.TokensReply]:
    """List one's own tokens."""
    return Call("GET", paths.MY_TOKENS, tokens.TokensReply, query_of(limit=limit, after=after))


def tokens_of(person: PersonId, *, limit: int | None = None, after: str | None = None) -> Call[tokens.TokensReply]:
    """List somebody's tokens; admins only."""
    query = query_of(person=person, limit=limit, after=after)
    return Call("GET", paths.ADMIN_TOKENS, tokens.TokensReply, query)


def revoke_token(prefix: str, *, as_admin: bool = False) -> Call[tokens.RevokeReply]:
    """End one's own token whose hash begins with `prefix`, or as an admin anybody's."""
    template = paths.ADMIN_TOKEN if as_admin else paths.MY_TOKEN
    return Call("DELETE", paths.fill(template, prefix=prefix), tokens.RevokeReply)


# --- the server ------------------------------------------------------------------------------------------------------


def server_status() -> Call[StatusReply]:
    """Ask what is running."""
    return Call("GET", paths.STATUS, StatusReply)


def search_nodes(
    q: str,
    *,
    project: str | None = None,
    types: Sequence[str] = (),
    limit: int | None = None,
    offset: int = 0,
) -> Call[SearchReply]:
    """Find nodes that hold every word of `q`."""
    query = query_of(q=q, project=project, type=types, limit=limit, offset=offset or None)
    return Call("GET", paths.SEARCH, SearchReply, query)


def get_policy(project: str) -> Call[policy.PolicyReply]:
    """Read the policy in force for `project`; ``*`` is every project's."""
    return Call("GET", paths.fill(paths.POLICY, project=project), policy.PolicyReply)


def put_policy(project: str, changes: policy.PolicyRequest) -> Call[policy.PolicyReply]:
    """Change a project's policy where `changes` says something; admins only. It touches the next grant (D8)."""
    return _change("PUT", paths.fill(paths.POLICY, project=project), changes, policy.PolicyReply)


def _change(method: Literal["POST", "PUT"], path: str, request: msgspec.Struct, reply: type[T]) -> Call[T]:
    return Call(method, path, reply, body=body_of(request), repeat=Repeat.KEYED)


def _named(tenure: Fence) -> dict[str, str]:
    """Return a tenure's resource as a mint names it: a node, or a record and its field."""
    kind, _, rest = tenure.resource.partition(":")
    if kind != "record" or not rest:
        return {"node": tenure.resource}
    record, _, field = rest.partition("#")
    return {"record": record, "field": field}
