"""Token rows: hashes, never secrets. What a token allows, and who may end it, is core's to say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from batonpass.core.edges import ORG_ROOT
from batonpass.core.ids import AgentId, Fence, Instant, PersonId, TokenHash
from batonpass.core.tokens import Kind, Scope, Token
from batonpass.store.base import Reader, Row, Statement, Tx, as_json, q


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token with whoever stands behind it; `steward` says that the person stewards the organization."""

    token: Token
    person_name: str
    email: str
    agent_label: str | None
    steward: bool


@dataclass(frozen=True, slots=True)
class ListedToken:
    """A token in a list. `ended`: a run token whose tenure is over; it writes nothing any more."""

    token: Token
    ended: bool


def known_asked(token: TokenHash) -> Statement:
    """Ask who stands behind a token; see `known`."""
    return q("tokens.known", hash=token, org=ORG_ROOT)


def known(rows: Sequence[Row]) -> KnownToken | None:
    """Return the answer to `known_asked`, or None when there is no such token."""
    if not rows:
        return None
    ((*columns, person_name, email, agent_label, steward),) = rows
    return KnownToken(_token(columns), person_name, email, agent_label, bool(steward))


async def lock(tx: Tx, tokens: Iterable[TokenHash]) -> dict[TokenHash, Token]:
    """Return the rows of `tokens`, locked until the transaction ends. Lease rows are locked before them (D44)."""
    (rows,) = await tx.fetch(q("tokens.lock", hashes=as_json(sorted(tokens))))
    return {token.hash: token for token in map(_token, rows)}


def add(tx: Tx, token: Token) -> None:
    """Insert a token minted now."""
    tx.put(
        q(
            "tokens.add",
            hash=token.hash,
            person=token.person,
            agent=token.agent,
            standing=token.kind is Kind.STANDING,
            session=token.session,
            resource=token.run.resource if token.run is not None else None,
            epoch=token.run.epoch if token.run is not None else None,
            scope=token.scope,
            label=token.label,
            now=token.created_at,
            expires_at=token.expires_at,
        )
    )


def revoke(tx: Tx, tokens: Iterable[TokenHash], *, now: Instant) -> None:
    """End `tokens`; those that have ended already keep their moment."""
    tx.put(q("tokens.revoke", hashes=as_json(sorted(tokens)), now=now))


def bind(tx: Tx, token: TokenHash, session: str) -> None:
    """Write the session of a token that was locked and found without one."""
    tx.put(q("tokens.bind", hash=token, session=session))


async def of_agent(
    tx: Reader, agent: AgentId, *, runs_only: bool, now: Instant, after: str, most: int
) -> list[ListedToken]:
    """Return at most `most` valid tokens of `agent` after the hash `after`."""
    (rows,) = await tx.fetch(q("tokens.of_agent", agent=agent, runs_only=runs_only, now=now, after=after, most=most))
    return [_listed(row) for row in rows]


async def of_person(tx: Reader, person: PersonId | None, *, now: Instant, after: str, most: int) -> list[ListedToken]:
    """Return at most `most` valid personal tokens after the hash `after`, of one person or of everybody."""
    (rows,) = await tx.fetch(q("tokens.of_person", person=person, now=now, after=after, most=most))
    return [_listed(row) for row in rows]


async def agents_beginning(tx: Reader, agent: AgentId, prefix: str, *, most: int) -> list[Token]:
    """Return at most `most` tokens of `agent` whose hash begins with `prefix`, those not revoked first."""
    (rows,) = await tx.fetch(q("tokens.agents_beginning", agent=agent, prefix=prefix, most=most))
    return [_token(row) for row in rows]


async def persons_beginning(tx: Reader, person: PersonId | None, prefix: str, *, most: int) -> list[Token]:
    """Return at most `most` personal tokens whose hash begins with `prefix`, those not revoked first."""
    (rows,) = await tx.fetch(q("tokens.persons_beginning", person=person, prefix=prefix, most=most))
    return [_token(row) for row in rows]


def _listed(row: Row) -> ListedToken:
    *columns, ended = row
    return ListedToken(_token(columns), bool(ended))


def _token(row: Row) -> Token:
    hash_, person, agent, standing, session, resource, epoch, scope, label, created_at, expires_at, revoked_at = row
    run = Fence(resource, epoch) if resource is not None else None
    if agent is None:
        kind = Kind.PERSONAL
    elif run is not None:
        kind = Kind.RUN
    else:
        kind = Kind.STANDING if standing else Kind.SESSION
    return Token(hash_, kind, person, agent, session, run, Scope(scope), label, created_at, expires_at, revoked_at)
