from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import httpx
import pytest

from batonpass.testing.populated import contents
from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio

INCIDENTS: Final = {
    "fields": {
        "status": {"type": "register", "schema": {"enum": ["open", "mitigated", "closed"]}},
        "facts": {"type": "register"},
        "secret": {"type": "register"},
        "actions": {"type": "append", "cap": 3},
        "remediation": {"type": "task", "lease": "300s"},
        "review": {"type": "task"},
    },
    "roles": {
        "remediator": {
            "identities": ["agent:agent-mill", "agent:agent-rival", "apikey:remediator/*"],
            "read": ["status", "facts", "actions", "remediation"],
            "write": ["status", "facts", "actions"],
            "claim": ["remediation"],
        },
        "lead": {"identities": ["person:person-pat"], "read": ["*"], "write": ["*"], "claim": ["*"]},
        "reader": {"identities": ["agent:agent-reader"], "read": ["status"]},
        "writer": {"identities": ["agent:agent-writer"], "write": ["facts"]},
    },
}
R: Final = "/v1/records/incidents/inc-1"


@dataclass(frozen=True, slots=True)
class Scene:
    """A class of incidents, and those who work on them."""

    server: InProcessServer
    url: str
    tokens: dict[str, str]

    async def send(self, who: str, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.server.send(method, path, body, token=self.tokens[who], headers=named)

    async def ask(self, who: str, method: str, path: str, body: object = None, **headers: str) -> Any:
        response = await self.send(who, method, path, body, **headers)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    async def refused(self, who: str, method: str, path: str, body: object = None, **headers: str) -> dict[str, Any]:
        """Return the refusal of a request that must be refused, and must have changed nothing."""
        before = contents(self.url)
        response = await self.send(who, method, path, body, **headers)
        assert response.is_error, response.text
        assert contents(self.url) == before
        answer: dict[str, Any] = response.json()
        assert answer.pop("message")
        return {"status": response.status_code, **answer}


@pytest.fixture
async def scene(server: InProcessServer, database_url: str) -> AsyncIterator[Scene]:
    pat = await server.add_person("Pat")
    tokens = {"admin": server.admin_token, "pat": pat}
    for label in ("mill", "rival", "reader", "writer", "stranger"):
        tokens[label] = await server.add_agent(label, token=pat)
    tokens["key"] = await server.add_key("remediator/worker-1")
    await server.ask("PUT", "/v1/classes/incidents", INCIDENTS)
    yield Scene(server, database_url, tokens)


async def test_what_is_put_is_read(scene: Scene) -> None:
    put = await scene.ask("mill", "PUT", f"{R}/fields/status", {"value": "open"})
    record = await scene.ask("mill", "GET", R)

    assert put == {"record": "incidents/inc-1", "field": "status", "version": 1, "record_version": 1}
    at = record["fields"]["status"].pop("updated_at")
    assert at.endswith("+00:00")
    assert record == {
        "record": "incidents/inc-1",
        "class_version": 1,
        "record_version": 1,
        "fields": {"status": {"version": 1, "author": "agent:agent-mill", "value": "open"}},
    }


async def test_an_append_tells_where_its_item_is(scene: Scene) -> None:
    first = await scene.ask("mill", "POST", f"{R}/fields/actions", {"value": {"did": "restart"}})
    second = await scene.ask("rival", "POST", f"{R}/fields/actions", {"value": None})

    assert [(each["index"], each["version"], each["record_version"]) for each in (first, second)] == [
        (0, 1, 1),
        (1, 2, 2),
    ]
    field = await scene.ask("mill", "GET", f"{R}/fields/actions")
    assert field["value"] == [{"did": "restart"}, None]
    assert (field["author"], field["version"], field["record_version"]) == ("agent:agent-rival", 2, 2)
