"""How commands end: one table of exit codes, and which error ends how (D43)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, Self

from batonpass.core import errors
from batonpass.core.errors import BatonError


class Exit(IntEnum):
    """An exit code and, as its `meaning`, what it tells a script."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Self:
        """Make the member for `code`."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    OK = 0, "done"
    FAILED = 1, "refused, or failed"
    USAGE = 2, "the command line or the configuration is wrong; nothing was tried"
    HELD = 3, "held by another, or lost to another"
    NOT_FOUND = 4, "there is no such thing"
    UNREACHABLE = 5, "no answer; try again, after a look at what became of it"
    NOT_ALLOWED = 6, "unknown token, or not allowed"
    INTERRUPTED = 130, "interrupted"


class UsageError(BatonError):
    """The command line, or the configuration, makes no sense; the message says what would."""

    code = "usage"


class WorkFailed(BatonError):
    """The worker could not do what it was asked to, on this machine."""

    code = "work_failed"


_BY_ERROR: Final[dict[type[BatonError], Exit]] = {
    errors.AlreadyClaimed: Exit.HELD,
    errors.LeaseLost: Exit.HELD,
    errors.StalePremise: Exit.HELD,
    errors.NotFound: Exit.NOT_FOUND,
    errors.Unavailable: Exit.UNREACHABLE,
    errors.RateLimited: Exit.UNREACHABLE,
    errors.Unknown: Exit.UNREACHABLE,
    errors.Unauthorized: Exit.NOT_ALLOWED,
    errors.Forbidden: Exit.NOT_ALLOWED,
    errors.ScopeDenied: Exit.NOT_ALLOWED,
    UsageError: Exit.USAGE,
}
_BY_CODE: Final = {kind.code: code for kind, code in _BY_ERROR.items()}


def exit_of(error: BatonError) -> Exit:
    """Return how a command ends that could not handle `error`."""
    return next((_BY_ERROR[kind] for kind in type(error).__mro__ if kind in _BY_ERROR), Exit.FAILED)


def exit_of_code(code: str) -> Exit:
    """Return the same for an error that is one item's in a bulk answer."""
    return _BY_CODE.get(code, Exit.FAILED)


def exit_of_pending(code: str | None) -> Exit:
    """Return the same for the error that a run's settlement waits for: not allowed, or else to be tried again."""
    return Exit.NOT_ALLOWED if exit_of_code(code or "") is Exit.NOT_ALLOWED else Exit.UNREACHABLE
