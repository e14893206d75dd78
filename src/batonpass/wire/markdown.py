"""Node and text: markdown with front matter, and the same as JSON, in both directions (companion 1.1, D12).

Both readers end in one `Reading`: the authored part, checked, with every
finding of a bad one in a single `InvalidNode`. `write` is the canonical form
of the authored part and what `revision` covers; `raw` shows the stamps too,
and reads back as the same authored part.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, assert_never

from batonpass.core import edges as edge_law
from batonpass.core import nodes
from batonpass.core.clock import iso
from batonpass.core.edges import Edge
from batonpass.core.errors import Invalid, InvalidNode
from batonpass.core.ids import HolderId, NodeId, json_type, parse_node_id, shown
from batonpass.core.nodes import Authored, Node, Shape, Stamp, Value
from batonpass.wire import frontmatter
from batonpass.wire.text import Cleaner, marked, unix_newlines

_FENCE: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)
_AUTHORED_KEYS: Final = frozenset(
    "id type title summary status date project priority readiness wake needed_by requires profile edges body".split()
)

_EXTRA_PLACES: Final = {key: place for place, key in enumerate(nodes.EXTRA_KEYS)}
_PLAIN_KEY: Final = re.compile(r"[A-Za-z0-9_.-]{1,60}", re.ASCII)

FlatEdge = Mapping[str, str | int]
FrontMatter = dict[str, str | Sequence[str] | Sequence[FlatEdge]]


@dataclass(frozen=True, slots=True)
class Flipped:
    """An edge given by its inverse label: it belongs on `src`, which must exist, and points back."""

    src: NodeId
    edge: Edge


@dataclass(frozen=True, slots=True)
class Reading:
    """What a put says: the authored part, the edges it writes on other nodes, and what was passed over or changed.

    `stamped` are the keys that only a server writes, as they came: they count
    for nothing except where an import keeps them (D12).
    """

    authored: Authored
    flipped: tuple[Flipped, ...]
    warnings: tuple[str, ...]
    stamped: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claim:
    """The lease as an edge of its node: shown by every read, stored nowhere else (D4)."""

    to: HolderId
    epoch: int


def read(text: str) -> Reading:
    """Return the node that `text`, markdown with front matter, describes; `InvalidNode` has every finding."""
    text, mark = marked(unix_newlines(text.removeprefix("\ufeff")))
    opening = _FENCE.match(text)
    closing = _FENCE.search(text, opening.end()) if opening is not None else None
    if opening is None or closing is None:
        finding = "front matter: a node begins with its keys between two lines of ---"
        raise InvalidNode(finding, details=(finding,), field="front matter")
    fields, warnings = frontmatter.load(text[opening.end() + 1 : closing.start()])
    body = text[closing.end() + 1 :].removeprefix("\n").removesuffix("\n")
    return _Assembly(fields, Cleaner(mark), warnings).reading(body)


def read_json(fields: Mapping[str, object]) -> Reading:
    """Return the node that a JSON object describes: the same keys, flat edges, and `body`."""
    rest = {key: value for key, value in fields.items() if key != "body"}
    body = fields.get("body")
    if body is None:
        body = ""
    return _Assembly(rest, Cleaner(), []).reading(unix_newlines(body) if isinstance(body, str) else body)


def write(authored: Authored) -> str:
    """Return the canonical markdown of the authored part; `read` gives the same part back, byte for byte."""
    return _text([*_keys(authored), ("edges", [_flat(edge) for edge in authored.edges])], authored.body)


def fields(authored: Authored) -> dict[str, object]:
    """Return the authored part as JSON values; `read_json` gives the same part back."""
    edges = [_flat(edge) for edge in authored.edges]
    return {**dict(_keys(authored)), **({"edges": edges} if edges else {}), "body": authored.body}


def revision(authored: Authored) -> str:
    """Return the node's revision: hex SHA-1 of its canonical markdown (D12)."""
    return revision_of(write(authored))


def revision_of(text: str) -> str:
    """Return the revision of the node whose canonical markdown is `text`."""
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def raw(node: Node, *, claim: Claim | None = None) -> str:
    """Return all that is shown of `node` as markdown: authored part, stamps, attribution, times, the claim's edge."""
    edges = [_flat(edge) for edge in node.authored.edges]
    if claim is not None:
        edges.append({**_claim_edge(claim), "epoch": str(claim.epoch)})
    return _text([*_stamped_keys(node), ("edges", edges)], node.authored.body)


