"""What the page about safety lists is what the tests do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from batonpass.testing import game
from batonpass.testing.ablation import ABLATIONS

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "explanation" / "safety.md").read_text()
ROW: Final = re.compile(r"^\| (?P<first>[^|]+) \| (?P<second>[^|]+) \|$", re.MULTILINE)


def rows_under(heading: str) -> dict[str, str]:
    """Return the rows of the table under `heading`, without its head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {row["first"]: row["second"].strip("`") for row in ROW.finditer(section) if "---" not in row["first"]}


def test_each_rule_that_is_listed_is_switched_off_and_finds_what_is_said() -> None:
    listed = rows_under("Each rule is needed")
    del listed["rule switched off"]

    assert listed == {rule: ablation.breaks for rule, ablation in ABLATIONS.items()}


def test_each_invariant_that_is_listed_is_checked_and_each_that_is_checked_is_listed() -> None:
    source = Path(game.__file__).read_text()

    listed = {name.strip("`") for name in rows_under("The game") if name != "invariant"}

    assert listed == game.INVARIANTS
    assert [name for name in listed if f'"{name}"' not in source] == []


@pytest.mark.parametrize("trace, file", [row for row in rows_under("Traces").items() if row[0] != "trace"])
def test_each_trace_is_replayed_where_the_page_says(trace: str, file: str) -> None:
    assert re.search(rf"^async def test_{trace.lower()}[a-c]?_", (ROOT / file).read_text(), re.MULTILINE)
