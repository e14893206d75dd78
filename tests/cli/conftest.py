"""A world of the test's own for commands: no setting of anybody's, an empty home folder."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from batonpass.testing.commands import BATON, Baton

WAIT_S_MAX: Final = 30
FOREIGN: Final = ("BATON_", "LC_", "GIT_", "FORCE_COLOR", "CLICOLOR", "NO_COLOR")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return BATON_HOME: a folder that does not exist yet."""
    for name in [name for name in os.environ if name.startswith(FOREIGN)]:
        monkeypatch.delenv(name)
    world = tmp_path / "world"
    world.mkdir()
    (world / ".gitconfig").write_text('[user]\n\tname = "Ada Reader"\n\temail = ada@example.org\n')
    monkeypatch.setenv("HOME", str(world))
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("BATON_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(world)
    return tmp_path / "home"


@pytest.fixture
def baton(home: Path, capsys: pytest.CaptureFixture[str]) -> Baton:
    """Run commands in this process."""
    return Baton(home, capsys.readouterr)


@pytest.fixture
def spawn(home: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run a command as a process of its own, in the same world; keywords are added to its environment."""
    del home

    def run(*argv: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(BATON), *argv],
            env={**os.environ, **environ},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=WAIT_S_MAX,
            check=False,
        )

    return run
