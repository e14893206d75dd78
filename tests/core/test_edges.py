from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core import edges
from batonpass.core.edges import EDGE_TYPES, Edge, Resolving, admin_only, check_attrs, find_cycle, is_claim, normalise
from batonpass.core.errors import InvalidNode
from batonpass.core.ids import NodeId

# Name, weight, aliases, inverse label: companion 2.1, line by line.
REGISTERED: Final = """
supersedes           1.0   supercedes    superseded-by
constrained-by       1.0   -             -
governed-by          0.95  -             -
derived-from         0.9   derives-from  -
decided-in           0.9   -             -
resolves             0.9   -             -
performs             0.8   -             -
answers              0.7   -             answered-by
blocks               0.7   -             blocked-by
triggered-by         0.7   -             -
member-of-program    0.7   -             has-program-member
relates-to           0.5   related-to    -
mentions             0.5   -             -
assigned             0.5   -             -
reviewed-by          0.5   approved-by   -
changes-requested-by 0.5   -             -
stewards             0.4   -             -
review-requested     0.3   -             -
routed-to            0.3   -             -
owned-by             0.3   -             owns
uses-profile         0.3   -             -
grouped-under        0.3   -             groups
member-of-org        0.3   -             has-org-member
focuses-on           0.2   -             -
compiled-for         -     -             -
shaped-by            -     -             -
"""
ROWS: Final = [line.split() for line in REGISTERED.strip().splitlines()]


def ids(text: str) -> list[NodeId]:
    return [NodeId(f"task-{name}") for name in text.split()]


def test_every_registered_edge_type_is_in_the_table_and_no_other() -> None:
    expected = {
        name: (
            None if weight == "-" else float(weight),
            () if alias == "-" else (alias,),
            None if inverse == "-" else inverse,
        )
        for name, weight, alias, inverse in ROWS
    }

    assert {edge.name: (edge.weight, edge.aliases, edge.inverse) for edge in EDGE_TYPES.values()} == expected


def test_only_bookkeeping_edges_are_left_out_of_a_briefings_walk() -> None:
    assert {edge.name for edge in EDGE_TYPES.values() if not edge.traversable} == {"compiled-for", "shaped-by"}


def test_one_type_blocks_and_two_resolve() -> None:
    assert {edge.name for edge in EDGE_TYPES.values() if edge.blocking} == {"blocks"}
    assert {edge.name: edge.resolving for edge in EDGE_TYPES.values() if edge.resolving is not Resolving.NOTHING} == {
        "resolves": Resolving.ANY,
        "answers": Resolving.QUESTIONS,
    }


@pytest.mark.parametrize("name,_weight,alias,inverse", ROWS)
def test_aliases_are_renamed_and_inverse_labels_flipped(name: str, _weight: str, alias: str, inverse: str) -> None:
    assert normalise(name).type.name == name
    assert not normalise(name).inverted
    if alias != "-":
        assert normalise(alias) == normalise(name)
    if inverse != "-":
        assert (normalise(inverse).type.name, normalise(inverse).inverted) == (name, True)


@pytest.mark.parametrize(
    "name,hint",
    [
        ("resolved-by", "did you mean"),  # has no inverse label, so written backwards it is nothing
        ("bloks", "did you mean blocks?"),
        ("Blocks", "did you mean blocks?"),
        ("zzz", "the types are supersedes, constrained-by"),
        ("", "the types are"),
        ("x" * 100_000, "the types are"),
        (None, "must be a string, not null"),
        (3, "must be a string, not a number"),
        (["blocks"], "must be a string, not an array"),
    ],
)
def test_an_edge_type_that_nothing_reads_is_refused_with_a_way_out(name: object, hint: str) -> None:
    with pytest.raises(InvalidNode) as refusal:
        normalise(name, field="edges[2].type")

    assert refusal.value.message.startswith("edges[2].type: ")
    assert hint in refusal.value.message
    assert len(refusal.value.message) < 1000


@pytest.mark.parametrize(
    "edge_type,attrs,claim",
    [
        ("assigned", {"via": "claim"}, True),
        ("assigned", {"via": "claim", "epoch": 3}, True),
        ("assigned", {"via": "route"}, False),
        ("assigned", {}, False),
        ("relates-to", {"via": "claim"}, False),
    ],
)
def test_the_edge_that_shows_a_lease_is_told_from_a_hand_made_one(
    *, edge_type: str, attrs: dict[str, object], claim: bool
) -> None:
    assert is_claim(edge_type, attrs) is claim


