"""Out of one database and into another, nodes of every kind and with any text in them come out the same to the byte."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batonpass.client.client import Client
from batonpass.client.exports import to_archive, to_folder
from batonpass.client.imports import Wish, imported
from batonpass.client.local import ADDRESS, LocalTransport
from batonpass.core import nodes
from batonpass.core.edges import EDGE_TYPES
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.nodes import EXTRA_KEYS, Shape
from batonpass.server.app import create_app
from batonpass.server.services.identity import bootstrap
from batonpass.store.open import open_store
from batonpass.testing.clock import ManualClock
from batonpass.testing.databases import PostgresCluster

HOSTILE: Final = (
    "yes", "1.0", "2026-01-01", "null", "~", "- x", "a: b", "#x", '"q"', "'q'", "{x}", "[x]", "&a", "*a", "!t", "|",
    ">", "%", "@", "`", " x ", "a\tb", "a\u2028b", "a\u0085b", "🎉", "\ufeffx", "a\\b", "---", "<<", "a\nb", "x" * 300,
)  # fmt: skip
TEXTS: Final = st.sampled_from(HOSTILE) | st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40
).filter(str.strip)
FREE: Final = [kind for kind in NODE_TYPES.values() if not kind.identity and "target" not in kind.required]
TOKENS: Final = st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True)
ATTRS: Final = st.dictionaries(st.sampled_from(["why", "profile", "n"]), TOKENS, max_size=2)
COUNTS: Final = {"created", "unchanged"}


@st.composite
def node(draw: st.DrawFn) -> dict[str, object]:
    """Any node that may be written into a graph that is empty."""
    kind = draw(st.sampled_from(FREE))
    lists = [key for key, shape in EXTRA_KEYS.items() if shape is Shape.LIST]
    fields: dict[str, object] = {
        "id": draw(st.sampled_from(kind.prefixes)) + draw(st.from_regex(r"[a-z0-9-]{1,30}", fullmatch=True)),
        "type": kind.name,
        "title": draw(TEXTS),
        "summary": draw(TEXTS),
        "body": draw(st.just("") | TEXTS | st.text(st.characters(codec="utf-8", exclude_characters="\0"))),
        draw(st.sampled_from(lists)): draw(st.lists(TEXTS, max_size=3)),
        "outcome": draw(st.none() | TEXTS),
        "date": draw(st.none() | st.dates().map(str)),
        "priority": draw(st.sampled_from([None, *nodes.PRIORITIES])),
        "project": draw(st.sampled_from([None, "web", "0b10", "yes"])),
        "edges": [
            {"type": draw(st.sampled_from(list(EDGE_TYPES))), "to": f"task-{n}", **draw(ATTRS)}
            for n in range(draw(st.integers(0, 3)))
        ],
    }
    return {key: value for key, value in fields.items() if value is not None}


@contextmanager
def graph(url: str) -> Iterator[Client]:
    """Serve an empty database, whose first person asks."""
    with start_blocking_portal() as portal:
        store = portal.call(functools.partial(open_store, url, clock=ManualClock()))
        try:
            _, secret = portal.call(functools.partial(bootstrap, store, name="Ada Admin", email="ada@example.org"))
            with Client(ADDRESS, secret.reveal(), transport=LocalTransport(portal, create_app(store))) as client:
                yield client
        finally:
            portal.call(store.close)


@pytest.fixture(params=["sqlite", "postgres"])
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], str]]:
    """Return a function that returns the URL of one more empty database."""
    if request.param == "sqlite":
        paths = iter(range(1_000_000))
        yield lambda: f"sqlite:///{tmp_path / f'{next(paths)}.db'}"
        return
    cluster: PostgresCluster = request.getfixturevalue("postgres")
    made: list[str] = []

    def another() -> str:
        made.append(cluster.create_database())
        return cluster.url(made[-1])

    yield another
    for name in made:
        cluster.drop_database(name)


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(entries=st.lists(node(), min_size=5, max_size=25, unique_by=lambda entry: str(entry["id"])))
def test_whatever_is_in_a_graph_comes_out_of_its_copy_the_same_to_the_byte(
    fresh: Callable[[], str], tmp_path: Path, entries: list[dict[str, object]]
) -> None:
    with graph(fresh()) as client:
        written = [result.ok for result in client.put_nodes(entries, cycles="warn").results]
        authored = to_archive(client, tmp_path / "authored.tar", project=None, authored=True)
        to_archive(client, tmp_path / "whole.tar.gz", project=None, authored=False)
    with graph(fresh()) as client:
        first = Counter(told.outcome for told in imported(client, [tmp_path / "authored.tar"], Wish()))
        again = Counter(told.outcome for told in imported(client, [tmp_path / "authored.tar"], Wish()))
        to_archive(client, tmp_path / "copy.tar", project=None, authored=True)
    with graph(fresh()) as client:
        kept = Wish("update", keep_attribution=True)
        told = list(imported(client, [tmp_path / "whole.tar.gz"], kept))
        to_archive(client, tmp_path / "copy.tar.gz", project=None, authored=False)

    assert sum(written) >= len(entries) / 2, "most of what is drawn may be written"
    assert first.keys() <= COUNTS
    assert again == {"unchanged": authored.nodes}
    assert {each.reasons for each in told if each.outcome == "refused"} == set()
    assert (tmp_path / "copy.tar").read_bytes() == (tmp_path / "authored.tar").read_bytes()
    assert (tmp_path / "copy.tar.gz").read_bytes() == (tmp_path / "whole.tar.gz").read_bytes()


def test_a_folder_is_the_same_nodes_as_a_tar_to_the_byte(fresh: Callable[[], str], tmp_path: Path) -> None:
    many = [{"id": f"task-{n}", "type": "task", "title": text, "summary": text} for n, text in enumerate(HOSTILE)]
    with graph(fresh()) as client:
        assert all(result.ok for result in client.put_nodes(many).results)
        to_archive(client, tmp_path / "one.tar", project=None, authored=True)
        to_folder(client, tmp_path / "out", project=None, authored=True)
    with graph(fresh()) as client:
        outcomes = {told.outcome for told in imported(client, [tmp_path / "out"], Wish())}
        to_archive(client, tmp_path / "two.tar", project=None, authored=True)

    assert outcomes <= COUNTS
    assert (tmp_path / "two.tar").read_bytes() == (tmp_path / "one.tar").read_bytes()
