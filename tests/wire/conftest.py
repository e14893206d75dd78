"""Values and readers that break what is written carelessly."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import pytest
import yaml

# Case 74: what the first line of a report may look like; each breaks or changes when it is written bare.
_TEXTS: Final = [
    "fix: a", "- item", "# heading", "@x", "`x`", "%x", '"half', "*x", "&x", "!x", "[x", "{x", "? x", "key: value # c",
    "no", "null", "~", "=", "\ttab", "trailing ", "a\u0085b", "a\u2028b\u2029c", "\ufeffx", "", " ", "---", "...",
    "<<", "'half", "a\\b", "\x1b[31mred\x1b[0m", "\x7f\x9f", "two\nlines\n", "\ufffe\uffff", "🎉", "yes", "y", "On",
]  # fmt: skip

# Case 76: ids that a reader takes for a number, a date or nothing.
_IDS: Final = [
    "01234567", "0b101010", "12345678", "1234e567", "00000000", "0x1A", "22.10", "0192117", "2026-09-30", "1_000",
    "190:20:30", ".5", "1e3", "+1", "0o17", ".inf", ".nan", "True", "off", "n",
]  # fmt: skip


class Yaml12(yaml.SafeLoader):
    """A reader of YAML 1.2's core schema: PyYAML's grammar with the other standard's idea of what is no string."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 — what the base class calls it


for tag, pattern in (
    ("null", r"|~|null|Null|NULL"),
    ("bool", r"true|True|TRUE|false|False|FALSE"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?(\.inf|\.Inf|\.INF)|\.nan|\.NaN|\.NAN"),
):
    Yaml12.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), None)


def read_1_1(text: str) -> object:
    return yaml.load(text, Loader=yaml.FullLoader)  # noqa: S506 — our own text


def read_1_2(text: str) -> object:
    return yaml.load(text, Loader=Yaml12)  # noqa: S506 — our own text


@pytest.fixture(params=[*_TEXTS, *_IDS], ids=ascii)
def hostile(request: pytest.FixtureRequest) -> str:
    """A text that YAML readers take for something else when it is written bare."""
    text: str = request.param
    return text


@pytest.fixture(scope="session")
def yaml_readers() -> tuple[Callable[[str], object], ...]:
    """A reader of YAML 1.1 and one of YAML 1.2, both with all their ideas about scalars."""
    return (read_1_1, read_1_2)
