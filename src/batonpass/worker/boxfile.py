"""What this box says of dispatches: the keys `dispatch` and `work.harness` of the home's `config.json`.

    {"dispatch": {"repos": {"mail": "~/src/mail"}, "bin": {"codex": "/opt/codex"}, "worktreeSetup": "make deps"}}

Only the home's own file is asked: a checkout, whose text others write, chooses
neither programs nor what they may reach. A file that can't be read as it should
be is `ConfigError`, naming the key; nothing is started on a typo.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from batonpass.client import config
from batonpass.client.config import ConfigError
from batonpass.core.capabilities import Layers, Profile, parse_capabilities
from batonpass.core.errors import Invalid
from batonpass.core.identity import parse_agent_id
from batonpass.core.ids import AgentId
from batonpass.worker.dispatch.hooks import parse_command
from batonpass.worker.harness.base import McpServer

ALLOW_PERSON: Final = "BATON_ALLOW_PERSON_TOKEN"
TRUE: Final = frozenset({"1", "true", "yes", "on"})
FALSE: Final = frozenset({"", "0", "false", "no", "off"})


class _Mcp(msgspec.Struct):
    command: str | list[str]
    env: dict[str, str] = {}


class _Dispatch(msgspec.Struct, rename="camel"):
    agent: str | None = None
    repos: dict[str, str] = {}
    bin: dict[str, str] = {}
    harness: dict[str, Any] = {}
    mcp: dict[str, _Mcp] = {}
    capabilities: dict[str, Any] = {}
    worktree_setup: str | list[str] | None = None
    worktree_teardown: str | list[str] | None = None
    template: str | None = None
    allow_person_token: bool = False


class _Work(msgspec.Struct):
    harness: str | None = None


class _File(msgspec.Struct):
    dispatch: _Dispatch = msgspec.field(default_factory=_Dispatch)
    work: _Work = msgspec.field(default_factory=_Work)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoxFile:
    """What is said there, each with the meaning of its key; paths are whole."""

    agent: AgentId | None = None
    repos: Mapping[str, Path] = field(default_factory=dict)
    binaries: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, object] = field(default_factory=dict)
    mcp: Mapping[str, McpServer] = field(default_factory=dict)
    capabilities: Layers = field(default_factory=Layers)
    set_up: tuple[str, ...] = ()
    tear_down: tuple[str, ...] = ()
    template: Path | None = None
    allow_person: bool = False
    harness: str | None = None

    def servers(self, profile: Profile) -> tuple[McpServer, ...]:
        """Return those tool servers of a profile that this box knows how to start."""
        return tuple(self.mcp[name] for name in profile.mcp if name in self.mcp)


def read(home: Path, environ: Mapping[str, str]) -> BoxFile:
    """Return what the home's configuration says, and `BATON_ALLOW_PERSON_TOKEN`, which goes before it."""
    path = home / config.CONFIG
    try:
        said = msgspec.json.decode(path.read_bytes(), type=_File)
    except FileNotFoundError:
        said = _File()
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: {error}") from error
    try:
        return _box(said, home, environ)
    except Invalid as error:
        raise ConfigError(f"{path}: {error.message}") from error


def _box(said: _File, home: Path, environ: Mapping[str, str]) -> BoxFile:
    dispatch = said.dispatch
    return BoxFile(
        agent=None if dispatch.agent is None else parse_agent_id(dispatch.agent, field="dispatch.agent"),
        repos={slug: _path(folder, home) for slug, folder in dispatch.repos.items()},
        binaries=dispatch.bin,
        declared=dispatch.harness,
        mcp={name: _server(name, server) for name, server in dispatch.mcp.items()},
        capabilities=parse_capabilities(dispatch.capabilities),
        set_up=parse_hook(dispatch.worktree_setup, "dispatch.worktreeSetup"),
        tear_down=parse_hook(dispatch.worktree_teardown, "dispatch.worktreeTeardown"),
        template=None if dispatch.template is None else _path(dispatch.template, home),
        allow_person=_allowed(environ, dispatch.allow_person_token),
        harness=said.work.harness,
    )


def _path(text: str, home: Path) -> Path:
    """Return a path that is whole: one that is not begins at the home folder, wherever the command was started."""
    return home / Path(text).expanduser()


def parse_hook(value: object, field: str) -> tuple[str, ...]:
    """Return a hook's command, empty where there is none."""
    return () if value is None else parse_command(value, field=field)


def _server(name: str, said: _Mcp) -> McpServer:
    return McpServer(name, parse_command(said.command, field=f"dispatch.mcp.{name}.command"), said.env)


def _allowed(environ: Mapping[str, str], configured: bool) -> bool:  # noqa: FBT001 — what the file says
    if (said := environ.get(ALLOW_PERSON)) is None:
        return configured
    if said.lower() not in TRUE | FALSE:
        raise Invalid(f"{ALLOW_PERSON}: {said!r} is neither yes nor no", field=ALLOW_PERSON)
    return said.lower() in TRUE
