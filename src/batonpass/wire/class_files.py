"""A class document as a file: YAML of the plainest kind, or JSON, which is such YAML.

What two readers of YAML would not read alike is refused, with its line: a key
that stands twice, anchors, aliases, merge keys and tags, directives, a second
document, and words that are no text to some of them (`yes`, `on`, `0x10`,
`5:00`, a date). Text, numbers, `true`, `false` and `null` are what JSON has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, NoReturn, TypeVar

import yaml

from batonpass.core.class_documents import Document
from batonpass.core.class_rules import Findings, Rule
from batonpass.core.ids import shown

E = TypeVar("E", bound=yaml.Event)
Value = object

FILE_BYTES_MAX: Final = 262_144
"""The largest file that is read: YAML may say in four bytes what JSON says in one."""
DEPTH_MAX: Final = 100
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,99})(?P<part>\.\d{1,100})?(?P<power>[eE][+-]?\d{1,3})?", re.ASCII)
_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None, "": None}
_MORE: Final = re.compile(r"[yYnN]|0o[0-7]+|[-+]?(?:\.\d+|\d[\d_]*\.?\d*)(?:[eE][-+]?\d+)?", re.ASCII)
"""What other readers take for something besides what the library's own does: YAML 1.1 in full, and YAML 1.2."""
_STR: Final = "tag:yaml.org,2002:str"


class _Stop(Exception):  # it ends the reading, and is no error of its own
    """The rest of the file cannot be read."""


def read_document(raw: bytes, *, file: str) -> Document:
    """Return the document in a file called `file`; `Invalid` has every finding in `details`, each with its line."""
    reading = _Reading(file)
    try:
        return reading.document(raw)
    except _Stop:
        raise reading.findings.refusal() from None


def write_document(document: Mapping[str, object]) -> str:
    """Return a document as YAML that `read_document` reads as the same."""
    return yaml.dump(
        document, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=100, default_flow_style=None
    )


