"""OpenCode, driven by ``opencode run --format json``.

Tried with 1.18.33. Its errors carry the status of HTTP, the headers and the
body of the service's answer. It repeats a failed request for some 90 s without
a word, and it writes about a tool only when that is over: silence is no sign
that it hangs. When a service breaks off its answers, it asks again without
end: such steps are no progress, and `Heard.steps` counts them.

It gets a configuration file of ours, which stands below the box's own
`OPENCODE_CONFIG_CONTENT` and takes the place of its `OPENCODE_CONFIG`.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

from batonpass.worker.harness.base import Command, Failure, Heard, McpServer, Reader, Trouble, Usage, Wish
from batonpass.worker.harness.events import Event, JsonReader, count_at, event_of, id_at, number_at, status_at, text_at
from batonpass.worker.harness.failures import in_short, judged, moment_of, trouble_of

CONFIG_FILE: Final = "opencode.json"
TITLE: Final = "batonpass"
"""A title of our own: it would ask the model for one."""
_READ_ONLY_PERMISSION: Final = json.dumps({"edit": "deny", "bash": "deny"})


class OpenCode:
    """The adapter of OpenCode."""

    id: Final = "opencode"
    binary: Final = "opencode"

    def command(self, wish: Wish) -> Command:
        """Return how to start it.

        A session is gone on with where it began, whatever `--dir` says; told
        to do so from elsewhere it prints nothing and never ends.
        """
        config = wish.folder / CONFIG_FILE
        return Command(
            argv=(
                str(wish.program),
                "run",
                *("--format", "json"),
                *("--dir", str(wish.cwd)),
                # Allows what nothing denies; it would refuse what it can't ask about.
                "--auto",
                *(("--agent", "plan") if wish.read_only else ()),
                *(("-m", wish.model) if wish.model else ()),
                *(("--session", wish.resume) if wish.resume else ("--title", TITLE)),
            ),
            environment={
                "OPENCODE_CONFIG": str(config),
                "OPENCODE_DISABLE_AUTOUPDATE": "1",
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                # It asks this variable where it is, not the system.
                "PWD": str(wish.cwd),
                **({"OPENCODE_PERMISSION": _READ_ONLY_PERMISSION} if wish.read_only else {}),
            },
            files={config: _config(wish.mcp)},
            session_id=wish.resume,
        )

    def reader(self) -> Reader:
        """Return a reader for one run."""
        return _Reader()

    def judge(self, heard: Heard, *, code: int | None, signal: str | None, stderr: bytes) -> Failure | None:
        """Return why the run failed, or None when it did not."""
        return judged("opencode", heard, code=code, signal=signal, stderr=stderr)


class _Reader(JsonReader):
    def __init__(self) -> None:
        super().__init__()
        self._was_cut_off = False
        self._has_step_text = False

    def take(self, event: Event) -> None:
        self.session_id = self.session_id or id_at(event, "sessionID")
        match text_at(event, "type"):
            case "step_start":
                self._has_step_text = False
                if self._was_cut_off:
                    return
            case "text":
                self._text(event)
            case "tool_use":
                self.works()
                self.denied += _is_denied(event)
            case "step_finish":
                self._step(event)
                return
            case "error":
                self.gives_up(_failure(event))
                return
            case _:
                pass
        self.lives()

    def _text(self, event: Event) -> None:
        if self._has_step_text:
            self.goes_on_saying(text_at(event, "part", "text"))
        else:
            self.says(text_at(event, "part", "text"))
        self._has_step_text = True

    def _step(self, event: Event) -> None:
        self.steps += 1
        before = self.usage or Usage()
        cached = count_at(event, "part", "tokens", "cache", "read")
        self.usage = Usage(
            input=before.input
            + count_at(event, "part", "tokens", "input")
            + cached
            + count_at(event, "part", "tokens", "cache", "write"),
            output=before.output + count_at(event, "part", "tokens", "output"),
            cached=before.cached + cached,
            reasoning=before.reasoning + count_at(event, "part", "tokens", "reasoning"),
        )
        if (cost := number_at(event, "part", "cost")) is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        reason = text_at(event, "part", "reason")
        self._was_cut_off = reason == "unknown"
        if self._was_cut_off:
            self.retrying = Failure(Trouble.NETWORK, "the model's answer broke off")
            return
        self.lives()
        if reason == "stop":
            self.finishes()
        else:
            # Whatever it said before it was not over, and neither is what failed.
            self.is_over = False


def _failure(event: Event) -> Failure:
    name = text_at(event, "error", "name") or "error"
    said = text_at(event, "error", "data", "message") or name
    body = text_at(event, "error", "data", "responseBody") or ""
    trouble = trouble_of(f"{said} {body} {name}", status=status_at(event, "error", "data", "statusCode"))
    return Failure(trouble, in_short(said), _retry_at(event, body))


def _retry_at(event: Event, body: str) -> datetime | None:
    """Return when the service may be asked again: as its answer says, or as many seconds after the event as it says."""
    answer = event_of(body.encode("utf-8", "replace")) or {}
    moment = number_at(answer, "error", "resets_at") or _header(event, "anthropic-ratelimit-unified-reset")
    if moment is not None:
        return moment_of(moment)
    seconds, told_ms = _header(event, "retry-after"), number_at(event, "timestamp")
    return moment_of(told_ms / 1000 + seconds) if seconds is not None and told_ms is not None else None


def _header(event: Event, name: str) -> float | None:
    written = text_at(event, "error", "data", "responseHeaders", name) or ""
    return float(written) if written.isascii() and written.isdigit() and len(written) <= 12 else None  # noqa: PLR2004


def _is_denied(event: Event) -> bool:
    """Whether a tool was not allowed to run, as the program itself says."""
    words = (text_at(event, "part", "state", "error") or "").lower()
    is_error = text_at(event, "part", "state", "status") == "error"
    return is_error and ("rejected permission" in words or "rule which prevents" in words)


def _config(servers: tuple[McpServer, ...]) -> bytes:
    described = {
        server.name: {
            "type": "local",
            "command": list(server.command),
            "environment": dict(server.environment),
            "enabled": True,
        }
        for server in servers
    }
    return json.dumps({"autoupdate": False, "share": "disabled", **({"mcp": described} if described else {})}).encode()
