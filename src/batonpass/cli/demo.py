"""`baton demo`: the main job, happening for real, told line by line.

A server, two workers and their agents are processes of their own; the
repository is a real one. Each line that begins with a check mark says
something that was read back just now. A step that does not happen as told
ends the demo with exit code 1, its folder left to look around in. SIGINT,
SIGTERM and SIGHUP end it with 130; however it ends, it leaves no process.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path
from types import FrameType
from typing import Final, TypeVar

import msgspec

from batonpass.cli.exits import Exit
from batonpass.cli.render import say, warn
from batonpass.cli.serve import Serving
from batonpass.client import config
from batonpass.client.client import Client
from batonpass.core.errors import BatonError
from batonpass.core.ids import AgentId, HolderId, NodeId
from batonpass.wire.nodes import NodeReply
from batonpass.wire.policy import PolicyRequest
from batonpass.worker import environment, git, proc
from batonpass.worker.crew import Graces, Identity, is_alive
from batonpass.worker.errors import WorkerError
from batonpass.worker.journal import Journal
from batonpass.worker.proc import Child

PROJECT: Final = "demo"
LEASE_MS: Final = 4_000
"""So short that a lapse can be watched; 45 minutes are usual."""
STEP_S_MAX: Final = 20.0
"""How long any one step may take before the story has gone wrong."""
LOOK_S: Final = 0.05
GRACES: Final = Graces(interrupt_s=1, terminate_s=2, kill_s=2)
TASKS: Final = {
    NodeId("task-describe-setup"): "Describe how to set the project up",
    NodeId("task-describe-tests"): "Describe how to run the tests",
    NodeId("task-find-slow-test"): "Find out which test is slow",
}
LAST: Final = NodeId("task-find-slow-test")
WORKERS: Final = ("worker-1", "worker-2")

T = TypeVar("T")


class NotAsTold(Exception):
    """A step did not happen as told; the message says which, and what was there instead."""


@dataclass(slots=True)
class Interrupts:
    """Whether somebody wants the demo to end.

    The first signal only leaves a mark, which the story looks for between its
    steps and while it waits: an exception out of nowhere could fall between the
    start of a process and the note of it. A second one interrupts at once, for
    a call that hangs; but nothing interrupts the stopping of what was started.
    """

    have_come: bool = False
    are_late: bool = False

    def handle(self, _number: int, _frame: FrameType | None) -> None:
        """Take note of a signal."""
        again, self.have_come = self.have_come, True
        if again and not self.are_late:
            raise KeyboardInterrupt

    def heed(self) -> None:
        """Raise `KeyboardInterrupt` if a signal has come."""
        if self.have_come:
            raise KeyboardInterrupt

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen for signals meanwhile, those excepted that our starter has told us to ignore (nohup)."""
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        heeded = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}
        for number in heeded:
            signal.signal(number, self.handle)
        try:
            yield
        finally:
            for number, handler in heeded.items():
                signal.signal(number, handler)