class _Reading:
    """One file on its way to a document. What is wrong is noted, and the rest read on as far as it can be."""

    def __init__(self, file: str) -> None:
        self.findings = Findings(f"file {file}")
        self._path: list[str] = []
        self._events: Iterator[yaml.Event] = iter(())

    def document(self, raw: bytes) -> Document:
        """Return what the file says, or raise with all that was found."""
        if len(raw) > FILE_BYTES_MAX:
            self._stop(Rule.TOO_LARGE, f"{len(raw)} bytes; the limit is {FILE_BYTES_MAX} bytes")
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._stop(Rule.BAD_YAML, f"not UTF-8: {error.reason} at byte {error.start}")
        try:
            value = self._only_document(text)
        except yaml.YAMLError as error:
            self._refuse_unreadable(error)
        if not isinstance(value, dict):
            self._stop(Rule.WRONG_TYPE, "a class is a mapping, with its fields and roles")
        self.findings.raise_any()
        return value

    def _only_document(self, text: str) -> Value:
        self._events = yaml.parse(text, Loader=yaml.CBaseLoader)
        next(self._events)
        opening = next(self._events)
        if isinstance(opening, yaml.StreamEndEvent):
            self._stop(Rule.BAD_YAML, "nothing stands in it")
        if isinstance(opening, yaml.DocumentStartEvent) and (opening.version or opening.tags):
            self._note(opening, Rule.BAD_YAML, "directives are not read")
        value = self._value(next(self._events))
        next(self._events)
        if isinstance(more := next(self._events), yaml.DocumentStartEvent):
            self._note(more, Rule.BAD_YAML, "a second document begins; one file is one class")
        return value

    def _value(self, event: yaml.Event) -> Value:
        if len(self._path) > DEPTH_MAX:
            self._stop(Rule.BAD_YAML, f"nested more than {DEPTH_MAX} deep")
        self._refuse_clever(event)
        match event:
            case yaml.ScalarEvent():
                return self._scalar(event)
            case yaml.SequenceStartEvent():
                return self._sequence()
            case yaml.MappingStartEvent():
                return self._mapping()
            case _:
                return None

    def _refuse_clever(self, event: yaml.Event) -> None:
        match event:
            case yaml.AliasEvent():
                self._note(event, Rule.ANCHOR, 'aliases are not read; a text that begins with * is quoted, as "*"')
            case yaml.NodeEvent(anchor=str()):
                self._note(event, Rule.ANCHOR, "anchors are not read; a text that begins with & is quoted")
            case yaml.ScalarEvent(tag=str()) | yaml.CollectionStartEvent(tag=str()):
                self._note(event, Rule.TAG, "tags are not read; a text that begins with ! is quoted")
            case _:
                pass

    def _scalar(self, event: yaml.ScalarEvent) -> Value:
        text: str = event.value
        if not _is_plain(event) or reads_as_text(text):
            return text
        if text in _WORDS:
            return _WORDS[text]
        if number := _NUMBER.fullmatch(text):
            if number["part"] is None and number["power"] is None:
                return int(text)
            if math.isfinite(value := float(text)):
                return value
        self._note(
            event, Rule.AMBIGUOUS, f"{shown(text)} is not text to every reader of YAML; quote it, or use {_JSON}"
        )
        return text

    def _sequence(self) -> list[Value]:
        items: list[Value] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            self._path.append(str(len(items)))
            items.append(self._value(event))
            self._path.pop()
        return items

    def _mapping(self) -> Document:
        found: Document = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event)
            self._path.append(key)
            if key in found:
                self._note(event, Rule.DUPLICATE_KEY, f"the key {shown(key)} stands twice")
            value = self._value(next(self._events))
            self._path.pop()
            found.setdefault(key, value)
        return found

    def _key(self, event: yaml.Event) -> str:
        self._refuse_clever(event)
        if not isinstance(event, yaml.ScalarEvent):
            self._note(event, Rule.WRONG_TYPE, "a key is text")
            self._stop_reading()
        text: str = event.value
        if _is_plain(event) and not reads_as_text(text):
            self._note(event, Rule.AMBIGUOUS, f"the key {shown(text)} is not text to every reader of YAML; quote it")
        return text

    def _note(self, event: yaml.Event, rule: Rule, why: str) -> None:
        mark = event.start_mark
        line = "" if mark is None else f"line {mark.line + 1}"
        self.findings.add(rule, why, where=", ".join(part for part in (line, ".".join(self._path)) if part))

    def _stop(self, rule: Rule, why: str) -> NoReturn:
        self.findings.add(rule, why)
        self._stop_reading()

    def _stop_reading(self) -> NoReturn:
        raise _Stop

    def _refuse_unreadable(self, error: yaml.YAMLError) -> NoReturn:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not readable"
        where = "" if mark is None else f"line {mark.line + 1}"
        self.findings.add(Rule.BAD_YAML, f'{problem}; quote texts that have marks of YAML in them, as "*"', where=where)
        raise _Stop from error


_JSON: Final = "true, false, null or a number of JSON"


def _is_plain(event: yaml.ScalarEvent) -> bool:
    return event.style in (None, "")


def reads_as_text(text: str) -> bool:
    """Whether `text` is text to every reader of YAML where it stands without quotes."""
    return text not in _WORDS and _NUMBER.fullmatch(text) is None and not _is_ambiguous(text)


def _is_ambiguous(text: str) -> bool:
    tag: str = _resolver().resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # as its stubs are
    return tag != _STR or _MORE.fullmatch(text) is not None


@cache
def _resolver() -> yaml.resolver.Resolver:
    return yaml.resolver.Resolver()


@cache
def _dumper() -> type[yaml.SafeDumper]:
    class Dumper(yaml.SafeDumper):
        """Quotes every text that some reader would not take for text, and shares nothing by anchors."""

        def ignore_aliases(self, data: object) -> bool:
            del data
            return True

    def text(dumper: yaml.SafeDumper, data: str) -> yaml.ScalarNode:
        plain = reads_as_text(data) and data.isprintable()  # some line ends of YAML's would be read as blanks
        return dumper.represent_scalar(_STR, data, style=None if plain else '"')

    Dumper.add_representer(str, text)
    return Dumper
