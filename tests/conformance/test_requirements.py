"""Each requirement has a test, each test says which it is of, and what tests them is a stranger to our code."""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
OUTSIDE: Final = Path(__file__).parents[2] / "conformance"
REQUIREMENTS: Final = tomllib.loads((OUTSIDE / "requirements.toml").read_text())["requirement"]
DOCUMENTS: Final = ("leases specification", "worker protocol", "task-fields specification", "companion")
TESTS: Final = [path for path in sorted(HERE.glob("test_*.py")) if path != Path(__file__)]


def named(path: Path) -> Iterator[tuple[str, set[str]]]:
    """Yield the tests of a module and the requirements that each names."""
    for function in ast.parse(path.read_text()).body:
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
            marks = [mark for mark in function.decorator_list if isinstance(mark, ast.Call)]
            names = [mark.args for mark in marks if isinstance(mark.func, ast.Name) and mark.func.id == "requirement"]
            yield function.name, {str(arg.value) for args in names for arg in args if isinstance(arg, ast.Constant)}


def imported(path: Path) -> set[str]:
    """Return the packages that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def test_each_requirement_has_a_test_and_each_test_a_requirement() -> None:
    tests = {f"{path.name}::{test}": ids for path in TESTS for test, ids in named(path)}

    assert [test for test, ids in tests.items() if not ids] == []
    assert set().union(*tests.values()) == {requirement["id"] for requirement in REQUIREMENTS}


def test_each_requirement_is_said_once_with_its_source() -> None:
    assert [one for one, count in Counter(each["id"] for each in REQUIREMENTS).items() if count > 1] == []
    for requirement in REQUIREMENTS:
        assert set(requirement) == {"id", "source", "text"}, requirement
        assert requirement["source"].startswith(DOCUMENTS), requirement
        assert requirement["text"].endswith("."), requirement


def test_client_and_worker_know_nothing_but_the_standard_library() -> None:
    for path in OUTSIDE.glob("*.py"):
        assert imported(path) - sys.stdlib_module_names <= {"conformance"}, path.name
    for path in TESTS:
        assert imported(path) - sys.stdlib_module_names <= {"conformance", "pytest"}, path.name
