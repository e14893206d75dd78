"""What the page about safety lists is what the tests do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from batonpass.testing import game, task_game
from batonpass.testing.ablation import ABLATIONS, Ablation
from batonpass.testing.task_ablation import TASK_ABLATIONS

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "explanation" / "safety.md").read_text()
ROW: Final = re.compile(r"^\| (?P<first>[^|]+) \| (?P<second>[^|]+) \|$", re.MULTILINE)


def rows_under(heading: str) -> dict[str, str]:
    """Return the rows of the table under `heading`, without its head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return {row["first"]: row["second"].strip("`") for row in ROW.finditer(section) if "---" not in row["first"]}


@pytest.mark.parametrize(
    "heading, ablations", [("Each rule is needed", ABLATIONS), ("Each rule of tasks is needed", TASK_ABLATIONS)]
)
def test_each_rule_that_is_listed_is_switched_off_and_finds_what_is_said(
    heading: str, ablations: Mapping[str, Ablation]
) -> None:
    listed = rows_under(heading)
    del listed["rule switched off"]

    assert listed == {rule: ablation.breaks for rule, ablation in ablations.items()}


@pytest.mark.parametrize("heading, played", [("The game", game), ("The game of tasks", task_game)])
def test_each_invariant_that_is_listed_is_checked_and_each_that_is_checked_is_listed(
    heading: str, played: ModuleType
) -> None:
    source = Path(played.__file__ or "").read_text()

    listed = {name.strip("`") for name in rows_under(heading) if name != "invariant"}

    assert listed == played.INVARIANTS
    assert [name for name in listed if f'"{name}"' not in source] == []


@pytest.mark.parametrize("trace, files", [row for row in rows_under("Traces").items() if row[0] != "trace"])
def test_each_trace_is_replayed_where_the_page_says(trace: str, files: str) -> None:
    for file in files.replace("`", "").split(", "):
        replayed = rf"^(async )?def test_{trace.lower()}[a-c]?_"
        assert re.search(replayed, (ROOT / file).read_text(), re.MULTILINE), file
