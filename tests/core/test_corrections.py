from __future__ import annotations

from itertools import islice

import pytest

from batonpass.core.corrections import Target, parse_target
from batonpass.core.errors import Invalid
from batonpass.core.ids import NODE_ID_BYTES_MAX, NodeId, parse_node_id


@pytest.mark.parametrize(
    "text,target,first",
    [
        ("global", Target("global"), "corr-global-1"),
        ("project:mail", Target("project:mail", project="mail"), "corr-project-mail-1"),
        ("task-a", Target("task-a", node=NodeId("task-a")), "corr-task-a-1"),
    ],
)
def test_a_target_is_everything_a_project_or_a_node(text: str, target: Target, first: str) -> None:
    assert parse_target(text) == target
    assert next(target.ids) == first


@pytest.mark.parametrize("text", ["", "project:", "project:A", "Global", "a:b", "x" * 201, 7, None])
def test_anything_else_is_refused_by_name(text: object) -> None:
    with pytest.raises(Invalid, match="target: "):
        parse_target(text)


def test_the_longest_target_has_ids_too() -> None:
    longest = parse_target("task-" + "a" * (NODE_ID_BYTES_MAX - 5))

    assert [len(parse_node_id(node)) <= NODE_ID_BYTES_MAX for node in islice(longest.ids, 200)] == [True] * 200
