"""Workers of one box whose processes are killed at random: the programs they run, the workers, and who kills them.

    with Mill(fleet, seed=1) as mill:
        mill.play(seconds=20)
        mill.drain()
    assert audit(fleet, mill) == []              # batonpass.testing.chaos_audit

All that is random is drawn from the seed. What a program does depends on the
seed, its item and its tenure alone; when it is killed depends on the machine.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from signal import SIGKILL, SIGTERM
from typing import Any, Final, Self

from batonpass.testing.fleet import END_S_MAX, Fleet
from batonpass.worker.crew import Identity, is_alive, tell
from batonpass.worker.journal import Journal
from batonpass.worker.record import RunRecord

PROJECT: Final = "chaos"
WORKERS: Final = 2
SLOTS: Final = 3
PAUSE_S: Final = (0.3, 1.2)
"""The shortest and the longest time between two kills."""
VICTIMS: Final = {"harness": 4, "supervisor": 4, "worker": 1}
"""Who is killed, and how often of how many times; a worker takes a second to be at work again."""
SETTLE_ROUNDS_MAX: Final = 5
PROGRAM: Final = """\
#!{python} -SE
import http.client, json, os, random, subprocess, sys, time

item, epoch, run = os.environ["BATON_NODE"], int(os.environ["BATON_EPOCH"]), os.environ["BATON_RUN"]
diary = os.open({diary!r}, os.O_WRONLY | os.O_APPEND)
chance = random.Random(f"{seed}:{{item}}:{{epoch}}")

def note(what, **more):
    line = {{"what": what, "item": item, "epoch": epoch, "run": run, "at": time.monotonic(), **more}}
    os.write(diary, json.dumps(line).encode() + b"\\n")

def put(node):
    asked = time.monotonic()
    status = 0
    try:
        to = http.client.HTTPConnection(os.environ["BATON_SERVER"].removeprefix("http://"), timeout=20)
        head = {{"Authorization": "Bearer " + os.environ["BATON_TOKEN"], "Content-Type": "application/json",
                "Idempotency-Key": node["id"]}}
        to.request("POST", "/v1/nodes", json.dumps({{"nodes": [node]}}), head)
        reply = to.getresponse()
        told = json.loads(reply.read())
        status = reply.status if reply.status >= 300 else 200 if told["results"][0]["status"] != "error" else 422
    finally:
        note("put", id=node["id"], status=status, asked=asked)

def word(kind, edge, to):
    return {{"id": f"{{kind}}-{{to}}-{{epoch}}", "type": "artifact", "title": f"Word of {{run}}", "summary": "x",
            "date": "2026-11-30", "body": "x", "edges": [{{"type": edge, "to": to}}]}}

note("begin")
sys.stdin.read()
time.sleep(chance.random() * 0.3)
put(word("art-note", "relates-to", item))
act = chance.choices({acts!r}, {weights!r})[0]
if act == "grandchild":
    subprocess.Popen(["sleep", "3600"], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)
if act == "crash":
    os._exit(3)
if act == "hang":
    time.sleep(3600)
if act in ("resolve", "leave"):
    with open("work.txt", "w") as file:
        file.write(item)
    if act == "resolve":
        subprocess.run(["git", "add", "work.txt"], check=True)
        subprocess.run(["git", "commit", "--quiet", "-m", "work"], check=True)
time.sleep(chance.random() * 0.5)
if act == "resolve":
    put(word("art-done", "resolves", item))
text = f"The word of {{run}} about {{item}}."
if act == "decline":
    text = f"DECLINED: not needed, says {{run}}\\n\\n{{text}}"
with open(os.environ["BATON_REPORT"], "w") as file:
    file.write(text)
