"""Two servers over one database, one killed with -9 in the middle of load (laws 1, 2, 9; D42, D45)."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest

from batonpass.testing.crew import TASKS
from batonpass.testing.populated import contents
from batonpass.testing.processes import ServerProcess, Site, server_process

TTL: Final = timedelta(minutes=45)
WORKERS: Final = 8
KILLS: Final = 3
STEPS_BETWEEN_KILLS: Final = 60
AGENTS: Final = ("a1", "a2", "b1", "b2")
LOST: Final = -1
"""The status of a request whose answer never came."""


@dataclass
class Answered:
    """What the servers have said, by whichever worker heard it."""

    grants: list[tuple[str, int, str, str]] = field(default_factory=list)
    """(node, epoch, holder, nonce) of each claim answered 200."""
    notes: set[str] = field(default_factory=set)
    """Nodes whose writing was answered 2xx."""
    released: list[tuple[str, int]] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)


@dataclass
class Worker:
    """Claims, works and hands back, at one server and the other in turn; the same nonce until it knows."""

    name: str
    agent: str
    token: str
    ports: list[int]
    heard: Answered
    stop: threading.Event
    steps: Iterator[int]

    def run(self) -> None:
        """Work until told to stop."""
        chance = random.Random(self.name)  # noqa: S311  # the same choices in every run
        for turn in itertools.count():
            if self.stop.is_set():
                return
            node = chance.choice(TASKS)
            epoch = self.claim(node, f"{self.name}-{turn}")
            if epoch is None:
                continue
            self.work(node, epoch, f"art-{self.name}-{turn}")
            self.hand_back(node, epoch)

    def claim(self, node: str, nonce: str) -> int | None:
        """Claim, asking again while nobody can say; return the epoch, or None when somebody else has it."""
        while not self.stop.is_set():
            status, body = self.post(f"/v1/nodes/{node}/claim", {"dispatch": nonce})
            if status == httpx.codes.OK:
                self.heard.grants.append((node, body["lease"]["epoch"], body["lease"]["by"], nonce))
                return int(body["lease"]["epoch"])
            if status == httpx.codes.CONFLICT:
                return None
        return None

    def work(self, node: str, epoch: int, note: str) -> None:
        """Write a node of one's own under the tenure."""
        fence = {"If-Lease": f"{node}; epoch={epoch}"}
        status, _ = self.post("/v1/nodes", {"nodes": [{**NOTE, "id": note}]}, fence)
        if httpx.codes.is_success(status):
            self.heard.notes.add(note)

    def hand_back(self, node: str, epoch: int) -> None:
        """Release, until somebody says that it is over."""
        while not self.stop.is_set():
            status, _ = self.post(f"/v1/nodes/{node}/release", {"if_epoch": epoch})
            if status in {httpx.codes.OK, httpx.codes.CONFLICT}:
                self.heard.released.append((node, epoch))
                return

    def post(self, path: str, body: object, headers: dict[str, str] | None = None) -> tuple[int, Any]:
        """Send one request to one of the servers; a connection that breaks is a lost answer."""
        next(self.steps)
        self.ports.reverse()
        port = self.ports[0]
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", **(headers or {})}
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        try:
            connection.request("POST", path, json.dumps(body), sent)
            answer = connection.getresponse()
            said: tuple[int, Any] = (answer.status, json.loads(answer.read()))
        except (OSError, http.client.HTTPException, ValueError):
            said = (LOST, None)
        finally:
            connection.close()
        self.heard.statuses[said[0]] += 1
        return said


NOTE: Final = {"type": "artifact", "title": "note", "summary": "what was done"}


@dataclass
class Steps:
    """Counts what the workers do, so that a kill comes in the middle of it, however fast they are."""

    count: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        with self._changed:
            self.count += 1
            self._changed.notify_all()
            return self.count

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, 60)


