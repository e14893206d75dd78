"""GitHub Copilot's command line, driven by its JSON output.

Tried with 1.0.102, with models of one's own. `session.error` names the kind of
a failure and the status of HTTP; that the money is gone arrives as a rate
limit, and only its words tell. It repeats a request five times, up to a minute,
and no setting changes that. What it used stands in a file that it leaves.

What npm installs as `copilot` starts the program and hands no signal on: where
`copilot-linux-x64` beside it is named instead, stopping it is quicker.
"""

from __future__ import annotations

import json
from typing import Final

from batonpass.worker.harness.base import Command, Failure, Heard, McpServer, Reader, Trouble, Usage, Wish
from batonpass.worker.harness.events import (
    Event,
    JsonReader,
    count_at,
    id_at,
    object_at,
    objects_at,
    status_at,
    text_at,
    value_at,
)
from batonpass.worker.harness.failures import failure_of, in_short, judged, trouble_of

MCP_FILE: Final = "copilot-mcp.json"
USAGE_FILE: Final = "copilot-usage.json"

_KINDS: Final = {"rate_limit": Trouble.RATE_LIMIT, "authentication": Trouble.AUTH, "quota": Trouble.CREDIT}
_NO_PROGRESS: Final = frozenset(
    {
        # Each try brings these, one that fails too.
        "model.call_start",
        "model.call_finished",
        "assistant.turn_retry",
        "session.info",
        "session.warning",
        # It says these without anything going on.
        "session.background_tasks_changed",
        "assistant.idle",
    }
)


class Copilot:
    """The adapter of GitHub Copilot's command line."""

    id: Final = "copilot"
    binary: Final = "copilot"

    def command(self, wish: Wish) -> Command:
        """Return how to start it; a session is gone on with in the directory it began in."""
        mcp_file, usage_file = wish.folder / MCP_FILE, wish.folder / USAGE_FILE
        return Command(
            argv=(
                str(wish.program),
                *("-C", str(wish.cwd)),
                *("--output-format", "json", "--stream", "off", "--no-color"),
                *("--allow-all", "--no-ask-user"),
                # Denials win over what is allowed.
                *(("--deny-tool=write", "--deny-tool=shell") if wish.read_only else ()),
                *("--no-auto-update", "--disable-client-telemetry", "--disable-builtin-mcps"),
                *("--usage-output-file", str(usage_file)),
                *(("--model", wish.model) if wish.model else ()),
                *(("--additional-mcp-config", f"@{mcp_file}") if wish.mcp else ()),
                *((f"--resume={wish.resume}",) if wish.resume else ("--session-id", wish.session)),
            ),
            files={mcp_file: _mcp_config(wish.mcp)} if wish.mcp else {},
            session_id=wish.resume or wish.session,
            told_later=(usage_file,),
        )

    def reader(self) -> Reader:
        """Return a reader for one run."""
        return _Reader()

    def judge(self, heard: Heard, *, code: int | None, signal: str | None, stderr: bytes) -> Failure | None:
        """Return why the run failed, or None when it did not; stopped by a signal it may end with 0."""
        return judged("copilot", heard, code=code, signal=signal, stderr=stderr)


class _Reader(JsonReader):
    def __init__(self) -> None:
        super().__init__()
        self._error: Failure | None = None
        self._was_broken_off = False

    def take(self, event: Event) -> None:
        kind = text_at(event, "type")
        match kind:
            case None:
                self._usage(event)
                return
            case "model.call_failure":
                self.retrying = _failed_call(event)
                return
            case "session.error":
                self._error = _failure(event)
                self.failure = self._error
                return
            case "assistant.turn_start":
                self.steps += 1
            case "assistant.message":
                self._message(event)
            case "tool.execution_start" | "tool.execution_complete":
                self._tool(event, is_over=kind == "tool.execution_complete")
            case "abort":
                self.says(None)
                self._was_broken_off = True
            case "result":
                self._result(event)
                return
            case _:
                pass
        if kind not in _NO_PROGRESS:
            self.lives()

    def _message(self, event: Event) -> None:
        # It went on after whatever had failed.
        self._error = self.failure = None
        if objects_at(event, "data", "toolRequests"):
            self.works()
        else:
            self.says(text_at(event, "data", "content"))

    def _tool(self, event: Event, *, is_over: bool) -> None:
        call = id_at(event, "data", "toolCallId")
        if is_over:
            self.open_tools.discard(call or "")
            self.denied += _is_denied(event)
        else:
            self.works(call)

    def _result(self, event: Event) -> None:
        self.session_id = id_at(event, "sessionId") or self.session_id
        code = value_at(event, "exitCode")
        if self._error is not None:
            self.gives_up(self._error)
        elif self._was_broken_off:
            # Stopped by a signal it calls that a success, if it still says anything.
            self.gives_up(Failure(Trouble.OTHER, "copilot was stopped in the middle of its work"))
        elif code == 0:
            self.finishes()
        else:
            self.gives_up(Failure(Trouble.OTHER, f"copilot ended its session with exit code {code}"))

    def _usage(self, event: Event) -> None:
        """Take what it left in its file of usage: of each model, what it read and wrote."""
        models = object_at(event, "modelMetrics")
        used = [object_at(models, name, "usage") for name in models]
        if used:
            self.usage = Usage(
                input=sum(count_at(each, "inputTokens") for each in used),
                output=sum(count_at(each, "outputTokens") for each in used),
                cached=sum(count_at(each, "cacheReadTokens") for each in used),
                reasoning=sum(count_at(each, "reasoningTokens") for each in used),
            )


def _failure(event: Event) -> Failure:
    words = text_at(event, "data", "message") or "copilot gave no reason"
    found = trouble_of(words, status=status_at(event, "data", "statusCode"))
    kind = _KINDS.get(text_at(event, "data", "errorType") or "")
    return Failure(kind if kind is not None and found is Trouble.OTHER else found, in_short(words))


def _failed_call(event: Event) -> Failure:
    words = text_at(event, "data", "errorMessage") or text_at(event, "data", "failureKind") or "no reason"
    return failure_of(words, status=status_at(event, "data", "statusCode"))


def _is_denied(event: Event) -> bool:
    """Whether a tool was not allowed to run, as the program itself says: one that ran and failed is not denied."""
    code = (text_at(event, "data", "error", "code") or "").lower()
    return value_at(event, "data", "success") is False and code in {"denied", "rejected", "permission_denied"}


def _mcp_config(servers: tuple[McpServer, ...]) -> bytes:
    described = {server.name: {"type": "local", **server.described(), "tools": ["*"]} for server in servers}
    return json.dumps({"mcpServers": described}).encode()
