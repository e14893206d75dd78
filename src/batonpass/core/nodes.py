"""Nodes: what one is made of, and the complete list of what can be wrong with one (companion 1, D12).

A node has two parts. `Authored` is what a client may write, and exactly what
the revision covers. Everything else on a `Node` is stamped by the server from
the caller's token and the database's clock, and is ignored when it comes in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date as calendar_date
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from batonpass.core import edges as edge_law
from batonpass.core.edges import Edge
from batonpass.core.errors import Invalid, InvalidNode
from batonpass.core.ids import AgentId, Instant, NodeId, PersonId, parse_node_id, shown
from batonpass.core.node_types import NODE_TYPES, NodeType, check_status, require_type, unknown_type

TITLE_CHARS_MAX: Final = 300
SUMMARY_CHARS_MAX: Final = 500
BODY_BYTES_MAX: Final = 8192
EDGES_MAX: Final = 40
COMMITS_MAX: Final = 40
LIST_ITEMS_MAX: Final = 100
VALUE_CHARS_MAX: Final = 500
STATUS_CHARS_MAX: Final = 50

PRIORITIES: Final = ("p1", "p2", "p3")
CLEAR_PRIORITY: Final = frozenset({"", "none", "clear", "p0"})
CLEAR_READINESS: Final = frozenset({"", "none", "clear"})
READY: Final = "agent"
HUMAN: Final = "human"

_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9-]*", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_REPO: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]*", re.ASCII)
SHA_HEX_MIN: Final = 7
"""How much of a commit's hash names it."""
_SHA: Final = re.compile(rf"[0-9a-f]{{{SHA_HEX_MIN},40}}", re.ASCII)
_PLACEHOLDER: Final = re.compile(
    r"\s*(<[^<>]*>|\[[^\[\]]*\]|\.\.\.|…|tbd|todo|fixme|placeholder)[.:]?\s*", re.IGNORECASE
)
_PROPOSAL_KEY: Final = re.compile(r"gate_proposal_[a-z][a-z_]{0,40}", re.ASCII)

Value = str | tuple[str, ...]


class Shape(StrEnum):
    """What an optional key holds."""

    TEXT = "text"
    FLAG = "flag"
    LIST = "list"
    COMMITS = "commits"


EXTRA_KEYS: Final[Mapping[str, Shape]] = MappingProxyType(
    dict.fromkeys(("name", "email", "label", "pubkey", "target", "harness", "model"), Shape.TEXT)
    | dict.fromkeys(("always_on",), Shape.FLAG)
    | dict.fromkeys(
        (
            "tags slugs roles pin exclude queue_mute fingerprints applies_to_tags applies_to_repos applies_to_projects"
            " couples_when couples_also skills plugins mcp"
        ).split(),
        Shape.LIST,
    )
    | dict.fromkeys(("commits",), Shape.COMMITS)
    | dict.fromkeys(("outcome", "execution", "gate_head", "gate_base"), Shape.TEXT)
)
"""The optional keys that have no column of their own, in the order in which they are written."""

STAMPED_KEYS: Final = frozenset(
    "author authored_via authored_by_agent session created_at updated_at revision by owner execution_at"
    " priority_by priority_at priority_via readiness_by readiness_at readiness_via".split()
)
"""Keys that only the server writes; a put may carry them, and they count for nothing (D12, D16b)."""

HOLD_ENDS: Final = "only the write that takes the key `execution` away completes it"
"""How a controller's hold ends."""

LAUNCH_KEYS: Final = frozenset("args argv binary cmd command entrypoint env environment exec executable shell".split())
"""Keys by which the author of a profile could choose what a worker runs: refused, not ignored (D10a)."""


