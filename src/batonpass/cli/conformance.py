"""`baton conformance …`: grade a worker or a server by what the published protocol asks of it, line by line.

The kit itself (`batonpass.conformance`) is a stranger to the rest. This module
lends it what it must not know: a server of this installation to grade against,
and the way to start a process and to be rid of all that it leaves behind.
"""

from __future__ import annotations

import itertools
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import App, Parameter

from batonpass.cli.exits import Exit, UsageError
from batonpass.cli.options import Duration, Flag
from batonpass.cli.render import Column, clean, print_json, print_table, say, warn
from batonpass.client import config
from batonpass.conformance.grades import Grade, Graded, passes
from batonpass.conformance.lines import LINES
from batonpass.conformance.servers import Tried, grade_server, requirements
from batonpass.conformance.workers import Job, grade_worker
from batonpass.conformance.world import Server
from batonpass.core.clock import MICROS_PER_S, micros
from batonpass.core.ids import Instant
from batonpass.worker import git, proc
from batonpass.worker.environment import for_git
from batonpass.worker.errors import NotStarted

LIMIT: Final = timedelta(seconds=60)
"""How long a worker may take in one scenario."""
OUTPUT_CHARS_MAX: Final = 400
COLUMNS: Final = (Column("id"), Column("grade"), Column("why", cut=True))
Only = Annotated[tuple[str, ...] | None, Parameter(negative=(), consume_multiple=False)]

app = App(
    name="conformance", help="Grade a worker or a server by what the published protocol asks of it.", version_flags=[]
)


@app.command
def worker(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    only: Only = None,
    limit: Duration = LIMIT,
    list_: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
    json: Flag = False,
) -> int:
    """Start COMMAND once for each scenario, on a server of the kit's own, and grade what it does, line by line.

    COMMAND is to do one item of the queue and end. It finds the server in
    BATON_SERVER, its token in BATON_TOKEN, the project in BATON_PROJECT, and in
    BATON_CONFORMANCE_TASK the program that it must have do the work, as it
    would an agent program. In the arguments of COMMAND, {task}, {project} and
    {server} stand for these.

    Exit code 0 only if every line passes; a line of which nothing was seen does
    not.

    Args:
        command: the worker and its arguments, after --.
        only: grade this line alone; may be given several times.
        limit: how long the worker may take in one scenario; then it is stopped.
        list_: list the lines, and grade nothing.
        json: print one JSON document, with the requests that show what is wrong.

    """
    wanted = _checked(only, {line.id for line in LINES}, "line")
    lines = [line for line in LINES if not wanted or line.id in wanted]
    if list_:
        return _list([(line.id, line.text, line.source) for line in lines], json=json)
    if not command:
        raise UsageError("name the worker after --, such as: baton conformance worker -- my-worker --once")
    with _own_server() as server:
        graded = grade_worker(
            server,
            _Starter(command, limit.total_seconds()),
            lines=lines,
            say=lambda scenario: warn(f"{scenario.id}: {scenario.words}"),
        )
    return _report(graded, json=json)


@app.command
def server(
    *,
    url: str | None = None,
    only: Only = None,
    list_: Annotated[bool, Parameter(name="--list", negative=(), show_default=False)] = False,
    json: Flag = False,
) -> int:
    """Try on a server what the published protocol asks of one, and grade it requirement by requirement.

    Without --url it is a server of this installation, over a database that is
    thrown away, whose clock is moved. A server elsewhere keeps what was made
    there: people, agents, nodes and classes whose names all carry one number,
    which is said at the end. Let it be a server that is there to be tried. Its
    clock can't be moved, so what takes time to pass is not seen.

    Exit code 0 only if every requirement passes.

    Args:
        url: the address of the server; BATON_TOKEN, or the token saved for it, is an admin's there.
        only: grade this requirement alone; may be given several times.
        list_: list the requirements, and grade nothing.
        json: print one JSON document, with the requests that show what is wrong.

    """
    wanted = _checked(only, {each.id for each in requirements()}, "requirement")
    if list_:
        listed = [each for each in requirements() if not wanted or each.id in wanted]
        return _list([(each.id, each.text, each.source) for each in listed], json=json)
    if url is None:
        with _own_server(moves=True) as own:
            return _report(grade_server(own, only=wanted, numbers=itertools.count(1), say=_tell), json=json)
    found = config.load(os.environ, server=url)
    if found.token is None:
        raise UsageError("there is no token for that server: set BATON_TOKEN to an admin's, or baton token save")
    first = int(time.time())
    graded = grade_server(Server(url, found.token.text), only=wanted, numbers=itertools.count(first), say=_tell)
    warn(f"left on {url}: people, agents, nodes and classes whose names carry a number from {first} on")
    return _report(graded, json=json)


