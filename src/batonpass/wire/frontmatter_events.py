"""The parser of front matter: YAML's events, taken one by one, and whatever D12 has no use for refused by its line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NoReturn, TypeVar

import yaml

from batonpass.core.errors import InvalidNode
from batonpass.core.ids import shown
from batonpass.wire.frontmatter import Entry, Item

T = TypeVar("T")
E = TypeVar("E", bound=yaml.Event)

FIRST_LINE: Final = 2
"""Where front matter begins in its file: after the opening line."""


def document(text: str) -> dict[str, Entry]:
    """Return the keys of front matter, in order; `InvalidNode` names the line that cannot be read."""
    try:
        return _document(text)
    except yaml.YAMLError as error:
        _refuse_unreadable(error)


def _document(text: str) -> dict[str, Entry]:
    events = _Events(text)
    events.take(yaml.StreamStartEvent)
    if isinstance(events.next, yaml.StreamEndEvent):
        return {}
    match events.next:
        case yaml.DocumentStartEvent(version=None, tags=None):
            events.take(yaml.DocumentStartEvent)
        case _:
            events.refuse("directives are not read")
    if not isinstance(events.next, yaml.MappingStartEvent):
        events.refuse("this must be keys and values")
    found = events.mapping(_entry)
    events.take(yaml.DocumentEndEvent)
    if not isinstance(events.next, yaml.StreamEndEvent):
        events.refuse("a second document begins")
    return found


class _Events:
    """The parser's events, one ahead, with every construct refused that front matter does not have."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=yaml.CBaseLoader)
        self.next = next(self._events)

    def take(self, kind: type[E]) -> E:
        """Return the next event, which the caller knows to be of `kind`."""
        event = self.next
        assert isinstance(event, kind), event
        self.next = next(self._events)
        return event

    def scalar(self) -> str:
        """Return the next value as text."""
        self._check()
        if not isinstance(self.next, yaml.ScalarEvent):
            self.refuse("nested deeper than a list of edges")
        return self.take(yaml.ScalarEvent).value

    def sequence(self, item: Callable[[_Events], T]) -> list[T]:
        """Return the next value as a list of what `item` reads."""
        self._check()
        self.take(yaml.SequenceStartEvent)
        items = []
        while not isinstance(self.next, yaml.SequenceEndEvent):
            items.append(item(self))
        self.take(yaml.SequenceEndEvent)
        return items

    def mapping(self, value: Callable[[_Events], T]) -> dict[str, T]:
        """Return the next value as keys and what `value` reads."""
        self._check()
        self.take(yaml.MappingStartEvent)
        found: dict[str, T] = {}
        while not isinstance(self.next, yaml.MappingEndEvent):
            line = self._line()
            key = self.scalar()
            if key in found:
                self.refuse(f"the key {shown(key)} stands twice", line)
            if key == "<<":
                self.refuse("merge keys are not read", line)
            found[key] = value(self)
        self.take(yaml.MappingEndEvent)
        return found

    def refuse(self, why: str, line: int | None = None) -> NoReturn:
        """Raise `InvalidNode` for `line`, else for the line of the next event."""
        raise _refusal(self._line() if line is None else line, why)

    def _line(self) -> int | None:
        mark = self.next.start_mark
        return None if mark is None else mark.line

    def _check(self) -> None:
        match self.next:
            case yaml.AliasEvent():
                self.refuse("aliases are not read; quote a text that begins with *")
            case yaml.NodeEvent(anchor=str()):
                self.refuse("anchors are not read; quote a text that begins with &")
            case yaml.ScalarEvent(tag=str()) | yaml.CollectionStartEvent(tag=str()):
                self.refuse("tags are not read; quote a text that begins with !")
            case _:
                pass


def _entry(events: _Events) -> Entry:
    match events.next:
        case yaml.SequenceStartEvent():
            return events.sequence(_item)
        case yaml.MappingStartEvent(flow_style=True):
            return events.mapping(_Events.scalar)
        case _:
            return events.scalar()


def _item(events: _Events) -> Item:
    match events.next:
        case yaml.MappingStartEvent():
            return events.mapping(_Events.scalar)
        case yaml.SequenceStartEvent(flow_style=True):
            return events.sequence(_Events.scalar)
        case _:
            return events.scalar()


def _refuse_unreadable(error: yaml.YAMLError) -> NoReturn:
    line = getattr(getattr(error, "problem_mark", None), "line", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
    raise _refusal(line if isinstance(line, int) else None, f"{problem}; quote texts") from error


def _refusal(line: int | None, why: str) -> InvalidNode:
    where = "front matter" if line is None else f"front matter, line {line + FIRST_LINE}"
    finding = f"{where}: {why}"
    return InvalidNode(finding, details=(finding,), field="front matter")
