from __future__ import annotations

import msgspec

from batonpass.core.identity import Kind, Principal
from batonpass.core.ids import Fence, HolderId, PersonId, Resource, TokenHash
from batonpass.wire.identity import me_reply

ADA = PersonId(HolderId("person-ada"))


def test_an_agents_token_says_whose_agent_it_is_and_for_which_session_and_run() -> None:
    agent = Principal(
        id=HolderId("agent-build"),
        kind=Kind.AGENT,
        name="Build",
        token=TokenHash("a" * 64),
        person=ADA,
        person_name="Ada",
        email="ada@x",
        session="s1",
        run=Fence(Resource("task-1"), 3),
    )

    assert msgspec.to_builtins(me_reply(agent)) == {
        "identity": "agent:agent-build",
        "person": "person-ada",
        "name": "Ada",
        "email": "ada@x",
        "bound": True,
        "is_admin": False,
        "org": "org-root",
        "scope": "write",
        "agent": "agent-build",
        "session": "s1",
        "run": {"resource": "task-1", "epoch": 3},
    }


def test_a_key_is_bound_to_no_person() -> None:
    key = Principal(HolderId("apikey:ci"), Kind.KEY, "ci", TokenHash("a" * 64), read_only=True)

    assert msgspec.to_builtins(me_reply(key)) == {
        "identity": "apikey:ci",
        "person": None,
        "name": "ci",
        "email": "",
        "bound": False,
        "is_admin": False,
        "org": "org-root",
        "scope": "read",
    }
