"""A database with a little of everything in it, for tests of what is done to whole databases.

    fleet = await populate(url)                  # an empty database is worked with, and closed again
    async with serving(url, clock=fleet.clock(), token=fleet.agent) as server: ...
    contents(url)                                # every row of every table, to compare with another database's

It is made through the API alone: what is in it is what servers write.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import httpx

from batonpass.core.clock import Clock, moment
from batonpass.core.ids import Instant
from batonpass.server.app import create_app
from batonpass.server.services.service_accounts import ServiceAccounts
from batonpass.store.identity import get_first_admin
from batonpass.store.open import open_session, open_store
from batonpass.testing.clock import ManualClock
from batonpass.testing.server import InProcessServer, in_process_server

AWKWARD: Final = 'tab\t, "quotes", \\N and \\., \'\n\\.\nend — ünï 🪃\n\n\\'
"""Text that a careless copy of rows would change: COPY's own marks, quotes, line ends, other alphabets."""
CLAIMED: Final = "task-claimed"
WORKED: Final = "task-worked"
RESERVED: Final = "task-reserved"
RELEASED: Final = "task-released"
FREE: Final = "task-free"
TAKEN_OVER: Final = "task-taken-over"
KEY: Final = "remediator/worker-1"
INCIDENTS: Final = {
    "fields": {
        "status": {"type": "register", "schema": {"enum": ["open", "closed"]}},
        "facts": {"type": "register"},
        "summary": {"type": "register"},
        "actions": {"type": "append", "cap": 5},
        "remediation": {"type": "task", "lease": "300s"},
        "review": {"type": "task", "lease": "300s"},
    },
    "roles": {
        "remediator": {
            "identities": ["apikey:remediator/*", "agent:*", "person:*"],
            "read": ["*"],
            "write": ["*"],
            "claim": ["*"],
        }
    },
}
"""The class of the records."""
INCIDENT: Final = "/v1/records/incidents/inc-1"
"""A record with every kind of field: a task that is held, and one that was given back."""
REMADE: Final = "/v1/records/incidents/inc-2"
"""A record that was deleted, and begun again."""
DELETED: Final = "/v1/records/incidents/inc-3"
"""A record that was deleted."""
PROFILE: Final = "profile-strong"
RUN: Final = "0b7c3e9a5d1f"
"""A run on `CLAIMED` that goes on."""

_EVERY_ROW: Final = "SELECT * FROM"


@dataclass(frozen=True, slots=True)
class Fleet:
    """The tokens of those who work in the database, and the moment at which they stopped.

    `epoch` is the tenure of `agent` on `CLAIMED`; `run` is the token minted for
    it, under which `WORKED` was taken too. `key` is the API key `KEY`.
    """

    admin: str
    person: str
    agent: str
    rival: str
    run: str
    key: str
    epoch: int
    at: Instant

    def clock(self) -> ManualClock:
        """Return a clock that stands at that moment."""
        return ManualClock(moment(self.at))


@dataclass(frozen=True, slots=True)
class Populated:
    """A database that has been worked with, and who did."""

    url: str
    fleet: Fleet


async def populate(url: str) -> Fleet:
    """Fill the empty database at `url`, and close it."""
    clock = ManualClock()
    async with in_process_server(url, clock=clock) as server:
        person = await server.add_person("Pat")
        agent = await server.add_agent("mill", token=person)
        rival = await server.add_agent("rival", token=person)
        await _put_nodes(server)
        await _verb(server, "claim", TAKEN_OVER, token=agent)
        clock.advance(timedelta(hours=1))  # that lease lapses
        await _verb(server, "claim", TAKEN_OVER, token=rival)
        lease = await _verb(server, "claim", CLAIMED, token=agent, dispatch="nonce-1", session="s-1")
        tenure = {"lease": {"node": CLAIMED, "epoch": lease["epoch"]}}
        run = (await server.ask("POST", "/v1/agents/agent-mill/token", tenure, token=agent))["token"]
        await _verb(server, "claim", WORKED, token=run)
        await _verb(server, "claim", RESERVED, token=person)
        await _verb(server, "reserve", RESERVED, token=person)
        await _verb(server, "claim", RELEASED, token=rival)
        await _verb(server, "release", RELEASED, token=rival)
        await server.ask("PUT", "/v1/policy/mail", {"claim_ttl_ms": 3_600_000})
        key = await server.add_key(KEY)
        await _put_records(server, agent=agent, key=key)
        await _put_fleet(server, agent=agent, epoch=lease["epoch"])
        return Fleet(server.admin_token, person, agent, rival, run, key, lease["epoch"], clock.moment())


