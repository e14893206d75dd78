"""Exports: what is in one, who may have it, and that it is one snapshot whatever is written meanwhile."""

from __future__ import annotations

import asyncio
import gzip
import io
import tarfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from batonpass.core.errors import Unavailable
from batonpass.server.http import transfer as route
from batonpass.store import longreads, transfer
from batonpass.testing.populated import CLAIMED, FREE, Populated, serving
from batonpass.testing.server import InProcessServer
from batonpass.wire import markdown

pytestmark = pytest.mark.anyio

COUNT: Final = "x-substrate-node-count"


def task(name: str, **keys: object) -> dict[str, object]:
    """Return a task that may be put."""
    return {"id": f"task-{name}", "type": "task", "title": name, "summary": name, "date": "2026-10-01", **keys}


def unpacked(raw: bytes) -> dict[str, str]:
    """Return the members of a tar by name."""
    with tarfile.open(fileobj=io.BytesIO(raw)) as tar:
        return {member.name: _text(tar, member) for member in tar}


def _text(tar: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = tar.extractfile(member)
    assert file is not None, member
    return file.read().decode()


async def shown(server: InProcessServer, node: str) -> str:
    """Return a node as every other read shows it."""
    return str((await server.ask("GET", f"/v1/nodes/{node}"))["raw"])


async def test_an_export_has_each_node_as_every_other_read_shows_it(populated: Populated) -> None:
    fleet = populated.fleet
    async with serving(populated.url, clock=fleet.clock(), token=fleet.admin) as server:
        answer = await server.send("GET", "/v1/export")
        ids = [node["id"] for node in (await server.ask("GET", "/v1/nodes"))["nodes"]]
        expected = {f"nodes/{node}.md": await shown(server, node) for node in ids}

    assert answer.headers["content-type"] == "application/x-tar"
    assert answer.headers[COUNT] == str(len(ids))
    assert unpacked(answer.content) == expected
    assert "via: claim" in expected[f"nodes/{CLAIMED}.md"], "the claim's edge is part of what is shown (D4)"


async def test_an_authored_export_is_exactly_what_the_revisions_cover(populated: Populated) -> None:
    fleet = populated.fleet
    async with serving(populated.url, clock=fleet.clock(), token=fleet.admin) as server:
        files = unpacked((await server.send("GET", "/v1/export?authored=1")).content)
        nodes = (await server.ask("GET", "/v1/nodes"))["nodes"]

    assert {name: markdown.revision(markdown.read(text).authored) for name, text in files.items()} == {
        f"nodes/{node['id']}.md": node["revision"] for node in nodes
    }
    assert all(markdown.write(markdown.read(text).authored) == text for text in files.values())


async def test_an_export_is_the_same_bytes_again_packed_or_not(populated: Populated) -> None:
    fleet = populated.fleet
    async with serving(populated.url, clock=fleet.clock(), token=fleet.admin) as server:
        plain, again, packed, twice = [
            (await server.send("GET", f"/v1/export{query}")).content for query in ("", "", "?gzip=1", "?gzip=1")
        ]

    assert plain == again
    assert packed == twice
    assert gzip.decompress(packed) == plain


async def test_the_headers_of_an_export_say_nothing_of_who_made_it(populated: Populated) -> None:
    fleet = populated.fleet
    async with serving(populated.url, clock=fleet.clock(), token=fleet.admin) as server:
        answer = await server.send("GET", "/v1/export")
        free = await server.ask("GET", f"/v1/nodes/{FREE}")

    with tarfile.open(fileobj=io.BytesIO(answer.content)) as tar:
        members = tar.getmembers()
        changed = tar.getmember(f"nodes/{FREE}.md").mtime
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(m.mode, m.uid, m.gid, m.uname, m.gname, m.type) for m in members} == {(0o644, 0, 0, "", "", b"0")}
    assert free["frontmatter"]["updated_at"].startswith(_second(int(changed)))


