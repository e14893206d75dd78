"""What a dispatch would do, told without doing it: the run, its ground, its program, and its whole prompt."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Final

from batonpass.worker import git, worktree
from batonpass.worker.dispatch import prompt
from batonpass.worker.dispatch.plan import Plan, Sending

RUN: Final = "<run>"
"""Stands for the first characters of the run's id, which is drawn when there is a run."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be done, by name, and the prompt."""

    facts: dict[str, str | None]
    prompt: str

    def lines(self) -> list[str]:
        """Return the facts as lines for a person."""
        there = {name: value for name, value in self.facts.items() if value}
        wide = max(map(len, there))
        return [f"{name.ljust(wide)}  {value}" for name, value in there.items()]

    def as_document(self) -> dict[str, object]:
        """Return everything as one document."""
        return {"would": self.facts, "prompt": self.prompt}


def of(plan: Plan, sending: Sending) -> Preview:
    """Return what sending the plan would do."""
    order, ground = plan.order, plan.ground
    item = None if plan.target is None else plan.target.item
    node = None if item is None else item.id
    tree = worktree.planned(sending.settings.home, ground.repository, ground.base, node=node, run=RUN)
    branch = tree.branch.removeprefix(git.HEADS)
    facts = {
        "item": node,
        "agent": str(plan.identity.agent),
        "checkout": f"{ground.repository.folder} (by {plan.place.source})",
        "base": f"{ground.base_ref} at {ground.base}",
        "branch": branch,
        "worktree": str(tree.path),
        "program": shlex.join(order.command) if order.program is None else f"{order.harness}: {order.program}",
        "model": order.model,
        "profile": order.profile,
        "set-up": shlex.join(order.set_up) or None,
        "tear-down": shlex.join(order.tear_down) or None,
        "server": sending.graph.server,
    }
    brief = prompt.Brief(
        node=None if node is None else prompt.quote(sending.graph.node(node)),
        around=prompt.look_around(sending.graph, sending.settings.briefing, item=item, words=order.instructions),
        project=order.project,
        branch=branch,
        target=ground.base_ref.removeprefix(git.HEADS),
        instructions=order.instructions,
        contract=order.contract,
        read_only=order.read_only,
        folder=str(tree.path),
        template=order.template,
    )
    return Preview(facts, prompt.compose(brief))
