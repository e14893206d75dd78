"""What the doors that know no class tell of a record's task: nothing (D35)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from batonpass.testing.incidents import CLAIM, R, Scene, incidents
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

TASK: Final = "record:incidents/inc-1#remediation"
NEVER_CLAIMED: Final = "record:incidents/inc-9#remediation"


@pytest.fixture
async def scene(server: InProcessServer, database_url: str) -> Scene:
    return await incidents(server, database_url)


def told(answer: dict[str, Any], resource: str, epoch: int) -> str:
    """Return all that an answer says, but for what the question said."""
    return str(answer).replace(resource, "…").replace(f"epoch {epoch}", "…")


@pytest.mark.parametrize(
    "method, path, body",
    [("PUT", f"{R}/fields/facts", {"value": 1}), ("PUT", "/v1/nodes/task-1/status", {"status": "open"})],
)
async def test_a_fence_tells_a_stranger_nothing_of_a_task(scene: Scene, method: str, path: str, body: object) -> None:
    await scene.ask("mill", "PUT", CLAIM, {})

    answers = [
        told(
            (await scene.send("stranger", method, path, body, If_Lease=f"{resource}; epoch={epoch}")).json(),
            resource,
            epoch,
        )
        for resource, epoch in ((TASK, 1), (TASK, 7), (NEVER_CLAIMED, 1))
    ]

    assert len(set(answers)) == 1, answers
    assert "mill" not in answers[0]


async def test_a_mint_tells_a_stranger_nothing_of_a_task(scene: Scene) -> None:
    await scene.ask("mill", "PUT", CLAIM, {})
    answers = []
    for resource, record, epoch in ((TASK, "inc-1", 1), (TASK, "inc-1", 7), (NEVER_CLAIMED, "inc-9", 1)):
        lease = {"record": f"incidents/{record}", "field": "remediation", "epoch": epoch}
        answer = await scene.send("stranger", "POST", "/v1/agents/agent-stranger/token", {"lease": lease})
        assert answer.json()["error"]["code"] == "lease_lost"
        answers.append(told(answer.json(), resource, epoch))

    assert len(set(answers)) == 1, answers
    assert "mill" not in answers[0]
