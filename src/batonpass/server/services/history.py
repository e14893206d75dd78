"""What became of a node: its history, any revision of it as it was, and taking a text out of it (D41).

A history is kept for ever, a deleted node's too. What must not be kept is
redacted: the act stands in the history in the text's place. Where else the
text may lie is a person's to look after; `docs/howto/remove-a-text.md` says it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from batonpass.core.errors import Conflict, Invalid, NotFound
from batonpass.core.history import ACTS, REDACT
from batonpass.core.ids import NodeId, Resource
from batonpass.core.nodes import Node
from batonpass.server.services.change import Caller, Change, Replayed, change
from batonpass.server.services.principals import require_admin, require_current
from batonpass.server.services.search import forget_for_good
from batonpass.store import events, history, nodes, tombstones
from batonpass.store.base import Reader, Store, retried
from batonpass.store.history import Entry, Written
from batonpass.store.tombstones import Tombstone
from batonpass.wire.history import RedactReply

PAGE_MAX: Final = 200
PAGE_WITH_TEXT_MAX: Final = 50
"""The same when each entry brings its text, which may be some ten kilobytes."""
NEWEST: Final = 2**31
"""Beyond any entry's number."""
STAYS: Final = (
    "the database's files still have what was written over, since they are large or being read; redact again to go on"
)


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """Entries of a node, newest first, and where the next page begins; its tombstone, if it was deleted."""

    entries: tuple[Entry, ...]
    tombstone: Tombstone | None
    next: int | None


@dataclass(frozen=True, slots=True)
class Revision:
    """A revision with the entry by which the node last came to it, and the one that redacted it."""

    entry: Entry
    redaction: Entry | None


class History:
    """Histories of the API. Each public method is one call of it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def page(self, node: NodeId, *, before: int | None, limit: int, with_text: bool) -> HistoryPage:
        """Return a page of a node's history, of one that was deleted too; `NotFound` when there never was one."""
        most = min(limit, PAGE_WITH_TEXT_MAX if with_text else PAGE_MAX)
        async with self._store.read() as tx:
            found = await history.page(tx, node, before=before or NEWEST, most=most + 1)
            gone = (await tombstones.tombstones_of(tx, [node])).get(node)
            if not found and gone is None and not await nodes.nodes_of(tx, [node]):
                raise NotFound(f"there is no node {node}, and there never was one")
        entries = tuple(found[:most])
        return HistoryPage(entries, gone, entries[-1].n if len(found) > most else None)

    async def revision(self, node: NodeId, prefix: str) -> Revision:
        """Return the revision that `prefix` begins; `NotFound` when none does, `Invalid` when several do."""
        async with self._store.read() as tx:
            entry = await history.get_newest(tx, node, await _named(tx, node, prefix))
            assert entry is not None, (node, prefix)
            by = await history.get_entry(tx, node, entry.redaction) if entry.redaction is not None else None
        return Revision(entry, by)

    async def redact(self, caller: Caller, node: NodeId, prefix: str, *, reason: str) -> RedactReply | Replayed:
        """Take the text of a revision that the node has left behind out of its history, for good; an admin's act.

        Once it is committed, a SQLite file forgets it too. A repeated call goes on with that, whatever it answers.
        """
        answer = await self._redact(caller, node, prefix, reason=reason)
        if not await forget_for_good(self._store) and isinstance(answer, RedactReply):
            answer.warnings.append(STAYS)
        return answer

    @retried
    async def _redact(self, caller: Caller, node: NodeId, prefix: str, *, reason: str) -> RedactReply | Replayed:
        async with change(self._store, caller, onto=frozenset({Resource(node)})) as made:
            if made.replayed is not None:
                return made.replayed
            require_admin(await require_current(made.tx, made.now))
            found, _ = await nodes.lock(made.tx, [node])
            stored = found.get(node)
            gone = await tombstones.lock(made.tx, node) if stored is None else None
            if stored is None and gone is None:
                raise NotFound(f"there is no node {node}, and there never was one")
            revision = await _named(made.tx, node, prefix)
            if stored is not None and stored.revision == revision:
                raise Conflict(
                    f"{revision} is what {node} reads at present: write a clean revision first, then redact this one",
                    field="revision",
                )
            entries = await history.redact(made.tx, node, revision)
            if entries:
                _note(made, stored or gone, revision, reason)
            warnings = list(caller.warnings)
            return made.answer(RedactReply("updated" if entries else "skipped", node, revision, entries, warnings))


def _note(made: Change, about: Node | Tombstone | None, revision: str, reason: str) -> None:
    """Write the act into the history and the feed. It names the revision whose text is gone, never the text."""
    assert about is not None, revision
    by = made.caller.principal
    history.add(
        made.tx,
        about.id,
        about.revision,
        Written(REDACT, reason=reason),
        by=by,
        via=made.caller.door,
        at=made.now,
    )
    project = about.authored.project if isinstance(about, Node) else about.project
    data = {"redacted": revision, "reason": reason}
    happened = events.Event("node.redacted", about.id, project, by, revision=about.revision, data=data)
    events.append(made.tx, [happened], at=made.now)


async def _named(tx: Reader, node: NodeId, prefix: str) -> str:
    """Return the one revision of `node` that begins with `prefix`."""
    match await history.revisions(tx, node, prefix):
        case [revision]:
            return revision
        case []:
            said = f"the history of {node} has no revision {prefix}; GET /v1/nodes/{node}/history lists them"
            raise NotFound(said, field="revision")
        case several:
            raise Invalid(
                f"revision: {prefix} begins {len(several)} revisions of {node}; give more of it",
                details=several,
                field="revision",
            )


def is_act(entry: Entry) -> bool:
    """Whether an entry says what was done to the node, and brings no text."""
    return entry.verb in ACTS
