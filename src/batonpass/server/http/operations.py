"""What an operation of the API is: one method of one path, and everything that is known of it before it is asked.

The table of them stands in `routes`. From it come the routes themselves, what a handler's body and query are read as
(`call.Call` reads them by its operation, so that neither says it a second time), the OpenAPI document, the reference
page, and the doors that tests walk.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec
from starlette.responses import Response

from batonpass.core.errors import BatonError

if TYPE_CHECKING:
    from batonpass.server.http.call import Call

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Gives = type[msgspec.Struct] | UnionType
"""What a 2xx body is: a wire struct, or a union of them."""
Handler = Callable[["Call"], Awaitable[Response]]

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Its body is read as `takes`, None when it takes none, and a 2xx reply is a
    `gives` in JSON, or something else in one of `media`. `status` is that of a
    success, `also` are others it may have. Of `query` parameters those in
    `listed` may stand there several times. `published` ones overlook what they
    do not know, ours refuse it (D16b). `keyed` ones answer a repeated
    Idempotency-Key from the store (D11). One that `asks` is a read by POST: its
    question does not fit into a URL. `refuses` are errors that it answers
    besides those of every operation of its kind, `headers` what its reply says
    there besides.
    """

    method: Method
    path: str
    handler: Handler
    takes: type[msgspec.Struct] | None = None
    gives: Gives | None = None
    query: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()
    status: int = 200
    also: tuple[int, ...] = ()
    media: tuple[str, ...] = (JSON,)
    published: bool = False
    keyed: bool = False
    asks: bool = False
    refuses: tuple[type[BatonError], ...] = ()
    headers: tuple[str, ...] = ()

    @property
    def noun(self) -> str:
        """Return the noun it belongs to: the name of its handler's file."""
        return self.handler.__module__.rpartition(".")[2]

    @property
    def name(self) -> str:
        """Return what it is called among all others: its noun and its handler's name."""
        return f"{self.noun}.{self.handler.__name__}"

    @property
    def summary(self) -> str:
        """Return in one sentence what it does: the first line of its handler's docstring."""
        return (self.handler.__doc__ or "").partition("\n")[0]

    @property
    def reads(self) -> bool:
        """Whether asking it changes nothing."""
        return self.method == "GET" or self.asks


def kinds_of(gives: Gives | None) -> tuple[type[msgspec.Struct], ...]:
    """Return the structs that `gives` stands for."""
    if isinstance(gives, UnionType):
        return get_args(gives)
    return () if gives is None else (gives,)


def read(
    path: str,
    handler: Handler,
    gives: Gives | None,
    *query: str,
    listed: tuple[str, ...] = (),
    media: tuple[str, ...] = (JSON,),
    refuses: tuple[type[BatonError], ...] = (),
    headers: tuple[str, ...] = (),
) -> Operation:
    """Return a GET; `query` names the parameters it takes."""
    return Operation("GET", path, handler, None, gives, query, listed, media=media, refuses=refuses, headers=headers)


def ask(
    path: str, handler: Handler, takes: type[msgspec.Struct], gives: Gives, *, published: bool = False
) -> Operation:
    """Return a POST that changes nothing: a read whose question is a body."""
    return Operation("POST", path, handler, takes, gives, published=published, asks=True)


def verb(
    path: str,
    handler: Handler,
    takes: type[msgspec.Struct],
    gives: Gives,
    *,
    method: Method = "POST",
    published: bool = True,
    refuses: tuple[type[BatonError], ...] = (),
) -> Operation:
    """Return a POST that never answers from the store: a nonce or an epoch makes it repeatable (D11)."""
    return Operation(method, path, handler, takes, gives, published=published, refuses=refuses)


def change(
    path: str,
    handler: Handler,
    takes: type[msgspec.Struct],
    gives: Gives,
    *,
    published: bool = False,
    also: tuple[int, ...] = (),
) -> Operation:
    """Return a POST that answers a repeated Idempotency-Key with its first reply (D11)."""
    return Operation("POST", path, handler, takes, gives, also=also, published=published, keyed=True)


def create(
    path: str, handler: Handler, takes: type[msgspec.Struct], gives: Gives, *, published: bool = False
) -> Operation:
    """Return a keyed POST that makes something, and says so by 201."""
    return Operation("POST", path, handler, takes, gives, status=201, published=published, keyed=True)


def replace(
    path: str,
    handler: Handler,
    takes: type[msgspec.Struct],
    gives: Gives,
    *,
    published: bool = False,
    also: tuple[int, ...] = (),
) -> Operation:
    """Return a keyed PUT."""
    return Operation("PUT", path, handler, takes, gives, also=also, published=published, keyed=True)


def remove(
    path: str, handler: Handler, takes: type[msgspec.Struct] | None, gives: Gives, *, published: bool = False
) -> Operation:
    """Return a keyed DELETE."""
    return Operation("DELETE", path, handler, takes, gives, published=published, keyed=True)
