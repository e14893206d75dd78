"""Statements that travel together over one PostgreSQL connection: sent at once, waited for once, read together.

The driver's own pipeline writes to the socket at every statement and makes a
cursor for each, which was most of what a short transaction cost this process.
Here all of a round trip is put in line, goes out in one piece with its sync,
and is read when the answers are there. Of the driver stay the protocol
(libpq), its waiting and cancelling, and what makes values of columns.

Every parameter travels as text and has the type its statement gives it, so a
statement is prepared once a connection, whatever it is asked with.

The sync is the last message. A flush behind it, as the driver sends one, is
taken for the next command: the server stops the clock of an idle transaction
and never starts it again, so a stopped process would hold its locks for ever
(H25).
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

import psycopg
from psycopg import errors, pq
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.pq.abc import PGconn, PGresult
from psycopg.waiting import Ready, Wait

from batonpass.core.values import value
from batonpass.store.base import Row

PREPARED_MAX: Final = 256
"""How many statements a connection keeps prepared; who was not used for longest makes room for another."""
ENCODING: Final = "utf-8"
"""Which the connections speak, whatever the server's own is."""
_PLACE: Final = re.compile(r"%%|%\((\w+)\)s")


@value(frozen=True, slots=True)
class Bound:
    """A statement in the server's own form, with its parameters in their order."""

    sql: bytes
    params: Sequence[bytes | None] = ()


def bound(sql: str, params: Mapping[str, object]) -> Bound:
    """Return a statement of the driver's form with its parameters."""
    text, order = _numbered(sql)
    return Bound(text, [_as_text(params[name]) for name in order])


@functools.cache
def _numbered(sql: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with numbers in the place of its parameters' names, and those in their order."""
    order = tuple(dict.fromkeys(name for name in _PLACE.findall(sql) if name))

    def number(place: re.Match[str]) -> str:
        return f"${order.index(place[1]) + 1}" if place[1] else "%"

    return _PLACE.sub(number, sql).encode(ENCODING), order


def _as_text(given: object) -> bytes | None:
    """Return a parameter as the server reads it."""
    match given:
        case None:
            return None
        case str():
            text = given.encode(ENCODING)
            if b"\0" in text:  # it would end there, as in C
                raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
            return text
        case bool():
            return b"t" if given else b"f"
        case int() | float():
            return str(given).encode()
        case _:
            raise TypeError(f"a statement's parameter cannot be a {type(given).__name__}")


@functools.cache
def _name_of(sql: bytes) -> bytes:
    """Return the name under which a statement is prepared, the same for each connection of this process."""
    return b"baton_" + hashlib.blake2b(sql, digest_size=12).hexdigest().encode()


Line: TypeAlias = list[bool]
"""What was put in line: for each message whether its answer is a statement's, and not that of preparing one."""


class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection of the pool's.

    `spoiled`: one of its round trips broke. What stood behind the error has
    not been prepared, and a later statement would fail with that for ever.
    """

    spoiled: bool = False

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._prepared_here: dict[bytes, None] = {}
        self._columns = Transformer(self)

    async def round_trip(self, statements: Sequence[Bound]) -> list[list[Row]]:
        """Send `statements` together, and return the rows of each; raise the first error there is."""
        try:
            results = await self.wait(self._exchanged(statements))
        except BaseException:
            self.spoiled = True
            raise
        return [self._rows(result) for result in results]

    def _exchanged(self, statements: Sequence[Bound]) -> PQGen[list[PGresult]]:
        """Return the answer of each statement."""
        self.pgconn.enter_pipeline_mode()
        line: Line = []
        for statement in statements:
            self._put(statement, line)
        self.pgconn.pipeline_sync()
        yield from _flushed(self.pgconn)
        results = yield from _answers(self.pgconn)
        self.pgconn.exit_pipeline_mode()
        for result in results:
            if result.status == pq.ExecStatus.FATAL_ERROR:
                raise errors.error_from_result(result, encoding=ENCODING)
        return [result for result, asked in zip(results, line, strict=True) if asked]

    def _put(self, statement: Bound, line: Line) -> None:
        """Put a statement in line, behind its preparation if this is its first time here."""
        if self.prepare_threshold is None:
            self.pgconn.send_query_params(statement.sql, statement.params, result_format=pq.Format.BINARY)
            line.append(True)
            return
        name = _name_of(statement.sql)
        if name in self._prepared_here:
            del self._prepared_here[name]
        else:
            if len(self._prepared_here) == PREPARED_MAX:
                oldest = next(iter(self._prepared_here))
                del self._prepared_here[oldest]
                self.pgconn.send_query_params(b"DEALLOCATE " + oldest, None)
                line.append(False)
            self.pgconn.send_prepare(name, statement.sql)
            line.append(False)
        self._prepared_here[name] = None
        self.pgconn.send_query_prepared(name, statement.params, result_format=pq.Format.BINARY)
        line.append(True)

    def _rows(self, result: PGresult) -> list[Row]:
        if not result.ntuples:
            return []
        self._columns.set_pgresult(result, format=pq.Format.BINARY)
        rows = self._columns.load_rows(0, result.ntuples, tuple)
        self._columns.set_pgresult(None)
        return list(rows)


def _flushed(pgconn: PGconn) -> PQGen[None]:
    """Send what is in line; read meanwhile, since the server may have to be rid of answers before it takes more."""
    while pgconn.flush():
        if (yield Wait.RW) & Ready.R:
            pgconn.consume_input()


def _answers(pgconn: PGconn) -> PQGen[list[PGresult]]:
    """Return every answer up to that of the sync, in order."""
    results: list[PGresult] = []
    while True:
        while pgconn.is_busy():
            if (yield Wait.R):
                pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:  # there is one behind the answer of each message
            if pgconn.status == pq.ConnStatus.BAD:
                raise psycopg.OperationalError("the connection is lost")
        elif result.status == pq.ExecStatus.PIPELINE_SYNC:
            return results
        else:
            results.append(result)
