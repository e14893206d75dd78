"""Five hundred pollers and fifty writers for a minute: nobody starves, nothing goes out twice, no event is missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Final, LiteralString

import psycopg
import pytest
from tests.soak.conftest import Size

from batonpass.testing.account import admit, fairness, findings, told_of, unheard
from batonpass.testing.crowd import crowd_around
from batonpass.testing.processes import ServerProcess, server_process

pytestmark = pytest.mark.anyio

AGENTS: Final = 20
SPREAD_MAX: Final = 2
"""How much more often one may be served than another at the same server, however scarce the items are: those at the
front of its line try a few at a time, and whoever is just trying when an item comes may be the one to get it."""
PAUSES: Final[LiteralString] = """
-- A twentieth of all writers pause between drawing their numbers and COMMIT, up to a twentieth of a second; one in two
-- hundred is rolled back there, and begun again by the server: the numbers it drew are never used.
CREATE FUNCTION pause_between_drawing_and_commit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF random() < 0.005 THEN RAISE SQLSTATE '40001' USING MESSAGE = 'rolled back after its numbers were drawn'; END IF;
  IF random() < 0.05 THEN PERFORM pg_sleep(random() * 0.05); END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER pause_between_drawing_and_commit AFTER INSERT ON events
  FOR EACH STATEMENT EXECUTE FUNCTION pause_between_drawing_and_commit();
"""


def let_writers_pause(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(PAUSES)


@contextmanager
def servers(url: str) -> Iterator[list[ServerProcess]]:
    """Two server processes over one PostgreSQL, or one over SQLite; with the database's own clock."""
    with ExitStack() as stack:
        yield [stack.enter_context(server_process(url)) for _ in range(1 if url.startswith("sqlite") else 2)]


@pytest.mark.timeout(400)
async def test_in_a_crowd_nobody_starves_nothing_is_handed_out_twice_and_no_event_is_missed(
    database_url: str, size: Size, say: Callable[[object], None]
) -> None:
    pollers, writers = size.of(60, 500), size.of(8, 50)
    people = await admit(database_url, agents=AGENTS)
    if database_url.startswith("postgres"):
        let_writers_pause(database_url)
    with servers(database_url) as running:
        ports = [server.port for server in running]
        async with crowd_around(ports, people, wait_s=size.of(5, 60)) as crowd:
            start = await crowd.listen()
            await crowd.play(pollers=pollers, writers=writers, seconds=size.of(4, 60))
            events = await told_of(database_url, after=start)
            await crowd.hear(events[-1].seq)

    fair = fairness(crowd.diary, pollers=pollers)
    say(f"{fair}; {len(events)} events, {events[-1].seq - events[0].seq + 1 - len(events)} numbers never used")
    say(f"{crowd.diary.written} items filed; answers {dict(crowd.diary.statuses)}")
    assert findings(crowd.diary, events, agents=AGENTS) == []
    assert unheard(crowd.readers, events) == []
    assert fair.spread <= SPREAD_MAX, "whoever waits is served before those who come after it"
