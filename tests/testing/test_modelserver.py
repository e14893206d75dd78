"""The scripted model: each language tells the same script, and each failure is what it is called."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from batonpass.testing.model.script import Fault, Run, Say
from batonpass.testing.modelserver import ModelServer, Script

SCRIPT = Script((Run("make it"), Say("It is made.")))
Body = dict[str, Any]
PATHS = {
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "messages": "/v1/messages?beta=true",
    "content": "/v1beta/models/any:streamGenerateContent?alt=sse",
}


def question(language: str, *, results: int = 0, shell: bool = True) -> Body:
    """What a program asks that has the results of so many calls, and offers a shell or no tools."""
    command: Body = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
    body: Body
    outputs: list[Body]
    tools: list[Body]
    match language:
        case "responses":
            outputs = [{"type": "function_call_output", "output": "ok"}] * results
            tools = [{"type": "function", "name": "shell_command", "parameters": command}]
            body = {"input": [{"type": "message", "role": "user", "content": "Do it."}, *outputs], "stream": True}
        case "chat":
            outputs = [{"role": "tool", "content": "ok"}] * results
            tools = [{"type": "function", "function": {"name": "bash", "parameters": command}}]
            body = {"messages": [{"role": "user", "content": "Do it."}, *outputs], "stream": True}
        case "messages":
            outputs = [{"role": "user", "content": [{"type": "tool_result", "content": "ok"}]}] * results
            tools = [{"name": "Bash", "input_schema": command}]
            body = {"messages": [{"role": "user", "content": "Do it."}, *outputs], "stream": True}
        case _:
            outputs = [{"role": "user", "parts": [{"functionResponse": {"name": "run_shell_command"}}]}] * results
            declarations = [{"name": "run_shell_command", "parametersJsonSchema": command}]
            tools = [{"functionDeclarations": declarations}]
            body = {"contents": [{"role": "user", "parts": [{"text": "Do it."}]}, *outputs]}
    return {**body, "tools": tools} if shell else body


def told(answer: httpx.Response) -> str:
    """All that a stream told, which must be JSON event for event."""
    data = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return json.dumps([json.loads(each) for each in data if each != "[DONE]"])


@pytest.fixture
def ask() -> Callable[..., httpx.Response]:
    """Asks a model, and waits no longer than a model that answers takes."""

    def asking(model: ModelServer, language: str, *, results: int = 0, shell: bool = True) -> httpx.Response:
        return httpx.post(model.url + PATHS[language], json=question(language, results=results, shell=shell), timeout=5)

    return asking


Ask = Callable[..., httpx.Response]


@pytest.mark.parametrize("language", PATHS)
def test_every_language_tells_the_turn_that_the_results_so_far_call_for(ask: Ask, language: str) -> None:
    with ModelServer(SCRIPT) as model:
        first, again, last = (told(ask(model, language, results=results)) for results in (0, 0, 1))
        title = told(ask(model, language, shell=False))

    assert "make it" in first
    assert "make it" in again
    assert "make it" not in last
    assert "It is made." in last
    assert "A title" in title
    assert [each.asked.results for each in model.questions] == [0, 0, 1, 0]
    assert all("Do it." in each.asked.text for each in model.questions)


@pytest.mark.parametrize("language", PATHS)
@pytest.mark.parametrize(
    "fault, statuses",
    [
        (Fault.RATE_LIMIT, {429}),
        (Fault.BAD_KEY, {401, 400}),
        (Fault.NO_CREDIT, {429, 402, 400}),
        (Fault.SERVER_ERROR, {500}),
        (Fault.OVERLOADED, {503, 529}),
    ],
)
def test_a_refusal_has_a_status_and_says_why(ask: Ask, language: str, fault: Fault, statuses: set[int]) -> None:
    with ModelServer(Script(SCRIPT.turns, fault, at=1, faults_max=1)) as model:
        before, refused, after = (ask(model, language, results=results) for results in (0, 1, 1))

    assert (before.status_code, after.status_code) == (200, 200)
    assert refused.status_code in statuses
    assert refused.json()["error"]["message"]
    assert [each.fault for each in model.questions] == [None, fault, None]


@pytest.mark.parametrize("language", PATHS)
def test_a_stream_is_cut_after_it_has_begun(language: str) -> None:
    with (
        ModelServer(Script(SCRIPT.turns, Fault.CUT)) as model,
        httpx.stream("POST", model.url + PATHS[language], json=question(language), timeout=5) as answer,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        answer.read()


@pytest.mark.parametrize("fault", [Fault.HANG_BEFORE, Fault.HANG_AFTER])
def test_a_hanging_model_is_silent_until_it_is_closed(fault: Fault) -> None:
    with ModelServer(Script(SCRIPT.turns, fault)) as model, pytest.raises(httpx.ReadTimeout):
        httpx.post(model.url + PATHS["chat"], json=question("chat"), timeout=0.2)


def test_what_is_no_question_to_the_model_is_answered_all_the_same() -> None:
    with ModelServer(SCRIPT) as model:
        assert httpx.head(model.url).status_code == 200
        assert httpx.get(f"{model.url}/v1/models").json()["data"][0]["id"] == "scripted"
        assert httpx.post(f"{model.url}/v1/messages/count_tokens", json={}).json()["input_tokens"] > 0

    assert not model.questions
