"""Rounds become figures: every probe and its limits in turn, several times, and medians of what came out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

import msgspec

from bench import limits
from bench.load import Job, Result
from bench.probes import ME, Aim, Probe
from bench.seed import give_back
from bench.served import Database, Server, serving

US_PER_S: Final = 1_000_000


class Beside(msgspec.Struct):
    """A rate divided by a limit's of the same round; `ok` is None where nothing was aimed for."""

    by: str
    """What took the limit's rate: pgbench, sqlite3, or the server itself."""
    limit: str
    rate: float
    ratio: float
    aim: float | None
    ok: bool | None


class Figure(msgspec.Struct):
    """Medians of one probe. `counts` is False when the load generator may have been what was measured."""

    database: str
    group: str
    what: str
    connections: int
    rate: float
    p50_ms: float
    p99_ms: float
    p99_ms_aim: float | None
    server_us: float
    beside: list[Beside]
    rounds: int
    counts: bool


class Memory(msgspec.Struct):
    """A server's resident memory when it has just started, and after all that was measured on it."""

    database: str
    started_mib: float
    after_mib: float


@dataclass(frozen=True, slots=True)
class Effort:
    """How long and how often."""

    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One probe, once."""

    result: Result
    server_s: float

    @property
    def server_us(self) -> float:
        """Return the server's processor time for one request, those that were not timed among them, in microseconds."""
        return self.server_s / max(1, self.result.sent) * US_PER_S


def loaded(job: Job) -> Result:
    """Do a job in a process of its own, and return what was answered."""
    argv = [sys.executable, "-m", "bench.load"]
    done = subprocess.run(argv, input=msgspec.json.encode(job), stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Result)


@dataclass(slots=True)
class Rounds:
    """What has been measured of one database so far."""

    database: Database
    label: str
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    samples: dict[Probe, list[Sample]] = field(default_factory=lambda: defaultdict(list))
    rates: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def measure(self, probes: Sequence[Probe], effort: Effort) -> Memory:
        """Measure every probe and every limit it is put beside, in turn, `effort.rounds` times."""
        verbs = dict.fromkeys(aim.limit for probe in probes for aim in probe.beside if aim.limit != ME)
        with serving(self.database.url, environ=self.environ) as server:
            started = server.memory_mib()
            for _ in range(effort.rounds):
                for verb in verbs:
                    self.rates[verb].append(limits.rate(self.database, verb, effort.seconds, environ=self.environ))
                for probe in probes:
                    self._take(probe, server, effort.seconds)
            return Memory(self.label, started, server.memory_mib())

    def figures(self) -> Iterator[Figure]:
        """Return the medians of what was measured."""
        for probe, samples in self.samples.items():
            results = [sample.result for sample in samples]
            yield Figure(
                database=self.label,
                group=probe.group,
                what=probe.what,
                connections=probe.connections,
                rate=median(result.rate for result in results) * probe.per_call,
                p50_ms=median(result.p50_ms for result in results),
                p99_ms=median(result.p99_ms for result in results),
                p99_ms_aim=probe.p99_ms_aim,
                server_us=median(sample.server_us for sample in samples) / probe.per_call,
                beside=[self._beside(probe, aim, results) for aim in probe.beside],
                rounds=len(samples),
                counts=not any(result.was_limit for result in results),
            )

    def _take(self, probe: Probe, server: Server, seconds: float) -> None:
        before, job = server.cpu_s(), probe.job(server, self.database.fleet, seconds)
        result = loaded(job)
        assert not result.refused, f"{probe.what}: {result.refused} requests were refused"
        self.samples[probe].append(Sample(result, server.cpu_s() - before))
        if probe.undo:
            loaded(probe.undoing(job, result.sent))
        elif probe.takes:
            give_back(server.url, self.database.fleet)

    def _beside(self, probe: Probe, aim: Aim, results: Sequence[Result]) -> Beside:
        rates = self.rates[aim.limit] if aim.limit != ME else self._rates_of_me()
        ratio = median(result.rate * probe.per_call / rate for result, rate in zip(results, rates, strict=True))
        return Beside(
            by="the server" if aim.limit == ME else limits.BY[self.database.dialect],
            limit=aim.limit,
            rate=median(rates),
            ratio=ratio,
            aim=aim.ratio,
            ok=None if aim.ratio is None else ratio >= aim.ratio,
        )

    def _rates_of_me(self) -> list[float]:
        return next([s.result.rate for s in samples] for probe, samples in self.samples.items() if probe.what == ME)
