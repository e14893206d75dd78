from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from batonpass.core.ids import NodeId
from batonpass.core.readiness import Consent, Facts, Readiness, Ready, Routing, derive

PERSON: Final = Routing(NodeId("person-ann"), to_agent=False, by_person=True)
AGENT: Final = Routing(NodeId("agent-7"), to_agent=True, by_person=True)
AGENT_BY_AGENT: Final = Routing(NodeId("agent-7"), to_agent=True, by_person=False)
STAMP: Final = Consent("Ann <ann@a.example>", by_person=True)
STAMP_BY_AGENT: Final = Consent("agent-7", by_person=False)


@pytest.mark.parametrize(
    "facts,value,reasons",
    [
        (Facts("task"), Ready.UNTRIAGED, ()),
        (Facts("task", requires=("shell",)), Ready.UNTRIAGED, ()),
        (Facts("task", requires=("shell", "human")), Ready.HUMAN, ("requires human",)),
        (Facts("task", routings=(PERSON,)), Ready.HUMAN, ("assigned to person-ann",)),
        (Facts("task", routings=(AGENT,)), Ready.AGENT, ("assigned to agent agent-7",)),
        (Facts("task", consent=STAMP), Ready.AGENT, ("marked ready by Ann <ann@a.example>",)),
        (Facts("question"), Ready.HUMAN, ("open question awaiting an answer",)),
        (Facts("capture-pending"), Ready.HUMAN, ("capture awaiting triage",)),
        (
            Facts("task", open_questions=(NodeId("question-1"),)),
            Ready.HUMAN,
            ("open question question-1 in neighborhood",),
        ),
        (Facts("task", held=True), Ready.HUMAN, ("held: an outcome that resolves nothing stands on it",)),
        (Facts("task", lapses=4, lapse_limit=5, consent=STAMP), Ready.AGENT, ("marked ready by Ann <ann@a.example>",)),
        (Facts("task", lapses=5, lapse_limit=5, consent=STAMP), Ready.HUMAN, ("lapsed 5 times",)),
        (
            Facts("task", consent=STAMP, routings=(AGENT,)),
            Ready.AGENT,
            ("marked ready by Ann <ann@a.example>", "assigned to agent agent-7"),
        ),
        (
            Facts("question", requires=("human",), routings=(PERSON, AGENT), consent=STAMP),
            Ready.HUMAN,
            ("requires human", "assigned to person-ann", "open question awaiting an answer"),
        ),
    ],
)
def test_readiness_and_every_reason_for_it(facts: Facts, value: Ready, reasons: tuple[str, ...]) -> None:
    assert derive(facts) == Readiness(value, reasons)


def test_what_an_agent_wrote_is_no_consent_and_is_named_as_none() -> None:
    facts = Facts("task", consent=STAMP_BY_AGENT, routings=(AGENT_BY_AGENT,))

    assert derive(facts) == Readiness(
        Ready.UNTRIAGED,
        (),
        ("marked ready by agent-7, who is not a person", "assigned to agent agent-7, but not by a person"),
    )


def test_a_policy_may_let_agents_make_items_ready() -> None:
    facts = Facts("task", consent=STAMP_BY_AGENT, routings=(AGENT_BY_AGENT,), agents_may_ready=True)

    assert derive(facts) == Readiness(Ready.AGENT, ("marked ready by agent-7", "assigned to agent agent-7"))


def test_an_assignment_to_a_person_counts_whoever_wrote_it() -> None:
    by_agent = Routing(NodeId("person-ann"), to_agent=False, by_person=False)

    assert derive(Facts("task", routings=(by_agent,))).value is Ready.HUMAN


def test_human_wins_over_every_kind_of_consent() -> None:
    humans = ({"requires": ("human",)}, {"routings": (PERSON, AGENT)}, {"held": True}, {"lapses": 9})
    for human, may in product(humans, (True, False)):
        facts = Facts("task", consent=STAMP, agents_may_ready=may, **human)  # type: ignore[arg-type]  # one of four

        assert derive(facts).value is Ready.HUMAN
