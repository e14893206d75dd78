"""`baton history`, `blame` and `redact`: what became of a node, whose each part of it is, and taking a text away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import unified_diff
from itertools import islice
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from batonpass.cli.context import ask, connected
from batonpass.cli.exits import UsageError
from batonpass.cli.options import COMMON, Common, Flag, Node
from batonpass.cli.render import Column, print_json, print_table, print_text, say, warn
from batonpass.client import graph_calls
from batonpass.client.client import Client
from batonpass.core.blame import Origin, Step, blame
from batonpass.core.ids import NodeId
from batonpass.wire.history import EntryBody, HistoryReply, parted

HEX_SHOWN: Final = 10
DIFFS_SHOWN: Final = 20
"""How many changes are shown at once unless a limit says otherwise."""
COLUMNS: Final = (
    Column("n"),
    Column("revision"),
    Column("when"),
    Column("verb"),
    Column("who"),
    Column("via"),
    Column("note", cut=True),
)
BLAME_COLUMNS: Final = (Column("revision"), Column("when"), Column("who"), Column("place"), Column("text", cut=True))


class Change(msgspec.Struct):
    """What one revision changed: a unified diff from the text before it, null where either was redacted."""

    n: int
    revision: str
    before: str | None
    diff: str | None


class Changes(msgspec.Struct):
    """What `baton history --diff --json` prints; `next` is the `--before` of the changes before these."""

    id: str
    changes: list[Change]
    next: int | None


class Blamed(msgspec.Struct):
    """A key or line and the entry that made it what it is; `unsure` when it may be the redacted one before."""

    place: str
    text: str
    n: int
    revision: str
    at: str
    author: str | None
    agent: str | None
    unsure: bool


class BlameDocument(msgspec.Struct):
    """What `baton blame --json` prints."""

    id: str
    keys: list[Blamed]
    lines: list[Blamed]


def history(
    node: Node,
    /,
    *,
    revision: str | None = None,
    diff: Flag = False,
    limit: int | None = None,
    before: int | None = None,
    common: Common = COMMON,
) -> None:
    """List what became of a node, or show a revision, or what was changed.

    Args:
        node: which; it may have been deleted.
        revision: show the node as it was then; the first 8 digits will do.
        diff: show what was changed, of one revision or of each.
        limit: how many at most; 50 unless given, 20 with --diff.
        before: begin before this number, as the end of a list that was cut names it.

    """
    if revision is not None:
        _require_alone(limit, before)
        return _print_revision(node, revision, diff=diff, common=common)
    if diff:
        return _print_changes(node, limit or DIFFS_SHOWN, before, common)
    answer = ask(common, graph_calls.history_of(node, limit=limit, before=before))
    if common.json:
        return print_json(answer.raw)
    page = answer.value
    _say_deleted(page)
    rows = [
        (str(each.n), each.revision[:HEX_SHOWN], each.at[:19], each.verb, _who(each), each.via, _note(each))
        for each in page.entries
    ]
    print_table(COLUMNS, rows, empty="nothing became of it yet")
    return _cut_short(page.count, page.next, f"baton history {node}")


def blame_(node: Node, /, *, common: Common = COMMON) -> None:
    """Show for every key and line of a node who made it what it is, and when.

    Args:
        node: which; of one that was deleted its last text.

    """
    with connected(common) as client:
        texts = list(_texts(client, node))[::-1]
    by_n = {entry.n: entry for entry in texts}
    steps = [Step(entry.n, None if entry.redaction is not None else parted(entry.raw or "")) for entry in texts]
    found = blame(steps)
    last = next((step.parts for step in reversed(steps) if step.parts is not None), None)
    keys = [_blamed(key, last.keys[key], origin, by_n) for key, origin in found.keys.items()] if last else []
    lines = [_blamed(str(at), line, origin, by_n) for at, (line, origin) in enumerate(found.lines, 1)]
    if common.json:
        return print_json(msgspec.json.encode(BlameDocument(node, keys, lines)))
    if texts and texts[-1].redaction is not None:
        warn(f"the last text of {node} was redacted; this is of the one before")
    rows = [
        (f"{each.revision[:HEX_SHOWN]}{'?' if each.unsure else ''}", each.at[:10], _by(each), each.place, each.text)
        for each in (*keys, *lines)
    ]
    print_table(BLAME_COLUMNS, rows, empty="all of its texts were redacted")
    if any(each.unsure for each in (*keys, *lines)):
        say("? or an entry right before it, whose text was redacted")
    return None


def redact(
    node: Node,
    /,
    *,
    revision: Annotated[list[str], Parameter(negative=())],
    reason: str,
    common: Common = COMMON,
) -> None:
    """Take the text of an earlier revision out of a node's history.

    It is gone for good; for admins. What the node reads at present stays: write a clean text first. Backups and
    exports that were made before still have it.

    Args:
        node: which; it may have been deleted.
        revision: of which revision; the first 8 digits will do; may be given several times.
        reason: why; the history keeps that in the text's place.

    """
    with connected(common) as client:
        answers = [client.answer(graph_calls.redact(node, revision=sha, reason=reason)) for sha in revision]
    if common.json:
        raw = answers[0].raw if len(answers) == 1 else b"[" + b",".join(answer.raw for answer in answers) + b"]"
        return print_json(raw)
    for answer in answers:
        reply = answer.value
        done = "was redacted already" if reply.status == "skipped" else f"is redacted ({_times(reply.entries)})"
        say(f"{reply.id} {reply.revision[:HEX_SHOWN]} {done}")
        for warning in reply.warnings:
            warn(warning)
    return warn("backups, exports and work folders made before still have it")


# --- one revision ----------------------------------------------------------------------------------------------------


def _require_alone(limit: int | None, before: int | None) -> None:
    if limit is not None or before is not None:
        raise UsageError("--limit and --before are of the list; with --revision there is one")


def _print_revision(node: NodeId, sha: str, *, diff: bool, common: Common) -> None:
    with connected(common) as client:
        answer = client.answer(graph_calls.revision(node, sha))
        found = answer.value
        change = _change_to(client, node, found.n) if diff else None
    if change is not None:
        if common.json:
            return print_json(msgspec.json.encode(change))
        return _print_change(change)
    if common.json:
        return print_json(answer.raw)
    if (gone := found.redacted) is not None:
        warn(f"redacted at {gone.at} by {gone.by}: {gone.reason}")
    return print_text(found.raw)


def _change_to(client: Client, node: NodeId, n: int) -> Change:
    """Return what the `n`th entry changed of the text before it."""
    return next(_changes(list(islice(_texts(client, node, before=n + 1), 2))))


# --- changes ---------------------------------------------------------------------------------------------------------


def _print_changes(node: NodeId, limit: int, before: int | None, common: Common) -> None:
    with connected(common) as client:
        # One more than is shown: the text before the last of them.
        page = client.history(node, before=before, limit=limit + 1, content=True)
    texts = [entry for entry in page.entries if entry.raw is not None]
    whole = page.next is None
    changes = list(_changes(texts))[: None if whole else -1]
    next_ = None if whole else changes[-1].n if changes else texts[-1].n + 1 if texts else page.next
    if common.json:
        return print_json(msgspec.json.encode(Changes(node, changes, next_)))
    _say_deleted(page)
    for change in changes:
        _print_change(change)
    return _cut_short(len(changes), next_, f"baton history {node} --diff")


def _changes(texts: Sequence[EntryBody]) -> Iterator[Change]:
    """Yield what each of `texts`, newest first, changed of the one behind it; the last of a whole history all of it."""
    for at, entry in enumerate(texts):
        older = texts[at + 1] if at + 1 < len(texts) else None
        known = entry.redaction is None and (older is None or older.redaction is None)
        before = older.raw or "" if older is not None else ""
        diff = _diff(before, entry.raw or "", older.revision if older is not None else "nothing", entry.revision)
        yield Change(entry.n, entry.revision, older.revision if older is not None else None, diff if known else None)


def _diff(before: str, after: str, old: str, new: str) -> str:
    lines = unified_diff(before.splitlines(), after.splitlines(), old[:HEX_SHOWN], new[:HEX_SHOWN], lineterm="")
    return "\n".join(lines)


def _print_change(change: Change) -> None:
    if change.diff is None:
        say(f"{change.revision[:HEX_SHOWN]} cannot be compared: it was redacted, or the one before it was")
    else:
        print_text(change.diff or f"{change.revision[:HEX_SHOWN]} changed nothing of the text")
    say("")


# --- shared ----------------------------------------------------------------------------------------------------------


def _texts(client: Client, node: NodeId, *, before: int | None = None) -> Iterator[EntryBody]:
    """Yield the entries that brought a text, newest first, a page at a time."""
    more = True
    while more:
        page = client.history(node, before=before, content=True)
        yield from (entry for entry in page.entries if entry.raw is not None)
        before, more = page.next, page.next is not None


def _blamed(place: str, text: str, origin: Origin, by_n: dict[int, EntryBody]) -> Blamed:
    entry = by_n[origin.n]
    return Blamed(place, text, entry.n, entry.revision, entry.at, entry.author, entry.agent, origin.unsure)


def _say_deleted(page: HistoryReply) -> None:
    if (gone := page.deleted) is not None:
        say(f"{page.id} was deleted at {gone.at} by {gone.by}: {gone.reason}")


def _who(entry: EntryBody) -> str:
    return f"{entry.agent} for {entry.author}" if entry.agent is not None else entry.author or ""


def _by(blamed: Blamed) -> str:
    return blamed.agent or blamed.author or ""


def _note(entry: EntryBody) -> str:
    return entry.reason or ("its text was redacted" if entry.redaction is not None else "")


def _cut_short(count: int, next_: int | None, again: str) -> None:
    if next_ is not None:
        say(f"… only the newest {count} of this list; more: {again} --before {next_}")


def _times(entries: int) -> str:
    return "1 entry" if entries == 1 else f"{entries} entries"
