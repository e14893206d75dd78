"""Classes there and back: as documents, as YAML, as they are kept; and what values are held to."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.core.class_documents import document_of
from batonpass.core.classes import RecordClass
from batonpass.core.patterns import MATCHED_CHARS_MAX
from batonpass.wire.class_files import read_document, reads_as_text, write_document
from batonpass.wire.classes import checked_class, kept_class, kept_text
from batonpass.wire.json_schemas import broken

NAMES = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,5}", fullmatch=True)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(["on", "1e3", "5:00", "*", ""])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.fixed_dictionaries({"enum": st.lists(JSON, min_size=1, max_size=3), "title": TEXTS})
FIELDS = (
    st.fixed_dictionaries({"type": st.just("register")}, optional={"schema": SCHEMAS})
    | st.fixed_dictionaries({"type": st.just("append")}, optional={"cap": st.integers(1, 100_000)})
    | st.fixed_dictionaries(
        {"type": st.just("task")}, optional={"lease": st.integers(1, 86_400) | st.sampled_from(["5m", "1h"])}
    )
)
GLOBS = st.sampled_from(["agent:*", "person:person-ada", "apikey:fleet/*", "sa:ns/w-*"])


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """Return a right class document."""
    fields = draw(st.dictionaries(NAMES, FIELDS, min_size=1, max_size=4))
    tasks = [name for name, spec in fields.items() if spec["type"] == "task"]
    others = [name for name in fields if name not in tasks]

    def some_of(names: list[str]) -> Any:  # noqa: ANN401  # "*" or a list
        return draw(st.just("*") | st.lists(st.sampled_from(names), max_size=4)) if names else []

    roles = {
        name: {
            "identities": draw(st.lists(GLOBS, min_size=1, max_size=3)),
            "read": "*",
            "write": some_of(others),
            "claim": some_of(tasks),
        }
        for name in draw(st.lists(NAMES, max_size=2, unique=True))
    }
    return {"name": draw(st.from_regex(r"[a-z0-9][a-z0-9-]{0,5}", fullmatch=True)), "fields": fields, "roles": roles}


@settings(max_examples=60, deadline=None)
@given(documents())
def test_a_class_is_the_same_after_every_way_it_travels(document: dict[str, Any]) -> None:
    found = checked_class(document)
    canonical = document_of(found)

    assert checked_class(canonical) == found
    assert document_of(checked_class(canonical)) == canonical
    assert kept_class(found.name, kept_text(found)) == found
    assert checked_class(json.loads(kept_text(found))) == found
    assert checked_class(read_document(write_document(canonical).encode(), file="c.yaml")) == found


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_a_text_in_yaml_is_quoted_or_reads_as_text_to_every_reader(text: str) -> None:
    written = write_document({"key": text})

    assert read_document(written.encode(), file="c") == {"key": text}
    assert '"' in written or "'" in written or reads_as_text(text)


def test_a_kept_class_is_not_held_to_rules_that_came_later() -> None:
    kept = (
        '{"name":"pipelines","fields":{"Old Name":{"type":"task","lease":"300s"}},'
        '"roles":{"r":{"identities":["*"],"read":"*"}}}'
    )

    found = kept_class(checked_class({"name": "c", "fields": {"t": {"type": "task"}}}).name, kept)

    assert isinstance(found, RecordClass)
    assert [spec.lease_s for spec in found.fields.values()] == [300]


# --- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema, value, said",
    [
        ({"enum": ["open"]}, "open", ()),
        ({"enum": ["open"]}, "shut", ("'shut' is not one of ['open']",)),
        ({"properties": {"n": {"type": "integer"}}}, {"n": "1"}, ("n: '1' is not of type 'integer'",)),
        ({"items": {"maximum": 3}}, [1, 9], ("1: 9 is greater than the maximum of 3",)),
        ({"pattern": "^a+$"}, "aaa", ()),
        ({"pattern": "^a+$"}, "b", ('"b" does not match "^a+$"',)),
        ({"pattern": "^a+$"}, 7, ()),
        ({"uniqueItems": True}, [1, "1", [1], {"a": 1}, True], ()),
        ({"uniqueItems": True}, [1, 1.0], ("two items are equal",)),
        ({"uniqueItems": True}, [{"a": 1, "b": [2.0]}, {"b": [2], "a": 1}], ("two items are equal",)),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, 1, ("1 is not of type 'null'",)),
        (False, None, ("False schema does not allow None",)),
    ],
)
def test_a_value_is_held_to_its_schema(schema: object, value: object, said: tuple[str, ...]) -> None:
    spec = {"type": "register", "schema": schema}
    kept = checked_class({"name": "c", "fields": {"f": spec}}).fields
    (field,) = kept.values()
    assert field.schema is not None

    assert broken(field.schema, value) == said


def test_a_long_text_is_not_searched_by_a_pattern() -> None:
    text = "a" * (MATCHED_CHARS_MAX + 1)

    assert broken('{"pattern":"b"}', text) == ("1001 characters; a text with this pattern has at most 1000",)


@pytest.mark.parametrize(
    "unit, value, fits",
    [
        ("0.1", 10**400, True),
        ("0.1", 0.3, True),
        ("0.1", 0.35, False),
        (f"1{'0' * 400}", 1.5, False),
        (f"1{'0' * 400}", 1e300, False),
        ("3", 10**400 - 1, True),
        ("1e-300", 1e300, True),
        ("2", True, True),
        ("2", "1", True),
    ],
)
def test_multiples_are_told_by_their_decimals(unit: str, value: object, fits: bool) -> None:  # noqa: FBT001
    assert (broken(f'{{"multipleOf":{unit}}}', value) == ()) is fits


@pytest.mark.parametrize(
    "schema, value",
    [
        ({"items": {"anyOf": [*({"const": n} for n in range(1_000)), True]}}, [-1] * 100_000),
        ({"items": {"enum": [*map(str, range(5_000)), 1]}}, [1] * 100_000),
        ({"items": {"not": {"pattern": "a*a*a*b"}}}, ["a" * 80] * 3_000),
    ],
)
def test_no_value_is_judged_for_long(schema: object, value: object) -> None:
    began = time.perf_counter()

    assert broken(json.dumps(schema), value) == (
        "there is too much in it to be judged by its schema; make the value smaller, or the schema simpler",
    )
    assert time.perf_counter() - began < 10


def test_a_large_value_of_a_plain_schema_is_judged() -> None:
    schema = {"items": {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}}

    assert broken(json.dumps(schema), [{"n": n} for n in range(20_000)]) == ()


def test_what_is_wrong_with_a_large_value_is_told_shortly_and_soon() -> None:
    value = [f"item {n}" for n in range(20_000)] + [{"n": n} for n in range(20_000)]
    began = time.perf_counter()

    assert broken('{"uniqueItems":true}', value) == ()
    told = broken('{"items":{"type":"integer"}}', value)

    assert time.perf_counter() - began < 5
    assert (len(told), max(map(len, told)) < 250) == (10, True)


def test_a_value_nested_deeper_than_can_be_followed_is_refused() -> None:
    value: object = 1
    for _ in range(900):
        value = [value]

    assert broken('{"$defs":{"a":{"items":{"$ref":"#/$defs/a"}}},"$ref":"#/$defs/a"}', value) == ("nested too deeply",)


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    spec = {"type": "register", "schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "string"}}

    (field,) = checked_class({"name": "c", "fields": {"f": spec}}).fields.values()

    assert field.schema is not None
    assert broken(field.schema, "x") == ()


def test_the_library_is_imported_where_the_first_schema_is_met() -> None:
    """What starts without one stays quick (D37)."""
    code = (
        "import sys; from batonpass.wire.classes import checked_class;"
        "checked_class({'name': 'c', 'fields': {'f': {'type': 'register'}}});"
        "assert 'jsonschema' not in sys.modules; assert 'yaml' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
