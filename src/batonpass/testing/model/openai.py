"""OpenAI's two languages: responses, which codex speaks, and chat completions, which opencode and copilot do."""

from __future__ import annotations

import json
from collections.abc import Iterator

from batonpass.testing.model.script import (
    Answer,
    Asked,
    Fault,
    JsonObject,
    Run,
    Say,
    Turn,
    as_object,
    as_objects,
    event,
    named,
    retry_headers,
    said,
    tool_of,
    words,
)


class Responses:
    """OpenAI's responses."""

    path_end = "/responses"

    def asked(self, body: JsonObject) -> Asked:
        """Return what a request asks."""
        items = as_objects(body.get("input"))
        tools = [tool_of(tool, tool.get("parameters")) for tool in as_objects(body.get("tools"))]
        results = sum(item.get("type") == "function_call_output" for item in items)
        return Asked(tuple(tools), results, body.get("stream") is True, words(items))

    def told(self, turn: Turn, asked: Asked, serial: int) -> Iterator[bytes]:
        """Give the events of an answer's stream."""
        whole = self.whole(turn, asked, serial)
        (item,) = as_objects(whole["output"])
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        yield named("response.created", response=begun)
        yield named("response.output_item.added", output_index=0, item={**item, "status": "in_progress"})
        if isinstance(turn, Say):
            yield named(
                "response.output_text.delta", item_id=item["id"], output_index=0, content_index=0, delta=turn.text
            )
        yield named("response.output_item.done", output_index=0, item=item)
        yield named("response.completed", response=whole)

    def whole(self, turn: Turn, asked: Asked, serial: int) -> JsonObject:
        """Return the same answer for a request that wants no stream."""
        item: JsonObject
        match turn:
            case Run(command) if asked.shell is not None:
                arguments = json.dumps(asked.shell.arguments(command))
                item = {
                    "type": "function_call",
                    "id": f"fc_{serial}",
                    "call_id": f"call_{serial}",
                    "name": asked.shell.name,
                    "arguments": arguments,
                    "status": "completed",
                }
            case _:
                content = [{"type": "output_text", "text": said(turn), "annotations": []}]
                item = {
                    "type": "message",
                    "id": f"msg_{serial}",
                    "role": "assistant",
                    "content": content,
                    "status": "completed",
                }
        usage = {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 20},
            "output_tokens": 12,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 132,
        }
        return {"id": f"resp_{serial}", "object": "response", "status": "completed", "output": [item], "usage": usage}

    def refused(self, fault: Fault) -> Answer:
        """Return how the service words a refusal."""
        return _openai(fault)


class ChatCompletions:
    """OpenAI's chat completions, which many other services speak too."""

    path_end = "/chat/completions"

    def asked(self, body: JsonObject) -> Asked:
        """Return what a request asks."""
        messages = as_objects(body.get("messages"))
        functions = [as_object(tool.get("function")) for tool in as_objects(body.get("tools"))]
        tools = tuple(tool_of(function, function.get("parameters")) for function in functions)
        results = sum(message.get("role") == "tool" for message in messages)
        return Asked(tools, results, body.get("stream") is True, words(messages))

    def told(self, turn: Turn, asked: Asked, serial: int) -> Iterator[bytes]:
        """Give the events of an answer's stream."""
        whole = self.whole(turn, asked, serial)
        (choice,) = as_objects(whole["choices"])
        message = as_object(choice["message"])
        calls = [{"index": i, **call} for i, call in enumerate(as_objects(message.get("tool_calls")))]
        delta = {**message, "tool_calls": calls} if calls else message
        chunk = {**whole, "object": "chat.completion.chunk", "usage": None}
        yield event({**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield event({**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
        yield event({**chunk, "choices": [], "usage": whole["usage"]})
        yield b"data: [DONE]\n\n"

    def whole(self, turn: Turn, asked: Asked, serial: int) -> JsonObject:
        """Return the same answer for a request that wants no stream."""
        message: dict[str, object] = {"role": "assistant", "content": said(turn)}
        reason = "stop"
        if isinstance(turn, Run) and asked.shell is not None:
            function = {"name": asked.shell.name, "arguments": json.dumps(asked.shell.arguments(turn.command))}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{serial}", "type": "function", "function": function}],
            }
            reason = "tool_calls"
        return {
            "id": f"chatcmpl-{serial}",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 120, "completion_tokens": 12, "total_tokens": 132},
        }

    def refused(self, fault: Fault) -> Answer:
        """Return how the service words a refusal; those that sell by prepayment say 402 when it is used up."""
        if fault is Fault.NO_CREDIT:
            message = "Insufficient credits. Add more credits to continue."
            return Answer(402, {"error": {"message": message, "type": "insufficient_credits", "code": 402}})
        return _openai(fault)


def _openai(fault: Fault) -> Answer:
    status, code, message = {
        Fault.RATE_LIMIT: (429, "rate_limit_exceeded", "Rate limit reached for requests. Please try again later."),
        Fault.BAD_KEY: (401, "invalid_api_key", "Incorrect API key provided."),
        Fault.NO_CREDIT: (
            429,
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
        Fault.OVERLOADED: (503, "overloaded", "The engine is currently overloaded, please try again later"),
    }.get(fault, (500, "server_error", "The server had an error while processing your request."))
    error = {"message": message, "type": code, "param": None, "code": code}
    return Answer(status, {"error": error}, retry_headers(status))
