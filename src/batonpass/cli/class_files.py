"""Class files as commands take them: read and checked, all of them, before anything is done with one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from batonpass.core.class_rules import FINDINGS_MAX
from batonpass.core.classes import RecordClass
from batonpass.core.errors import Invalid
from batonpass.core.records import ClassName
from batonpass.wire.class_files import FILE_BYTES_MAX, read_document
from batonpass.wire.classes import checked_class

ENDINGS: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class ClassFile:
    """A file, and the class in it or what is wrong with it."""

    path: Path
    found: RecordClass | None
    findings: tuple[str, ...] = ()


def look_at(path: Path) -> ClassFile:
    """Return the class in a file, or every finding."""
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        return ClassFile(path, None, (f"file {path}: {error.strerror or error}",))
    try:
        return ClassFile(path, checked_class(read_document(raw, file=str(path))))
    except Invalid as error:
        return ClassFile(path, None, error.details)


def look_at_all(paths: Sequence[Path]) -> list[ClassFile]:
    """Return what is in each file; a class that stands in two of them is a finding of the second."""
    seen: dict[ClassName, Path] = {}
    looked: list[ClassFile] = []
    for file in map(look_at, paths):
        first = seen.setdefault(file.found.name, file.path) if file.found is not None else file.path
        if file.found is not None and first is not file.path:
            finding = f"file {file.path}: class {file.found.name} stands in {first} too; one file is one class"
            looked.append(ClassFile(file.path, None, (finding,)))
        else:
            looked.append(file)
    return looked


def require_right(files: Sequence[ClassFile], *, to: str = "applied") -> list[RecordClass]:
    """Return the classes in `files`, which are `to` be applied, say; `Invalid` with all findings, if there is one."""
    findings = [line for file in files for line in file.findings]
    if findings:
        wrong = sum(file.found is None for file in files)
        raise Invalid(
            f"{len(findings)} thing(s) wrong in {wrong} of {len(files)} class file(s); nothing was {to}",
            details=findings[:FINDINGS_MAX],
            field="class",
        )
    return [file.found for file in files if file.found is not None]


def in_folder(folder: Path) -> list[Path]:
    """Return the class files in a folder, by name; hidden ones and folders in it are passed over."""
    try:
        found = sorted(_files(folder))
    except OSError as error:
        raise Invalid(f"classes: {folder}: {error.strerror or error}", field="classes") from error
    if not found:
        raise Invalid(f"classes: {folder}: no class file in it, which ends in {', '.join(ENDINGS)}", field="classes")
    return found


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.suffix.lower() in ENDINGS and not path.name.startswith(".") and path.is_file():
            yield path
