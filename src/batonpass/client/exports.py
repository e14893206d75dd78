"""A graph into files: one tar, or a folder with a file a node, of which what others changed is left alone.

    DIR/nodes/<id>.md         the nodes
    DIR/nodes.sha256          what the last export wrote: `sha256sum --check nodes.sha256` says what was changed since

A file is ours as long as it is what an export wrote. One that was edited, or
that lay there before, is neither replaced nor removed, and named. The list is
written before the files: an export that was cut off is begun again, and knows
what is its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import os
import re
import stat
import tarfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urlsplit

from batonpass.client import node_calls
from batonpass.client.client import LOOPBACK, Client
from batonpass.client.local import ADDRESS
from batonpass.client.sources import FILE_BYTES_MAX
from batonpass.core.errors import BatonError, Unavailable
from batonpass.wire.transfer import FOLDER, NODE_COUNT, SUFFIX

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LISTED: Final = "nodes.sha256"
CHUNK_BYTES: Final = 64 * 1024
PACKED: Final = (".tar.gz", ".tgz")
_LINE: Final = re.compile(rf"([0-9a-f]{{64}})  ({FOLDER}/[a-z0-9-]+{re.escape(SUFFIX)})", re.ASCII)
_MEMBER: Final = re.compile(rf"{FOLDER}/[a-z0-9][a-z0-9-]{{0,199}}{re.escape(SUFFIX)}", re.ASCII)


class ExportError(BatonError):
    """The export cannot be written where it is wanted; nothing of anybody else's was touched."""

    code = "export"


@dataclass(slots=True)
class Exported:
    """What an export did: how many nodes it had, and what became of their files."""

    nodes: int
    written: int = 0
    unchanged: int = 0
    removed: int = 0
    left: list[str] = field(default_factory=list)
    """Files that were to be replaced or removed, and are not as an export wrote them."""
    gone: list[str] = field(default_factory=list)
    """Files of nodes that are not there any more, and stay until they are pruned."""


def is_archive(path: Path) -> bool:
    """Whether a name asks for a tar, packed or not."""
    return path.name.endswith((".tar", *PACKED))


def to_archive(client: Client, path: Path, *, project: str | None, authored: bool) -> Exported:
    """Write a tar; it appears under its name once it is whole and on disk. Only another export is ever replaced."""
    _require_ours(path)
    packed = path.name.endswith(PACKED)
    call = node_calls.export(project=project, authored=authored, gzip=packed)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file, client.stream(call) as response:
            for chunk in response.iter_bytes():
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return Exported(_count(response.headers.get(NODE_COUNT)), written=1)


def to_folder(client: Client, root: Path, *, project: str | None, authored: bool, prune: bool = False) -> Exported:
    """Write a file a node under ``root/nodes``; `prune` removes those of nodes that are gone, if they are ours."""
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    packed = not _is_near(client)
    with _Ledger.opened(root) as ledger:
        with client.stream(node_calls.export(project=project, authored=authored, gzip=packed)) as response:
            done = Exported(_count(response.headers.get(NODE_COUNT)))
            folder = _Folder(root, ledger, done)
            names = set[str]()
            for name, content in _members(response.iter_bytes(), packed=packed):
                names.add(name)
                folder.write(name, content)
        if len(names) != done.nodes:
            raise Unavailable(f"the export has {len(names)} of its {done.nodes} nodes; try again")
        folder.clear([name for name in ledger.known if name not in names], prune=prune)
        ledger.close()
    return done


@dataclass(frozen=True, slots=True)
class _Folder:
    """A folder that is being written, the list of what is ours in it, and what was done so far."""

    root: Path
    ledger: _Ledger
    done: Exported

    def write(self, name: str, content: bytes) -> None:
        """Put a node into its file, unless what is there is somebody else's."""
        stands, sha256 = self.ledger.stands(self.root / name, name), hashlib.sha256(content).hexdigest()
        if stands is not None and stands.sha256 == sha256:
            self.ledger.note(name, sha256)
            self.done.unchanged += 1
        elif stands is None or stands.ours:
            self.ledger.note(name, sha256)
            _replace(self.root / name, content)
            self.done.written += 1
        else:
            self.done.left.append(name)

    def clear(self, gone: Iterable[str], *, prune: bool) -> None:
        """Name the files of nodes that are gone, or remove those that are ours."""
        for name in sorted(gone):
            stands = self.ledger.stands(self.root / name, name)
            if stands is None:
                self.ledger.forget(name)
            elif not prune:
                self.done.gone.append(name)
            elif stands.ours:
                (self.root / name).unlink()
                self.ledger.forget(name)
                self.done.removed += 1
            else:
                self.done.left.append(name)


