"""Holding a task around a command in this process, the server answering from a script: the ends that come at once."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO

import httpx
import pytest

from batonpass.client.client import Client
from batonpass.core.records import FieldName, parse_record_path
from batonpass.testing.scripted import ScriptedServer, answer, record_answer, task_answer
from batonpass.wire.identity import MeReply
from batonpass.worker import proc
from batonpass.worker.crew import Graces, Identity, is_alive
from batonpass.worker.holding import Wanted
from batonpass.worker.proc import Child
from batonpass.worker.sidecar import Ending, Errand, How, World, run

WANTED = Wanted(parse_record_path("incidents/inc-1"), FieldName("remediation"))
ADA = MeReply("person-ada", "Ada", "ada@example.org", bound=True, is_admin=False, org="org-root", scope="write")
CLAIM = "/v1/records/incidents/inc-1/fields/remediation/claim"
RELEASED = task_answer(6, epoch=4, in_ms=None)


@pytest.fixture
def server() -> ScriptedServer:
    server = ScriptedServer()
    server.will(answer(ADA), task_answer(5, epoch=4), record_answer(status="open"))
    return server


def hold(server: ScriptedServer, folder: Path, *command: str, told: list[str] | None = None) -> Ending:
    """Hold the task around `command`, as a person, whose children have no token."""
    client = Client("http://baton.test", "bat_pat_secret", transport=httpx.MockTransport(server))
    errand = Errand(WANTED, command, folder, client.server)
    heard = [] if told is None else told
    with (folder / "stderr").open("wb", buffering=0) as stderr:
        world = World({"PATH": os.environ["PATH"]}, stderr, pass_on=lambda _: None, tell=heard.append)
        return run(client, errand, world)


def test_an_interrupt_while_the_command_starts_leaves_none_of_it_and_hands_back(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Child] = []
    start = proc.start_heard

    def interrupted(
        argv: list[str],
        *,
        mark: str,
        cwd: Path,
        environment: Mapping[str, str],
        stdin: bytes,
        stderr: IO[bytes],
        adopts: bool = False,
    ) -> tuple[Child, int]:
        child, heard = start(
            argv, mark=mark, cwd=cwd, environment=environment, stdin=stdin, stderr=stderr, adopts=adopts
        )
        os.close(heard)
        started.append(child)
        raise KeyboardInterrupt

    def handed_back(_request: httpx.Request) -> httpx.Response:
        lived.extend(child.identity for child in started if is_alive(child.identity))
        return RELEASED

    lived: list[Identity] = []
    monkeypatch.setattr(proc, "start_heard", interrupted)
    server.will(handed_back)

    with pytest.raises(KeyboardInterrupt):
        hold(server, tmp_path, sys.executable, "-c", "import time; time.sleep(60)")

    try:
        assert (len(started), lived) == (1, [])
        assert server.paths()[-1] == CLAIM
    finally:
        for child in started:
            child.stop(Graces(0, 0, 5))


def test_a_task_one_of_whose_processes_would_not_end_is_left_to_its_lease(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is handed a task must not meet somebody who is still at it."""
    stop = Child.stop
    stuck = Identity(1, 1, "boot")

    def in_vain(child: Child, graces: Graces | None = None) -> frozenset[Identity]:
        stop(child, graces)
        return frozenset({stuck})

    monkeypatch.setattr(Child, "stop", in_vain)
    told: list[str] = []

    ending = hold(server, tmp_path, "true", told=told)

    assert (ending.ended, ending.exit_code, ending.released) == (How.ENDED, 0, False)
    assert server.paths().count(CLAIM) == 1
    assert "1 processes of the command would not end, and live on" in told
