"""What several commands take: the options of all of them, and arguments that are checked before anything is sent."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final, TypeVar

from cyclopts import Parameter, Token

from batonpass.core.durations import parse_duration
from batonpass.core.errors import Invalid
from batonpass.core.identity import parse_agent_id, parse_person_id
from batonpass.core.ids import AgentId, NodeId, PersonId, parse_label, parse_node_id
from batonpass.core.keys import KeyName, parse_key_name

T = TypeVar("T")


@Parameter(name="*")
@dataclass(frozen=True, slots=True)
class Common:
    """Options of every command that asks a server."""

    server: str | None = None
    """the server's address; otherwise BATON_SERVER, then config.json, then this machine's own database."""

    json: Annotated[bool, Parameter(negative=(), show_default=False)] = False
    """print the answer as the one JSON document it came as."""


COMMON: Final = Common()
COUNT_CHARS_MAX: Final = 9
"""As many digits as anybody counts to here."""
STDIN: Final = "-"
"""What stands for standard input where a text or a file is given."""
Flag = Annotated[bool, Parameter(negative=(), show_default=False)]
"""An option that is there or not."""


def checked(parse: Callable[..., T], token: Token, field: str) -> T:
    """Return what `parse` makes of an argument; what is wrong with it is the command line's error."""
    try:
        return parse(token.value, field=field)
    except Invalid as error:
        raise ValueError(error.message.removeprefix(f"{field}: ")) from error


def read_text(argument: str) -> str:
    """Return the text of an argument, or of standard input for ``-``; bytes that are no text become U+FFFD."""
    raw = sys.stdin.buffer.read() if argument == STDIN else os.fsencode(argument)
    return raw.decode(errors="replace")


def read_file(name: str) -> bytes:
    """Return what a file holds, or standard input for ``-``; `OSError` when it can't be read."""
    return sys.stdin.buffer.read() if name == STDIN else Path(name).read_bytes()


def _node(_type: object, tokens: Sequence[Token]) -> NodeId:
    return checked(parse_node_id, tokens[0], "id")


def _label(_type: object, tokens: Sequence[Token]) -> str:
    return checked(parse_label, tokens[0], "value")


def _person(_type: object, tokens: Sequence[Token]) -> PersonId:
    return checked(parse_person_id, tokens[0], "id")


def _agent(_type: object, tokens: Sequence[Token]) -> AgentId:
    return checked(parse_agent_id, tokens[0], "id")


def _key(_type: object, tokens: Sequence[Token]) -> KeyName:
    return checked(parse_key_name, tokens[0], "name")


def _duration(_type: object, tokens: Sequence[Token]) -> timedelta:
    return checked(parse_duration, tokens[0], "duration")


def _count(_type: object, tokens: Sequence[Token]) -> int:
    text = tokens[0].value
    if not text.isascii() or not text.isdigit() or not 0 < int(text[: COUNT_CHARS_MAX + 1]) < 10**COUNT_CHARS_MAX:
        raise ValueError(f"{text!r} is not a whole number from 1 on, of at most {COUNT_CHARS_MAX} digits")
    return int(text)


def _file(_type: object, tokens: Sequence[Token]) -> Path:
    path = Path(tokens[0].value)
    try:
        path.exists()
    except OSError as error:  # too long a name, or a folder that may not be looked into
        raise ValueError(error.strerror or str(error)) from error
    return path


Node = Annotated[NodeId, Parameter(converter=_node)]
"""A node's id."""
PersonArg = Annotated[PersonId, Parameter(converter=_person)]
"""A person's id."""
AgentArg = Annotated[AgentId, Parameter(converter=_agent)]
"""An agent's id."""
KeyArg = Annotated[KeyName, Parameter(converter=_key)]
"""An API key's name."""
TextArg = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""A text, or - for standard input; see `read_text`."""
Count = Annotated[int, Parameter(converter=_count, allow_leading_hyphen=True)]
"""How many of something, at least one."""
FileArg = Annotated[Path, Parameter(converter=_file)]
"""A file's name, whether it is there or not."""
Label = Annotated[str, Parameter(converter=_label)]
"""A session or a dispatch nonce."""
Duration = Annotated[timedelta, Parameter(converter=_duration)]
"""A duration such as 90s, 1.5h or 7d."""
