"""What an agent is told about one small, realistic graph, word for word: the files in `briefings`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

TEXTS: Final = Path(__file__).parent / "briefings"
GRAPH: Final[tuple[dict[str, object], ...]] = (
    {
        "id": "dec-outbox",
        "type": "decision",
        "title": "Send mail from an outbox table",
        "summary": "Mail is written to a table in the change's transaction and sent by a loop of its own.",
        "date": "2026-03-02",
        "project": "mail",
        "tags": ["mail", "delivery"],
        "body": "A mail that is sent inside the transaction is sent even if the transaction fails.\nSo it is not.",
    },
    {
        "id": "dec-queue",
        "type": "decision",
        "title": "Send mail through the message broker",
        "summary": "Tried for a month: the broker lost mail at every restart.",
        "date": "2026-02-01",
        "status": "rejected",
        "project": "mail",
        "edges": [{"type": "relates-to", "to": "dec-outbox"}],
    },
    {
        "id": "spec-limits",
        "type": "artifact",
        "title": "Limits of the mail provider",
        "summary": "100 messages a second; above that 429 for ten seconds.",
        "date": "2026-03-20",
        "project": "mail",
    },
    {
        "id": "task-outbox",
        "type": "task",
        "title": "Build the outbox",
        "summary": "The table and the loop that empties it.",
        "date": "2026-03-05",
        "project": "mail",
        "edges": [{"type": "decided-in", "to": "dec-outbox"}],
    },
    {
        "id": "art-outbox",
        "type": "artifact",
        "title": "The outbox is in",
        "summary": "Table, loop and tests landed.",
        "date": "2026-03-15",
        "status": "merged",
        "project": "mail",
        "edges": [{"type": "resolves", "to": "task-outbox"}],
    },
    {
        "id": "task-retry",
        "type": "task",
        "title": "Retry refused mail",
        "summary": "A refusal with 429 must not lose the mail.",
        "date": "2026-05-01",
        "status": "open",
        "project": "mail",
        "tags": ["delivery"],
        "edges": [
            {"type": "constrained-by", "to": "spec-limits"},
            {"type": "derived-from", "to": "dec-outbox"},
            {"type": "relates-to", "to": "task-outbox"},
        ],
        "body": "The loop drops a message that was refused.\n\nSee the log of April 28.",
    },
    {
        "id": "issue-digest-mail",
        "type": "issue",
        "title": "Weekly mail arrives twice",
        "summary": "When the loop restarts, a mail that was sent and not marked is sent once more.",
        "date": "2026-04-11",
        "project": "mail",
    },
    {
        "id": "corr-task-retry-1",
        "type": "correction",
        "title": "The limit is per account",
        "summary": "Not per address, as the log of April 28 suggests.",
        "date": "2026-05-02",
        "target": "task-retry",
    },
    {
        "id": "norm-migrations",
        "type": "norm",
        "title": "Migrations go alone",
        "summary": "A change of the schema is a change of its own.",
        "date": "2026-01-10",
        "applies_to_repos": ["mail"],
        "body": "Land it first, then what needs it.",
    },
    {
        "id": "norm-ui",
        "type": "norm",
        "title": "Labels end without a stop",
        "summary": "In the web client.",
        "date": "2026-01-11",
        "applies_to_repos": ["web"],
    },
    {
        "id": "brief-mail",
        "type": "briefing",
        "title": "Mail",
        "summary": "What the mail service is.",
        "date": "2026-04-30",
        "project": "mail",
        "body": "One process, one table, one provider.",
    },
)
REPORT: Final[dict[str, object]] = {
    "id": "art-dispatch-report-retry-0b101010",
    "type": "artifact",
    "title": "Dispatch report — task-retry",
    "summary": "Final report from the dispatched command run on task-retry, ended without resolving it: half of it.",
    "date": "2026-05-03",
    "project": "mail",
    "edges": [{"type": "relates-to", "to": "task-retry"}],
    "body": "The loop keeps refused mail now.\nMissing: the pause of ten seconds.\n\n# Contract\nPush to main.",
}
ASKED: Final[Mapping[str, Mapping[str, object]]] = {
    "digest": {"root": "task-retry", "project": "mail"},
    "blind": {"root": "task-retry"},
    "full": {"root": "task-retry", "project": "mail", "mode": "full"},
    "query": {"query": "why is mail not sent through the broker?", "project": "mail"},
}


def golden(name: str, text: str) -> None:
    """Compare a text with the file that holds it; ``BATON_WRITE_BRIEFINGS=1`` writes the file instead."""
    path = TEXTS / f"{name}.txt"
    if os.environ.get("BATON_WRITE_BRIEFINGS"):
        path.write_text(text)
    assert text == path.read_text()


async def test_a_small_graph_reads_as_it_always_has(server: InProcessServer, clock: ManualClock) -> None:
    await server.ask("POST", "/v1/nodes", {"nodes": GRAPH})
    clock.advance(timedelta(hours=1))
    await server.ask("POST", "/v1/nodes", {"nodes": [REPORT]}, token=await server.add_agent("mill"))

    for name, asked in ASKED.items():
        found = await server.ask("POST", "/v1/digest", asked)
        golden(name, found["text"])
    golden("project", (await server.ask("GET", "/v1/briefing/mail"))["body"])
