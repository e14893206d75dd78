"""Which agent programs this box may run, and which binary each of them is.

Which program is started is the box's word alone: a variable that names the
binary, or else `dispatch.bin.<id>` in the home's configuration, or else the
first on PATH. Neither the graph nor a checkout is asked, and a folder of PATH
that is not absolute is passed over, since that would be the checkout's word.
What was named and isn't there is refused: nothing else takes its place.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from batonpass.core.errors import Invalid
from batonpass.worker import environment, proc
from batonpass.worker.errors import LaunchRefused, NotStarted, TimedOut
from batonpass.worker.harness.base import Harness
from batonpass.worker.harness.claude_code import ClaudeCode
from batonpass.worker.harness.codex import Codex
from batonpass.worker.harness.copilot import Copilot
from batonpass.worker.harness.declared import declared
from batonpass.worker.harness.gemini import Gemini
from batonpass.worker.harness.opencode import OpenCode
from batonpass.worker.record import PLAIN

VERSION_TIMEOUT_S: Final = 20.0
"""How long a program may take to say its version; the slowest known takes 2 s on an idle machine."""
VERSION_CHARS_MAX: Final = 80
BUILT_IN: Final[tuple[Harness, ...]] = (ClaudeCode(), Codex(), OpenCode(), Copilot(), Gemini())
"""The adapters we bring, in the order they are listed to people."""
_OVERRIDES: Final = {
    "claude-code": "BATON_CLAUDE_CMD",
    "codex": "BATON_CODEX_CMD",
    "opencode": "BATON_OPENCODE_CMD",
    "copilot": "BATON_COPILOT_CMD",
    "gemini": "BATON_GEMINI_CMD",
}
_VERSION: Final = re.compile(r"\b\d+\.\d+[\w.+-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """What this box says of agent programs.

    `binaries` is `dispatch.bin` and `declared` is `dispatch.harness`, both of
    the home's configuration only; `environ` is what the worker was started
    with. `Invalid` when a harness is described wrongly, or has a name that is
    taken.
    """

    environ: Mapping[str, str]
    binaries: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a wrong description at once: a worker must not start on a typo."""
        for name, description in self.declared.items():
            harness(name, description)


@dataclass(frozen=True, slots=True)
class Found:
    """A harness and the binary that it is here; `source` says in whose words: a variable, a key, or PATH.

    `description` is what the configuration says of a harness that is not one
    of ours: with it and its id, `harness` makes the same one elsewhere.
    """

    harness: Harness
    program: Path
    source: str
    description: object | None = None


def harness(name: str, description: object | None = None) -> Harness:
    """Return the adapter called `name`: one of ours, or the one that `description` describes.

    `LaunchRefused` when there is none of that name, `Invalid` when the
    description is wrong or describes a name that is taken.
    """
    if description is None:
        ours = _ours().get(name)
        if ours is None:
            raise LaunchRefused(f"there is no harness {name!r}; we bring {', '.join(_ours())}")
        return ours
    if name in _ours() or name == PLAIN:
        raise Invalid(
            f"dispatch.harness.{name}: this name has a meaning already; take another", field=f"dispatch.harness.{name}"
        )
    return declared(name, description)


def known(box: Box) -> tuple[str, ...]:
    """Return the ids of every harness this box could be told to run, installed or not."""
    return (*_ours(), *box.declared)


def resolve(name: str, box: Box) -> Found:
    """Return the harness `name` and its binary; `LaunchRefused` says which part is missing, and what would do."""
    if name not in known(box):
        raise LaunchRefused(f"there is no harness {name!r}; known are {', '.join(known(box))}")
    found = _found(name, box)
    if found is None:
        told, source = _told(harness(name, box.declared.get(name)), box)
        way_out = _OVERRIDES.get(name, f"dispatch.bin.{name}")
        missing = f"no {told} on PATH" if source == "PATH" else f"{told} ({source}) is no program on this box"
        raise LaunchRefused(f"{name}: {missing}; install it, or name its binary with {way_out}")
    return found


def installed(box: Box) -> tuple[Found, ...]:
    """Return every known harness whose binary is here, in the order of `known`."""
    return tuple(found for found in (_found(name, box) for name in known(box)) if found is not None)


def only(box: Box) -> Found:
    """Return the only harness that is installed here; `LaunchRefused` when there are several, listing them, or none."""
    match installed(box):
        case (found,):
            return found
        case ():
            raise LaunchRefused(
                f"no agent program is installed here (looked for {', '.join(known(box))}); "
                "name a command after --, or install one and name it with --harness"
            )
        case several:
            names = ", ".join(f"{found.harness.id} ({found.program})" for found in several)
            raise LaunchRefused(f"several agent programs are installed here: {names}; name one with --harness")


def version(found: Found, environ: Mapping[str, str]) -> str | None:
    """Return the version that a program tells, such as ``0.171.0``; None when it tells none in time.

    It is asked in the root folder, where no checkout's settings apply, and its
    exit code does not matter: what counts is whether it names a version.
    """
    try:
        told = proc.run(
            (str(found.program), "--version"),
            cwd=Path("/"),
            environment=environment.plain(environ),
            timeout_s=VERSION_TIMEOUT_S,
        )
    except (NotStarted, TimedOut):
        return None
    named = _VERSION.search(told.out.decode(errors="replace"))
    return None if named is None else named[0][:VERSION_CHARS_MAX]


def _ours() -> dict[str, Harness]:
    return {adapter.id: adapter for adapter in BUILT_IN}


def _found(name: str, box: Box) -> Found | None:
    description = box.declared.get(name)
    adapter = harness(name, description)
    told, source = _told(adapter, box)
    program = _located(told, box.environ)
    return None if program is None else Found(adapter, program, source, description)


def _told(adapter: Harness, box: Box) -> tuple[str, str]:
    """Return what the box calls the binary of `adapter`, and where it says so."""
    variable = _OVERRIDES.get(adapter.id)
    if variable is not None and (named := box.environ.get(variable)):
        return named, variable
    if (named := box.binaries.get(adapter.id)) is not None:
        return named, f"dispatch.bin.{adapter.id}"
    return adapter.binary, "PATH" if adapter.id in _OVERRIDES else f"dispatch.harness.{adapter.id}.command"


def _located(told: str, environ: Mapping[str, str]) -> Path | None:
    """Return the program that `told` means, absolute: a path is one, a bare name is looked up on PATH."""
    told = os.path.expanduser(told) if told.startswith("~/") else told  # noqa: PTH111 — a path is kept as it is written
    if os.sep in told:
        if not os.path.isabs(told):  # noqa: PTH117
            return None
        return Path(told) if os.access(told, os.X_OK) and os.path.isfile(told) else None  # noqa: PTH113
    folders = [part for part in environ.get("PATH", os.defpath).split(os.pathsep) if Path(part).is_absolute()]
    # None would ask the PATH of this process; an empty one finds nothing, as it should.
    found = shutil.which(told, path=os.pathsep.join(folders) or os.devnull)
    return None if found is None else Path(found)
