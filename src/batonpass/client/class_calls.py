"""The calls about classes of records (D38); `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Mapping

from batonpass.client.calls import Call, Repeat, query_of
from batonpass.core.records import parse_class_name
from batonpass.wire import classes, paths


def put_class(name: str, document: Mapping[str, object]) -> Call[classes.ClassReply]:
    """Apply a class document, as it would be in its file; admins only. The same again changes nothing."""
    from batonpass.core.class_documents import text_of  # what puts no class starts without it (D37)

    body = text_of(document).encode()
    return Call("PUT", _path(name), classes.ClassReply, body=body, repeat=Repeat.KEYED)


def get_class(name: str, *, version: int | None = None) -> Call[classes.ClassDocumentReply]:
    """Read a class's document, the one in force or that of an earlier version."""
    return Call("GET", _path(name), classes.ClassDocumentReply, query_of(version=version))


def list_classes(*, limit: int | None = None, after: str | None = None) -> Call[classes.ClassesReply]:
    """List classes by name."""
    return Call("GET", paths.CLASSES, classes.ClassesReply, query_of(limit=limit, after=after))


def _path(name: str) -> str:
    return paths.fill(paths.CLASS, name=parse_class_name(name))
