"""`baton search`: nodes by their words."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common
from batonpass.cli.render import Column, print_json, print_table, say, warn
from batonpass.client import server_calls
from batonpass.wire.search import FoundBody, SearchReply

COLUMNS: Final = (
    Column("node"),
    Column("type"),
    Column("status"),
    Column("project"),
    Column("title", cut=True),
    Column("found", cut=True),
)


def search(
    *words: str,
    types: Annotated[list[str] | None, Parameter(name="--type", negative=())] = None,
    project: str | None = None,
    limit: int | None = None,
    offset: int = 0,
    common: Common = COMMON,
) -> None:
    """Find nodes that hold every one of these words.

    They may stand in the id, title, summary, body, tags or commits; the last one may only be begun. Case, accents and
    punctuation make no difference, and nothing is an operator. An id that is given, or begun, comes first; then titles
    with all the words; then the rest, the newest first.

    Args:
        words: what to look for. Behind -- a word may begin with a hyphen, which is passed over.
        types: only nodes of this type; may be given several times.
        project: only this project's.
        limit: how many at most; 20 unless given.
        offset: how many to pass over.

    """
    call = server_calls.search_nodes(" ".join(words), types=types or (), project=project, limit=limit, offset=offset)
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
        return
    count = answer.value.count
    empty = f"nothing from {offset + 1} on: {count} were found" if offset and count else "nothing was found"
    print_table(COLUMNS, [_row(item) for item in answer.value.items], empty=empty)
    if (more := _more(answer.value, offset)) is not None:
        say(more)
    for warning in answer.value.warnings:
        warn(warning)


def _row(item: FoundBody) -> tuple[str | None, ...]:
    where = ", ".join(item.matched)
    return item.id, item.type, item.status, item.project, item.title, f"{where}: {item.snippet}"


def _more(reply: SearchReply, offset: int) -> str | None:
    if not reply.truncated:
        return None
    end = offset + len(reply.items)
    return f"… {offset + 1} to {end} of {reply.count}; more: the same with --offset {end}, or one word more"
