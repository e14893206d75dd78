"""Each rule about records' tasks, switched off alone, for the search of `batonpass.testing.task_game` to find.

As in `batonpass.testing.ablation`: another function stands in the place of the
one that keeps the rule, in the test's process.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from batonpass.core import premises as premise_law
from batonpass.core.errors import BrokenPremise
from batonpass.core.identity import Principal
from batonpass.core.leases import Kind, Lease
from batonpass.core.premises import Premise
from batonpass.server.services.asks import Ask
from batonpass.server.services.task_board import TaskBoard
from batonpass.testing.ablation import Ablation, Patch
from batonpass.testing.game import Fate

_broken = premise_law._broken  # noqa: SLF001  # each rule lives in one private function of the law


def _fence_of_any_version(
    premise: Premise, lease: Lease | None, version: int, principal: Principal
) -> BrokenPremise | None:
    if premise.fence and lease is not None:
        premise = Premise(premise.field, version=lease.version, fence=True)
    return _broken(premise, lease, version, principal)


def _fence_of_a_tenure_that_is_over(
    premise: Premise, lease: Lease | None, version: int, principal: Principal
) -> BrokenPremise | None:
    if premise.fence and lease is not None and lease.kind is Kind.NONE:
        lease = replace(lease, kind=Kind.CLAIM, holder=principal.id)
    return _broken(premise, lease, version, principal)


def _anybodys(lease: Lease, principal: Principal) -> bool:
    del lease, principal
    return True


def _unnoted(*_: object, **__: object) -> None:
    """Leave the record's row as it is."""


TASK_ABLATIONS: Final = {
    ablation.rule: ablation
    for ablation in (
        Ablation(
            "D33 a fence compares what it names",
            "fence",
            (Patch(premise_law, "_broken", _fence_of_any_version),),
            {"claim": 3, "renew": 3, "write": 4, "deliver": 3},
            fates=(Fate.ANSWERED, Fate.ANSWERED, Fate.LATER),
        ),
        Ablation(
            "D33 a fence is of one who may act on the tenure",
            "fence",
            (Patch(premise_law, "may_renew", _anybodys),),
            {"claim": 3, "steal": 3},
            fates=(Fate.ANSWERED,),
        ),
        Ablation(
            "D33 a fence ends with its tenure",
            "fence",
            (Patch(premise_law, "_broken", _fence_of_a_tenure_that_is_over),),
            {"claim": 3, "release": 3, "write": 4},
            fates=(Fate.ANSWERED,),
        ),
        Ablation(
            "D33 what a fence pins never acquires",
            "no-ghost",
            (Patch(Ask, "is_pinned", property(lambda _: False)),),
            {"claim": 4, "lapse": 2},
            fates=(Fate.ANSWERED,),
        ),
        Ablation(
            "D32 a record's version rises with its tasks'",
            "version-up",
            (Patch(TaskBoard, "note", _unnoted),),
            {"claim": 3, "renew": 3},
            fates=(Fate.ANSWERED,),
        ),
    )
}
