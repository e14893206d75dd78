"""A whole fleet on one box: a server process, a person and an agent, a repository, and workers that are processes.

    with fleet(url, folder) as fleet:
        node = fleet.add_item("task-1", project="mail")
        with fleet.supervised(node, fleet.order("sh", "-c", "…"), points="settle.read:kill") as supervised:
            supervised.ended()
        fleet.take_up()

`worker` starts a whole worker as a process (`batonpass.testing.round`), where
that is what is paused or killed. `supervised` starts a supervisor only, whose
worker is the test: that is one process less, and the run is left at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from batonpass.client.client import Client
from batonpass.core.ids import AgentId, HolderId, NodeId
from batonpass.core.queue import Accept
from batonpass.testing.clock import SharedClock
from batonpass.testing.points import VARIABLE, environment
from batonpass.testing.processes import ServerProcess, server_process, wait_gone
from batonpass.testing.repos import Repo, make_repo, person_environment
from batonpass.testing.round import BRISK
from batonpass.testing.server import first_token
from batonpass.worker.app import run_once
from batonpass.worker.crew import Crew, tell
from batonpass.worker.dispatch import launch
from batonpass.worker.dispatch.handover import ByProcess, SupervisorProcess
from batonpass.worker.dispatch.launch import Errand, Launcher, Order
from batonpass.worker.journal import HeldRun, Journal, RunFolder
from batonpass.worker.reaping import reap
from batonpass.worker.record import RunRecord
from batonpass.worker.server_graph import ServerGraph
from batonpass.worker.settings import Settings
from batonpass.worker.worker import PAGE, Worker

DATE: Final = "2026-11-30"
_ARMING: Final = (VARIABLE, "PYTHONPATH")
SESSION: Final = "bcb0800b-f41c-453a-822a-2adf7ba5a623"
_BEGIN: Final = json.dumps({"type": "system", "subtype": "init", "session_id": SESSION})
_END: Final = json.dumps(
    {"type": "result", "subtype": "success", "is_error": False, "result": "Half of it works.", "session_id": SESSION}
)
LAPSE: Final = timedelta(hours=1)
"""Longer than any lease of a task that nobody renews."""
END_S_MAX: Final = 40.0
"""How long a test waits for a worker to end by itself."""
WAIT_S_MAX: Final = 30.0
"""How long a test waits for what shows a worker at work."""


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker in a process of its own."""

    process: subprocess.Popen[str]

    def died(self) -> int:
        """Wait until the process has ended, by itself or at a point armed to kill it, and return its status."""
        return self.process.wait(END_S_MAX)

    def said(self) -> str:
        """Wait until the process has ended, and return what it said."""
        out, _ = self.process.communicate(timeout=END_S_MAX)
        return out

    def kill(self) -> None:
        """End the process as kill -9 does; safe twice."""
        self.process.kill()
        self.process.wait(END_S_MAX)


@dataclass(frozen=True, slots=True)
class Supervised:
    """A run under a supervisor in a process of its own, whose worker is the test."""

    run: RunFolder
    process: SupervisorProcess

    def ended(self) -> None:
        """Wait until the supervisor has ended, by itself or at a point armed to kill it."""
        assert self.process.wait(END_S_MAX), "the supervisor goes on"

    def frozen(self) -> None:
        """Wait until the supervisor stands still at a point armed to stop it."""
        os.waitid(os.P_PID, self.process.identity.pid, os.WSTOPPED | os.WNOWAIT)

    def freeze(self) -> None:
        """Freeze the supervisor here and now, as a suspended machine does."""
        tell(self.process.identity, signal.SIGSTOP)
        self.frozen()

    def resume(self) -> None:
        """Let a frozen supervisor go on."""
        tell(self.process.identity, signal.SIGCONT)


@dataclass(frozen=True, slots=True)
class _Remembering:
    """Starts supervisors as a worker does, and remembers them."""

    starter: ByProcess
    started: queue.SimpleQueue[Supervised] = field(default_factory=queue.SimpleQueue)

    def start(self, run: HeldRun, errand: Errand) -> SupervisorProcess:
        process = self.starter.start(run, errand)
        self.started.put(Supervised(RunFolder(run.path), process))
        return process