@pytest.mark.parametrize(
    "src,edge_type,dst,guarded",
    [
        ("person-a", "stewards", "org-root", True),
        ("person-a", "stewards", "proj-web", False),
        ("agent-a", "owned-by", "person-b", True),
        ("repo-a", "owned-by", "person-b", False),
        ("task-a", "blocks", "org-root", False),
    ],
)
def test_edges_that_make_admins_or_owners_are_an_admins_to_write(
    *, src: str, edge_type: str, dst: str, guarded: bool
) -> None:
    reason = admin_only(NodeId(src), edge_type, NodeId(dst))

    assert (reason is not None) is guarded
    if reason is not None:
        assert reason.startswith(f"{src} {edge_type} {dst}: only an admin")


@pytest.mark.parametrize(
    "attrs,finding",
    [
        ({}, None),
        ({"profile": "profile-big_1", "Was": "resolves"}, None),
        ({"profile": "a b"}, 'attrs.profile: "a b" is not a token of letters, digits, _ and -'),
        ({"profile": ""}, 'attrs.profile: "" is not a token of letters, digits, _ and -'),
        ({"profile": "é"}, 'attrs.profile: "é" is not a token of letters, digits, _ and -'),
        ({"profile": "a\0"}, "attrs.profile: 'a\\x00' is not a token of letters, digits, _ and -"),
        ({"profile": 3}, "attrs.profile: must be a string, not a number"),
        ({"profile": {"a": "b"}}, "attrs.profile: must be a string, not an object"),
        ({"profile": "x" * 101}, "attrs.profile: 101 characters; the limit is 100 characters"),
        ({f"k{n}": "v" for n in range(11)}, "attrs: 11 attributes; the limit is 10 attributes"),
    ],
)
def test_attributes_are_short_tokens(attrs: dict[str, object], finding: str | None) -> None:
    assert check_attrs(attrs) == ([finding] if finding is not None else [])


@pytest.mark.parametrize("key", ["", "1a", "a b", "a.b", "é", "x" * 101, "type", "to"])
def test_an_attribute_needs_a_name_that_is_a_token_of_its_own(key: str) -> None:
    (finding,) = check_attrs({key: "v"})

    assert "cannot name an attribute" in finding


def test_edges_stand_in_one_order_whatever_order_they_came_in() -> None:
    blocks_a, blocks_b, supersedes = (
        Edge(*pair) for pair in zip(["blocks", "blocks", "supersedes"], ids("a b a"), strict=True)
    )

    assert edges.in_order([supersedes, blocks_b, blocks_a]) == (blocks_a, blocks_b, supersedes)


@pytest.mark.parametrize(
    "stored,new,cycle",
    [
        ("", "a>b", ""),
        ("b>c", "a>b", ""),
        ("", "a>a", "a a"),
        ("b>a", "a>b", "a b a"),
        ("b>c c>d d>a", "a>b", "a b c d a"),
        ("b>c c>d b>d d>a", "a>b", "a b d a"),  # the shortest way round is named
        ("b>c c>b", "a>b", ""),  # a cycle that is there already is not closed by this edge
    ],
)
def test_a_blocks_edge_that_closes_a_cycle_is_found_and_its_path_named(stored: str, new: str, cycle: str) -> None:
    blocks: dict[NodeId, list[NodeId]] = {}
    for pair in stored.split():
        blocker, blocked = ids(pair.replace(">", " "))
        blocks.setdefault(blocker, []).append(blocked)
    src, dst = ids(new.replace(">", " "))

    assert find_cycle(src, dst, blocks) == (tuple(ids(cycle)) or None)


@given(pairs=st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_adding_only_edges_that_close_no_cycle_keeps_the_graph_free_of_cycles(pairs: set[tuple[int, int]]) -> None:
    blocks: dict[NodeId, list[NodeId]] = {}
    for src, dst in ((NodeId(f"task-{a}"), NodeId(f"task-{b}")) for a, b in sorted(pairs)):
        if find_cycle(src, dst, blocks) is None:
            blocks.setdefault(src, []).append(dst)

    order: list[NodeId] = []
    while free := {n for n in blocks if n not in order and not any(n in blocks[m] for m in blocks if m not in order)}:
        order += free
    assert set(order) == set(blocks)
