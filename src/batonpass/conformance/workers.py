"""Grading a worker: it is put through the scenarios one by one, and what was seen is graded line by line.

A worker is whatever `Launch` starts. It finds in its environment what the
contract of docs/reference/conformance.md says, does one item, and ends.
"""

from __future__ import annotations

import itertools
import shlex
import sys
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from batonpass.conformance import task
from batonpass.conformance.grades import Graded
from batonpass.conformance.lines import LINES, Line, grade
from batonpass.conformance.proxy import CONTROL, Ask, Exchange, Forward, Record, Reply, proxy
from batonpass.conformance.scenarios import HORIZON_MS, SCENARIOS, Pool, Scenario
from batonpass.conformance.seen import CLAIMS, GRANTS, Seen, leased, nonce_of
from batonpass.conformance.world import Server, World, found

JSON: Final = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Job:
    """One start of the worker. `control` is where the work asks what to do; the program in `environ` does so itself."""

    environ: Mapping[str, str]
    control: str
    folder: Path


Launch = Callable[[Job], str]
"""Runs the worker to its end, or until the time for it is over, and says how it ended."""


def grade_worker(
    server: Server,
    launch: Launch,
    *,
    lines: Sequence[Line] = LINES,
    scenarios: Collection[str] | None = None,
    numbers: Iterator[int] | None = None,
    say: Callable[[Scenario], object] = lambda _: None,
) -> list[Graded]:
    """Put a worker through every scenario that one of `lines` looks at, and return the grades in their order.

    `scenarios` are those to be put through instead.
    `numbers` gives each scenario's corner of the server a number that no other
    corner of that server has.
    """
    wanted = {scenario for line in lines for scenario in line.scenarios} if scenarios is None else scenarios
    numbers = numbers or itertools.count(1)
    seen: list[Seen] = []
    for scenario in (each for each in SCENARIOS if each.id in wanted):
        say(scenario)
        nonces = frozenset(nonce for each in seen for claim in each.claims if (nonce := nonce_of(claim)))
        seen.append(put_through(scenario, found(server, next(numbers)), launch, nonces=nonces))
    return [grade(line, seen) for line in lines]


def put_through(scenario: Scenario, world: World, launch: Launch, *, nonces: frozenset[str]) -> Seen:
    """Run the worker in one scenario, in a corner of its own, and return what was seen."""
    pool = scenario.pool(world)
    record = Record(_whose(world))
    stage = _Stage(scenario, world, pool, record)
    spoil = scenario.spoils(world, pool) if scenario.spoils is not None else None
    with (
        tempfile.TemporaryDirectory(prefix="baton-conformance-") as folder,
        proxy(world.server.address, record, rule=spoil, control=stage.control) as address,
    ):
        control = f"{address}{CONTROL}"
        environ = {
            "BATON_SERVER": address,
            "BATON_TOKEN": world.agent.token or "",
            "BATON_PROJECT": world.project,
            "BATON_HOME": str(Path(folder) / "home"),
            "BATON_CONFORMANCE_TASK": str(program(Path(folder), control)),
            "BATON_CONFORMANCE_SCENARIO": scenario.id,
            "BATON_CONFORMANCE_PERSON_TOKEN": world.ann.token or "",
        }
        ended = launch(Job(environ, control, Path(folder)))
    return _seen(stage, record.exchanges(), nonces=nonces, ended=ended)


def program(folder: Path, control: str) -> Path:
    """Write the program that is the work, and return it: it takes the prompt, and needs no argument."""
    path = folder / "task"
    argv = shlex.join([sys.executable, "-I", "-S", str(Path(task.__file__)), control])
    path.write_text(f'#!/bin/sh\nexec {argv} "$@"\n')
    path.chmod(0o700)
    return path


class _Stage:
    """What the kit tells the work of one scenario."""

    def __init__(self, scenario: Scenario, world: World, pool: Pool, record: Record) -> None:
        self.scenario = scenario
        self.world = world
        self.pool = pool
        self._record = record

    def control(self, ask: Ask, _forward: Forward) -> Reply | None:
        """Answer the work: what it is to do, when it has worked long enough, that its end is noted."""
        reply = Reply(200, b"", JSON)
        match ask.path.removeprefix(CONTROL):
            case "begin":
                return reply.saying(self._steps(str(ask.data["prompt"])))
            case "wait":
                self._record.wait(self._is_renewed, HORIZON_MS / 1000)
                return reply.saying({})
            case "end":
                return reply.saying({})
            case _:
                return reply.saying({}, status=404)

    def _steps(self, prompt: str) -> dict[str, Any]:
        writes: list[tuple[str, object]] = []
        if self.scenario.resolves:
            edges = [{"type": "resolves", "to": self.pool["target"]}]
            writes.append(("/v1/nodes", {"nodes": [self.world.entry(self.world.name("art"), "artifact", edges=edges)]}))
        if self.scenario.asks:
            # An agent stamps what it was told of: the project stands in its prompt, or it knows of none.
            told = {"project": self.world.project} if self.world.project in prompt else {}
            writes.append(("/v1/questions", {"text": "Which of the two is meant?", **told}))
        return {
            "writes": writes,
            "wait": self.scenario.waits,
            "says": self.scenario.says,
            "exits": self.scenario.exits,
            "token": self.world.agent.token,
        }

    def _is_renewed(self, exchanges: Iterable[Exchange]) -> bool:
        return any(
            GRANTS.fullmatch(each.path) and not CLAIMS.fullmatch(each.path) and self.pool["target"] in leased(each)
            for each in exchanges
        )


def _seen(stage: _Stage, exchanges: tuple[Exchange, ...], *, nonces: frozenset[str], ended: str) -> Seen:
    seen = Seen(stage.scenario, stage.world.project, stage.pool, exchanges, {}, (), nonces, ended)
    filed = {filing.id for filing in seen.filings if filing.id is not None}
    there = tuple(sorted(node for node in filed if stage.world.admin.get(f"/v1/nodes/{node}").ok))
    return replace(seen, after=stage.world.read(seen.target), reports=there)


def _whose(world: World) -> dict[str, str]:
    people = {who.token: "a person" for who in (world.ann, world.ben, world.admin)}
    agents = {world.agent.token: "agent", world.rival.token: "another agent"}
    return {token: who for token, who in {**people, **agents}.items() if token is not None}
