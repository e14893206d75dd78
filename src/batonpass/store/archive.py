"""The backup file of a PostgreSQL database: a tar archive of COPY files with a manifest.

    tables/<table>.copy …    COPY … TO STDOUT (FORMAT text, ENCODING 'UTF8'), rows of one table
    manifest.json            last: a file that was cut short has none

An archive is written in one pass and in bounded memory: how long a table is
shows only at its end, so its header is written again then. It is never
unpacked into a folder; `tar` can do that for whoever wants to look.
docs/reference/database.md is the format's page.
"""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

import msgspec

from batonpass.core.errors import Invalid

FORMAT: Final = "batonpass-postgresql-backup"
FORMAT_VERSION: Final = 1
MANIFEST: Final = "manifest.json"
MANIFEST_BYTES_MAX: Final = 1_000_000
CHUNK_BYTES: Final = 1 << 20
_FORM: Final = tarfile.GNU_FORMAT  # its header is one block whatever the size, so it can be written again in place

Write = Callable[[bytes | bytearray | memoryview], object]


class Member(msgspec.Struct, frozen=True):
    """One table of an archive: which rows, in which columns, and how to know that they are whole."""

    name: str
    table: str
    columns: Sequence[str]
    rows: int
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What an archive holds, and of which database. `schema` lists the migrations that were applied to it."""

    format: str
    format_version: int
    batonpass: str
    incarnation: str
    schema: Sequence[int]
    sequences: Mapping[str, int]
    tables: Sequence[Member]


class ArchiveWriter:
    """Writes the members of an archive into a file opened for writing, one after another."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.members: list[Member] = []

    @contextmanager
    def table(self, table: str, columns: Sequence[str]) -> Iterator[Write]:
        """Open the member of one table; what is written to it are rows in COPY's text format."""
        name = f"tables/{table}.copy"
        header = self._file.tell()
        self._file.write(_header(name, 0))
        rows = size = 0
        digest = hashlib.sha256()

        def write(data: bytes | bytearray | memoryview) -> None:
            nonlocal rows, size
            data = bytes(data)
            rows += data.count(b"\n")  # COPY writes a line break within a value as \n, so each one ends a row
            size += len(data)
            digest.update(data)
            self._file.write(data)

        yield write
        self._pad(size)
        end = self._file.tell()
        self._file.seek(header)
        self._file.write(_header(name, size))
        self._file.seek(end)
        self.members.append(Member(name, table, tuple(columns), rows, size, digest.hexdigest()))

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest and the archive's end."""
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"
        self._file.write(_header(MANIFEST, len(text)))
        self._file.write(text)
        self._pad(len(text))
        self._file.write(bytes(2 * tarfile.BLOCKSIZE))
        self._file.flush()

    def _pad(self, size: int) -> None:
        self._file.write(bytes(-size % tarfile.BLOCKSIZE))


class Archive:
    """An archive opened for reading. Its rows can be trusted once `verify` has returned."""

    def __init__(self, tar: tarfile.TarFile, manifest: Manifest) -> None:
        self._tar = tar
        self.manifest = manifest

    def verify(self) -> None:
        """Raise `Invalid` unless every member of the manifest, and no other, is there and has its SHA-256."""
        listed = [member.name for member in self.manifest.tables]
        if sorted([*listed, MANIFEST]) != sorted(self._tar.getnames()):
            raise _unfit(self._tar, "its members are not those of its manifest")
        for member in self.manifest.tables:
            digest = hashlib.sha256()
            rows = 0
            for chunk in self.chunks(member):
                digest.update(chunk)
                rows += chunk.count(b"\n")
            if digest.hexdigest() != member.sha256 or rows != member.rows:
                raise _unfit(self._tar, f"{member.name} is not as it was written")

    def chunks(self, member: Member) -> Iterator[bytes]:
        """Yield the rows of one table, at most `CHUNK_BYTES` at a time."""
        file = self._tar.extractfile(member.name)
        if file is None:
            raise _unfit(self._tar, f"{member.name} is not a file")
        while chunk := file.read(CHUNK_BYTES):
            yield chunk


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an archive and read its manifest; raise `Invalid` when it is none, is cut short, or is of a newer format."""
    try:
        with tarfile.open(path, "r:") as tar:
            yield Archive(tar, _manifest(tar))
    except tarfile.TarError as error:
        raise Invalid(f"{path} is no whole backup: {error}", field="file") from error


def _manifest(tar: tarfile.TarFile) -> Manifest:
    try:
        found = tar.getmember(MANIFEST)
    except KeyError:
        raise _unfit(tar, "it has no manifest, so it was cut short or is something else") from None
    file = tar.extractfile(found)
    if file is None or found.size > MANIFEST_BYTES_MAX:
        raise _unfit(tar, "its manifest is not a file of a sensible size")
    text = file.read()
    try:
        head = msgspec.json.decode(text, type=_Head)
    except msgspec.MsgspecError as error:
        raise _unfit(tar, f"its manifest cannot be read ({error})") from error
    if head.format != FORMAT or head.format_version > FORMAT_VERSION:
        raise _unfit(
            tar, f"it is of format {head.format} {head.format_version}; this program reads {FORMAT} {FORMAT_VERSION}"
        )
    try:
        return msgspec.json.decode(text, type=Manifest)
    except msgspec.MsgspecError as error:
        raise _unfit(tar, f"its manifest cannot be read ({error})") from error


class _Head(msgspec.Struct):
    """What every version of the manifest has: enough to say that it is too new."""

    format: str
    format_version: int


def _header(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    header = entry.tobuf(_FORM, "ascii", "strict")
    assert len(header) == tarfile.BLOCKSIZE, name
    return header


def _unfit(tar: tarfile.TarFile, why: str) -> Invalid:
    return Invalid(f"{tar.name!s} is no whole backup: {why}", field="file")
