"""A client process for races: one connection, one request a line, no library of ours between it and the server.

``python -m batonpass.testing.racer HOST PORT`` reads lines of JSON, and writes
one for each:

    {"token", "path", "body"}          POST the body once         → {"status", "body"}
    {…, "beyond": n}                   POST until the answer is no refusal in the name of a tenure up to epoch n;
                                       before that, once, a line {"refused": epoch}
    {…, "method": "PUT"}               the same, by another method

`Racers` runs some of them, starts them together, and collects what they say.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

RACE_S_MAX: Final = 20.0
"""How long a racer tries before it gives up, in seconds."""


@dataclass(frozen=True, slots=True)
class Racers:
    """Client processes that wait for a word."""

    processes: tuple[subprocess.Popen[str], ...]

    def start(self, requests: Sequence[Mapping[str, object]]) -> None:
        """Give each racer its request, one right after the other."""
        lines = [json.dumps(request) + "\n" for request in requests]
        for process, line in zip(self.processes, lines, strict=True):
            assert process.stdin is not None
            process.stdin.write(line)
            process.stdin.flush()

    def answers(self) -> list[dict[str, Any]]:
        """Return the next line of each racer."""
        found = []
        for process in self.processes:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, f"a racer ended with status {process.wait()}"
            found.append(json.loads(line))
        return found


@contextmanager
def racers(ports: Sequence[int]) -> Iterator[Racers]:
    """Run a racer for each of `ports` of this machine until the end of the block."""
    with ExitStack() as stack:
        processes = tuple(
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "batonpass.testing.racer", "127.0.0.1", str(port)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for port in ports
        )
        yield Racers(processes)
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()


def main() -> None:
    """Race as the lines of standard input say."""
    host, port = sys.argv[1:]
    connection = http.client.HTTPConnection(host, int(port), timeout=RACE_S_MAX)
    for line in sys.stdin:
        request = json.loads(line)
        for answer in _race(connection, request):
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


def _race(connection: http.client.HTTPConnection, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    beyond, told, deadline = request.get("beyond", 0), False, time.monotonic() + RACE_S_MAX
    while True:
        answer = _send(connection, request)
        epoch = (answer["body"].get("holder") or {}).get("epoch", beyond + 1)
        if answer["status"] == 200 or epoch > beyond or time.monotonic() > deadline:  # noqa: PLR2004  # HTTP's OK
            yield answer
            return
        if not told:
            told = True
            yield {"refused": epoch}


def _send(connection: http.client.HTTPConnection, request: Mapping[str, Any]) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {request['token']}", "Content-Type": "application/json"}
    connection.request(request.get("method", "POST"), request["path"], json.dumps(request["body"]), headers)
    response = connection.getresponse()
    return {"status": response.status, "body": json.loads(response.read())}


if __name__ == "__main__":
    main()
