"""For nearly every requirement, a server that breaks them: ours, behind a proxy that spoils its answers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from batonpass.cli.local import Person, serve_throwaway
from batonpass.conformance.grades import Grade
from batonpass.conformance.proxy import Ask, Forward, Record, Reply, Rule, proxy, refusal
from batonpass.conformance.servers import grade_server, requirements
from batonpass.conformance.world import Server
from batonpass.testing.clock import ManualClock

_numbers: Final = itertools.count(1)
Change = Callable[[Any], Any]


def spoiled(
    path: str, change: Change, *, method: str = "POST", only: int | None = None, status: int | None = None
) -> Rule:
    """Answer with what `change` makes of the body of each answer, those of the status `only` if it is given."""

    def rule(ask: Ask, forward: Forward) -> Reply | None:
        reply = forward()
        matches = ask.method == method and re.fullmatch(path, ask.path) and (only is None or reply.status == only)
        return reply.saying(change(reply.data), status=status) if matches else reply

    return rule


def without(*names: str) -> Change:
    """Leave keys out, wherever they stand."""

    def change(data: Any) -> Any:  # noqa: ANN401 — JSON
        if isinstance(data, dict):
            return {key: change(value) for key, value in data.items() if key not in names}
        return [change(each) for each in data] if isinstance(data, list) else data

    return change


def saying(**values: object) -> Change:
    """Put values in the place of what stands under these keys, wherever they stand."""

    def change(data: Any) -> Any:  # noqa: ANN401 — JSON
        if isinstance(data, dict):
            return {key: values[key] if key in values else change(value) for key, value in data.items()}
        return [change(each) for each in data] if isinstance(data, list) else data

    return change


def adding(**values: object) -> Change:
    """Add keys at the top."""
    return lambda data: {**data, **values}


def same(data: Any) -> Any:  # noqa: ANN401 — JSON
    return data


def backwards(page: Any) -> Any:  # noqa: ANN401 — JSON
    return {**page, "items": page["items"][::-1]}


def refuses_what_it_does_not_know(ask: Ask, forward: Forward) -> Reply | None:
    known = not isinstance(ask.data, dict) or "newer" not in ask.data
    return forward() if known else refusal(422, "invalid_node", "no such field")


CLAIM, RENEW, EXTEND, RESERVE, RELEASE = (
    rf"/v1/nodes/[^/]+/{verb}" for verb in ("claim", "renew", "extend", "reserve", "release")
)
NODE, ANYWHERE, TASK = r"/v1/nodes/[^/]+", r"/v1/.*", r"/v1/records/.*/claim"
QUEUE, BATCH, AGENTS = "/v1/queue", "/v1/nodes", "/v1/agents"
TOKEN, EDGES = r"/v1/agents/[^/]+/token", r"/v1/nodes/[^/]+/edges"

BROKEN: Final[dict[str, Rule]] = {
    "claim-takes": spoiled(CLAIM, without("edge")),
    "claim-lease-view": spoiled(CLAIM, without("claimed_at")),
    "claim-horizon": spoiled(CLAIM, saying(expires_in_ms=60_000)),
    "claim-edge": spoiled(NODE, saying(edges=[]), method="GET"),
    "claim-held": spoiled(CLAIM, without("holder")),
    "claim-again": spoiled(CLAIM, saying(edge="added")),
    "claim-session": spoiled(CLAIM, saying(session=None)),
    "claim-identity": spoiled(CLAIM, saying(by="person-somebody")),
    "claim-nonce": spoiled(CLAIM, same, only=409, status=200),
    "claim-lapsed": spoiled(CLAIM, saying(by="agent-before")),
    "claim-blocked": spoiled(CLAIM, saying(status="blocked")),
    "not-claimable": spoiled(CLAIM, same, only=422, status=400),
    "not-found": spoiled(NODE, same, method="GET", only=404, status=403),
    "renew-bumps": spoiled(RENEW, without("status")),
    "renew-reclaims": spoiled(RENEW, without("reclaimed")),
    "renew-lost": spoiled(RENEW, saying(code="already_claimed")),
    "renew-binds": spoiled(RENEW, saying(session=None)),
    "renew-person": spoiled(RENEW, same, status=403),
    "extend-stretches": spoiled(EXTEND, saying(status="renewed")),
    "extend-capped": spoiled(EXTEND, without("capped_to_max")),
    "extend-positive": spoiled(EXTEND, same, only=422, status=200),
    "extend-lost": spoiled(EXTEND, without("holder")),
    "reserve-parks": spoiled(RESERVE, without("grace_window_ms")),
    "reserve-lost": spoiled(RESERVE, same, only=409, status=200),
    "reserve-queue": spoiled(QUEUE, without("lease_state"), method="GET"),
    "release-drops": spoiled(RELEASE, saying(edge="skipped")),
    "release-idempotent": spoiled(RELEASE, saying(edge="removed")),
    "release-held": spoiled(RELEASE, same, only=409, status=200),
    "status-claims": spoiled(r"/v1/nodes/[^/]+/status", without("lease")),
    "horizon-now": spoiled(RESERVE, saying(expires_in_ms=1)),
    "set-claim": spoiled("/v1/queue/claim", saying(status="done")),
    "set-claim-partial": spoiled("/v1/queue/claim", saying(failed=[])),
    "set-renew-held": spoiled("/v1/queue/renew", saying(count=0)),
    "set-renew-horizon": spoiled("/v1/queue/renew", without("expires_in_ms")),
    "bearer": spoiled(ANYWHERE, same, method="GET", only=401, status=403),
    "error-envelope": spoiled(ANYWHERE, lambda _: {"error": "no"}, method="GET", only=401),
    "bad-json": spoiled("/v1/queue/claim", same, only=400, status=422),
    "too-large": spoiled(BATCH, same, only=413, status=400),
    "unknown-fields": refuses_what_it_does_not_know,
    "me": spoiled("/v1/me", without("is_admin"), method="GET"),
    "agent-create": spoiled(AGENTS, same, only=201, status=200),
    "agent-refused": spoiled(AGENTS, same, only=409, status=422),
    "agent-list-all": spoiled(AGENTS, same, method="GET", only=403, status=200),
    "token-session": spoiled(TOKEN, without("session")),
    "token-standing": spoiled(TOKEN, without("label")),
    "token-owner": spoiled(TOKEN, same, only=403, status=404),
    "session-once": spoiled("/v1/agents/session", without("unchanged")),
    "attribution": spoiled(NODE, without("authored_by_agent"), method="GET"),
    "put-results": spoiled(BATCH, without("warnings")),
    "put-partial": spoiled(BATCH, same, only=207, status=200),
    "put-exists-skip": spoiled(BATCH, saying(status="created")),
    "put-exists-error": spoiled(BATCH, saying(revision=None)),
    "born-terminal": spoiled(BATCH, saying(code="invalid_node"), only=207),
    "read-node": spoiled(NODE, without("raw"), method="GET"),
    "read-unresolved": spoiled(NODE, adding(resolution={"by": "art-1"}), method="GET"),
    "read-resolution": spoiled(NODE, without("edge"), method="GET"),
    "resolver-counts": spoiled(NODE, adding(resolution={"by": "art-1"}), method="GET"),
    "read-enriched": spoiled(NODE, without("open_findings"), method="GET"),
    "edge-add": spoiled(EDGES, saying(status="updated")),
    "edge-inverse": spoiled(EDGES, saying(id="task-other")),
    "edge-remove": spoiled(EDGES, saying(status="updated"), method="DELETE"),
    "status-gate": spoiled(r"/v1/nodes/[^/]+/status", same, only=409, status=422),
    "priority": spoiled(NODE, without("priority_by"), method="GET"),
    "readiness": spoiled(NODE, without("readiness_via"), method="GET"),
    "commits": spoiled(r"/v1/nodes/[^/]+/commits", saying(status="updated")),
    "batch-read": spoiled("/v1/nodes/batch", lambda page: {**page, "nodes": page["nodes"][::-1]}),
    "batch-read-missing": spoiled("/v1/nodes/batch", saying(missing_ids=[])),
    "history-read": spoiled(r"/v1/nodes/[^/]+/history", saying(entries=[]), method="GET"),
    "queue-envelope": spoiled(QUEUE, without("counts_by_type"), method="GET"),
    "queue-item": spoiled(QUEUE, without("why"), method="GET"),
    "queue-readiness": spoiled(QUEUE, without("readiness"), method="GET"),
    "queue-human-wins": spoiled(QUEUE, saying(readiness="agent"), method="GET"),
    "queue-order": spoiled(QUEUE, backwards, method="GET"),
    "queue-blocked": spoiled(QUEUE, without("blocked"), method="GET"),
    "queue-lease": spoiled(QUEUE, without("lease_by"), method="GET"),
    "queue-lease-others": spoiled(QUEUE, without("leased"), method="GET"),
    "queue-gone": spoiled(QUEUE, without("dormant"), method="GET"),
    "queue-refused": spoiled(QUEUE, same, method="GET", only=422, status=200),
    "queue-pages": spoiled(QUEUE, saying(next_offset=None), method="GET"),
    "queue-stamps": spoiled(QUEUE, saying(suggest="do"), method="GET"),
    "task-claim": spoiled(TASK, without("owner"), method="PUT"),
    "task-held": spoiled(TASK, saying(error="BUSY"), method="PUT", only=409),
    "task-release": spoiled(TASK, adding(owner="apikey:somebody"), method="PUT"),
    "task-renew": spoiled(TASK, saying(version=1), method="PUT"),
    "task-takeover": spoiled(TASK, without("took_over_from"), method="PUT"),
    "task-not-task": spoiled(TASK, saying(error="BAD_REQUEST"), method="PUT"),
    "task-scope": spoiled(TASK, same, method="PUT", only=403, status=409),
    "renew-no-write": spoiled(NODE, lambda node: {**node, "revision": str(next(_numbers))}, method="GET"),
    "extend-never-shortens": spoiled(RENEW, saying(expires=0)),
    "extend-reclaims": spoiled(EXTEND, without("reclaimed")),
    "reserve-edge": spoiled(NODE, saying(edges=[]), method="GET"),
    "reserve-reclaims": spoiled(RESERVE, without("reclaimed")),
    "reserve-taken-up": spoiled(CLAIM, lambda said: {**said, "lease": {"reserved": True}}),
    "reserve-escalates": spoiled(QUEUE, adding(reserved=1), method="GET"),
    "release-hand-made": spoiled(NODE, saying(edges=[]), method="GET"),
    "status-terminal-keeps": spoiled(NODE, saying(edges=[]), method="GET"),
    "set-claim-horizon": spoiled("/v1/queue/claim", without("expires_in_ms")),
    "set-claim-refused": spoiled("/v1/queue/claim", adding(expires_in_ms=1)),
    "set-claim-ids": spoiled("/v1/queue/claim", same, only=422, status=200),
    "set-claim-duplicates": spoiled("/v1/queue/claim", saying(count=2)),
    "set-release": spoiled("/v1/queue/release", saying(count=9)),
    "token-week": spoiled(TOKEN, saying(expires_at="2999-01-01T00:00:00+00:00")),
    "token-standing-limits": spoiled(TOKEN, same, only=422, status=201),
    "token-ended": spoiled(r"/v1/agents/[^/]+/tokens/.*", same, method="DELETE", only=404, status=200),
    "session-late": spoiled("/v1/agents/session", same, only=200, status=202),
    "put-forms": spoiled(BATCH, saying(status="skipped")),
    "put-edge-unknown": spoiled(BATCH, same, only=207, status=200),
    "put-order": spoiled(BATCH, saying(status="created")),
    "completion-gate": spoiled(BATCH, same, only=207, status=200),
    "put-exists-update": spoiled(BATCH, saying(revision=None)),
    "put-edge-names": spoiled(NODE, saying(edges=[]), method="GET"),
    "put-dangling": spoiled(NODE, saying(edges=[]), method="GET"),
    "answers-questions": spoiled(NODE, without("resolution"), method="GET"),
    "batch-read-pages": spoiled("/v1/nodes/batch", saying(next_cursor=None)),
    "commit-lookup": spoiled(r"/v1/commits/.*", saying(nodes=[]), method="GET"),
    "schema-read": spoiled("/v1/schema", saying(types=[]), method="GET"),
    "execution-hold": spoiled(NODE, without("execution_hold"), method="GET"),
    "edge-live": spoiled(rf"{EDGES}/live", same, only=409, status=200),
    "edge-replace": spoiled(NODE, saying(edges=[]), method="GET"),
    "edge-both": spoiled(EDGES, same, only=404, status=422),
    "status-words": spoiled(r"/v1/nodes/[^/]+/status", same, only=422, status=409),
    "queue-unstamped": spoiled(QUEUE, saying(project="web"), method="GET"),
    "queue-filters": spoiled(QUEUE, saying(items=[]), method="GET"),
    "worker-pool": spoiled(QUEUE, backwards, method="GET"),
    "worker-human": spoiled(QUEUE, saying(readiness="agent"), method="GET"),
    "worker-race": spoiled(CLAIM, same, only=409, status=200),
    "worker-resolved": spoiled(NODE, without("resolution"), method="GET"),
    "worker-reported": spoiled(BATCH, saying(ok=False)),
    "worker-order": spoiled(RELEASE, same, status=409),
    "worker-report-idempotent": spoiled(BATCH, lambda said: saying(ok=False)(said) if "skipped" in str(said) else said),
    "worker-declined": spoiled(NODE, without("open_findings"), method="GET"),
    "worker-unjudgeable": spoiled(NODE, saying(type="task"), method="GET"),
    "worker-refused": spoiled(BATCH, lambda _: {"results": [{"ok": True}]}, only=403, status=200),
    "worker-failed": spoiled(RELEASE, same, status=409),
    "worker-beat": spoiled("/v1/queue/renew", saying(renewed=[])),
    "worker-crash": spoiled("/v1/queue/renew", saying(renewed=["task-gone"])),
    "task-claim-creates": spoiled(r"/v1/records/[^/]+/[^/]+", saying(record_version=9), method="GET"),
    "task-one-wins": spoiled(TASK, same, method="PUT", only=409, status=200),
    "task-claim-again": spoiled(TASK, without("owner"), method="PUT"),
    "task-identity": spoiled(TASK, saying(owner="apikey:somebody"), method="PUT"),
    "task-fleet": spoiled(TASK, saying(owner="apikey:everybody"), method="PUT"),
    "task-renew-held": spoiled(TASK, same, method="PUT", only=409, status=200),
    "task-takeover-history": spoiled(r"/v1/records/.*/history", saying(verb="claim"), method="GET"),
    "task-release-other": spoiled(r"/v1/records/.*/history", saying(verb="release"), method="GET"),
    "task-get": spoiled(r"/v1/records/.*/fields/remediation", without("owner"), method="GET"),
    "task-lease-default": spoiled(TASK, same, method="PUT", only=400, status=200),
    "task-claim-reads": spoiled(r"/v1/classes/.*", same, method="PUT", status=200),
    "task-fence": spoiled(r"/v1/records/.*/fields/status", same, method="PUT", only=409, status=200),
    "task-locks-nothing-else": spoiled(r"/v1/records/.*/fields/status", same, method="PUT", only=200, status=409),
}

UNBROKEN: Final = frozenset(
    (
        "release-edge release-lapsed set-claim-no-nonce set-renew-never-reclaims set-renew-session "
        "set-renew-reserved set-renew-ids set-renew-reclaims set-renew-empty set-release-session "
        "set-release-never-fails attribution-deferred "
    ).split()
)
"""What no spoiled answer breaks by itself: it takes a server that remembers something else."""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that is not broken; every case has a corner of it to itself."""
    clock = ManualClock()
    folder = tmp_path_factory.mktemp("broken")
    with serve_throwaway(folder, Person("Ada Admin", "ada@example.org"), clock=clock) as (address, token):
        yield Server(address, token.token, clock.advance)


