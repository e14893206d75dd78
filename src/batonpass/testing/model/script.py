"""What a scripted model is asked and what it says, in whatever language: the words all four share.

    request body ──asked()──▶ Asked ──▶ a Turn of the script ──told()──▶ events of a stream

A language (`Speech`) knows nothing of sockets; `batonpass.testing.modelserver`
serves them all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

JsonObject = Mapping[str, object]

TITLE: Final = "A title"
"""What it says to whoever offers it no tools."""
_SHELLS: Final = ("exec_command", "shell_command", "shell", "local_shell", "bash", "Bash", "run_shell_command")
"""What agent programs call the tool that runs a command."""
_COMMAND_KEYS: Final = ("cmd", "command")
_WAIT_KEYS: Final = {"yield_time_ms": 30_000, "initial_wait": 30}
"""How long a tool may wait for its command before the model is asked again: longer than a test's command takes."""


class Fault(StrEnum):
    """How a model's service can fail."""

    RATE_LIMIT = "rate limit"
    BAD_KEY = "bad key"
    NO_CREDIT = "no credit"
    SERVER_ERROR = "server error"
    OVERLOADED = "overloaded"
    HANG_BEFORE = "hang before headers"
    HANG_AFTER = "hang after headers"
    CUT = "stream cut"


@dataclass(frozen=True, slots=True)
class Run:
    """A turn in which the model has its agent run a command in a shell."""

    command: str


@dataclass(frozen=True, slots=True)
class Say:
    """A turn in which the model only speaks; an agent's work ends with it."""

    text: str


Turn = Run | Say


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that a request offers; `properties` and `required` are of its parameters' schema."""

    name: str
    properties: JsonObject = field(default_factory=dict)
    required: tuple[str, ...] = ()

    def arguments(self, command: str) -> dict[str, object]:
        """Return the arguments with which this tool runs `command`, whatever else it insists on."""
        given: dict[str, object] = {name: wait_for for name, wait_for in _WAIT_KEYS.items() if name in self.properties}
        for name in _COMMAND_KEYS:
            if name in self.properties:
                takes_list = as_object(self.properties[name]).get("type") == "array"
                given[name] = ["bash", "-c", command] if takes_list else command
                break
        for name in self.required:
            given.setdefault(name, _anything(as_object(self.properties.get(name))))
        return given


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks: `results` counts the tool calls whose results it brings, `text` is all that was said."""

    tools: tuple[Tool, ...]
    results: int
    streams: bool
    text: str

    @property
    def shell(self) -> Tool | None:
        """The tool that runs commands; a request without one wants words, such as a title."""
        return next((tool for name in _SHELLS for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: its status, its JSON body, and headers beside those every answer has."""

    status: int
    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict)


class Speech(Protocol):
    """One of the languages. `serial` numbers answers, so that no two calls share an id."""

    @property
    def path_end(self) -> str:
        """How the paths end that are asked in it, without the query."""
        ...

    def asked(self, body: JsonObject) -> Asked:
        """Return what a request asks."""
        ...

    def told(self, turn: Turn, asked: Asked, serial: int) -> Iterator[bytes]:
        """Give the events of an answer's stream, each whole; a stream that ends before the last was cut."""
        ...

    def whole(self, turn: Turn, asked: Asked, serial: int) -> JsonObject:
        """Return the same answer for a request that wants no stream."""
        ...

    def refused(self, fault: Fault) -> Answer:
        """Return how the service words a refusal."""
        ...


def said(turn: Turn) -> str:
    """Return the words of a turn; where commands can't be run, words are all there is."""
    return turn.text if isinstance(turn, Say) else TITLE


def retry_headers(status: int) -> dict[str, str]:
    """Return when a refusal may be tried again: soon, so that whoever repeats by itself is through with it."""
    return {"Retry-After": "1"} if status in {429, 500, 503, 529} else {}


def event(data: JsonObject) -> bytes:
    """Return one event of a stream that has no name beside its data."""
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def named(name: str, **fields: object) -> bytes:
    """Return one event of a stream whose name stands before its data as well as in it."""
    return b"event: " + name.encode() + b"\n" + event({"type": name, **fields})


def tool_of(described: JsonObject, schema: object) -> Tool:
    """Return a tool as a request describes it."""
    parameters = as_object(schema)
    required = parameters.get("required")
    names = tuple(str(name) for name in required) if isinstance(required, list) else ()
    return Tool(str(described.get("name", "")), as_object(parameters.get("properties")), names)


def words(value: object) -> str:
    """Return every text in a conversation, one after the other."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(filter(None, (words(each) for each in value.values())))
    if isinstance(value, Sequence):
        return "\n".join(filter(None, (words(each) for each in value)))
    return ""


def as_object(value: object) -> JsonObject:
    """Return `value` where it is an object, else an empty one: a request may be anything."""
    return value if isinstance(value, dict) else {}


def as_objects(value: object) -> list[JsonObject]:
    """Return the objects of a list; none where it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _anything(schema: JsonObject) -> object:
    """Return some value that `schema` takes."""
    match schema:
        case {"enum": [first, *_]}:
            return first
        case {"type": "boolean"}:
            return False
        case {"type": "integer" | "number"}:
            return schema.get("minimum", 1)
        case {"type": "array"}:
            return []
        case {"type": "object"}:
            return {}
        case _:
            return "as scripted"
