"""Soaks: crowds around real servers, for some seconds each in the suite, for a minute with ``BATON_SOAK=whole``.

`just soak` runs the whole of them and prints their figures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a soak is run."""

    whole: bool

    def of(self, short: int, whole: int) -> int:
        """Return one of two numbers."""
        return whole if self.whole else short


@pytest.fixture(scope="session")
def size() -> Size:
    """Short, unless the whole was asked for."""
    return Size(os.environ.get("BATON_SOAK") == "whole")


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Callable[[object], None]:
    """Print a figure under the test's name; it is seen with ``-s``."""

    def write(figure: object) -> None:
        sys.stdout.write(f"\n{request.node.name}: {figure}\n")

    return write
