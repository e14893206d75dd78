"""What a dispatch asks the server before it has decided anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from batonpass.wire.identity import AgentBody, AgentsReply
from batonpass.worker.dispatch import plan

if TYPE_CHECKING:
    from batonpass.worker.dispatch.plan import Server


@dataclass
class Paged:
    """A server that gives its list of agents one at a time."""

    pages: Mapping[str | None, tuple[str, str | None]]

    def agents(self, *, after: str | None = None) -> AgentsReply:
        """Return the agent that comes after another."""
        agent, next_ = self.pages[after]
        made = "2026-11-30T12:00:00.000Z"
        body = AgentBody(id=agent, owner="person-ada", label=agent, spiffe="", pubkey=None, created_at=made)
        return AgentsReply([body], next_)


def test_an_agent_of_ones_own_is_known_wherever_in_the_list_it_stands() -> None:
    server = Paged({None: ("agent-a", "agent-a"), "agent-a": ("agent-b", "agent-b"), "agent-b": ("agent-c", None)})

    assert plan.own_agents(cast("Server", server)) == ["agent-a", "agent-b", "agent-c"]
