"""`baton policy`, `pause` and `resume`: what a project's leases may do."""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, Duration
from batonpass.cli.render import print_fields, print_json, say, span
from batonpass.client import server_calls
from batonpass.client.client import Answer
from batonpass.core.policy import EVERY_PROJECT
from batonpass.wire.policy import PolicyReply, PolicyRequest

MS: Final = 1000


def policy(
    *,
    project: str = EVERY_PROJECT,
    claim_ttl: Duration | None = None,
    claim_ttl_max: Duration | None = None,
    reserve_grace: Duration | None = None,
    lapse_limit: int | None = None,
    run_limit: int | None = None,
    max_claims: int | None = None,
    agents_may_ready: bool | None = None,
    common: Common = COMMON,
) -> None:
    """Show what is in force for a project, or change it.

    A change touches the next grant, never a lease that stands.

    Args:
        project: which; without it what holds for every project that says nothing else.
        claim_ttl: how long a lease lasts unless it is renewed, 45m by default.
        claim_ttl_max: the furthest that it may be extended, 8h by default.
        reserve_grace: how long a reservation is kept for its holder, 48h by default.
        lapse_limit: after how many leases that lapsed without a trace an item waits for a person.
        run_limit: how many runs an item may have in its life.
        max_claims: how many claims one holder may have at a time.
        agents_may_ready: whether an agent's word makes an item ready for agents.

    """
    changes = PolicyRequest(
        claim_ttl_ms=UNSET if claim_ttl is None else int(claim_ttl.total_seconds() * MS),
        claim_ttl_max_ms=UNSET if claim_ttl_max is None else int(claim_ttl_max.total_seconds() * MS),
        reserve_grace_ms=UNSET if reserve_grace is None else int(reserve_grace.total_seconds() * MS),
        lapse_limit=UNSET if lapse_limit is None else lapse_limit,
        run_limit=UNSET if run_limit is None else run_limit,
        max_claims=UNSET if max_claims is None else max_claims,
        agents_may_ready=UNSET if agents_may_ready is None else agents_may_ready,
    )
    asked = (
        server_calls.get_policy(project) if changes == PolicyRequest() else server_calls.put_policy(project, changes)
    )
    _print(ask(common, asked), common)


def pause(*, reason: str, project: str = EVERY_PROJECT, common: Common = COMMON) -> None:
    """Refuse every claim, saying why. What is held may be finished.

    Args:
        reason: what whoever is refused is told.
        project: only claims of this project.

    """
    answer = ask(common, server_calls.put_policy(project, PolicyRequest(paused=reason)))
    if common.json:
        print_json(answer.raw)
    else:
        say(f"claims of {_scope(project)} are refused: baton resume lets them through again")


def resume(*, project: str = EVERY_PROJECT, common: Common = COMMON) -> None:
    """Let claims through again.

    Args:
        project: the project that was paused.

    """
    answer = ask(common, server_calls.put_policy(project, PolicyRequest(paused=None)))
    if common.json:
        print_json(answer.raw)
    elif answer.value.paused is not None:
        say(f"claims of {_scope(project)} are still refused, for every project is paused: baton resume")
    else:
        say(f"claims of {_scope(project)} go through")


def _print(answer: Answer[PolicyReply], common: Common) -> None:
    if common.json:
        print_json(answer.raw)
        return
    found = answer.value
    print_fields(
        {
            "project": _scope(found.project),
            "claim ttl": span(found.claim_ttl_ms),
            "at most": span(found.claim_ttl_max_ms),
            "reserve grace": span(found.reserve_grace_ms),
            "lapse limit": str(found.lapse_limit),
            "run limit": str(found.run_limit),
            "max claims": str(found.max_claims),
            "agents may ready": "yes" if found.agents_may_ready else "no",
            "paused": found.paused or "no",
        }
    )


def _scope(project: str) -> str:
    return "every project" if project == EVERY_PROJECT else project
