"""Grades: what a line or a requirement was found to be, and what shows it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Grade(StrEnum):
    """Whether it holds. What nothing was seen of is no pass."""

    PASS = "pass"  # noqa: S105 — a grade
    FAIL = "fail"
    NOT_SEEN = "not seen"


@dataclass(frozen=True)
class Graded:
    """One line of a report: what is asked for, the grade, why, and the requests that show it."""

    id: str
    text: str
    source: str
    grade: Grade
    why: str = ""
    evidence: Sequence[dict[str, Any]] = field(default=())

    def told(self) -> dict[str, object]:
        """Return it as JSON; evidence is given for what does not pass."""
        return {
            "id": self.id,
            "grade": self.grade.value,
            "text": self.text,
            "source": self.source,
            "why": self.why,
            "evidence": list(self.evidence),
        }


def passes(graded: Iterable[Graded]) -> bool:
    """Whether every line passes; no line at all does not."""
    grades = [each.grade for each in graded]
    return bool(grades) and all(grade is Grade.PASS for grade in grades)
