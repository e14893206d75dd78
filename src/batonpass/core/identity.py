"""Who is asking: principals, and what their tokens allow (D1, D2a, D40)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from batonpass.core.ids import Fence, HolderId, PersonId, TokenHash


class Kind(StrEnum):
    """What sort of principal holds the token."""

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
