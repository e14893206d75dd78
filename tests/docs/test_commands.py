"""README's commands, CI's and the justfile's are the same ones."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
BLOCK: Final = re.compile(r"^```sh\n(.*?)\n```$", re.MULTILINE | re.DOTALL)


def section(markdown: str, heading: str) -> str:
    """Return what stands under a second-level heading."""
    return re.split(r"^## ", markdown.split(f"\n## {heading}\n")[1], flags=re.MULTILINE)[0]


def test_ci_runs_the_test_command_of_the_readme_and_nothing_after_it() -> None:
    command = BLOCK.findall(section((ROOT / "README.md").read_text(), "Test it"))[0]

    last_line = (ROOT / ".ci" / "run").read_text().rstrip().splitlines()[-1]

    assert last_line == command


def test_ci_can_be_started_by_name() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "AGENTS.md"])
def test_each_recipe_a_page_names_is_in_the_justfile(page: str) -> None:
    recipes = set(re.findall(r"^([a-z-]+)(?: \*args)?:", (ROOT / "justfile").read_text(), re.MULTILINE))

    named = set(re.findall(r"\bjust ([a-z]+)\b(?=[`\s])", (ROOT / page).read_text()))

    assert named <= recipes


def test_a_run_in_which_every_test_was_skipped_fails(tmp_path: Path) -> None:
    (tmp_path / "test_skipped.py").write_text("import pytest\n@pytest.mark.skip\ndef test_it(): ...\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", str(tmp_path)]

    ended = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT / "tests")}, capture_output=True, check=False
    )

    assert b"1 skipped" in ended.stdout
    assert ended.returncode == pytest.ExitCode.NO_TESTS_COLLECTED
