"""The rules a class document is held to, and the findings of one that breaks them (D35).

Every finding is one line that says where it is, which rule is broken, and what
would do: ``class incidents: role remediator: field remediation: claim-without-read: …``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from batonpass.core.errors import Invalid

DOCUMENT_BYTES_MAX: Final = 65_536
FIELDS_MAX: Final = 100
ROLES_MAX: Final = 100
IDENTITIES_MAX: Final = 100
"""How many globs one role has at most."""
CAP_MAX: Final = 100_000
CAP_DEFAULT: Final = 1_000
"""How many items an append holds whose class does not say."""
FINDINGS_MAX: Final = 100
"""How many findings are told at once; a document may be wrong in more places than anybody reads."""


class Rule(StrEnum):
    """What a class document can break, by the name that its finding gives."""

    WRONG_TYPE = "wrong-type"
    UNKNOWN_KEY = "unknown-key"
    MISSING_KEY = "missing-key"
    BAD_NAME = "bad-name"
    OTHER_NAME = "other-name"
    RESERVED_NAME = "reserved-name"
    NO_FIELDS = "no-fields"
    TOO_MANY = "too-many"
    TOO_LARGE = "too-large"
    BAD_TEXT = "bad-text"
    UNKNOWN_TYPE = "unknown-type"
    MISPLACED_KEY = "misplaced-key"
    BAD_CAP = "bad-cap"
    BAD_LEASE = "bad-lease"
    BAD_SCHEMA = "bad-schema"
    REMOTE_REF = "remote-ref"
    RISKY_PATTERN = "risky-pattern"
    NO_IDENTITIES = "no-identities"
    BAD_GLOB = "bad-glob"
    UNKNOWN_FIELD = "unknown-field"
    CLAIM_WITHOUT_READ = "claim-without-read"
    CLAIM_ON_NO_TASK = "claim-on-no-task"
    WRITE_ON_TASK = "write-on-task"
    BAD_YAML = "bad-yaml"
    DUPLICATE_KEY = "duplicate-key"
    ANCHOR = "anchor"
    TAG = "tag"
    AMBIGUOUS = "ambiguous-word"
    FIELD_HOLDS_DATA = "field-holds-data"
    KIND_HOLDS_DATA = "kind-holds-data"
    OTHER_KIND_BEFORE = "other-kind-before"


SchemaFinding = tuple[Rule, str]
"""What is wrong with a JSON Schema, and the rule that it breaks."""


@dataclass(slots=True)
class Findings:
    """What is wrong with one class, in the order it was found."""

    subject: str
    lines: list[str] = field(default_factory=list)

    def add(self, rule: Rule, why: str, *, where: str = "") -> None:
        """Note that `rule` is broken at `where`, such as ``role r: field f``."""
        self.lines.append(": ".join(part for part in (self.subject, where, rule, why) if part))

    def summary(self) -> str:
        """Return the first finding, and how many more there are."""
        first, *rest = self.lines
        return f"{first} (and {len(rest)} more)" if rest else first

    def told(self) -> tuple[str, ...]:
        """Return the findings, as many as are told."""
        return tuple(self.lines[:FINDINGS_MAX])

    def raise_any(self) -> None:
        """Raise `Invalid` with every finding in `details`, if there is one."""
        if self.lines:
            raise self.refusal()

    def refusal(self) -> Invalid:
        """Return the refusal with every finding, of which there is at least one."""
        return Invalid(self.summary(), details=self.told(), field="class")
