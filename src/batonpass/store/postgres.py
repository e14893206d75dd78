"""One PostgreSQL database: a pool of connections, pipelines, two round trips a write.

Every connection is in autocommit mode and each transaction says BEGIN and
COMMIT itself, so both travel with other statements: the first round trip is
BEGIN, the time limits, the fences' locks and whatever the body asks first; the
last is the changes and COMMIT. Nothing depends on session state, so the store
works behind a transaction-mode pooler; there ``?pooler=transaction`` in the
URL turns prepared statements off.

Each write limits its own waits (D44), so a row held by a stopped process is
503 with a hint and not a hang. The answer to COMMIT may be lost: then nobody
knows, and the error says so (D45).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from batonpass.core import points
from batonpass.core.clock import Clock
from batonpass.core.errors import Internal, Unavailable, Unknown
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, Resource
from batonpass.core.leases import LockedLease
from batonpass.store import queries
from batonpass.store.base import Fences, LockTimeout, Reader, Retry, Row, Statement, Tx, Writer, now_asked, q
from batonpass.store.bell import Bell
from batonpass.store.fences import lock_and_compare, refuse_broken
from batonpass.store.longreads import LongReads
from batonpass.store.postgres_bell import PostgresBell
from batonpass.store.roundtrips import Bound, Connection, bound

POOL_MAX: Final = 10
READERS_MAX: Final = 5
POOL_WAIT_S_MAX: Final = 5.0
"""How long a request waits for a connection before it is told 503."""

BEGIN_WRITE: Final = Bound(b"BEGIN ISOLATION LEVEL READ COMMITTED")
BEGIN_READ: Final = Bound(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
COMMIT: Final = Bound(b"COMMIT")
ROLLBACK: Final = Bound(b"ROLLBACK")
LIMITS: Final = q("session.limits", lock_ms="6000", statement_ms="20000", idle_ms="5000")
"""How long one transaction waits for a lock, for a statement, and lets others wait while it idles (D44, H25)."""
LONG_LIMITS: Final = q("session.limits", lock_ms="6000", statement_ms="60000", idle_ms="3600000")
"""The same for a long read, which holds no row: it idles for as long as its listener takes what it has read."""
SYNC_WAIT_CANCELLED: Final = "canceling wait for synchronous replication"


Pool = AsyncConnectionPool[Connection]


class PostgresReader:
    """A snapshot of what is committed; it begins with the first fetch."""

    _begin: Bound = BEGIN_READ
    _limits: Sequence[Statement] = ()
    _behind: Sequence[Bound] = ()
    """What ends each round trip."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._connection = connection
        self.clock = clock
        self._queries = queries.load("postgres")
        self._begun = False
        self._pending: list[Statement] = []

    async def fetch(self, *statements: Statement) -> list[list[Row]]:
        """Return the rows of each statement, all sent in one round trip with what was put before."""
        try:
            rows = await self._connection.round_trip([*self._line(statements), *self._behind])
        except psycopg.Error as error:
            raise translated(error) from error
        end = len(rows) - len(self._behind)
        return rows[end - len(statements) : end]

    async def now(self) -> Instant:
        """Return the time, read by a statement of its own."""
        ((row,),) = await self.fetch(now_asked(self.clock))
        return Instant(row[0])

    async def finish(self) -> None:
        """End the snapshot; a connection that is lost has ended it already."""
        await self._end(COMMIT)

    async def _end(self, statement: Bound) -> None:
        """Send the transaction's last statement, whatever became of the connection: the pool looks after that."""
        if self._begun and not self._connection.closed:
            with suppress(psycopg.Error):
                await self._connection.round_trip([statement])

    def _line(self, statements: Sequence[Statement] = ()) -> list[Bound]:
        """Return what is to be sent before `statements`, and those."""
        before = [] if self._begun else [self._begin, *map(self._bound, self._limits)]
        changes, self._pending = self._pending, []
        line = [*before, *map(self._bound, changes), *map(self._bound, statements)]
        self._begun = True
        return line

    def _bound(self, statement: Statement) -> Bound:
        query = self._queries[statement.name]
        assert query.params == statement.params.keys(), (statement.name, query.params ^ statement.params.keys())
        return bound(query.sql, statement.params)


class PostgresGlance(PostgresReader):
    """A snapshot for each fetch, begun and ended in its round trip."""

    _behind = (COMMIT,)

    def _line(self, statements: Sequence[Statement] = ()) -> list[Bound]:
        line = super()._line(statements)
        self._begun = False
        return line


class PostgresLongReader(PostgresReader):
    """A snapshot that may last: whatever limits the server sets itself, it idles as long as it has to."""

    _limits = (LONG_LIMITS,)


