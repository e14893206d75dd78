"""Writes to one record, at random, against an obvious model: what stands, what is refused, and what every version is.

Versions and epochs only ever rise, deletion included (D32); what is refused
leaves every row as it was; of several writes all stand or none (D38).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

import httpx
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from batonpass.testing.clock import ManualClock
from batonpass.testing.incidents import CAP, Scene, incidents
from batonpass.testing.populated import contents
from batonpass.testing.server import in_process_server

LEASE: Final = timedelta(seconds=300)
TASK: Final = "remediation"
ACTORS: Final = ("mill", "rival")
PAGE: Final = "/v1/records/incidents"


# --- the model -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Value:
    """A register, or an append as the list of its items."""

    version: int = 0
    value: Any = None


@dataclass(frozen=True)
class Task:
    """The task field; nobody has it without a `holder`, who lost it at `ends` if the model's clock says so."""

    version: int = 0
    epoch: int = 0
    holder: str | None = None
    ends: timedelta = timedelta()


@dataclass
class Model:
    """One record, as simply as it can be kept."""

    now: timedelta = timedelta()
    version: int = 0
    there: bool = False
    task: Task = Task()
    values: dict[str, Value] = field(default_factory=dict)

    def put(self, who: str, writes: Sequence[tuple[str, Any]], premises: Sequence[dict[str, Any]]) -> str | None:
        """Write in order, an append where the field is `actions`; return the code of the refusal, if it is one."""
        if any(not self._holds(premise, who) for premise in premises):
            return "STALE_PREMISE"
        after = dict(self.values)
        for name, value in writes:
            before = after.get(name, Value())
            if name == "actions" and len(before.value or []) == CAP:
                return "CAP_REACHED"
            new = [*(before.value or []), value] if name == "actions" else value
            after[name] = Value(before.version + 1, new)
        self.values, self.there = after, True
        self.version += 1
        return None

    def delete(self) -> str | None:
        if not self.there:
            return "NOT_FOUND"
        self.values = {name: Value(each.version + 1, []) for name, each in self.values.items()}
        if self.task.version:
            self.task = Task(self.task.version + 1, self.task.epoch + 1)
        self.version, self.there = self.version + 1, False
        return None

    def claim(self, who: str, verb: str) -> str | None:
        task = self.task
        in_force = task.holder is not None and self.now < task.ends
        if in_force and task.holder != who:
            return "HELD"
        if verb == "release":
            if task.holder is not None:
                self._move(Task(task.version + 1, task.epoch + (task.holder != who)))
        elif in_force and verb == "claim":
            pass
        elif verb == "renew" and task.holder == who:
            self._move(replace(task, version=task.version + 1, ends=max(task.ends, self.now + LEASE)))
        else:
            self._move(Task(task.version + 1, task.epoch + 1, who, self.now + LEASE))
        return None

    def _move(self, task: Task) -> None:
        self.task, self.there = task, True
        self.version += 1

    def _holds(self, premise: dict[str, Any], who: str) -> bool:
        if premise["field"] != TASK:
            return bool(premise["version"] == self.values.get(premise["field"], Value()).version)
        if "kind" not in premise:
            return bool(premise["version"] == self.task.version)
        named = premise["epoch"] == self.task.epoch if "epoch" in premise else premise["version"] == self.task.version
        return bool(named and self.task.holder == who)


# --- what is tried ---------------------------------------------------------------------------------------------------

OFF: Final = st.sampled_from([0, 0, 0, -1, 1])
PREMISES: Final = st.lists(
    st.tuples(st.sampled_from(["status", "actions", "read task", "version", "epoch"]), OFF), max_size=2
)
WRITE: Final = st.sampled_from([("status", "open"), ("status", "closed"), ("facts", 1), ("actions", 1), ("actions", 2)])
STEPS: Final = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(ACTORS), st.lists(WRITE, min_size=1, max_size=1), PREMISES),
    st.tuples(
        st.just("put"),
        st.sampled_from(ACTORS),
        st.lists(WRITE, min_size=1, max_size=4, unique_by=lambda write: (write[0], write[0] != "actions" or write[1])),
        PREMISES,
    ),
    st.tuples(st.sampled_from(["claim", "renew", "release"]), st.sampled_from(ACTORS)),
    st.tuples(st.just("wait"), st.sampled_from([timedelta(seconds=10), LEASE])),
    st.just(("delete",)),
)


