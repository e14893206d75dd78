"""People, agents and tokens as rows: what two writers at once may not both have."""

from __future__ import annotations

import asyncio

import pytest

from batonpass.core.errors import Conflict
from batonpass.core.identity import Agent, Person
from batonpass.core.ids import AgentId, Fence, HolderId, Instant, PersonId, Resource, TokenHash
from batonpass.core.tokens import Kind, Scope, Token
from batonpass.server.services.identity import bootstrap
from batonpass.store import identity, tokens
from batonpass.store.base import SYSTEM, Fences, Store
from batonpass.store.open import open_store
from batonpass.store.tokens import KnownToken, ListedToken
from batonpass.testing.waits import until_blocked

pytestmark = pytest.mark.anyio

NOW = Instant(1_780_000_000_000_000)
LATER = Instant(NOW + 3_600_000_000)
ADA = Person(PersonId(HolderId("person-ada")), "Ada", "Ada@example.org", NOW)
BOB = Person(PersonId(HolderId("person-bob")), "Bob", "bob@example.org", NOW)
MILL = Agent(AgentId(HolderId("agent-mill")), ADA.id, "Mill", None, NOW)


@pytest.fixture
async def adas(store: Store) -> Store:
    """A database with Ada and her agent."""
    async with store.write(SYSTEM, Fences()) as tx:
        assert await identity.add_person(tx, ADA)
        assert await identity.add_agent(tx, MILL)
    return store


def token(digit: str, kind: Kind = Kind.SESSION, **more: object) -> Token:
    values: dict[str, object] = {
        "hash": TokenHash(digit * 64),
        "kind": kind,
        "person": ADA.id,
        "agent": None if kind is Kind.PERSONAL else MILL.id,
        "session": None,
        "run": Fence(Resource("task-1"), 3) if kind is Kind.RUN else None,
        "scope": Scope.WRITE,
        "label": None,
        "created_at": NOW,
        "expires_at": LATER,
    }
    return Token(**{**values, **more})  # type: ignore[arg-type]  # the fields of a token, each of its type


async def test_every_kind_of_token_comes_back_as_it_was_put(adas: Store) -> None:
    put = [
        token("0", Kind.PERSONAL, scope=Scope.READ, label="laptop"),
        token("1", Kind.STANDING),
        token("2", Kind.SESSION, session="s1"),
        token("3", Kind.RUN),
    ]
    async with adas.write(SYSTEM, Fences()) as tx:
        for each in put:
            tokens.add(tx, each)
    async with adas.read() as tx:
        found = [tokens.known((await tx.fetch(tokens.known_asked(each.hash)))[0]) for each in (*put, token("f"))]

    agents = [KnownToken(each, "Ada", "Ada@example.org", "Mill", steward=False) for each in put[1:]]
    assert found == [KnownToken(put[0], "Ada", "Ada@example.org", None, steward=False), *agents, None]


async def test_a_list_has_what_is_valid_and_marks_runs_without_a_lease(adas: Store) -> None:
    async with adas.write(SYSTEM, Fences()) as tx:
        tokens.add(tx, token("0", Kind.PERSONAL))
        tokens.add(tx, token("1", Kind.SESSION))
        tokens.add(tx, token("2", Kind.SESSION, expires_at=NOW))
        tokens.add(tx, token("3", Kind.RUN))
        tokens.add(tx, token("4", Kind.STANDING))
        tokens.revoke(tx, [TokenHash("4" * 64)], now=NOW)
    async with adas.read() as tx:
        every = await tokens.of_agent(tx, MILL.id, runs_only=False, now=NOW, after="", most=9)
        runs = await tokens.of_agent(tx, MILL.id, runs_only=True, now=NOW, after="", most=9)
        persons = await tokens.of_person(tx, ADA.id, now=NOW, after="", most=9)
        nobodys = await tokens.of_person(tx, BOB.id, now=NOW, after="", most=9)

    assert every == [ListedToken(token("1"), ended=False), ListedToken(token("3", Kind.RUN), ended=True)]
    assert runs == every[1:]
    assert persons == [ListedToken(token("0", Kind.PERSONAL), ended=False)]
    assert nobodys == []


async def test_a_revoked_token_keeps_the_moment_of_its_first_revocation(adas: Store) -> None:
    async with adas.write(SYSTEM, Fences()) as tx:
        tokens.add(tx, token("1"))
        tokens.revoke(tx, [TokenHash("1" * 64)], now=NOW)
        tokens.revoke(tx, [TokenHash("1" * 64)], now=LATER)
        locked = await tokens.lock(tx, [TokenHash("1" * 64), TokenHash("2" * 64)])

    assert locked == {TokenHash("1" * 64): token("1", revoked_at=NOW)}


async def test_an_address_in_another_spelling_or_an_id_is_not_added_twice(adas: Store) -> None:
    spelled = Person(PersonId(HolderId("person-other")), "Other", "ADA@EXAMPLE.ORG", NOW)
    named = Person(ADA.id, "Other", "other@example.org", NOW)
    async with adas.write(SYSTEM, Fences()) as tx:
        assert not await identity.add_person(tx, spelled)
        assert await identity.person_with_email(tx, spelled) == ADA.id
        assert not await identity.add_person(tx, named)
        assert await identity.person_with_email(tx, named) is None
        assert not await identity.add_agent(tx, MILL)


# On PostgreSQL two transactions are open at once, so that one must wait for the other. On SQLite one writer runs at a
# time, and whoever comes second finds what the first has written.


async def test_an_init_waits_for_one_under_way_and_is_refused(postgres_url: str) -> None:
    first, second = await open_store(postgres_url), await open_store(postgres_url)
    try:
        async with first.write(SYSTEM, Fences()) as tx:
            assert not await identity.any_people_locked(tx)
            waiting = asyncio.ensure_future(bootstrap(second, name="Bob", email="bob@example.org"))
            await until_blocked(postgres_url)
            assert await identity.add_person(tx, ADA)
        with pytest.raises(Conflict, match="has its people already"):
            await waiting
    finally:
        await first.close()
        await second.close()


@pytest.mark.parametrize("what", ["person", "agent"])
async def test_the_second_of_two_with_one_id_waits_and_finds_it_taken(postgres_url: str, what: str) -> None:
    first, second = await open_store(postgres_url), await open_store(postgres_url)

    async def add(store: Store) -> bool:
        async with store.write(SYSTEM, Fences()) as tx:
            return await (identity.add_person(tx, BOB) if what == "person" else identity.add_agent(tx, MILL))

    try:
        async with first.write(SYSTEM, Fences()) as tx:
            assert await identity.add_person(tx, ADA)
        async with first.write(SYSTEM, Fences()) as tx:
            added = await (identity.add_person(tx, BOB) if what == "person" else identity.add_agent(tx, MILL))
            waiting = asyncio.create_task(add(second))
            await until_blocked(postgres_url)
        assert (added, await waiting) == (True, False)
    finally:
        await first.close()
        await second.close()
