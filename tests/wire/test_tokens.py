from __future__ import annotations

from typing import Any

import msgspec
import pytest

from batonpass.core.errors import Invalid
from batonpass.core.ids import Fence, Resource
from batonpass.wire import tokens
from batonpass.wire.tokens import NamedLease, PersonalTokenReply, SessionTokenReply, StandingTokenReply


def test_a_lease_is_named_by_its_node() -> None:
    assert tokens.fence_of(NamedLease(epoch=3, node="task-1")) == Fence(Resource("task-1"), 3)


def test_a_lease_is_named_by_its_record_and_field() -> None:
    named = NamedLease(epoch=1, record="pipelines/run.7", field="driver")

    assert tokens.fence_of(named) == Fence(Resource("record:pipelines/run.7#driver"), 1)


@pytest.mark.parametrize(
    "named, field",
    [
        ({}, "lease"),
        ({"node": "task-1", "record": "pipelines/a"}, "lease"),
        ({"node": "task-1", "field": "driver"}, "lease"),
        ({"record": "pipelines/a"}, "lease"),
        ({"record": "pipelines/a", "field": 7}, "lease"),
        ({"record": 7, "field": "driver"}, "lease"),
        ({"record": "pipelines", "field": "driver"}, "lease.record"),
        ({"record": "pipelines/a#b", "field": "driver"}, "lease.record"),
        ({"node": "Task 1"}, "lease.node"),
        ({"node": ["task-1"]}, "lease.node"),
        ({"node": "task-1", "epoch": 0}, "lease.epoch"),
        ({"node": "task-1", "epoch": -1}, "lease.epoch"),
    ],
)
def test_what_names_no_tenure_or_two_is_refused(named: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        tokens.fence_of(NamedLease(**{"epoch": 1, **named}))

    assert refusal.value.field == field


def test_a_reply_with_a_secret_does_not_show_it_in_its_repr() -> None:
    text = "bat_agt_visible"
    replies: list[msgspec.Struct] = [
        SessionTokenReply(token=text, hash_prefix="0123", expires_at="", agent="agent-a", session=None),
        StandingTokenReply(
            token=text, hash_prefix="0123", agent="agent-a", owner="person-a", label=None, expires="", standing=True
        ),
        PersonalTokenReply(
            token=text, hash_prefix="0123", person="person-a", name="A", email="a@b", label=None, expires="", scope=""
        ),
    ]

    assert [repr(reply) for reply in replies if "visible" in repr(reply)] == []
    assert all(text.encode() in msgspec.json.encode(reply) for reply in replies)
    assert "hash_prefix='0123'" in repr(replies[0])