def premises_of(model: Model, wanted: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return premises that are right, or off by one."""
    fence = {"kind": "fence", "field": TASK}
    now: dict[str, dict[str, Any]] = {
        "read task": {"field": TASK, "version": model.task.version},
        "version": {**fence, "version": model.task.version},
        "epoch": {**fence, "epoch": model.task.epoch},
        **{name: {"field": name, "version": model.values.get(name, Value()).version} for name in ("status", "actions")},
    }
    found = []
    for name, off in wanted:
        key = "epoch" if "epoch" in now[name] else "version"
        found.append({**now[name], key: max(0, now[name][key] + off)})
    return found


@dataclass(frozen=True)
class World:
    """A server on one of the databases, and a clock that only moves with the model's."""

    portal: BlockingPortal
    scene: Scene
    clock: ManualClock
    names: Iterator[int]

    def send(self, who: str, method: str, path: str, body: object) -> httpx.Response:
        return self.portal.call(self.scene.send, who, method, path, body)


@pytest.fixture
def world(database_url: str) -> Iterator[World]:
    clock = ManualClock()
    serving = in_process_server(database_url, clock=clock)
    with start_blocking_portal("asyncio") as portal, portal.wrap_async_context_manager(serving) as server:
        scene = portal.call(incidents, server, database_url)
        yield World(portal, scene, clock, itertools.count())


def done(world: World, record: str, model: Model, step: tuple[Any, ...]) -> tuple[str | None, httpx.Response]:
    """Do `step` in the model and to the record; return what the model expects, and the answer."""
    match step:
        case ("put", who, [(name, value)], wanted):
            premises = premises_of(model, wanted)
            method = "POST" if name == "actions" else "PUT"
            body = {"value": value, "based_on": premises}
            return model.put(who, [(name, value)], premises), world.send(who, method, f"{record}/fields/{name}", body)
        case ("put", who, writes, wanted):
            premises = premises_of(model, wanted)
            several = [{"field": name, "append" if name == "actions" else "put": value} for name, value in writes]
            body = {"writes": several, "based_on": premises}
            return model.put(who, writes, premises), world.send(who, "POST", record, body)
        case ("delete",):
            return model.delete(), world.send("pat", "DELETE", record, {})
        case (verb, who):
            asked = {"claim": {}, "renew": {"renew": True}, "release": {"lease_seconds": 0}}[verb]
            return model.claim(who, verb), world.send(who, "PUT", f"{record}/fields/{TASK}/claim", asked)
        case _:
            raise AssertionError(step)


def compare(world: World, record: str, model: Model) -> None:
    """Assert that the record reads as the model has it."""
    answer = world.send("pat", "GET", record, None)
    assert answer.is_success == model.there, answer.text
    if not model.there:
        return
    told = answer.json()
    values = {name: (each["version"], each.get("value", [])) for name, each in told["fields"].items() if name != TASK}
    assert values == {name: (each.version, each.value) for name, each in model.values.items()}
    assert told["record_version"] == model.version
    task = told["fields"].get(TASK, {"version": 0})
    held = model.task.holder is not None and model.now < model.task.ends
    assert (task["version"], task.get("held", False)) == (model.task.version, held)
    assert task.get("owner") == (f"agent:agent-{model.task.holder}" if model.task.holder else None)


def test_a_record_is_as_its_writes_have_made_it(world: World) -> None:
    @settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(steps=st.lists(STEPS, min_size=5, max_size=14))
    def holds(steps: list[tuple[Any, ...]]) -> None:
        record, model = f"{PAGE}/r{next(world.names)}", Model()
        for step in steps:
            if step[0] == "wait":
                model.now += step[1]
                world.clock.advance(step[1])
                continue
            rows, before = contents(world.scene.url), (model.version, model.task.version, model.task.epoch)
            expected, answer = done(world, record, model, step)
            assert (answer.json().get("error"), answer.is_success) == (expected, expected is None), (step, answer.text)
            assert (model.version, model.task.version, model.task.epoch) >= before
            if expected is not None:
                assert contents(world.scene.url) == rows, step
            compare(world, record, model)

    holds()
