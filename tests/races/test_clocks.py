"""Only the database's clock counts: servers an hour apart, and sessions in another time zone, answer the same (D5).

Two processes of `baton serve` over one database. One of them, by a shim that is
compiled here (`shift.c`), reads a wall clock that is an hour ahead, and lives in
another time zone. On PostgreSQL the role's sessions have that zone too. On
SQLite the database's clock is the machine's, as the library reads it: that one
is not moved, everything else in the process is.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final

import anyio
import httpx
import psycopg
import pytest
from psycopg import sql

from batonpass.core.clock import MICROS_PER_MS, DatabaseClock, instant_of
from batonpass.store.open import open_session
from batonpass.testing.commands import BATON
from batonpass.testing.crew import gather

SHIM: Final = Path(__file__).with_name("shift.c")
AHEAD: Final = timedelta(hours=1)
TOLERANCE: Final = timedelta(minutes=1)
"""For a Date header, which is of the last second, on a busy machine."""
ZONE: Final = "Asia/Kathmandu"
"""Five hours and three quarters ahead of UTC."""
LEASE_MS: Final = 300_000
SHORT_MS: Final = 1_000
WAIT_S_MAX: Final = 60
CLASS: Final = {
    "fields": {
        "status": {"type": "register"},
        "actions": {"type": "append"},
        "remediation": {"type": "task", "lease": "300s"},
    },
    "roles": {"agents": {"identities": ["agent:*"], "read": "*", "write": "*", "claim": "*"}},
}
MOMENTS: Final = {"lease_expires_at", "updated_at", "at"}
MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")
LEFT: Final = "expires_in_ms"


@dataclass(slots=True)
class Servers:
    """Two servers over the database at `url`: `there` has the other wall clock."""

    url: str
    tokens: Mapping[str, str]
    here: httpx.Client
    there: httpx.Client

    def database_ms(self) -> int:
        """Return what the database's clock reads, in milliseconds."""
        with open_session(self.url, read_only=True) as session:
            ((now,),) = session.ask("time.now", now=None)
        return int(now) // MICROS_PER_MS


@dataclass(slots=True)
class Story:
    """What was asked of one record through two servers in turn, and answered, times aside."""

    servers: Servers
    path: str
    told: list[object] = field(default_factory=list)

    def ask(
        self, at: httpx.Client, who: str, request: str, body: object = None, *, granted_ms: int = 0
    ) -> dict[str, Any]:
        """Ask one thing, and note the answer; with `granted_ms` it grants a lease that ends so long after now."""
        headers = {"Authorization": f"Bearer {self.servers.tokens[who]}"}
        before = self.servers.database_ms()
        method, _, rest = request.partition(" ")
        answer = at.request(method, self.path + rest, json=body, headers=headers)
        after = self.servers.database_ms()
        reply: dict[str, Any] = answer.json()
        if granted_ms:
            assert before + granted_ms <= ms(reply["lease_expires_at"]) <= after + granted_ms, reply
            assert granted_ms - (after - before) <= reply[LEFT] <= granted_ms, reply
        self.told.append((answer.status_code, timeless(reply, self.path)))
        return reply


def ms(text: str) -> int:
    """Return a moment of the wire in milliseconds; it must say that it is in UTC."""
    assert text.endswith("+00:00"), text
    return instant_of(datetime.fromisoformat(text)) // MICROS_PER_MS


def timeless(reply: object, path: str) -> object:
    """Return a reply without its times, and without the name of its record, which is another in each story."""
    match reply:
        case dict():
            return {name: timeless(each, path) for name, each in reply.items() if name not in {*MOMENTS, LEFT}}
        case list():
            return [timeless(each, path) for each in reply]
        case str():
            return MOMENT.sub("MOMENT", reply.replace(path.removeprefix("/v1/records/"), "RECORD"))
        case _:
            return reply