def front_matter(node: Node, *, claim: Claim | None = None) -> FrontMatter:
    """Return the keys of `raw` as JSON values; the epoch of a claim's edge is a number here."""
    edges: list[FlatEdge] = [_flat(edge) for edge in node.authored.edges]
    if claim is not None:
        edges.append({**_claim_edge(claim), "epoch": claim.epoch})
    shown_keys: FrontMatter = dict(_stamped_keys(node))
    return {**shown_keys, "edges": edges} if edges else shown_keys


class _Assembly:
    """One node in the making: takes keys from either reader, and keeps findings and warnings as it goes."""

    def __init__(self, fields: Mapping[str, object], cleaner: Cleaner, warnings: Sequence[str]) -> None:
        self._fields = dict(fields)
        self._cleaner = cleaner
        self._warnings = list(warnings)
        self._findings: list[str] = []

    def reading(self, body: object) -> Reading:
        """Return the checked reading, or raise `InvalidNode` with every finding."""
        self._rename_repo()
        if "body" in self._fields:
            self._warnings.append("body: not a key of front matter; ignored")
        self._fields["body"] = body
        node, node_type = NodeId(self._word("id") or ""), self._word("type") or ""
        edges, flipped = self._edges(node)
        authored = Authored(
            id=node,
            type=node_type,
            title=self._text("title"),
            summary=self._text("summary"),
            status=self._word("status"),
            date=self._word("date"),
            project=self._word("project"),
            priority=self._unless_cleared("priority", nodes.CLEAR_PRIORITY),
            readiness=self._unless_cleared("readiness", nodes.CLEAR_READINESS),
            wake=self._word("wake"),
            needed_by=self._word("needed_by"),
            requires=self._list("requires"),
            profile=self._word("profile"),
            extra=self._extra(node_type),
            edges=edges,
            body=self._text("body"),
        )
        nodes.require_valid(authored, also=self._findings)
        stamped = {key: self._fields[key] for key in nodes.STAMPED_KEYS & self._fields.keys()}
        return Reading(authored, flipped, (*self._warnings, *self._cleaner.warnings, *nodes.advice(authored)), stamped)

    def _rename_repo(self) -> None:
        """Read `repo` as the name that `project` used to have; where both are given, `repo` was the one to write."""
        repo = self._fields.pop("repo", None)
        if not repo:
            return
        if self._fields.get("project") and self._fields["project"] != repo:
            self._warnings.append("project: repo is given too and differs; repo counts")
        self._fields["project"] = repo

    def _word(self, key: str) -> str | None:
        """Return an identifier, date or word as it stands: what is wrong in it is refused, not repaired."""
        match self._fields.get(key):
            case None | "":
                return None
            case str(word):
                return self._cleaner.identifier(word)
            case other:
                self._findings.append(f"{key}: must be a string, not {json_type(other)}")
                return None

    def _text(self, key: str) -> str:
        value = self._fields.get(key)
        return self._cleaner.text(value, field=key) if isinstance(value, str) else self._word(key) or ""

    def _unless_cleared(self, key: str, forms: frozenset[str]) -> str | None:
        word = self._word(key)
        return None if word in forms else word

    def _list(self, key: str) -> tuple[str, ...]:
        """Return a list, for which a single scalar will do; empty items count for nothing."""
        value = self._fields.get(key)
        items = value if isinstance(value, list) else [value]
        kept = []
        for item in items:
            if isinstance(item, str):
                kept.append(self._cleaner.text(item, field=key))
            elif item is not None:
                self._findings.append(f"{key}: takes strings, not {json_type(item)}")
        return tuple(item for item in kept if item)

    def _extra(self, node_type: str) -> dict[str, Value]:
        extra: dict[str, Value] = {}
        for key in self._fields:
            if key in _AUTHORED_KEYS or key in nodes.STAMPED_KEYS:
                continue
            match nodes.extra_shape(key):
                case None:
                    self._pass_over(node_type, key)
                case Shape.LIST:
                    extra[key] = self._list(key)
                case Shape.COMMITS:
                    extra[key] = nodes.merge_commits(self._list(key))
                case Shape.FLAG:
                    extra[key] = self._flag(key)
                case Shape.TEXT:
                    extra[key] = self._text(key)
                case other:
                    assert_never(other)
        return {key: value for key, value in sorted(extra.items(), key=_extra_order) if value}

    def _flag(self, key: str) -> str:
        value = self._fields[key]
        return str(value).lower() if isinstance(value, bool) else self._text(key)

    def _pass_over(self, node_type: str, key: str) -> None:
        named = key if _PLAIN_KEY.fullmatch(key) else shown(key)
        if (refusal := nodes.refused_key(node_type, key)) is not None:
            self._findings.append(refusal)
        else:
            self._warnings.append(f"{named}: not a key of a node; ignored")

    def _edges(self, node: NodeId) -> tuple[tuple[Edge, ...], tuple[Flipped, ...]]:
        items = self._fields.get("edges") or []
        if not isinstance(items, list):
            self._findings.append("edges: takes a list of {type: …, to: …}")
            return (), ()
        stored: list[Edge] = []
        flipped: list[Flipped] = []
        for position, item in enumerate(items):
            match self._edge(node, item, field=f"edges[{position}]"):
                case Edge() as edge if edge not in stored:
                    stored.append(edge)
                case Flipped() as flip:
                    flipped.append(flip)
                case _:
                    pass
        return edge_law.in_order(stored), tuple(flipped)

    def _edge(self, node: NodeId, item: object, *, field: str) -> Edge | Flipped | None:
        """Return one edge under its canonical type, or None when it is a claim's view or not readable."""
        if not isinstance(item, dict):
            self._findings.append(f"{field}: must be {{type: …, to: …}}, not {json_type(item)}")
            return None
        attrs = {key: value for key, value in item.items() if key not in {"type", "to"} and value is not None}
        if edge_law.is_claim(item.get("type"), attrs):
            return None
        try:
            known = edge_law.normalise(item.get("type"), field=f"{field}.type")
            to = parse_node_id(item.get("to"), field=f"{field}.to")
        except Invalid as refusal:
            self._findings.append(refusal.message)
            return None
        if wrong := edge_law.check_attrs(attrs, field=field):
            self._findings += wrong
            return None
        if not known.inverted:
            return Edge(known.type.name, to, attrs)
        flip = Flipped(to, Edge(known.type.name, node, attrs))
        self._findings += nodes.edge_findings(flip.src, flip.edge)
        self._warnings.append(f"{field}: {item['type']} {to} is written as {known.type.name} on {to}")
        return flip


