"""One SQLite file: one writer at a time, commits in groups (D42).

    waiting members ──turn──▶ SAVEPOINT · body · RELEASE ─┐
          ▲                     (one after another)       │ up to 64 of them, or 5 ms
          └──────────── the next group ◀── answers ◀── COMMIT (in a thread) ◀┘

Each process has one writer connection, used on the event loop: statements
take microseconds, only COMMIT waits for the disk. A *member* is one
`store.write` body. It runs alone from its SAVEPOINT to its RELEASE or
ROLLBACK TO, and awaits nothing but the store; one that does fails (H6). What
arrives while a group commits is the next group. No member is answered before
COMMIT returned, not even one that was refused, because its refusal may name
what an earlier member of the same group did.

If the transaction ends by itself (disk full ends it whole), or COMMIT fails,
every member of the group gets an error; none is told 200.

Between processes two `flock` files beside the database are a turnstile and the
writer's lock. Whoever waits for the writer's holds the turnstile meanwhile, so
processes take turns; the kernel frees both when a process dies.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from batonpass.core import points
from batonpass.core.clock import Clock
from batonpass.core.errors import Conflict, Internal, Unavailable, Unknown
from batonpass.core.identity import Principal
from batonpass.core.ids import Instant, Resource
from batonpass.core.leases import LockedLease
from batonpass.store import queries
from batonpass.store.base import Fences, Reader, Row, Statement, Tx, Writer, now_asked, retrieved
from batonpass.store.bell import Bell
from batonpass.store.fences import lock_and_compare, refuse_broken
from batonpass.store.longreads import LongReads
from batonpass.store.sqlite_bell import SqliteBell

GROUP_MEMBERS_MAX: Final = 64
GROUP_S_MAX: Final = 0.005
LOCK_WAIT_S_MAX: Final = 10.0
"""How long members wait for another process's group before they are told 503."""
BUSY_RETRY_S: Final = 0.01
LOG_WAIT_S_MAX: Final = 1.0
"""How long emptying the log waits for readers and writers."""
STATEMENTS_CACHED: Final = 256
ASIDES_MAX: Final = 4
"""How many reads beside the event loop go on at once, each with a connection and a thread."""


class GroupEnded(Unavailable):
    """The group's transaction ended by itself; none of its members stands."""

    code = "unavailable"


@dataclass(slots=True)
class _Group:
    """The members that share one COMMIT."""

    settled: asyncio.Future[None]
    size: int = 0
    actions: list[Callable[[], None]] = field(default_factory=list)


@dataclass(slots=True)
class _Turn:
    """A member's turn in its group: it must say when it is done, and must not yield in between."""

    group: _Group
    done: asyncio.Future[None]
    yielded: bool = False

    def note_yield(self) -> None:
        """Note that the event loop ran while this member had the connection."""
        self.yielded = True

    def require_undisturbed(self) -> None:
        """Raise unless the body awaited nothing but the store; a test that pauses at a point is excused."""
        if self.yielded and not points.armed_async:
            raise Internal("a write's body awaited something other than the store")


class SqliteReader:
    """A snapshot of what is committed."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self.clock = clock
        self._queries = queries.load("sqlite")

    async def fetch(self, *statements: Statement) -> list[list[Row]]:
        """Return the rows of each statement."""
        return [self._run(statement).fetchall() for statement in statements]

    async def now(self) -> Instant:
        """Return the time, read by a statement of its own."""
        ((row,),) = await self.fetch(now_asked(self.clock))
        return Instant(row[0])

    def _run(self, statement: Statement) -> sqlite3.Cursor:
        query = self._queries[statement.name]
        assert query.params == statement.params.keys(), (statement.name, query.params ^ statement.params.keys())
        return self._connection.execute(query.sql, statement.params)


class SqliteThreadReader(SqliteReader):
    """A snapshot whose statements run in a thread of its own, so that none holds the event loop up (D42)."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock, thread: ThreadPoolExecutor) -> None:
        super().__init__(connection, clock)
        self._thread = thread

    async def fetch(self, *statements: Statement) -> list[list[Row]]:
        """Return the rows of each statement."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run_all, statements)

    def _run_all(self, statements: Sequence[Statement]) -> list[list[Row]]:
        return [self._run(statement).fetchall() for statement in statements]


@dataclass(frozen=True, slots=True)
class _Aside:
    """A connection that only reads, and the thread its statements run in."""

    connection: sqlite3.Connection
    thread: ThreadPoolExecutor

    @classmethod
    def open(cls, path: Path) -> _Aside:
        """Return another of these."""
        return cls(connect(path, read_only=True), ThreadPoolExecutor(1, thread_name_prefix="sqlite aside"))

    def close(self) -> None:
        """Break off what is going on, close behind it, and wait for nothing."""
        self.connection.interrupt()
        self.thread.submit(self.connection.close)
        self.thread.shutdown(wait=False)


class SqliteTx(SqliteReader):
    """A member's transaction: its SAVEPOINT within the group."""

    def __init__(self, connection: sqlite3.Connection, clock: Clock, principal: Principal, bell: Bell) -> None:
        super().__init__(connection, clock)
        self.principal = principal
        self.bell = bell
        self.locked: dict[Resource, LockedLease] = {}
        self.broken: dict[int, str] = {}
        self.skipped: frozenset[Resource] = frozenset()
        self.along: list[list[Row]] = []
        self.actions: list[Callable[[], None]] = []

    def _run(self, statement: Statement) -> sqlite3.Cursor:
        if not self._connection.in_transaction:
            raise GroupEnded("the database ended the transaction by itself; nothing was changed")
        return super()._run(statement)

    def put(self, statement: Statement) -> None:
        """Make a change at once; it is on disk when the group's COMMIT returns."""
        changed = self._run(statement).rowcount
        expected = statement.params.get("expected")
        if expected is not None and changed != expected:
            raise Internal(f"{statement.name} changed {changed} rows, not {expected}")

    def after_commit(self, action: Callable[[], None]) -> None:
        """Run `action` once the group's COMMIT has returned."""
        self.actions.append(action)