@dataclass(frozen=True, slots=True)
class Authored:
    """What a client may write of a node. Unchecked until `require_valid` has seen it.

    `extra` holds the documented optional keys without a field here, as text or
    as a tuple of texts; `edges` are outbound, canonical and in order.
    """

    id: NodeId
    type: str
    title: str
    summary: str
    status: str | None = None
    date: str | None = None
    project: str | None = None
    priority: str | None = None
    readiness: str | None = None
    wake: str | None = None
    needed_by: str | None = None
    requires: tuple[str, ...] = ()
    profile: str | None = None
    extra: Mapping[str, Value] = field(default_factory=dict)
    edges: tuple[Edge, ...] = ()
    body: str = ""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Who set a priority or readiness, when and by which door."""

    by: str
    at: Instant
    via: str


@dataclass(frozen=True, slots=True)
class Attribution:
    """Whose node this is, from the token of its last author and never from a body."""

    author: PersonId | None
    via: str
    agent: AgentId | None = None
    session: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A stored node: the authored part and its revision, its stamps, and when it was made and last changed.

    `ready_by_person` says that a person wrote the readiness, which is what makes it consent (D41).
    """

    authored: Authored
    revision: str
    attribution: Attribution
    created_at: Instant
    updated_at: Instant
    priority_stamp: Stamp | None = None
    readiness_stamp: Stamp | None = None
    ready_by_person: bool = False

    @property
    def id(self) -> NodeId:
        """The node's id."""
        return self.authored.id

    @property
    def kind(self) -> NodeType:
        """The node's registered type."""
        return require_type(self.authored.type)


def require_valid(authored: Authored, *, also: Sequence[str] = ()) -> None:
    """Raise `InvalidNode` with every finding in `details`, if there is any.

    A field that `also` already found fault with is not faulted a second time:
    what could not be read reads as missing.
    """
    named = {_field_of(finding) for finding in also}
    findings = (*also, *(finding for finding in validate(authored) if _field_of(finding) not in named))
    if findings:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise InvalidNode(f"{findings[0]}{more}", details=findings, field=_field_of(findings[0]))


def validate(authored: Authored) -> list[str]:
    """Return every finding, each naming field, limit and unit; an empty list means the node may be stored."""
    return [
        *_identity_findings(authored),
        *_text_findings(authored),
        *_scalar_findings(authored),
        *_extra_findings(authored),
        *_edge_findings(authored),
    ]


def check_hold(before: Authored | None, after: Authored) -> str | None:
    """Return why a write may not complete an item that stays under a controller's hold, or None (companion 1.6).

    The controller completes it, by one write that takes the hold away too.
    """
    hold, kind = after.extra.get("execution"), NODE_TYPES.get(after.type)
    completes = kind is not None and after.status is not None and after.status == kind.completion
    if not hold or not completes or (before is not None and before.status == after.status):
        return None
    return f"{after.id} is held by {hold} and may not become {after.status}; {HOLD_ENDS}"


def advice(authored: Authored) -> list[str]:
    """Return what is missing but not required, as warnings."""
    missing = [] if authored.date is not None else ["date: missing; age counts from the day it was written"]
    kind = NODE_TYPES.get(authored.type)
    expected = kind.expected if kind is not None else ()
    return missing + [f"{key}: a {authored.type} usually has one" for key in expected if not authored.extra.get(key)]


def extra_shape(key: str) -> Shape | None:
    """Return what the optional key `key` holds, or None when no such key is documented."""
    return Shape.TEXT if _PROPOSAL_KEY.fullmatch(key) else EXTRA_KEYS.get(key)


def refused_key(node_type: str, key: str) -> str | None:
    """Return the finding when a node of this type may not carry `key` at all, else None."""
    if node_type == "profile" and key in LAUNCH_KEYS:
        return f"{key}: a profile says what a worker needs, never what it runs; nothing in the graph is executed"
    return None


def parse_slug(text: str, *, name: str) -> str:
    """Return `text` as a project slug: lower-case letters, digits and hyphens; raise `Invalid` otherwise."""
    parse_node_id(text, field=name)
    return text


def parse_priority(value: str | None) -> str | None:
    """Return p1, p2 or p3, or None for a form that clears; `InvalidNode` listing the values otherwise."""
    if value is None or value in CLEAR_PRIORITY:
        return None
    if value not in PRIORITIES:
        allowed = (*PRIORITIES, *sorted(form for form in CLEAR_PRIORITY if form))
        raise InvalidNode(
            f"priority: {shown(value)} is none of {', '.join(allowed)}", details=allowed, field="priority"
        )
    return value


