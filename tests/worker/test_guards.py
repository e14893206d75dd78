from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from batonpass.core.ids import AgentId, Fence, HolderId, NodeId, PersonId, Resource
from batonpass.core.runs import State
from batonpass.core.why import Code
from batonpass.testing.runs import run_record
from batonpass.testing.targets import TARGET
from batonpass.wire.leases import LeaseBody
from batonpass.worker.dispatch import guards
from batonpass.worker.dispatch.guards import Identity, Sender
from batonpass.worker.dispatch.target import Assigned, Reason, Target
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.graph import Caller
from batonpass.worker.journal import Journal

PAT = PersonId(HolderId("person-pat"))
MILL = AgentId(HolderId("agent-mill"))
ROSE = AgentId(HolderId("agent-rose"))
PERSON = Caller(None, PAT, "i1")
AGENT = Caller(MILL, PAT, "i1")
SERVER = "http://graph.example"


def lease(by: str, owner: str | None = None) -> LeaseBody:
    return LeaseBody("task-1", by, 0, "", 3, None, None, owner=owner)


def because(code: Code, says: str = "says so", way_out: str | None = "do this") -> Target:
    return replace(TARGET, reasons=(Reason(code, says, way_out),))


def test_an_open_item_is_sent_off_without_a_word() -> None:
    guards.require_open(TARGET, Sender(PERSON, by_person=True), force=False)

    assert guards.require_not_for_people(TARGET, Sender(PERSON, by_person=True)) == ()
    assert guards.warnings(TARGET, Identity(MILL)) == ()


@pytest.mark.parametrize(
    "target, said, lifted",
    [
        (replace(TARGET, retired="resolved by art-1"), "--force sends a run to it", True),
        (replace(TARGET, type="artifact"), "which is not work", False),
        (replace(TARGET, execution="exec-1"), "exec-1 has task-1 until it is settled", False),
        (because(Code.PAUSED), r"task-1: says so \(do this\)", False),
        (because(Code.TOO_MANY), "task-1: says so", False),
        (replace(because(Code.LEASED), lease=lease("agent-rose")), r"task-1: says so \(do this\)$", False),
        (replace(because(Code.RESERVED), lease=lease("person-kim")), "task-1: says so", False),
        (replace(because(Code.LEASED), lease=lease("person-pat")), "or --force to send a run off under your own", True),
        (replace(because(Code.LEASED), lease=lease("agent-rose", "person-pat")), "or --force", True),
    ],
)
def test_what_is_done_or_somebodys_is_refused_and_force_lifts_only_opinions(
    target: Target,
    said: str,
    lifted: bool,  # noqa: FBT001 — a column of the table
) -> None:
    sender = Sender(PERSON, by_person=True)
    with pytest.raises(LaunchRefused, match=said):
        guards.require_open(target, sender, force=False)

    if lifted:
        guards.require_open(target, sender, force=True)
    else:
        with pytest.raises(LaunchRefused, match=said):
            guards.require_open(target, sender, force=True)


def test_ones_own_reservation_is_taken_up_unasked() -> None:
    reserved = replace(because(Code.RESERVED), lease=lease("person-pat"))

    guards.require_open(reserved, Sender(PERSON, by_person=True), force=False)


def test_an_agent_has_no_claim_to_what_its_person_or_sibling_holds() -> None:
    sender = Sender(AGENT, by_person=False)

    assert sender.owns(replace(TARGET, lease=lease("agent-mill", "person-pat")))
    assert not sender.owns(replace(TARGET, lease=lease("agent-rose", "person-pat")))
    assert not sender.owns(replace(TARGET, lease=lease("person-pat", "person-pat")))
    assert not sender.owns(TARGET)


@pytest.mark.parametrize("by_person", [True, False])
def test_an_item_that_requires_a_person_is_refused_to_everybody(by_person: bool) -> None:  # noqa: FBT001
    with pytest.raises(LaunchRefused, match="baton edit task-1 --set requires="):
        guards.require_not_for_people(replace(TARGET, requires=("network", "human")), Sender(PERSON, by_person))


def test_an_item_that_is_for_people_otherwise_is_a_persons_to_send_off() -> None:
    assigned = because(Code.HUMAN, "for a person: assigned to person-kim")

    (warning,) = guards.require_not_for_people(assigned, Sender(PERSON, by_person=True))
    assert warning == "task-1 is for a person: assigned to person-kim; you send an agent to it all the same"
    with pytest.raises(LaunchRefused, match="a person may send a run to it"):
        guards.require_not_for_people(assigned, Sender(AGENT, by_person=False))


