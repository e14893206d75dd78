"""The routing law as a table, and which project a question belongs to."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.edges import Edge
from batonpass.core.errors import InvalidNode
from batonpass.core.ids import HolderId, Instant, NodeId, PersonId
from batonpass.core.nodes import Attribution, Authored, Node
from batonpass.core.questions import Facts, Mentioned, Route, Via, mentioned, project_of, require_question, route


def person(name: str) -> PersonId:
    return PersonId(HolderId(f"person-{name}"))


ADA, PAT, SUE, TOM = (person(name) for name in ("ada", "pat", "sue", "tom"))
TASK: Final = Mentioned(NodeId("task-a"), project="mail", owners=(SUE,), author=TOM)
SEATS: Final = {"mail": (NodeId("repo-mail"), NodeId("proj-mail"), NodeId("proj-all"))}
BARE: Final = Facts(asker=None)


def steward(node: str, *people: PersonId) -> dict[NodeId, tuple[PersonId, ...]]:
    return {NodeId(node): people}


@pytest.mark.parametrize(
    "facts,expected",
    [
        # to
        (replace(BARE, to=PAT, mentioned=[TASK], stewards=steward("task-a", ADA)), Route(PAT, Via.TO)),
        (replace(BARE, to=PAT, asker=PAT), Route(PAT, Via.TO)),
        # mention
        (
            replace(BARE, mentioned=[TASK, Mentioned(NodeId(PAT))], stewards=steward("task-a", ADA)),
            Route(PAT, Via.MENTION),
        ),
        # steward: of the node, then of its repository, its project, and what groups them
        (replace(BARE, mentioned=[TASK], stewards=steward("task-a", PAT, ADA)), Route(PAT, Via.STEWARD)),
        (
            replace(
                BARE,
                mentioned=[TASK],
                seats=SEATS,
                stewards=steward("proj-all", ADA) | steward("proj-mail", PAT) | steward("repo-web", SUE),
            ),
            Route(PAT, Via.STEWARD),
        ),
        (replace(BARE, mentioned=[TASK], seats=SEATS, stewards=steward("proj-all", ADA)), Route(ADA, Via.STEWARD)),
        # steward: of the question's own project only when it mentions nothing
        (replace(BARE, project="mail", seats=SEATS, stewards=steward("repo-mail", PAT)), Route(PAT, Via.STEWARD)),
        (
            replace(
                BARE,
                project="mail",
                mentioned=[Mentioned(NodeId("task-b"))],
                seats=SEATS,
                stewards=steward("repo-mail", PAT),
            ),
            Route(None, Via.UNROUTED),
        ),
        # owner, author, nobody
        (replace(BARE, mentioned=[TASK]), Route(SUE, Via.OWNER)),
        (replace(BARE, mentioned=[replace(TASK, owners=())]), Route(TOM, Via.AUTHOR)),
        (BARE, Route(None, Via.UNROUTED)),
        (replace(BARE, mentioned=[Mentioned(NodeId("task-b"))]), Route(None, Via.UNROUTED)),
        # the first mention that has somebody counts
        (
            replace(BARE, mentioned=[Mentioned(NodeId("task-b")), TASK, replace(TASK, owners=(PAT,))]),
            Route(SUE, Via.OWNER),
        ),
        # nobody is asked their own question
        (replace(BARE, asker=SUE, mentioned=[TASK]), Route(TOM, Via.AUTHOR)),
        (replace(BARE, asker=PAT, mentioned=[TASK], stewards=steward("task-a", PAT, ADA)), Route(ADA, Via.STEWARD)),
        (replace(BARE, asker=TOM, mentioned=[replace(TASK, owners=())]), Route(None, Via.UNROUTED)),
    ],
)
def test_a_question_goes_to_whom_the_first_rule_finds(facts: Facts, expected: Route) -> None:
    assert route(facts) == expected


people = st.sampled_from([ADA, PAT, SUE, TOM])
nodes = st.builds(
    Mentioned,
    st.sampled_from([NodeId("task-a"), NodeId("task-b"), NodeId(PAT)]),
    project=st.sampled_from(["mail", "web", None]),
    owners=st.lists(people, max_size=2).map(tuple),
    author=st.none() | people,
)


@given(
    st.builds(
        Facts,
        st.none() | people,
        mentioned=st.lists(nodes, max_size=3),
        project=st.sampled_from(["mail", None]),
        seats=st.just(SEATS),
        stewards=st.dictionaries(
            st.sampled_from([NodeId("task-a"), NodeId("repo-mail")]), st.lists(people, max_size=2)
        ),
    )
)
def test_a_route_has_a_rule_exactly_when_it_has_a_person_and_never_the_one_who_asks(facts: Facts) -> None:
    found = route(facts)

    assert (found.to is None) == (found.via is Via.UNROUTED)
    assert found.to is None or found.to != facts.asker


@pytest.mark.parametrize(
    "given_project,projects,at_work,expected",
    [
        ("web", ["mail"], "ops", "web"),
        (None, ["mail", None, "mail"], "ops", "mail"),
        (None, ["mail", "web"], "ops", None),
        (None, [None], "ops", "ops"),
        (None, [], "ops", "ops"),
        (None, [], None, None),
    ],
)
def test_a_project_is_the_given_one_else_that_of_the_mentions_else_of_the_work(
    given_project: str | None, projects: list[str | None], at_work: str | None, expected: str | None
) -> None:
    mentions = [Mentioned(NodeId(f"task-{n}"), project=project) for n, project in enumerate(projects)]

    assert project_of(given_project, mentions, at_work) == expected


def node(node_type: str, *edges: Edge) -> Node:
    authored = Authored(NodeId(f"{node_type}-a"), node_type, "T", "S", project="mail", edges=edges)
    return Node(authored, "r", Attribution(TOM, "rest"), created_at=Instant(0), updated_at=Instant(0))


def test_a_node_is_owned_by_the_people_its_edges_lead_to() -> None:
    edges = [Edge("assigned", NodeId("agent-mill")), Edge("assigned", NodeId(PAT)), Edge("mentions", NodeId(ADA))]

    assert mentioned(node("task", *edges)) == Mentioned(NodeId("task-a"), "mail", (PAT,), TOM)


def test_only_a_question_is_answered() -> None:
    require_question(node("question"))
    with pytest.raises(InvalidNode, match="task-a is a task, and only a question is answered"):
        require_question(node("task"))
