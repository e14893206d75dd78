"""Identity globs: whom a role is for (D35).

A glob is an identity in whose last segment `*` may stand for any characters.
Segments are parted by `/` after the colon, and `*` never reaches over one, so
`apikey:fleet/*` is every key of the fleet, and none of `fleet/east/1`.
"""

from __future__ import annotations

import re
from typing import Final

from batonpass.core.identity import AGENT_PREFIX, PERSON_PREFIX
from batonpass.core.records import Identity

STAR: Final = "*"
KINDS: Final = ("agent", "person", "apikey", "sa")
PREFIXES: Final = {"agent": AGENT_PREFIX, "person": PERSON_PREFIX}
GLOB_CHARS_MAX: Final = 200
_SEGMENT: Final = re.compile(r"[A-Za-z0-9._*-]+", re.ASCII)


def matches(glob: str, identity: Identity) -> bool:
    """Whether `identity` is one of those that `glob` means. It costs the length of both, whatever the glob."""
    head, *parts = glob.split(STAR)
    if not parts:
        return head == identity
    if not identity.startswith(head):
        return False
    *inner, tail = parts
    rest = identity[len(head) :]
    if "/" in rest or not rest.endswith(tail):
        return False
    rest = rest[: len(rest) - len(tail)]
    for part in inner:
        place = rest.find(part)
        if place < 0:
            return False
        rest = rest[place + len(part) :]
    return True


def what_is_wrong(glob: str) -> str | None:
    """Return why `glob` is none, or means nobody, and what would do; None when it is one (D35)."""
    kind, colon, rest = glob.partition(":")
    if not colon or kind not in KINDS:
        return f"begins with {', '.join(f'{each}:' for each in KINDS)}, and then says who"
    if len(glob) > GLOB_CHARS_MAX:
        return f"{len(glob)} characters; the limit is {GLOB_CHARS_MAX}"
    *heads, last = rest.split("/")
    if any(STAR in head for head in heads):
        return "* stands in the last segment only"
    if "**" in last:
        return "** is no glob; * means any characters of the last segment"
    if not all(_SEGMENT.fullmatch(segment) for segment in (*heads, last)):
        return "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"
    return _shape(kind, heads, last)


def _shape(kind: str, heads: list[str], last: str) -> str | None:
    if kind == "sa":
        return None if len(heads) == 1 else "a service account is sa:<namespace>/<name>"
    if kind == "apikey":
        return None
    prefix = PREFIXES[kind]
    fixed = last.partition(STAR)[0]
    if heads or not (fixed.startswith(prefix) or (prefix.startswith(fixed) and STAR in last)):
        return f"means nobody: it is {kind}:<id>, and the id of every {kind} begins with {prefix}"
    return None
