"""What a briefing reads: neighbours hop by hop, reports, corrections, norms, and nodes as they are shown.

Every read is bounded, however large the graph and whatever hub stands in it;
`core.walk` says how much of which node is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from batonpass.core.briefing import RECENT, RECENT_MAX, Repo
from batonpass.core.digest import CORRECTIONS_MAX, REPORT_PREFIXES, REPORTS_MAX, Card
from batonpass.core.ids import Instant, NodeId
from batonpass.core.norms import REPO_PREFIX, Norm, Scope, slug_of
from batonpass.core.walk import Probe, Step
from batonpass.store.base import Reader, Row, Statement, as_json, q

CHAIN_HOPS_MAX: Final = 20
"""How far a chain of successors is followed."""
NORMS_READ_MAX: Final = 200
"""How many norms, the newest first, are looked at for those that apply."""
REPOS_READ_MAX: Final = 1_000
BRIEF_PREFIX: Final = "brief-"


async def neighbours(tx: Reader, probes: Sequence[Probe], *, most: int) -> tuple[list[Step], list[Probe]]:
    """Return the steps that answer the probes, heaviest probe first; and the probes of which there was more."""
    (rows,) = await tx.fetch(q("digest.neighbours", probes=as_json([asdict(probe) for probe in probes]), most=most + 1))
    found: dict[tuple[Probe, str], list[NodeId]] = {}
    for node, edge, direction, other in rows:
        found.setdefault((Probe(NodeId(node), edge), direction), []).append(NodeId(other))
    steps: list[Step] = []
    crowded: list[Probe] = []
    for probe in probes:
        for direction in ("out", "in"):
            others = found.get((probe, direction), [])
            steps += [Step(probe.node, probe.edge, other) for other in others[:most]]
            if len(others) > most:
                crowded.append(probe)
    return steps, crowded


def reports_asked(node: NodeId) -> Statement:
    """Ask for the newest reports and declines of earlier runs on a node, and for one more than are shown."""
    # In the order of bytes a full stop follows the hyphen that each prefix ends with.
    ranges = [{"low": prefix, "high": f"{prefix[:-1]}."} for prefix in REPORT_PREFIXES]
    return q("digest.reports", node=node, ranges=as_json(ranges), most=REPORTS_MAX + 1)


def groupings_asked(slug: str) -> Statement:
    """Ask for the nodes of the projects that the repository called `slug` belongs to."""
    return q("digest.groupings", repo=f"{REPO_PREFIX}{slug}")


def corrections_asked(targets: Sequence[str]) -> Statement:
    """Ask for the newest corrections of each target that are not retired; see `corrections_of`."""
    return q("digest.corrections", targets=as_json(list(dict.fromkeys(targets))), most=CORRECTIONS_MAX + 1)


def corrections_of(rows: Sequence[Row]) -> tuple[list[NodeId], bool]:
    """Return the answer to `corrections_asked`, target by target, and whether any of them has more."""
    by_target: dict[str, list[NodeId]] = {}
    for target, node in rows:
        by_target.setdefault(target, []).append(NodeId(node))
    found = [node for nodes in by_target.values() for node in nodes[:CORRECTIONS_MAX]]
    return found, any(len(nodes) > CORRECTIONS_MAX for nodes in by_target.values())


def successors_asked(ids: Iterable[NodeId]) -> Statement:
    """Ask what stands in the place of nodes that are superseded; see `successors_of`."""
    return q("digest.successors", ids=as_json(sorted(set(ids))), hops=CHAIN_HOPS_MAX)


def successors_of(rows: Sequence[Row]) -> dict[NodeId, NodeId]:
    """Return the answer to `successors_asked`: each superseded node's direct successor."""
    return {NodeId(node): NodeId(successor) for node, successor in rows}


def cards_asked(ids: Iterable[NodeId], *, whole: Iterable[NodeId]) -> Statement:
    """Ask for nodes as they are shown, and for the bodies of `whole`; see `cards_of`."""
    return q("digest.cards", ids=as_json(sorted(set(ids))), whole=as_json(sorted(set(whole))))


def cards_of(rows: Sequence[Row]) -> dict[NodeId, Card]:
    """Return the answer to `cards_asked` by id; what is not there is absent."""
    return {NodeId(row[0]): _card(row) for row in rows}


def norms_asked() -> Statement:
    """Ask for the newest norms in force; see `norms_of`."""
    return q("digest.norms", most=NORMS_READ_MAX)


def norms_of(rows: Sequence[Row]) -> list[Norm]:
    """Return the answer to `norms_asked`."""
    return [Norm(NodeId(node), _scope(json.loads(extra)), date or "") for node, date, extra in rows]


def brief_asked(project: NodeId) -> Statement:
    """Ask for the stored brief of a project or repository, by the id of its node."""
    return q("digest.briefs", id=f"{BRIEF_PREFIX}{slug_of(project)}", target=project)


def recent_asked(slug: str) -> Statement:
    """Ask for the newest nodes of a project, of each kind that its briefing shows."""
    return q("digest.recent", project=slug, types=as_json(RECENT), most=RECENT_MAX)


def repos_asked() -> Statement:
    """Ask for the repositories with the names they go by; see `repos_of`."""
    return q("digest.repos", most=REPOS_READ_MAX)


def repos_of(rows: Sequence[Row]) -> list[Repo]:
    """Return the answer to `repos_asked`."""
    found = [(node, json.loads(extra)) for node, extra in rows]
    return [
        Repo(slug_of(node), frozenset(_listed(more, "slugs")), frozenset(_listed(more, "fingerprints")))
        for node, more in found
    ]


def belongs_asked(slug: str) -> Statement:
    """Ask whether any node belongs to a project."""
    return q("digest.belongs", project=slug)


def ids_of(rows: Sequence[Row]) -> list[NodeId]:
    """Return rows of ids."""
    return [NodeId(row[0]) for row in rows]


def _card(row: Row) -> Card:
    node, kind, title, summary, status, date, project, author, agent, created_at, extra, body = row[:12]
    resolved_by, superseded_by = row[12:]
    more: Mapping[str, object] = json.loads(extra)
    target = more.get("target")
    return Card(
        id=NodeId(node),
        type=kind,
        title=title,
        summary=summary,
        body=body,
        status=status,
        date=date or "",
        created_at=Instant(created_at),
        project=project,
        tags=_listed(more, "tags"),
        author=author,
        agent=agent,
        resolved_by=resolved_by,
        superseded_by=superseded_by,
        pin=_listed(more, "pin"),
        exclude=_listed(more, "exclude"),
        target=target if isinstance(target, str) else None,
    )


def _scope(extra: Mapping[str, object]) -> Scope:
    said = extra.get("always_on")
    return Scope(
        tags=frozenset(_listed(extra, "applies_to_tags")),
        repos=frozenset(_listed(extra, "applies_to_repos")),
        projects=frozenset(_listed(extra, "applies_to_projects")),
        always_on=None if said is None else said == "true",
    )


def _listed(extra: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = extra.get(key)
    return tuple(map(str, value)) if isinstance(value, list) else ()