@pytest.mark.parametrize("broken", BROKEN)
def test_a_server_that_breaks_a_requirement_fails_it_and_is_told_where(own: Server, broken: str) -> None:
    with proxy(own.address, Record(), rule=BROKEN[broken]) as address:
        (graded,) = grade_server(Server(address, own.admin_token, own.passes), only=(broken,), numbers=_numbers)

    assert graded.grade is Grade.FAIL
    assert "at cases/" in graded.why
    assert graded.evidence
    assert own.admin_token not in str(graded.told())


def test_the_proxy_itself_breaks_nothing(own: Server) -> None:
    """So that what fails above fails for what is spoiled; every sixth will do."""
    with proxy(own.address, Record()) as address:
        graded = grade_server(Server(address, own.admin_token, own.passes), only=tuple(BROKEN)[::6], numbers=_numbers)

    assert [(each.id, each.why) for each in graded if each.grade is not Grade.PASS] == []


def test_what_takes_time_to_pass_is_not_seen_where_nobody_moves_the_clock(own: Server) -> None:
    (graded,) = grade_server(Server(own.address, own.admin_token), only=("claim-lapsed",), numbers=_numbers)

    assert graded.grade is Grade.NOT_SEEN
    assert "clock" in graded.why


def test_each_requirement_is_broken_or_counted_among_those_that_are_not() -> None:
    assert BROKEN.keys() ^ UNBROKEN == {each.id for each in requirements()}
