"""An export as it travels: a tar of ``nodes/<id>.md``, the same bytes for the same nodes (D39).

The blocks are framed here, around headers made by the standard library's
`tarfile.TarInfo`; `tarfile.TarFile` itself keeps every member it has written
in memory, and wants a file that is there to be written to. Nothing in a
header depends on who makes the archive or when: mode, owner and group are
fixed, and the time is that of the node's last change.
"""

from __future__ import annotations

import tarfile
import zlib
from typing import Final

from batonpass.core.clock import MICROS_PER_S
from batonpass.core.ids import Instant, NodeId

NODE_COUNT: Final = "x-substrate-node-count"
"""The header that says how many nodes an export holds, so that one which was cut short is known by it."""
TAR: Final = "application/x-tar"
GZIP: Final = "application/gzip"
FOLDER: Final = "nodes"
SUFFIX: Final = ".md"
END: Final = bytes(2 * tarfile.BLOCKSIZE)
"""What ends an archive."""
_MODE: Final = 0o644
_GZIP_WINDOW: Final = 31
"""zlib's way to say: with a gzip header, which then holds neither name nor time."""


def member_name(node: NodeId) -> str:
    """Return where a node stands in an export."""
    return f"{FOLDER}/{node}{SUFFIX}"


def member(node: NodeId, text: str, *, at: Instant) -> bytes:
    """Return one node as it stands in a tar: header, text, padding. `at` is when it last changed."""
    content = text.encode()
    entry = tarfile.TarInfo(member_name(node))
    entry.size, entry.mode, entry.mtime = len(content), _MODE, at // MICROS_PER_S
    # PAX, since a name of more than 100 bytes, which an id may make, has no other standard form.
    header = entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
    return header + content + bytes(-len(content) % tarfile.BLOCKSIZE)


class Packer:
    """Passes bytes on as they are, or as gzip; the same bytes come out however they were cut going in."""

    def __init__(self, *, gzip: bool) -> None:
        self._gzip = zlib.compressobj(wbits=_GZIP_WINDOW) if gzip else None

    def add(self, data: bytes) -> bytes:
        """Return what is ready to be sent after `data`."""
        return data if self._gzip is None else self._gzip.compress(data)

    def end(self) -> bytes:
        """Return the rest, with the archive's end."""
        return END if self._gzip is None else self._gzip.compress(END) + self._gzip.flush()