@dataclass(frozen=True, slots=True)
class Fleet:
    """What a story is played with. `person` speaks as an admin, `agent` with the standing token of `agent_id`."""

    server: ServerProcess
    person: Client
    agent: Client
    agent_id: AgentId
    agent_token: str
    repo: Repo
    folder: Path
    clock: SharedClock | None = None

    def add_item(self, node: str, *, project: str, type: str = "task") -> NodeId:  # noqa: A002 — the field's name
        """File an item that agents may take, and return its id."""
        item = {
            "id": node,
            "type": type,
            "title": f"Title of {node}",
            "summary": f"Summary of {node}",
            "date": DATE,
            "project": project,
            "readiness": "agent",
            "body": f"Text of {node}.",
        }
        (result,) = self.person.put_nodes([item]).results
        assert result.ok, result
        return NodeId(node)

    @contextmanager
    def worker(
        self, *command: str, project: str, points: str = "", home: Path | None = None
    ) -> Iterator[WorkerProcess]:
        """Start a worker for one round; it is killed at the end of the block if it has not ended by then."""
        argv = [sys.executable, "-m", "batonpass.testing.round", "--", *command]
        environ = {
            **self.repo.person,
            "BATON_SERVER": self.server.url,
            "BATON_TOKEN": self.agent_token,
            "BATON_HOME": str(home or self.settings.home),
            "BATON_PROJECT": project,
        }
        process = subprocess.Popen(
            argv,
            cwd=self.repo.folder,
            env=environment(points, environ),
            stdin=subprocess.PIPE,  # open, and nobody writes to it: who reads from it hangs
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            worker = WorkerProcess(process)
            try:
                yield worker
            finally:
                worker.kill()

    @property
    def settings(self) -> Settings:
        """The settings of this box's workers."""
        return Settings(home=self.folder / "baton", inherited=self.repo.person, graces=BRISK)

    def order(self, *command: str, **more: Any) -> Order:  # noqa: ANN401 — whichever fields a test is about
        """Return an order to run `command` in the fleet's repository."""
        return Order(command, self.repo.folder, **more)

    def order_passing(self, point: str, script: str) -> Order:
        """Return an order to run `script` on which `point` is passed: some are only with a hook, or a session."""
        match point:
            case "hook.done":
                return self.order("sh", "-c", script, set_up=("true",))
            case "session.bound":
                return self.session_order(script)
            case _:
                return self.order("sh", "-c", script)

    def session_order(self, script: str) -> Order:
        """Return an order to run `script` as an agent program does that says which session it is: `SESSION`."""
        program = self.folder / f"agent program {zlib.crc32(script.encode()):x}"
        program.write_text(f"#!/bin/sh\ncat > /dev/null\necho '{_BEGIN}'\n{script}\necho '{_END}'\n")
        program.chmod(0o755)
        return replace(self.order(), harness="claude-code", program=program)

    @contextmanager
    def supervised(self, node: NodeId, order: Order, *, points: str = "") -> Iterator[Supervised]:
        """Claim `node` and hand its run over to a supervisor, as a worker does that dies when it has.

        The block begins when the supervisor has been told, and the supervisor is killed at its end if it still lives.
        """
        graph, settings = ServerGraph(self.agent), self.settings
        ground = launch.survey(order, settings)
        record = launch.new_record(order, ground, server=graph.server, caller=graph.caller(), now=_now())
        armed = {name: value for name, value in environment(points).items() if name in _ARMING}
        starter = _Remembering(self._starter(armed))
        launcher = Launcher(graph, settings, _now, starter)
        with Journal(settings.home).create(record) as run:
            taken = graph.next(project=None, accept=Accept.READY, candidates=[node], dispatch=record.dispatch)
            assert taken is not None, f"{node} is not to be had"
            beginning = threading.Thread(
                target=lambda: launch.begin(launcher, run, taken, order=order, ground=ground), name="worker"
            )
            beginning.start()
            supervised = starter.started.get(timeout=END_S_MAX)
            try:
                yield supervised
            finally:
                if not supervised.process.wait(0):
                    tell(supervised.process.identity, signal.SIGKILL)
                beginning.join(END_S_MAX)
                supervised.ended()

    def take_up(self) -> list[str]:
        """Settle, as any worker's start does, every run that was left on this box; return what the worker said."""
        said: list[str] = []
        reap(
            Worker(
                graph=ServerGraph(self.agent),
                settings=self.settings,
                order=self.order("true"),
                now=_now,
                interrupted=threading.Event(),
                say=said.append,
                starter=self._starter(),
            )
        )
        return said

    def start_again(self, project: str, *command: str) -> list[str]:
        """Do a worker's next round here and now, with `command` for whatever it takes; return what it said."""
        order = self.order(*command or ("true",), project=project)
        said: list[str] = []
        run_once(ServerGraph(self.agent), self.settings, order, starter=self._starter(), say=said.append)
        return said

    def offered(self, project: str) -> list[NodeId]:
        """Return the items of a project that a worker could take now."""
        page = ServerGraph(self.agent).page(project=project, limit=PAGE)
        return [item.id for item in page.items if item.lease_state is None]

    def runs(self, project: str, *, home: Path | None = None) -> list[tuple[RunFolder, RunRecord]]:
        """Return the runs of a project that a home has on record, the oldest first."""
        known = Journal(home or self.settings.home).records()
        return [(run, record) for run, record in known if record.project == project]

    def end_runs(self) -> None:
        """End what a test has left, as kill -9 does: supervisors outlive whoever started them."""
        for _, record in Journal(self.settings.home).records():
            if record.is_settled:
                continue
            if record.runner is not None:
                tell(record.runner, signal.SIGKILL)
            Crew(record.run_id, child=record.child).stop(BRISK)

    def wait_overseen(self, project: str) -> None:
        """Wait until the supervisors of a project's runs have ended, those of dead workers too."""
        for _, record in self.runs(project):
            assert record.runner is not None
            wait_gone(record.runner.pid, seconds_max=END_S_MAX)

    def lapse(self) -> None:
        """Let every lease lapse that nobody has renewed by now; for a fleet whose clock is moved by hand."""
        assert self.clock is not None, "its clock moves by itself"
        self.clock.advance(LAPSE)

    def fifo(self, name: str) -> Path:
        """Make a named pipe in the fleet's folder, for a child to be heard or let go by, and return it."""
        path = self.folder / name
        os.mkfifo(path)
        return path

    def is_leased(self, node: NodeId) -> bool:
        """Whether somebody holds the node, in force or lapsed."""
        return self.person.node(node).lease is not None

    def related(self, node: NodeId) -> list[NodeId]:
        """Return the nodes that relate to `node`: its reports and findings."""
        edges = self.person.edges(node, direction="in", types=["relates-to"]).edges
        return [NodeId(edge.src) for edge in edges]

    def _starter(self, armed: Mapping[str, str] | None = None) -> ByProcess:
        return ByProcess(server=self.server.url, token=self.agent_token, extra=armed or {})


@contextmanager
def fleet(url: str, folder: Path, *, clock: SharedClock | None = None) -> Iterator[Fleet]:
    """Serve the empty database at `url` and make a person, an agent and a repository in `folder`."""
    token = asyncio.run(first_token(url, clock=clock))
    repo = make_repo(folder / "project", person_environment(folder / "home"))
    with ExitStack() as stack:
        server = stack.enter_context(server_process(url, clock=clock))
        person = stack.enter_context(Client(server.url, token))
        agent_id = AgentId(HolderId(person.add_agent(label="mill").id))
        agent_token = person.mint_standing_token(agent_id, label="fleet").token
        agent = stack.enter_context(Client(server.url, agent_token))
        running = Fleet(server, person, agent, agent_id, agent_token, repo, folder, clock)
        stack.callback(running.end_runs)
        yield running


def until(found: Callable[[], bool], what: str) -> None:
    """Look again and again until `found`, which is `what` is waited for; it is there in `WAIT_S_MAX` or never."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not found():
        assert time.monotonic() < deadline, f"{what}: not within {WAIT_S_MAX} s"
        threading.Event().wait(0.02)


def _now() -> datetime:
    return datetime.now(UTC)
