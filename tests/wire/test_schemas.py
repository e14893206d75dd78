"""What the document says of a field is what `core` takes, and refuses, of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.core.errors import BadRequest, Invalid
from batonpass.core.identity import parse_email, parse_name, parse_pubkey
from batonpass.core.ids import parse_label, parse_node_id
from batonpass.core.tokens import parse_hash_prefix
from batonpass.wire.nodes import fences
from batonpass.wire.schemas import EMAIL, ID, LABEL, NAME, PREFIX, PREMISE, PUBLIC_KEY, Schema, optional

EXACT: Final[dict[str, tuple[Schema, Callable[[str], object]]]] = {
    "id": (ID, parse_node_id),
    "label": (LABEL, lambda text: parse_label(text, field="session")),
    "prefix": (PREFIX, parse_hash_prefix),
}
"""Schemas that take just what core takes."""
WIDER: Final[dict[str, tuple[Schema, Callable[[str], object]]]] = {
    "name": (NAME, lambda text: parse_name(text, field="name")),
    "email": (EMAIL, parse_email),
    "public key": (PUBLIC_KEY, parse_pubkey),
}
"""Schemas that take what core takes, and more: core has rules that no pattern says."""
TEXTS: Final = (
    st.text(max_size=12)
    | st.text(st.sampled_from("ab9-_ ~\n\x7f"), max_size=12)
    | st.text(st.sampled_from("0123456789abcdef"), min_size=7, max_size=66)
    | st.sampled_from(
        ["a" * 200, "a" * 201, "-a", "a-", "A", " a", "a ", "é", "a@b", "a@b.example", "@", "ssh-ed25519 A"]
    )
)


def takes(schema: Schema, value: Any) -> bool:  # noqa: ANN401 — a value as JSON
    return jsonschema_rs.is_valid(schema, value)


def taken(parse: Callable[[str], object], text: str) -> bool:
    try:
        parse(text)
    except Invalid:
        return False
    return True


@pytest.mark.parametrize("name", EXACT)
def test_a_text_is_taken_just_when_its_schema_takes_it(name: str) -> None:
    schema, parse = EXACT[name]

    @settings(max_examples=300)
    @given(text=TEXTS)
    def agrees(text: str) -> None:
        assert takes(schema, text) == taken(parse, text)

    agrees()


@pytest.mark.parametrize("name", WIDER)
def test_a_text_that_its_schema_does_not_take_is_refused(name: str) -> None:
    schema, parse = WIDER[name]

    @settings(max_examples=300)
    @given(text=TEXTS)
    def agrees(text: str) -> None:
        assert takes(schema, text) or not taken(parse, text)

    agrees()


def test_an_optional_value_may_be_null() -> None:
    assert takes(optional(ID), None)
    assert takes(optional(ID), "task-1")
    assert not takes(optional(ID), "Task 1")
    assert not takes(ID, None)


@pytest.mark.parametrize(
    "premise",
    [
        {"kind": "fence", "field": "record:pipelines/7f3a#driver", "epoch": 2},
        {"kind": "fence", "field": "record:pipelines/7f3a#driver"},
        {"kind": "version", "field": "record:pipelines/7f3a#driver", "epoch": 2},
        {"kind": "fence", "field": "record:pipelines/7f3a#driver", "epoch": "2"},
        {"kind": "fence", "field": "record:pipelines/7f3a#driver", "epoch": 2, "colour": "red"},
        {"kind": "fence", "field": 7, "epoch": 2},
        {},
        [],
        None,
        "fence",
    ],
)
def test_a_premise_is_taken_just_when_its_schema_takes_it(premise: object) -> None:
    try:
        fences(None, if_epoch=None, based_on=[premise])
    except BadRequest:
        assert not takes(PREMISE, premise)
    else:
        assert takes(PREMISE, premise)
