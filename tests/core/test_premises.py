"""What a write to a record is based on, and which of it holds (D33)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.errors import BrokenPremise
from batonpass.core.identity import Kind as Sort
from batonpass.core.identity import Principal
from batonpass.core.ids import HolderId, Instant, Resource, TokenHash
from batonpass.core.leases import Kind, LockedLease
from batonpass.core.premises import BasedOn, Premise, broken_among, parse_premises, stale_premise
from batonpass.core.records import ClassName, FieldName, RecordId, RecordPath

RECORD: Final = RecordPath(ClassName("incidents"), RecordId("inc-1"))
TASK: Final = FieldName("remediation")
STATUS: Final = FieldName("status")
HOLDER: Final = Principal(HolderId("apikey:one"), Sort.KEY, "one", TokenHash("one"))
STRANGER: Final = Principal(HolderId("apikey:two"), Sort.KEY, "two", TokenHash("two"))
LIVE: Final = LockedLease(
    resource=RECORD.task(TASK),
    kind=Kind.CLAIM,
    holder=HOLDER.id,
    holder_name="one",
    owner=None,
    session=None,
    dispatch=None,
    epoch=2,
    version=5,
    claimed_at=Instant(1),
    granted_at=Instant(1),
    expires_at=Instant(2),
    lapses=0,
    run_token=None,
    acquired_under=None,
    taken_from=None,
    provisional=False,
)
"""A tenure that has lapsed long ago, and that nobody has followed: it still stands."""
RELEASED: Final = replace(LIVE, kind=Kind.NONE, holder=None, version=6, granted_at=None, expires_at=None)

by_version: Final = Premise(TASK, version=5, fence=True)
by_epoch: Final = Premise(TASK, epoch=2, fence=True)
read: Final = Premise(TASK, version=5)


def broken(
    *premises: Premise, lease: LockedLease | None, who: Principal = HOLDER, status: int | None = 3
) -> tuple[BrokenPremise, ...]:
    leases: dict[Resource, LockedLease] = {lease.resource: lease} if lease is not None else {}
    versions = {STATUS: status} if status is not None else {}
    return broken_among(BasedOn(RECORD, premises), leases=leases, versions=versions, principal=who)


def test_a_holders_fence_holds_by_version_and_by_epoch_though_its_lease_has_lapsed() -> None:
    assert broken(by_version, by_epoch, read, lease=LIVE) == ()


def test_a_renewal_breaks_a_fence_by_version_and_leaves_one_by_epoch() -> None:
    renewed = replace(LIVE, version=6)

    assert broken(by_version, by_epoch, lease=renewed) == (
        BrokenPremise("remediation", 5, 6, kind="fence", owner="apikey:one"),
    )


def test_a_fence_of_somebody_elses_tenure_is_broken_and_says_whose_it_is() -> None:
    assert broken(by_version, by_epoch, read, lease=LIVE, who=STRANGER) == (
        BrokenPremise("remediation", 5, 5, kind="fence", owner="apikey:one"),
        BrokenPremise("remediation", 2, 2, kind="fence", owner="apikey:one"),
    )


def test_a_tenure_that_has_ended_breaks_every_fence_of_it() -> None:
    assert broken(Premise(TASK, version=6, fence=True), by_epoch, lease=RELEASED) == (
        BrokenPremise("remediation", 6, 6, kind="fence"),
        BrokenPremise("remediation", 2, 2, kind="fence"),
    )


def test_what_was_never_written_is_at_version_nought() -> None:
    never = Premise(STATUS, version=0)

    assert broken(never, Premise(TASK, version=0), lease=None, status=None) == ()
    assert broken(never, by_version, by_epoch, lease=None) == (
        BrokenPremise("status", 0, 3),
        BrokenPremise("remediation", 5, 0, kind="fence"),
        BrokenPremise("remediation", 2, 0, kind="fence"),
    )


def test_no_fence_holds_on_what_is_no_task() -> None:
    assert broken(Premise(STATUS, version=3, fence=True), lease=LIVE) == (BrokenPremise("status", 3, 0, kind="fence"),)


def test_only_fences_are_compared_before_a_repeated_request_is_recognized() -> None:
    based_on = BasedOn(RECORD, (by_version, Premise(STATUS, version=9), read))

    assert based_on.fences.premises == (by_version,)
    assert based_on.read_fields({LIVE.resource}) == {STATUS}


def test_a_refusal_says_what_is_where_and_whose() -> None:
    each = [
        BrokenPremise("status", 3, 4),
        BrokenPremise("remediation", 2, 2, kind="fence", owner="apikey:one", number="epoch"),
        BrokenPremise("review", 1, 1, kind="fence"),
        BrokenPremise("approval", 1, 0, kind="fence"),
    ]

    assert stale_premise(each).message == (
        "status is at version 4, not 3; remediation at epoch 2 is apikey:one's;"
        " the tenure of review at version 1 has ended; nobody has ever claimed approval; nothing was changed"
    )


numbers: Final = st.integers(0, 2**63 - 1)
premises: Final = st.one_of(
    st.builds(Premise, st.sampled_from([TASK, STATUS]), version=numbers, fence=st.booleans()),
    st.builds(Premise, st.sampled_from([TASK, STATUS]), epoch=numbers, fence=st.just(value=True)),
)


@given(st.lists(premises, max_size=20))
def test_premises_are_read_back_as_they_were_sent(sent: list[Premise]) -> None:
    assert parse_premises([premise.as_sent() for premise in sent]) == tuple(sent)


@pytest.mark.parametrize("nothing", [None, []])
def test_no_premises_are_none(nothing: object) -> None:
    assert parse_premises(nothing) == ()