@dataclass(slots=True)
class Stage:
    """The folder the story plays in, and the processes it has started."""

    folder: Path
    interrupts: Interrupts = field(default_factory=Interrupts)
    mark: str = field(default_factory=lambda: f"demo-{uuid.uuid4().hex}")
    """Stands in the environment of all it starts; of its own, so that no other demo is stopped with it."""
    began: float = field(default_factory=time.monotonic)
    children: dict[str, Child] = field(default_factory=dict)

    @property
    def repository(self) -> Path:
        """The checkout the workers are started in."""
        return self.folder / "repository"

    def tell(self, line: str) -> None:
        """Say what happens next, and when."""
        self.interrupts.heed()
        say(f"{time.monotonic() - self.began:5.1f} s  {line}")

    def found(self, line: str) -> None:
        """Say what was read back just now."""
        self.tell(f"  ✓ {line}")

    def start(
        self, name: str, *arguments: str, home: str, token: str | None = None, server: str | None = None
    ) -> Child:
        """Start a `baton` command as a process of its own; its output goes to files called `name`."""
        child = proc.start(
            [sys.executable, "-m", "batonpass", *arguments],
            mark=self.mark,
            cwd=self.repository,
            environment=self.environment(home, token=token, server=server),
            stdin=None,
            stdout=self.folder / f"{name}.out",
            stderr=self.folder / f"{name}.err",
        )
        self.children[name] = child
        return child

    def environment(self, home: str, *, token: str | None, server: str | None) -> dict[str, str]:
        """Return the environment of a process on the box `home`; tokens travel in it and nowhere else."""
        own = {
            config.HOME: str(self.folder / home),
            "DEMO": str(self.folder),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
        }
        if token is not None and server is not None:
            own |= {config.TOKEN: token, config.SERVER: server}
        return {**environment.plain(os.environ), **own}

    def out(self, name: str) -> str:
        """Return what a process has printed so far."""
        path = self.folder / f"{name}.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def wait(self, what: str, look: Callable[[], T | None]) -> T:
        """Return what `look` finds as soon as it finds something; `NotAsTold` when that takes too long."""
        deadline = time.monotonic() + STEP_S_MAX
        while (seen := look()) is None:
            self.interrupts.heed()
            if time.monotonic() > deadline:
                raise NotAsTold(f"{what}: nothing of the kind within {STEP_S_MAX:.0f} s")
            time.sleep(LOOK_S)
        return seen

    def wait_for_file(self, what: str, path: Path) -> None:
        """Wait until a file is there."""
        self.wait(what, lambda: path.exists() or None)

    def wait_for_end(self, name: str) -> None:
        """Wait until a process has ended, and require that it ended well."""
        ended = self.wait(f"{name} ends", lambda: self.children[name].wait(0))
        if ended.code != 0:
            raise NotAsTold(f"{name} ended with {ended.code or ended.signal}; its words are in {name}.err")

    def file(self, kind: str, node: NodeId, epoch: int) -> Path:
        """Return the file by which the demo and an agent understand each other."""
        return self.folder / f"{kind}.{node}.{epoch}"

    def cue(self, node: NodeId, epoch: int) -> None:
        """Let the agent of this tenure go on."""
        self.file("cue", node, epoch).touch()


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays: the server's address, the person, and the two workers' tokens."""

    server: str
    person: Client
    tokens: dict[str, str]


def demo(*, folder: Path | None = None) -> int:
    """Watch the main job happen: claim, work, a kill, a takeover, a refused zombie, verdicts read from the graph.

    Needs git, and neither an account nor a network. Takes about twenty seconds.

    Args:
        folder: where to play, a folder that does not exist yet; without it a new temporary one.


    """
    stage = Stage(_new_folder(folder))
    with stage.interrupts.heard():
        told = _is_told(stage)
    if stage.interrupts.have_come:
        warn(f"Interrupted; everything is left in {stage.folder}")
        return Exit.INTERRUPTED
    if not told:
        warn(f"Everything is left in {stage.folder}")
        return Exit.FAILED
    _say_what_is_left(stage)
    return Exit.OK


def _is_told(stage: Stage) -> bool:
    """Whether the story was told to its end; says what went otherwise, unless it was only interrupted."""
    try:
        with ExitStack() as ends:
            ends.callback(_stop_all, stage)
            _play(stage, ends)
    except KeyboardInterrupt:
        stage.interrupts.have_come = True
        return False
    except (NotAsTold, BatonError, WorkerError) as error:
        # A signal to the whole group may have ended a step before it was heeded here.
        if not stage.interrupts.have_come:
            warn(f"This did not happen as told: {error}")
        return False
    return True


def _say_what_is_left(stage: Stage) -> None:
    say("")
    say(f"Everything happened as told. Look around in {stage.folder}:")
    say(f"  the graph     BATON_HOME={stage.folder} baton list")
    say(f"  the commits   git -C {stage.repository} log --oneline --all")
    say(f"  a prompt      {stage.file('prompt', LAST, 1)}.md")


def _play(stage: Stage, ends: ExitStack) -> None:
    cast = ends.enter_context(_set_the_stage(stage))
    held = _two_workers_race(stage, cast)
    _one_is_killed(stage, held["worker-1"])
    _the_other_finishes(stage, cast, held["worker-2"])
    _the_item_is_taken_over(stage, cast, held["worker-1"])
    _the_zombie_is_refused(stage, cast, held["worker-1"])
    _the_killed_worker_comes_back(stage, cast, held["worker-1"])
    _read_everything_back(stage, cast, held)


# --- the scenes ------------------------------------------------------------------------------------------------------


@contextmanager
def _set_the_stage(stage: Stage) -> Iterator[Cast]:
    stage.tell("A repository, a server over an SQLite file, a person, and two agents with tokens of their own")
    _make_repository(stage)
    url = f"sqlite:///{stage.folder / config.DATABASE}"
    stage.start("init", "init", "--db", url, "--name", "Demo", "--email", "demo@localhost", "--json", home=".")
    stage.wait_for_end("init")
    made = msgspec.json.decode(stage.out("init"), type=dict[str, str])
    (stage.folder / "init.out").unlink()  # the folder is left to look around in, and the token is an admin's
    stage.start("server", "serve", "--db", url, "--port", "0", "--json", home=".")
    serving = stage.wait("the server says where it listens", lambda: _serving(stage))
    stage.found(f"the server listens at {serving.url} (process {serving.pid})")
    with Client(serving.url, made["token"]) as person:
        person.put_policy(PROJECT, PolicyRequest(claim_ttl_ms=LEASE_MS))
        tokens = {label: _agent_token(person, label) for label in WORKERS}
        for node, title in TASKS.items():
            person.put_nodes([_task(node, title)])
            person.set_readiness(node, "agent")
        stage.found(f"{len(TASKS)} tasks are in the queue, marked ready for agents by {made['person']}")
        yield Cast(serving.url, person, tokens)


def _two_workers_race(stage: Stage, cast: Cast) -> dict[str, NodeId]:
    stage.tell("Two workers start at the same moment, each in its own process: `baton work --once -- …`")
    for name in WORKERS:
        _start_worker(stage, cast, name, "1")
    first_two = list(TASKS)[:2]
    for node in first_two:
        stage.wait_for_file(f"somebody begins {node}", stage.file("started", node, 1))
    held: dict[str, NodeId] = {}
    for row in cast.person.leases(state="live").leases:
        held[row.lease.by.removeprefix("agent-")] = NodeId(row.lease.node_id)
        stage.found(f"{row.lease.by} holds {row.lease.node_id} at epoch {row.lease.epoch}")
    _require(sorted(held) == sorted(WORKERS), f"each worker should hold one item, but there is {held}")
    _require(set(held.values()) == set(first_two), f"the first two items should be held, but there is {held}")
    return held


def _one_is_killed(stage: Stage, node: NodeId) -> None:
    worker = stage.children["worker-1.1"]
    stage.tell(f"worker-1 and the supervisor of its run are killed with -9 in the middle of {node}; its agent lives on")
    supervisor = _supervisor(stage, "box-worker-1")
    for one in (supervisor, worker.identity):
        os.kill(one.pid, signal.SIGKILL)
    ended = stage.wait("worker-1 is dead", lambda: worker.wait(0))
    _require(ended.signal == "SIGKILL", f"worker-1 ended with {ended}")
    stage.wait("the supervisor is dead", lambda: not is_alive(supervisor) or None)
    stage.found("nobody renews that lease any more, and nobody has to tell the server")


def _supervisor(stage: Stage, home: str) -> Identity:
    """Return the process that keeps the lease of the run that was begun on the box `home`."""
    runners = [run.read().runner for run in Journal(stage.folder / home).unsettled()]
    if len(runners) != 1 or runners[0] is None:
        raise NotAsTold(f"{home} should have one run with a supervisor, but there is {runners}")
    return runners[0]


def _the_other_finishes(stage: Stage, cast: Cast, node: NodeId) -> None:
    stage.tell(f"worker-2's agent goes on with {node}: it commits, and says in the graph what resolves the item")
    stage.cue(node, 1)
    stage.wait_for_end("worker-2.1")
    record = _record(stage, "worker-2.1")
    _require(record.get("terminal_state") == "resolved", f"the run reads {record.get('terminal_state')}")
    stage.found(f"the run reads resolved, because {_resolver(cast, node)} resolves {node} in the graph")


def _the_item_is_taken_over(stage: Stage, cast: Cast, node: NodeId) -> None:
    stage.tell(f"The lease on {node} lapses ({LEASE_MS / 1000:.0f} s here, 45 min by default)")
    stage.wait("the lease has lapsed", lambda: _lapsed(cast, node))
    stage.found(f"{node} is free again; no sweeper ran, and its place in the queue is as before")
    stage.cue(node, 2)
    _start_worker(stage, cast, "worker-2", "2")
    stage.wait_for_end("worker-2.2")
    record = _record(stage, "worker-2.2")
    _require(record.get("node_id") == node, f"worker-2 took {record.get('node_id')} instead")
    _require(record.get("terminal_state") == "resolved", f"the run reads {record.get('terminal_state')}")
    stage.found(f"worker-2 took {node} over at epoch {record.get('epoch')} and resolved it: {_resolver(cast, node)}")


def _the_zombie_is_refused(stage: Stage, cast: Cast, node: NodeId) -> None:
    before = cast.person.node(node)
    stage.tell(f"worker-1's agent wakes up, believes {node} is still its own, and says that it is done")
    stage.cue(node, 1)
    ended = stage.file("code", node, 1)
    code = stage.wait("the zombie has spoken", lambda: (ended.exists() and ended.read_text().strip()) or None)
    _require(code == str(int(Exit.HELD)), f"its write ended with {code}")
    refusal = stage.file("refused", node, 1).read_text().strip().splitlines()
    stage.found(f"refused: {refusal[0] if refusal else 'without a word'}")
    _require(cast.person.node(node).raw == before.raw, f"{node} changed all the same")
    stage.found("nothing changed; the token had ended with the tenure it was minted for")


def _the_killed_worker_comes_back(stage: Stage, cast: Cast, node: NodeId) -> None:
    stage.tell("worker-1 starts again: first it settles what its killed start has left, then it takes the last item")
    stage.cue(LAST, 1)
    _start_worker(stage, cast, "worker-1", "2")
    stage.wait_for_end("worker-1.2")
    record = _record(stage, "worker-1.2")
    left = [line for line in stage.folder.joinpath("worker-1.2.err").read_text().splitlines() if str(node) in line]
    _require(bool(left), f"worker-1 said nothing of {node}, which it had left")
    stage.found(left[-1])
    _require(record.get("node_id") == LAST, f"worker-1 took {record.get('node_id')}")
    _require(record.get("terminal_state") == "reported", f"the run reads {record.get('terminal_state')}")
    report = NodeId(str(record.get("report_node_id")))
    stage.found(f"the last agent printed that it is not finished: reported, filed as {report}")
    _require("two are slow together" in cast.person.node(report).raw, f"{report} does not hold the agent's words")


def _read_everything_back(stage: Stage, cast: Cast, held: dict[str, NodeId]) -> None:
    stage.tell("What the graph says in the end")
    for node in held.values():
        stage.found(f"{node}: resolved by {_resolver(cast, node)}")
    page = cast.person.queue(project=PROJECT)
    _require([item.id for item in page.items] == [LAST], f"the queue holds {[item.id for item in page.items]}")
    stage.found(f"{LAST}: not resolved, back in the queue and carrying its report")
    live = [row.lease.node_id for row in cast.person.leases(state="live").leases]
    _require(LAST not in live, f"{LAST} is still held")
    stage.found("no lease of a finished run is left on an open item")


# --- the props -------------------------------------------------------------------------------------------------------


def _make_repository(stage: Stage) -> None:
    stage.repository.mkdir()
    checkout = git.Checkout(stage.repository, environment.for_git(os.environ))
    git.init(checkout, branch="main")
    (stage.repository / "README").write_text("The demo's repository.\n")
    git.commit_all(checkout, "Begin")
    script = stage.folder / "agent.sh"
    script.write_text(files("batonpass.cli").joinpath("demo_agent.sh").read_text())
    script.chmod(0o755)


def _start_worker(stage: Stage, cast: Cast, name: str, turn: str) -> None:
    arguments = ("work", "--once", "--project", PROJECT, "--json", "--", str(stage.folder / "agent.sh"))
    stage.start(f"{name}.{turn}", *arguments, home=f"box-{name}", token=cast.tokens[name], server=cast.server)


def _agent_token(person: Client, label: str) -> str:
    agent = person.add_agent(label=label)
    return person.mint_standing_token(AgentId(HolderId(agent.id)), label="demo", expires="1d").token


def _task(node: NodeId, title: str) -> dict[str, object]:
    today = datetime.now(UTC).date().isoformat()
    return {"id": node, "type": "task", "title": title, "summary": title, "project": PROJECT, "date": today}


def _serving(stage: Stage) -> Serving | None:
    try:
        return msgspec.json.decode(stage.out("server"), type=Serving)
    except msgspec.DecodeError:
        return None


def _lapsed(cast: Cast, node: NodeId) -> bool | None:
    lapsed = cast.person.leases(state="lapsed").leases
    return any(row.lease.node_id == node for row in lapsed) or None


class _Printed(msgspec.Struct):
    """What of a worker's JSON the demo reads."""

    run: dict[str, object] | None


def _record(stage: Stage, name: str) -> dict[str, object]:
    """Return the record of the run a worker has printed."""
    run = msgspec.json.decode(stage.out(name), type=_Printed).run
    if run is None:
        raise NotAsTold(f"{name} found nothing to do; its words are in {name}.err")
    return run


def _resolver(cast: Cast, node: NodeId) -> str:
    seen: NodeReply = cast.person.node(node)
    _require(seen.resolution is not None, f"{node} does not read resolved")
    assert seen.resolution is not None
    return seen.resolution.by


def _require(holds: bool, otherwise: str) -> None:  # noqa: FBT001  # reads as a sentence
    if not holds:
        raise NotAsTold(otherwise)


def _stop_all(stage: Stage) -> None:
    """Stop the server, the workers and every agent, the strays among them."""
    stage.interrupts.are_late = True
    for child in stage.children.values():
        child.stop(GRACES)


def _new_folder(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="baton-demo-"))
    folder = folder.absolute()
    folder.mkdir(mode=0o700, parents=True)
    return folder
