"""Anthropic's messages, which claude-code speaks."""

from __future__ import annotations

import json
from collections.abc import Iterator

from batonpass.testing.model.script import (
    Answer,
    Asked,
    Fault,
    JsonObject,
    Run,
    Turn,
    as_object,
    as_objects,
    named,
    retry_headers,
    said,
    tool_of,
    words,
)


class Messages:
    """Anthropic's messages."""

    path_end = "/messages"

    def asked(self, body: JsonObject) -> Asked:
        """Return what a request asks."""
        messages = as_objects(body.get("messages"))
        blocks = [block for message in messages for block in as_objects(message.get("content"))]
        tools = tuple(tool_of(tool, tool.get("input_schema")) for tool in as_objects(body.get("tools")))
        results = sum(block.get("type") == "tool_result" for block in blocks)
        return Asked(tools, results, body.get("stream") is True, words(messages))

    def told(self, turn: Turn, asked: Asked, serial: int) -> Iterator[bytes]:
        """Give the events of an answer's stream."""
        whole = self.whole(turn, asked, serial)
        (block,) = as_objects(whole["content"])
        usage = as_object(whole["usage"])
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
        yield named("message_start", message=begun)
        if block["type"] == "tool_use":
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            yield named("content_block_start", index=0, content_block={**block, "input": {}})
        else:
            delta = {"type": "text_delta", "text": str(block["text"])}
            yield named("content_block_start", index=0, content_block={**block, "text": ""})
        yield named("content_block_delta", index=0, delta=delta)
        yield named("content_block_stop", index=0)
        ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield named("message_delta", delta=ended, usage={"output_tokens": usage["output_tokens"]})
        yield named("message_stop")

    def whole(self, turn: Turn, asked: Asked, serial: int) -> JsonObject:
        """Return the same answer for a request that wants no stream."""
        block: JsonObject
        if isinstance(turn, Run) and asked.shell is not None:
            given = asked.shell.arguments(turn.command)
            block = {"type": "tool_use", "id": f"toolu_{serial}", "name": asked.shell.name, "input": given}
        else:
            block = {"type": "text", "text": said(turn)}
        return {
            "id": f"msg_{serial}",
            "type": "message",
            "role": "assistant",
            "model": "claude-scripted",
            "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 100,
                "cache_read_input_tokens": 20,
                "cache_creation_input_tokens": 0,
                "output_tokens": 12,
            },
        }

    def refused(self, fault: Fault) -> Answer:
        """Return how the service words a refusal; a used-up balance is a request that makes no sense to it."""
        status, kind, message = {
            Fault.RATE_LIMIT: (429, "rate_limit_error", "This request would exceed your organization's rate limit"),
            Fault.BAD_KEY: (401, "authentication_error", "invalid x-api-key"),
            Fault.NO_CREDIT: (
                400,
                "invalid_request_error",
                "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing.",
            ),
            Fault.OVERLOADED: (529, "overloaded_error", "Overloaded"),
        }.get(fault, (500, "api_error", "Internal server error"))
        return Answer(status, {"type": "error", "error": {"type": kind, "message": message}}, retry_headers(status))
