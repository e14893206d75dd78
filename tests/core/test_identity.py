from __future__ import annotations

import pytest

from batonpass.core import identity
from batonpass.core.errors import Invalid
from batonpass.core.identity import Agent
from batonpass.core.ids import AgentId, HolderId, Instant, PersonId


@pytest.mark.parametrize(
    "name, expected",
    [
        ("Ada Lovelace", "person-ada-lovelace"),
        ("  Zoë O’Hara-Smith ", "person-zoe-ohara-smith"),
        ("R2-D2", "person-r2-d2"),
        ("王小明", "person-acf979cc"),
        ("x" * 300, "person-" + "x" * 193),
        ("x" * 192 + " y", "person-" + "x" * 192),
    ],
)
def test_an_id_is_made_of_the_name(name: str, expected: str) -> None:
    made = identity.person_id_for(name)

    assert made == expected
    assert identity.parse_person_id(made) == made


def test_a_label_that_is_an_id_already_is_not_prefixed_twice() -> None:
    assert identity.agent_id_for("agent-build") == "agent-build"
    assert identity.agent_id_for("Build box 1") == "agent-build-box-1"


@pytest.mark.parametrize("text", ["agent-", "build", "person-ada", "Agent-x", "agent-x/y", "", None, 7, "agent-é"])
def test_what_is_no_agents_id_is_refused(text: object) -> None:
    with pytest.raises(Invalid, match=r"^id: "):
        identity.parse_agent_id(text)


def test_a_persons_id_is_refused_under_the_name_of_its_field() -> None:
    with pytest.raises(Invalid, match=r"^owner: "):
        identity.parse_person_id("agent-x", field="owner")


def test_a_name_is_one_line() -> None:
    assert identity.parse_name("  Ada\n\tLovelace ", field="name") == "Ada Lovelace"


@pytest.mark.parametrize("name", ["", " \n ", "x" * 201, "Ada\x1b[31m", "Ada\0"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(Invalid, match=r"^label: ") as refusal:
        identity.parse_name(name, field="label")

    assert refusal.value.field == "label"


@pytest.mark.parametrize("email", ["ada@example.org", " Ada.B+c@Example.org ", "用户@例子.广告"])
def test_an_address_has_something_on_both_sides_of_one_at(email: str) -> None:
    assert identity.parse_email(email) == email.strip()


@pytest.mark.parametrize(
    "email", ["", "ada", "@x", "a@", "a@b@c", "a b@c", "a@b\nc", "a\ufffd@b", "a@b\x00", "a@" + "x" * 260]
)
def test_what_is_no_address_is_refused(email: str) -> None:
    with pytest.raises(Invalid, match=r"^email: "):
        identity.parse_email(email)


def test_two_spellings_of_an_address_are_one() -> None:
    assert identity.email_key("Ada@Example.org") == identity.email_key("ada@example.ORG")
    assert identity.email_key("Zoe\u0308@x") == identity.email_key("zo\u00eb@x")
    assert identity.email_key("ada@x") != identity.email_key("bob@x")


def test_a_public_key_is_kept_as_it_is() -> None:
    assert identity.parse_pubkey(" ssh-ed25519 AAAA ") == "ssh-ed25519 AAAA"


@pytest.mark.parametrize("key", ["", "  ", "x" * 501])
def test_what_is_no_public_key_is_refused(key: str) -> None:
    with pytest.raises(Invalid, match=r"^pubkey: "):
        identity.parse_pubkey(key)


def test_an_agent_has_a_name_as_a_path() -> None:
    agent = Agent(AgentId(HolderId("agent-build")), PersonId(HolderId("person-ada")), "Build", None, Instant(0))

    assert agent.spiffe == "batonpass.org-root/person/person-ada/agent/build"