def parse_readiness(value: str | None) -> str | None:
    """Return ``agent``, or None for a form that clears; `InvalidNode` otherwise: there is no stamp for a human."""
    if value is None or value in CLEAR_READINESS:
        return None
    if value != READY:
        hint = "; say `requires: [human]` for that" if value == HUMAN else ""
        allowed = (READY, *sorted(form for form in CLEAR_READINESS if form))
        raise InvalidNode(
            f"readiness: {shown(value)} is none of {', '.join(allowed)}{hint}", details=allowed, field="readiness"
        )
    return value


def check_commit(text: str, *, name: str = "commits") -> str | None:
    """Return the finding when `text` is not ``repo@sha`` with 7 to 40 lower-case hex digits, else None."""
    repo, at, sha = text.rpartition("@")
    if at and _REPO.fullmatch(repo) and len(repo) <= VALUE_CHARS_MAX and _SHA.fullmatch(sha):
        return None
    return f"{name}: {shown(text)} is not repo@sha with 7 to 40 lower-case hex digits"


def parse_sha(text: str, *, field: str = "sha") -> str:
    """Return `text` as a commit's hash, or the beginning of one: 7 to 40 lower-case hex digits."""
    if not _SHA.fullmatch(text):
        raise Invalid(f"{field}: {shown(text)} is not {SHA_HEX_MIN} to 40 lower-case hex digits", field=field)
    return text


def merge_commits(commits: Iterable[str]) -> tuple[str, ...]:
    """Return `commits` without repeats: where one id begins another, the longer stays, in the place of the first."""
    kept: list[str] = []
    for commit in commits:
        twin = next((i for i, known in enumerate(kept) if known.startswith(commit) or commit.startswith(known)), None)
        if twin is None:
            kept.append(commit)
        else:
            kept[twin] = max(kept[twin], commit, key=len)
    return tuple(kept)


def _field_of(finding: str) -> str:
    return finding.partition(":")[0]


def _identity_findings(authored: Authored) -> Iterator[str]:
    if authored.id:
        yield from _refusals(lambda: parse_node_id(authored.id))
    else:
        yield "id: required"
    kind = NODE_TYPES.get(authored.type)
    if not authored.type:
        yield "type: required"
    elif kind is None:
        yield unknown_type(authored.type)
    elif (authored.id and not authored.id.startswith(kind.prefixes)) or authored.id in kind.prefixes:
        yield f"id: {shown(authored.id)} does not begin with a prefix of {kind.name} ({', '.join(kind.prefixes)})"
    if kind is not None and (finding := check_status(kind, authored.status)) is not None:
        yield finding
    elif authored.status is not None and (
        not _SLUG.fullmatch(authored.status) or len(authored.status) > STATUS_CHARS_MAX
    ):
        yield (
            f"status: {shown(authored.status)} is not a word of lower-case letters, digits and hyphens,"
            f" at most {STATUS_CHARS_MAX} characters"
        )
    if kind is not None:
        yield from (f"{key}: required for a {kind.name}" for key in kind.required if not authored.extra.get(key))


def _text_findings(authored: Authored) -> Iterator[str]:
    for name, text, chars_max in (
        ("title", authored.title, TITLE_CHARS_MAX),
        ("summary", authored.summary, SUMMARY_CHARS_MAX),
    ):
        if not text.strip():
            yield f"{name}: required"
        elif len(text) > chars_max:
            yield f"{name}: {len(text)} code points; the limit is {chars_max} code points"
    size = len(authored.body.encode(errors="surrogatepass"))
    if size > BODY_BYTES_MAX:
        yield f"body: {size} bytes; the limit is {BODY_BYTES_MAX} bytes"
    if authored.type == "question":
        for name, text in (("title", authored.title), ("summary", authored.summary), ("body", authored.body)):
            if _PLACEHOLDER.fullmatch(text):
                yield f"{name}: {shown(text.strip())} is a template's placeholder, not a question"


