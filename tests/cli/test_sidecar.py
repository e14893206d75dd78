"""`baton sidecar`: real processes over real servers, and children in shell and Python that do what children do.

Nothing waits for a guessed time. Children and tests meet at named pipes; the
servers' clock is the tests' to move, so a lease lapses when a test says so.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from batonpass.cli.exits import Exit
from batonpass.cli.sidecar import exit_of_ending
from batonpass.client.client import Client
from batonpass.core.errors import AlreadyClaimed
from batonpass.core.records import FieldName, parse_record_path
from batonpass.testing.clock import SharedClock
from batonpass.testing.commands import BATON, Baton
from batonpass.testing.databases import PostgresCluster
from batonpass.testing.points import VARIABLE, environment
from batonpass.testing.processes import ServerProcess, server_process
from batonpass.worker import sidecar as running
from batonpass.worker.holding import Wanted
from batonpass.worker.printed import LINE_BYTES_MAX
from batonpass.worker.sidecar import Errand, World

WAIT_S_MAX: Final = 60
"""For a process that is about to end by itself."""
ENDED_TOKEN: Final = {"UNAUTHENTICATED", "STALE_PREMISE"}
"""How a write is refused under a token whose tenure is over."""
INCIDENTS: Final = {
    "name": "incidents",
    "fields": {
        "status": {"type": "register"},
        "secret": {"type": "register"},
        "plan": {"type": "register"},
        "steps": {"type": "append", "cap": 100},
        "actions": {"type": "append", "cap": 2000},
        "remediation": {"type": "task", "lease": "300s"},
    },
    "roles": {
        "team": {
            "identities": ["agent:*", "person:*", "apikey:*"],
            "read": ["*"],
            "write": ["status", "plan", "steps", "actions"],
            "claim": ["remediation"],
        }
    },
}


@dataclass(slots=True)
class Site:
    """A server over a database with the crew in it, and the clock that both stand by."""

    tokens: Mapping[str, str]
    clock: SharedClock
    server: ServerProcess
    ids: Iterator[int] = field(default_factory=count)

    def ask(self, who: str, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 — a reply as JSON
        """Send one request under a token of `who`, or under a token itself; return the reply, whatever it says."""
        token = self.tokens.get(who, who)
        headers = {"Authorization": f"Bearer {token}"}
        sent = httpx.request(method, f"{self.server.url}{path}", headers=headers, json=body, timeout=WAIT_S_MAX)
        return sent.json()

    def lapse(self) -> None:
        """Let every lease lapse that there is."""
        self.clock.advance(timedelta(seconds=301))


@dataclass(frozen=True, slots=True)
class Case:
    """One record of a site's, for one test."""

    site: Site
    folder: Path
    record: str
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def ask(self, who: str, method: str, rest: str = "", body: object = None) -> Any:  # noqa: ANN401 — see above
        return self.site.ask(who, method, f"/v1/records/{self.record}{rest}", body)

    def claim(self, who: str, **body: object) -> Any:  # noqa: ANN401 — see above
        return self.ask(who, "PUT", "/fields/remediation/claim", body)

    def value(self, name: str) -> Any:  # noqa: ANN401 — a value of any shape
        return self.fields().get(name, {}).get("value")

    def fields(self) -> Any:  # noqa: ANN401 — see above
        return self.ask("ada", "GET")["fields"]

    def task(self) -> Any:  # noqa: ANN401 — see above
        return self.fields()["remediation"]

    def pipe(self, name: str) -> Path:
        """Make a named pipe, at which a child and the test meet."""
        path = self.folder / name
        os.mkfifo(path)
        return path

    def typed(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        """Return how a sidecar for this record's task is typed."""
        named = ["--record", self.record, "--field", "remediation"]
        return [str(BATON), "sidecar", *named, *options, "--", *command]

    def environ(self, who: str) -> dict[str, str]:
        """Return the environment of a sidecar of `who`."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "TMPDIR": str(self.folder),
            "BATON_HOME": str(self.folder / "home"),
            "BATON_SERVER": self.site.server.url,
            "BATON_TOKEN": self.site.tokens[who],
        }

    def sidecar(self, who: str, command: list[str], *options: str, **environ: str) -> subprocess.Popen[str]:
        """Start a sidecar of `who` for this record's task."""
        started = subprocess.Popen(
            self.typed(*command, options=options),
            env={**self.environ(who), **environ},
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="backslashreplace",
        )
        self.started.append(started)
        return started

    def run(self, who: str, command: list[str], *options: str, **environ: str) -> Ended:
        """Run a sidecar to its end."""
        return ended(self.sidecar(who, command, *options, **environ))

    def hold(
        self, who: str, command: list[str], *, checkpoint: str | None = None, release_on_failure: bool = False
    ) -> Ended:
        """Hold the task around `command` in this process, to its end: for all that a process adds nothing to.

        `who` may be a token itself. `err` is what the command wrote to standard error and what was passed on.
        """
        wanted = Wanted(parse_record_path(self.record), FieldName("remediation"))
        server, path = self.site.server.url, self.folder / "stderr"
        errand = Errand(
            wanted,
            tuple(command),
            self.folder,
            server,
            checkpoint=None if checkpoint is None else FieldName(checkpoint),
            release_on_failure=release_on_failure,
        )
        inherited = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        with Client(server, self.site.tokens.get(who, who)) as client, path.open("wb", buffering=0) as stderr:

            def pass_on(line: bytes) -> None:
                stderr.write(line)

            ending = running.run(client, errand, World(inherited, stderr, pass_on, tell=lambda _: None))
        return Ended(exit_of_ending(ending), "", path.read_text(errors="backslashreplace"))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a sidecar ended, and what it printed."""

    code: int
    out: str
    err: str


def ended(process: subprocess.Popen[str]) -> Ended:
    out, err = process.communicate(timeout=WAIT_S_MAX)
    return Ended(process.returncode, out, err)


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def python(script: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(script)]


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    except FileNotFoundError:
        return False


@contextmanager
def served(url: str, tokens: Mapping[str, str], folder: Path) -> Iterator[Site]:
    """Serve a database with the crew in it, under a clock of the tests', with the class applied."""
    clock = SharedClock(folder / "clock")
    with server_process(url, clock=clock) as server:
        site = Site(tokens, clock, server)
        assert site.ask("ada", "PUT", "/v1/classes/incidents", INCIDENTS)["version"] == 1
        yield site


@pytest.fixture(scope="module")
def sqlite_site(
    sqlite_crew: tuple[Path, Mapping[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    template, tokens = sqlite_crew
    folder = tmp_path_factory.mktemp("site")
    with served(f"sqlite:///{shutil.copy(template, folder / 'baton.db')}", tokens, folder) as site:
        yield site


@pytest.fixture(scope="module")
def postgres_site(
    postgres_crew: tuple[str, Mapping[str, str]],
    postgres: PostgresCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    template, tokens = postgres_crew
    name = postgres.create_database(template=template)
    with served(postgres.url(name), tokens, tmp_path_factory.mktemp("site")) as site:
        yield site
    postgres.drop_database(name)


@pytest.fixture
def case(sqlite_site: Site, tmp_path: Path) -> Iterator[Case]:
    """A record of its own, which is not there yet."""
    with a_case(sqlite_site, tmp_path) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    """The same, on each kind of database."""
    with a_case(request.getfixturevalue(f"{request.param}_site"), tmp_path) as made:
        yield made


@contextmanager
def a_case(site: Site, folder: Path) -> Iterator[Case]:
    """Give a case of `site`; whatever a failed test left running is ended with it."""
    case = Case(site, folder, f"incidents/inc-{next(site.ids)}")
    try:
        yield case
    finally:
        for process in case.started:
            process.kill()
            process.wait(WAIT_S_MAX)
            for stream in (process.stdout, process.stderr):
                assert stream is not None
                stream.close()


# What the child is given


def test_the_child_is_given_the_record_and_what_was_left_in_it(case: Case) -> None:
    case.ask("a1", "PUT", "/fields/status", {"value": "open"})
    case.ask("a1", "PUT", "/fields/plan", {"value": {"step": 2}})

    done = case.hold("a1", shell("cat > given.json"), checkpoint="plan")

    assert done.code == Exit.OK, done
    text = (case.folder / "given.json").read_text()
    given = json.loads(text)
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert given["fields"]["status"]["value"] == "open"
    assert given["fields"]["remediation"]["owner"] == "agent:agent-a1"
    assert (given["checkpoint_field"], given["checkpoint"]) == ("plan", {"step": 2})
    assert {key: given[key] for key in ("record", "field", "epoch", "owner", "took_over_from", "lease_seconds")} == {
        "record": case.record,
        "field": "remediation",
        "epoch": 1,
        "owner": "agent:agent-a1",
        "took_over_from": None,
        "lease_seconds": 300.0,
    }


def test_the_childs_environment_is_built_and_holds_no_secret_of_ours(case: Case) -> None:
    done = case.run(
        "a1", shell("env > environ; ls -A $BATON_HOME >> files; pwd > folder"), BATON_NODE="task-1", MODEL_KEY="kept"
    )

    assert done.code == Exit.OK, done
    environ = dict(line.split("=", 1) for line in (case.folder / "environ").read_text().splitlines())
    ours = {name: value for name, value in environ.items() if name.startswith("BATON_")}
    token = ours.pop("BATON_TOKEN")
    assert token != case.site.tokens["a1"]
    assert set(ours) == {
        "BATON_RECORD",
        "BATON_FIELD",
        "BATON_EPOCH",
        "BATON_SERVER",
        "BATON_HOME",
        "BATON_RUN_MARK",
    }
    assert (ours["BATON_RECORD"], ours["BATON_FIELD"], ours["BATON_EPOCH"]) == (case.record, "remediation", "1")
    assert ours["BATON_SERVER"] == case.site.server.url
    assert environ["MODEL_KEY"] == "kept"
    assert (case.folder / "files").read_text() == ""
    assert not Path(ours["BATON_HOME"]).exists()
    assert (case.folder / "folder").read_text().strip() == str(case.folder)
    refused = case.ask(token, "PUT", "/fields/status", {"value": 1})
    assert refused["error"] in ENDED_TOKEN, "its token ended with the tenure"


def test_a_child_may_use_baton_itself_under_its_own_token(case: Case) -> None:
    done = case.run(
        "a1",
        shell(f'{BATON} record append "$BATON_RECORD" actions 1 --fence-epoch "$BATON_FIELD@$BATON_EPOCH" >&2'),
    )

    assert done.code == Exit.OK, done
    assert case.value("actions") == [1]


def test_people_and_programs_hold_tasks_too_and_their_children_have_no_token(case: Case) -> None:
    key = case.site.ask("ada", "POST", "/v1/admin/keys", {"name": "mill"})["token"]

    person = case.hold("ann", shell('echo "${BATON_TOKEN-none}"'))
    program = case.hold(key, shell('echo "${BATON_TOKEN-none}"; exit 7'))

    assert (person.code, program.code) == (Exit.OK, 7), (person, program)
    assert "none" in person.err.splitlines()
    assert "none" in program.err.splitlines()
    assert case.task()["owner"] == "apikey:mill"


# What the child prints


def test_what_the_child_prints_is_written_under_the_fence(either: Case) -> None:
    script = r"""
        echo '{"put": {"field": "status", "value": "mitigated"}}'
        echo '{"append": {"field": "actions", "value": {"did": "restart"}}}'
        echo '{"checkpoint": {"step": 1}}'
        printf '{"writes": [{"append": {"field": "actions", "value": 2}}, {"checkpoint": {"step": 2}}]}'
    """

    done = either.run("a1", shell(script), "--checkpoint", "plan", "--json")

    assert done.code == Exit.OK, done
    assert json.loads(done.out) == {
        "record": either.record,
        "field": "remediation",
        "epoch": 1,
        "ended": "ended",
        "exit_code": 0,
        "signal": None,
        "written": 4,
        "refused": 0,
        "unwritten": 0,
        "released": True,
        "why": None,
    }
    fields = either.fields()
    assert fields["status"]["value"] == "mitigated"
    assert fields["status"]["author"] == "agent:agent-a1"
    assert fields["actions"]["value"] == [{"did": "restart"}, 2]
    assert fields["plan"]["value"] == {"step": 2}
    assert "owner" not in fields["remediation"]


def test_checkpoints_may_go_to_a_list_and_the_last_comes_back(case: Case) -> None:
    case.hold("a1", shell("""echo '{"checkpoint": 1}'; echo '{"checkpoint": {"b": 2}}'"""), checkpoint="steps")

    case.hold("a2", shell("cat > given.json"), checkpoint="steps")

    assert case.value("steps") == [1, {"b": 2}]
    assert json.loads((case.folder / "given.json").read_text())["checkpoint"] == {"b": 2}


def test_bad_lines_are_named_and_lose_no_other(case: Case) -> None:
    script = rf"""
        import os, sys
        out = sys.stdout.buffer
        out.write(b"plain words\n[1, 2]\n\xff\xfe raw\r bytes\n")
        out.write(b'{{"append": {{"field": "actions", "value": 1}}}}\n')
        out.write(b"{{garbage\n")
        out.write(b'{{"put": {{"field": "secret", "value": 1}}}}\n')
        out.write(b'{{"put": {{"field": "colour", "value": 1}}}}\n')
        out.write(b'{{"checkpoint": 1}}\n')
        out.write(b'{{"append": {{"field": "actions", "value": "' + b"x" * {2 * LINE_BYTES_MAX} + b'"}}}}\n')
        out.write(b'{{"append": {{"field": "actions", "value": "\xff"}}}}\n')
        out.write(b"y" * {2 * LINE_BYTES_MAX} + b"\n")
        out.write(b'{{"append": {{"field": "actions", "value": 2}}}}')
    """

    done = case.run("a1", python(script), "--json")

    assert done.code == Exit.FAILED, done
    ending = json.loads(done.out)
    assert (ending["exit_code"], ending["written"], ending["refused"], ending["released"]) == (0, 2, 7, True)
    assert case.value("actions") == [1, 2]
    passed_on = done.err.splitlines()
    assert passed_on[1:3] == ["plain words", "[1, 2]"]
    assert r"\xff\xfe raw" in passed_on[3]
    named = [line for line in passed_on if line.startswith("line ")]
    assert [line.split(" is not written: ")[0] for line in named] == [f"line {n}" for n in (5, 6, 7, 8, 9, 10, 11)]
    for line, words in zip(
        named,
        ["malformed", "secret", "colour", "--checkpoint FIELD", "longer than", "not UTF-8", "longer than"],
        strict=True,
    ):
        assert words in line


def test_a_value_as_large_as_a_request_may_be_is_written_whole(case: Case) -> None:
    script = """
        import json
        print(json.dumps({"put": {"field": "status", "value": "x" * 200_000}}))
    """

    done = case.hold("a1", python(script))

    assert done.code == Exit.OK, done
    assert case.value("status") == "x" * 200_000


@pytest.mark.parametrize(
    "script",
    [
        'exec <&-; echo \'{"put": {"field": "status", "value": 1}}\'',
        'echo \'{"put": {"field": "status", "value": 1}}\'; exec >&-',
    ],
    ids=["closes its input", "closes its output"],
)
def test_a_child_may_close_what_it_likes(case: Case, script: str) -> None:
    case.ask("a1", "PUT", "/fields/plan", {"value": "x" * 200_000})

    done = case.hold("a1", shell(script))

    assert done.code == Exit.OK, done
    assert case.value("status") == 1


# How it ends


@pytest.mark.parametrize(
    "script, release_on_failure, code",
    [
        ("exit 7", False, 7),
        ("exit 7", True, 7),
        ("kill -9 $$", False, 128 + 9),
        ("echo '{bad'; exit 7", False, 7),
    ],
)
def test_the_childs_own_end_is_the_sidecars(
    case: Case,
    script: str,
    release_on_failure: bool,  # noqa: FBT001 — a table
    code: int,
) -> None:
    done = case.hold("a1", shell(script), release_on_failure=release_on_failure)

    assert done.code == code, done
    assert ("owner" not in case.task()) is release_on_failure


def test_a_task_that_is_left_is_resumed_by_its_agent_and_taken_over_by_others_later(either: Case) -> None:
    first = either.hold("a1", shell("""echo '{"checkpoint": {"step": 1}}'; exit 7"""), checkpoint="plan")

    resumed = either.hold("a1", shell("""echo '{"checkpoint": {"step": 2}}'; exit 7"""), checkpoint="plan")
    with pytest.raises(AlreadyClaimed):
        either.hold("b1", shell("cat > given.json"), checkpoint="plan")
    either.site.lapse()
    next_one = either.hold("b1", shell("cat > given.json"), checkpoint="plan")

    assert (first.code, resumed.code, next_one.code) == (7, 7, Exit.OK)
    given = json.loads((either.folder / "given.json").read_text())
    assert (given["took_over_from"], given["epoch"], given["checkpoint"]) == ("agent:agent-a1", 2, {"step": 2})


def test_a_held_task_starts_nothing_and_names_who_has_it(case: Case) -> None:
    case.claim("b1")

    held = case.run("a1", shell("touch started"))

    assert held.code == Exit.HELD, held
    assert "agent-b1" in held.err
    assert "take another record, or wait" in held.err
    assert f"baton sidecar --wait 5m --record {case.record}" in held.err
    assert f"baton record claims {case.record}" in held.err
    assert not (case.folder / "started").exists()


def test_a_second_sidecar_of_the_same_agent_is_refused(case: Case) -> None:
    began, gate = case.pipe("began"), case.pipe("gate")
    first = case.sidecar("a1", shell(f"echo > {began}; cat {gate}"))
    began.read_text()

    second = case.run("a1", shell("touch started"))
    gate.write_text("")

    assert second.code == Exit.HELD, second
    assert "held by another process of agent:agent-a1" in second.err
    assert not (case.folder / "started").exists()
    assert ended(first).code == Exit.OK


def test_a_task_is_waited_for_until_it_is_handed_back(case: Case) -> None:
    began, gate = case.pipe("began"), case.pipe("gate")
    first = case.sidecar("a1", shell(f"echo > {began}; cat {gate}"))
    began.read_text()
    second = case.sidecar("b1", shell("true"), "--wait", "60s")

    gate.write_text("")

    assert ended(first).code == Exit.OK
    done = ended(second)
    assert done.code == Exit.OK, done


@pytest.mark.parametrize(
    "argv, code, words",
    [
        (["--", "no-such-command-here"], Exit.FAILED, "no-such-command-here"),
        (["--", "./no-such-file"], Exit.FAILED, "no-such-file"),
        ([], Exit.USAGE, "name the command"),
        (["--lease", "0s", "--", "true"], Exit.USAGE, "whole number of seconds"),
        (["--lease", "25h", "--", "true"], Exit.FAILED, "86400"),
        (["--checkpoint", "colour", "--", "true"], Exit.FAILED, "no field colour"),
        (["--checkpoint", "remediation", "--", "true"], Exit.FAILED, "is a task"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_is_claimed(  # noqa: PLR0917 — fixtures and a table
    case: Case, baton: Baton, monkeypatch: pytest.MonkeyPatch, argv: list[str], code: Exit, words: str
) -> None:
    monkeypatch.setenv("BATON_SERVER", case.site.server.url)
    monkeypatch.setenv("BATON_TOKEN", case.site.tokens["a1"])

    refused = baton("sidecar", "--record", case.record, "--field", "remediation", *argv)

    assert refused.code == code, refused
    assert words in refused.err
    assert case.ask("ada", "GET")["error"] == "NOT_FOUND"


def test_a_full_disk_starts_nothing_and_the_task_is_handed_back(case: Case) -> None:
    """No file may grow: neither the folder nor the input of the command can be made."""
    run = subprocess.run(
        ["sh", "-c", 'ulimit -f 0; exec "$@"', "sh", *case.typed("touch", "started")],
        env=case.environ("a1"),
        cwd=case.folder,
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == Exit.FAILED, run
    assert "Traceback" not in run.stderr
    assert not (case.folder / "started").exists()
    assert "owner" not in case.task()


def test_what_the_child_makes_of_its_folder_changes_no_end(case: Case) -> None:
    done = case.run("a1", shell('rmdir "$BATON_HOME"; touch "$BATON_HOME"; exit 7'), "--release-on-failure", "--json")

    assert done.code == 7, done
    ending = json.loads(done.out)
    assert (ending["exit_code"], ending["released"]) == (7, True)
    assert "Traceback" not in done.err


def test_what_others_wrote_does_nothing_to_the_terminal(case: Case) -> None:
    done = case.run("a1", python(r"""print('{"\x9b31mput": {}}')"""))

    assert done.code == Exit.FAILED, done
    refused = next(line for line in done.err.splitlines() if line.startswith("line 1 is not written"))
    assert refused.isascii()


# Lost, killed, told to end


TAKES_ITS_TIME: Final = r"""
    import os, signal, subprocess, sys
    grandchild = subprocess.Popen(["cat", {held!r}], start_new_session=True)
    open({began!r}, "w").write(f"{{os.getpid()}} {{grandchild.pid}}")
    open({gate!r}).read()
    print('{{"put": {{"field": "status", "value": "by a zombie"}}}}', flush=True)
    signal.pause()
"""


def test_a_holder_that_slept_through_its_lease_writes_nothing_more(either: Case) -> None:
    """Frozen past its lease, taken over, and woken: its fenced write is refused, and its child is stopped."""
    began, gate, held = either.pipe("began"), either.pipe("gate"), either.pipe("held")
    script = TAKES_ITS_TIME.format(began=str(began), gate=str(gate), held=str(held))
    zombie = either.sidecar("a1", python(script))
    child, grandchild = map(int, began.read_text().split())
    zombie.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, zombie.pid, os.WSTOPPED | os.WNOWAIT)
    either.site.lapse()

    taken = either.hold("b1", shell("""echo '{"put": {"field": "status", "value": "by the living"}}'"""))
    zombie.send_signal(signal.SIGCONT)
    gate.write_text("")
    lost = ended(zombie)

    assert taken.code == Exit.OK, taken
    assert lost.code == Exit.HELD, lost
    assert "lost" in lost.err
    assert f"baton record history {either.record}" in lost.err
    assert either.value("status") == "by the living"
    assert not lives(child)
    assert not lives(grandchild)
    story = [(entry["author"], entry["verb"]) for entry in either.ask("ada", "GET", "/history")["entries"]]
    assert ("agent:agent-a1", "put") not in story


def test_a_loss_that_only_the_heartbeat_hears_of_stops_the_child(case: Case) -> None:
    began = case.pipe("began")
    script = f"import os, signal; open({str(began)!r}, 'w').write(str(os.getpid())); signal.pause()"
    first = case.sidecar("a1", python(script), "--lease", "3s", "--json")
    child = int(began.read_text())
    case.site.clock.advance(timedelta(seconds=4))
    case.claim("b1")

    lost = ended(first)

    assert lost.code == Exit.HELD, lost
    ending = json.loads(lost.out)
    assert (ending["ended"], ending["released"], ending["written"]) == ("lost", False, 0)
    assert "agent-b1" in ending["why"] or "epoch" in ending["why"] or "remediation" in ending["why"]
    assert not lives(child)
    assert case.task()["owner"] == "agent:agent-b1"


def test_a_killed_sidecar_leaves_the_task_to_its_lease_and_a_child_that_can_write_no_more(either: Case) -> None:
    began, gate, over = either.pipe("began"), either.pipe("gate"), either.pipe("over")
    script = rf"""
        import os, subprocess, sys
        open({str(began)!r}, "w").write(os.environ["BATON_TOKEN"])
        open({str(gate)!r}).read()
        try:
            print('{{"put": {{"field": "status", "value": 1}}}}', flush=True)
        except BrokenPipeError:
            open({str(over)!r}, "w").write("nobody listens")
            os._exit(0)
    """
    first = either.sidecar("a1", python(script))
    token = began.read_text()
    first.kill()
    first.wait(WAIT_S_MAX)

    gate.write_text("")
    assert over.read_text() == "nobody listens"
    assert either.run("b1", shell("true")).code == Exit.HELD
    either.site.lapse()
    assert either.run("b1", shell("true")).code == Exit.OK

    refused = either.ask(token, "PUT", "/fields/status", {"value": 1})
    assert refused["error"] in ENDED_TOKEN
    assert either.value("status") is None


@pytest.mark.parametrize("point", ["task.taken", "line.read@3", "line.written@3", "task.settled"])
def test_whatever_kills_a_sidecar_the_next_one_does_the_rest_and_nothing_twice(case: Case, point: str) -> None:
    """Each step is appended together with its checkpoint; the next holder begins behind the last one that is there."""
    script = """
        import json, sys
        done = json.load(sys.stdin)["checkpoint"] or 0
        for n in range(done + 1, 5):
            step = {"append": {"field": "actions", "value": n}}
            print(json.dumps({"writes": [step, {"checkpoint": n}]}), flush=True)
    """
    command = python(script)

    killed = case.sidecar("a1", command, "--checkpoint", "plan", **armed(f"{point}:kill"))
    assert killed.wait(WAIT_S_MAX) == -signal.SIGKILL
    case.site.lapse()
    after = case.hold("b1", command, checkpoint="plan")

    assert after.code == Exit.OK, after
    assert case.value("actions") == [1, 2, 3, 4]
    assert case.value("plan") == 4


def armed(spec: str) -> dict[str, str]:
    """Return what to add to an environment so that a process below it is armed with `spec`."""
    full = environment(spec)
    return {name: full[name] for name in ("PYTHONPATH", VARIABLE)}


def test_told_to_end_the_child_leaves_its_checkpoint_and_the_task_is_handed_back(either: Case) -> None:
    began = either.pipe("began")
    script = rf"""
        import os, signal, sys
        def leave(*_):
            print('{{"checkpoint": {{"step": 3}}}}', flush=True)
            sys.exit(0)
        signal.signal(signal.SIGINT, leave)
        open({str(began)!r}, "w").write(str(os.getpid()))
        while True:
            signal.pause()
    """
    first = either.sidecar("a1", python(script), "--checkpoint", "plan", "--json")
    child = int(began.read_text())

    first.terminate()
    stopped = ended(first)

    assert stopped.code == Exit.INTERRUPTED, stopped
    ending = json.loads(stopped.out)
    assert (ending["ended"], ending["written"], ending["released"]) == ("stopped", 1, True)
    assert either.value("plan") == {"step": 3}
    assert "owner" not in either.task()
    assert not lives(child)


def test_told_twice_the_sidecar_stops_the_child_at_once_and_leaves_the_task(case: Case) -> None:
    began, told = case.pipe("began"), case.pipe("told")
    script = rf"""
        import os, signal
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, lambda *_: open({str(told)!r}, "w").close())
        open({str(began)!r}, "w").write(str(os.getpid()))
        while True:
            signal.pause()
    """
    first = case.sidecar("a1", python(script))
    child = int(began.read_text())

    first.terminate()
    told.read_text()
    first.terminate()
    stopped = ended(first)

    assert stopped.code == Exit.INTERRUPTED, stopped
    assert case.task()["owner"] == "agent:agent-a1"
    assert not lives(child)


def test_what_the_child_leaves_behind_is_stopped_with_it(case: Case) -> None:
    """A grandchild in a session of its own that keeps the output open: it neither lives on nor delays the end."""
    script = """
        import subprocess, sys
        left = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        print(left.pid, file=open("left", "w"))
        print('{"put": {"field": "status", "value": 1}}', flush=True)
    """

    done = case.run("a1", python(script))

    assert done.code == Exit.OK, done
    assert not lives(int((case.folder / "left").read_text()))
    assert case.value("status") == 1


def test_a_server_that_is_away_for_a_while_loses_no_line_and_doubles_none(
    sqlite_crew: tuple[Path, Mapping[str, str]], tmp_path: Path
) -> None:
    """The lines wait, each is sent again under its own key, and the child is held up meanwhile."""
    template, tokens = sqlite_crew
    url = f"sqlite:///{shutil.copy(template, tmp_path / 'away.db')}"
    script = """
        import json
        for n in range(40):
            print(json.dumps({"append": {"field": "actions", "value": n}}), flush=True)
            if n == 19:
                open("began", "w").write("half")
                open("gate").read()
    """
    with served(url, tokens, tmp_path) as site, a_case(site, tmp_path) as case:
        began, gate = case.pipe("began"), case.pipe("gate")
        running = case.sidecar("a1", python(script))
        began.read_text()
        site.server.kill()
        with server_process(url, clock=site.clock, port=site.server.port):
            gate.write_text("")
            done = ended(running)

            assert done.code == Exit.OK, done
            assert case.value("actions") == list(range(40))


def test_many_lines_at_once_are_written_in_their_order(case: Case) -> None:
    script = """
        import json
        print("\\n".join(json.dumps({"append": {"field": "actions", "value": n}}) for n in range(200)))
    """

    done = case.hold("a1", python(script))

    assert done.code == Exit.OK, done
    assert case.value("actions") == list(range(200))
