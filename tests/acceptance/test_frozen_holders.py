"""A holder is frozen past its lease, another goes on from its checkpoint, and the first wakes: the whole story (D33).

Once a sidecar is frozen and an agent in Python takes over, and once the other
way round. Between the frozen one and the server stands a relay that keeps what
each of its requests was answered.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from batonpass.cli.exits import Exit
from batonpass.client import record_calls
from batonpass.client.client import Client
from batonpass.client.run import Finish, Tally, run
from batonpass.client.task import HeldTask
from batonpass.testing.clock import SharedClock
from batonpass.testing.commands import BATON
from batonpass.testing.crew import Gathered
from batonpass.testing.processes import server_process
from batonpass.testing.world import INCIDENTS

RECORD: Final = "incidents/inc-4471"
FIELD: Final = "remediation"
LEASE: Final = timedelta(seconds=300)
WAIT_S_MAX: Final = 60
FENCE: Final = [{"kind": "fence", "field": FIELD, "epoch": 1}]
OF_THE_SECOND: Final = [{"kind": "fence", "field": FIELD, "epoch": 2}]


# --- the relay -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answered:
    """One request that went through, and how it was answered."""

    request: str
    status: int
    body: bytes

    @property
    def error(self) -> str | None:
        """The code of a refusal by a route of records."""
        return None if self.status < http.client.BAD_REQUEST else str(json.loads(self.body)["error"])


@dataclass(slots=True)
class Relay:
    """Passes requests on to the server at `port`, and keeps the answers."""

    port: int
    url: str = ""
    answered: list[Answered] = field(default_factory=list)

    def carry(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        """Pass one request on and return its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S_MAX)
        connection.request(method, path, body, {**headers, "Accept-Encoding": "identity", "Connection": "close"})
        response = connection.getresponse()
        read = response.read()
        connection.close()
        self.answered.append(Answered(f"{method} {path}", response.status, read))
        return response.status, read


@contextmanager
def relay_to(port: int) -> Iterator[Relay]:
    """Run a relay until the end of the block."""
    relay = Relay(port)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, answer = relay.carry(self.command, self.path, body, dict(self.headers.items()))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_DELETE = pass_on  # noqa: N815  # names of the base class

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        relay.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=[0.05])
        thread.start()
        try:
            yield relay
        finally:
            listening.shutdown()
            thread.join()