class PostgresTx(PostgresReader):
    """A write transaction."""

    _begin = BEGIN_WRITE
    _limits = (LIMITS,)

    def __init__(self, connection: Connection, clock: Clock, principal: Principal, bell: Bell) -> None:
        super().__init__(connection, clock)
        self.principal = principal
        self.bell = bell
        self.locked: dict[Resource, LockedLease] = {}
        self.broken: dict[int, str] = {}
        self.skipped: frozenset[Resource] = frozenset()
        self.along: list[list[Row]] = []
        self.actions: list[Callable[[], None]] = []
        self._notices: list[str] = []

    def put(self, statement: Statement) -> None:
        """Hand over a change; it is sent, in order, with the next fetch or with COMMIT."""
        self._pending.append(statement)

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` once COMMIT has returned."""
        self.actions.append(action)

    async def commit(self) -> None:
        """Send what is pending together with COMMIT; say `Unknown` if its answer was lost."""
        if not self._begun and not self._pending:
            return
        self._connection.add_notice_handler(self._note)
        await points.areach("commit.sent")
        try:
            await self._connection.round_trip([*self._line(), COMMIT])
        except psycopg.Error as error:
            if self._connection.closed or self._connection.broken:
                raise Unknown("the connection was lost at COMMIT; read before you repeat") from error
            raise translated(error) from error
        finally:
            self._connection.remove_notice_handler(self._note)
        if any(SYNC_WAIT_CANCELLED in notice for notice in self._notices):
            raise Unknown("COMMIT was not confirmed by the standby; read before you repeat")
        await points.areach("commit.returned")

    async def rollback(self) -> None:
        """Undo everything; the server does so itself if the connection is gone."""
        await self._end(ROLLBACK)

    def _note(self, diagnostic: errors.Diagnostic) -> None:
        self._notices.append(diagnostic.message_primary or "")


class PostgresStore:
    """A PostgreSQL database and its pools: writers that wait for a row must not keep readers from a connection."""

    dialect = "postgres"
    writes_at_once = POOL_MAX

    def __init__(self, writers: Pool, readers: Pool, *, bell: Bell, clock: Clock, incarnation: str) -> None:
        self.incarnation = incarnation
        self.clock = clock
        self.bell = bell
        self._writers = writers
        self._readers = readers
        self._checks: set[asyncio.Task[None]] = set()
        self._long_reads = LongReads()

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Reader]:
        """Open a snapshot of what is committed."""
        async with self._connection(self._readers) as connection:
            reader = PostgresReader(connection, self.clock)
            try:
                yield reader
            finally:
                await reader.finish()

    @asynccontextmanager
    async def glance(self) -> AsyncIterator[Reader]:
        """Open what has a snapshot for each fetch."""
        async with self._connection(self._readers) as connection:
            yield PostgresGlance(connection, self.clock)

    def read_aside(self) -> AbstractAsyncContextManager[Reader]:
        """Open a snapshot like any other: the database computes, and the pool has its bound."""
        return self.read()

    @asynccontextmanager
    async def read_long(self) -> AsyncIterator[Reader]:
        """Open a snapshot on a connection of its own; see `store.longreads`."""
        with self._long_reads.one():
            conninfo = self._readers.conninfo
            assert isinstance(conninfo, str), "the pools are opened with a fixed address"
            connect = Connection.connect(conninfo, autocommit=True, prepare_threshold=None)
            try:
                connection = await asyncio.wait_for(connect, POOL_WAIT_S_MAX)
            except (psycopg.OperationalError, TimeoutError) as error:
                raise Unavailable("the database gave no connection for a long read") from error
            try:
                yield PostgresLongReader(connection, self.clock)
            finally:
                await connection.close()  # which ends the snapshot too

    @asynccontextmanager
    async def write(self, principal: Principal, fences: Fences) -> AsyncIterator[Tx]:
        """Open a write transaction once every fence holds; see `store.base`."""
        writer = Writer(principal, fences)
        async with self.write_set([writer]) as tx:
            await refuse_broken(tx, writer)
            yield tx

    @asynccontextmanager
    async def write_set(
        self, writers: Sequence[Writer], *, along: Sequence[Statement] = (), skip_locked: bool = False
    ) -> AsyncIterator[Tx]:
        """Open one transaction for several writers; see `store.base`."""
        async with self._connection(self._writers) as connection:
            tx = PostgresTx(connection, self.clock, writers[0].principal, self.bell)
            try:
                await points.areach("tx.begun")
                await lock_and_compare(tx, writers, along=along, skip_locked=skip_locked)
                yield tx
                await tx.commit()
            except Unknown:
                raise
            except Exception:
                await tx.rollback()
                raise
        for action in tx.actions:
            action()

    async def empty_log(self) -> bool:
        """Return True: the log is the server's own."""
        return True

    async def close(self) -> None:
        """Tell who waits that it is over, and close the pools."""
        await self.bell.close()
        for check in self._checks:
            check.cancel()
        await self._writers.close()
        await self._readers.close()

    @asynccontextmanager
    async def _connection(self, pool: Pool) -> AsyncIterator[Connection]:
        try:
            connection = await pool.getconn(timeout=POOL_WAIT_S_MAX)
        except (PoolTimeout, psycopg.OperationalError) as error:
            raise Unavailable(f"no database connection became free within {POOL_WAIT_S_MAX:.0f} s") from error
        try:
            yield connection
        finally:
            lost = connection.broken
            if connection.spoiled:
                await connection.close()
            await pool.putconn(connection)
            if lost:
                self._check(pool)

    def _check(self, pool: Pool) -> None:
        """Look at the other connections after one was lost: a server that restarted has ended them all."""
        check = asyncio.create_task(pool.check(), name="check connections")
        self._checks.add(check)
        check.add_done_callback(self._checks.discard)


def bell_for(url: str, listen_url: str | None) -> PostgresBell:
    """Return the bell of the database at `url`, heard at `listen_url` where a pooler stands in between."""
    conninfo, pooled = split_pooler(url)
    heard_at, no_listen = split_pooler(listen_url) if listen_url is not None else (conninfo, pooled)
    return PostgresBell(conninfo, None if no_listen else heard_at)


async def open_pools(url: str) -> tuple[Pool, Pool]:
    """Return the pool of those who write and that of those who read, both open."""
    return await open_pool(url), await open_pool(url, most=READERS_MAX)


async def open_pool(url: str, *, most: int = POOL_MAX) -> Pool:
    """Return an open pool for `url`; ``?pooler=transaction`` turns prepared statements off."""
    conninfo, pooled = split_pooler(url)

    async def configure(connection: Connection) -> None:
        await connection.set_autocommit(True)
        if pooled:
            connection.prepare_threshold = None

    pool = AsyncConnectionPool(
        conninfo if pooled else planned_once(conninfo),
        connection_class=Connection,
        min_size=1,
        max_size=most,
        open=False,
        configure=configure,
        name="batonpass",
        timeout=POOL_WAIT_S_MAX,
    )
    try:
        await pool.open(wait=True, timeout=POOL_WAIT_S_MAX)
    except PoolTimeout as error:
        await pool.close()
        raise Unavailable(f"cannot connect to the database at {without_password(url)}") from error
    return pool


def planned_once(conninfo: str) -> str:
    """Return `conninfo` with each statement planned once a connection, for any parameters, and none compiled.

    That plan is the one which tests look at. Left to itself, the server plans some statements anew each time they run
    and compiles others, either of which takes longer than they do.
    """
    given = conninfo_to_dict(conninfo).get("options") or ""
    return make_conninfo(conninfo, options=f"{given} -c jit=off -c plan_cache_mode=force_generic_plan".strip())


def split_pooler(url: str) -> tuple[str, bool]:
    """Return `url` as libpq takes it, and whether it says a transaction-mode pooler is in between."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, keep_blank_values=True)
    pooled = ("pooler", "transaction") in options
    # libpq takes a plus for a plus, so blanks have to be %20.
    kept = urlencode([(name, value) for name, value in options if name != "pooler"], quote_via=quote)
    return urlunsplit(parts._replace(query=kept)), pooled


def without_password(url: str) -> str:
    """Return `url` fit for a message or a log."""
    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", ":***@")))


def translated(error: psycopg.Error) -> Exception:
    """Return our error for the driver's: what may be run again is `Retry`, what is down is `Unavailable`."""
    match error:
        case errors.LockNotAvailable():
            return LockTimeout("somebody else has held a row for too long; nothing was changed", retry_after_s=2)
        case errors.SerializationFailure() | errors.DeadlockDetected():
            return Retry(f"the database asks to try again: {_first_line(error)}; nothing was changed")
        case errors.AssertFailure():
            return Internal(_first_line(error))
        case errors.QueryCanceled() | errors.IdleInTransactionSessionTimeout():
            return Unavailable(f"the database took too long: {_first_line(error)}; nothing was changed")
        case psycopg.OperationalError() | psycopg.InterfaceError():
            return Unavailable(f"the database cannot be reached: {_first_line(error)}")
        case _:
            return error


def _first_line(error: psycopg.Error) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
