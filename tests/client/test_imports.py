"""How an import is sent: in requests that fit, told about one by one, and gone on with after it was cut off."""

from __future__ import annotations

import functools
import io
import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from batonpass.client import exports
from batonpass.client.client import ONCE, Client
from batonpass.client.exports import to_archive, to_folder
from batonpass.client.imports import Told, Wish, imported
from batonpass.client.local import ADDRESS, LocalTransport
from batonpass.core.errors import Unavailable
from batonpass.core.ids import NodeId
from batonpass.server.app import create_app
from batonpass.server.http.bodies import BODY_BYTES_MAX
from batonpass.server.services.identity import bootstrap
from batonpass.store.open import open_store
from batonpass.wire.nodes import NODES_MAX
from batonpass.wire.transfer import NODE_COUNT


@dataclass
class Watched(httpx.BaseTransport):
    """A transport that keeps what was posted, and after so many posts has no connection any more."""

    inner: httpx.BaseTransport
    posted: list[bytes] = field(default_factory=list)
    got: list[httpx.Request] = field(default_factory=list)
    breaks_after: int | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "POST":
            if self.breaks_after is not None and len(self.posted) >= self.breaks_after:
                raise httpx.ConnectError("no route")
            self.posted.append(request.read())
        else:
            self.got.append(request)
        return self.inner.handle_request(request)


@dataclass
class World:
    """A client of an empty graph, and what it sends."""

    client: Client
    transport: Watched

    def imports(self, *paths: Path, dry_run: bool = False) -> list[Told]:
        """Import everything under `paths`."""
        return list(imported(self.client, list(paths), Wish(dry_run=dry_run)))


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture
def world(sqlite_url: str, portal: BlockingPortal) -> Iterator[World]:
    store = portal.call(functools.partial(open_store, sqlite_url))
    try:
        _, secret = portal.call(functools.partial(bootstrap, store, name="Ada Admin", email="ada@example.org"))
        transport = Watched(LocalTransport(portal, create_app(store)))
        yield World(Client(ADDRESS, secret.reveal(), transport=transport, patience=ONCE), transport)
    finally:
        portal.call(store.close)


def tasks(folder: Path, count: int, *, body: str = "Text.") -> Path:
    """Write so many tasks as files, and return their folder."""
    folder.mkdir()
    for n in range(count):
        node = _id(n)
        (folder / f"{node}.md").write_text(
            f"---\nid: {node}\ntype: task\ntitle: T\nsummary: S\ndate: 2026-10-01\n---\n\n{body}\n"
        )
    return folder


def _id(n: int) -> NodeId:
    return NodeId(f"task-{n:04}")


def outcomes(told: list[Told]) -> Counter[str]:
    """Return how often each outcome was told."""
    return Counter(each.outcome for each in told)


def test_no_request_has_more_nodes_or_bytes_than_a_server_takes(world: World, tmp_path: Path) -> None:
    tasks(tmp_path / "small", NODES_MAX + 1)
    heavy = tmp_path / "heavy"
    tasks(heavy, 0)
    for n in range(40):
        lines = f"---\nid: dec-{n}\ntype: decision\ntitle: T\nsummary: S\ndate: 2026-10-01\n---\n\n"
        (heavy / f"dec-{n}.md").write_text(lines + "\x01" * 8000)  # in JSON each of them takes six bytes

    told = world.imports(tmp_path / "small", heavy)

    assert outcomes(told) == {"created": NODES_MAX + 1 + 40}
    counts = [len(json.loads(body)["nodes"]) for body in world.transport.posted]
    assert sum(counts) == len(told)
    assert max(counts) == NODES_MAX
    assert max(map(len, world.transport.posted)) <= BODY_BYTES_MAX
    assert len(counts) > 3


def test_an_import_that_was_cut_off_has_told_what_stands_and_goes_on_when_it_is_begun_again(
    world: World, tmp_path: Path
) -> None:
    folder = tasks(tmp_path / "in", 2 * NODES_MAX + 5)
    world.transport.breaks_after = 1
    told: list[Told] = []

    with pytest.raises(Unavailable):
        told += imported(world.client, [folder], Wish())
    world.transport.breaks_after = None
    again = world.imports(folder)

    assert outcomes(told) == {"created": NODES_MAX}
    assert outcomes(again) == {"unchanged": NODES_MAX, "created": NODES_MAX + 5}


