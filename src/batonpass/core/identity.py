"""Who is asking: principals, the people and agents behind them, and what their tokens allow (D1, D2a, D40)."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from batonpass.core.edges import ORG_ROOT
from batonpass.core.errors import Invalid
from batonpass.core.ids import (
    NODE_ID_BYTES_MAX,
    AgentId,
    Fence,
    HolderId,
    Instant,
    PersonId,
    TokenHash,
    parse_node_id,
    shown,
    slug_of,
)

PERSON_PREFIX: Final = "person-"
AGENT_PREFIX: Final = "agent-"
KEY_PREFIX: Final = "apikey:"
SERVICE_PREFIX: Final = "sa:"
NAME_CHARS_MAX: Final = 200
EMAIL_CHARS_MAX: Final = 254
PUBKEY_CHARS_MAX: Final = 500
_EMAIL: Final = re.compile(r"[^\s@\x00-\x1f\x7f\ufffd]+@[^\s@\x00-\x1f\x7f\ufffd]+")


class Kind(StrEnum):
    """What sort of principal holds the token. Keys and service accounts keep records, and no graph (D1)."""

    PERSON = "person"
    AGENT = "agent"
    KEY = "key"
    SERVICE = "service"


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated identity behind a request; never taken from a body.

    `id` is who holds leases: the agent under an agent's token, else the
    person, API key or service account. `person` is the person behind it (an
    agent's owner, or the person itself), None for keys and services.
    `run` is the fence of a run token: the one tenure it was minted for.
    """

    id: HolderId
    kind: Kind
    name: str
    token: TokenHash
    person: PersonId | None = None
    person_name: str = ""
    email: str = ""
    session: str | None = None
    run: Fence | None = None
    read_only: bool = False
    is_admin: bool = False

    @property
    def is_agent(self) -> bool:
        """Whether an agent's token was used, whoever owns the agent."""
        return self.kind is Kind.AGENT

    @property
    def is_person(self) -> bool:
        """Whether a person's own token was used."""
        return self.kind is Kind.PERSON


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who owns agents and tokens. `is_admin` is read off the graph: they steward its root."""

    id: PersonId
    name: str
    email: str
    created_at: Instant
    is_admin: bool = False


@dataclass(frozen=True, slots=True)
class Agent:
    """A machine identity and the person it works for."""

    id: AgentId
    owner: PersonId
    label: str
    pubkey: str | None
    created_at: Instant

    @property
    def spiffe(self) -> str:
        """The agent's name as a path, for systems that keep workload identities."""
        return f"batonpass.{ORG_ROOT}/person/{self.owner}/agent/{self.id.removeprefix(AGENT_PREFIX)}"


def parse_name(text: str, *, field: str) -> str:
    """Return `text` as the name of somebody or something: one line of 1 to 200 code points, blanks folded."""
    name = " ".join(text.split())
    if not name:
        raise Invalid(f"{field}: required", field=field)
    if len(name) > NAME_CHARS_MAX:
        raise Invalid(f"{field}: {len(name)} code points; the limit is {NAME_CHARS_MAX} code points", field=field)
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise Invalid(f"{field}: {shown(name)} has control characters, or bytes that are no text", field=field)
    return name


def parse_email(text: str) -> str:
    """Return `text` as an e-mail address: something on both sides of one @. Nothing is ever sent to it."""
    email = text.strip()
    if len(email) > EMAIL_CHARS_MAX:
        raise Invalid(f"email: {len(email)} characters; the limit is {EMAIL_CHARS_MAX} characters", field="email")
    if not _EMAIL.fullmatch(email):
        raise Invalid(f"email: {shown(email)} is not an address of the form name@host", field="email")
    return email


def email_key(email: str) -> str:
    """Return what two spellings of one address have in common: people are unique by it."""
    return unicodedata.normalize("NFC", email).casefold()


def parse_pubkey(text: str) -> str:
    """Return `text` as a public key: kept and shown, and used for nothing here."""
    key = text.strip()
    if not key or len(key) > PUBKEY_CHARS_MAX:
        raise Invalid(f"pubkey: {len(key)} characters; it takes 1 to {PUBKEY_CHARS_MAX} characters", field="pubkey")
    return key


def parse_person_id(text: object, *, field: str = "id") -> PersonId:
    """Return `text` as a person's id, which begins with ``person-``."""
    return PersonId(HolderId(_prefixed(text, PERSON_PREFIX, field)))


def parse_agent_id(text: object, *, field: str = "id") -> AgentId:
    """Return `text` as an agent's id, which begins with ``agent-``; a label alone is refused here, before any mint."""
    return AgentId(HolderId(_prefixed(text, AGENT_PREFIX, field)))


def person_id_for(name: str) -> PersonId:
    """Return the id a person gets who was given none."""
    return PersonId(HolderId(PERSON_PREFIX + _slug(name, PERSON_PREFIX)))


def agent_id_for(label: str) -> AgentId:
    """Return the id an agent gets that was given none."""
    return AgentId(HolderId(AGENT_PREFIX + _slug(label.removeprefix(AGENT_PREFIX), AGENT_PREFIX)))


def _prefixed(text: object, prefix: str, field: str) -> str:
    node = parse_node_id(text, field=field)
    if not node.startswith(prefix) or node == prefix:
        raise Invalid(f"{field}: {shown(node)} is not {prefix} and a name", field=field)
    return node


def _slug(text: str, prefix: str) -> str:
    return slug_of(text, chars_max=NODE_ID_BYTES_MAX - len(prefix))
