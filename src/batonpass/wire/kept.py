"""Reading a node's past from its text: for an import that keeps who wrote it and when (D12, D16b)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from batonpass.core.errors import Invalid, InvalidNode
from batonpass.core.identity import parse_agent_id, parse_person_id
from batonpass.core.ids import Instant, parse_label, shown
from batonpass.core.kept import Kept
from batonpass.core.nodes import VALUE_CHARS_MAX, Attribution, Stamp

T = TypeVar("T")

WAY_OUT: Final = "; an import that does not keep attribution ignores it"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def kept(stamped: Mapping[str, object]) -> Kept:
    """Return what the keys that only a server writes say; `InvalidNode` has everything that cannot be read."""
    past = _Past(stamped)
    found = Kept(
        attribution=past.attribution(),
        created_at=past.read("created_at", _instant),
        updated_at=past.read("updated_at", _instant),
        priority=past.stamp("priority"),
        readiness=past.stamp("readiness"),
    )
    if past.findings:
        raise InvalidNode(past.findings[0], details=past.findings, field=past.findings[0].partition(":")[0])
    return found


class _Past:
    """The stamped keys of one node, and what was found wrong with them."""

    def __init__(self, stamped: Mapping[str, object]) -> None:
        self._stamped = stamped
        self.findings: list[str] = []

    def read(self, key: str, parse: Callable[[str, str], T]) -> T | None:
        """Return what `parse` makes of a key, None when it is not there; what it refuses is a finding."""
        value = self._stamped.get(key)
        if value is None or value == "":
            return None
        try:
            return parse(value if isinstance(value, str) else repr(value), key)
        except Invalid as refusal:
            self.findings.append(refusal.message + WAY_OUT)
            return None

    def attribution(self) -> Attribution | None:
        author = self.read("author", lambda text, key: parse_person_id(text, field=key))
        agent = self.read("authored_by_agent", lambda text, key: parse_agent_id(text, field=key))
        session = self.read("session", lambda text, key: parse_label(text, field=key))
        via = self.read("authored_via", lambda text, key: parse_label(text, field=key))
        return None if author is None else Attribution(author, via or "", agent, session)

    def stamp(self, name: str) -> Stamp | None:
        by = self.read(f"{name}_by", _name)
        at = self.read(f"{name}_at", _instant)
        via = self.read(f"{name}_via", lambda text, key: parse_label(text, field=key))
        return None if by is None or at is None else Stamp(by, at, via or "")


def _instant(text: str, key: str) -> Instant:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None or found < _EPOCH:
        raise Invalid(f"{key}: {shown(text)} is not a time with an offset, as 2026-10-01T22:05:36+00:00", field=key)
    return Instant((found - _EPOCH) // timedelta(microseconds=1))


def _name(text: str, key: str) -> str:
    if not text.isprintable() or len(text) > VALUE_CHARS_MAX:
        raise Invalid(f"{key}: is not a name of at most {VALUE_CHARS_MAX} printable characters", field=key)
    return text
