"""Gemini's command line, driven by its stream of JSON lines.

Tried with 0.61.0. Its exit code is a status of HTTP modulo 256, so 144 and 147
are no signals, and it can be 0 though `result.status` is "error": only the
result counts. What it repeats stands on its standard error alone, so silence
is no sign that it hangs. It tells no cost.

It reads the settings that we give it only where they belong to root, for they
are a system's; elsewhere it passes them over with a warning, and repeats a
request as often as its user's settings say. Tool servers need settings it does
read: then it gets a home of its own, which has no login and no sessions, and
its key must come from the environment.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from batonpass.worker.errors import LaunchRefused
from batonpass.worker.harness.base import Command, Failure, Heard, Reader, Trouble, Usage, Wish
from batonpass.worker.harness.events import Event, JsonReader, count_at, event_of, id_at, status_at, text_at
from batonpass.worker.harness.failures import failure_of, in_short, judged, trouble_of

if TYPE_CHECKING:
    from pathlib import Path

ATTEMPTS_MAX: Final = 3
"""How often one request is sent at most: some ten seconds; the default of ten takes minutes."""
SETTINGS_FILE: Final = "gemini-settings.json"
HOME: Final = "gemini-home"

_SETTINGS: Final = {
    "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False, "maxAttempts": ATTEMPTS_MAX},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
}
_CODES: Final = {
    41: Trouble.AUTH,
    42: Trouble.CONFIG,
    44: Trouble.CONFIG,
    52: Trouble.CONFIG,
    53: Trouble.TURNS,
    55: Trouble.CONFIG,
}
_STATUSES: Final = {status % 256: status for status in (400, 401, 402, 403, 404, 408, 413, 429, 500, 502, 503, 504)}
_API_ERROR: Final = re.compile(r"\[API Error: (.*)\](?:\n.*)?", re.DOTALL)


class Gemini:
    """The adapter of Gemini's command line."""

    id: Final = "gemini"
    binary: Final = "gemini"

    def command(self, wish: Wish) -> Command:
        """Return how to start it; `LaunchRefused` where a session is to go on with tool servers.

        It works in the directory of its process, and goes on with a session
        only in the one that began it.
        """
        if wish.mcp and wish.resume:
            raise LaunchRefused(
                "gemini can't go on with a session and be handed tool servers: see docs/howto/harnesses.md"
            )
        environment, files = _private_home(wish) if wish.mcp else _system_settings(wish)
        return Command(
            argv=(
                str(wish.program),
                *("--output-format", "stream-json"),
                *(("--approval-mode", "plan") if wish.read_only else ("--yolo",)),
                "--skip-trust",
                *(("-m", wish.model) if wish.model else ()),
                *(("--resume", wish.resume) if wish.resume else ("--session-id", wish.session)),
            ),
            environment={
                "GEMINI_CLI_TRUST_WORKSPACE": "true",
                # It would start itself once more, and the second would not hear a signal to the first.
                "GEMINI_CLI_NO_RELAUNCH": "true",
                **environment,
            },
            files=files,
            session_id=wish.resume or wish.session,
        )

    def reader(self) -> Reader:
        """Return a reader for one run."""
        return _Reader()

    def judge(self, heard: Heard, *, code: int | None, signal: str | None, stderr: bytes) -> Failure | None:
        """Return why the run failed, or None when it did not; stopped by a signal it may end with 0."""
        failure = judged("gemini", heard, code=code, signal=signal, stderr=stderr)
        if failure is None or heard.failure is not None or failure.trouble not in {Trouble.OTHER, Trouble.CONFIG}:
            return failure
        return replace(failure, trouble=_of_code(code, failure))


class _Reader(JsonReader):
    def __init__(self) -> None:
        super().__init__()
        self._is_speaking = False
        self._error = ""

    def take(self, event: Event) -> None:
        kind = text_at(event, "type")
        is_delta = kind == "message" and text_at(event, "role") == "assistant"
        match kind:
            case "init":
                self.session_id = self.session_id or id_at(event, "session_id")
            case "message" if is_delta:
                self._speaks(event)
            case "tool_use":
                self.steps += 1
                self.works(id_at(event, "tool_id"))
            case "tool_result":
                self.open_tools.discard(id_at(event, "tool_id") or "")
                self.works()
                self.denied += _is_denied(event)
            case "error":
                self._error = text_at(event, "message") or self._error
                return
            case "result":
                self._result(event)
                return
            case _:
                pass
        self._is_speaking = is_delta
        self.lives()

    def _speaks(self, event: Event) -> None:
        if self._is_speaking:
            self.goes_on_saying(text_at(event, "content"))
        else:
            self.says(text_at(event, "content"))
            self.steps += 1

    def _result(self, event: Event) -> None:
        self.usage = Usage(
            input=count_at(event, "stats", "input_tokens"),
            output=count_at(event, "stats", "output_tokens"),
            cached=count_at(event, "stats", "cached"),
        )
        if text_at(event, "status") == "success":
            self.finishes()
        else:
            self.gives_up(_failure(text_at(event, "error", "message") or self._error))


def _failure(words: str) -> Failure:
    """Return what the words of a result that is an error mean; they hold the service's answer, as JSON or as text."""
    quoted = _API_ERROR.fullmatch(words)
    if quoted is None:
        return failure_of(words or "gemini gave no reason")
    answer = event_of(quoted[1].encode("utf-8", "replace"))
    if answer is None:
        # Behind the service's words stands the program's advice, on keys and logins whatever it was.
        return failure_of(quoted[1])
    trouble = trouble_of(quoted[1], status=status_at(answer, "error", "code"))
    return Failure(trouble, in_short(text_at(answer, "error", "message") or words))


def _of_code(code: int | None, failure: Failure) -> Trouble:
    """Return what an exit code means where nothing else was said."""
    if code in _CODES:
        return _CODES[code]
    return trouble_of("", status=_STATUSES[code]) if code in _STATUSES else failure.trouble


def _is_denied(event: Event) -> bool:
    """Whether a tool was not allowed to run, as the program itself says."""
    return text_at(event, "status") == "error" and text_at(event, "error", "type") in {
        "policy_violation",
        "permission_denied",
    }


def _system_settings(wish: Wish) -> tuple[dict[str, str], dict[Path, bytes]]:
    path = wish.folder / SETTINGS_FILE
    return {"GEMINI_CLI_SYSTEM_SETTINGS_PATH": str(path)}, {path: json.dumps(_SETTINGS).encode()}


def _private_home(wish: Wish) -> tuple[dict[str, str], dict[Path, bytes]]:
    home = wish.folder / HOME
    settings = {**_SETTINGS, "mcpServers": {server.name: {**server.described(), "trust": True} for server in wish.mcp}}
    return {"GEMINI_CLI_HOME": str(home)}, {home / ".gemini" / "settings.json": json.dumps(settings).encode()}
