"""Taking a task for a command, the server answering from a script: whose tenure is given back when no token comes."""

from __future__ import annotations

import httpx
import pytest

from batonpass.client.client import Client, Patience
from batonpass.core.errors import AlreadyClaimed, BatonError, Forbidden, Unavailable
from batonpass.core.records import FieldName, parse_record_path
from batonpass.testing.scripted import ScriptedServer, answer, refusal, task_answer
from batonpass.wire.identity import MeReply
from batonpass.worker.holding import Wanted, take

WANTED = Wanted(parse_record_path("incidents/inc-1"), FieldName("remediation"))
ME = answer(
    MeReply(
        person="person-ada",
        name="Ada",
        email="ada@example.org",
        bound=True,
        is_admin=False,
        org="org-root",
        scope="write",
        agent="agent-a",
    )
)
CLAIM = "/v1/records/incidents/inc-1/fields/remediation/claim"
CLAIMED = task_answer(5, epoch=4)
RELEASED = task_answer(6, epoch=4, in_ms=None)
TRIES = 3


@pytest.fixture
def server() -> ScriptedServer:
    return ScriptedServer()


def failing(server: ScriptedServer, error: type[BatonError]) -> None:
    """Try to take the task, which must end with `error`."""
    patience = Patience(tries_max=TRIES, sleep=lambda _: None)
    client = Client("http://baton.test", "bat_agt_secret", transport=httpx.MockTransport(server), patience=patience)
    with pytest.raises(error):
        take(client, WANTED)


def test_a_claim_without_an_answer_to_its_mint_is_not_given_back(server: ScriptedServer) -> None:
    """It may be the tenure of another process of the same agent, which a claim is answered too."""
    server.will(ME, CLAIMED, *[httpx.ReadTimeout("restarting")] * TRIES)

    failing(server, Unavailable)

    assert server.paths().count(CLAIM) == 1


def test_a_tenure_that_has_its_token_is_another_processs_and_left_to_it(server: ScriptedServer) -> None:
    server.will(ME, CLAIMED, refusal(409, "conflict"))

    failing(server, AlreadyClaimed)

    assert server.paths().count(CLAIM) == 1


def test_a_claim_whose_mint_is_refused_for_good_is_given_back(server: ScriptedServer) -> None:
    server.will(ME, CLAIMED, refusal(403, "forbidden"), RELEASED)

    failing(server, Forbidden)

    assert server.paths().count(CLAIM) == 2
