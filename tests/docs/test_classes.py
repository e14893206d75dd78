"""The page about classes, against the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from batonpass.cli.class_files import ENDINGS
from batonpass.cli.serve import CLASSES
from batonpass.core import class_rules, class_schemas, patterns
from batonpass.core.class_documents import RESERVED
from batonpass.core.class_rules import Rule
from batonpass.core.globs import KINDS, matches, what_is_wrong
from batonpass.core.ids import RECORD_NAME_CHARS_MAX
from batonpass.core.records import LEASE_S_MAX, FieldKind, Identity
from batonpass.wire import class_files
from batonpass.wire.classes import checked_class

PAGE: Final = (Path(__file__).parents[2] / "docs" / "reference" / "classes.md").read_text()
YAML: Final = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CODE: Final = re.compile(r"`([^`]+)`")


def table(heading: str) -> list[list[str]]:
    """Return the cells of the table whose first column is called `heading`."""
    lines = PAGE[PAGE.index(f"| {heading} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_the_document_that_is_shown_is_a_class() -> None:
    (shown,) = YAML.findall(PAGE)

    found = checked_class(class_files.read_document(shown.encode(), file="incidents.yaml"))

    assert {spec.kind for spec in found.fields.values()} == set(FieldKind)


def test_each_rule_has_its_row_and_each_row_its_rule() -> None:
    named = [name for row in table("rule") for name in CODE.findall(row[0])]

    assert sorted(named) == sorted(Rule)


def test_each_glob_means_whom_it_is_said_to_mean() -> None:
    for glob, those, others in ([CODE.findall(cell) for cell in row] for row in table("glob")):
        assert what_is_wrong(glob[0]) is None
        assert [matches(glob[0], Identity(each)) for each in those] == [True] * len(those)
        assert [matches(glob[0], Identity(each)) for each in others] == [False] * len(others)


def test_each_kind_of_identity_and_field_is_told() -> None:
    assert [CODE.findall(row[0])[0].partition(":")[0] for row in table("identity")] == list(KINDS)
    assert [CODE.findall(row[0])[0] for row in table("`type`")] == list(FieldKind)


def test_limits_and_names_are_the_codes() -> None:
    numbers = {
        class_rules.CAP_MAX,
        class_rules.CAP_DEFAULT,
        class_rules.DOCUMENT_BYTES_MAX,
        class_rules.FIELDS_MAX,
        class_rules.ROLES_MAX,
        class_rules.IDENTITIES_MAX,
        class_files.FILE_BYTES_MAX,
        class_files.DEPTH_MAX,
        patterns.MATCHED_CHARS_MAX,
        patterns.PATTERN_CHARS_MAX,
        LEASE_S_MAX,
        RECORD_NAME_CHARS_MAX,
    }
    words = {*(f"`{name}`" for name in (*RESERVED, *ENDINGS, CLASSES)), "`patternProperties`"}

    assert {number for number in numbers if not re.search(rf"\b{number}\b", PAGE)} == set()
    assert {word for word in words if word not in PAGE} == set()
    assert class_schemas.DRAFT.split("/")[4] in PAGE
