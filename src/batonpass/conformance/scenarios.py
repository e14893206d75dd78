"""What a graded worker is put through: each scenario is a pool of items, what its work does, and what goes wrong.

A scenario has a project, people and agents of its own, so that nothing a worker
left behind in one is met in the next.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from batonpass.conformance.proxy import Ask, Forward, Reply, Rule, refusal
from batonpass.conformance.world import World, done

DECLINE: Final = "DECLINED: it is done already\n\nThe change landed last week, in another repository."
HORIZON_MS: Final = 3_000
"""How long a lease is said to be where renewing is looked at; the lease itself is longer, so no rival comes in."""
LONG: Final = "One finding after another, each of which was looked at: ünïcode and all.\n" * 300
_CLAIM: Final = re.compile(r"/v1/nodes/([^/]+)/claim")

Pool = dict[str, str]
"""The nodes of a scenario by their part: `target` is what a worker should take."""


@dataclass(frozen=True)
class Scenario:
    """One thing to be put through.

    `says` and `exits` are the work's final report and exit code. `resolves`:
    whether the work writes a resolver of the target before it ends. `asks`:
    whether it asks a question that mentions nothing. `waits`: whether it works
    on until its lease was renewed, or the horizon is over. `spoils` makes the
    rule that the proxy follows.
    """

    id: str
    words: str
    pool: Callable[[World], Pool]
    says: str
    exits: int = 0
    resolves: bool = False
    asks: bool = False
    waits: bool = False
    spoils: Callable[[World, Pool], Rule] | None = None


# --- pools ------------------------------------------------------------------------------------------------------------


def one(world: World) -> Pool:
    """Return a pool of one item."""
    return {"target": world.ready()}


def two(world: World) -> Pool:
    """Return a pool whose better item a rival is about to take."""
    return {"taken": world.ready(priority="p1"), "target": world.ready()}


def beside_a_persons(world: World) -> Pool:
    """Return a pool whose best item carries the stamp and is a person's all the same."""
    return {"human": world.ready(priority="p1", requires=["human"]), "target": world.ready()}


def unjudgeable(world: World) -> Pool:
    """Return a pool of one item that is closed by a status, not by an edge."""
    return {"target": world.ready("finding", prefix="find")}


# --- what goes wrong --------------------------------------------------------------------------------------------------


def is_report(ask: Ask) -> bool:
    """Whether this files a node."""
    return (ask.method, ask.path) == ("POST", "/v1/nodes")


def refuses_reports(_world: World, _pool: Pool) -> Rule:
    """Refuse the whole batch."""

    def rule(ask: Ask, forward: Forward) -> Reply | None:
        return refusal(422, "invalid_node", "no report is taken here") if is_report(ask) else forward()

    return rule


def rejects_reports(_world: World, _pool: Pool) -> Rule:
    """Answer 207, with the entry refused."""

    def rule(ask: Ask, forward: Forward) -> Reply | None:
        if not is_report(ask):
            return forward()
        entries = ask.data.get("nodes", []) if isinstance(ask.data, dict) else []
        results: list[dict[str, object]] = [
            {"ok": False, "status": "error", "id": id_of(entry), "code": "invalid_node", "revision": None,
             "message": "this entry is not taken", "details": [], "warnings": []}
            for entry in entries
        ]  # fmt: skip
        return Reply(200, b"", {"Content-Type": "application/json"}).saying({"results": results}, status=207)

    return rule


def cuts_the_first_report(_world: World, _pool: Pool) -> Rule:
    """Take the first report and cut the connection before the answer; answer those that follow."""
    cut: list[Ask] = []

    def rule(ask: Ask, forward: Forward) -> Reply | None:
        reply = forward()
        if is_report(ask) and not cut:
            cut.append(ask)
            return None
        return reply

    return rule


def is_faster(world: World, pool: Pool) -> Rule:
    """Have a rival claim the best item just before the first claim of it arrives."""
    raced: list[str] = []

    def rule(ask: Ask, forward: Forward) -> Reply | None:
        wants = _CLAIM.fullmatch(ask.path)
        is_claim = ask.path in {"/v1/queue/claim", "/v1/queue/next"} or (wants and wants.group(1) == pool["taken"])
        if is_claim and not raced:
            raced.append(ask.path)
            done(world.rival.post(f"/v1/nodes/{pool['taken']}/claim"))
        return forward()

    return rule


def shortens_the_horizon(_world: World, _pool: Pool) -> Rule:
    """Say of every lease that it is short."""

    def rule(_ask: Ask, forward: Forward) -> Reply | None:
        reply = forward()
        said = reply.data
        if isinstance(said, dict) and "expires_in_ms" in said:
            return reply.saying({**said, "expires_in_ms": min(HORIZON_MS, said["expires_in_ms"])})
        return reply

    return rule


def id_of(entry: Any) -> str | None:  # noqa: ANN401 — JSON
    """Return the id of an entry of a batch, be it an object or markdown."""
    if isinstance(entry, dict):
        inner = entry.get("node", entry)
        if isinstance(inner, dict):
            return inner.get("id")
        entry = inner
    found = re.search(r"^id:\s*(\S+)", entry, re.MULTILINE) if isinstance(entry, str) else None
    return found.group(1) if found else None


def root_of(query: str, sent: Any) -> object:  # noqa: ANN401 — JSON
    """Return which node a request for a briefing was about, whether the query says so or the body."""
    named = parse_qs(urlsplit(f"?{query}").query).get("root")
    return named[0] if named else sent.get("root") if isinstance(sent, dict) else None


SCENARIOS: Final = (
    Scenario(
        "resolves", "The work resolves its item, says that it did not, and ends with code 3.",
        one, "It did not work out.", exits=3, resolves=True,
    ),
    Scenario(
        "claims-victory", "The work says that it is done and ends with code 0; no edge says so. "
        "The answer to the first report is lost.",
        one, "All done, tests pass, resolved.", spoils=cuts_the_first_report,
    ),
    Scenario("crashes", "The work crashes after a long report.", one, LONG, exits=1),
    Scenario(
        "works-long", "The work lasts longer than half the horizon and leaves no word.",
        one, "", waits=True, spoils=shortens_the_horizon,
    ),
    Scenario("report-refused", "The graph refuses the report.", one, "Half of it.", spoils=refuses_reports),
    Scenario("report-rejected", "The answer is 207, the report rejected.", one, "Half.", spoils=rejects_reports),
    Scenario("race", "A rival claims the best item first.", two, "Looked at it.", spoils=is_faster),
    Scenario("declines", "The work declines its item.", one, DECLINE),
    Scenario("unjudgeable", "The item is a finding, which no edge can resolve.", unjudgeable, "Looked at it."),
    Scenario(
        "asks", "A person's item stands above the worker's, and the work asks a question that mentions nothing.",
        beside_a_persons, "Asked first.", asks=True,
    ),
)  # fmt: skip
