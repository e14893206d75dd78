"""A worker of the published protocol: claim, read, work, read again, report, release, in the order it lays down.

Its "agent" is a function from the node to the final report's text; what the
agent does to the graph it does under the worker's own token. The steps are
numbered as in the protocol's list for launchers that are not the reference
client's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from conformance.client import Client

DECLINED: Final = "DECLINED: "
UNJUDGEABLE: Final = ("decision", "finding")
SUMMARY_CHARS_MAX: Final = 460
BODY_BYTES_MAX: Final = 6000

Agent = Callable[[dict[str, Any]], str]


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

    def claim_next(self) -> str | None:
        """Take the best item that is meant for agents, passing over those another worker was faster at."""
        items = self._client.get("/v1/queue", project=self._project).body["items"]
        for item in items:
            if item.get("readiness") == "agent" and item["suggest"] == "dispatch" and self.claim(item["id"]):
                return str(item["id"])
        return None

    def claim(self, node: str) -> bool:
        """Take the lease on `node`, tagged with a nonce of this launch; any 409 means that somebody has it."""
        answer = self._client.post(f"/v1/nodes/{node}/claim", {"dispatch": str(uuid.uuid4())})
        return answer.ok

    def beat(self) -> list[str]:
        """Keep what is held alive: one call for the whole working set; return what was renewed."""
        return list(self._client.post("/v1/queue/renew").body["renewed"])

    def work(self, node: str, agent: Agent, run: str) -> Run:
        """Let `agent` work on a node that is claimed, and settle the outcome of the run named `run`."""
        text = agent(self._client.get(f"/v1/nodes/{node}").body)
        return self.settle(node, text, run)

    def settle(self, node: str, text: str, run: str) -> Run:
        """Say what the run achieved, and do what follows from it."""
        target = self._client.get(f"/v1/nodes/{node}").body  # 1
        if (target.get("resolution") or {}).get("by"):  # 2
            return Run(node, "resolved", terminal_enforced=True, released=False)
        first = next((line for line in text.splitlines() if line.strip()), "")
        if first.startswith(DECLINED):  # 3
            filed = self._file(node, f"find-declined-{run}", summary=first.removeprefix(DECLINED), text=text)
            released = filed is not None and self._clear_and_release(node)
            return Run(node, "declined", terminal_enforced=True, released=released, filed=filed)
        if target["frontmatter"]["type"] in UNJUDGEABLE:  # 4
            filed = self._file(node, f"art-report-{run}", summary="Not verified", text=text) if text.strip() else None
            state = "reported" if filed is not None else "failed"
            return Run(node, state, terminal_enforced=False, released=False, filed=filed)
        if text.strip():  # 5
            filed = self._file(node, f"art-report-{run}", summary=first, text=text)
            if filed is None:
                return Run(node, "failed", terminal_enforced=True, released=False)
            return Run(node, "reported", terminal_enforced=True, released=self._release(node), filed=filed)
        return Run(node, "failed", terminal_enforced=True, released=self._release(node))  # 6

    def _file(self, node: str, report: str, *, summary: str, text: str) -> str | None:
        """File a report beside `node`; return its id once it is in the graph, by this call or an earlier one."""
        entry = {
            "id": report,
            "type": "finding" if report.startswith("find-") else "artifact",
            "title": f"Report on {node}",
            "summary": summary[:SUMMARY_CHARS_MAX] or "A report",
            "date": "2026-06-01",
            "edges": [{"type": "relates-to", "to": node}],
            "body": text.encode()[:BODY_BYTES_MAX].decode(errors="ignore"),
        }
        answer = self._client.post("/v1/nodes", {"nodes": [entry], "if_exists": "skip"})
        landed = answer.ok and answer.body["results"][0]["ok"]  # judged by our entry, whatever else is in a 207
        return report if landed else None

    def _clear_and_release(self, node: str) -> bool:
        self._client.post(f"/v1/nodes/{node}/readiness", {"readiness": "clear"})
        return self._release(node)

    def _release(self, node: str) -> bool:
        return self._client.post(f"/v1/nodes/{node}/release").ok
