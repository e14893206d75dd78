"""Lease policy per project: read by everybody, written by admins (D8, D39, D41)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from batonpass.core.errors import Invalid
from batonpass.core.policy import EVERY_PROJECT, Policy
from batonpass.server.services.change import Caller, Replayed, change
from batonpass.server.services.principals import require_admin, require_current
from batonpass.store import events, items, leases
from batonpass.store.base import Store, retried
from batonpass.store.items import What
from batonpass.wire.policy import PolicyReply, policy_reply

LIMITS: Final[Mapping[str, tuple[int, int]]] = {
    "claim_ttl_ms": (1_000, 7 * 86_400_000),
    "claim_ttl_max_ms": (1_000, 30 * 86_400_000),
    "reserve_grace_ms": (1_000, 30 * 86_400_000),
    "lapse_limit": (1, 1_000),
    "run_limit": (1, 10_000),
    "max_claims": (1, 10_000),
}
"""The least and the most of each number."""
READINESS: Final = frozenset({"lapse_limit", "run_limit", "agents_may_ready"})
"""What decides whom an item is for, so that every item of the project has to be looked at again."""
REASON_CHARS_MAX: Final = 500


class Policies:
    """The policies of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def get(self, project: str) -> Policy:
        """Return the policy in force for `project`; `*` is what projects fall back to."""
        async with self._store.read() as tx:
            (rows,) = await tx.fetch(leases.policies_asked())
        return leases.policies(rows).for_project(project)

    @retried
    async def put(self, caller: Caller, project: str, given: Mapping[str, object]) -> PolicyReply | Replayed:
        """Change the settings in `given`; None goes back to the default. An admin's; the next grant follows it."""
        require_admin(caller.principal)
        check(given)
        async with change(self._store, caller, onto=frozenset()) as made:
            if made.replayed is not None:
                return made.replayed
            require_admin(await require_current(made.tx, made.now))
            _, rows = await made.tx.fetch(leases.policies_locked(), leases.policies_asked())
            stored = leases.policies(rows)
            settings = {**stored.own_settings(project), **given}
            leases.put_policy(made.tx, project, settings)
            if READINESS & given.keys():
                items.note(made.tx, [project], What.PROJECT)
                made.stirred = True
            shown = None if project == EVERY_PROJECT else project
            event = events.Event("policy.changed", None, shown, caller.principal, data=dict(given))
            events.append(made.tx, [event], at=made.now)
            after = stored.with_settings(project, settings)
            return made.answer(policy_reply(project, after.for_project(project), warnings=caller.warnings))


def check(given: Mapping[str, object]) -> None:
    """Raise `Invalid` for a number outside its limits or a reason that is empty or too long."""
    for name, value in given.items():
        if isinstance(value, int) and not isinstance(value, bool):
            least, most = LIMITS[name]
            if not least <= value <= most:
                raise Invalid(f"{name}: {value} is outside {least} to {most}", field=name)
        if isinstance(value, str) and not 0 < len(value.strip()) <= REASON_CHARS_MAX:
            raise Invalid(f"{name}: give a reason of 1 to {REASON_CHARS_MAX} characters, or null", field=name)