@asynccontextmanager
async def serving(
    url: str, *, clock: Clock, token: str, accounts: ServiceAccounts | None = None
) -> AsyncIterator[InProcessServer]:
    """Serve the database at `url` as it stands; requests go under `token` unless they name another."""
    store = await open_store(url, clock=clock)
    try:
        async with store.read() as tx:
            admin = await get_first_admin(tx)
        assert admin is not None, url
        app = create_app(store, accounts=accounts)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://baton.test") as http:
            yield InProcessServer(app, admin, token, http)
    finally:
        await store.close()


async def _verb(server: InProcessServer, verb: str, node: str, *, token: str, **body: object) -> Any:  # noqa: ANN401 — JSON
    return (await server.ask("POST", f"/v1/nodes/{node}/{verb}", body, token=token)).get("lease")


async def _put_nodes(server: InProcessServer) -> None:
    nodes = [
        {"id": node, "type": "task", "title": node, "summary": "To be done.", "project": "mail", "date": "2026-06-01"}
        for node in (CLAIMED, WORKED, RESERVED, RELEASED, FREE, TAKEN_OVER)
    ]
    nodes[0]["body"] = AWKWARD
    report = {
        "id": "art-report",
        "type": "artifact",
        "title": "What was found",
        "summary": AWKWARD.splitlines()[0],
        "date": "2026-06-01",
        "edges": [
            {"type": "relates-to", "to": RELEASED, "via": "report"},
            {"type": "relates-to", "to": "task-nowhere"},
        ],
    }
    await server.ask("POST", "/v1/nodes", {"nodes": [*nodes, report]}, idempotency_key="key-1")
    await server.ask("POST", f"/v1/nodes/{FREE}/priority", {"priority": "p1"})
    await server.ask("POST", f"/v1/nodes/{FREE}/readiness", {"readiness": "agent"})
    await server.ask("POST", f"/v1/nodes/{FREE}/edges", {"type": "blocks", "to": RELEASED})


async def _put_records(server: InProcessServer, *, agent: str, key: str) -> None:
    await server.ask("PUT", "/v1/classes/incidents", INCIDENTS)
    held = await server.ask("PUT", f"{INCIDENT}/fields/remediation/claim", {}, token=key)
    fence = [{"kind": "fence", "field": "remediation", "version": held["version"]}]
    await server.ask("PUT", f"{INCIDENT}/fields/status", {"value": "open", "based_on": fence}, token=key)
    await server.ask("PUT", f"{INCIDENT}/fields/facts", {"value": {"said": AWKWARD, "n": 10**30}}, token=agent)
    for did in ("looked", {"then": [None, 1.5]}):
        await server.ask("POST", f"{INCIDENT}/fields/actions", {"value": did, "based_on": fence}, token=key)
    await server.ask("PUT", f"{INCIDENT}/fields/review/claim", {}, token=agent)
    await server.ask("PUT", f"{INCIDENT}/fields/review/claim", {"lease_seconds": 0}, token=agent)
    for record in (REMADE, DELETED):
        await server.ask("PUT", f"{record}/fields/remediation/claim", {}, token=key)
        await server.ask("POST", record, {"writes": [{"field": "status", "put": "open"}]}, token=agent)
        await server.ask("DELETE", record, {})
    await server.ask("PUT", f"{REMADE}/fields/facts", {"value": "again"}, token=agent)


async def _put_fleet(server: InProcessServer, *, agent: str, epoch: int) -> None:
    profile = {"id": PROFILE, "type": "profile", "title": "Strong", "summary": "Strong", "date": "2026-06-01"}
    await server.ask("POST", "/v1/nodes", {"nodes": [{**profile, "harness": "codex"}]})
    record = {"agent": "agent-mill", "node_id": CLAIMED, "dispatch": "nonce-1", "epoch": epoch, "state": "running"}
    await server.ask("PUT", f"/v1/runs/{RUN}", {"record": {**record, "name": AWKWARD}}, token=agent)
    await server.ask("POST", f"/v1/runs/{RUN}/log", {"offset": 0, "text": AWKWARD}, token=agent)
    axes = {"probed": {"harnesses": ["codex"]}, "deny": ["profile-weak"]}
    await server.ask("POST", "/v1/agents/agent-mill/capabilities", axes, token=agent)


def contents(url: str) -> dict[str, list[tuple[object, ...]]]:
    """Return every row of every table of ours, in an order of their own."""
    with open_session(url, read_only=True) as session, session.snapshot():
        names = [row[0] for row in session.ask("operations.tables")]
        return {name: sorted(map(tuple, session.ask_written(f"{_EVERY_ROW} {name}")), key=repr) for name in names}


def break_an_index(path: Path) -> None:
    """Zero the beginning of an index's first page in a SQLite file, as a disk that lost a write would."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = file.execute("PRAGMA page_size").fetchone()
        (page,) = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'nodes_type'").fetchone()
    with path.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(bytes(64))
