from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from batonpass.core.edges import Edge
from batonpass.core.errors import BadRequest, Invalid, InvalidNode
from batonpass.core.ids import Fence, HolderId, Instant, NodeId, Resource
from batonpass.core.leases import LeaseView
from batonpass.core.nodes import Attribution, Authored, Node
from batonpass.core.resolution import Resolution
from batonpass.wire import nodes as wire
from batonpass.wire.nodes import Put, PutRequest, Unreadable

AS_TEXT: Final = "---\nid: task-a\ntype: task\ntitle: A\nsummary: S\ndate: 2026-10-01\n---\n\nBody\n"
AS_JSON: Final = {
    "id": "task-a",
    "type": "task",
    "title": "A",
    "summary": "S",
    "date": "2026-10-01",
    "body": "Body",
}
NODE: Final = Node(
    Authored(NodeId("task-a"), "task", "A", "S"), "0" * 40, Attribution(None, "rest"), Instant(0), Instant(1_000)
)
LEASE: Final = LeaseView(
    node_id=Resource("task-a"),
    by=HolderId("agent-7"),
    by_name="seven",
    owner=None,
    expires_at=Instant(9_000_000),
    session=None,
    dispatch=None,
    claimed_at=Instant(0),
    epoch=3,
    reserved=False,
)


def entry(item: object, **request: Any) -> wire.Entry:  # noqa: ANN401 — any field of the request
    (found,) = wire.entries(PutRequest(nodes=[item], **request))
    return found


def test_markdown_json_and_either_with_conditions_say_the_same_node() -> None:
    plain, nested = entry(AS_TEXT), entry({"node": AS_JSON, "if_exists": "update", "revision": "r", "if_epoch": 3})

    assert isinstance(plain, Put)
    assert isinstance(nested, Put)
    assert isinstance(entry(AS_JSON), Put)
    assert plain.reading.authored == nested.reading.authored
    assert (plain.if_exists, plain.revision, plain.if_epoch) == ("error", None, None)
    assert (nested.if_exists, nested.revision, nested.if_epoch) == ("update", "r", 3)


def test_what_the_batch_says_of_existing_nodes_holds_for_entries_that_say_nothing() -> None:
    first, second = wire.entries(PutRequest(nodes=[AS_TEXT, {"node": AS_TEXT, "if_exists": "error"}], if_exists="skip"))

    assert isinstance(first, Put)
    assert isinstance(second, Put)
    assert (first.if_exists, second.if_exists) == ("skip", "error")


@pytest.mark.parametrize(
    "item,node,message",
    [
        (AS_TEXT.replace("title: A", "title: ''"), "task-a", "title: required"),
        (AS_TEXT.replace("---\n\nBody", "\n\nBody"), "task-a", "front matter: "),
        ("no front matter", None, "front matter: "),
        ({**AS_JSON, "title": 3}, "task-a", "title: must be a string, not a number"),
        ({"node": {**AS_JSON, "type": "tusk"}}, "task-a", 'type: "tusk" is not a node type; did you mean task?'),
        ({"node": AS_TEXT, "if_exists": "merge"}, "task-a", "nodes[0]: Invalid enum value 'merge'"),
        ({"node": 3}, None, "nodes[0]: Expected `str | object`, got `int`"),
        ({"node": AS_TEXT, "if_epoch": "3"}, "task-a", "nodes[0]: Expected `int | null`, got `str`"),
        ({"id": "x" * 3000}, None, "type: required"),
        ({"id": 7}, None, "id: must be a string, not a number"),
        (7, None, "nodes[0]: must be markdown or an object, not a number"),
        (None, None, "nodes[0]: must be markdown or an object, not null"),
        ([AS_TEXT], None, "nodes[0]: must be markdown or an object, not an array"),
    ],
)
def test_an_entry_that_says_no_node_is_refused_alone_and_keeps_the_id_it_seems_to_be_about(
    item: object, node: str | None, message: str
) -> None:
    bad, good = wire.entries(PutRequest(nodes=[item, AS_TEXT]))

    assert isinstance(bad, Unreadable)
    assert isinstance(good, Put)
    assert bad.id == node
    assert message in (bad.error.details or (bad.error.message,)) or bad.error.message.startswith(message)


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_a_least_and_a_most(count: int) -> None:
    with pytest.raises(Invalid, match=f"nodes: {count} entries; one call takes 1 to 100 entries"):
        wire.entries(PutRequest(nodes=[AS_TEXT] * count))


def test_a_warning_of_the_body_goes_to_the_entry_it_names() -> None:
    warnings = ["nodes[1].title: 1 character", "nodes[1]: 1 character", "nodes[10].title: 1 character"]

    first, second, third = wire.entries(PutRequest(nodes=[AS_TEXT, AS_JSON, 7]), warnings=warnings)

    assert (first.warnings, second.warnings, third.warnings) == ((), tuple(warnings[:2]), ())


def test_a_field_beside_the_node_that_is_no_condition_is_overlooked_and_named() -> None:
    found = entry({"node": AS_TEXT, "if_exist": "skip"})

    assert isinstance(found, Put)
    assert (found.if_exists, found.warnings) == ("error", ("nodes[0].if_exist: not a field of an entry; ignored",))


