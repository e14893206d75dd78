"""The page that lists what is graded says what the kit has; with ``BATON_WRITE_DOCS=1`` it is made anew here."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from batonpass.conformance.lines import LINES
from batonpass.conformance.scenarios import SCENARIOS
from batonpass.conformance.servers import requirements

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "conformance.md"
ABOUT: Final = """# Conformance

What `baton conformance` grades ([Check a worker, or a server](../howto/check-a-worker.md)). This page is made from the
kit's own lists. A grade is `pass`, `fail`, or `not seen` where nothing happened by which to judge, which is no pass.
"""
NOT_GRADED: Final = """## What is not graded

* Declared capabilities and the publishing of them, which the protocol leaves to each worker.
* Controllers' completion, gates and integration: a worker without a factory has none.
* Binding a session late: whether a worker's harness has one is its own affair.
* A run's record on disk, which is the reference client's.
* That a worker whose lease was lost to somebody else writes nothing any more: the checklist does not ask for it.
* A case of several requirements that fails, fails all of them: its evidence says which one was broken.
"""


def test_the_page_lists_every_line_scenario_and_requirement() -> None:
    page = _page()
    if os.environ.get("BATON_WRITE_DOCS"):
        PAGE.write_text(page)

    assert PAGE.read_text() == page, "run: BATON_WRITE_DOCS=1 pytest tests/conformance/test_pages.py"


def test_each_line_names_scenarios_that_there_are_and_each_scenario_is_looked_at() -> None:
    assert {name for line in LINES for name in line.scenarios} == {scenario.id for scenario in SCENARIOS}


def _page() -> str:
    lines = _table(
        ("line", "asked for", "by", "looked at in"),
        ((f"`{each.id}`", each.text, each.source, _places(each.scenarios)) for each in LINES),
    )
    scenarios = _table(("scenario", "what happens"), ((f"`{each.id}`", each.words) for each in SCENARIOS))
    asked = _table(("requirement", "asked for", "by"), ((f"`{e.id}`", e.text, e.source) for e in requirements()))
    return "\n".join(
        [
            ABOUT,
            f"## The lines of a worker\n\n{lines}",
            f"## The scenarios\n\n{scenarios}",
            f"## The requirements of a server\n\n{asked}",
            NOT_GRADED,
        ]
    )


def _places(scenarios: tuple[str, ...]) -> str:
    return "all" if len(scenarios) == len(SCENARIOS) else ", ".join(f"`{each}`" for each in scenarios)


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    told = [" | ".join(cell.replace("|", "\\|") for cell in row) for row in (heads, ("---",) * len(heads), *rows)]
    return "".join(f"| {row} |\n" for row in told)
