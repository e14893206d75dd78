"""Grading a server: the cases of every requirement are tried on it from outside, each in a corner of its own."""

from __future__ import annotations

import linecache
import sys
import tomllib
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from batonpass.conformance.case import Case, cases
from batonpass.conformance.grades import Grade, Graded
from batonpass.conformance.proxy import Record
from batonpass.conformance.world import NotSeen, Server, found

EVIDENCE_MAX: Final = 6
"""How many requests before a failure are shown: the last ones, which led to it."""
_HERE: Final = Path(__file__).parent


@dataclass(frozen=True)
class Requirement:
    """One thing the published protocol asks of a server, in our words, and where it asks."""

    id: str
    source: str
    text: str


@dataclass(frozen=True)
class Tried:
    """What came of a case. `why` names the assertion that did not hold, or what could not be tried."""

    case: Case
    grade: Grade
    why: str
    evidence: tuple[dict[str, Any], ...] = ()


@cache
def requirements() -> tuple[Requirement, ...]:
    """Return every requirement, in the order of the list."""
    text = resources.files("batonpass.conformance").joinpath("requirements.toml").read_text(encoding="utf-8")
    return tuple(Requirement(**each) for each in tomllib.loads(text)["requirement"])


def grade_server(
    server: Server,
    *,
    only: Collection[str] = (),
    numbers: Iterator[int],
    say: Callable[[Tried], object] = lambda _: None,
) -> list[Graded]:
    """Try every case of the requirements named in `only`, of all if none is, and return their grades.

    A case of several requirements fails all of them: which one its failure
    breaks is for the evidence to say. `numbers` gives each case's corner a
    number that no other corner of that server has ever had.
    """
    wanted = [each for each in requirements() if not only or each.id in only]
    ids = {each.id for each in wanted}
    tried: list[Tried] = []
    for case in cases():
        if ids & set(case.requirements):
            tried.append(attempt(case, server, next(numbers)))
            say(tried[-1])
    return [_grade(each, [one for one in tried if each.id in one.case.requirements]) for each in wanted]


def attempt(case: Case, server: Server, number: int) -> Tried:
    """Try one case in a corner of its own; whatever goes wrong in it is its failure."""
    if sys.flags.optimize:
        return Tried(case, Grade.NOT_SEEN, "python -O takes the assertions away that a case is made of")
    record = Record()
    try:
        case.run(found(replace(server, record=record), number))
    except NotSeen as unseen:
        return Tried(case, Grade.NOT_SEEN, str(unseen))
    except Exception as error:  # noqa: BLE001 — an answer of another shape may break a case anywhere
        last = record.exchanges()[-EVIDENCE_MAX:]
        return Tried(case, Grade.FAIL, _where(error), tuple(exchange.told() for exchange in last))
    return Tried(case, Grade.PASS, "")


def _grade(asked: Requirement, tried: list[Tried]) -> Graded:
    for grade in (Grade.FAIL, Grade.NOT_SEEN):
        for each in (one for one in tried if one.grade is grade):
            return Graded(asked.id, asked.text, asked.source, grade, f"{each.case.id}: {each.why}", each.evidence)
    grade = Grade.PASS if tried else Grade.NOT_SEEN
    return Graded(asked.id, asked.text, asked.source, grade, ", ".join(each.case.id for each in tried))


def _where(error: Exception) -> str:
    """Return what went wrong, and at which line of the case."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if _is_case(each.filename)]
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if not frames:
        return said
    frame = frames[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    return f"{said} at cases/{Path(frame.filename).name}:{frame.lineno}: {line}"


def _is_case(filename: str) -> bool:
    return Path(filename).parent == _HERE / "cases"