def _keys(authored: Authored) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    """Yield the keys that have a value, in canonical order, without the edges."""
    for key, value in (
        ("id", authored.id),
        ("type", authored.type),
        ("title", authored.title),
        ("summary", authored.summary),
        ("status", authored.status),
        ("date", authored.date),
        ("project", authored.project),
        ("priority", authored.priority),
        ("readiness", authored.readiness),
        ("wake", authored.wake),
        ("needed_by", authored.needed_by),
        ("requires", authored.requires),
        ("profile", authored.profile),
        *sorted(authored.extra.items(), key=_extra_order),
    ):
        if value:
            yield key, value


def _stamped_keys(node: Node) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    stamps = {"priority": node.priority_stamp, "readiness": node.readiness_stamp}
    for key, value in _keys(node.authored):
        yield key, value
        if (stamp := stamps.get(key)) is not None:
            yield from _stamp_keys(key, stamp)
    by = node.attribution
    for key, text in (
        ("author", by.author),
        ("authored_by_agent", by.agent),
        ("session", by.session),
        ("authored_via", by.via),
        ("created_at", iso(node.created_at)),
        ("updated_at", iso(node.updated_at)),
    ):
        if text:
            yield key, text


def _stamp_keys(key: str, stamp: Stamp) -> Iterator[tuple[str, str]]:
    yield f"{key}_by", stamp.by
    yield f"{key}_at", iso(stamp.at)
    yield f"{key}_via", stamp.via


def _flat(edge: Edge) -> dict[str, str]:
    return {"type": edge.type, "to": edge.to, **dict(sorted(edge.attrs.items()))}


def _claim_edge(claim: Claim) -> dict[str, str]:
    return {"type": "assigned", "to": claim.to, "via": "claim"}


def _extra_order(entry: tuple[str, Value]) -> tuple[int, str]:
    """Sort key of an optional key: as the table lists them, then the open family by name."""
    key, _ = entry
    return (_EXTRA_PLACES.get(key, len(_EXTRA_PLACES)), key)


def _text(entries: Iterable[frontmatter.Pair], body: str) -> str:
    front = frontmatter.dump(entries)
    return f"---\n{front}---\n" + (f"\n{body}\n" if body else "")