note("end", act=act)
"""
ACTS: Final = {"resolve": 5, "report": 3, "decline": 2, "leave": 1, "crash": 2, "grandchild": 2, "hang": 1}
"""What the program does, and how often of how many times; `leave` leaves a file nobody committed."""


@dataclass(slots=True)
class Mill:
    """Two workers of three slots over one home, and a killer; ended with the block, and all they started with them."""

    fleet: Fleet
    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    starts: int = 0

    @property
    def home(self) -> Path:
        """Return the folder that holds the box's runs."""
        return self.fleet.settings.home

    @property
    def diary(self) -> Path:
        """Return the file that the programs say in what they do."""
        return self.fleet.folder / "diary"

    @property
    def said(self) -> str:
        """Return all that the workers said."""
        return (self.fleet.folder / "workers.log").read_text(errors="replace")

    def __enter__(self) -> Self:
        """Write the program; nothing is started yet."""
        self.diary.touch()
        program = PROGRAM.format(
            python=sys.executable, diary=str(self.diary), seed=self.seed, acts=list(ACTS), weights=list(ACTS.values())
        )
        self._program.write_text(program)
        self._program.chmod(0o755)
        return self

    def __exit__(self, *_: object) -> None:
        """End what is left, as kill -9 does."""
        for worker in self.workers:
            worker.kill()
            worker.wait(END_S_MAX)
        self.fleet.end_runs()

    @property
    def _program(self) -> Path:
        return self.fleet.folder / "program"

    def play(self, *, seconds: float) -> None:
        """Let the workers work for so long, and kill whom chance says, -9, all the while.

        On a machine so busy that by then one kind was not killed yet, or nothing written, it goes on, twice as long.
        """
        chance = random.Random(self.seed)  # noqa: S311 — the same each time is what is wanted
        self.workers = [self._start() for _ in range(WORKERS)]
        began_s = time.monotonic()
        while (lasted_s := time.monotonic() - began_s) < seconds or (lasted_s < 2 * seconds and not self._is_telling()):
            time.sleep(chance.uniform(*PAUSE_S))
            (victim,) = chance.choices(list(VICTIMS), list(VICTIMS.values()))
            self._kill(victim, chance)

    def drain(self) -> list[str]:
        """Have the workers stop their runs and end, settle what was left, and return what could not be settled."""
        for worker in self.workers:
            for _ in range(2):
                worker.send_signal(SIGTERM)
                time.sleep(0.2)
        for worker in self.workers:
            worker.wait(END_S_MAX)
        for record in self._living():
            if record.runner is not None:
                tell(record.runner, SIGTERM)
        deadline = time.monotonic() + END_S_MAX
        while self._supervised() and time.monotonic() < deadline:
            time.sleep(0.1)
        for _ in range(SETTLE_ROUNDS_MAX):
            self.fleet.take_up()
            if not Journal(self.home).unsettled():
                break
        return [run.path.name for run in Journal(self.home).unsettled()]

    def told(self) -> list[dict[str, Any]]:
        """Return what the programs said in their diary; nothing of it is half written."""
        return [json.loads(line) for line in self.diary.read_text().splitlines()]

    def records(self) -> list[RunRecord]:
        """Return the records of all runs there were."""
        return [record for _, record in Journal(self.home).records()]

    def _is_telling(self) -> bool:
        """Whether each kind of process was killed, and some program's word landed."""
        return self.kills.keys() == VICTIMS.keys() and any(line.get("status") == HTTPStatus.OK for line in self.told())

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        fleet = self.fleet
        argv = [sys.executable, "-m", "batonpass", "work", "--concurrency", str(SLOTS), "--project", PROJECT]
        argv += ["--retry-after", "0s", "--interval", "1s", "--max-interval", "2s", "--no-brief"]
        environ = {
            **fleet.repo.person,
            "BATON_SERVER": fleet.server.url,
            "BATON_TOKEN": fleet.agent_token,
            "BATON_HOME": str(self.home),
        }
        with (fleet.folder / "workers.log").open("ab") as log:
            return subprocess.Popen(
                [*argv, "--", str(self._program)],
                cwd=fleet.repo.folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _kill(self, whom: str, chance: random.Random) -> None:
        if whom == "worker":
            victim = chance.randrange(WORKERS)
            self.workers[victim].kill()
            self.workers[victim].wait(END_S_MAX)
            self.workers[victim] = self._start()
            self.kills[whom] += 1
            return
        living = [record for record in self._living() if self._of(record, whom) is not None]
        if living and (identity := self._of(chance.choice(living), whom)) is not None:
            tell(identity, SIGKILL)
            self.kills[whom] += 1

    def _of(self, record: RunRecord, whom: str) -> Identity | None:
        found = record.child if whom == "harness" else record.runner
        worked_by = {worker.pid for worker in self.workers}
        if found is None or found.pid in worked_by or found.pid == os.getpid() or not is_alive(found):
            return None
        return found

    def _living(self) -> Sequence[RunRecord]:
        return [record for record in self.records() if not record.is_settled]

    def _supervised(self) -> bool:
        return any(self._of(record, "supervisor") for record in self._living())
