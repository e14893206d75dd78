"""What the lease engine is asked, one request at a time or many."""

from __future__ import annotations

from batonpass.core.ids import Resource
from batonpass.core.leases import Request
from batonpass.core.records import task_of
from batonpass.core.values import value
from batonpass.store.base import Fences


@value(frozen=True, slots=True)
class Ask:
    """One lease request with the fences its caller stands on.

    Of a record's task, `lease_s` is for how long, where the request says so,
    and not as its class has it.
    """

    request: Request
    fences: Fences
    lease_s: int | None = None

    @property
    def is_pinned(self) -> bool:
        """Whether a premise names the very tenure that is asked about: then none begins (D33)."""
        based_on = self.fences.based_on
        return based_on is not None and based_on.pins(task_of(self.request.resource)[1])

    @property
    def makes(self) -> frozenset[Resource]:
        """The lease row to make if it is not there: a task's, with which a tenure may begin. A node has its row."""
        begins = self.request.of_task and self.request.may_acquire and not self.is_pinned
        return frozenset({self.request.resource}) if begins else frozenset()