def _second(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


async def test_an_export_of_a_project_has_its_nodes_and_counts_them(server: InProcessServer) -> None:
    mine, other = task("mine", project="web"), task("other", project="mail")
    await server.ask("POST", "/v1/nodes", {"nodes": [mine, other, task("none")]})

    answer = await server.send("GET", "/v1/export?project=web")

    assert (answer.headers[COUNT], list(unpacked(answer.content))) == ("1", ["nodes/task-mine.md"])


async def test_whoever_may_read_may_export(server: InProcessServer) -> None:
    reader = (await server.ask("POST", "/v1/me/tokens", {"label": "r", "scope": "read"}))["token"]

    assert (await server.send("GET", "/v1/export", token=reader)).status_code == 200
    assert (await server.send("GET", "/v1/export", token="bat_pat_" + "0" * 40)).status_code == 401


async def test_the_head_of_an_export_says_how_much_there_is_and_opens_nothing_for_long(server: InProcessServer) -> None:
    head = await server.send("HEAD", "/v1/export?gzip=1")

    assert (head.status_code, head.headers["content-type"], head.content) == (200, "application/gzip", b"")
    assert head.headers[COUNT] == str(len((await server.ask("GET", "/v1/nodes"))["nodes"]))
    assert await _may_all_go_on(server)


@pytest.mark.parametrize("query", ["gzip=yes", "authored=2", "project=Not%20A%20Slug", "nodes=1"])
async def test_a_parameter_that_means_nothing_is_refused(server: InProcessServer, query: str) -> None:
    answer = await server.send("GET", f"/v1/export?{query}")

    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request")


async def test_what_is_written_while_an_export_is_read_is_not_in_it(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "PAGE_NODES", 1)
    await server.ask("POST", "/v1/nodes", {"nodes": [task("a"), task("b"), task("d")]})
    export = server.services.transfers.export(project=None, authored=True)

    async with export as opened:
        taken = [(await anext(opened.pages))[0]]
        await server.ask("POST", "/v1/nodes", {"nodes": [task("c")]})
        await server.ask("POST", "/v1/nodes/task-d/priority", {"priority": "p1"})
        taken += [node for page in [page async for page in opened.pages] for node in page]

    ids = [node.id for node in taken if node.id.startswith("task-")]
    assert ids == ["task-a", "task-b", "task-d"]
    assert len(taken) == opened.node_count
    assert "priority" not in taken[-1].text


async def test_one_more_export_than_may_go_on_is_told_to_come_back(server: InProcessServer) -> None:
    opened: list[Any] = [
        server.services.transfers.export(project=None, authored=True) for _ in range(longreads.LONG_READS_MAX)
    ]
    for export in opened:
        await export.__aenter__()

    refused = await server.send("GET", "/v1/export")
    await opened.pop().__aexit__(None, None, None)
    answered = await server.send("GET", "/v1/export")
    for export in opened:
        await export.__aexit__(None, None, None)

    assert (refused.status_code, refused.headers["retry-after"]) == (503, "10")
    assert answered.status_code == 200


# --- those who do not listen -----------------------------------------------------------------------------------------


async def _asked(server: InProcessServer, send: Any, receive: Any) -> None:  # noqa: ANN401 — ASGI's
    """Ask for an export as a server of HTTP does, which has these two ends of a connection."""
    scope = {
        "type": "http", "asgi": {"spec_version": "2.3"}, "http_version": "1.1", "method": "GET", "path": "/v1/export",
        "raw_path": b"/v1/export", "query_string": b"", "root_path": "", "server": ("baton.test", 80),
        "headers": [(b"authorization", f"Bearer {server.admin_token}".encode())],
    }  # fmt: skip
    await server.app(scope, receive, send)


async def _may_all_go_on(server: InProcessServer) -> bool:
    """Whether no export is counted any more: as many as there may be can be opened."""
    async with AsyncExitStack() as stack:
        for _ in range(longreads.LONG_READS_MAX):
            await stack.enter_async_context(server.services.transfers.export(project=None, authored=True))
    return True


async def test_a_listener_that_takes_nothing_any_more_loses_its_export(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(route, "STALL_S_MAX", 0)
    taken: list[str] = []

    async def send(message: Any) -> None:  # noqa: ANN401 — ASGI's
        if taken:
            await asyncio.Event().wait()
        taken.append(message["type"])

    async def receive() -> object:
        return await asyncio.Event().wait()

    await _asked(server, send, receive)

    assert taken == ["http.response.start"]
    assert [record.message for record in caplog.records] == ["export.stalled"]
    assert await _may_all_go_on(server)


async def test_a_listener_that_has_gone_ends_its_export(server: InProcessServer) -> None:
    begun = asyncio.Event()

    async def send(message: object) -> None:
        del message
        begun.set()
        await asyncio.Event().wait()

    async def receive() -> object:
        await begun.wait()
        return {"type": "http.disconnect"}

    await _asked(server, send, receive)

    assert await _may_all_go_on(server)


async def test_an_export_that_breaks_off_has_no_end(server: InProcessServer, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object, **__: object) -> AsyncIterator[object]:
        yield []
        raise Unavailable("the database has gone")

    monkeypatch.setattr(transfer, "pages", broken)
    sent: list[Any] = []

    async def send(message: object) -> None:
        sent.append(message)

    async def receive() -> object:
        return await asyncio.Event().wait()

    with pytest.raises(Unavailable):
        await _asked(server, send, receive)

    assert sent[0]["status"] == 200
    assert all(message["more_body"] for message in sent[1:])
    assert await _may_all_go_on(server)
