from __future__ import annotations

import pytest

from batonpass.core.errors import Invalid
from batonpass.core.ids import Fence, Resource, parse_fence, parse_label, parse_node_id, parse_resource


@pytest.mark.parametrize("text", ["task-1", "record:runs/7#driver"])
def test_a_resource_is_a_node_or_a_field_of_a_record(text: str) -> None:
    assert parse_resource(text) == text
    assert parse_fence(f"{text}; epoch=3") == Fence(Resource(text), 3)


@pytest.mark.parametrize("text", ["record:runs", "record:runs/7", "record:/7#f", "Task 1", ""])
def test_what_is_neither_is_refused_by_name(text: str) -> None:
    with pytest.raises(Invalid, match="resource: "):
        parse_resource(text)


@pytest.mark.parametrize("value", [7, None, True, ["task-1"], {"id": "task-1"}, 1.5])
def test_an_id_that_is_no_string_is_refused_by_its_type(value: object) -> None:
    with pytest.raises(Invalid, match="id: must be a string"):
        parse_node_id(value)
    with pytest.raises(Invalid, match="session: must be a string"):
        parse_label(value, field="session")


@pytest.mark.parametrize("text", ["", "task-1", "task-1; epoch=", "task-1; epoch=x", "; epoch=3", "task-1 epoch=3"])
def test_what_is_no_fence_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(Invalid, match="<resource>; epoch=<number>"):
        parse_fence(text)
