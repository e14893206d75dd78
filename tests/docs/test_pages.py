"""What pages say of the project is so: files, rooms, points, decisions, links."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Final

import pytest

from batonpass.core.points import POINTS

ROOT: Final = Path(__file__).parents[2]
TRACKED: Final = [
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    if name
]
PAGES: Final = sorted(path for path in TRACKED if path.suffix == ".md" and path.exists())
ARCHITECTURE: Final = (ROOT / "ARCHITECTURE.md").read_text()
LINK: Final = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CITED: Final = re.compile(r"\b([DH]\d{1,2}[a-d]?)\b")
ENTRY: Final = re.compile(r"^\| \*\*([DH]\d{1,2}[a-d]?)\*\* \| \S", re.MULTILINE)


def name(path: Path) -> str:
    """Return the path as seen from the root, for a test's id."""
    return str(path.relative_to(ROOT))


def test_each_file_that_architecture_names_exists() -> None:
    source = ROOT / "src" / "batonpass"
    named = set(re.findall(r"`((?:[a-z_.]+/)+[a-z_.]*|[A-Za-z_]+\.(?:py|md|toml))`", ARCHITECTURE))
    assert named, "ARCHITECTURE.md names no file at all: the pattern has gone blind"

    missing = {path for path in named if not (source / path).exists() and not (ROOT / path).exists()}

    assert missing == set()


def test_each_room_has_its_row_and_each_row_its_room() -> None:
    rooms = {
        path.name
        for path in (ROOT / "src" / "batonpass").iterdir()
        if path.is_dir() and (path / "__init__.py").exists()
    }

    assert set(re.findall(r"^\| `([a-z]+)/` \|", ARCHITECTURE, re.MULTILINE)) == rooms


def test_each_named_point_is_listed_and_each_listed_one_is_a_point() -> None:
    section = ARCHITECTURE.split("\n## Named points\n")[1].split("\n## ")[0]

    listed = re.findall(r"`([a-z]+(?:\.[a-z_]+)?)`", "".join(re.findall(r"^\|(.*?)\|", section, re.MULTILINE)))

    assert sorted(listed) == sorted(POINTS), "the table of ARCHITECTURE.md and core/points.py differ"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = [link.partition("#")[0] for link in LINK.findall(page.read_text()) if "://" not in link]

    assert [target for target in targets if target and not (page.parent / target).exists()] == []


def test_each_page_can_be_found_from_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / link.partition("#")[0]).resolve() for link in LINK.findall(index.read_text())}

    assert [name(page) for page in PAGES if ROOT / "docs" in page.parents and page not in {*linked, index}] == []


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = sorted(int(path.name[:4]) for path in (ROOT / "docs" / "decisions").glob("*.md"))

    assert numbers == list(range(1, len(numbers) + 1))


def test_each_decision_and_trace_that_is_cited_has_its_line_in_the_reference() -> None:
    explained = set(ENTRY.findall((ROOT / "docs" / "reference" / "decisions.md").read_text()))
    assert explained >= {"D5", "H3"}, "no line for D5 or H3: the pattern has gone blind"

    cited = {
        (number, name(path))
        for path in TRACKED
        if path.suffix in {".py", ".sql", ".md"} and path.exists()
        for number in CITED.findall(path.read_text())
    }

    assert {(number, place) for number, place in cited if number not in explained} == set()


def test_each_dependency_is_kept_out_of_core() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    imported_as = {"pyyaml": "yaml", "pyjwt": "jwt"}
    names = {re.split(r"[\[<>=~! ]", requirement)[0].lower() for requirement in settings["project"]["dependencies"]} - {
        "pathspec"
    }
    purity = next(
        contract
        for contract in settings["tool"]["importlinter"]["contracts"]
        if contract.get("source_modules") == ["batonpass.core"]
    )

    assert {imported_as.get(each, each.replace("-", "_")) for each in names} <= set(purity["forbidden_modules"])


def test_each_dependency_has_its_reason() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    names = {re.split(r"[\[<>=~! ]", requirement)[0] for requirement in settings["project"]["dependencies"]}
    page = (ROOT / "docs" / "explanation" / "libraries.md").read_text()

    explained = set(re.findall(r"[\w-]+", " ".join(re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE))))

    assert names - explained == set()


def test_the_dev_group_and_the_dev_extra_are_one_list() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert settings["dependency-groups"]["dev"] == settings["project"]["optional-dependencies"]["dev"]