# --- the scene -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scene:
    """A server with one open incident, and a relay before it for the one that is frozen."""

    url: str
    tokens: Mapping[str, str]
    clock: SharedClock
    relay: Relay
    folder: Path
    stack: ExitStack

    def start(self, argv: Sequence[str | Path], who: str, url: str) -> subprocess.Popen[str]:
        """Start an agent's process, which ends with the test."""
        environ = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "HOME": str(self.folder),
            "BATON_HOME": str(self.folder / "home"),
            "BATON_SERVER": url,
            "BATON_TOKEN": self.tokens[who],
        }
        process = subprocess.Popen(
            argv,
            env=environ,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stack.enter_context(process)
        self.stack.callback(process.kill)
        return process

    def sidecar(self, who: str, url: str, script: str) -> subprocess.Popen[str]:
        """Start a sidecar around a child in Python."""
        named = ["--record", RECORD, "--field", FIELD, "--checkpoint", "progress"]
        child = [sys.executable, "-c", textwrap.dedent(script)]
        return self.start([BATON, "sidecar", *named, "--json", "--", *child], who, url)

    def pipe(self, name: str) -> Path:
        """Make a named pipe, at which a child and the test meet."""
        path = self.folder / name
        os.mkfifo(path)
        return path

    def client(self, who: str) -> Client:
        """Return a client of an agent."""
        return self.stack.enter_context(Client(self.url, self.tokens[who]))

    def freeze(self, process: subprocess.Popen[str]) -> int:
        """Stop a process as a suspended machine does, past its lease; return how many answers it has had."""
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        self.clock.advance(LEASE)
        return len(self.relay.answered)

    def story(self) -> list[tuple[object, ...]]:
        """Return the record's history, oldest first: who did what to which field, on what, and from whom."""
        entries = reversed(self.client("a2").records.history(RECORD).entries)
        return [(e.author, e.verb, e.field, e.based_on, e.took_over_from) for e in entries]


@pytest.fixture
def scene(gathered: Gathered, tmp_path: Path) -> Iterator[Scene]:
    """The agents a1 and b1 may work on what a2 has found."""
    clock = SharedClock(tmp_path / "clock")
    with (
        server_process(gathered.url, clock=clock) as server,
        relay_to(server.port) as relay,
        ExitStack() as stack,
    ):
        made = Scene(server.url, gathered.tokens, clock, relay, tmp_path, stack)
        made.client("ada").put_class("incidents", INCIDENTS)
        made.client("a2").records.put(RECORD, "status", "open")
        yield made


def told(first: str, second: str) -> list[tuple[object, ...]]:
    """Return what history must say, and nothing else: the first got two steps far, the second did the rest."""
    return [
        ("agent:agent-a2", "put", "status", [], None),
        (first, "claim", FIELD, [], None),
        (first, "put", "progress", FENCE, None),
        (first, "put", "progress", FENCE, None),
        (second, "takeover", FIELD, [], first),
        (second, "put", "status", OF_THE_SECOND, None),
        (second, "put", "progress", OF_THE_SECOND, None),
        (second, "release", FIELD, OF_THE_SECOND, None),
    ]


def assert_refused(scene: Scene, since: int) -> None:
    """Require that the frozen one has written since, that it was told STALE_PREMISE, and that nothing of it stood."""
    sent = [each for each in scene.relay.answered[since:] if not each.request.startswith("GET ")]
    of_the_record = [each for each in sent if RECORD in each.request]
    writes = [each.error for each in of_the_record if not each.request.endswith("/claim")]

    assert writes[:1] == ["STALE_PREMISE"], sent
    assert all(each.error is not None for each in of_the_record), sent


# --- the stories -----------------------------------------------------------------------------------------------------


def test_a_frozen_sidecar_wakes_to_stale_premise_after_an_agent_has_finished_its_work(scene: Scene) -> None:
    began, gate = scene.pipe("began"), scene.pipe("gate")
    script = f"""
        import json, signal, sys
        def say(**what): print(json.dumps(what), flush=True)
        say(checkpoint=1)
        say(checkpoint=2)
        open({str(began)!r}, "w").write("two steps")
        open({str(gate)!r}).read()
        say(put={{"field": "status", "value": "by the dead"}})
        signal.pause()
    """
    frozen = scene.sidecar("a1", scene.relay.url, script)
    assert began.read_text() == "two steps"
    wait_for_checkpoint(scene, 2)
    since = scene.freeze(frozen)
    found: list[object] = []

    def finish(task: HeldTask) -> Finish:
        found.extend([task.checkpoint, task.took_over_from])
        return Finish(put={"status": "mitigated"}, checkpoint=3)

    resumed = functools.partial(run, scene.client("b1"), "incidents", FIELD, finish, checkpoint="progress", once=True)
    assert resumed() == Tally(done=1)
    gate.write_text("")
    frozen.send_signal(signal.SIGCONT)
    out, _ = frozen.communicate(timeout=WAIT_S_MAX)

    assert found == [2, "agent:agent-a1"]
    assert frozen.returncode == Exit.HELD, out
    ending = json.loads(out)
    assert (ending["ended"], ending["written"], ending["released"]) == ("lost", 2, False)
    assert_refused(scene, since)
    record = scene.client("a2").records.get(RECORD)
    assert (record.value("status"), record.value("progress")) == ("mitigated", 3)
    assert scene.story() == told("agent:agent-a1", "agent:agent-b1")


def wait_for_checkpoint(scene: Scene, step: int) -> None:
    """Return when the checkpoint of `step` is written; the server's own wait does it."""
    reader, version = scene.client("a2"), 0
    while reader.records.get(RECORD).value("progress") != step:
        version = reader.send(record_calls.field(RECORD, "progress", wait=WAIT_S_MAX, version=version)).version


def test_a_frozen_agent_wakes_to_stale_premise_after_a_sidecar_has_finished_its_work(scene: Scene) -> None:
    argv = [sys.executable, "-m", "batonpass.testing.remediator", scene.relay.url, scene.tokens["a1"]]
    frozen = scene.start(argv, "a1", scene.relay.url)
    assert frozen.stdout is not None
    assert frozen.stdin is not None
    assert frozen.stdout.readline() == "step 1\n"
    frozen.stdin.write("\n")
    frozen.stdin.flush()
    assert frozen.stdout.readline() == "step 2\n"
    since = scene.freeze(frozen)

    script = """
        import json, sys
        given = json.load(sys.stdin)
        assert (given["checkpoint"], given["took_over_from"]) == (2, "agent:agent-a1"), given
        print(json.dumps({"writes": [{"put": {"field": "status", "value": "mitigated"}}, {"checkpoint": 3}]}))
    """
    resumed = scene.sidecar("b1", scene.url, script)
    out, err = resumed.communicate(timeout=WAIT_S_MAX)
    assert resumed.returncode == Exit.OK, (out, err)
    frozen.send_signal(signal.SIGCONT)
    out, _ = frozen.communicate("\n", timeout=WAIT_S_MAX)

    assert out.strip() == str(Tally(lost=1))
    assert_refused(scene, since)
    assert scene.story() == told("agent:agent-a1", "agent:agent-b1")
