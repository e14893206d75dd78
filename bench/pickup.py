"""How soon after a commit a waiting worker has the item: at the same server, at another one, and among thousands."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

import msgspec
from msgspec.structs import replace

from bench.served import Database, serving
from bench.waiting import WaitingJob, WaitingResult

DELAY_P99_MS: Final = 15.0
PICKUP_SIZE: Final = 1_000
"""How many nodes there are besides. Who waits for a part of the queue reads that part, whatever else there is."""
FEW: Final = 32
MANY: Final = 5_000
WRITES: Final = 200


class Pickup(msgspec.Struct):
    """One way of waiting. `memory_mib` is the memory of the server where they waited, meanwhile, and before that."""

    database: str
    what: str
    workers: int
    delays: WaitingResult
    p99_ms_aim: float | None
    before_mib: float
    memory_mib: float
    server_ms: float
    """The waiting server's processor time for each item that was picked up."""

    @property
    def ok(self) -> bool:
        """Whether the aim was reached, if there is one, and nothing was left lying."""
        in_time = self.p99_ms_aim is None or self.delays.p99_ms < self.p99_ms_aim
        return in_time and not self.delays.missed


def pickups(database: Database, label: str, *, writes: int = WRITES) -> Iterator[Pickup]:
    """Measure all there are over a database; two servers only where there may be."""
    job = WaitingJob(
        host="127.0.0.1",
        tokens=database.fleet.agents,
        writer=database.fleet.admin,
        workers=FEW,
        writes=writes,
    )
    yield _pickup(database, label, "the same server", job)
    if database.dialect == "postgres":
        yield _pickup(database, label, "another server", replace(job, first=writes), servers=2)
    yield _pickup(database, label, "the same server", replace(job, workers=MANY, first=2 * writes))


def _pickup(database: Database, label: str, what: str, job: WaitingJob, *, servers: int = 1) -> Pickup:
    with ExitStack() as stack:
        waiting, *others = [stack.enter_context(serving(database.url)) for _ in range(servers)]
        before, spent = waiting.memory_mib(), waiting.cpu_s()
        job = replace(job, ports=[waiting.port], writer_port=(others or [waiting])[0].port)
        argv = [sys.executable, "-m", "bench.waiting"]
        done = subprocess.run(argv, input=msgspec.json.encode(job), stdout=subprocess.PIPE, check=True)
        delays = msgspec.json.decode(done.stdout, type=WaitingResult)
        return Pickup(
            database=label,
            what=what,
            workers=job.workers,
            delays=delays,
            p99_ms_aim=DELAY_P99_MS,
            before_mib=before,
            memory_mib=waiting.memory_mib(),
            server_ms=(waiting.cpu_s() - spent) / job.writes * 1000,
        )
