"""The page of guarantees names tests; each of them is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reference" / "guarantees.md"
NAMED: Final = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")


def test_each_test_that_the_guarantees_name_is_there() -> None:
    named = NAMED.findall(PAGE.read_text())
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).exists()
        or (test and not re.search(rf"^(?:async )?def {test}\(", (ROOT / path).read_text(), re.MULTILINE))
    ]

    assert missing == []
    assert len(named) > 30


def test_each_promise_has_a_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| **")]

    assert len(rows) > 15
    assert [row for row in rows if not NAMED.search(row)] == []
