"""Gemini's generated content, which gemini speaks."""

from __future__ import annotations

from collections.abc import Iterator

from batonpass.testing.model.script import (
    Answer,
    Asked,
    Fault,
    JsonObject,
    Run,
    Turn,
    as_objects,
    event,
    said,
    tool_of,
    words,
)


class Content:
    """Gemini's generated content."""

    path_end = ":streamGenerateContent"

    def asked(self, body: JsonObject) -> Asked:
        """Return what a request asks."""
        contents = as_objects(body.get("contents"))
        parts = [part for content in contents for part in as_objects(content.get("parts"))]
        functions = [
            function
            for tool in as_objects(body.get("tools"))
            for function in as_objects(tool.get("functionDeclarations"))
        ]
        tools = tuple(tool_of(each, each.get("parametersJsonSchema") or each.get("parameters")) for each in functions)
        return Asked(tools, sum("functionResponse" in part for part in parts), streams=True, text=words(contents))

    def told(self, turn: Turn, asked: Asked, serial: int) -> Iterator[bytes]:
        """Give the events of an answer's stream."""
        whole = self.whole(turn, asked, serial)
        (candidate,) = as_objects(whole["candidates"])
        unfinished = {name: value for name, value in candidate.items() if name != "finishReason"}
        yield event({**whole, "candidates": [unfinished]})
        empty = {"role": "model", "parts": [{"text": ""}]}
        yield event({**whole, "candidates": [{**candidate, "content": empty}]})

    def whole(self, turn: Turn, asked: Asked, serial: int) -> JsonObject:
        """Return the same answer for a request that wants no stream."""
        part: JsonObject = {"text": said(turn)}
        if isinstance(turn, Run) and asked.shell is not None:
            part = {"functionCall": {"name": asked.shell.name, "args": asked.shell.arguments(turn.command)}}
        return {
            "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
            "usageMetadata": {
                "promptTokenCount": 120,
                "cachedContentTokenCount": 20,
                "candidatesTokenCount": 12,
                "totalTokenCount": 132,
            },
            "modelVersion": "scripted",
            "responseId": f"answer-{serial}",
        }

    def refused(self, fault: Fault) -> Answer:
        """Return how the service words a refusal; to it a wrong key is a wrong argument."""
        code, status, message = {
            Fault.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED", "Resource has been exhausted. Please try again later."),
            Fault.BAD_KEY: (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
            Fault.NO_CREDIT: (
                429,
                "RESOURCE_EXHAUSTED",
                "You exceeded your current quota, please check your plan and billing details.",
            ),
            Fault.OVERLOADED: (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        }.get(fault, (500, "INTERNAL", "An internal error has occurred."))
        details = {
            Fault.BAD_KEY: [_google("ErrorInfo", reason="API_KEY_INVALID", domain="googleapis.com")],
        }.get(fault, [])
        return Answer(code, {"error": {"code": code, "message": message, "status": status, "details": details}})


def _google(kind: str, **fields: object) -> JsonObject:
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **fields}
