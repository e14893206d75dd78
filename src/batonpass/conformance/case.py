"""Cases: functions that try something on a server and assert what must come out, each marked with its requirements.

A case takes `world`, a corner of the server that is its alone; whatever else it
names is a value of its `each`, or a part that the module's function of that
name makes from the world.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import ModuleType
from typing import Any, Final, TypeVar

from batonpass.conformance.world import World

Function = TypeVar("Function", bound=Callable[..., Any])
_NAMES: Final = "__requirements__"
_EACH: Final = "__each__"


@dataclass(frozen=True)
class Case:
    """One thing to try. `id` is its module and name, with the values it is tried with."""

    id: str
    requirements: tuple[str, ...]
    function: Callable[..., None]
    values: Mapping[str, object] = field(default_factory=dict)

    def run(self, world: World) -> None:
        """Try it; whatever it raises is its failure."""
        module = inspect.getmodule(self.function)
        assert module is not None
        given = {name: self._value(name, world, module) for name in inspect.signature(self.function).parameters}
        self.function(**given)

    def _value(self, name: str, world: World, module: ModuleType) -> object:
        if name in self.values:
            return self.values[name]
        return world if name == "world" else getattr(module, name)(world)


def requirement(*ids: str) -> Callable[[Function], Function]:
    """Mark a function as the case of these requirements."""

    def mark(function: Function) -> Function:
        setattr(function, _NAMES, ids)
        return function

    return mark


def each(name: str, values: Sequence[object]) -> Callable[[Function], Function]:
    """Have a case tried with each of `values` as `name`."""

    def mark(function: Function) -> Function:
        setattr(function, _EACH, [{name: value} for value in values])
        return function

    return mark


@cache
def cases() -> tuple[Case, ...]:
    """Return every case of every module, in the order in which they stand there."""
    package = importlib.import_module("batonpass.conformance.cases")
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return tuple(case for name in names for case in _of(importlib.import_module(f"{package.__name__}.{name}"), name))


def _of(module: ModuleType, name: str) -> Iterator[Case]:
    for called, function in vars(module).items():
        requirements = getattr(function, _NAMES, None)
        if requirements is None:
            continue
        for place, values in enumerate(getattr(function, _EACH, [{}])):
            suffix = f"[{place}]" if values else ""
            yield Case(f"{name}.{called}{suffix}", requirements, function, values)
