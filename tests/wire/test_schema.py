"""The vocabulary as a document: it says what the law does, of every field the law has, and cannot say anything else."""

from __future__ import annotations

from dataclasses import fields

import pytest

from batonpass.core import edges as edge_law
from batonpass.core import nodes as node_law
from batonpass.core.edges import EDGE_TYPES, EdgeType
from batonpass.core.errors import InvalidNode, NotFound
from batonpass.core.node_types import NODE_TYPES, NodeType, check_status, is_dead
from batonpass.core.nodes import Authored
from batonpass.wire.markdown import read_json
from batonpass.wire.schema import EVERY_NODE, EdgeTypeBody, TypeBody, schema, type_named

OF_TYPES = {"identity": "for_admins", "inert": "dead"}
"""What the document calls a field of the law otherwise: it says which words are dead, not how that is decided."""
OF_EDGES: dict[str, str] = {}


def test_each_field_of_the_law_stands_in_the_document() -> None:
    """A field that is added to the law has to be told, or be left out on purpose, here."""
    said_of_types = {OF_TYPES.get(field.name, field.name) for field in fields(NodeType)}
    said_of_edges = {field.name for field in fields(EdgeType)}

    assert said_of_types == set(TypeBody.__struct_fields__)
    assert said_of_edges | {"one_of_review", "admin_only"} == set(EdgeTypeBody.__struct_fields__)


def test_each_type_edge_and_key_stands_in_it_once() -> None:
    told = schema()

    assert [kind.name for kind in told.types] == list(NODE_TYPES)
    assert [edge.name for edge in told.edges] == list(EDGE_TYPES)
    keys = [key.name for key in told.keys]
    assert len(keys) == len(set(keys))
    authored = {field.name for field in fields(Authored)} - {"extra", "body"}
    assert set(keys) == authored | set(node_law.EXTRA_KEYS) | node_law.STAMPED_KEYS


@pytest.mark.parametrize("name", NODE_TYPES)
def test_what_is_told_of_a_type_is_what_is_decided_of_it(name: str) -> None:
    kind, told = NODE_TYPES[name], type_named(name)
    words = {
        "open",
        "active",
        "done",
        "nonsense",
        *(status for each in schema().types for status in each.statuses or ()),
    }

    allowed = {word for word in words if check_status(kind, word) is None}
    assert allowed == (words if told.statuses is None else set(told.statuses))
    assert {word for word in allowed if is_dead(kind, word)} == set(told.dead) & words
    assert told.prefixes == list(kind.prefixes)
    assert (told.claimable, told.queueable, told.in_progress) == (kind.claimable, kind.queueable, kind.in_progress)
    if told.gate is not None:
        assert kind.gate is not None
        assert set(told.gate.statuses) == kind.gate.statuses
        assert told.completion in told.gate.statuses


@pytest.mark.parametrize("name", NODE_TYPES)
def test_a_node_with_the_required_keys_is_taken_and_without_any_of_them_refused(name: str) -> None:
    told = type_named(name)
    whole = dict.fromkeys(told.required, "global") | {"id": f"{told.prefixes[0]}x", "type": name, "title": "What?"}

    assert read_json(whole).authored.type == name
    for key in told.required:
        with pytest.raises(InvalidNode, match=f"^{key}: required"):
            read_json({other: value for other, value in whole.items() if other != key})


def test_each_limit_is_the_one_that_is_held_to() -> None:
    limits = {limit.name: limit.value for limit in schema().limits}
    node = {"id": "task-a", "type": "task", "title": "A", "summary": "A"}
    at_limit: dict[str, object] = {
        "title": "x" * limits["title"],
        "summary": "x" * limits["summary"],
        "body": "ü" * (limits["body"] // 2),
        "requires": ["x"] * limits["list"],
        "tags": ["x" * limits["value"]],
        "commits": [f"web@{i:0{limits['commit']}x}" for i in range(limits["commits"])],
        "edges": [{"type": "blocks", "to": f"task-{i}"} for i in range(limits["edges"])],
        "id": f"task-{'x' * (limits['id'] - 5)}",
    }
    over: dict[str, object] = {
        "title": "x" * (limits["title"] + 1),
        "summary": "x" * (limits["summary"] + 1),
        "body": "ü" * (limits["body"] // 2) + "x",
        "requires": ["x"] * (limits["list"] + 1),
        "tags": ["x" * (limits["value"] + 1)],
        "commits": [f"web@{'a' * (limits['commit'] - 1)}"],
        "edges": [{"type": "blocks", "to": f"task-{i}"} for i in range(limits["edges"] + 1)],
        "id": f"task-{'x' * (limits['id'] - 4)}",
    }

    for key, value in at_limit.items():
        assert read_json({**node, key: value}).authored.type == "task", key
    for key, value in over.items():
        with pytest.raises(InvalidNode, match=f"^{key}: "):
            read_json({**node, key: value})
    assert edge_law.check_attrs({f"a{i}": "x" for i in range(limits["edge attributes"])}) == []
    assert edge_law.check_attrs({f"a{i}": "x" for i in range(limits["edge attributes"] + 1)}) != []


def test_the_vocabularies_are_those_that_are_read() -> None:
    words = schema().vocabularies

    assert [node_law.parse_priority(word) for word in words["priority"]] == words["priority"]
    assert {node_law.parse_priority(word) for word in words["priority.clear"]} == {None}
    assert [node_law.parse_readiness(word) for word in words["readiness"]] == words["readiness"]
    assert {node_law.parse_readiness(word) for word in words["readiness.clear"]} == {None}
    assert all(words.values())
    assert set(EVERY_NODE) <= {key.name for key in schema().keys}


def test_a_type_that_is_none_is_answered_with_the_nearest() -> None:
    assert type_named("task").name == "task"
    with pytest.raises(NotFound, match="did you mean task"):
        type_named("taks")
