"""Histories: the verbs that are acts and bring no text, what stands for text that was taken away, revision prefixes."""

from __future__ import annotations

import re
from typing import Final

from batonpass.core.errors import Invalid
from batonpass.core.ids import shown

DELETE: Final = "delete"
REDACT: Final = "redact"
ACTS: Final = frozenset({DELETE, REDACT})
"""The verbs of entries that say what was done to a node and have no text of it; all others have a revision's text."""
REDACTED: Final = "[redacted]\n"
"""What a history has in place of a text that was taken out of it."""
REASON_CHARS_MAX: Final = 500
PREFIX_HEX_MIN: Final = 8
"""How much of a revision names it; of a node's some hundred, two that begin alike are not to be expected."""
_PREFIX: Final = re.compile(rf"[0-9a-f]{{{PREFIX_HEX_MIN},40}}", re.ASCII)


def parse_revision(text: str, *, field: str = "revision") -> str:
    """Return `text` as a revision or the beginning of one: 8 to 40 lower-case hex digits."""
    if not _PREFIX.fullmatch(text):
        raise Invalid(f"{field}: {shown(text)} is not {PREFIX_HEX_MIN} to 40 lower-case hex digits", field=field)
    return text


def parse_reason(text: str, *, field: str = "reason") -> str:
    """Return why something is done, which is kept for good; there is always one, and it is no essay."""
    if not text.strip():
        raise Invalid(f"{field}: required; say why, since the history keeps it", field=field)
    if len(text) > REASON_CHARS_MAX:
        raise Invalid(f"{field}: {len(text)} code points; the limit is {REASON_CHARS_MAX} code points", field=field)
    return text


def beyond(prefix: str) -> str:
    """Return the first text after all that begin with `prefix`, of hex digits: the open end of a search by index."""
    return prefix + "g"