class SqliteStore:
    """A database file opened for reading and writing."""

    dialect = "sqlite"
    writes_at_once = 1

    def __init__(self, path: Path, *, clock: Clock, incarnation: str) -> None:
        self.path = path
        self.incarnation = incarnation
        self.clock = clock
        self.bell: Bell = SqliteBell(lambda: connect(path, read_only=True))
        self._writer = connect(path)
        self._readers: list[sqlite3.Connection] = []
        self._asides: list[_Aside] = []
        self._aside_turns = asyncio.Semaphore(ASIDES_MAX)
        self._long_reads = LongReads()
        self._locks = _FileLocks(path)
        self._waiting: deque[asyncio.Future[_Turn]] = deque()
        self._pump: asyncio.Task[None] | None = None
        self._inside: asyncio.Task[object] | None = None
        """Whose body has the connection now."""
        self._closed = False

    # --- the two doors ------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Reader]:
        """Open a snapshot of what is committed."""
        connection = self._readers.pop() if self._readers else connect(self.path, read_only=True)
        try:
            connection.execute("BEGIN")
            yield SqliteReader(connection, self.clock)
        except sqlite3.Error as error:
            raise translated(error) from error
        finally:
            connection.rollback()
            self._readers.append(connection)

    def glance(self) -> AbstractAsyncContextManager[Reader]:
        """Open a snapshot like any other: beginning and ending one takes no round trip here."""
        return self.read()

    @asynccontextmanager
    async def read_aside(self) -> AsyncIterator[Reader]:
        """Open a snapshot on a connection and in a thread beside the event loop."""
        async with self._aside_turns:
            aside = self._asides.pop() if self._asides else _Aside.open(self.path)
            try:
                aside.connection.execute("BEGIN")
                yield SqliteThreadReader(aside.connection, self.clock, aside.thread)
            except (sqlite3.Error, asyncio.CancelledError, GeneratorExit) as error:
                aside.close()  # a statement may still be on its way
                if isinstance(error, sqlite3.Error):
                    raise translated(error) from error
                raise
            except BaseException:
                self._put_back(aside)
                raise
            else:
                self._put_back(aside)

    def _put_back(self, aside: _Aside) -> None:
        aside.connection.rollback()
        if self._closed:
            aside.close()
        else:
            self._asides.append(aside)

    @asynccontextmanager
    async def read_long(self) -> AsyncIterator[Reader]:
        """Open a snapshot on a connection and in a thread of its own; see `store.longreads`."""
        with self._long_reads.one():
            connection = connect(self.path, read_only=True)
            thread = ThreadPoolExecutor(1, thread_name_prefix="sqlite long read")
            try:
                connection.execute("BEGIN")
                yield SqliteThreadReader(connection, self.clock, thread)
            except sqlite3.Error as error:
                raise translated(error) from error
            finally:
                connection.interrupt()
                thread.submit(connection.close)  # behind whatever statement is still on its way out
                thread.shutdown(wait=False)

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
        """Open one transaction for several writers; see `store.base`. Nothing is ever skipped here."""
        turn = await self._join()
        try:
            with self._member(turn, writers[0].principal) as tx:
                await points.areach("member.begun")
                await lock_and_compare(tx, writers, along=along, skip_locked=skip_locked)
                tx.skipped = frozenset()  # nothing is ever locked by somebody else; absent rows are just absent
                yield tx
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException:
            await self._answer(turn)
            raise
        else:
            await self._answer(turn)

    async def empty_log(self) -> bool:
        """Take what was committed out of the write-ahead log, in a thread; see `store.base`."""
        return await asyncio.to_thread(_empty_log, self.path)

    async def close(self) -> None:
        """Finish the group under way and close the connections; who still waits for another process is refused.

        Safe twice: a descriptor that was closed before may be somebody else's by now.
        """
        if self._closed:
            return
        self._closed = True
        await self.bell.close()
        self._locks.abandon()
        if self._pump is not None:
            await self._pump
        for connection in (self._writer, *self._readers):
            connection.close()
        self._readers.clear()
        for aside in self._asides:
            aside.close()
        self._asides.clear()
        self._locks.close()

    # --- members ------------------------------------------------------------------------------------------------

    async def _join(self) -> _Turn:
        """Wait for a turn in the present or the next group."""
        if self._closed:
            raise Unavailable("the database is closed")
        if self._inside is not None and self._inside is asyncio.current_task():
            raise Internal("a write inside a write would wait for itself")
        waiting: asyncio.Future[_Turn] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run_groups(), name="sqlite groups")
        try:
            return await waiting
        except asyncio.CancelledError:
            if waiting.done() and not waiting.cancelled() and waiting.exception() is None:
                waiting.result().done.set_result(None)
            raise

    @contextmanager
    def _member(self, turn: _Turn, principal: Principal) -> Iterator[SqliteTx]:
        """Run one body alone, from SAVEPOINT to RELEASE or ROLLBACK TO."""
        tx = SqliteTx(self._writer, self.clock, principal, self.bell)
        watch = asyncio.get_running_loop().call_soon(turn.note_yield)
        self._inside = asyncio.current_task()
        try:
            self._writer.execute("SAVEPOINT member")
            yield tx
            watch.cancel()
            turn.require_undisturbed()
            self._writer.execute("RELEASE member")
            turn.group.actions += tx.actions
        except BaseException as error:
            watch.cancel()
            self._undo_member()
            if isinstance(error, sqlite3.Error):
                raise translated(error) from error
            raise
        finally:
            self._inside = None
            turn.done.set_result(None)
            points.reach("member.released")

    def _undo_member(self) -> None:
        """Take back what a member has done; if that can't be done, take back the whole group, which then fails."""
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK TO member")
                self._writer.execute("RELEASE member")
        except sqlite3.Error:
            self._end_transaction()

    async def _answer(self, turn: _Turn) -> None:
        """Wait until the group is on disk; only then may anybody be told anything."""
        await asyncio.shield(turn.group.settled)

    # --- groups -------------------------------------------------------------------------------------------------

    async def _run_groups(self) -> None:
        while self._waiting:
            group = _Group(asyncio.get_running_loop().create_future())
            group.settled.add_done_callback(retrieved)
            try:
                await self._open_group()
            except Exception as error:  # noqa: BLE001  # whatever it is, those who wait must hear of it
                self._refuse_waiting(error)
                continue
            try:
                await self._run_members(group)
                await self._commit(group)
            except Exception as error:  # noqa: BLE001  # whatever ended the group is every member's answer
                self._end_transaction()
                group.settled.set_exception(error if isinstance(error, Unavailable) else translated(error))
            else:
                group.settled.set_result(None)
            finally:
                self._locks.release()
            for action in group.actions if group.settled.exception() is None else ():
                action()

    async def _open_group(self) -> None:
        await self._locks.acquire(on_wait=self._refuse_waiting)
        deadline = time.monotonic() + LOCK_WAIT_S_MAX
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
            except sqlite3.Error as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    self._locks.release()
                    raise translated(error) from error
                await asyncio.sleep(BUSY_RETRY_S)
            else:
                points.reach("group.opened")
                return

    async def _run_members(self, group: _Group) -> None:
        deadline = time.monotonic() + GROUP_S_MAX
        loop = asyncio.get_running_loop()
        while self._waiting and group.size < GROUP_MEMBERS_MAX and time.monotonic() < deadline:
            waiting = self._waiting.popleft()
            if waiting.done():
                continue
            turn = _Turn(group, loop.create_future())
            group.size += 1
            waiting.set_result(turn)
            await turn.done
            if not self._writer.in_transaction:
                raise GroupEnded("the database ended the transaction by itself; is the disk full? nothing was changed")

    async def _commit(self, group: _Group) -> None:
        if not group.size:
            self._end_transaction()
            return
        points.reach("group.committing")
        try:
            await asyncio.get_running_loop().run_in_executor(None, self._writer.commit)
        except sqlite3.Error as error:
            raise Unknown(f"COMMIT failed ({error}); read before you repeat") from error
        points.reach("group.committed")

    def _end_transaction(self) -> None:
        if self._writer.in_transaction:
            self._writer.rollback()

    def _refuse_waiting(self, error: Exception) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_exception(error)


