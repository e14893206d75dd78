"""Lines of JSON from a program we don't control, read so that no line can raise or mislead.

Each value is asked for by its place and its type; what is not there, or is of
another type, reads as absent. Text is fit to be stored: bytes that are no
UTF-8 and halves of a surrogate pair read as U+FFFD.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, TypeAlias

from batonpass.worker.harness.base import Failure, Heard, Usage

Event: TypeAlias = Mapping[str, object]
"""A JSON object."""

TEXT_CHARS_MAX: Final = 8 * 1024 * 1024
"""How much of a final message is kept that arrives in pieces: as much as fits one line (`stream.LINE_BYTES_MAX`)."""
ID_CHARS_MAX: Final = 200
"""Longer than any id a program gave to a session or a tool call; what is longer is none."""
COUNT_MAX: Final = 2**53
"""Beyond it numbers of JSON are no longer exact, so it is no count."""
MENDED_TOKENS_MAX: Final = 100_000
"""How many strings and brackets of a cut line are looked at: a line is long because of one long string."""

_NOTHING: Final[Event] = {}
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TOKEN: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"|["\[\]{}]', re.DOTALL)
_STRING_SO_FAR: Final = re.compile(r'"(?:[^"\\]++|\\u[0-9a-fA-F]{4}|\\[^u])*+', re.DOTALL)


def event_of(line: bytes, *, is_cut: bool = False) -> Event | None:
    """Return the JSON object on `line`, None when there is none.

    Of a line that `is_cut`, what its head holds: a text that was cut ends
    there, and what stood behind it is absent.
    """
    if not line.lstrip(b" \t\r").startswith(b"{"):
        return None
    written = line.decode("utf-8", "replace")
    if is_cut:
        written = _mended(written)
    try:
        # Not strict: a program that writes a control character into a string as it is has still told us something.
        event: object = json.loads(written, strict=False)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def value_at(event: Event, *place: str) -> object:
    """Return what stands at `place`, one key a step, None when nothing does."""
    value: object = event
    for key in place:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def object_at(event: Event, *place: str) -> Event:
    """Return the object at `place`, an empty one when there is none."""
    value = value_at(event, *place)
    return value if isinstance(value, Mapping) else _NOTHING


def objects_at(event: Event, *place: str) -> tuple[Event, ...]:
    """Return the objects of the list at `place`; what else it holds is left out."""
    value = value_at(event, *place)
    return tuple(each for each in value if isinstance(each, Mapping)) if isinstance(value, list) else ()


def text_at(event: Event, *place: str) -> str | None:
    """Return the text at `place`, None when there is none."""
    return as_text(value_at(event, *place))


def as_text(value: object) -> str | None:
    """Return `value` fit to be stored where it is a text, None where it is none."""
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else None


def id_at(event: Event, *place: str) -> str | None:
    """Return the id at `place`, None when there is none or nothing that could be one."""
    value = text_at(event, *place)
    return value if value and len(value) <= ID_CHARS_MAX and value.isprintable() else None


def number_at(event: Event, *place: str) -> float | None:
    """Return the number at `place`, None when there is none, or one that is negative or not finite."""
    value = value_at(event, *place)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= COUNT_MAX and math.isfinite(value) else None


def count_at(event: Event, *place: str) -> int:
    """Return the whole number at `place`, 0 when there is none."""
    return int(number_at(event, *place) or 0)


def status_at(event: Event, *place: str) -> int | None:
    """Return the HTTP status at `place`, None when there is none."""
    number = number_at(event, *place)
    return int(number) if number is not None and 100 <= number <= 599 else None  # noqa: PLR2004 — HTTP's own bounds


class JsonReader(ABC):
    """What all readers of JSON lines share: what they gathered, and how lines become events."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self.usage: Usage | None = None
        self.cost_usd: float | None = None
        self.failure: Failure | None = None
        self.retrying: Failure | None = None
        self.is_over = False
        self.open_tools: set[str] = set()
        self.steps = 0
        self.progress = 0
        self.denied = 0
        self._said: list[str] = []
        self._said_chars = 0

    def line(self, line: bytes, *, is_cut: bool = False) -> None:
        """Take the next line; one that is no event tells nothing."""
        event = event_of(line, is_cut=is_cut)
        if event is not None:
            self.take(event)

    @abstractmethod
    def take(self, event: Event) -> None:
        """Learn from the next event."""

    def heard(self) -> Heard:
        """Return what is known now."""
        return Heard(
            session_id=self.session_id,
            final_text=("".join(self._said) or None) if self.failure is None else None,
            usage=self.usage,
            cost_usd=self.cost_usd,
            failure=self.failure,
            retrying=self.retrying,
            is_over=self.is_over,
            has_open_tool=bool(self.open_tools) and not self.is_over,
            steps=self.steps,
            progress=self.progress,
            denied=self.denied,
        )

    def says(self, text: str | None) -> None:
        """Note what the agent says: its last words, unless it goes on."""
        self._said.clear()
        self._said_chars = 0
        self.goes_on_saying(text)

    def goes_on_saying(self, text: str | None) -> None:
        """Note the next piece of what the agent says."""
        kept = (text or "")[: TEXT_CHARS_MAX - self._said_chars]
        self._said_chars += len(kept)
        if kept:
            self._said.append(kept)

    def works(self, tool: str | None = None) -> None:
        """Note that the agent does something: what it said before were not its last words. `tool` is a call begun."""
        self.says(None)
        if tool is not None:
            self.open_tools.add(tool)

    def lives(self) -> None:
        """Note a sign of life: whatever was tried again went well."""
        self.progress += 1
        self.retrying = None

    def finishes(self) -> None:
        """Note the program's last word, and that it is a good one: what had failed before was overcome."""
        self.is_over = True
        self.failure = None
        self.retrying = None

    def gives_up(self, failure: Failure) -> None:
        """Note the program's last word, and that it failed."""
        self.failure = failure
        self.retrying = None
        self.is_over = True


def _mended(head: str) -> str:
    """Return the beginning of a JSON object as a whole one, if it ends inside a string; else as it is."""
    closing: list[str] = []
    for count, token in enumerate(_TOKEN.finditer(head)):
        if count >= MENDED_TOKENS_MAX:
            break
        match token[0]:
            case "{":
                closing.append("}")
            case "[":
                closing.append("]")
            case "}" | "]":
                del closing[-1:]
            case '"':
                so_far = _STRING_SO_FAR.match(head, token.start())
                assert so_far is not None  # it begins with the quote that was found
                return head[: so_far.end()] + '"' + "".join(reversed(closing))
            case _:
                pass  # a string that has its end
    return head
