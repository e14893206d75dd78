"""Front matter: the small part of YAML in which a node's keys are written (D12).

Reading takes every scalar as the string it is written as. What could make two
readers differ, or one reader do more than read, is refused: anchors, aliases,
tags, merge keys, duplicate keys, directives, several documents, and nesting
deeper than a list of edges.

Writing quotes every scalar that is not a plain lower-case word, so that a
YAML 1.1 and a YAML 1.2 reader both get the same string back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NoReturn, TypeVar

import yaml

from batonpass.core.errors import InvalidNode
from batonpass.core.ids import shown

T = TypeVar("T")
E = TypeVar("E", bound=yaml.Event)

Item = str | dict[str, str] | list[str]
Entry = str | dict[str, str] | list[Item]
"""What a key may hold: a scalar, a list of scalars or of edges. Other shapes are read so that they can be named."""

Pair = tuple[str, str | Sequence[str] | Sequence[Mapping[str, str]]]
"""A key and what is written under it: a scalar, a list of scalars, or edges."""

FIRST_LINE: Final = 2
"""Where front matter begins in its file: after the opening line."""

_BARE: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_WORDS_1_1: Final = frozenset("y n yes no on off true false null".split())
"""Lower-case words that a YAML 1.1 reader takes for a boolean or for nothing."""
_ESCAPED: Final = re.compile('["\\\\\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]')
_SHORT: Final = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_TEXT_LINE: Final = re.compile(r"(?P<key>title|summary):[ \t]+(?P<text>\S.*)")
_PLAIN: Final = re.compile(r"(?![\[\]{}@`%,#>|\"']|[-?](?: |$))(?!.*(?:: | #|\t#|[\x85\u2028\u2029]|:$)).*", re.DOTALL)
"""A bare text that every reader takes for itself."""
_QUOTED: Final = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')(?:\s+#.*)?""")
_BLOCK: Final = re.compile(r"[|>][-+0-9]{0,2}(?:\s+#.*)?")
_REFUSED_FIRST: Final = "&*!"
"""What begins an anchor, an alias or a tag: refused wherever it stands (D12), with the advice to quote."""
_TABS: Final = re.compile(r"^\t[ \t]*", re.MULTILINE)


def load(text: str) -> tuple[dict[str, Entry], list[str]]:
    """Return the keys of front matter, in order, and warnings; `InvalidNode` names the line that cannot be read.

    The published format does not ask for quotes. In a title or a summary a
    colon, a number sign or a bracket is nothing but text, whatever YAML makes
    of it: it is taken as it stands, and warned about. So is indentation by
    tabs, of which YAML knows nothing.
    """
    repaired, keys = _with_texts_quoted(_TABS.sub("    ", text))
    try:
        found = _document(repaired)
    except yaml.YAMLError as error:
        _refuse_unreadable(error)
    return found, [f"{key}: is not quoted, and YAML reads it otherwise; taken as the text it is" for key in keys]


def dump(entries: Iterable[Pair]) -> str:
    """Return front matter, one line a key and one line an edge; a key without a value is left out."""
    return "".join(_lines(entries))


def scalar(text: str) -> str:
    """Return `text` as a scalar that YAML 1.1 and 1.2 both read as that string."""
    if _BARE.fullmatch(text) and text not in _WORDS_1_1:
        return text
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _lines(entries: Iterable[Pair]) -> Iterator[str]:
    for key, value in entries:
        if isinstance(value, str):
            yield f"{key}: {scalar(value)}\n"
        elif value and all(isinstance(item, str) for item in value):
            yield f"{key}: [{', '.join(scalar(item) for item in value if isinstance(item, str))}]\n"
        elif value:
            yield f"{key}:\n"
            for item in value:
                assert isinstance(item, Mapping)
                yield f"  - {{{', '.join(f'{scalar(name)}: {scalar(inner)}' for name, inner in item.items())}}}\n"


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    return _SHORT.get(char) or f"\\u{ord(char):04x}"


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


def _with_texts_quoted(text: str) -> tuple[str, list[str]]:
    """Return `text` with each title and summary quoted that YAML would misread, on as many lines, and their keys."""
    lines = text.split("\n")
    quoted: list[str] = []
    at = 0
    while at < len(lines):
        end = at + 1
        if (match := _TEXT_LINE.fullmatch(lines[at])) is not None:
            while end < len(lines) and lines[end][:1] == " " and lines[end].strip():
                end += 1
            if (meant := _meant([match["text"], *lines[at + 1 : end]])) is not None:
                quoted.append(match["key"])
                lines[at:end] = [f"{match['key']}: {scalar(meant)}", *[""] * (end - at - 1)]
        at = end
    return "\n".join(lines), quoted


def _meant(lines: Sequence[str]) -> str | None:
    """Return the text that a title or summary on these lines is, or None when YAML reads it, or is to refuse it."""
    first = lines[0]
    if first[0] in _REFUSED_FIRST or _BLOCK.fullmatch(first.rstrip()):
        return None
    whole = " ".join(line.strip() for line in lines)
    if _PLAIN.fullmatch(whole) or _QUOTED.fullmatch(whole):
        return None
    outer = whole[0]
    return whole[1:-1] if outer in "\"'" and whole[-1] == outer and len(whole) > 1 else whole


def _refuse_unreadable(error: yaml.YAMLError) -> NoReturn:
    line = getattr(getattr(error, "problem_mark", None), "line", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
    raise _refusal(line if isinstance(line, int) else None, f"{problem}; quote texts") from error


def _refusal(line: int | None, why: str) -> InvalidNode:
    where = "front matter" if line is None else f"front matter, line {line + FIRST_LINE}"
    finding = f"{where}: {why}"
    return InvalidNode(finding, details=(finding,), field="front matter")