# --- what the kit is lent ---------------------------------------------------------------------------------------------


class _MovedClock:
    """Stands still until it is moved: what a server says of time can then be told to the millisecond."""

    def __init__(self) -> None:
        self._now = Instant(int(time.time()) * MICROS_PER_S)

    def moment(self) -> Instant:
        """Return the moment it is."""
        return self._now

    def passes(self, span: timedelta) -> None:
        """Let time pass."""
        self._now = Instant(self._now + micros(span))


@contextmanager
def _own_server(*, moves: bool = False) -> Iterator[Server]:
    """Serve a database that is thrown away; its clock can be moved if `moves`."""
    from batonpass.cli.local import Person, serve_throwaway

    clock = _MovedClock() if moves else None
    with tempfile.TemporaryDirectory(prefix="baton-conformance-") as folder:
        admin = Person("Ada Admin", "ada@example.org")
        with serve_throwaway(Path(folder), admin, clock=clock) as (address, token):
            yield Server(address, token.token, clock.passes if clock is not None else None)


@dataclass(frozen=True)
class _Starter:
    """Starts the worker that is graded, in a checkout of its own, and stops whatever is left of it."""

    command: Sequence[str]
    limit_s: float

    def __call__(self, job: Job) -> str:
        """Run the worker to its end, or for as long as it may take, and say how it ended."""
        named = {"{task}": "BATON_CONFORMANCE_TASK", "{project}": "BATON_PROJECT", "{server}": "BATON_SERVER"}
        argv = list(self.command)
        for word, variable in named.items():
            argv = [argument.replace(word, job.environ[variable]) for argument in argv]
        out = job.folder / "output"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("BATON_")}
        try:
            child = proc.start(
                argv,
                mark=f"conformance-{uuid.uuid4()}",
                cwd=_checkout(job.folder / "checkout"),
                environment={**inherited, **job.environ},
                stdin=None,
                stdout=out,
                stderr=out,
            )
        except NotStarted as error:
            raise UsageError(str(error)) from error
        try:
            ended = child.wait(self.limit_s)
        finally:
            child.stop()
        how = f"was stopped after {self.limit_s:g} s" if ended is None else f"ended with {ended.signal or ended.code}"
        said = out.read_text(errors="replace").strip()[-OUTPUT_CHARS_MAX:]
        return f"{how}, and said: {said}" if said else how


def _checkout(folder: Path) -> Path:
    """Make a repository with one commit on main, where a worker that needs one may stand."""
    folder.mkdir()
    checkout = git.Checkout(folder, for_git(os.environ))
    git.init(checkout, branch="main")
    (folder / "README.md").write_text("A checkout for a worker that is graded.\n")
    git.commit_all(checkout, "Begin")
    return folder


# --- what is printed --------------------------------------------------------------------------------------------------


def _checked(only: Sequence[str] | None, known: set[str], what: str) -> Sequence[str]:
    for name in only or ():
        if name not in known:
            raise UsageError(f"--only {name}: there is no such {what}; --list shows them")
    return only or ()


def _list(rows: list[tuple[str, str, str]], *, json: bool) -> int:
    if json:
        print_json(msgspec.json.encode([{"id": id_, "text": text, "source": source} for id_, text, source in rows]))
    else:
        print_table((Column("id"), Column("asked for", cut=True), Column("by")), rows, empty="nothing")
    return Exit.OK


def _tell(tried: Tried) -> None:
    if tried.grade is not Grade.PASS:
        warn(f"{tried.grade.value}: {clean(tried.case.id)}")


def _report(graded: Sequence[Graded], *, json: bool) -> int:
    good = passes(graded)
    if json:
        document = {"passes": good, "lines": [each.told() for each in graded]}
        print_json(msgspec.json.encode(document))
    else:
        rows = [(each.id, each.grade.value, clean(each.why if each.grade is not Grade.PASS else "")) for each in graded]
        print_table(COLUMNS, rows, empty="nothing was graded")
        for each in (one for one in graded if one.grade is Grade.FAIL):
            say("")
            say(f"{each.id}: {clean(each.text)} ({clean(each.source)})")
            for exchange in each.evidence:
                say(f"  {clean(msgspec.json.encode(exchange).decode())}")
        counts = [sum(one.grade is grade for one in graded) for grade in (Grade.PASS, Grade.FAIL, Grade.NOT_SEEN)]
        say(f"{counts[0]} pass, {counts[1]} fail, {counts[2]} not seen")
    sys.stdout.flush()
    return Exit.OK if good else Exit.FAILED
