"""A class of records and those who work on them, for tests of what may be done with a record and what it leaves.

scene = await incidents(server, url)
await scene.ask("mill", "PUT", f"{R}/fields/status", {"value": "open"})
told = await scene.refused("reader", "PUT", f"{R}/fields/status", {"value": "closed"})
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import httpx

from batonpass.testing.populated import contents
from batonpass.testing.server import InProcessServer

CAP: Final = 3
INCIDENTS: Final[Mapping[str, Any]] = {
    "fields": {
        "status": {"type": "register", "schema": {"enum": ["open", "mitigated", "closed"]}},
        "facts": {"type": "register"},
        "secret": {"type": "register"},
        "actions": {"type": "append", "cap": CAP},
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
CLAIM: Final = f"{R}/fields/remediation/claim"


@dataclass(frozen=True, slots=True)
class Scene:
    """Who is there: `admin`, `pat`, agents of hers by their labels, and `key`, an API key. `url` is the database's."""

    server: InProcessServer
    url: str
    tokens: Mapping[str, str]

    async def send(self, who: str, method: str, path: str, body: object = None, **headers: str) -> httpx.Response:
        """Send one request of somebody's and return the response; header names are given with ``_`` for ``-``."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.server.send(method, path, body, token=self.tokens[who], headers=named)

    async def send_raw(self, who: str, method: str, path: str, content: bytes) -> httpx.Response:
        """Send these very bytes as the body."""
        headers = {"Authorization": f"Bearer {self.tokens[who]}", "Content-Type": "application/json"}
        return await self.server.http.request(method, path, content=content, headers=headers)

    async def ask(self, who: str, method: str, path: str, body: object = None, **headers: str) -> Any:  # noqa: ANN401 — JSON
        """Return the JSON of a reply that must be 2xx."""
        response = await self.send(who, method, path, body, **headers)
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    async def refused(self, who: str, method: str, path: str, body: object = None, **headers: str) -> dict[str, Any]:
        """Return the refusal of a request that must be refused, with its status in place of its sentence."""
        response = await self.send(who, method, path, body, **headers)
        assert response.is_error, response.text
        return refusal(response)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Assert at the end of the block that no row of the database has changed in it."""
        before = contents(self.url)
        yield
        assert contents(self.url) == before


def refusal(response: httpx.Response) -> dict[str, Any]:
    """Return a refusal with its status in place of its sentence, which must say something."""
    answer: dict[str, Any] = response.json()
    assert answer.pop("message"), response.text
    return {"status": response.status_code, **answer}


async def incidents(server: InProcessServer, url: str) -> Scene:
    """Apply the class on `server`, whose database is at `url`, and return who works there."""
    pat = await server.add_person("Pat")
    tokens = {"admin": server.admin_token, "pat": pat}
    for label in ("mill", "rival", "reader", "writer", "stranger"):
        tokens[label] = await server.add_agent(label, token=pat)
    tokens["key"] = await server.add_key("remediator/worker-1")
    await server.ask("PUT", "/v1/classes/incidents", INCIDENTS)
    return Scene(server, url, tokens)
