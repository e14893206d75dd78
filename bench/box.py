"""A box on which runs are made: a new server, a repository, agents, and workers started as a person would."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import psutil

from batonpass.client.client import Client
from batonpass.core.identity import agent_id_for
from batonpass.core.ids import NodeId
from batonpass.core.runs import State
from batonpass.testing.repos import Repo, make_repo, person_environment
from batonpass.worker.journal import Journal, RunFolder
from bench.served import BATON, Server, serving, sqlite_url

FILES: Final = 500
"""How many files the repository has: a `git worktree add` writes them all."""
WAIT_S_MAX: Final = 60.0
LOOK_S: Final = 0.02
TOLD: Final = 2
"""How often a worker is told to end before it stops its runs."""
TOLD_S: Final = 0.2

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Box:
    """Where runs are made. `environ` is a person's, with nothing of a server in it."""

    folder: Path
    server: Server
    admin: Client
    admin_token: str
    repo: Repo
    environ: dict[str, str]

    @property
    def home(self) -> Path:
        """Return the home of its workers."""
        return self.folder / "home"

    def token(self, name: str) -> str:
        """Make an agent, and return a token of it."""
        agent = agent_id_for(name)
        self.admin.add_agent(label=name, id_=agent)
        return self.admin.mint_standing_token(agent).token

    def put_item(self, name: str, *, project: str | None = None) -> NodeId:
        """File a task that is not ready yet, in a project of its own unless one is named: nobody else takes it."""
        node = NodeId(f"task-{name}")
        document = {"id": node, "type": "task", "title": name, "summary": "To be run", "project": project or name}
        (result,) = self.admin.put_nodes([document]).results
        assert result.ok, result
        return node

    @contextmanager
    def working(self, name: str, args: Sequence[str], **more: str) -> Iterator[psutil.Process]:
        """Have `baton work` do one item for the length of the block, which sees to it that the run's child ends."""
        self.admin.set_readiness(self.put_item(name), "agent")
        with self._worker(name, ("--once", *args), more) as worker:
            yield psutil.Process(worker.pid)
            code = worker.wait(WAIT_S_MAX)
            assert code == 0, (self.folder / f"{name}.log").read_text()

    @contextmanager
    def waiting(self, project: str, slots: int, command: Sequence[str]) -> Iterator[psutil.Process]:
        """Have `baton work` run `command` for what becomes ready in a project, until the end of the block."""
        with self._worker(project, ("--concurrency", str(slots), "--", *command), {}) as worker:
            yield psutil.Process(worker.pid)
            worker.terminate()
            worker.wait(WAIT_S_MAX)

    @contextmanager
    def _worker(self, project: str, args: Sequence[str], more: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
        environ = {
            **self.environ,
            "BATON_HOME": str(self.home),
            "BATON_SERVER": self.server.url,
            "BATON_TOKEN": self.token(project),
            **more,
        }
        argv = [str(BATON), "work", "--project", project, *args]
        with (self.folder / f"{project}.log").open("wb") as out:
            worker = subprocess.Popen(argv, cwd=self.repo.folder, env=environ, stdout=out, stderr=out)
        try:
            yield worker
        finally:
            for _ in range(TOLD):
                if worker.poll() is None:
                    worker.terminate()
                    time.sleep(TOLD_S)
            worker.wait(WAIT_S_MAX)

    def running(self, project: str) -> RunFolder:
        """Return the run on a project's item once its child is at work."""

        def found() -> RunFolder | None:
            for run, record in Journal(self.home).records():
                if record.project == project and record.state is State.RUNNING:
                    return run
            return None

        return until(found)


@contextmanager
def box(folder: Path) -> Iterator[Box]:
    """Set up a box in a new `folder` for the length of the block."""
    folder.mkdir()
    url = sqlite_url(folder / "box.db")
    argv = [str(BATON), "init", "--db", url, "--name", "Bench", "--email", "bench@example.org", "--json"]
    token = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)["token"]
    # Whoever installs has compiled modules; what is measured first compiles them.
    person = {**person_environment(folder / "person"), "PYTHONDONTWRITEBYTECODE": ""}
    repo = make_repo(folder / "repository", person)
    for number in range(FILES):
        path = repo.folder / f"package-{number // 25}" / f"module_{number}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"def answer_{number}() -> int:\n    return {number}\n" * 20)
    repo.git("add", ".")
    repo.git("commit", "--quiet", "-m", "Write the modules")
    with serving(url) as server, Client(server.url, token) as admin:
        yield Box(folder, server, admin, token, repo, person)
    shutil.rmtree(folder)


def until(found: Callable[[], T | None]) -> T:
    """Return what `found` returns once that is something, having looked every now and then, and not for ever."""
    deadline_s = time.monotonic() + WAIT_S_MAX
    while (value := found()) is None:
        assert time.monotonic() < deadline_s, "it did not come"
        time.sleep(LOOK_S)
    return value
