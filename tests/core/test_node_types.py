from __future__ import annotations

from itertools import combinations
from typing import Final

import pytest

from batonpass.core.errors import InvalidNode
from batonpass.core.ids import NodeId
from batonpass.core.node_types import (
    NODE_TYPES,
    NON_RESOLVING,
    RETIRED_WORDS,
    JudgedBy,
    check_move,
    check_status,
    dead_statuses,
    is_dead,
    is_queueable,
    require_type,
    resolves_others,
    type_of,
)

# Name, prefixes, queueable, claimable (D10), statuses: companion 1.5, line by line.
REGISTERED: Final = """
task            task-         q c open,active,done,abandoned
issue           issue-        q c open,active,resolved
incident        inc-          q c -
question        question-     q c open,answered
capture-pending cap-          q c merged,rejected
finding         find-         q c -
decision        dec-          - c active,superseded,rejected,settled
artifact        art-,spec-    - - in-review,approved,merged,released,done,active
norm            norm-         - - -
correction      corr-         - - active,applied
briefing        brief-        - - -
workflow        wf-,workflow- q - proposed,active,retired
workflow-run    run-          q - running,held,succeeded,failed,cancelled
factory         factory-      - - proposed,active,retired
gate            gate-         - - proposed,active,retired
schema          schema-       q - proposed,active
person          person-       - - -
organization    org-          - - -
agent           agent-        - - -
profile         profile-      - - -
routine         routine-      - - -
project         proj-         - - -
repo            repo-         - - -
lens            lens-         - - -
workspace       workspace-    - - -
"""


def test_every_registered_node_type_is_in_the_table_and_no_other() -> None:
    expected = {}
    for line in REGISTERED.strip().splitlines():
        name, prefixes, queueable, claimable, statuses = line.split()
        expected[name] = (
            tuple(prefixes.split(",")),
            queueable == "q",
            claimable == "c",
            None if statuses == "-" else frozenset(statuses.split(",")),
        )

    assert {k.name: (k.prefixes, k.queueable, k.claimable, k.statuses) for k in NODE_TYPES.values()} == expected


def test_no_prefix_begins_another_so_an_id_names_its_type() -> None:
    prefixes = [prefix for kind in NODE_TYPES.values() for prefix in kind.prefixes]

    assert not [(a, b) for a, b in combinations(prefixes, 2) if a.startswith(b) or b.startswith(a)]
    assert type_of(NodeId("spec-auth")) == NODE_TYPES["artifact"]
    assert type_of(NodeId("nothing-known")) is None


def test_completion_is_judged_by_an_edge_for_four_types() -> None:
    judged = {kind.name for kind in NODE_TYPES.values() if kind.judged_by is JudgedBy.EDGE}

    assert judged == {"task", "issue", "question", "incident"}


def test_only_tasks_and_issues_have_an_in_progress_status() -> None:
    assert {k.name: k.in_progress for k in NODE_TYPES.values() if k.in_progress} == {
        "task": "active",
        "issue": "active",
    }


def test_an_unknown_type_is_refused_with_the_nearest_name_or_all_of_them() -> None:
    with pytest.raises(InvalidNode, match='type: "taks" is not a node type; did you mean task\\?'):
        require_type("taks")
    with pytest.raises(InvalidNode, match="the types are task, issue, incident"):
        require_type("zzz")
    assert require_type("task").name == "task"


@pytest.mark.parametrize(
    "node_type,status,dead",
    [
        ("task", None, False),
        ("task", "open", False),
        ("task", "done", True),
        ("task", "abandoned", True),
        ("incident", "closed", True),  # the register's words count for a type without a vocabulary
        ("finding", "dismissed", True),
        ("artifact", "released", True),  # terminal of its type, and no word of the register
        ("task", "released", False),  # …so it retires no other type
        ("decision", "settled", False),  # ended, but goes on surfacing
        ("decision", "superseded", True),
        ("correction", "applied", True),
        ("workflow-run", "failed", True),
        ("capture-pending", "merged", True),
    ],
)
def test_which_words_take_a_node_out_of_the_queue(*, node_type: str, status: str | None, dead: bool) -> None:
    assert is_dead(NODE_TYPES[node_type], status) is dead


def test_the_words_of_the_register_retire_every_type() -> None:
    assert all(dead_statuses(kind) >= RETIRED_WORDS for kind in NODE_TYPES.values())


def test_a_schema_is_an_item_only_while_it_is_proposed() -> None:
    schema = NODE_TYPES["schema"]

    assert is_queueable(schema, "proposed")
    assert not is_queueable(schema, "active")
    assert not is_queueable(schema, None)
    assert is_queueable(NODE_TYPES["task"], None)
    assert not is_queueable(NODE_TYPES["artifact"], None)


def test_what_keeps_any_node_from_resolving_others_is_one_set_for_all_types() -> None:
    assert {"in-review", "approved", "rejected", "abandoned", "superseded"} == NON_RESOLVING
    assert not any(resolves_others(status) for status in NON_RESOLVING)
    assert resolves_others(None)
    assert resolves_others("merged")


@pytest.mark.parametrize(
    "node_type,status,ok",
    [
        ("task", None, True),
        ("task", "active", True),
        ("task", "closed", False),
        ("task", "Done", False),
        ("issue", "done", False),
        ("incident", "mitigated", True),
    ],
)
def test_a_type_with_a_vocabulary_takes_only_its_words(*, node_type: str, status: str | None, ok: bool) -> None:
    finding = check_status(NODE_TYPES[node_type], status)

    assert (finding is None) is ok
    if finding is not None:
        assert f"is not a status of {node_type}; it takes " in finding


@pytest.mark.parametrize(
    "node_type,old,new,born,has_resolver,allowed",
    [
        ("task", "active", "done", False, True, True),
        ("task", "active", "done", False, False, False),
        ("task", None, "done", True, False, False),  # nothing is born terminal
        ("task", "done", "done", True, False, False),
        ("task", None, "done", True, True, True),  # unless its resolver was there first
        ("task", "done", "done", False, False, True),  # staying is no move, even if the resolver is gone since
        ("task", "open", "abandoned", False, False, True),
        ("task", None, "abandoned", True, False, True),
        ("task", "done", None, False, False, True),
        ("task", "done", "open", False, False, True),
        ("issue", "open", "resolved", False, False, False),
        ("issue", "open", "resolved", False, True, True),
        ("question", "open", "answered", False, False, True),
        ("finding", "open", "resolved", False, False, True),
        ("decision", None, "settled", True, False, True),
    ],
)
def test_completion_needs_a_resolver_when_it_is_entered(
    *, node_type: str, old: str | None, new: str | None, born: bool, has_resolver: bool, allowed: bool
) -> None:
    reason = check_move(NODE_TYPES[node_type], old, new, born=born, has_resolver=has_resolver)

    assert (reason is None) is allowed
    if reason is not None:
        assert "without a live resolves edge onto it from a resolving artifact or decision" in reason
