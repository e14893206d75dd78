from __future__ import annotations

from dataclasses import replace
from typing import Final

import msgspec
import pytest

from batonpass.core import errors
from batonpass.core.clock import MICROS_PER_MS
from batonpass.core.errors import BatonError, BrokenPremise, Conflict, FenceBroken, Internal
from batonpass.core.ids import HolderId, Instant, Resource
from batonpass.core.leases import LeaseView
from batonpass.wire.errors import (
    HTTP_STATUS,
    RECORD_ERRORS,
    error_body,
    error_of,
    http_status,
    is_of_records,
    record_error_body,
    record_http_status,
)

HELD: Final = LeaseView(
    node_id=Resource("record:incidents/inc-1#driver"),
    by=HolderId("agent-mill"),
    by_name="mill",
    owner=None,
    expires_at=Instant(1_790_000_000_123 * MICROS_PER_MS),
    session=None,
    dispatch=None,
    claimed_at=None,
    epoch=3,
    reserved=False,
)
BROKEN: Final = (
    BrokenPremise("driver", expected=3, actual=5, kind="fence", owner="agent:agent-mill"),
    BrokenPremise("status", expected=1, actual=0),
)


class Unlisted(BatonError):
    """An error that nobody has given a status."""

    code = "unlisted"


def test_an_error_has_the_status_of_its_nearest_class_in_the_table() -> None:
    assert http_status(FenceBroken("gone")) == HTTP_STATUS[Conflict]
    assert http_status(Unlisted("?")) == HTTP_STATUS[Internal]


def test_an_error_comes_back_as_the_class_that_was_raised() -> None:
    for kind, status in HTTP_STATUS.items():
        error = error_of(status, msgspec.json.encode(error_body(kind("words"))))
        assert (type(error), error.message) == (kind, "words")


def test_a_stale_premise_has_its_premises_in_either_shape() -> None:
    error = errors.StalePremise("moved on", premises=BROKEN)

    for body in (error_body(error), record_error_body(error)):
        told = error_of(409, msgspec.json.encode(body))

        assert isinstance(told, errors.StalePremise)
        assert told.premises == BROKEN


@pytest.mark.parametrize(
    "error, code, status",
    [
        (errors.BadRequest("x"), "BAD_REQUEST", 400),
        (errors.InvalidNode("x"), "BAD_REQUEST", 400),
        (errors.Forbidden("x"), "SCOPE_DENIED", 403),
        (FenceBroken("x"), "STALE_PREMISE", 409),
        (errors.Paused("x"), "CONFLICT", 409),
        (Unlisted("x"), "INTERNAL", 500),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BatonError) else str(value),
)
def test_below_records_an_error_has_the_code_of_its_nearest_class(error: BatonError, code: str, status: int) -> None:
    assert (record_error_body(error).error, record_http_status(error)) == (code, status)


def test_below_records_an_error_comes_back_as_the_first_class_of_its_code() -> None:
    first = {code: kind for kind, (code, _) in reversed(RECORD_ERRORS.items())}

    for kind, (code, status) in RECORD_ERRORS.items():
        error = kind("words")
        error.field, error.details = "status", ("one", "two")
        told = error_of(status, msgspec.json.encode(record_error_body(error)))

        assert (type(told), told.message, told.field) == (first[code], "words", "status")
        assert (told.details, told.is_ours) == (("one", "two"), True)


def test_held_is_told_in_the_words_of_the_specification_and_comes_back_with_its_holder() -> None:
    error = errors.AlreadyClaimed("held", holder=HELD, field="driver")
    error.version = 7

    body = msgspec.json.encode(record_error_body(error))
    told = error_of(409, body)

    assert msgspec.json.decode(body) == {
        "error": "HELD",
        "message": "held",
        "field": "driver",
        "owner": "agent:agent-mill",
        "lease_expires_at": "2026-09-21T14:13:20.123+00:00",
        "version": 7,
    }
    assert isinstance(told, errors.AlreadyClaimed)
    assert (told.version, told.holder) == (7, replace(HELD, node_id=Resource("driver"), by_name=None, epoch=0))


@pytest.mark.parametrize(
    "status, body, kind, is_ours",
    [
        (409, b'{"error": "INVENTED_LATER", "message": "x"}', Conflict, True),
        (503, b'{"error": "Service Unavailable", "message": "x"}', errors.Unavailable, False),
        (404, b'{"error": "NOT_FOUND"}', errors.NotFound, False),
        (409, b"<html>", Conflict, False),
    ],
)
def test_what_is_none_of_our_bodies_is_known_by_its_status(
    status: int,
    body: bytes,
    kind: type[BatonError],
    is_ours: bool,  # noqa: FBT001 — a column of the table
) -> None:
    error = error_of(status, body)

    assert (type(error), error.is_ours) == (kind, is_ours)


def test_only_routes_of_records_have_the_flat_shape() -> None:
    assert [is_of_records(path) for path in ("/v1/records/incidents", "/v1/records/{record_class}/{id}")] == [True] * 2
    assert [is_of_records(path) for path in ("/v1/recordings", "/v1/classes/records", "/v1/nodes")] == [False] * 3
