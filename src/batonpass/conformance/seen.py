"""What was seen of a worker in one scenario: the exchanges in order, and the graph as it was left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from batonpass.conformance.proxy import CONTROL, Exchange
from batonpass.conformance.scenarios import Scenario, id_of

WRITES: Final = frozenset({"POST", "PUT", "DELETE", "PATCH"})
READS_BY_POST: Final = frozenset({"/v1/digest", "/v1/nodes/batch"})
CLAIMS: Final = re.compile(r"/v1/nodes/([^/]+)/claim|/v1/queue/(?:claim|next)")
GRANTS: Final = re.compile(r"/v1/nodes/[^/]+/(?:claim|renew|extend)|/v1/queue/(?:claim|next|renew)")


@dataclass(frozen=True)
class Filing:
    """One entry that was sent to the batch door. `landed`: whether the answer that arrived says it is in the graph."""

    exchange: Exchange
    id: str | None
    node: Mapping[str, Any]
    landed: bool

    def relates_to(self, node: str) -> bool:
        """Whether it carries the edge of a report on `node`."""
        return {"type": "relates-to", "to": node} in [_bare(edge) for edge in self.node.get("edges") or ()]


@dataclass(frozen=True)
class Seen:
    """The evidence of one scenario. `pool` has the nodes by their part, `after` how the one worked on read at the end.

    `nonces` are those of the launches before, `ended` says how the worker itself ended.
    """

    scenario: Scenario
    project: str
    pool: Mapping[str, str]
    exchanges: tuple[Exchange, ...]
    after: Mapping[str, Any]
    reports: tuple[str, ...]
    nonces: frozenset[str]
    ended: str

    @cached_property
    def begin(self) -> Exchange | None:
        """Return when the work began, None if it never did."""
        return next((each for each in self.exchanges if each.path == f"{CONTROL}begin"), None)

    @cached_property
    def end(self) -> Exchange | None:
        """Return when the work was over."""
        return next((each for each in self.exchanges if each.path == f"{CONTROL}end"), None)

    @cached_property
    def calls(self) -> tuple[Exchange, ...]:
        """Return what was asked of the server, the kit's own calls left out."""
        return tuple(each for each in self.exchanges if not each.path.startswith(CONTROL))

    @cached_property
    def settling(self) -> tuple[Exchange, ...]:
        """Return what was asked of the server once the work was over."""
        return tuple(each for each in self.calls if self.end is not None and each.asked > self.end.asked)

    @cached_property
    def prompt(self) -> str:
        """Return what the work was told."""
        return str(self.begin.sent.get("prompt", "")) if self.begin is not None and self.begin.sent else ""

    @cached_property
    def claims(self) -> tuple[Exchange, ...]:
        """Return every attempt to take an item."""
        return tuple(each for each in self.calls if each.method == "POST" and CLAIMS.fullmatch(each.path))

    @cached_property
    def taken(self) -> str | None:
        """Return the item that the worker got first."""
        return next((node for claim in self.claims for node in leased(claim)), None)

    @property
    def target(self) -> str:
        """Return the item that the run is about: the one it got, or should have got."""
        return self.taken or self.pool["target"]

    @property
    def is_resolved(self) -> bool:
        """Whether the graph says that the item is done."""
        return bool((self.after.get("resolution") or {}).get("by"))

    @cached_property
    def writes(self) -> tuple[Exchange, ...]:
        """Return what was to change something."""
        return tuple(each for each in self.calls if each.method in WRITES and each.path not in READS_BY_POST)

    @cached_property
    def filings(self) -> tuple[Filing, ...]:
        """Return the entries that were sent once the work was over."""
        return tuple(_filings(self.settling))

    @cached_property
    def about(self) -> tuple[Filing, ...]:
        """Return those of the filings that relate to the item."""
        return tuple(filing for filing in self.filings if filing.relates_to(self.target))

    @cached_property
    def confirmed(self) -> int | None:
        """Return when the graph had first said that it has one of these; None if it never did."""
        return min((filing.exchange.answered for filing in self.about if filing.landed), default=None)

    @cached_property
    def releases(self) -> tuple[Exchange, ...]:
        """Return every attempt to give the item back, a park included."""
        paths = {f"/v1/nodes/{self.target}/release", f"/v1/nodes/{self.target}/reserve", "/v1/queue/release"}
        return tuple(each for each in self.calls if each.method == "POST" and each.path in paths)

    @property
    def given_back(self) -> bool:
        """Whether the server took the item back: a park keeps it from everybody else."""
        return any(each.ok and not each.path.endswith("/reserve") for each in self.releases)

    @cached_property
    def read_back(self) -> Exchange | None:
        """Return when the item was read again once the work was over, None if it never was."""
        return next((each for each in self.settling if each.ok and _reads(each, self.target)), None)


def _reads(exchange: Exchange, node: str) -> bool:
    """Whether `exchange` asks for `node` as it is, alone or among others."""
    if exchange.path == "/v1/nodes/batch":
        return isinstance(exchange.sent, dict) and node in (exchange.sent.get("ids") or ())
    return (exchange.method, exchange.path) == ("GET", f"/v1/nodes/{node}")


def leased(exchange: Exchange) -> Iterator[str]:
    """Yield the nodes that a granted call gave a lease on."""
    if exchange.ok and isinstance(exchange.got, dict):
        for lease in [exchange.got.get("lease"), *(exchange.got.get("leases") or ())]:
            if isinstance(lease, dict):
                yield lease["node_id"]


def nonce_of(claim: Exchange) -> str | None:
    """Return what tells the launch behind a claim from others."""
    nonce = claim.sent.get("dispatch") if isinstance(claim.sent, dict) else None
    return nonce if isinstance(nonce, str) and nonce else None


def _filings(exchanges: tuple[Exchange, ...]) -> Iterator[Filing]:
    for each in exchanges:
        if (each.method, each.path) != ("POST", "/v1/nodes") or not isinstance(each.sent, dict):
            continue
        results = each.got.get("results", []) if each.ok and isinstance(each.got, dict) else []
        for place, entry in enumerate(each.sent.get("nodes", [])):
            node = entry.get("node", entry) if isinstance(entry, dict) else entry
            landed = place < len(results) and bool(results[place].get("ok"))
            yield Filing(each, id_of(entry), node if isinstance(node, dict) else _front_matter(str(node)), landed)


def _front_matter(text: str) -> dict[str, Any]:
    """Return what a rule asks about an entry that is markdown: its type, its edges and its text."""
    _, _, rest = text.partition("---\n")
    matter, _, body = rest.partition("\n---\n")
    flat = {key: value.strip() for key, _, value in (line.partition(":") for line in matter.splitlines()) if value}
    edges = re.findall(r"type:\s*([\w-]+),?\s*(?:\n\s*)?to:\s*([\w-]+)", matter)
    return {**flat, "edges": [{"type": kind, "to": to} for kind, to in edges], "body": body}


def _bare(edge: object) -> object:
    return {"type": edge.get("type"), "to": edge.get("to")} if isinstance(edge, dict) else edge
