"""Prompts of a person's own making: a text with names in double braces that are filled in (companion 9.4).

A name that we don't have is refused, with those that we have, before anything
is started: a prompt with a hole in it is worse than none. What is filled in is
never looked at again, so that no text of the graph can name a placeholder.
Braces around anything that is not a name stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from batonpass.worker.errors import LaunchRefused

PLACEHOLDERS: Final[Mapping[str, str]] = {
    "brief": "what is known around the item",
    "task": "the task, with the instructions that were given",
    "node": "the item's own text, quoted",
    "id": "the item's id",
    "title": "its title, in quotation marks",
    "summary": "its summary, in quotation marks",
    "type": "its type",
    "status": "its status",
    "date": "its date",
    "slug": "the project's slug",
    "dir": "the folder that the run works in",
    "default": "the whole prompt as it is without a template",
}
"""Every name that can be filled in, and what it stands for."""
BYTES_MAX: Final = 256 * 1024
_NAMED: Final = re.compile(r"\{\{[ \t]*([A-Za-z_][A-Za-z0-9_-]*)[ \t]*\}\}")


def read(path: Path) -> str:
    """Return the template in a file, checked; `LaunchRefused` when it can't be read or names what we don't have."""
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise LaunchRefused(f"the template {path} can't be read: {error.strerror}") from error
    if len(data) > BYTES_MAX:
        raise LaunchRefused(f"the template {path} is longer than {BYTES_MAX // 1024} KiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise LaunchRefused(f"the template {path} is not UTF-8: byte {error.start + 1}") from error
    check(text, source=str(path))
    return text


def check(template: str, *, source: str) -> None:
    """Raise `LaunchRefused` when `template` names a placeholder that there is not, or says nothing at all."""
    if not template.strip():
        raise LaunchRefused(f"the template {source} is empty")
    if unknown := [name for name in _NAMED.findall(template) if name not in PLACEHOLDERS]:
        named = ", ".join(f"{{{{{name}}}}}" for name in dict.fromkeys(unknown))
        raise LaunchRefused(f"the template {source} names {named}; there are only {', '.join(PLACEHOLDERS)}")


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return `template` with each placeholder replaced by its value, once; `values` has all of them."""
    return _NAMED.sub(lambda found: values[found[1]], template)
