"""Text from outside: what no database can hold is replaced and named, never dropped in silence (D16b)."""

from __future__ import annotations

import re
from typing import Final

REPLACEMENT: Final = "\ufffd"
_UNSTORABLE: Final = "\0\ud800-\udfff"
_PRIVATE_USE: Final = range(0xE000, 0xF8FF)


class Cleaner:
    """Replaces NUL and lone surrogates by U+FFFD and keeps a warning for each field it had to touch.

    `mark` is a character that stands for them in a text which has to pass
    through a parser that knows neither; see `marked`.
    """

    def __init__(self, mark: str = "") -> None:
        self.warnings: list[str] = []
        self._pattern = re.compile(f"[{_UNSTORABLE}{mark}]")

    def text(self, text: str, *, field: str) -> str:
        """Return `text` as it can be stored; a replacement is named under `field`."""
        cleaned, count = self._pattern.subn(REPLACEMENT, text)
        if count:
            what = "1 character" if count == 1 else f"{count} characters"
            self.warnings.append(f"{field}: {what} that cannot be stored (NUL or lone surrogates) became U+FFFD")
        return cleaned

    def identifier(self, text: str) -> str:
        """Return `text` with the same replaced in silence: no identifier has U+FFFD, so its own rule refuses it."""
        return self._pattern.sub(REPLACEMENT, text)


def marked(text: str) -> tuple[str, str]:
    """Return `text` with what cannot be stored replaced by one character that it does not hold, and that character.

    A text with nothing to replace comes back as it is, with an empty mark.
    """
    unstorable = re.compile(f"[{_UNSTORABLE}]")
    if not unstorable.search(text):
        return text, ""
    present = set(text)
    mark = next((chr(point) for point in _PRIVATE_USE if chr(point) not in present), REPLACEMENT)
    return unstorable.sub(mark, text), mark


def unix_newlines(text: str) -> str:
    """Return `text` with every CRLF and lone CR as LF: the one form in which bodies are stored."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
