"""The graph as a server answers it: `Graph` over the client, each method a call or two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from batonpass.client import digest_calls, queue_calls, run_calls
from batonpass.client.client import ONCE, Client
from batonpass.client.heartbeat import Heartbeat, boottime
from batonpass.core.digest_text import Mode
from batonpass.core.errors import Internal, LeaseLost
from batonpass.core.ids import AgentId, Fence, HolderId, NodeId, PersonId, Resource, RunId
from batonpass.core.outcome import Resolver
from batonpass.core.points import reach
from batonpass.core.reports import Draft
from batonpass.core.search import QUERY_CHARS_MAX
from batonpass.wire.nodes import NodeReply
from batonpass.wire.queue import ItemBody, NextReply
from batonpass.worker.graph import Caller, Heart, Item, Page, Put, RunToken, Seen, Taken, Tenure

DIGEST_S_MAX: Final = 10.0
"""How long a launch waits for its briefing, its lease running meanwhile."""


PAGE_MAX: Final = 100
"""The server's own ceiling for a page."""
EXPIRES: Final = "7d"
"""How long a token lives at most that does not end with a lease: it is revoked with its run, unless that can't be."""


class ServerGraph:
    """A worker's view of one server, under one token."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def server(self) -> str:
        """The server's address."""
        return self._client.server

    def caller(self) -> Caller:
        """Return whose token this is, and which incarnation of the database answers (D46)."""
        me = self._client.me()
        return Caller(
            agent=AgentId(HolderId(me.agent)) if me.agent is not None else None,
            person=PersonId(HolderId(me.person)) if me.person is not None else None,
            incarnation=self._client.status().incarnation,
            run=Fence(Resource(me.run.resource), me.run.epoch) if me.run is not None else None,
        )

    def page(self, *, project: str | None, limit: int) -> Page:
        """Return the best `limit` items of the queue, read in as many pages as the server makes of them."""
        items: dict[NodeId, Item] = {}
        reply = self._client.queue(project=project, limit=min(limit, PAGE_MAX))
        seq = reply.seq  # of the first: what has changed since is heard of
        while True:
            known = len(items)
            items |= {item.id: item for item in map(item_of, reply.items)}
            if not reply.truncated or reply.next_offset is None or len(items) >= limit or len(items) == known:
                return Page(tuple(items.values()), more=reply.truncated and len(items) > known, seq=seq)
            left = min(limit - len(items), PAGE_MAX)
            reply = self._client.queue(project=project, limit=left, offset=reply.next_offset)

    def wait(self, *, project: str | None, after: str, wait_s: int) -> str:
        """Return the queue's position once something in it has changed, or after `wait_s`."""
        call = queue_calls.queue_page(project=project, limit=1, wait=wait_s, after=after)
        return self._client.send(call, patience=ONCE).seq

    def next(self, *, project: str | None, accept: str, candidates: Sequence[NodeId], dispatch: str) -> Taken | None:
        """Claim the first of `candidates` that is still free, or return None."""
        sent_at_s = boottime()
        policy: Literal["ready", "open"] = "open" if accept == "open" else "ready"
        reach("claim.sent")
        reply = self._client.next(project=project, accept=policy, candidates=candidates, dispatch=dispatch)
        reach("claim.answered")
        return None if reply.status == "empty" else _taken(reply, sent_at_s)

    def node(self, node: NodeId) -> Seen:
        """Return the node as it reads now."""
        return _seen(self._client.node(node))

    def digest(self, node: NodeId, *, project: str | None, mode: Mode) -> str:
        """Return in words what is known around `node`; asked once and not for long, since a run can do without."""
        call = digest_calls.compile_digest(root=node, project=project, mode="full" if mode is Mode.FULL else "digest")
        return self._client.send(replace(call, answer_s_max=DIGEST_S_MAX), patience=ONCE).text

    def digest_of(self, words: str, *, mode: Mode) -> str:
        """Return in words what is known of what `words` are about; as much of them is asked for as a query may have."""
        query = " ".join(words.split())[:QUERY_CHARS_MAX]
        call = digest_calls.compile_digest(query=query, mode="full" if mode is Mode.FULL else "digest")
        return self._client.send(replace(call, answer_s_max=DIGEST_S_MAX), patience=ONCE).text

    def put(self, draft: Draft) -> Put:
        """File a node unless one of its id exists; only its own result counts, whatever the batch's status is."""
        (result,) = self._client.put_nodes([draft.fields()], if_exists="skip").results
        said = [result.message, *(result.details or [])]
        return Put(result.status, message="; ".join(filter(None, said)))

    def clear_readiness(self, fence: Fence) -> None:
        """Take the node's readiness stamp away, if the tenure stands."""
        self._client.set_readiness(NodeId(fence.resource), None, if_epoch=fence.epoch)

    def release(self, fence: Fence) -> None:
        """Hand the lease back, if the tenure stands; `LeaseLost` when it had ended, so that it counts as no release."""
        reply = self._client.release(NodeId(fence.resource), if_epoch=fence.epoch)
        if reply.edge != "removed":
            raise LeaseLost(f"the tenure {fence.epoch} of {fence.resource} had ended already")

    def mint(self, agent: AgentId, fence: Fence) -> RunToken:
        """Return the run token of a tenure that has none yet; a personal one where the run is a person's."""
        if _is_person(agent):
            own = self._client.mint_token(label=f"a run on {fence.resource}", expires=EXPIRES)
            return RunToken(own.token, own.hash_prefix)
        reply = self._client.mint_run_token(agent, fence)
        reach("mint.answered")
        return RunToken(reply.token, reply.hash_prefix)

    def mint_for_session(self, agent: AgentId) -> RunToken:
        """Return a token for one session of an agent, or for a person, who works under no tenure."""
        if _is_person(agent):
            own = self._client.mint_token(label="a run on no item", expires=EXPIRES)
            return RunToken(own.token, own.hash_prefix)
        reply = self._client.mint_session_token(agent, expires=EXPIRES)
        return RunToken(reply.token, reply.hash_prefix)

    def revoke(self, agent: AgentId, prefix: str) -> None:
        """End a token."""
        if _is_person(agent):
            self._client.revoke_token(prefix)
        else:
            self._client.revoke_agent_token(agent, prefix)

    def keep(self, taken: Taken) -> Heart:
        """Renew a tenure on a thread of its own, until it is stopped or lost."""
        heartbeat = Heartbeat(self._client)
        heartbeat.keep(taken.fence, expires_in_ms=taken.expires_in_ms, sent_at_s=taken.sent_at_s)
        heartbeat.start()
        return _Beating(heartbeat, taken.fence)

    def put_run(self, run: RunId, record: Mapping[str, Any]) -> int:
        """Send the record of a run, tried once; return where the log that the server has of it ends, in bytes."""
        return self._client.send(run_calls.put_run(run, record), patience=ONCE).log_end

    def put_log(self, run: RunId, *, offset: int, text: str) -> None:
        """Send text of a run's log from the byte `offset` on, tried once."""
        self._client.send(run_calls.put_run_log(run, offset=offset, text=text), patience=ONCE)


