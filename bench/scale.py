"""What is asked of graphs of 1k, 100k and 1M nodes, in turn, so that the largest stands beside the smallest."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Final
from urllib.parse import quote

import msgspec

from batonpass.wire import paths
from bench.figures import Effort, Memory, Sample
from bench.limits import rate_in_world
from bench.load import Job, Result
from bench.seed import SESSION, give_back
from bench.served import Server, serving
from bench.world import BEGUN, COMMON, HAN, HUB, PAIR, RARE, READY, World
from bench.worlds import Inhabited

SIZES: Final = (1_000, 100_000, 1_000_000)
PAGE_P99_MS: Final = 10.0
PAGE_RATIO: Final = 2.0
NEXT_RATIO: Final = 0.25
NEXT_SIZE: Final = 100_000
"""At this size `next` stands beside the claim limit."""
FEW: Final = 2_000
"""Of a graph with fewer free items no more are asked for than there are; those that are asked first count as well."""


class Sized(msgspec.Struct):
    """Medians at one size; `server_us` is the server's processor time for each request."""

    nodes: int
    rate: float
    p50_ms: float
    p99_ms: float
    server_us: float


class Scaled(msgspec.Struct):
    """One question at every size. `growth` is the last size's p99 divided by the first's, None with one size only."""

    database: str
    what: str
    connections: int
    sizes: list[Sized]
    growth: float | None
    growth_aim: float | None
    p99_ms_aim: float | None
    beside: float | None = None
    """Its rate at `NEXT_SIZE` divided by the claim limit's there."""
    beside_aim: float | None = None

    @property
    def ok(self) -> bool | None:
        """Whether all that was aimed for was reached; None where nothing was."""
        met = [
            self.growth is None or self.growth_aim is None or self.growth <= self.growth_aim,
            self.p99_ms_aim is None or all(size.p99_ms < self.p99_ms_aim for size in self.sizes),
            self.beside is None or self.beside_aim is None or self.beside >= self.beside_aim,
        ]
        aimed = [aim for aim in (self.growth_aim, self.p99_ms_aim, self.beside_aim) if aim is not None]
        return all(met) if aimed else None


class Seeding(msgspec.Struct):
    """How long it took to fill a database."""

    database: str
    nodes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Question:
    """One kind of request; `page` has the aims of a page, `takes` gives back what it took."""

    what: str
    method: str
    path: str
    body: str = ""
    connections: int = 1
    page: bool = False
    takes: bool = False

    def job(self, server: Server, inhabited: Inhabited, seconds: float) -> Job:
        """Return what the load generator is to do."""
        return Job(
            host="127.0.0.1",
            port=server.port,
            tokens=inhabited.database.fleet.agents,
            method=self.method,
            path=self.path,
            bodies=[self.body],
            connections=self.connections,
            seconds=seconds,
            most=self.most(inhabited.world),
        )

    def most(self, world: World) -> int | None:
        """Return how many times it may be asked at most, None for as often as there is time for."""
        free = world.cells * (len(READY) - 1)
        return free if self.takes and free < FEW else None


