"""A worker of the published protocol: claim, brief, work, read again, report, release, in the order it lays down.

Its "agent" is a program, or a function from the prompt to what the program
would print and its exit code; what the agent does to the graph it does under
the worker's own token. The steps of `settle` are numbered as in the protocol's
list for launchers that are not the reference client's.

    BATON_SERVER=… BATON_TOKEN=… BATON_PROJECT=… python -m batonpass.conformance.reference PROGRAM…

does one item of the queue, or none where there is none.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from batonpass.conformance.client import Answer, Client

DECLINED: Final = "DECLINED: "
UNJUDGEABLE: Final = ("decision", "finding")
SUMMARY_CHARS_MAX: Final = 460
BODY_BYTES_MAX: Final = 7000
CUT: Final = "\n[report truncated]"
FILE_TRIES: Final = 3

Agent = Callable[[str], tuple[str, int]]
"""From the prompt to the final report and the exit code. The code is nobody's business but the operator's."""


@dataclass(frozen=True)
class Run:
    """How a run ended. `released` says whether the lease was handed back, `filed` is the node the report became."""

    node: str
    terminal_state: str
    terminal_enforced: bool
    released: bool
    filed: str | None = None


class Worker:
    """One worker, holding an agent's token."""

    def __init__(self, client: Client, *, project: str) -> None:
        self._client = client
        self._project = project
        self._horizon_s = 0.0

    def run(self, agent: Agent) -> Run | None:
        """Do the best item that is meant for agents, from claim to release; None when there is none."""
        node = self.claim_next()
        return None if node is None else self.work(node, agent, uuid.uuid4().hex)

    def claim_next(self) -> str | None:
        """Take the best item that is meant for agents, passing over those another worker was faster at."""
        items = self._client.get("/v1/queue", project=self._project).body["items"]
        for item in items:
            if self.may_take(item) and self.claim(item["id"]):
                return str(item["id"])
        return None

    def may_take(self, item: dict[str, Any]) -> bool:
        """Whether an item of the queue is meant for a worker nobody watches."""
        return item.get("readiness") == "agent" and item["suggest"] != "blocked"

    def claim(self, node: str) -> bool:
        """Take the lease on `node`, tagged with a nonce of this launch; any 409 means that somebody has it."""
        answer = self._client.post(f"/v1/nodes/{node}/claim", {"dispatch": self.nonce()})
        if answer.ok:
            self._horizon_s = answer.body["expires_in_ms"] / 1000
        return answer.ok

    def nonce(self) -> str:
        """Return what tells this launch from any other."""
        return str(uuid.uuid4())

    def beat(self) -> list[str]:
        """Keep what is held alive: one call for the whole working set; return what was renewed."""
        return list(self._client.post("/v1/queue/renew").body["renewed"])

    def work(self, node: str, agent: Agent, run: str) -> Run:
        """Let `agent` work on a node that is claimed, and settle the outcome of the run named `run`."""
        prompt = self.prompt(node, self.briefing(node))
        with self.kept_alive():
            text, code = agent(prompt)
        return self.settle(node, text, run, code=code)

    def briefing(self, node: str) -> str:
        """Return what is known around the node."""
        return str(self._client.post("/v1/digest", {"root": node}).body["text"])

    def prompt(self, node: str, briefing: str) -> str:
        """Return the three parts of the prompt contract: session note, briefing, task."""
        title = self._client.get(f"/v1/nodes/{node}").body["frontmatter"]["title"]
        return f"{self.session_note()}{briefing}\n\n---\n\n# Task\n\nWork on {node}: {title}.\n"

    def session_note(self) -> str:
        """Return the paragraph that names the session's project, for questions that mention nothing."""
        return (
            f'> Session project: `{self._project}`. A question without mentions passes project: "{self._project}".\n\n'
        )

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Renew at half of the horizon while the block runs."""
        done = threading.Event()

        def beating() -> None:
            while not done.wait(self._horizon_s / 2):
                self.beat()

        thread = threading.Thread(target=beating, name="heartbeat")
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def settle(self, node: str, text: str, run: str, *, code: int = 0) -> Run:
        """Say what the run achieved, and do what follows from it. The exit code is told, and never looked at."""
        del code
        target = self._client.get(f"/v1/nodes/{node}").body  # 1
        if (target.get("resolution") or {}).get("by"):  # 2
            return self.resolved(node)
        first = next((line for line in text.splitlines() if line.strip()), "")
        if first.startswith(DECLINED):  # 3
            return self.declined(node, text, run, why=first.removeprefix(DECLINED))
        if target["frontmatter"]["type"] in UNJUDGEABLE:  # 4
            return self.unverified(node, text, run)
        if text.strip():  # 5
            return self.reported(node, text, run, summary=first)
        return self.silent(node)  # 6

    def resolved(self, node: str) -> Run:
        """Conclude a run whose target reads resolved: the durable edge stands, nothing is released."""
        return Run(node, "resolved", terminal_enforced=True, released=False)

    def declined(self, node: str, text: str, run: str, *, why: str) -> Run:
        """Conclude a decline: finding, stamp, lease."""
        filed = self.file(node, "finding", f"find-declined-{run}", summary=why, text=text)
        released = filed is not None and self.clear(node) and self.release(node)
        return Run(node, "declined", terminal_enforced=True, released=released, filed=filed)

    def unverified(self, node: str, text: str, run: str) -> Run:
        """Conclude a run at a target that is closed by a status: a report if there is one, and never a release."""
        said = f"Not verified: {text}"
        filed = self.file(node, "artifact", f"art-report-{run}", summary=said, text=said) if text.strip() else None
        state = "reported" if filed is not None else "failed"
        return Run(node, state, terminal_enforced=False, released=False, filed=filed)

    def reported(self, node: str, text: str, run: str, *, summary: str) -> Run:
        """Conclude a run that left a report: filed, and only then the lease handed back."""
        filed = self.file(node, "artifact", f"art-report-{run}", summary=summary, text=text)
        if filed is None:
            return self.refused(node)
        return Run(node, "reported", terminal_enforced=True, released=self.release(node), filed=filed)

    def refused(self, node: str) -> Run:
        """Conclude a run whose report the graph would not have: the lease stays, and lapses by itself."""
        return Run(node, "failed", terminal_enforced=True, released=False)

    def silent(self, node: str) -> Run:
        """Conclude a run that left nothing."""
        return Run(node, "failed", terminal_enforced=True, released=self.release(node))

    def file(self, node: str, kind: str, report: str, *, summary: str, text: str) -> str | None:
        """File a report beside `node`; return its id once it is in the graph, by this call or an earlier one."""
        entry: dict[str, object] = {
            "id": report,
            "type": kind,
            "title": f"Report on {node}",
            "summary": summary.strip()[:SUMMARY_CHARS_MAX] or "A report",
            "date": datetime.now(UTC).date().isoformat(),
            "project": self._project,
            "edges": [{"type": "relates-to", "to": node}],
            "body": self.fitted(text),
        }
        for _ in range(FILE_TRIES):
            try:
                answer = self.send(entry)
            except OSError:  # it may have landed all the same; sent again it lands once
                continue
            landed = answer.ok and answer.body["results"][0]["ok"]  # judged by our entry, whatever else is in a 207
            return report if landed else None
        return None

    def send(self, entry: dict[str, object]) -> Answer:
        """Send an entry that may be there already."""
        return self._client.post("/v1/nodes", {"nodes": [entry], "if_exists": "skip"})

    def fitted(self, text: str) -> str:
        """Return a text that a node's body has room for."""
        raw = text.encode()
        if len(raw) <= BODY_BYTES_MAX:
            return text
        return raw[: BODY_BYTES_MAX - len(CUT)].decode(errors="ignore") + CUT

    def clear(self, node: str) -> bool:
        """Take the stamp away, so that no worker takes the item as it is written."""
        return self._client.post(f"/v1/nodes/{node}/readiness", {"readiness": "clear"}).ok

    def release(self, node: str) -> bool:
        """Hand the lease back."""
        return self._client.post(f"/v1/nodes/{node}/release").ok


def program(argv: Sequence[str]) -> Agent:
    """Return the agent that is a program: the prompt on its standard input, its report on standard output."""

    def agent(prompt: str) -> tuple[str, int]:
        ended = subprocess.run(argv, input=prompt.encode(), stdout=subprocess.PIPE, check=False)
        return ended.stdout.decode(errors="replace"), ended.returncode

    return agent


def main() -> None:
    """Do one item of the queue with the program that the arguments name."""
    client = Client(os.environ["BATON_SERVER"], os.environ["BATON_TOKEN"])
    run = Worker(client, project=os.environ["BATON_PROJECT"]).run(program(sys.argv[1:]))
    sys.stdout.write(f"{'nothing to do' if run is None else f'{run.node}: {run.terminal_state}'}\n")


if __name__ == "__main__":
    main()
