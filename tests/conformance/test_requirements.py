"""Each requirement has a case, each case says which it is of, and what tries them is a stranger to our code."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path
from typing import Final

from batonpass import conformance
from batonpass.conformance.case import cases
from batonpass.conformance.servers import requirements

KIT: Final = Path(conformance.__file__).parent
DOCUMENTS: Final = ("leases specification", "worker protocol", "task-fields specification", "companion")


def imported(path: Path) -> set[str]:
    """Return the packages that a module imports, "kit" for what is the kit's own."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return {"kit" if f"{name}.".startswith("batonpass.conformance.") else name.split(".")[0] for name in found}


def test_each_requirement_has_a_case_and_each_case_a_requirement() -> None:
    assert {name for case in cases() for name in case.requirements} == {each.id for each in requirements()}
    assert [case.id for case in cases() if not case.requirements] == []


def test_every_function_of_the_cases_that_takes_a_world_and_returns_nothing_is_a_case() -> None:
    """So that none is left out for want of a mark."""
    functions = set()
    for path in (KIT / "cases").glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns or ast.Constant(0)) == "None":
                names = {arg.arg for arg in node.args.args}
                functions |= {f"{path.stem}.{node.name}"} if names & {"world", "incident"} else set()

    assert functions == {case.id.partition("[")[0] for case in cases()}


def test_each_requirement_is_said_once_with_its_source() -> None:
    assert [one for one, count in Counter(each.id for each in requirements()).items() if count > 1] == []
    for requirement in requirements():
        assert requirement.source.startswith(DOCUMENTS), requirement
        assert requirement.text.endswith("."), requirement


def test_the_kit_knows_nothing_but_the_standard_library() -> None:
    for path in KIT.rglob("*.py"):
        assert imported(path) - sys.stdlib_module_names <= {"kit"}, path.name