def questions(world: World) -> Iterator[Question]:
    """Yield what is asked of a world."""
    queue = paths.QUEUE
    yield Question("page of a project", "GET", f"{queue}?project=p3", page=True)
    yield Question("page of everything", "GET", queue, page=True)
    yield Question("page of everything, offset 100", "GET", f"{queue}?offset=100", page=True)
    body = f'{{"session": "{SESSION}"}}'
    yield Question("next", "POST", paths.QUEUE_NEXT, body, takes=True)
    yield Question("next", "POST", paths.QUEUE_NEXT, body, connections=32, takes=True)
    for what, query in (
        ("a rare word", RARE),
        ("a common word", COMMON),
        ("two words", " ".join(PAIR)),
        ("a beginning", BEGUN),
        ("Han", HAN[5:9]),
    ):
        yield Question(f"search: {what}", "GET", f"{paths.SEARCH}?q={quote(query)}")
    few = world.node_id(world.cells // 2 * 20 + 6)
    yield Question("digest of a node", "POST", paths.DIGEST, f'{{"root": "{few}", "project": "p3"}}')
    yield Question("digest of the hub", "POST", paths.DIGEST, f'{{"root": "{HUB}", "project": "p3"}}')


@dataclass(slots=True)
class Sizes:
    """What has been measured of one kind of database, at every size."""

    label: str
    inhabited: Sequence[Inhabited]
    samples: dict[tuple[int, int], list[Sample]] = field(default_factory=lambda: defaultdict(list))
    """By the number of the size and that of the question."""
    limits: list[float] = field(default_factory=list)

    def measure(self, effort: Effort) -> list[Memory]:
        """Ask every question at every size, in turn, and return what memory the servers took."""
        with ExitStack() as stack:
            servers = [stack.enter_context(serving(one.database.url)) for one in self.inhabited]
            started = [server.memory_mib() for server in servers]
            for _ in range(effort.rounds):
                self.limits += [
                    rate_in_world(one.database, one.world.cells, effort.seconds)
                    for one in self.inhabited
                    if one.world.size == NEXT_SIZE and one.database.twin
                ]
                for number in range(len(self._questions(0))):
                    for size, server in enumerate(servers):
                        self._ask(size, number, server, effort.seconds)
            return [
                Memory(f"{self.label}, {one.world.size:,} nodes", before, server.memory_mib())
                for one, before, server in zip(self.inhabited, started, servers, strict=True)
            ]

    def seedings(self) -> list[Seeding]:
        """Return how long filling took."""
        return [Seeding(self.label, one.filled.nodes, one.filled.seconds) for one in self.inhabited]

    def figures(self) -> Iterator[Scaled]:
        """Return the medians of what was measured."""
        for number, question in enumerate(self._questions(0)):
            sizes = [self._sized(size, number) for size in range(len(self.inhabited))]
            taken = next((one.rate for one in sizes if one.nodes == NEXT_SIZE), None)
            compared = question.takes and question.connections > 1 and taken is not None and bool(self.limits)
            yield Scaled(
                database=self.label,
                what=question.what,
                connections=question.connections,
                sizes=sizes,
                growth=self._growth(number) if len(sizes) > 1 else None,
                growth_aim=PAGE_RATIO if question.page else None,
                p99_ms_aim=PAGE_P99_MS if question.page else None,
                beside=taken / median(self.limits) if compared and taken is not None else None,
                beside_aim=NEXT_RATIO if compared else None,
            )

    def _questions(self, size: int) -> list[Question]:
        return list(questions(self.inhabited[size].world))

    def _ask(self, size: int, number: int, server: Server, seconds: float) -> None:
        one = self.inhabited[size]
        question = self._questions(size)[number]
        sample = ask(question.job(server, one, seconds), server)
        assert not sample.result.refused, f"{question.what}: {sample.result.refused} requests were refused"
        self.samples[size, number].append(sample)
        if question.takes:
            give_back(server.url, one.database.fleet)

    def _sized(self, size: int, number: int) -> Sized:
        samples = self.samples[size, number]
        return Sized(
            nodes=self.inhabited[size].world.size,
            rate=median(sample.result.rate for sample in samples),
            p50_ms=median(sample.result.p50_ms for sample in samples),
            p99_ms=median(sample.result.p99_ms for sample in samples),
            server_us=median(sample.server_us for sample in samples),
        )

    def _growth(self, number: int) -> float:
        """Return the median of the rounds' ratios: what disturbs the machine disturbs both sizes of a round."""
        last = len(self.inhabited) - 1
        pairs = zip(self.samples[0, number], self.samples[last, number], strict=True)
        return median(large.result.p99_ms / small.result.p99_ms for small, large in pairs if small.result.ops)


def ask(job: Job, server: Server, *, environ: Mapping[str, str] | None = None) -> Sample:
    """Run the load generator once, and return what it counted beside the server's processor time."""
    before = server.cpu_s()
    argv = [sys.executable, "-m", "bench.load"]
    done = subprocess.run(argv, input=msgspec.json.encode(job), env=environ, stdout=subprocess.PIPE, check=True)
    return Sample(msgspec.json.decode(done.stdout, type=Result), server.cpu_s() - before)
