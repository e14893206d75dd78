"""`baton edit`: change a node's text in an editor, from a file, or key by key, over the revision that was read.

What somebody typed is never lost: a text that the server does not take, or
that could not be sent, is kept in a file, and the way on is said.
"""

from __future__ import annotations

import itertools
import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from batonpass.cli.context import connected
from batonpass.cli.exits import Exit, UsageError, WorkFailed
from batonpass.cli.options import COMMON, Common, Node, read_file
from batonpass.cli.render import clean, print_json, say, warn
from batonpass.client import config, node_calls
from batonpass.client.client import Answer, Client
from batonpass.core.errors import BatonError, Conflict, Internal
from batonpass.core.ids import NodeId
from batonpass.core.nodes import EXTRA_KEYS, Shape
from batonpass.wire.errors import HTTP_STATUS
from batonpass.wire.history import parts_of
from batonpass.wire.markdown import read
from batonpass.wire.nodes import PutReply
from batonpass.wire.schema import SCALAR_KEYS

KEPT: Final = "edits"
"""The folder below BATON_HOME where texts are kept that did not get anywhere."""
FIXED: Final = frozenset({"id", "type"})
LISTS: Final = frozenset(
    {"requires", *(key for key, shape in EXTRA_KEYS.items() if shape is not Shape.TEXT)} - {"always_on"}
)
SETTABLE: Final = (*(key for key in SCALAR_KEYS if key not in FIXED), "requires", *EXTRA_KEYS, "body")


def edit(
    node: Node,
    /,
    *,
    from_: Annotated[str | None, Parameter(name="--from", allow_leading_hyphen=True)] = None,
    set_: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None,
    revision: str | None = None,
    common: Common = COMMON,
) -> int:
    """Change a node: in $EDITOR, from a file, or key by key.

    It is written over the revision that was read. If somebody else wrote
    meanwhile, nothing is changed and the text is kept in a file. Edges are
    part of the text; `baton link` and `unlink` change one at a time.

    Args:
        node: which.
        from_: take the whole text from this file; "-" reads standard input.
        set_: set a key, as title=New; of a list the parts have commas between, and "tags=" takes a key away; may be
            given several times.
        revision: with --from: the revision that the text was made from; without it the text is written over whatever
            is there.

    """
    if from_ is not None and set_:
        raise UsageError("give --from or --set, not both")
    if revision is not None and from_ is None:
        raise UsageError("--revision goes with --from: an editor and --set begin with what they read")
    changes = dict(_change(text) for text in set_ or ())
    with connected(common) as client:
        now = _present(client, node)
        if changes:
            return _told(_put(client, node, _with(now.text, changes), now.revision), common)
        new = _given(from_) if from_ is not None else _edited(node, now.text)
        if new == now.text.encode():
            return _unchanged(node, now.revision, common)
        try:
            return _told(_put(client, node, _text_of(node, new), revision or now.revision), common)
        except BatonError as error:
            if from_ is None:
                _keep(node, new, _to_write_over(client, node, now.revision, error), error)
            raise


@dataclass(frozen=True, slots=True)
class Present:
    """What may be written of a node, as its canonical markdown, and the revision it is at."""

    text: str
    revision: str


def _present(client: Client, node: NodeId) -> Present:
    while True:
        revision = client.node(node).revision
        found = client.revision(node, revision)
        if found.redacted is None:  # else somebody wrote a new one and redacted this one in between
            return Present(found.raw, revision)


def _put(client: Client, node: NodeId, entry: str | Mapping[str, object], revision: str) -> Answer[PutReply]:
    """Write a node over `revision`; raise what was in the way."""
    answer: Answer[PutReply] = client.answer(
        node_calls.put_nodes([{"node": entry, "if_exists": "update", "revision": revision}])
    )
    (result,) = answer.value.results
    if result.ok:
        return answer
    kind = next((kind for kind in HTTP_STATUS if kind.code == result.code), Internal)
    raise kind(result.message or f"{node} was refused", details=result.details or ())


