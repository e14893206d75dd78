"""Claude Code, driven by ``claude -p`` with a stream of JSON lines.

Tried with 2.1.332 and 2.1.197. Its failures are structured: `assistant.error`
names the kind, `result.api_error_status` the status of HTTP. `subtype` is
"success" for failures of the service too: only `is_error` counts.

Of a session that was gone on with, `usage` is this run's alone, but the cost
is the whole session's in newer versions, and this run's in older ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from batonpass.worker.harness.base import Command, Failure, Heard, McpServer, Reader, Trouble, Usage, Wish
from batonpass.worker.harness.events import (
    Event,
    JsonReader,
    count_at,
    id_at,
    number_at,
    objects_at,
    status_at,
    text_at,
    value_at,
)
from batonpass.worker.harness.failures import failure_of, in_short, judged, moment_of, trouble_of

RETRIES_MAX: Final = 3
"""How often one request is repeated: some ten seconds. The default takes three minutes, with a wrong key too."""
MCP_FILE: Final = "mcp.json"

_ENVIRONMENT: Final[Mapping[str, str | None]] = {
    "CLAUDE_CODE_MAX_RETRIES": str(RETRIES_MAX),
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    # As root it works unattended only where it is told that it can do no harm.
    "IS_SANDBOX": "1",
    # A worker that was itself started by an agent hands nothing of that session down.
    "CLAUDECODE": None,
    "CLAUDE_CODE_ENTRYPOINT": None,
    "CLAUDE_CODE_SSE_PORT": None,
}
_UNATTENDED: Final = ("--dangerously-skip-permissions",)
_READ_ONLY: Final = ("--permission-mode", "plan", "--disallowed-tools", "Bash,Edit,Write,NotebookEdit")
_KINDS: Final = {
    "authentication_failed": Trouble.AUTH,
    "oauth_org_not_allowed": Trouble.AUTH,
    "billing_error": Trouble.CREDIT,
    "rate_limit": Trouble.RATE_LIMIT,
    "overloaded": Trouble.OVERLOADED,
    "model_not_found": Trouble.MODEL,
}
_CONNECTION_FAILED: Final = "connection_failed"
_RESETS: Final = re.compile(r"resets (\d{1,2})(?::(\d\d))? ?(am|pm) \(([\w/+-]+)\)", re.IGNORECASE)
_RESETS_AT: Final = re.compile(r"limit reached\|(\d{9,11})\b")


class ClaudeCode:
    """The adapter of Claude Code."""

    id: Final = "claude-code"
    binary: Final = "claude"

    def command(self, wish: Wish) -> Command:
        """Return how to start it."""
        session = ("--resume", wish.resume) if wish.resume else ("--session-id", wish.session)
        mcp_file = wish.folder / MCP_FILE
        return Command(
            argv=(
                str(wish.program),
                "-p",
                *("--output-format", "stream-json", "--verbose"),
                *(_READ_ONLY if wish.read_only else _UNATTENDED),
                *(("--model", wish.model) if wish.model else ()),
                *session,
                *(("--mcp-config", str(mcp_file), "--strict-mcp-config") if wish.mcp else ()),
            ),
            environment=_ENVIRONMENT,
            files={mcp_file: _mcp_config(wish.mcp)} if wish.mcp else {},
            session_id=wish.resume or wish.session,
        )

    def reader(self) -> Reader:
        """Return a reader for one run."""
        return _Reader()

    def judge(self, heard: Heard, *, code: int | None, signal: str | None, stderr: bytes) -> Failure | None:
        """Return why the run failed, or None when it did not."""
        return judged("claude", heard, code=code, signal=signal, stderr=stderr)


class _Reader(JsonReader):
    def __init__(self) -> None:
        super().__init__()
        self._last_message: str | None = None
        self._kind: str | None = None
        self._written_at: datetime | None = None

    def take(self, event: Event) -> None:
        self.session_id = self.session_id or id_at(event, "session_id")
        match text_at(event, "type"), text_at(event, "subtype"):
            case "system", "api_retry":
                self.retrying = _retried(event)
                return
            case "system", "permission_denied":
                self.denied += 1
            case "assistant", _:
                self._assistant(event)
            case "user", _:
                self._tool_results(event)
            case "result", subtype:
                self._result(event, subtype or "")
            case _:
                pass
        if not self.is_over:
            self.lives()

    def _assistant(self, event: Event) -> None:
        if (kind := text_at(event, "error")) is not None:
            self._kind = kind
            self._written_at = _moment(text_at(event, "timestamp"))
            return
        if value_at(event, "parent_tool_use_id") is not None:
            return  # a helper of the agent speaks, not the agent
        message = id_at(event, "message", "id")
        is_new = message is None or message != self._last_message
        self._last_message = message
        self.steps += is_new
        for block in objects_at(event, "message", "content"):
            match text_at(block, "type"):
                case "text" if is_new:
                    self.says(text_at(block, "text"))
                    is_new = False
                case "text":
                    self.goes_on_saying(text_at(block, "text"))
                case "tool_use":
                    self.works(id_at(block, "id"))
                case _:
                    pass

    def _tool_results(self, event: Event) -> None:
        for block in objects_at(event, "message", "content"):
            self.open_tools.discard(id_at(block, "tool_use_id") or "")

    def _result(self, event: Event, subtype: str) -> None:
        self.usage = Usage(
            input=count_at(event, "usage", "input_tokens")
            + count_at(event, "usage", "cache_read_input_tokens")
            + count_at(event, "usage", "cache_creation_input_tokens"),
            output=count_at(event, "usage", "output_tokens"),
            cached=count_at(event, "usage", "cache_read_input_tokens"),
            reasoning=count_at(event, "usage", "output_tokens_details", "thinking_tokens"),
        )
        self.cost_usd = number_at(event, "total_cost_usd")
        self.denied = max(self.denied, len(objects_at(event, "permission_denials")))
        match value_at(event, "is_error"):
            case False:
                self._good_result(event)
            case True:
                self.gives_up(self._failure(event, subtype))
            case _:
                pass  # without it, whose words these are is unknown

    def _good_result(self, event: Event) -> None:
        text = text_at(event, "result")
        if text:
            self.says(text)
        self.finishes()

    def _failure(self, event: Event, subtype: str) -> Failure:
        """Return what a result that is an error says, with what the message before it said of its kind."""
        words = text_at(event, "result") or "; ".join(_texts(value_at(event, "errors"))) or subtype
        if subtype in {"error_max_turns", "error_max_budget_usd"}:
            return Failure(Trouble.TURNS, in_short(words))
        if text_at(event, "terminal_reason") == "prompt_too_long":
            return Failure(Trouble.CONTEXT, in_short(words))
        if text_at(event, "api_error") == _CONNECTION_FAILED:
            return Failure(Trouble.NETWORK, in_short(words))
        by_words = trouble_of(words, status=status_at(event, "api_error_status"))
        trouble = by_words if by_words is Trouble.USAGE_LIMIT else _KINDS.get(self._kind or "", by_words)
        return Failure(trouble, in_short(words), _retry_at(words, self._written_at))


def _retried(event: Event) -> Failure:
    status, kind = status_at(event, "error_status"), text_at(event, "error") or "unknown"
    words = f"{kind} (HTTP {status})" if status else kind
    if kind in _KINDS:
        return Failure(_KINDS[kind], words)
    # What has no status got no answer.
    return failure_of(words, status=status) if status else Failure(Trouble.NETWORK, words)


def _retry_at(words: str, written_at: datetime | None) -> datetime | None:
    """Return when a limit that `words` tell of ends: a moment, or a time of day, the first after they were written."""
    if (moment := _RESETS_AT.search(words)) is not None:
        return moment_of(float(moment[1]))
    found = _RESETS.search(words)
    if found is None or written_at is None:
        return None
    hour, minute, half, zone_name = found.groups()
    try:
        here = written_at.astimezone(ZoneInfo(zone_name))
        then = here.replace(
            hour=int(hour) % 12 + (12 if half.lower() == "pm" else 0), minute=int(minute or 0), second=0, microsecond=0
        )
        return (then if then > here else then + timedelta(days=1)).astimezone(UTC)
    except (ValueError, OverflowError, ZoneInfoNotFoundError):
        return None


def _moment(written: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(written or "")
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _mcp_config(servers: tuple[McpServer, ...]) -> bytes:
    described = {server.name: {"type": "stdio", **server.described()} for server in servers}
    return json.dumps({"mcpServers": described}).encode()
