"""What is looked at before a run is sent off; nothing of it changes anything, anywhere (companion 9.4).

    is it done already                 --force lifts
    does it need a person              nothing lifts what says so itself (`requires: human`)
    can this machine do for its profile   nothing lifts (`worker.profiles`)
    is it being worked on from here    --force lifts
    which checkout is it for           --dir says so (`dispatch.checkouts`)
    whose name does the run carry      --as says so, or --allow-person-token
    is the agent program here          (`worker.harness.registry`)
    is the run's place free            (`launch.survey`)

Only then is a record written, and the item claimed. A refusal is a
`LaunchRefused` whose message names the way out; what is odd and no reason to
refuse is a warning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from batonpass.core.ids import AgentId, NodeId, PersonId
from batonpass.core.why import Code
from batonpass.worker.dispatch.target import HUMAN, Target
from batonpass.worker.errors import LaunchRefused, RunBusy
from batonpass.worker.graph import Caller
from batonpass.worker.journal import Journal
from batonpass.worker.record import RunRecord


@dataclass(frozen=True, slots=True)
class Sender:
    """Who sends the run off: `by_person` says that a person names the item, so that it may be one for people.

    In local mode that is so although the agent's token is used: there is
    nobody but the person at the terminal.
    """

    caller: Caller
    by_person: bool

    def owns(self, target: Target) -> bool:
        """Whether the lease or reservation on the item is the sender's own, or of an agent of theirs."""
        lease, caller = target.lease, self.caller
        if lease is None:
            return False
        return lease.by in {caller.agent, None if caller.agent else caller.person} or (
            caller.agent is None and lease.owner is not None and lease.owner == caller.person
        )


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose name what the run writes carries: an agent's, or, where that was allowed, the person's own."""

    agent: AgentId
    is_person: bool = False


def require_open(target: Target, sender: Sender, *, force: bool) -> None:
    """Refuse what can't be claimed, is done, or is somebody's already; `force` lifts what is a matter of opinion."""
    if not target.claimable:
        raise LaunchRefused(f"{target.id} is a node of type {target.type}, which is not work: nobody claims it")
    if target.execution is not None:
        raise LaunchRefused(f"{target.execution} has {target.id} until it is settled; wait until that has ended")
    if target.retired is not None and not force:
        raise LaunchRefused(
            f"{target.id} is {target.retired}, so there is nothing left to do: baton show {target.id};"
            " --force sends a run to it all the same"
        )
    for reason in target.because(Code.PAUSED, Code.TOO_MANY):
        raise LaunchRefused(_words(target, reason.says, reason.way_out))
    for reason in target.because(Code.LEASED, Code.RESERVED):
        # Taking up one's own reservation is what it is for; under one's own claim a run is a second pair of hands.
        own = sender.owns(target)
        if not own or (reason.code == Code.LEASED and not force):
            more = ", or --force to send a run off under your own lease" if own else ""
            raise LaunchRefused(_words(target, reason.says, reason.way_out) + more)


def require_not_for_people(target: Target, sender: Sender) -> tuple[str, ...]:
    """Refuse an item that only a person may do, and return what speaks for a person and is for the sender to weigh."""
    if HUMAN in target.requires:
        raise LaunchRefused(
            f"{target.id} requires a person (`requires: human`), and nothing lifts that here; if it no longer does:"
            f" baton edit {target.id} --set requires="
        )
    doubts = target.because(Code.HUMAN)
    if doubts and not sender.by_person:
        raise LaunchRefused(_words(target, doubts[0].says, doubts[0].way_out) + "; a person may send a run to it")
    return tuple(f"{target.id} is {reason.says}; you send an agent to it all the same" for reason in doubts)


def require_not_in_flight(journal: Journal, node: NodeId, *, server: str, force: bool) -> None:
    """Refuse an item that a run of this machine is at work on; one that was left is settled first, and no hindrance."""
    if force:
        return
    for record in in_flight(journal, server=server):
        if record.node_id == node:
            run = record.run_id[:8]
            raise LaunchRefused(
                f"the run {run} on this machine is at work on {node}: baton runs show {run}, or baton runs kill {run};"
                " --force sends another"
            )


def in_flight(journal: Journal, *, server: str) -> tuple[RunRecord, ...]:
    """Return the runs of this machine at that server which somebody holds at this moment."""
    return tuple(_held(journal, server))


def resolve_identity(
    caller: Caller,
    *,
    named: AgentId | None,
    configured: AgentId | None,
    own: Sequence[AgentId],
    allow_person: bool,
) -> Identity:
    """Return whose name the run carries; `LaunchRefused` names every way out.

    An agent's token is that agent. A person's stands for an agent of theirs:
    the one that was `named`, else the `configured` one, else the only one
    there is. The person's own name is taken only where that is allowed and no
    agent was named: what an agent did would read as if they had done it.
    """
    if caller.run is not None:
        raise LaunchRefused(
            "this is a run's own token, and a run launches no other; use your own token, or the agent's"
        )
    if caller.agent is not None:
        return _of_agent_token(caller.agent, named)
    if caller.person is None:
        raise LaunchRefused("this token is neither an agent's nor a person's, so no run can be sent off with it")
    wanted = named or configured
    if wanted is not None:
        if wanted not in own:
            raise LaunchRefused(f"{wanted} is no agent of yours; {_yours(own)}")
        return Identity(wanted)
    if len(own) == 1:
        return Identity(own[0])
    if allow_person:
        return Identity(_as_agent(caller.person), is_person=True)
    raise LaunchRefused(
        f"no agent is named for the run, and without one its work would carry your name; {_yours(own)};"
        " name one with --as, or for good with `baton agent use ID`"
        " (or let runs carry your own name and token: --allow-person-token)"
    )


def warnings(target: Target | None, identity: Identity) -> tuple[str, ...]:
    """Return what the sender should know of the run, and is no reason to refuse."""
    return tuple(_warnings(target, identity))


def _warnings(target: Target | None, identity: Identity) -> Iterator[str]:
    if identity.is_person:
        yield (
            f"WARNING: no agent is named, so this run carries your own name, {identity.agent}, and a token of yours"
            " that reaches all you reach and does not end with the lease; make an agent: baton agent add LABEL"
        )
    if target is None:
        return
    for reason in target.because(Code.BLOCKED, Code.ARCHIVED, Code.CYCLE):
        yield f"{target.id} is {reason.says}: a run may work on it, and can't complete it before"
    agents = [one.to for one in target.assigned if one.to_agent]
    if agents and NodeId(identity.agent) not in agents:
        yield f"{target.id} is routed to {', '.join(agents)}, and {identity.agent} works on it all the same"


def _held(journal: Journal, server: str) -> Iterator[RunRecord]:
    for run in journal.unsettled():
        record = run.readable()
        if record is None or record.server != server:
            continue
        try:
            with run.locked():
                continue
        except (RunBusy, OSError):
            yield record


def _of_agent_token(agent: AgentId, named: AgentId | None) -> Identity:
    if named is not None and named != agent:
        raise LaunchRefused(
            f"this token is {agent}'s, and it can't speak for {named}; use your own token, or that one's"
        )
    return Identity(agent)


def _as_agent(person: PersonId) -> AgentId:
    """Return the person where records have an agent's id: both are who holds, and a reader sees which by its prefix."""
    return AgentId(person)


def _yours(own: Sequence[AgentId]) -> str:
    return f"yours are {', '.join(own)}" if own else "you have none yet: baton agent add LABEL"


def _words(target: Target, says: str, way_out: str | None) -> str:
    return f"{target.id}: {says}" + (f" ({way_out})" if way_out else "")
