"""The work a graded worker is given to do: a program that tells the kit what it was told, and does as the kit says.

    python -I task.py http://127.0.0.1:PORT/_conformance/

It is the worker's agent program: the prompt comes on standard input or as an
argument, the final report goes to standard output. What it writes to the graph
it writes under `BATON_TOKEN`, or, where the worker has not handed that on, under
the token the kit lends it. The standard library and nothing else, in one file.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit

ANSWER_S_MAX: Final = 120.0
_direct: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""The kit is on this machine: no proxy that is set for the network is asked."""


def perform(control: str, prompt: str, *, environ: Mapping[str, str]) -> tuple[str, int]:
    """Do what the kit at `control` says; return the final report and the exit code."""
    steps = _post(f"{control}begin", {"prompt": prompt})
    address = "{0.scheme}://{0.netloc}".format(urlsplit(control))
    token = environ.get("BATON_TOKEN") or steps["token"]
    for path, body in steps["writes"]:
        _post(f"{address}{path}", body, token=token)
    if steps["wait"]:
        _post(f"{control}wait", {})
    _post(f"{control}end", {})
    return steps["says"], steps["exits"]


def _post(url: str, body: object, *, token: str | None = None) -> Any:  # noqa: ANN401 — JSON
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})  # noqa: S310
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with _direct.open(request, timeout=ANSWER_S_MAX) as answer:
            return json.loads(answer.read())
    except HTTPError as error:  # what was refused is on record, and the grade says what follows from it
        error.close()
        return None


def main(arguments: Sequence[str]) -> int:
    """Be the agent program; the first argument is the kit's address, the others may be the prompt."""
    prompt = "" if sys.stdin.isatty() else sys.stdin.read()
    says, exits = perform(arguments[0], "\n".join([prompt, *arguments[1:]]), environ=os.environ)
    sys.stdout.write(says)
    return exits


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