@pytest.mark.timeout(240)
def test_a_server_killed_in_the_middle_of_load_loses_nothing_and_leaves_nothing_stuck(site: Site) -> None:
    heard, stop, steps = Answered(), threading.Event(), Steps()
    ports = [server.port for server in site.servers]
    workers = [
        Worker(
            f"w{number}",
            (agent := AGENTS[number % len(AGENTS)]),
            site.gathered.tokens[agent],
            ports[:: 1 if number % 2 else -1],
            heard,
            stop,
            steps,
        )
        for number in range(WORKERS)
    ]
    threads = [threading.Thread(target=worker.run, name=worker.name) for worker in workers]
    with ExitStack() as stack:
        victim: ServerProcess = site.servers[0]
        for thread in threads:
            thread.start()
        try:
            for _ in range(KILLS):
                steps.wait_for(steps.count + STEPS_BETWEEN_KILLS)
                victim.kill()
                steps.wait_for(steps.count + STEPS_BETWEEN_KILLS // 2)
                victim = stack.enter_context(server_process(site.gathered.url, clock=site.clock, port=victim.port))
            steps.wait_for(steps.count + STEPS_BETWEEN_KILLS)
        finally:
            stop.set()
            for thread in threads:
                thread.join()

        assert heard.statuses[LOST] > 0, "somebody was in the middle of something"
        assert heard.statuses[200] > STEPS_BETWEEN_KILLS
        assert set(heard.statuses) <= {LOST, 200, 201, 207, 409, 503}, heard.statuses
        assert_nothing_lost(site, heard)
        assert_nothing_stuck(site)


def assert_nothing_lost(site: Site, heard: Answered) -> None:
    """Check what was answered against the tables: every grant and write is there, and no tenure had two holders."""
    tables = contents(site.gathered.url)
    tenures: dict[tuple[str, int], set[tuple[str, str]]] = {}
    for node, epoch, holder, nonce in heard.grants:
        tenures.setdefault((node, epoch), set()).add((holder, nonce))
    assert all(len(launches) == 1 for launches in tenures.values()), "one holder, and one launch, for each epoch"
    stored = {str(row[0]) for row in tables["nodes"]}
    assert heard.notes <= stored
    nonces = {(str(node), str(nonce)): epoch for node, nonce, epoch in tables["lease_nonces"]}
    for (node, epoch), launches in tenures.items():
        ((_, nonce),) = launches
        assert nonces[node, nonce] == epoch
    began = [(row[3], row[9]) for row in tables["events"] if row[2] in {"lease.claimed", "lease.taken_over"}]
    assert len(began) == len(set(began)), "no epoch began twice"
    assert set(tenures) <= set(began)


def assert_nothing_stuck(site: Site) -> None:
    """Check that once every lease has had its time, both servers hand out every item."""
    site.clock.advance(TTL)
    for number, node in enumerate(TASKS):
        headers = {"Authorization": f"Bearer {site.gathered.tokens['ada']}"}
        url = f"http://127.0.0.1:{site.servers[number % 2].port}/v1/nodes/{node}"
        answer = httpx.post(f"{url}/claim", json={"force": True}, headers=headers)
        assert answer.status_code == httpx.codes.OK, answer.text
        assert httpx.post(f"{url}/renew", json={}, headers=headers).status_code == httpx.codes.OK


@pytest.mark.timeout(240)
def test_a_server_that_is_stopped_and_goes_on_writes_nothing_into_the_next_tenure(site: Site) -> None:
    """Suspended beyond the lease, with requests in its socket: what it then answers is true of that moment."""
    first, second = site.servers
    a1, b1 = (httpx.Client(headers={"Authorization": f"Bearer {site.gathered.tokens[who]}"}) for who in ("a1", "b1"))
    with a1, b1:
        assert a1.post(f"{first.url}/v1/nodes/task-1/claim", json={}).json()["lease"]["epoch"] == 1
        first.stop()
        late: list[httpx.Response] = []
        fence = {"If-Lease": "task-1; epoch=1"}
        writer = threading.Thread(
            target=lambda: late.append(
                a1.post(f"{first.url}/v1/nodes/task-1/priority", json={"priority": "p1"}, headers=fence, timeout=60)
            )
        )
        writer.start()
        site.clock.advance(TTL)
        assert b1.post(f"{second.url}/v1/nodes/task-1/claim", json={}, timeout=30).json()["lease"]["epoch"] == 2
        first.resume()
        writer.join()

        assert late[0].status_code == httpx.codes.CONFLICT
        assert late[0].json()["holder"]["by"] == "agent-b1"


KILLED_AT: Final = {
    "postgres": ("tx.begun", "lease.locked", "lease.decided", "lease.written", "commit.sent", "commit.returned"),
    "sqlite": (
        "group.opened",
        "member.begun",
        "lease.decided",
        "lease.written",
        "member.released",
        "group.committing",
        "group.committed",
    ),
}
STANDS: Final = {"commit.returned", "group.committed"}
"""The points behind COMMIT: what was asked for stands, and nobody was told."""


@pytest.mark.timeout(240)
def test_a_server_killed_at_any_point_of_a_claim_has_claimed_whole_or_not_at_all(site: Site) -> None:
    dialect = "sqlite" if site.gathered.url.startswith("sqlite") else "postgres"
    headers = {"Authorization": f"Bearer {site.gathered.tokens['a1']}"}
    for number, point in enumerate(KILLED_AT[dialect], 1):
        node = f"/v1/nodes/task-{number % len(TASKS) + 1}"
        with server_process(site.gathered.url, clock=site.clock, points=f"{point}@2:kill") as doomed:
            body = {"dispatch": f"u-{point}"}
            httpx.post(f"{doomed.url}/v1/nodes/task-1/renew", json={"reclaim": False}, headers=headers)
            before = contents(site.gathered.url)
            with pytest.raises(httpx.TransportError):
                httpx.post(f"{doomed.url}{node}/claim", json=body, headers=headers)
            assert doomed.died() == -9, point

        after = contents(site.gathered.url)
        assert (after == before) == (point not in STANDS), point
        again = httpx.post(f"{site.servers[0].url}{node}/claim", json=body, headers=headers)
        assert again.status_code == httpx.codes.OK, (point, again.text)
        httpx.post(f"{site.servers[1].url}{node}/release", json={}, headers=headers)
