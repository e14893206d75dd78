"""What a line of a child's output asks for, and what is wrong with one that asks for nothing sensible."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batonpass.client.checkpoint import CheckpointField
from batonpass.core.errors import Invalid
from batonpass.core.records import FieldKind, FieldName
from batonpass.worker.instructions import is_instruction, parse

PLAN = CheckpointField(FieldName("plan"), FieldKind.REGISTER)


def asked(line: bytes) -> list[tuple[str, str, bytes]]:
    found = []
    for write in parse(line, checkpoint=PLAN):
        (verb,) = write.keys() & {"put", "append"}
        value = write[verb]
        assert isinstance(value, msgspec.Raw)
        found.append((verb, str(write["field"]), bytes(value)))
    return found


@pytest.mark.parametrize(
    "line, wanted",
    [
        (b'{"put": {"field": "status", "value": "done"}}', [("put", "status", b'"done"')]),
        (b'\t {"put":{"value":null,"field":"status"}}\r', [("put", "status", b"null")]),
        (b'{"append": {"field": "actions", "value": {"a": [1, 2]}}}', [("append", "actions", b'{"a": [1, 2]}')]),
        (b'{"checkpoint": {"step": 3}}', [("put", "plan", b'{"step": 3}')]),
        (b'{"checkpoint": null}', [("put", "plan", b"null")]),
        (
            b'{"writes": [{"append": {"field": "actions", "value": 1}}, {"checkpoint": 2}]}',
            [("append", "actions", b"1"), ("put", "plan", b"2")],
        ),
        (
            b'{"put": {"field": "sum", "value": 123456789012345678901.10}}',
            [("put", "sum", b"123456789012345678901.10")],
        ),
        ('{"put": {"field": "who", "value": "Ünï\u2028"}}'.encode(), [("put", "who", '"Ünï\u2028"'.encode())]),
    ],
)
def test_an_instruction_is_read_with_its_values_as_they_were_printed(
    line: bytes, wanted: list[tuple[str, str, bytes]]
) -> None:
    assert is_instruction(line)
    assert asked(line) == wanted


@pytest.mark.parametrize(
    "line, words",
    [
        (b"{}", "exactly one of put, append, checkpoint and writes"),
        (b"{progress: 5%}", "malformed"),
        (b'{"put": {"field": "a", "value": 1}', "truncated"),
        (b'{"put": {"field": "a", "value": 1}} trailing', "trailing"),
        (b'{"put": {"field": "a"}}', "missing required field `value`"),
        (b'{"put": {"field": "a", "value": 1, "if": 2}}', "unknown field `if`"),
        (b'{"put": {"field": "a", "value": 1}, "checkpoint": 2}', "exactly one"),
        (b'{"checkpoint": 1, "writes": []}', "exactly one"),
        (b'{"note": "hello"}', "unknown field `note`"),
        (b'{"put": {"field": "A B", "value": 1}}', '"A B" is not a name'),
        (b'{"put": {"field": 7, "value": 1}}', "Expected `str`"),
        (b'{"put": {"field": "a", "value": NaN}}', "malformed"),
        (b'{"put": {"field": "a", "value": "\xff"}}', "not UTF-8: byte 34"),
        (b'{"writes": []}', "the list is empty"),
        (b'{"writes": [{"writes": [{"checkpoint": 1}]}]}', "not in each other"),
        (b'{"writes": [{"checkpoint": 1}, {}]}', "exactly one"),
        (b'{"checkpoint": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "recursion"),
    ],
)
def test_a_bad_instruction_is_told_what_is_wrong_with_it(line: bytes, words: str) -> None:
    assert is_instruction(line)
    with pytest.raises(Invalid) as refused:
        asked(line)

    assert words in refused.value.message


def test_a_checkpoint_without_a_field_for_it_names_the_way_out() -> None:
    with pytest.raises(Invalid, match="--checkpoint FIELD"):
        parse(b'{"checkpoint": 1}', checkpoint=None)


@pytest.mark.parametrize("line", [b"", b"done", b"[1]", b'"{"', b"42", b"\xff{", b"# {}"])
def test_what_does_not_begin_with_a_brace_is_no_instruction(line: bytes) -> None:
    assert not is_instruction(line)


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_no_line_breaks_the_reader(tail: bytes) -> None:
    """Every line that begins like an instruction is either read or refused by name."""
    with suppress(Invalid):
        parse(b"{" + tail, checkpoint=PLAN)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60)
@given(JSON)
def test_any_value_arrives_as_it_was(value: object) -> None:
    ((_, _, raw),) = asked(msgspec.json.encode({"put": {"field": "status", "value": value}}))

    assert raw == msgspec.json.encode(value)
