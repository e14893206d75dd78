"""Codex, driven by ``codex exec --json``.

Tried with 0.171.0. It tells of its failures in words alone, in
`turn.failed.error.message`; `error` lines that begin with "Reconnecting..."
tell of a try that it repeats, and where nothing listens it does so for ever.
A server that takes the request and never answers is never given up either.

The usage of a thread that was gone on with counts from its very beginning.
It tells no cost, and no denied call: what its sandbox refuses just fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from batonpass.worker.errors import LaunchRefused
from batonpass.worker.harness.base import Command, Failure, Heard, McpServer, Reader, Usage, Wish
from batonpass.worker.harness.events import Event, JsonReader, count_at, id_at, text_at
from batonpass.worker.harness.failures import failure_of, judged

_SETTINGS: Final = (
    "analytics.enabled=false",
    "check_for_update_on_startup=false",
    # A login shell sets PATH anew on many systems, and would not find `baton`.
    "allow_login_shell=false",
)
_UNATTENDED: Final = ("--dangerously-bypass-approvals-and-sandbox",)
_READ_ONLY: Final = ("-c", 'sandbox_mode="read-only"', "-c", 'approval_policy="never"')
_RETRIED: Final = "Reconnecting..."
_TRY_AGAIN: Final = re.compile(r"try again at (\w{3}) (\d{1,2})(?:st|nd|rd|th), (\d{4}) (\d{1,2}:\d\d [AP]M)")
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)


class Codex:
    """The adapter of Codex."""

    id: Final = "codex"
    binary: Final = "codex"

    def command(self, wish: Wish) -> Command:
        """Return how to start it; `LaunchRefused` when a tool server can't be described to it.

        A thread is gone on with in the directory of the process: `resume`
        takes none. Variables of tool servers go through the environment, for
        the arguments can be read by everybody on the box.
        """
        options = (
            "--json",
            "--skip-git-repo-check",
            *(_READ_ONLY if wish.read_only else _UNATTENDED),
            *(("-m", wish.model) if wish.model else ()),
            *_configured(_SETTINGS),
            *_configured(_mcp_settings(wish.mcp)),
        )
        how = ("resume", *options, wish.resume, "-") if wish.resume else (*options, "-C", str(wish.cwd), "-")
        return Command(
            argv=(str(wish.program), "exec", *how),
            environment={"CODEX_SANDBOX": None, "CODEX_SANDBOX_NETWORK_DISABLED": None, **_mcp_variables(wish.mcp)},
            session_id=wish.resume,
        )

    def reader(self) -> Reader:
        """Return a reader for one run."""
        return _Reader()

    def judge(self, heard: Heard, *, code: int | None, signal: str | None, stderr: bytes) -> Failure | None:
        """Return why the run failed, or None when it did not."""
        return judged("codex", heard, code=code, signal=signal, stderr=stderr)


class _Reader(JsonReader):
    def take(self, event: Event) -> None:
        match text_at(event, "type"):
            case "error":
                # Final or not: the next line says so. Until then it is what the last try came to.
                words = text_at(event, "message") or ""
                self.retrying = _failure(words.removeprefix(_RETRIED).strip())
                return
            case "thread.started":
                self.session_id = self.session_id or id_at(event, "thread_id")
            case "item.started":
                if text_at(event, "item", "type") != "agent_message":
                    self.works(id_at(event, "item", "id"))
            case "item.completed":
                self._item(event)
            case "turn.completed":
                self._completed(event)
            case "turn.failed":
                self.gives_up(_failure(text_at(event, "error", "message") or ""))
            case _:
                pass
        if not self.is_over:
            self.lives()

    def _item(self, event: Event) -> None:
        match text_at(event, "item", "type"):
            case "agent_message":
                self.says(text_at(event, "item", "text"))
            case "error":
                return
            case "reasoning" | "todo_list":
                pass
            case _:
                self.works()
        self.steps += 1
        self.open_tools.discard(id_at(event, "item", "id") or "")

    def _completed(self, event: Event) -> None:
        self.usage = Usage(
            input=count_at(event, "usage", "input_tokens"),
            output=count_at(event, "usage", "output_tokens"),
            cached=count_at(event, "usage", "cached_input_tokens"),
            reasoning=count_at(event, "usage", "reasoning_output_tokens"),
        )
        self.finishes()


def _failure(words: str) -> Failure:
    return failure_of(words or "codex gave no reason", retry_at=_retry_at(words))


def _retry_at(words: str) -> datetime | None:
    """Return when a plan's limit ends; it is told in the time zone of this box."""
    found = _TRY_AGAIN.search(words)
    if found is None:
        return None
    try:
        return datetime.strptime(" ".join(found.groups()), "%b %d %Y %I:%M %p").astimezone()
    except (ValueError, OverflowError):
        return None


def _configured(settings: Iterable[str]) -> Iterator[str]:
    for setting in settings:
        yield from ("-c", setting)


def _mcp_settings(servers: tuple[McpServer, ...]) -> Iterator[str]:
    for server in servers:
        if not _NAME.fullmatch(server.name):
            raise LaunchRefused(f"codex can't be told of a tool server called {server.name!r}: use A-Z, a-z, 0-9, _, -")
        command, *args = (_toml(part) for part in server.command)
        names = ",".join(_toml(name) for name in sorted(server.environment))
        yield f"mcp_servers.{server.name}={{command={command},args=[{','.join(args)}],env_vars=[{names}]}}"


def _mcp_variables(servers: tuple[McpServer, ...]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for server in servers:
        for name, value in server.environment.items():
            if variables.setdefault(name, value) != value:
                raise LaunchRefused(f"codex can't be told of two tool servers that differ in {name}")
    return variables


def _toml(text: str) -> str:
    """Return `text` as a basic string of TOML: JSON's form, but for a character it leaves and TOML does not."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
