"""A file made beside its place and put there whole: what stands in the place is complete, or what was there before.

The file is this process's alone: it holds a lock on it, which goes with the
process, so what a killed one has left is simply used again.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from batonpass.core.errors import Conflict, Invalid, Unavailable

OWNER_ONLY: Final = 0o600
SIDECARS: Final = ("-journal", "-wal", "-shm")
"""What SQLite keeps beside a file it has open, and leaves there when it is killed."""
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""A file system without hard links, such as that of a memory stick."""


class Scratch:
    """A file in the making. `path` is where it is written; `place` puts it where it belongs."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self.path = target.with_name(f".{target.name}.partial")
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, OWNER_ONLY)
        self._placed = False

    def begin(self) -> None:
        """Take the file for this process and empty it; `Conflict` while another process writes it."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._placed = True  # not ours to remove
            raise Conflict(f"another process is writing {self.target} just now") from None
        if not self._is_still_here():
            self._placed = True
            raise Conflict(f"another process has just written {self.target}")
        os.ftruncate(self._descriptor, 0)
        self._remove_sidecars()

    def place(self, *, overwrite: bool) -> None:
        """Put the file in its place, on disk; without `overwrite` it is `Conflict` when something is there."""
        os.fsync(self._descriptor)
        if overwrite:
            self.path.replace(self.target)
        else:
            self._link()
        self._placed = True
        sync_folder(self.target.parent)

    def close(self) -> None:
        """Remove what was not placed."""
        if not self._placed:
            self._remove_sidecars()
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _link(self) -> None:
        """Give the file its name; unlike a rename, a link never replaces what somebody has put there meanwhile."""
        require_absent(self.target)
        try:
            self.target.hardlink_to(self.path)
        except FileExistsError:
            require_absent(self.target)
            raise
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self.path.rename(self.target)
        else:
            self.path.unlink()

    def _is_still_here(self) -> bool:
        """Whether the path names the file we locked: its maker may have placed it while we waited to open it."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def _remove_sidecars(self) -> None:
        for suffix in SIDECARS:
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


@contextmanager
def scratch(target: Path) -> Iterator[Scratch]:
    """Make a file beside `target`, readable by its owner alone; it is gone after the block unless it was placed."""
    if not target.parent.is_dir():
        raise Invalid(f"the folder {target.parent} does not exist; create it first", field="file")
    try:
        file = Scratch(target)
        try:
            file.begin()
            yield file
        finally:
            file.close()
    except OSError as error:
        raise Unavailable(f"cannot write {target}: {error.strerror or error}") from error


def require_absent(target: Path) -> None:
    """Raise `Conflict` when something has the name already."""
    if target.exists() or target.is_symlink():
        raise Conflict(f"{target} is there already; give another name, or say --force")


def sync_folder(folder: Path) -> None:
    """Bring the names in `folder` to disk, so that a file just placed is still there after a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