def test_a_write_stands_on_the_tenure_and_the_fences_its_body_names() -> None:
    premise = {"kind": "fence", "field": "record:pipelines/7f#driver", "epoch": 4}

    assert wire.fences(NodeId("task-a"), if_epoch=3, based_on=[premise]) == (
        Fence(Resource("task-a"), 3),
        Fence(Resource("record:pipelines/7f#driver"), 4),
    )
    assert wire.fences(NodeId("task-a"), if_epoch=None, based_on=[]) == ()
    assert wire.fences(None, if_epoch=3, based_on=[]) == ()


@pytest.mark.parametrize(
    "premise",
    [
        {},
        7,
        None,
        {"kind": "version", "field": "record:pipelines/7f#driver", "epoch": 4},
        {"kind": "fence", "field": "record:pipelines/7f#driver"},
        {"kind": "fence", "field": "record:pipelines/7f#driver", "epoch": "4"},
        {"kind": "fence", "field": "record:pipelines/7f#driver", "epoch": True},
        {"kind": "fence", "field": "record:pipelines/7f#driver", "epoch": 4, "also": 1},
        {"kind": "fence", "field": "record:pipelines/7f", "epoch": 4},
        {"kind": "fence", "field": "No Node", "epoch": 4},
    ],
)
def test_a_premise_of_another_kind_or_shape_is_no_premise_to_ignore(premise: object) -> None:
    with pytest.raises(BadRequest, match=r"^based_on\[0\]"):
        wire.fences(NodeId("task-a"), if_epoch=None, based_on=[premise])


def test_a_batch_with_a_failed_entry_is_a_207() -> None:
    landed = wire.PutResult(ok=True, status="created", id="task-a", revision="r", warnings=[])
    failed = wire.PutResult(ok=False, status="error", id=None, revision=None, warnings=[], code="invalid_node")

    assert wire.put_reply([landed]).http_status == 200
    assert wire.put_reply([landed, failed]).http_status == 207
    assert msgspec.json.decode(msgspec.json.encode(wire.put_reply([landed, failed]))) == {
        "results": [
            {"ok": True, "status": "created", "id": "task-a", "revision": "r", "warnings": []},
            {"ok": False, "status": "error", "id": None, "revision": None, "warnings": [], "code": "invalid_node"},
        ]
    }


def test_a_node_is_read_with_what_the_graph_says_about_it() -> None:
    resolution = Resolution(NodeId("art-x"), "resolves", "2026-01-01", "What", "The fix", lagging=True)
    other = wire.NodeRef("find-1", "Odd", None)

    reply = wire.node_reply(
        NODE, lease=LEASE, resolution=resolution, open_findings=[other], superseded_by=[other, other]
    )

    sent = msgspec.json.decode(msgspec.json.encode(reply))
    assert sent["resolution"] == {
        "by": "art-x",
        "edge": "resolves",
        "date": "2026-01-01",
        "summary": "What",
        "title": "The fix",
        "lagging": True,
        "note": "art-x resolves this node; its own status still reads open",
    }
    assert sent["open_findings"] == [{"id": "find-1", "title": "Odd", "status": None}]
    assert len(sent["superseded_by"]) == 2
    assert sent["frontmatter"]["edges"] == [{"type": "assigned", "to": "agent-7", "via": "claim", "epoch": 3}]
    assert sent["lease"]["by"] == "agent-7"
    assert msgspec.json.decode(msgspec.json.encode(reply), type=wire.NodeReply).resolution == reply.resolution


def test_a_node_about_which_nothing_is_said_has_none_of_the_enrichment() -> None:
    sent = msgspec.json.decode(msgspec.json.encode(wire.node_reply(NODE, lease=None, resolution=None)))

    assert sent.keys() == {"id", "raw", "frontmatter", "body", "revision"}


def test_a_status_that_follows_the_edge_has_a_note_without_a_lag() -> None:
    assert wire.resolution_body(Resolution(NodeId("art-x"), "answers", None, "", "", lagging=False)).note == (
        "art-x answers this node"
    )


def test_edges_and_rows_of_a_list_as_they_go_over_the_wire() -> None:
    blocks = Edge("blocks", NodeId("task-b"), {"why": "x"})
    seen = wire.edge_body(NodeId("task-a"), blocks, seen_from="in", title="A", status="open", missing=None)

    assert msgspec.to_builtins(seen) == {
        "direction": "in",
        "type": "blocks",
        "from": "task-a",
        "to": "task-b",
        "attrs": {"why": "x"},
        "title": "A",
        "status": "open",
    }
    assert msgspec.to_builtins(wire.claim_edge_body(NodeId("task-a"), LEASE)) == {
        "direction": "out",
        "type": "assigned",
        "from": "task-a",
        "to": "agent-7",
        "attrs": {"via": "claim", "epoch": 3},
        "title": "seven",
        "status": None,
    }
    assert wire.listed_node(NODE).updated_at == "1970-01-01T00:00:00.001+00:00"


def test_an_unreadable_entry_keeps_the_error_that_says_why() -> None:
    bad = entry({**AS_JSON, "title": ""})

    assert isinstance(bad, Unreadable)
    assert isinstance(bad.error, InvalidNode)
