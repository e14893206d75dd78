"""What is no archive of ours, is too new, or is not whole is refused with the reason."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import pytest

from batonpass.core.errors import Invalid
from batonpass.store.archive import FORMAT, FORMAT_VERSION, ArchiveWriter, Manifest, open_archive

ROWS: Final = b"a\t1\nb\\nb\t2\n"


def written(path: Path) -> Manifest:
    """Write an archive of one table with two rows."""
    with path.open("wb") as file:
        archive = ArchiveWriter(file)
        with archive.table("people", ("id", "n")) as write:
            for row in ROWS.splitlines(keepends=True):
                write(row)
        manifest = Manifest(FORMAT, FORMAT_VERSION, "0", "1234", (1,), {"events_seq_seq": 7}, tuple(archive.members))
        archive.finish(manifest)
    return manifest


def tar(path: Path, members: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    manifest = written(tmp_path / "copy")

    with open_archive(tmp_path / "copy") as archive:
        archive.verify()
        (member,) = archive.manifest.tables
        rows = b"".join(archive.chunks(member))

    assert msgspec.json.encode(archive.manifest) == msgspec.json.encode(manifest)
    assert (member.table, tuple(member.columns), member.rows, member.bytes) == ("people", ("id", "n"), 2, len(ROWS))
    assert rows == ROWS


def test_a_table_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "copy")
    with tarfile.open(tmp_path / "copy") as archive:
        manifest = archive.extractfile("manifest.json").read()  # type: ignore[union-attr]  # it is a file
    tar(tmp_path / "other", {"manifest.json": manifest})
    with tarfile.open(tmp_path / "other", "a") as archive:
        entry = tarfile.TarInfo("tables/people.copy")
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)

    with open_archive(tmp_path / "other") as opened, pytest.raises(Invalid, match="is not a file"):
        opened.verify()


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 4096])
def test_rows_of_any_length_fill_whole_blocks(tmp_path: Path, size: int) -> None:
    with (tmp_path / "copy").open("wb") as file:
        archive = ArchiveWriter(file)
        for table in ("first", "second"):
            with archive.table(table, ("c",)) as write:
                write(b"x" * size)
        archive.finish(Manifest(FORMAT, FORMAT_VERSION, "0", "1234", (1,), {}, tuple(archive.members)))

    with tarfile.open(tmp_path / "copy") as tar_file:
        assert [(entry.name, entry.size) for entry in tar_file][:2] == [
            ("tables/first.copy", size),
            ("tables/second.copy", size),
        ]


@pytest.mark.parametrize(
    "members, why",
    [
        ({"letter": b"Dear reader"}, "it has no manifest"),
        ({"manifest.json": b"Dear reader"}, "its manifest cannot be read"),
        ({"manifest.json": b"{}"}, "its manifest cannot be read"),
        ({"manifest.json": b" " * 1_000_001}, "not a file of a sensible size"),
        ({"manifest.json": b'{"format": "zip", "format_version": 1}'}, "it is of format zip 1"),
        (
            {"manifest.json": f'{{"format": "{FORMAT}", "format_version": 2}}'.encode()},
            f"this program reads {FORMAT} 1",
        ),
        ({"manifest.json": f'{{"format": "{FORMAT}", "format_version": 1}}'.encode()}, "its manifest cannot be read"),
    ],
)
def test_what_has_no_manifest_that_we_can_read_is_refused(
    tmp_path: Path, members: Mapping[str, bytes], why: str
) -> None:
    tar(tmp_path / "copy", members)

    with pytest.raises(Invalid, match=why), open_archive(tmp_path / "copy"):
        pytest.fail("it was opened")


def test_a_manifest_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "copy", "w") as archive:
        entry = tarfile.TarInfo("manifest.json")
        entry.type = tarfile.DIRTYPE
        archive.addfile(entry)

    with pytest.raises(Invalid, match="no whole backup"), open_archive(tmp_path / "copy"):
        pytest.fail("it was opened")


@pytest.mark.parametrize("change", ["a member more", "a member less", "a member twice"])
def test_members_that_the_manifest_does_not_list_once_are_refused(tmp_path: Path, change: str) -> None:
    written(tmp_path / "copy")
    with tarfile.open(tmp_path / "copy") as archive:
        content = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]  # all are files
    if change == "a member less":
        del content["tables/people.copy"]
    tar(tmp_path / "copy", {**content, **({"tables/more.copy": b""} if change == "a member more" else {})})
    if change == "a member twice":
        with tarfile.open(tmp_path / "copy", "a") as archive:
            archive.addfile(tarfile.TarInfo("tables/people.copy"))

    with open_archive(tmp_path / "copy") as opened, pytest.raises(Invalid, match="not those of its manifest"):
        opened.verify()
