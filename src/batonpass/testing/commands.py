"""Commands as they are typed, run in the test's own process, with what they print as values."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from batonpass.cli.main import main

BATON: Final = Path(sys.executable).with_name("baton")
"""The installed command, for tests that need a process."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:  # noqa: ANN401 — a document of any shape
        """The one JSON document on standard output; anything besides it is an error."""
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class Baton:
    """Runs commands in this process; `printed` returns and forgets what was written to output and error."""

    home: Path
    printed: Callable[[], tuple[str, str]]

    def __call__(self, *argv: str) -> Ran:
        """Run one command, however it ends."""
        self.printed()
        code = main(argv)
        out, err = self.printed()
        return Ran(code, out, err)

    def ok(self, *argv: str) -> Ran:
        """Run one command that must end well."""
        ran = self(*argv)
        assert ran.code == 0, f"baton {' '.join(argv)}: {ran}"
        return ran

    def json(self, *argv: str) -> Any:  # noqa: ANN401 — a document of any shape
        """Run one command that must end well, and return the document it printed."""
        return self.ok(*argv, "--json").json

    def task(self, name: str, *options: str) -> str:
        """Add a task of the project `demo`, and return its id."""
        self.ok("add", name, "--id", f"task-{name}", "--project", "demo", *options)
        return f"task-{name}"

    @contextmanager
    def as_agent(self, label: str) -> Iterator[None]:
        """Run what is in the block as the agent `label` of the same person, made if need be."""
        self("agent", "add", label)
        token = self.json("agent", "token", f"agent-{label}", "--standing")["token"]
        with self.under(token):
            yield

    @contextmanager
    def under(self, token: str) -> Iterator[None]:
        """Run what is in the block under `token`."""
        os.environ["BATON_TOKEN"] = token
        try:
            yield
        finally:
            del os.environ["BATON_TOKEN"]
