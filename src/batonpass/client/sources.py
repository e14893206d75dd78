"""What an import is given: files, folders and tars, as texts with names, and a word about each that is none.

Nothing outside of what was named is read. Links are not followed, neither in
a folder nor in a tar; of a tar only plain files count, whose names stay within
it, and nothing of it is ever unpacked. What is larger than a request may be is
not even read, and a header that claims to be large is not believed.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Final

from batonpass.core.errors import BatonError

FILE_BYTES_MAX: Final = 1_000_000
"""The largest file that can be a node: more does not fit into a request."""
READ_BYTES_MAX: Final = 16 * 1024 * 1024
"""The most that is read of a tar at a time: a header may say that it is followed by terabytes."""
MARKDOWN: Final = ".md"
JSON: Final = ".json"
OPENING: Final = "---"
_GZIP: Final = b"\x1f\x8b"
_ENCODINGS: Final = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
_BOM: Final = "\ufeff"


class SourceError(BatonError):
    """What an import was given cannot be read at all."""

    code = "source"


@dataclass(frozen=True, slots=True)
class Text:
    """A file that should say a node."""

    name: str
    text: str

    @property
    def is_json(self) -> bool:
        """Whether it is to be read as JSON."""
        return self.name.lower().endswith(JSON)


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that cannot be read, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """Something that is no node, and why it was not taken for one."""

    name: str
    why: str


Source = Text | Refused | PassedOver


def sources(paths: list[Path]) -> Iterator[Source]:
    """Yield everything under `paths`, each path's files in order of their names; `SourceError` if one is not there."""
    for path in paths:
        try:
            kind = path.stat().st_mode  # a link that was named is meant
        except OSError as error:
            raise SourceError(f"{path}: {error.strerror}") from error
        if stat.S_ISDIR(kind):
            yield from _folder(path)
        elif stat.S_ISREG(kind):
            yield from _tar(path) if _is_tar(path) else [_named(path)]
        else:
            raise SourceError(f"{path}: is neither a file nor a folder")


# --- folders ---------------------------------------------------------------------------------------------------------


def _folder(root: Path) -> Iterator[Source]:
    def fail(error: OSError) -> None:
        raise SourceError(f"{error.filename}: {error.strerror}") from error

    for folder, inside, names in os.walk(root, onerror=fail):
        here = Path(folder)
        for name in sorted(inside):
            if (here / name).is_symlink():
                yield PassedOver(str(here / name), "a link to a folder is not followed")
        inside[:] = sorted(name for name in inside if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith(".") and name.lower().endswith((MARKDOWN, JSON)):
                yield _found(here / name)


def _found(path: Path) -> Source:
    """Return a file that was come across, not named: it may be a link, or no node at all."""
    kind = path.lstat().st_mode
    if stat.S_ISLNK(kind):
        return PassedOver(str(path), "a link is not followed")
    if not stat.S_ISREG(kind):
        return PassedOver(str(path), "not a plain file")
    return _unless_something_else(_named(path))


def _named(path: Path) -> Source:
    try:
        with path.open("rb") as file:
            return _text(str(path), file.read(FILE_BYTES_MAX + 1))
    except OSError as error:
        return Refused(str(path), error.strerror or str(error))


def _text(name: str, raw: bytes) -> Text | Refused:
    if len(raw) > FILE_BYTES_MAX:
        return Refused(name, f"over {FILE_BYTES_MAX} bytes, which is more than any node takes")
    try:
        return Text(name, raw.decode())
    except UnicodeDecodeError as error:
        found = _ENCODINGS.get(raw[:2])
        return Refused(name, f"is {found}; save it as UTF-8" if found else f"not UTF-8, from byte {error.start} on")


def _unless_something_else(found: Text | Refused | PassedOver) -> Source:
    """Return a file that was come across as what it is: a README or a settings file lies beside nodes by right."""
    if not isinstance(found, Text):
        return found
    begins = found.text.removeprefix(_BOM).lstrip() if found.is_json else found.text.removeprefix(_BOM)
    if not found.is_json and begins[: len(OPENING)] != OPENING:
        return PassedOver(found.name, "no front matter")
    if found.is_json and not (begins.startswith("{") and '"id"' in begins and '"type"' in begins):
        return PassedOver(found.name, "no object with id and type")
    return found


# --- tars ------------------------------------------------------------------------------------------------------------


class _Guarded:
    """A file for `tarfile` that reads no more at once than a tar of nodes ever asks for."""

    def __init__(self, file: IO[bytes] | gzip.GzipFile) -> None:
        self._file = file

    def read(self, size: int = -1) -> bytes:
        """Return `size` bytes, if that is a number to be believed."""
        if not 0 <= size <= READ_BYTES_MAX:
            raise tarfile.ReadError(f"a header announces {size} bytes")
        return self._file.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the place."""
        return self._file.tell()


def _is_tar(path: Path) -> bool:
    """Whether a file that was named is a tar: by its name, or by what every tar has in its first block."""
    if path.name.lower().endswith((".tar", ".tar.gz", ".tgz")):
        return True
    try:
        with path.open("rb") as file:
            head = file.read(tarfile.BLOCKSIZE)
    except OSError:
        return False
    return head.startswith(_GZIP) or head[257:262] == b"ustar"


def _tar(path: Path) -> Iterator[Source]:
    try:
        with _opened(path) as file, tarfile.open(fileobj=file, mode="r:") as tar:  # type: ignore[call-overload]  # it reads, seeks and tells, and that is all that is asked of it
            while (entry := tar.next()) is not None:
                tar.members = []  # it would keep every header it has seen
                if not entry.isdir():
                    yield _member(tar, entry, f"{path}:{entry.name}")
            file.seek(tar.offset)
            if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
                yield Refused(str(path), "has no end: it was cut short, and there may have been more in it")
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        yield Refused(str(path), f"is no whole tar: {error}")
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}") from error


@contextmanager
def _opened(path: Path) -> Iterator[_Guarded]:
    with path.open("rb") as raw:
        packed = raw.read(len(_GZIP)) == _GZIP
        raw.seek(0)
        if not packed:
            yield _Guarded(raw)
            return
        with gzip.GzipFile(fileobj=raw, mode="rb") as unpacked:
            yield _Guarded(unpacked)


def _member(tar: tarfile.TarFile, entry: tarfile.TarInfo, name: str) -> Source:
    parts = PurePosixPath(entry.name).parts
    if not entry.isreg():
        return Refused(name, "neither a plain file nor a folder; links and devices are not read")
    if entry.name.startswith("/") or ".." in parts:
        return Refused(name, "its name leads out of the tar")
    if not entry.name.lower().endswith((MARKDOWN, JSON)) or any(part.startswith(".") for part in parts):
        return PassedOver(name, "no .md or .json file")
    if entry.size > FILE_BYTES_MAX:
        return Refused(name, f"{entry.size} bytes; no node takes more than {FILE_BYTES_MAX} bytes")
    file = tar.extractfile(entry)
    assert file is not None, entry
    return _unless_something_else(_text(name, file.read(FILE_BYTES_MAX + 1)))
