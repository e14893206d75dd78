"""The one verb on a record's task: claim, renew or release it (task-fields specification, D34)."""

from __future__ import annotations

from dataclasses import dataclass

from batonpass.core.leases import Request, Verb
from batonpass.core.premises import BasedOn, Premise
from batonpass.core.records import FieldName, RecordPath
from batonpass.server.services.asks import Ask
from batonpass.server.services.change import Caller, require_record_writer
from batonpass.server.services.engine import Done, LeaseEngine
from batonpass.server.services.leases import done
from batonpass.store.base import Fences


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked of the task `field` of `record`.

    `lease_s` is for how long, None for as long as its class says; 0 releases
    it. `renew` moves the end of what the caller has, where a mere claim leaves
    it as it is.
    """

    record: RecordPath
    field: FieldName
    lease_s: int | None = None
    renew: bool = False
    premises: tuple[Premise, ...] = ()

    @property
    def verb(self) -> Verb:
        """What the lease engine is asked to do."""
        if self.lease_s == 0:
            return Verb.RELEASE
        return Verb.RENEW if self.renew else Verb.CLAIM


class Tasks:
    """The tasks of records, which are leases: all that is decided about one is the lease engine's."""

    def __init__(self, engine: LeaseEngine) -> None:
        self._engine = engine

    async def carry_out(self, caller: Caller, wish: Wish) -> Done:
        """Do what is wished; raise its refusal, which then is all that has come of it."""
        require_record_writer(caller.principal)
        task = wish.record.task(wish.field)
        fences = Fences(
            named=caller.fences,
            changing=frozenset({task}),
            based_on=BasedOn(wish.record, wish.premises) if wish.premises else None,
        )
        (outcome,) = await self._engine.decide([Ask(Request(caller.principal, wish.verb, task), fences, wish.lease_s)])
        return done(outcome)
