from __future__ import annotations

from typing import Any

import pytest

from batonpass.core.class_changes import Difference, differences, moves_fields, require_kept
from batonpass.core.class_documents import document_of, parse_class, parse_lease_s
from batonpass.core.class_rules import CAP_DEFAULT
from batonpass.core.classes import FieldUse, RecordClass
from batonpass.core.errors import Conflict, Invalid
from batonpass.core.records import FieldKind, FieldName, Identity

MILL = Identity("agent:agent-mill")
WORKER = Identity("apikey:remediator/worker-1")
ADA = Identity("person:person-ada")
STATUS, LOG, WORK = FieldName("status"), FieldName("log"), FieldName("work")
REGISTER, APPEND, TASK = ({"type": kind.value} for kind in FieldKind)
NOBODY: dict[str, Any] = {}


def class_of(roles: dict[str, Any] = NOBODY, **fields: Any) -> RecordClass:  # noqa: ANN401  # a document's parts
    given = fields or {"status": REGISTER, "log": APPEND, "work": TASK}
    return parse_class({"name": "incidents", "fields": given, "roles": roles}, check_schema=lambda _: ())


def test_roles_decide_field_by_field() -> None:
    found = class_of(
        {
            "remediator": {
                "identities": ["apikey:remediator/*"],
                "read": ["status", "work"],
                "write": ["status"],
                "claim": ["work"],
            },
            "watcher": {"identities": ["agent:*"], "read": "*"},
        }
    )

    assert found.readable(WORKER) == {STATUS, WORK}
    assert [found.may_read(WORKER, field) for field in (STATUS, LOG, WORK)] == [True, False, True]
    assert [found.may_write(WORKER, field) for field in (STATUS, LOG, WORK)] == [True, False, False]
    assert [found.may_claim(WORKER, field) for field in (STATUS, LOG, WORK)] == [False, False, True]
    assert found.readable(MILL) == {STATUS, LOG, WORK}
    assert not found.may_claim(MILL, WORK)


def test_whom_no_role_is_for_may_do_nothing() -> None:
    found = class_of({"watcher": {"identities": ["agent:*"], "read": "*", "write": "*", "claim": "*"}})

    assert (found.has_role(ADA), found.readable(ADA)) == (False, frozenset())
    assert not any(ask(ADA, WORK) for ask in (found.may_read, found.may_write, found.may_claim))


def test_all_is_all_that_the_permission_can_be_for() -> None:
    found = class_of({"all": {"identities": ["agent:*"], "read": "*", "write": "*", "claim": "*"}})

    assert [found.may_write(MILL, field) for field in (STATUS, LOG, WORK)] == [True, True, False]
    assert [found.may_claim(MILL, field) for field in (STATUS, LOG, WORK)] == [False, False, True]
    assert not found.may_read(MILL, FieldName("gone"))


def test_permissions_of_several_roles_add_up() -> None:
    found = class_of(
        {
            "reader": {"identities": ["agent:*"], "read": ["status"]},
            "writer": {"identities": ["agent:agent-m*"], "read": ["log"], "write": ["log"]},
        }
    )

    assert found.readable(MILL) == {STATUS, LOG}
    assert found.readable(Identity("agent:agent-other")) == {STATUS}


def test_an_append_that_says_no_cap_has_the_default() -> None:
    assert class_of().fields[LOG].cap == CAP_DEFAULT
    assert class_of().fields[WORK].lease_s is None


@pytest.mark.parametrize(
    "text, seconds", [("300s", 300), ("5m", 300), ("2h", 7_200), ("1d", 86_400), (1, 1), (86_400, 86_400), ("001s", 1)]
)
def test_a_lease_is_whole_seconds(text: object, seconds: int) -> None:
    assert parse_lease_s(text) == seconds


# --- what a new version changes --------------------------------------------------------------------------------------


def refused(before: RecordClass, after: RecordClass, **uses: FieldUse) -> tuple[str, ...]:
    """Return the findings against the change."""
    with pytest.raises(Conflict) as error:
        require_kept(before, after, {FieldName(name): use for name, use in uses.items()})
    assert error.value.message.startswith(error.value.details[0])
    return error.value.details


def test_a_field_with_data_stays() -> None:
    before, after = class_of(), class_of(work=TASK)

    findings = refused(before, after, status=FieldUse(holding=3, stored_ever=3), log=FieldUse(holding=1, stored_ever=9))

    assert findings == (
        (
            "class incidents: field status: field-holds-data: 3 records have data in it; delete those first, or keep"
            " the field"
        ),
        "class incidents: field log: field-holds-data: 1 record has data in it; delete those first, or keep the field",
    )


