"""A model that does as it is told: a server on 127.0.0.1 which agent programs take for their model's service.

    with ModelServer(Script((Run("make it"), Say("It is made.")))) as model:
        ...  # an agent program whose base URL is model.url
        assert model.questions[0].asked.text

Which turn is answered follows from the request alone: it brings the results
of all tool calls so far. A program that repeats a request is answered the same
again, and one that asks for a title besides gets one without losing a turn.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final, Self, cast
from urllib.parse import urlsplit

from batonpass.testing.model.anthropic import Messages
from batonpass.testing.model.gemini import Content
from batonpass.testing.model.openai import ChatCompletions, Responses
from batonpass.testing.model.script import TITLE, Answer, Asked, Fault, Say, Speech, Turn

SHUTDOWN_LOOK_S: Final = 0.02
"""How often the server looks whether it is to end: each of many short tests waits for it once."""
_GEMINI: Final = Content()
_SPEECHES: Final[tuple[Speech, ...]] = (Responses(), ChatCompletions(), Messages(), _GEMINI)
_GEMINI_WHOLE: Final = ":generateContent"
"""How paths end where Gemini answers without a stream; the others say it in the body."""


@dataclass(frozen=True, slots=True)
class Script:
    """The model's turns; the last is repeated. A `fault` stands in the way of turn `at` and all later ones.

    `faults_max` is how often it does; None is for good.
    """

    turns: tuple[Turn, ...]
    fault: Fault | None = None
    at: int = 0
    faults_max: int | None = None

    def __post_init__(self) -> None:
        """A model has something to say."""
        assert self.turns


@dataclass(frozen=True, slots=True)
class Question:
    """A request that wanted an answer of the model, and the fault that it got instead of one."""

    path: str
    asked: Asked
    fault: Fault | None


@dataclass(eq=False)
class ModelServer:
    """Plays `script` to everyone who asks, in any of the languages. `questions` are what it was asked, in order.

    What fails in the server itself is kept in `broken`, and fails the test at its end.
    """

    script: Script
    questions: list[Question] = field(default_factory=list)
    broken: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._guard = threading.Lock()
        self._closing = threading.Event()
        self._faults = 0
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.model = self
        self._thread = threading.Thread(
            target=self._http.serve_forever, args=(SHUTDOWN_LOOK_S,), name="model", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()
        assert not self.broken, f"the scripted model itself failed: {self.broken}"

    @property
    def url(self) -> str:
        """Where it is served: the base URL as Anthropic and Gemini count it; OpenAI's has ``/v1`` behind it."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def turn(self, path: str, asked: Asked) -> tuple[Turn, Fault | None]:
        """Note the question, and return the turn that is its answer and what stands in the way of it."""
        script = self.script
        with self._guard:
            has_fault = script.fault is not None and asked.results >= script.at
            if has_fault and (script.faults_max is None or self._faults < script.faults_max):
                self._faults += 1
                fault = script.fault
            else:
                fault = None
            self.questions.append(Question(path, asked, fault))
        if asked.shell is None:
            # Who offers no shell wants a title or the like, which no script counts.
            return Say(TITLE), fault
        return script.turns[min(asked.results, len(script.turns) - 1)], fault

    def hang(self) -> None:
        """Return when the server is closed, and not before."""
        self._closing.wait()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    model: ModelServer

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 — the base class's
        """Keep what went wrong here; an agent program that was killed while it was being answered did nothing wrong."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            self.model.broken.append(error)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 — the name is the base class's
        """Log nothing; `questions` has it all."""

    def do_HEAD(self) -> None:
        """Be there."""
        self._send(Answer(200, {}))

    def do_GET(self) -> None:
        """Name the one model there is, to whoever asks for models or anything else."""
        models = [{"id": "scripted", "object": "model", "created": 1, "owned_by": "script"}]
        self._send(Answer(200, {"object": "list", "data": models, "models": []}))

    def do_POST(self) -> None:
        """Answer with the script's turn, or with what stands in its way."""
        path = urlsplit(self.path).path
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        speech, streams = _speech(path)
        if speech is None:
            self._send(Answer(200, {"input_tokens": 100, "totalTokens": 100}))
            return
        body = json.loads(raw)
        asked = speech.asked(body if isinstance(body, dict) else {})
        model = cast("_Http", self.server).model
        turn, fault = model.turn(path, asked)
        serial = len(model.questions)
        match fault:
            case None if streams and asked.streams:
                self._stream(list(speech.told(turn, asked, serial)))
            case None:
                self._send(Answer(200, speech.whole(turn, asked, serial)))
            case Fault.HANG_BEFORE:
                model.hang()
                self.close_connection = True
            case Fault.HANG_AFTER:
                self._stream(list(speech.told(turn, asked, serial))[:1], ends=False)
                model.hang()
            case Fault.CUT:
                self._stream(list(speech.told(turn, asked, serial))[:1], ends=False)
            case _:
                self._send(speech.refused(fault))

    def _send(self, answer: Answer) -> None:
        content = json.dumps(answer.body).encode()
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self, events: list[bytes], *, ends: bool = True) -> None:
        """Send events in chunks; without the last, empty chunk the stream has not ended, and the connection is cut."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(f"{len(event):x}\r\n".encode() + event + b"\r\n")
            self.wfile.flush()
        if ends:
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = not ends


def _speech(path: str) -> tuple[Speech | None, bool]:
    """Return the language a path is asked in, and whether it may be answered in a stream; None for other questions."""
    if path.endswith(_GEMINI_WHOLE):
        return _GEMINI, False
    return next((speech for speech in _SPEECHES if path.endswith(speech.path_end)), None), True