def _scalar_findings(authored: Authored) -> Iterator[str]:
    for name, day in (("date", authored.date), ("wake", authored.wake), ("needed_by", authored.needed_by)):
        if day is not None and not _is_day(day):
            yield f"{name}: {shown(day)} is not a day of the form YYYY-MM-DD"
    if (project := authored.project) is not None:
        yield from _refusals(lambda: parse_slug(project, name="project"))
    if (profile := authored.profile) is not None:
        yield from _refusals(lambda: parse_node_id(profile, field="profile"))
    yield from _refusals(lambda: parse_priority(authored.priority))
    yield from _refusals(lambda: parse_readiness(authored.readiness))
    yield from _list_findings("requires", authored.requires)
    for need in authored.requires:
        if not _SLUG.fullmatch(need):
            yield f"requires: {shown(need)} is not a word of lower-case letters, digits and hyphens"


def _extra_findings(authored: Authored) -> Iterator[str]:
    for key, value in authored.extra.items():
        match extra_shape(key), value:
            case Shape.TEXT, str():
                yield from _length_findings(key, value)
            case Shape.FLAG, "true" | "false":
                pass
            case Shape.FLAG, str():
                yield f"{key}: {shown(value)} is neither true nor false"
            case Shape.LIST, tuple():
                yield from _list_findings(key, value)
            case Shape.COMMITS, tuple():
                if len(value) > COMMITS_MAX:
                    yield f"{key}: {len(value)} commits; the limit is {COMMITS_MAX} commits"
                yield from (finding for commit in value if (finding := check_commit(commit, name=key)) is not None)
            case None, _:
                yield f"{key}: is not a key of a node"
            case _:
                yield f"{key}: takes {'a text' if isinstance(value, tuple) else 'a list'}"


def _edge_findings(authored: Authored) -> Iterator[str]:
    if len(authored.edges) > EDGES_MAX:
        yield f"edges: {len(authored.edges)} edges; the limit is {EDGES_MAX} edges"
    seen: set[tuple[str, NodeId]] = set()
    for edge in authored.edges:
        yield from edge_findings(authored.id, edge)
        if edge.key in seen:
            yield f"edges: {edge.type} to {shown(edge.to)} stands twice with different attributes"
        seen.add(edge.key)


def edge_findings(src: NodeId, edge: Edge) -> Iterator[str]:
    """Yield every finding about one canonical edge out of `src`."""
    if edge.type not in edge_law.EDGE_TYPES:
        yield from _refusals(lambda: edge_law.normalise(edge.type, field="edges.type"))
    yield from _refusals(lambda: parse_node_id(edge.to, field="edges.to"))
    if edge.to == src:
        yield f"edges: {edge.type} may not lead from a node to itself"
    yield from edge_law.check_attrs(edge.attrs, field=f"edges.{edge.type}")


def _list_findings(name: str, items: Sequence[str]) -> Iterator[str]:
    if len(items) > LIST_ITEMS_MAX:
        yield f"{name}: {len(items)} items; the limit is {LIST_ITEMS_MAX} items"
    for item in items:
        yield from _length_findings(name, item)


def _length_findings(name: str, text: str) -> Iterator[str]:
    if not text:
        yield f"{name}: an empty text is written by leaving it out"
    if len(text) > VALUE_CHARS_MAX:
        yield f"{name}: {len(text)} code points; the limit is {VALUE_CHARS_MAX} code points"


def _refusals(parse: Callable[[], object]) -> Iterator[str]:
    """Yield the message of the `Invalid` that `parse` raises, if it does."""
    try:
        parse()
    except Invalid as refusal:
        yield refusal.message


def _is_day(text: str) -> bool:
    """Whether `text` is a day that exists, written YYYY-MM-DD and no other way."""
    if not _DATE.fullmatch(text):
        return False
    try:
        calendar_date.fromisoformat(text)
    except ValueError:
        return False
    return True
