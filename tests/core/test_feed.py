"""The feed's law by itself: how far it may be read, where a reader stands, what it asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.classes import FieldSpec, RecordClass, Role, RoleName
from batonpass.core.errors import Invalid, Resync
from batonpass.core.feed import (
    EveryRecord,
    Gap,
    Position,
    QueueScope,
    StoredEvent,
    Topic,
    is_position,
    parse_position,
    readable,
    shown_to,
)
from batonpass.core.ids import Instant
from batonpass.core.records import ClassName, FieldKind, FieldName, Identity

INCARNATION = "0123456789abcdef0123456789abcdef"


def event(kind: str = "node.put", *, node: str | None = "task-1", project: str | None = "web") -> StoredEvent:
    return StoredEvent(1, Instant(0), kind, node, project, "person-a", "person-a", None, None, None, "{}")


@pytest.mark.parametrize(
    "mark, seqs, settled, expected",
    [
        (4, [], 0, 4),
        (4, [5, 6], 0, 6),
        (4, [5, 7], 0, 5),
        (4, [6, 7], 0, 4),
        (4, [6, 7], 5, 7),
        (4, [6, 9, 10], 7, 7),
        (4, [], 9, 9),
        (4, [9], 8, 9),
        (4, [5, 6], 3, 6),
    ],
)
def test_the_feed_may_be_read_until_a_number_is_missing_that_may_still_come(
    mark: int, seqs: list[int], settled: int, expected: int
) -> None:
    assert readable(mark, seqs, settled=settled) == expected


@given(st.sets(st.integers(1, 30)), st.sets(st.integers(1, 30)), st.integers(0, 30))
def test_nothing_that_may_still_come_is_read_over(there: set[int], coming: set[int], settled: int) -> None:
    """What is still coming is missing now, and lies behind what is settled."""
    coming = {seq for seq in coming - there if seq > settled}

    upto = readable(0, sorted(there), settled=settled)

    assert not [seq for seq in coming if seq <= upto]
    assert upto >= settled
    assert upto in there or upto == settled


@given(st.sets(st.integers(1, 30)), st.sets(st.integers(1, 30)))
def test_everything_is_read_in_the_end_whatever_was_rolled_back(there: set[int], more: set[int]) -> None:
    first = readable(0, sorted(there))
    whole = there | more

    assert readable(first, sorted(seq for seq in whole if seq > first), settled=30) == 30


def test_a_gap_is_settled_once_all_who_were_writing_then_are_gone() -> None:
    gap = Gap(7, frozenset({"3/12", "4/9"}))

    assert not gap.settled({"4/9", "5/1"})
    assert gap.settled({"5/1"})
    assert Gap(7, frozenset()).settled({"5/1"})


@given(st.integers(0, 10**18 - 1), st.none() | st.integers(0, 10**18 - 1))
def test_a_position_survives_being_kept_as_text(seq: int, at: int | None) -> None:
    position = Position(seq, None if at is None else Instant(at))
    text = position.text(INCARNATION)

    assert is_position(text)
    assert parse_position(text, INCARNATION, field="after") == position


def test_a_position_of_another_incarnation_means_nothing() -> None:
    with pytest.raises(Resync, match="after"):
        parse_position(Position(3).text("f" * 32), INCARNATION, field="after")


@pytest.mark.parametrize("text", ["", "3", "0123456789ab", "0123456789ab-", "0123456789ab-x", "0123456789AB-3"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="after"):
        parse_position(text, INCARNATION, field="after")


def test_a_topic_takes_what_it_names() -> None:
    assert Topic().takes(event())
    assert Topic(project="web", kinds=("node",), node="task-1").takes(event())
    assert Topic(kinds=("node.put", "lease")).takes(event("lease.claimed"))
    assert not Topic(kinds=("lease",)).takes(event())
    assert not Topic(project="mail").takes(event())
    assert not Topic(node="task-2").takes(event())
    assert not Topic(project="web").takes(event("policy.changed", node=None, project=None))
    assert not Topic().passes(None)


def test_what_may_free_an_item_of_a_project_is_in_its_scope() -> None:
    web = QueueScope(frozenset({"web", "shop"}))

    assert web.takes(event("lease.released"))
    assert web.takes(event("lease.released", project="shop"))
    assert web.takes(event("policy.changed", node=None, project=None))
    assert web.takes(event("node.status", project="mail")), "it may have blocked something here"
    assert not web.takes(event("lease.released", project="mail"))
    assert not web.takes(event("node.priority", project="mail"))
    assert QueueScope().takes(event("lease.released", project="mail"))


def test_time_passes_for_the_projects_in_which_something_ended() -> None:
    assert QueueScope(frozenset({"web", "shop"})).passes({"web", None})
    assert not QueueScope(frozenset({"web", "shop"})).passes({"mail"})
    assert QueueScope(frozenset({"web", "shop"})).passes(None), "a day has begun"
    assert QueueScope().passes({"mail"})
    assert not QueueScope().passes(())


# --- records ---------------------------------------------------------------------------------------------------------


def of_record(
    kind: str = "record.put", *, field: str | None = "status", record: str = "incidents/inc-1"
) -> StoredEvent:
    return replace(event(kind, node=None, project=None), record=record, field=field, version=1)


def incidents(*read: str) -> dict[ClassName, RecordClass]:
    fields = {FieldName(name): FieldSpec(FieldKind.REGISTER) for name in ("status", "facts")}
    role = Role(("apikey:r/*",), read=frozenset(map(FieldName, read)))
    name = ClassName("incidents")
    return {name: RecordClass(name, fields, {RoleName("readers"): role})}


def test_what_happens_to_a_record_changes_nothing_in_the_queue_and_time_nothing_for_its_readers() -> None:
    claimed = of_record("lease.claimed", field="remediation")

    assert not QueueScope().takes(claimed)
    assert not QueueScope(frozenset({"web"})).takes(claimed)
    assert EveryRecord().takes(claimed)
    assert not EveryRecord().takes(event("lease.claimed"))
    assert not EveryRecord().passes(None)


def test_a_topic_of_records_is_a_record_a_class_or_a_field() -> None:
    assert Topic(record="incidents/inc-1", field=FieldName("status")).takes(of_record())
    assert Topic(record_class=ClassName("incidents"), kinds=("record",)).takes(of_record())
    assert not Topic(record="incidents/inc-2").takes(of_record())
    assert not Topic(record_class=ClassName("incident")).takes(of_record())
    assert not Topic(field=FieldName("facts")).takes(of_record())
    assert not Topic(record_class=ClassName("incidents")).takes(event())
    assert not Topic(kinds=("node",)).takes(of_record())


@pytest.mark.parametrize(
    "viewer, read, shown",
    [
        ("apikey:r/1", ("status",), {"status", None}),
        ("apikey:r/1", ("*",), {"status", "facts", None}),
        ("apikey:r/1", (), set()),
        ("apikey:q/1", ("*",), set()),
    ],
)
def test_of_a_record_is_shown_what_may_be_read_and_of_the_whole_of_it_to_who_may_read_anything(
    viewer: str, read: tuple[str, ...], shown: set[str | None]
) -> None:
    classes = incidents(*read)

    assert {
        f for f in ("status", "facts", "gone", None) if shown_to(of_record(field=f), Identity(viewer), classes)
    } == shown
    assert not shown_to(of_record(record="pages/p-1"), Identity(viewer), classes), "a class that is not there"
    assert shown_to(event(), Identity(viewer), {}), "of a node, everything to everybody"
