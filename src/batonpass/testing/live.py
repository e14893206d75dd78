"""A real agent program at work under its adapter, with a scripted model: one try, and what was seen of it.

    seen = live.drive("codex", tmp_path, Script((Run(live.WORK), Say("Done."))))

The program is installed, set up in a home of its own and started as a run's
child is: by its adapter's word, in a repository of its own, marked, its
output in a file. Whatever happens, nothing of it is left running.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from batonpass.core.ids import AgentId, HolderId
from batonpass.testing import agents
from batonpass.testing.modelserver import ModelServer, Question, Script
from batonpass.testing.repos import make_repo, person_environment
from batonpass.worker import environment, proc
from batonpass.worker.crew import MARK, Exit, Graces
from batonpass.worker.harness import registry
from batonpass.worker.harness.base import Command, Failure, Heard, Wish
from batonpass.worker.harness.replay import replayed

AGENT: Final = AgentId(HolderId("agent-live"))
LOOK_S: Final = 0.05
PROMPT: Final = "Write the file made.txt and commit it.\n"
MESSAGE: Final = "Make what was asked for"
WORK: Final = f"printf 'made\\n' > made.txt && git add made.txt && git commit --quiet -m '{MESSAGE}'"
"""What a model has its agent do on the good path: write a file, and commit it."""
STUCK: Final = "touch stuck && sleep 600"
"""What it has its agent do where the run is to be stopped in the middle of a tool call."""
GRACES: Final = Graces(interrupt_s=3.0, terminate_s=2.0, kill_s=5.0)

Stop = Callable[[Path, ModelServer], bool]
"""Says, of the working directory and the model, whether a try is to be stopped now."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of one try.

    `failure` is the adapter's verdict. `exit` is None where the program had to
    be stopped and its end was not seen, `was_stopped` that it was. `commits`
    are the subjects and authors of what stands above the first commit,
    `leftover` how many processes of the try there still are.
    """

    harness: str
    version: str
    heard: Heard
    failure: Failure | None
    exit: Exit | None
    was_stopped: bool
    commits: tuple[str, ...]
    leftover: int
    questions: tuple[Question, ...]
    stderr: str
    seconds: float


def drive(
    name: str,
    folder: Path,
    script: Script,
    *,
    seconds_max: float,
    stop: Stop | None = None,
) -> Seen:
    """Return what harness `name` does with `script`, in `folder`, which must be empty.

    It is stopped as a supervisor would stop it once `stop`, which is given the
    working directory and the model, says so, or after `seconds_max`.
    `NotInstalled` when there is no such program.
    """
    program = agents.install(name)
    with ModelServer(script) as model:
        # The home has a person's git identity, which no commit of an agent may carry.
        person_environment(folder / "home")
        environ = agents.person(name, folder / "home", model.url)
        found = registry.resolve(name, registry.Box(environ=environ, binaries={name: str(program)}))
        repo = make_repo(folder / "repo", environ)
        base = repo.head()
        private = folder / "run"
        private.mkdir(mode=0o700)
        wish = Wish(
            program=found.program,
            cwd=repo.folder,
            folder=private,
            session=str(uuid.uuid4()),
            model=agents.MODELS[name],
        )
        command = found.harness.command(wish)
        begun = time.monotonic()
        child = _start(command, wish, environ)
        ended, was_stopped = _watch(
            child, lambda: stop is not None and stop(repo.folder, model), deadline=begun + seconds_max
        )
        seconds = time.monotonic() - begun
        child.stop(GRACES)
        heard = replayed(private / "out.log", found.harness)
        stderr = (private / "err.log").read_bytes()
        code, signal = (None, None) if ended is None else (ended.code, ended.signal)
        return Seen(
            harness=name,
            version=agents.PACKAGES[name].version,
            heard=heard,
            failure=found.harness.judge(heard, code=code, signal=signal, stderr=stderr),
            exit=ended,
            was_stopped=was_stopped,
            commits=tuple(repo.git("log", "--format=%s, by %an", f"{base}..HEAD").splitlines()),
            leftover=_left(wish.session),
            questions=tuple(model.questions),
            stderr=stderr.decode(errors="replace"),
            seconds=seconds,
        )


def is_stuck(folder: Path, _model: ModelServer) -> bool:
    """Whether the agent is in the middle of `STUCK`; a `Stop`."""
    return (folder / "stuck").exists()


def _start(command: Command, wish: Wish, environ: Mapping[str, str]) -> proc.Child:
    for path, content in command.files.items():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(content)
        path.chmod(0o600)
    told: dict[str, str | None] = {**environment.for_child(environ, agent=AGENT, run={}), **command.environment}
    return proc.start(
        command.argv,
        mark=wish.session,
        cwd=wish.cwd,
        environment={name: value for name, value in told.items() if value is not None},
        stdin=PROMPT,
        stdout=wish.folder / "out.log",
        stderr=wish.folder / "err.log",
    )


def _watch(child: proc.Child, wants_stop: Callable[[], bool], *, deadline: float) -> tuple[Exit | None, bool]:
    """Return how the child ended, or, once it is to be stopped, how it ended of that, and that it was."""
    while time.monotonic() < deadline and not wants_stop():
        if (ended := child.wait(LOOK_S)) is not None:
            return ended, False
    child.crew.stop(GRACES)
    return child.wait(GRACES.kill_s), True


def _left(mark: str) -> int:
    """Return how many processes carry the mark of a try; looked for by itself, since what stops them is tried too."""
    count = 0
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            count += process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE
    return count
