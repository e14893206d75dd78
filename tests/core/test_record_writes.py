"""Who may name what a write to a record is based on."""

from __future__ import annotations

import pytest

from batonpass.core.class_documents import parse_class
from batonpass.core.errors import Invalid, ScopeDenied
from batonpass.core.identity import Kind, Principal
from batonpass.core.ids import HolderId, TokenHash
from batonpass.core.premises import BasedOn, Premise
from batonpass.core.record_writes import require_may_name
from batonpass.core.records import FieldName, parse_record_path

INCIDENTS = parse_class(
    {
        "name": "incidents",
        "fields": {"status": {"type": "register"}, "secret": {"type": "register"}},
        "roles": {"watcher": {"identities": ["apikey:watch"], "read": ["status"]}},
    },
    check_schema=lambda _: (),
)
WATCHER = Principal(HolderId("apikey:watch"), Kind.KEY, "watch", TokenHash("a" * 64))


def name(*premises: Premise) -> None:
    require_may_name(INCIDENTS, WATCHER, BasedOn(parse_record_path("incidents/inc-1"), premises))


def test_a_field_may_be_named_that_may_be_read() -> None:
    name(Premise(FieldName("status"), version=1))


def test_to_name_a_field_is_to_read_it() -> None:
    with pytest.raises(ScopeDenied, match="secret"):
        name(Premise(FieldName("secret"), version=1))


def test_what_the_class_does_not_have_was_misspelt_unless_it_is_a_fence_which_never_holds() -> None:
    name(Premise(FieldName("gone"), epoch=1, fence=True))

    with pytest.raises(Invalid, match="gone"):
        name(Premise(FieldName("gone"), version=0))
