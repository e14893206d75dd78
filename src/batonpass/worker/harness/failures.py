"""Why an agent program failed, from what it said itself.

A program says so in a field of an event that is made for it, or, when it ends
abnormally, on its standard error. The words looked at here are always of that
kind. An agent's own words never come here: a report on "429 rate limits" is a
report, not a rate limit (case 52).

A status of HTTP is better than words, and some words are better than a status:
that the money is gone often arrives as a 429, a prompt that is too long as a
400.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from batonpass.worker.harness.base import Failure, Heard, Trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

REASON_CHARS_MAX: Final = 300
"""How much of a program's own words a failure carries."""
STDERR_LINES_MAX: Final = 40
"""How many of the last lines on standard error are looked at; further up stands what was overcome."""
WORDS_CHARS_MAX: Final = 64 * 1024
"""How much of a program's words is searched: a service's answer that is quoted in them can be a whole page."""
SERVER_ERROR: Final = 500

_BY_STATUS: Final = {
    401: Trouble.AUTH,
    402: Trouble.CREDIT,
    403: Trouble.AUTH,
    404: Trouble.MODEL,
    408: Trouble.NETWORK,
    413: Trouble.CONTEXT,
    429: Trouble.RATE_LIMIT,
    504: Trouble.NETWORK,
}
_SPECIFIC: Final = (
    (
        Trouble.SESSION,
        (
            r"no rollout found|no conversation found|session not found|no session, task,? or name matched"
            r"|error resuming session|invalid session identifier|no previous sessions found"
        ),
    ),
    (Trouble.USAGE_LIMIT, r"usage[ _]limit|daily quota|hit your (?:\w+ )?limit|limit reached\|\d+|plan limit"),
    (
        Trouble.CREDIT,
        (
            r"quota exceeded|exceeded your current quota|insufficient[ _](?:quota|credits?|balance|funds)"
            r"|payment required|credit balance|out of credits|billing_error"
            r"|\bbilling\b.{0,40}\bissue|issue.{0,40}\bbilling\b"
        ),
    ),
    (
        Trouble.CONTEXT,
        (
            r"context[ _]window|context[ _]length|prompt (?:is|as) too long|token count exceeds|maximum context"
            r"|contextoverflow"
        ),
    ),
    (Trouble.AUTH, r"api[ _]key not valid|api_key_invalid|(?:invalid|incorrect) api key|not logged in"),
    (Trouble.MODEL, r"model\b.{0,80}\b(?:does not exist|not found)|models/\S+ is not found|modelnotfound"),
)
_GENERAL: Final = (
    (
        Trouble.AUTH,
        r"unauthorized|forbidden|authenticat|permission[ _]denied|oauth token|/login\b|auth method|GEMINI_API_KEY",
    ),
    (Trouble.RATE_LIMIT, r"rate[ _-]?limit|too many requests|last status: 429|resource[ _](?:has been )?exhausted"),
    (
        Trouble.OVERLOADED,
        (
            r"overloaded|high demand|service unavailable|internal (?:server )?error|server_error|\bunavailable\b"
            r"|status 5\d\d\b|bad gateway"
        ),
    ),
    (
        Trouble.NETWORK,
        (
            r"stream disconnected|stream ended|finalize .{0,30}stream|idle timeout|timed out|timeout|fetch failed"
            r"|(?:not|un|cannot|can't) ?(?:able to )?connect|connection|network|error sending request"
            r"|\bE(?:CONN\w+|NOTFOUND|AI_AGAIN|TIMEDOUT|PIPE|HOSTUNREACH)\b|socket hang up"
            r"|json parse error|json parsing failed|in json at position|parse \S+ stream"
        ),
    ),
)
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def _compiled(table: tuple[tuple[Trouble, str], ...]) -> Mapping[Trouble, re.Pattern[str]]:
    return {trouble: re.compile(words, re.IGNORECASE) for trouble, words in table}


_SPECIFIC_WORDS: Final = _compiled(_SPECIFIC)
_GENERAL_WORDS: Final = _compiled(_GENERAL)


def trouble_of(words: str, *, status: int | None = None) -> Trouble:
    """Return what a program means that said `words` of its failure, with the status of HTTP where it told one."""
    searched = words[:WORDS_CHARS_MAX]
    return _found(_SPECIFIC_WORDS, searched) or _by_status(status) or _found(_GENERAL_WORDS, searched) or Trouble.OTHER


def failure_of(words: str, *, status: int | None = None, retry_at: datetime | None = None) -> Failure:
    """Return the failure that a program means which said `words` of it."""
    return Failure(trouble_of(words, status=status), in_short(words), retry_at)


def in_short(words: str) -> str:
    """Return `words` on one line that can be shown, at most `REASON_CHARS_MAX` of them."""
    line = " ".join(_ANSI.sub("", words).split())
    shown = "".join(char if char.isprintable() else "\ufffd" for char in line[: REASON_CHARS_MAX + 1])
    return shown if len(shown) <= REASON_CHARS_MAX else f"{shown[: REASON_CHARS_MAX - 1]}…"


def moment_of(seconds: float | None) -> datetime | None:
    """Return the moment that is `seconds` after 1970, None when there is none that far off."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def judged(program: str, heard: Heard, *, code: int | None, signal: str | None, stderr: bytes) -> Failure | None:
    """Return why a run of `program` failed, or None when it did not.

    The program's last word counts for more than how its process ended: a good
    one stands although it had to be stopped afterwards (case 42), and a bad
    one although it ended with 0 (case 50). With no last word the run failed,
    whatever the exit code; after an abnormal end what it wrote to standard
    error says why, and one that told nothing at all was started wrongly.
    """
    if heard.failure is not None or heard.is_over:
        return heard.failure
    ended = f"{program} {how_it_ended(code=code, signal=signal)} before it had said its last word"
    if code == 0:
        return Failure(Trouble.OTHER, ended)
    if heard.retrying is not None:
        last = heard.retrying
        return Failure(last.trouble, in_short(f"{ended}, trying again after: {last.message}"), last.retry_at)
    trouble, said = _from_stderr(stderr)
    if trouble is Trouble.OTHER and signal is None and not heard.progress:
        trouble = Trouble.CONFIG
    return Failure(trouble, in_short(f"{ended}: {said}" if said else ended))


def how_it_ended(*, code: int | None, signal: str | None) -> str:
    """Return how a process ended, in words that follow its name."""
    if signal is not None:
        return f"was ended by {signal}"
    return "ended" if code is None else f"ended with exit code {code}"


def _from_stderr(stderr: bytes) -> tuple[Trouble, str]:
    """Return what the last line that names a trouble means, and that line; else the last line."""
    lines = [line for line in stderr.decode("utf-8", "replace").split("\n") if line.strip()][-STDERR_LINES_MAX:]
    for line in reversed(lines):
        if (trouble := trouble_of(line)) is not Trouble.OTHER:
            return trouble, line
    return Trouble.OTHER, lines[-1] if lines else ""


def _by_status(status: int | None) -> Trouble | None:
    if status is None:
        return None
    return _BY_STATUS.get(status) or (Trouble.OVERLOADED if status >= SERVER_ERROR else None)


def _found(table: Mapping[Trouble, re.Pattern[str]], words: str) -> Trouble | None:
    return next((trouble for trouble, pattern in table.items() if pattern.search(words)), None)