def story_of(servers: Servers, name: str, first: httpx.Client, second: httpx.Client) -> list[object]:
    """Claim, renew, write, lapse, take over, write late: each through the server that did not do what came before."""
    story = Story(servers, f"/v1/records/incidents/{name}")
    task, began = "/fields/remediation", servers.database_ms()
    held = story.ask(first, "a1", f"PUT {task}/claim", {}, granted_ms=LEASE_MS)
    refused = story.ask(second, "b1", f"PUT {task}/claim", {})
    assert refused["lease_expires_at"] == held["lease_expires_at"]
    seen = story.ask(second, "b1", f"GET {task}")
    assert (seen["held"], seen["lease_expires_at"]) == (True, held["lease_expires_at"])
    held = story.ask(second, "a1", f"PUT {task}/claim", {"renew": True}, granted_ms=LEASE_MS)
    for at in (first, second):
        story.ask(at, "a1", "PUT /fields/status", {"value": "seen", "based_on": [fence(held)]})
    story.ask(first, "a1", f"PUT {task}/claim", {"lease_seconds": 0, "based_on": [fence(held)]})

    held = story.ask(second, "a1", f"PUT {task}/claim", {"lease_seconds": 1}, granted_ms=SHORT_MS)
    lapsed = story.ask(first, "b1", f"GET {task}?wait=30&held=true&version={held['version']}")
    assert not lapsed["held"]
    assert servers.database_ms() >= ms(held["lease_expires_at"])
    taken = story.ask(first, "b1", f"PUT {task}/claim", {"lease_seconds": 60}, granted_ms=60_000)
    assert taken["took_over_from"] == "agent:agent-a1"
    for at in (second, first):
        late = story.ask(at, "a1", "POST /fields/actions", {"value": "late", "based_on": [fence(held)]})
        assert late["error"] == "STALE_PREMISE"
        lost = story.ask(at, "a1", f"PUT {task}/claim", {"renew": True})
        assert (lost["error"], lost["lease_expires_at"]) == ("HELD", taken["lease_expires_at"])
    story.ask(second, "b1", "POST /fields/actions", {"value": "in time", "based_on": [fence(taken)]})
    story.ask(first, "b1", "GET")
    for at in (first, second):
        entries = story.ask(at, "b1", "GET /history")["entries"]
        assert all(began <= ms(entry["at"]) <= servers.database_ms() for entry in entries)
    return story.told


def fence(held: Mapping[str, Any]) -> dict[str, object]:
    return {"kind": "fence", "field": "remediation", "version": held["version"]}


# --- the servers -----------------------------------------------------------------------------------------------------


@contextmanager
def served(url: str, home: Path, **environ: str) -> Iterator[httpx.Client]:
    """Run `baton serve` with `environ` besides, and give a client of it."""
    command = [str(BATON), "serve", "--db", url, "--port", "0", "--json"]
    env = {**os.environ, "BATON_HOME": str(home), **environ}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            with httpx.Client(base_url=said["url"], timeout=WAIT_S_MAX) as client:
                yield client
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim, built."""
    compiler = shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("a wall clock is moved by a shim, which takes a C compiler and is loaded as Linux does it")
    built = tmp_path_factory.mktemp("shim") / "shift.so"
    subprocess.run([compiler, "-Wall", "-Werror", "-shared", "-fPIC", "-O2", "-o", built, SHIM, "-ldl"], check=True)
    return built


@pytest.fixture
def servers(database_url: str, shim: Path, tmp_path: Path) -> Iterator[Servers]:
    """Servers whose clocks and zones differ, over one database whose sessions are in that other zone as well."""

    async def gathered() -> dict[str, str]:
        return await gather(database_url, clock=DatabaseClock())

    tokens = anyio.run(gathered)
    if database_url.startswith("postgresql"):
        with psycopg.connect(database_url, autocommit=True) as session:
            name = sql.Identifier(session.info.dbname)
            session.execute(sql.SQL("ALTER ROLE CURRENT_USER IN DATABASE {} SET timezone = {}").format(name, ZONE))
        with psycopg.connect(database_url) as session:
            assert session.execute("SHOW timezone").fetchone() == (ZONE,)
    moved = {
        "LD_PRELOAD": str(shim),
        "SHIFT_S": str(int(AHEAD.total_seconds())),
        "TZ": ZONE,
        "PGTZ": "America/New_York",
    }
    with served(database_url, tmp_path) as here, served(database_url, tmp_path, **moved) as there:
        made = Servers(database_url, tokens, here, there)
        admin = {"Authorization": f"Bearer {tokens['ada']}"}
        here.put("/v1/classes/incidents", json=CLASS, headers=admin).raise_for_status()
        yield made


# --- what is the same ------------------------------------------------------------------------------------------------


def test_servers_an_hour_apart_and_sessions_in_another_zone_answer_the_same(servers: Servers) -> None:
    here, there = servers.here, servers.there
    assert abs(clock_of(there) - clock_of(here) - AHEAD) < TOLERANCE, "the shift is in force"

    alone = story_of(servers, "alone", here, here)

    assert story_of(servers, "out", here, there) == alone
    assert story_of(servers, "back", there, here) == alone


def clock_of(server: httpx.Client) -> datetime:
    """Return what the wall clock of a server's process says."""
    return parsedate_to_datetime(server.get("/v1/me").headers["Date"])
