"""From an error to what to do next: each hint is a command that exists, with the names filled in."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from batonpass.core import errors
from batonpass.core.errors import BatonError, Conflict, Invalid
from batonpass.core.records import parse_record_path

Hint = tuple[str, str]
"""A command, and what it is good for."""

OF_RECORDS: Final = frozenset({"record", "sidecar"})
"""Commands after which what there is to look at is a record, and not a node."""
_LOOKED_UP: Final[dict[str | None, Hint]] = {
    "revision": ("baton history NODE", "its revisions"),
    "type": ("baton schema", "the types there are"),
    "run": ("baton runs", "the runs there are"),
    "key": ("baton key list", "the keys there are"),
    "class": ("baton class list", "the classes there are"),
    "version": ("baton class list", "the classes there are, each with its newest version"),
}
"""Where to look for what is not there, by its field; for nodes it is the list of them."""


def hints(error: BatonError, args: Sequence[str] = ()) -> list[Hint]:
    """Return the next sensible commands after `error`, which `args` ended in, best first."""
    if error.field in {"db", "file"}:
        return []  # about a database or a backup, which no command of the graph knows more about
    of_records = args and args[0] in OF_RECORDS
    return list(_hints_of_records(error, args) if of_records else _hints(error))


def _hints(error: BatonError) -> Iterator[Hint]:
    node = error.holder.node_id if isinstance(error, Conflict) and error.holder is not None else "NODE"
    match error:
        case errors.AlreadyClaimed():
            yield "baton queue", "what is free"
            yield f"baton take {node} --reason WHY", "end that lease and claim; for its owner, or an admin"
        case errors.LeaseLost():
            yield f"baton claim {node}", "claim it anew, if it is free"
            yield "baton leases", "who holds what"
        case errors.Paused():
            yield "baton policy", "what is in force"
            yield "baton resume", "let claims through again; for an admin"
        case errors.TooManyClaims() | errors.Unknown():
            yield "baton leases --holder me", "what you hold now"
        case errors.ExecutionBoundary():
            yield "baton queue", "what is free"
        case errors.NotReady():
            yield f"baton show {node}", "how it reads now"
        case errors.NotFound():
            yield _LOOKED_UP.get(error.field, ("baton list", "what there is"))
        case errors.Unauthorized():
            yield "baton token save", "store a token, read from standard input"
            yield "baton whoami", "whose token is used"
        case errors.Unavailable():
            yield "baton status", "is it there again"
        case _:
            return


def _hints_of_records(error: BatonError, args: Sequence[str]) -> Iterator[Hint]:
    record = next(filter(_is_record, args), "RECORD")
    name = _class_among(args) if record == "RECORD" else record.partition("/")[0]
    match error:
        case errors.NotFound(field="class"):
            yield "baton class list", "the classes there are"
        case Invalid(field="lease_seconds") if not _has(args, "--lease"):
            yield _again(args, "--lease", "5m"), "say for how long"
        case errors.AlreadyClaimed():
            if args[0] == "sidecar" and not _has(args, "--wait"):
                yield _again(args, "--wait", "5m"), "begin when it is free"
            yield f"baton record claims {record}", "who has it, and until when"
            yield f"baton record watch {record}", "what happens to it from now on"
        case errors.StalePremise() | errors.LeaseLost():
            yield f"baton record history {record}", "who came in between"
            yield f"baton record get {record}", "how it reads now"
        case errors.ScopeDenied():
            yield "baton whoami", "whose token is used"
            yield f"baton class show {name}", "who may do what"
        case errors.NotTaskField() | errors.CapReached():
            yield f"baton class show {name}", "its fields"
        case errors.NotFound():
            yield f"baton class show {name}", "its fields"
            yield f"baton record list {name}", "its records"
        case errors.Conflict():
            yield f"baton record get {record}", "how it reads now"
        case _:
            yield from _hints(error)


def _has(args: Sequence[str], option: str) -> bool:
    return any(each == option or each.startswith(f"{option}=") for each in args)


def _again(args: Sequence[str], *options: str) -> str:
    """Return the command `args` with more options, which stand before anything that is passed on to a child."""
    words = 1 if args[0] == "sidecar" else 2
    return shlex.join(["baton", *args[:words], *options, *args[words:]])


def _class_among(args: Sequence[str]) -> str:
    """Return the class that `baton record list CLASS` was about, else a word for it."""
    match args:
        case [_, "list", name, *_] if not name.startswith("-"):
            return name
        case _:
            return "CLASS"


def _is_record(argument: str) -> bool:
    try:
        parse_record_path(argument)
    except Invalid:
        return False
    return True