def _told(answer: Answer[PutReply], common: Common) -> int:
    """Say what became of the node."""
    (result,) = answer.value.results
    if common.json:
        print_json(answer.raw)
    else:
        say(f"{result.id} {'is as it was, at' if result.status == 'skipped' else 'is at'} {result.revision}")
    for warning in result.warnings:
        warn(clean(warning))
    return Exit.OK


def _unchanged(node: NodeId, revision: str, common: Common) -> int:
    if common.json:
        print_json(b'{"results": []}')
    else:
        say(f"{node} is as it was, at {revision}")
    return Exit.OK


# --- where the new text comes from -----------------------------------------------------------------------------------


def _given(name: str) -> bytes:
    try:
        return read_file(name)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from error


def _edited(node: NodeId, text: str) -> bytes:
    """Let the caller edit `text`, and return what they made of it."""
    from batonpass.worker.proc import converse

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise UsageError("set EDITOR to the program you edit with; or use --from FILE, or --set key=value")
    with tempfile.TemporaryDirectory(prefix="baton-edit-") as folder:
        file = Path(folder) / f"{node}.md"
        file.write_text(text, encoding="utf-8")
        code = converse([*shlex.split(command), str(file)])
        if code != 0:
            raise WorkFailed(f"{command} ended with {code}, so nothing was changed")
        return file.read_bytes()


def _change(text: str) -> tuple[str, object]:
    """Return ``key=value`` as a key and what it is to hold; None takes it away."""
    key, separator, value = text.partition("=")
    if not separator or key not in SETTABLE:
        why = "is fixed" if key in FIXED else "has link and unlink" if key == "edges" else "is not a key"
        shown = clean(key[:60])
        raise UsageError(
            f"--set {shown}: write it as key=value, for instance priority=p1"
            if not separator
            else f"--set {shown}: {why}; there are {', '.join(SETTABLE)}"
        )
    if key in LISTS:
        return key, [item.strip() for item in value.split(",") if item.strip()]
    return key, value or None


def _with(text: str, changes: Mapping[str, object]) -> dict[str, object]:
    fields, body = parts_of(text)
    return {**fields, "body": body, **changes}


def _text_of(node: NodeId, raw: bytes) -> str:
    """Return a text of `node`; raise `UsageError` for no text, and for one that would be written somewhere else."""
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"the text is not UTF-8: {error.reason} at byte {error.start}") from error
    if (other := read(text).authored.id) != node:
        raise UsageError(f"the text is of {other}, not of {node}; baton add --file writes a new node")
    return text


# --- what did not get anywhere ---------------------------------------------------------------------------------------


def _to_write_over(client: Client, node: NodeId, read: str, error: BatonError) -> str:
    """Return the revision that the kept text belongs over: after a conflict the one that its author looks at next."""
    if not isinstance(error, Conflict):
        return read
    try:
        return client.node(node).revision
    except BatonError:  # to keep the text comes first
        return read


def _keep(node: NodeId, text: bytes, revision: str, error: BatonError) -> None:
    """Keep what was typed, and add to `error` where it is and how to go on."""
    folder = config.home_of(os.environ) / KEPT
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = _write_new(folder, f"{node}-{revision[:10]}", text)
    error.add_note(f"your text is kept in {file}")
    for step in _steps(node, file, revision, error):
        error.add_note(step)


def _write_new(folder: Path, name: str, text: bytes) -> Path:
    """Write a file that was not there before: an earlier text may be all that somebody has of it."""
    files = (folder / (f"{name}.md" if number == 1 else f"{name}-{number}.md") for number in itertools.count(1))
    while True:
        file = next(files)
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(text)
        return file


def _steps(node: NodeId, file: Path, revision: str, error: BatonError) -> Sequence[str]:
    again = f"baton edit {node} --from {shlex.quote(str(file))} --revision {revision}"
    if isinstance(error, Conflict):
        return (
            f"1. see what was changed meanwhile: baton history {node} --diff",
            f"2. bring that into your text, and write it: {again}",
        )
    return (f"repair it there, and write it: {again}",)