def test_a_dry_run_sends_nothing(world: World, tmp_path: Path) -> None:
    told = world.imports(tasks(tmp_path / "in", 3), dry_run=True)

    assert outcomes(told) == {"would be created": 3}
    assert world.transport.posted == []


def test_nothing_is_sent_before_everything_has_been_read(world: World, tmp_path: Path) -> None:
    folder = tasks(tmp_path / "in", 3)
    told = imported(world.client, [folder, tmp_path / "nowhere"], Wish())

    with pytest.raises(Exception, match="nowhere"):
        list(told)

    assert world.transport.posted == []


def test_an_export_that_was_killed_knows_its_own_files_when_it_is_begun_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.imports(tasks(tmp_path / "in", 6))
    out = tmp_path / "out"
    to_folder(world.client, out, project=None, authored=True)
    for n in range(6):
        world.client.set_priority(_id(n), "p1")
    replace, left = exports._replace, iter(range(3))

    def killed(path: Path, content: bytes) -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt
        replace(path, content)

    with monkeypatch.context() as patch:
        patch.setattr(exports, "_replace", killed)
        with pytest.raises(KeyboardInterrupt):
            to_folder(world.client, out, project=None, authored=True)
    for n in range(6):
        world.client.set_priority(_id(n), "p2")

    done = to_folder(world.client, out, project=None, authored=True)

    assert done.left == []
    assert all("priority: p2" in (out / "nodes" / f"{_id(n)}.md").read_text() for n in range(6))


def test_an_export_from_far_away_travels_packed_and_is_the_same_files(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.imports(tasks(tmp_path / "in", 150))
    to_folder(world.client, tmp_path / "near", project=None, authored=True)
    monkeypatch.setattr(exports, "LOOPBACK", frozenset())
    monkeypatch.setattr(exports, "ADDRESS", "https://baton.example.org")

    to_folder(world.client, tmp_path / "far", project=None, authored=True)

    assert [path.read_bytes() for path in sorted((tmp_path / "far").rglob("*.*"))] == [
        path.read_bytes() for path in sorted((tmp_path / "near").rglob("*.*"))
    ]
    assert [request.url.query for request in world.transport.got] == [b"authored=1", b"authored=1&gzip=1"]


def test_a_server_that_says_more_nodes_than_it_sends_is_not_believed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.imports(tasks(tmp_path / "in", 2))
    monkeypatch.setattr(exports, "_count", lambda _: 99)

    with pytest.raises(Unavailable, match="of its 99 nodes"):
        to_folder(world.client, tmp_path / "out", project=None, authored=True)


def _tar(*names: str, kind: bytes = tarfile.REGTYPE) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            tar.addfile(entry)
    return raw.getvalue()


@pytest.mark.parametrize(
    "sent,count",
    [
        (_tar("../evil.md"), "1"),
        (_tar("/evil.md"), "1"),
        (_tar("nodes/../evil.md"), "1"),
        (_tar("nodes/evil.md", kind=tarfile.SYMTYPE), "1"),
        (_tar("nodes/task-a.md"), None),
        (b"<html>no export</html>" * 100, "1"),
    ],
)
def test_what_a_server_sends_that_is_no_export_is_written_nowhere(
    tmp_path: Path, sent: bytes, count: str | None
) -> None:
    headers = {} if count is None else {NODE_COUNT: count}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=sent, headers=headers))
    client = Client("http://127.0.0.1:1", "bat_pat_secret", transport=transport, patience=ONCE)

    with pytest.raises(Unavailable, match="what the server sent is no"):
        to_folder(client, tmp_path / "out", project=None, authored=True)

    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [exports.LISTED]
    assert (tmp_path / "out" / exports.LISTED).read_text() == ""


def test_an_export_that_breaks_off_leaves_the_archive_before_it(tmp_path: Path) -> None:
    def half() -> Iterator[bytes]:
        yield _tar("nodes/task-b.md")[:100]
        raise httpx.ReadError("gone")

    first = _tar("nodes/task-a.md")
    (tmp_path / "out.tar").write_bytes(first)
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=half(), headers={NODE_COUNT: "1"}))
    client = Client("http://127.0.0.1:1", "bat_pat_secret", transport=transport, patience=ONCE)

    with pytest.raises(Unavailable, match="broke off"):
        to_archive(client, tmp_path / "out.tar", project=None, authored=True)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out.tar": first}
