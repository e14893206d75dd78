"""Every parameter that stands in a path, a query or a header: what it is, in words and as a JSON schema.

A name means the same in all operations; where it does not, it stands here under the operation's or the noun's name
too (`nodes.edges.type`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from batonpass.core.edges import EDGE_TYPES
from batonpass.core.ids import CLASS_NAME, RECORD_ID, RECORD_ID_CHARS_MAX, RECORD_NAME_CHARS_MAX
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.queue import OFFSET_MAX
from batonpass.core.readiness import Ready
from batonpass.core.runs import State
from batonpass.core.search import FOUND_MAX, QUERY_CHARS_MAX
from batonpass.core.search import LIMIT_MAX as FOUND_LIMIT_MAX
from batonpass.server.http.operations import Operation
from batonpass.wire.events import LAST_EVENT_ID, WAIT_S_MAX
from batonpass.wire.schemas import ID, INT_MAX, KEY_NAME, LABEL, PREFIX, Schema
from batonpass.wire.transfer import NODE_COUNT

NUMBER_MAX: Final = 10**9 - 1
_FLAG: Final[Schema] = {"type": "string", "enum": ["1", "0", "true", "false"]}
_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 1, "maximum": NUMBER_MAX}
_PLACE: Final[Schema] = {"type": "string", "maxLength": 1000}
_CLASS: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]*$", "maxLength": RECORD_NAME_CHARS_MAX}
_FIELD: Final[Schema] = {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$", "maxLength": RECORD_NAME_CHARS_MAX}
_RECORD_ID: Final[Schema] = {
    "type": "string",
    "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
    "maxLength": RECORD_ID_CHARS_MAX,
}
_RECORD: Final[Schema] = {
    "type": "string",
    "pattern": f"^{CLASS_NAME}/{RECORD_ID}$",
}
_ME_OR_ID: Final[Schema] = {**ID, "examples": ["me"]}


@dataclass(frozen=True, slots=True)
class Parameter:
    """What one parameter says, and the schema of its value."""

    about: str
    schema: Schema


def _names(known: object) -> Schema:
    """Return the schema of one name or several with commas between them."""
    assert isinstance(known, list)
    return {"type": "string", "pattern": f"^({'|'.join(known)})(,({'|'.join(known)}))*$"}


def _hex(at_least: int) -> Schema:
    return {"type": "string", "pattern": f"^[0-9a-f]{{{at_least},40}}$"}


IN_PATHS: Final[dict[str, Parameter]] = {
    "id": Parameter("The node.", ID),
    "tokens.id": Parameter("The agent.", ID),
    "capabilities.id": Parameter("The agent.", ID),
    "capabilities.hosts.id": Parameter("The profile's node.", ID),
    "run_id": Parameter("The run.", ID),
    "classes.name": Parameter("The class of records.", {**ID, "maxLength": RECORD_NAME_CHARS_MAX}),
    "record_class": Parameter("The class of the record.", _CLASS),
    "records.id": Parameter("Which record of its class.", _RECORD_ID),
    "tasks.id": Parameter("Which record of its class.", _RECORD_ID),
    "records.field": Parameter("A field of the record.", _FIELD),
    "tasks.field": Parameter("A task field of the record.", _FIELD),
    "sha": Parameter("A commit's hash, or how it begins: 7 to 40 hex digits.", _hex(7)),
    "history.sha": Parameter("A revision, or how it begins: 8 to 40 hex digits.", _hex(8)),
    "prefix": Parameter("How the token's hash begins: 8 to 64 hex digits, as lists show it.", PREFIX),
    "digest.briefing.project": Parameter("A slug, or the id of a repository's or project's node.", ID),
    "project": Parameter("The project, or `*` for all.", {"type": "string", "pattern": "^([*]|[a-z0-9][a-z0-9-]*)$"}),
}

IN_QUERIES: Final[dict[str, Parameter]] = {
    "after": Parameter("Where the page begins: the `next` of the page before, as it was given.", _PLACE),
    "before": Parameter("Only entries before this one: the `next` of the page before.", _COUNT),
    "content": Parameter("With the text of each revision; pages are shorter then.", _FLAG),
    "repo": Parameter("Only commits of this repository.", _TEXT),
    "all": Parameter("Everybody's, not only one's own; for admins.", _FLAG),
    "assignee": Parameter("Only what is assigned to this person or agent; `me` is the caller.", _ME_OR_ID),
    "authored": Parameter("Only the parts that somebody wrote, without stamps and attribution (D12).", _FLAG),
    "direction": Parameter(
        "Only edges that go out of the node, or come in.", {"type": "string", "enum": ["in", "out"]}
    ),
    "exclude_type": Parameter("None of these node types.", _names(sorted(NODE_TYPES))),
    "records.get_field.wait": Parameter(
        "How many seconds to wait for the field to move from what was seen.",
        {"type": "integer", "minimum": 0, "maximum": WAIT_S_MAX},
    ),
    "records.get_field.version": Parameter(
        "The version that was seen: when the field is at another one, the answer comes at once.",
        {"type": "integer", "minimum": 0, "maximum": INT_MAX},
    ),
    "records.get_field.held": Parameter(
        "Whether the task was seen with a lease in force: when that is different, the answer comes at once.", _FLAG
    ),
    "free": Parameter("Only records of which this task is free.", _FIELD),
    "records.listed.holder": Parameter("Only records of which this identity holds a task; `me` is the caller.", _TEXT),
    "values": Parameter("With the values that were written; pages are shorter then.", _FLAG),
    "fields": Parameter("Only these fields, with commas between them.", _TEXT),
    "fp": Parameter("What tells the checkout apart from others, several with commas between them.", _TEXT),
    "gzip": Parameter("Compressed.", _FLAG),
    "holder": Parameter("Only leases of this holder; `me` is the caller.", _TEXT),
    "counts": Parameter("Count every item, not the first thousand only; that takes longer (D16).", _FLAG),
    "inbox": Parameter("With what waits for the viewer, which a person's first page has unless this is 0.", _FLAG),
    "include_blocked": Parameter("Blocked items too, which are only counted otherwise (D13).", _FLAG),
    "kind": Parameter("Only events of these kinds, with commas between them; the set of kinds grows.", _TEXT),
    "node": Parameter("Only events of this node.", ID),
    "runs.listed.node": Parameter("Only runs on this item.", ID),
    "runs.listed.agent": Parameter("Only runs of this agent.", ID),
    "runs.listed.state": Parameter(
        "Only runs whose process is in this state.", {"type": "string", "enum": list(State)}
    ),
    "owner": Parameter("Whose machines: `me`, which is the person behind the caller, or a person's id.", _ME_OR_ID),
    "max_age": Parameter(
        "Only machines that were there within this time: `30m`, `12h`, `7d`, or milliseconds.",
        {"type": "string", "pattern": "^([0-9]+([.][0-9]+)?|[.][0-9]+)(ms|s|m|h|d|w)?$"},
    ),
    "events.page.record": Parameter(
        "Only events of this record, `<class>/<id>`; of it, as of all records, what the caller may read.", _RECORD
    ),
    "class": Parameter("Only events of records of this class.", _CLASS),
    "events.page.field": Parameter("Only events of fields of this name, or of leases on them.", _FIELD),
    "since": Parameter("Where to begin: the `next` of the page before, a moment with its offset, or `now`.", _PLACE),
    "classes.get.version": Parameter("Which version; the one in force without it.", _COUNT),
    "wait": Parameter(
        "How many seconds to wait when there is nothing yet.", {"type": "integer", "minimum": 0, "maximum": WAIT_S_MAX}
    ),
    "events.page.after": Parameter(
        "Where to begin: the `next` of the page before, a moment with its offset, or `now`; without it, at the"
        " beginning of what is kept.",
        _PLACE,
    ),
    "queue.page.after": Parameter("The `seq` of an earlier answer, to wait for what changes after it.", _PLACE),
    "limit": Parameter("How many entries the page has at most; the server has a limit of its own.", _COUNT),
    "offset": Parameter(
        "How many items come before the page.", {"type": "integer", "minimum": 0, "maximum": OFFSET_MAX}
    ),
    "person": Parameter(
        "Only tokens of this person.", {"type": "string", "pattern": "^person-[a-z0-9-]+$", "maxLength": 200}
    ),
    "keys.listed.name": Parameter("Only the key of this name.", KEY_NAME),
    "project": Parameter("Only what belongs to this project.", ID),
    "q": Parameter(
        "The words to look for, all of them; the last one may only be begun. Nothing in it is an operator.",
        {"type": "string", "maxLength": QUERY_CHARS_MAX},
    ),
    "search.found.limit": Parameter(
        "How many nodes the page has at most.", {"type": "integer", "minimum": 1, "maximum": FOUND_LIMIT_MAX}
    ),
    "search.found.offset": Parameter(
        "How many nodes come before the page.", {"type": "integer", "minimum": 0, "maximum": FOUND_MAX - 1}
    ),
    "readiness": Parameter("Only items of this readiness.", {"type": "string", "enum": [each.value for each in Ready]}),
    "state": Parameter("Only leases in this state.", {"type": "string", "enum": ["live", "lapsed", "reserved"]}),
    "status": Parameter("Only nodes of this status.", _TEXT),
    "target": Parameter("Only corrections of this node, of `project:<slug>`, or `global` ones.", _TEXT),
    "text": Parameter("Only nodes with this text in their title or summary.", {"type": "string", "maxLength": 200}),
    "type": Parameter("Only these node types.", _names(sorted(NODE_TYPES))),
    "nodes.edges.type": Parameter("Only edges of these types.", _names(sorted(EDGE_TYPES))),
}

IN_HEADERS: Final[dict[str, Parameter]] = {
    LAST_EVENT_ID: Parameter("Where a stream goes on: the `id` of its last event. `after` goes before it.", _PLACE),
    "If-Lease": Parameter(
        "The tenures that this write stands on, `<resource>; epoch=<n>`, several with commas between them. When one of "
        "them is over, the write is refused with `lease_lost` and changes nothing (D2a).",
        {"type": "string", "examples": ["task-1; epoch=3"]},
    ),
    "Idempotency-Key": Parameter(
        "A key of the sender's own. Sent again within 24 hours, the same request is answered with the first reply and "
        "changes nothing more; another request under the key is refused (D11).",
        LABEL,
    ),
}

IN_REPLIES: Final[dict[str, Parameter]] = {
    "Baton-Ignored": Parameter("Fields of the body that this route does not know and has overlooked (D16b).", _TEXT),
    "Idempotency-Replayed": Parameter(
        "Stands there when this is the reply of the first request under the key.", {"type": "string", "enum": ["true"]}
    ),
    NODE_COUNT: Parameter("How many nodes are in it.", {"type": "integer", "minimum": 0}),
    "Retry-After": Parameter("In how many seconds to try again.", {"type": "integer", "minimum": 1}),
    "WWW-Authenticate": Parameter("How to say who asks.", {"type": "string", "enum": ["Bearer"]}),
}


UNSAID: Final = Parameter("", _TEXT)
"""What is served of a parameter that nobody has described; a test finds it."""


def in_query(operation: Operation, name: str) -> Parameter:
    """Return what the parameter `name` means in the query of `operation`."""
    return _said(IN_QUERIES, operation, name)


def in_path(operation: Operation, name: str) -> Parameter:
    """Return what the parameter `name` means in the path of `operation`."""
    return _said(IN_PATHS, operation, name)


def _said(where: Mapping[str, Parameter], operation: Operation, name: str) -> Parameter:
    names = (f"{operation.name}.{name}", f"{operation.noun}.{name}", name)
    return next((where[each] for each in names if each in where), UNSAID)