# In flight


AT_WORK = run_record(server=SERVER, state=State.LAUNCHING, exit_code=None)


def test_an_item_that_a_run_is_at_work_on_is_refused_unless_forced(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with journal.create(AT_WORK):
        with pytest.raises(LaunchRefused, match="baton runs show 0b101010, or baton runs kill 0b101010"):
            guards.require_not_in_flight(journal, NodeId("task-1"), server=SERVER, force=False)

        guards.require_not_in_flight(journal, NodeId("task-1"), server=SERVER, force=True)
        guards.require_not_in_flight(journal, NodeId("task-2"), server=SERVER, force=False)
        guards.require_not_in_flight(journal, NodeId("task-1"), server="http://elsewhere", force=False)


def test_a_run_that_nobody_holds_any_more_is_not_in_flight(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with journal.create(AT_WORK):
        assert len(guards.in_flight(journal, server=SERVER)) == 1

    assert guards.in_flight(journal, server=SERVER) == ()


# Whose name


def resolve(
    caller: Caller,
    *own: AgentId,
    named: AgentId | None = None,
    configured: AgentId | None = None,
    allow_person: bool = False,
) -> Identity:
    return guards.resolve_identity(caller, named=named, configured=configured, own=own, allow_person=allow_person)


def test_an_agents_token_is_that_agent() -> None:
    assert resolve(AGENT) == resolve(AGENT, named=MILL) == resolve(AGENT, configured=ROSE) == Identity(MILL)
    with pytest.raises(LaunchRefused, match="agent-mill's, and it can't speak for agent-rose"):
        resolve(AGENT, named=ROSE)


def test_a_persons_token_stands_for_the_agent_that_is_named_then_configured_then_the_only_one() -> None:
    assert resolve(PERSON, MILL, ROSE, named=ROSE, configured=MILL) == Identity(ROSE)
    assert resolve(PERSON, MILL, ROSE, configured=ROSE) == Identity(ROSE)
    assert resolve(PERSON, MILL) == resolve(PERSON, MILL, allow_person=True) == Identity(MILL)


def test_an_agent_of_somebody_else_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(LaunchRefused, match="agent-rose is no agent of yours; yours are agent-mill"):
        resolve(PERSON, MILL, named=ROSE, allow_person=True)


@pytest.mark.parametrize(
    "own, said",
    [((), "you have none yet: baton agent add LABEL"), ((MILL, ROSE), "yours are agent-mill, agent-rose")],
)
def test_without_an_agent_the_run_is_refused_with_every_way_out(own: tuple[AgentId, ...], said: str) -> None:
    with pytest.raises(LaunchRefused) as refused:
        resolve(PERSON, *own)

    for way_out in (said, "--as", "baton agent use ID", "--allow-person-token"):
        assert way_out in refused.value.message


def test_a_persons_own_name_is_taken_only_where_that_is_allowed_and_then_loudly() -> None:
    identity = resolve(PERSON, allow_person=True)

    assert identity == Identity(AgentId(PAT), is_person=True)
    (warning,) = guards.warnings(TARGET, identity)
    assert warning.startswith("WARNING: no agent is named, so this run carries your own name, person-pat")


@pytest.mark.parametrize(
    "caller, said",
    [
        (Caller(MILL, PAT, "i1", run=Fence(Resource("task-9"), 1)), "a run launches no other"),
        (Caller(None, None, "i1"), "neither an agent's nor a person's"),
    ],
)
def test_whoever_launches_no_runs_is_refused(caller: Caller, said: str) -> None:
    with pytest.raises(LaunchRefused, match=said):
        resolve(caller, MILL, allow_person=True)


def test_what_is_odd_is_said_and_stops_nothing() -> None:
    blocked = replace(
        because(Code.BLOCKED, "blocked by task-0"),
        assigned=(Assigned(NodeId("agent-rose"), None), Assigned(NodeId("person-kim"), None)),
    )

    assert guards.warnings(blocked, Identity(MILL)) == (
        "task-1 is blocked by task-0: a run may work on it, and can't complete it before",
        "task-1 is routed to agent-rose, and agent-mill works on it all the same",
    )
    assert len(guards.warnings(blocked, Identity(ROSE))) == 1