def test_a_field_that_holds_nothing_any_more_goes() -> None:
    require_kept(class_of(), class_of(work=TASK), {STATUS: FieldUse(stored_ever=7)})


def test_a_task_stays_while_somebody_has_it_and_goes_when_it_is_released() -> None:
    before, after = class_of(), class_of(status=REGISTER, log=APPEND)

    findings = refused(before, after, work=FieldUse(held=2, claimed_ever=5))

    assert findings == (
        (
            "class incidents: field work: field-holds-data: 2 records have it claimed; release those first, or keep the"
            " field"
        ),
    )
    require_kept(before, after, {WORK: FieldUse(claimed_ever=5)})


def test_a_register_with_data_becomes_no_append() -> None:
    before, after = class_of(), class_of(status=APPEND, log=APPEND, work=TASK)

    findings = refused(before, after, status=FieldUse(holding=1, stored_ever=1))

    assert findings == (
        (
            "class incidents: field status: kind-holds-data: a register cannot become an append: 1 record has data in"
            " it; use another name"
        ),
    )
    require_kept(before, after, {STATUS: FieldUse(stored_ever=1)})


@pytest.mark.parametrize("between", [True, False])
def test_what_was_ever_claimed_becomes_nothing_else_also_by_way_of_a_version_without_it(*, between: bool) -> None:
    before = class_of(status=REGISTER) if between else class_of(status=REGISTER, work=TASK)

    findings = refused(before, class_of(status=REGISTER, work=APPEND), work=FieldUse(claimed_ever=4))

    assert findings == (
        (
            "class incidents: field work: other-kind-before: it was a task of 4 record(s), and versions of a field"
            " never repeat; use another name"
        ),
    )


def test_what_ever_held_data_becomes_no_task() -> None:
    findings = refused(class_of(), class_of(status=TASK, log=APPEND, work=TASK), status=FieldUse(stored_ever=2))

    assert findings == (
        (
            "class incidents: field status: other-kind-before: it was a register or append of 2 record(s), and versions"
            " of a field never repeat; use another name"
        ),
    )


def test_only_fields_that_come_go_or_change_their_kind_have_to_be_looked_for_in_records() -> None:
    same = class_of(status={"type": "register", "schema": True}, log={"type": "append", "cap": 1}, work=TASK)

    assert not moves_fields(class_of(), same)
    assert moves_fields(class_of(), class_of(status=REGISTER))
    assert moves_fields(class_of(status=REGISTER), class_of())
    assert moves_fields(class_of(), class_of(status=APPEND, log=APPEND, work=TASK))


def test_differences_are_told_field_by_field_and_role_by_role() -> None:
    before = class_of({"r": {"identities": ["agent:*"], "read": "*"}}, work={"type": "task", "lease": "5m"}, log=APPEND)
    after = class_of({"r": {"identities": ["agent:*"], "read": ["work"]}}, work=TASK, status=REGISTER)

    assert differences(before, after) == (
        Difference("field work: lease", '"300s"', None),
        Difference("field log: type", '"append"', None),
        Difference("field log: cap", "1000", None),
        Difference("role r: read", '"*"', '["work"]'),
        Difference("field status: type", None, '"register"'),
    )
    assert differences(after, after) == ()
    assert differences(None, class_of(work=TASK)) == (Difference("field work: type", None, '"task"'),)


def test_the_canonical_document_is_a_fixed_point() -> None:
    document = {
        "name": "incidents",
        "fields": {
            "status": {"type": "register", "schema": {"enum": ["b", "a"]}},
            "work": {"type": "task", "lease": "90s"},
        },
        "roles": {"r": {"identities": ["agent:*"], "read": "*", "claim": ["work"]}},
    }

    assert document_of(parse_class(document, check_schema=lambda _: ())) == document


def test_a_document_that_is_nested_without_end_is_refused() -> None:
    deep: object = 1
    for _ in range(100_000):
        deep = [deep]

    with pytest.raises(Invalid, match="nested too deeply"):
        class_of(status={"type": "register", "schema": {"const": deep}})


def test_a_field_that_is_wrong_itself_is_not_unknown_to_the_roles_as_well() -> None:
    with pytest.raises(Invalid) as refusal:
        class_of({"all": {"identities": ["agent:*"], "read": ["status"]}}, status={"type": "shelf"})

    assert len(refusal.value.details) == 1
    assert "shelf" in refusal.value.details[0]