def _is_person(agent: AgentId) -> bool:
    """Whether a run carries a person's own name, because they allowed that (`dispatch.guards`)."""
    return agent.startswith("person-")


class _Beating:
    """A heartbeat that keeps one tenure."""

    def __init__(self, heartbeat: Heartbeat, fence: Fence) -> None:
        self._heartbeat = heartbeat
        self._fence = fence

    def lost(self) -> str | None:
        """Return why the tenure may not be acted on any more, or None while it may."""
        lost = self._heartbeat.lost.get(self._fence.resource)
        return None if lost is None else lost.why

    def stop(self) -> None:
        """Renew no more; safe twice."""
        self._heartbeat.stop()


def _taken(reply: NextReply, sent_at_s: float) -> Taken:
    if reply.item is None or reply.lease is None or reply.expires_in_ms is None:
        raise Internal("the server says that an item was claimed, and does not say which")
    fence = Fence(Resource(reply.lease.node_id), reply.lease.epoch)
    return Taken(item_of(reply.item), fence, reply.expires_in_ms, sent_at_s)


def item_of(body: ItemBody) -> Item:
    """Return an item of the queue as the server shows it."""
    return Item(
        id=NodeId(body.id),
        title=body.title,
        type=body.type,
        project=body.project,
        readiness=body.readiness,
        suggest=body.suggest,
        lease_state=body.lease_state,
        assigned=tuple(AgentId(HolderId(agent)) for agent in body.assigned_agents or ()),
        findings=tuple(map(NodeId, body.findings or ())),
        profile=body.profile,
    )


def _seen(reply: NodeReply) -> Seen:
    project = reply.frontmatter.get("project")
    resolution, lease = reply.resolution, reply.lease
    return Seen(
        id=NodeId(reply.id),
        type=str(reply.frontmatter.get("type", "")),
        title=str(reply.frontmatter.get("title", "")),
        project=None if project is None else str(project),
        raw=reply.raw,
        resolver=None if resolution is None else Resolver(NodeId(resolution.by), resolution.edge),
        tenure=None if lease is None else Tenure(Fence(Resource(lease.node_id), lease.epoch), lease.dispatch),
    )