class _FileLocks:
    """The turnstile and the writer's lock between processes."""

    def __init__(self, path: Path) -> None:
        self._turnstile = _open_lock(path, "turnstile")
        self._writer = _open_lock(path, "writer")
        self._taken: asyncio.Future[None] | None = None

    async def acquire(self, *, on_wait: Callable[[Unavailable], None]) -> None:
        """Take the writer's lock; every `LOCK_WAIT_S_MAX` of waiting, tell `on_wait`. `Unavailable` once abandoned."""
        if self._try_both():
            return
        loop = asyncio.get_running_loop()
        taken = self._taken = loop.create_future()
        threading.Thread(target=self._block, args=(loop, taken), name="sqlite lock", daemon=True).start()
        while not (await asyncio.wait({taken}, timeout=LOCK_WAIT_S_MAX))[0]:
            on_wait(Unavailable("another process holds the database's writer lock; is it stopped?", retry_after_s=2))
        taken.result()

    def release(self) -> None:
        """Free the writer's lock."""
        fcntl.flock(self._writer, fcntl.LOCK_UN)

    def abandon(self) -> None:
        """Wait no more: nothing is begun any more, and `close` frees what a thread may still be given."""
        if self._taken is not None and not self._taken.done():
            self._taken.set_exception(Unavailable("the database is closed"))

    def close(self) -> None:
        """Close both files, which frees whatever is held."""
        os.close(self._turnstile)
        os.close(self._writer)

    def _try_both(self) -> bool:
        try:
            fcntl.flock(self._turnstile, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        try:
            fcntl.flock(self._writer, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            fcntl.flock(self._turnstile, fcntl.LOCK_UN)
        return True

    def _block(self, loop: asyncio.AbstractEventLoop, taken: asyncio.Future[None]) -> None:
        # Descriptors of its own for the same locks: they stay taken when these are closed, unless we were closed first.
        turnstile, writer = os.dup(self._turnstile), os.dup(self._writer)
        try:
            fcntl.flock(turnstile, fcntl.LOCK_EX)
            fcntl.flock(writer, fcntl.LOCK_EX)
            fcntl.flock(turnstile, fcntl.LOCK_UN)
        finally:
            os.close(turnstile)
            os.close(writer)
        with suppress(RuntimeError):  # nobody is there to be told any more
            loop.call_soon_threadsafe(_settle, taken)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection with the settings every one of ours has; a new file is its owner's alone."""
    if not read_only:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(
        path,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS_CACHED,
        timeout=LOCK_WAIT_S_MAX,
    )
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA synchronous = FULL")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    else:
        _use_wal(connection)
        connection.execute("PRAGMA busy_timeout = 0")
        # What is taken out of a row or freed is written over: a redacted text must not stay in the file.
        connection.execute("PRAGMA secure_delete = ON")
    return connection


def _empty_log(path: Path) -> bool:
    with closing(connect(path)) as connection:
        connection.execute(f"PRAGMA busy_timeout = {int(LOG_WAIT_S_MAX * 1000)}")
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not busy


def inspect(path: Path) -> sqlite3.Connection:
    """Return a connection to an existing file that cannot change it, nor move its write-ahead log into it."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=LOCK_WAIT_S_MAX)


def connect_alone(path: Path) -> sqlite3.Connection:
    """Return a connection to a file that nobody else can use until it is closed; `Conflict` when somebody has it open.

    A file that is not there is begun, for its owner alone. Every connection in WAL mode keeps a shared lock as long
    as it is open, so one idle server is enough to be refused.
    """
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, isolation_level=None, timeout=0)
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        raise Conflict(f"{path} is in use") from error
    return connection


def _use_wal(connection: sqlite3.Connection) -> None:
    """Set the journal mode. Of two processes that begin one file SQLite refuses one at once, so ask again."""
    deadline = time.monotonic() + LOCK_WAIT_S_MAX
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                connection.close()
                raise
            time.sleep(BUSY_RETRY_S)
        else:
            return


def translated(error: Exception) -> Exception:
    """Return our error for the driver's: what is busy or full is `Unavailable`, the rest is a bug of ours."""
    if isinstance(error, sqlite3.OperationalError | sqlite3.DatabaseError):
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code & 0xFF in _PASSING:
            return Unavailable(f"the database cannot take it now: {error}; nothing was changed")
    return error


def _open_lock(path: Path, name: str) -> int:
    return os.open(path.with_name(f"{path.name}.{name}"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


_PASSING: Final = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
}