@dataclass(frozen=True, slots=True)
class _Stands:
    """What is in a file's place: its digest, None for what is no plain file, and whether an export wrote it."""

    sha256: str | None
    ours: bool


class _Ledger:
    """The list of what exports wrote here. Whoever has it open is the only one who writes here."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self._path = path
        self._file = file
        self._newest: dict[str, str] = {}
        self.known: dict[str, set[str]] = defaultdict(set)
        for line in file:
            if (found := _LINE.fullmatch(line.rstrip("\n"))) is not None:
                self.known[found[2]].add(found[1])

    @classmethod
    @contextmanager
    def opened(cls, root: Path) -> Iterator[_Ledger]:
        """Open the list of a folder; `ExportError` while another export writes there."""
        path = root / LISTED
        with path.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise ExportError(f"{root}: another export is writing there") from error
            file.seek(0)
            yield cls(path, file)

    def stands(self, path: Path, name: str) -> _Stands | None:
        """Return what is in a file's place, None if nothing is."""
        try:
            found = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError:  # a link, or not ours to read
            return _Stands(None, ours=False)
        if not stat.S_ISREG(os.fstat(found).st_mode):
            os.close(found)
            return _Stands(None, ours=False)
        with open(found, "rb") as file:  # noqa: PTH123 — a descriptor, so that no link is followed
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return _Stands(digest, ours=digest in self.known.get(name, ()))

    def note(self, name: str, sha256: str) -> None:
        """Say what is about to be written, so that it is known for ours even if nothing comes after it."""
        if sha256 not in self.known[name]:
            self._file.write(f"{sha256}  {name}\n")
            self._file.flush()
        self.known[name].add(sha256)
        self._newest[name] = sha256

    def forget(self, name: str) -> None:
        """Drop a file that is not there any more."""
        del self.known[name]

    def close(self) -> None:
        """Write the list anew: one line a file, but what is not as it was written keeps what it was known by."""
        part = self._path.with_name(f".{self._path.name}.part")
        with part.open("w", encoding="utf-8") as file:
            for name, digests in sorted(self.known.items()):
                newest = self._newest.get(name)
                file.writelines(f"{each}  {name}\n" for each in ([newest] if newest else sorted(digests)))
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)


def _replace(path: Path, content: bytes) -> None:
    """Put `content` in a file's place at once: whoever reads it sees the old or the new, never half of one."""
    part = path.with_name(f".{os.getpid()}.part")
    try:
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        part.unlink(missing_ok=True)
        raise


def _require_ours(path: Path) -> None:
    """Raise `ExportError` if there is something in the place of an archive that is not an export."""
    if not os.path.lexists(path):
        return
    if path.is_file() and not path.is_symlink() and _is_export(path):
        return
    raise ExportError(f"{path}: is there already, and is no export; choose another name, or move it away")


def _is_export(path: Path) -> bool:
    """Whether a file is a tar that begins with a node, or with nothing at all."""
    try:
        with tarfile.open(path) as tar:
            first = tar.next()
            return first is None or _MEMBER.fullmatch(first.name) is not None
    except (tarfile.TarError, OSError, EOFError, zlib.error):
        return False


class _Arriving(io.RawIOBase):
    """Chunks as they arrive, as a file for `tarfile`."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill `buffer` with what there is next."""
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        target = memoryview(buffer).cast("B")
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


def _members(chunks: Iterator[bytes], *, packed: bool) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each node of an export that is arriving."""
    arriving = io.BufferedReader(_Arriving(chunk for chunk in chunks if chunk), CHUNK_BYTES)
    try:
        with tarfile.open(fileobj=arriving, mode="r|gz" if packed else "r|") as tar:
            while (entry := tar.next()) is not None:
                tar.members = []  # type: ignore[attr-defined]  # it would keep every header it has seen
                if not (entry.isreg() and _MEMBER.fullmatch(entry.name) and entry.size <= FILE_BYTES_MAX):
                    raise Unavailable(f"what the server sent is no export: {entry.name[:80]!a} is in it")
                file = tar.extractfile(entry)
                assert file is not None, entry
                yield entry.name, file.read()
    except tarfile.TarError as error:
        raise Unavailable(f"what the server sent is no whole export: {error}") from error


def _count(header: str | None) -> int:
    if header is None or not header.isdecimal():
        raise Unavailable("what the server sent is no export: it does not say how many nodes it has")
    return int(header)


def _is_near(client: Client) -> bool:
    """Whether the server is on this machine: packing would only take time."""
    return urlsplit(client.server).hostname in {*LOOPBACK, urlsplit(ADDRESS).hostname}
