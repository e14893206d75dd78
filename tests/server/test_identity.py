from __future__ import annotations

import pytest

from batonpass.testing.server import InProcessServer

pytestmark = pytest.mark.anyio


async def test_me_says_who_a_person_is(server: InProcessServer) -> None:
    assert await server.ask("GET", "/v1/me") == {
        "person": "person-ada-admin",
        "name": "Ada Admin",
        "email": "ada@example.org",
        "bound": True,
        "is_admin": True,
        "org": "org-root",
        "scope": "write",
    }
