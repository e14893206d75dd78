"""What a crowd was told, held against what the database says happened: each finding is a sentence, and none is right.

people = await admit(url, agents=50)                 # before
events = await told_of(url, after=start)             # after
assert findings(diary, events) == []
assert unheard(crowd.readers, events) == []
fairness(diary)                                      # figures, to be compared with a bound
"""

from __future__ import annotations

import statistics
from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from batonpass.core.clock import MICROS_PER_S, Clock, micros
from batonpass.core.feed import StoredEvent
from batonpass.core.ids import Instant
from batonpass.core.policy import PROVISIONAL
from batonpass.store import events as stored
from batonpass.store.open import open_store
from batonpass.testing.crowd import Diary, People, Reader, Wait
from batonpass.testing.server import in_process_server

PERSONS: Final = 3
BEGINS: Final = frozenset({"lease.claimed", "lease.taken_over"})
PAGE: Final = 5_000

Grant = tuple[str | None, int | None, str]
"""Item, epoch and holder."""


async def admit(url: str, *, agents: int, clock: Clock | None = None) -> People:
    """Make persons and agents in the empty database at `url`, and return their tokens; nobody's claims are limited."""
    async with in_process_server(url, clock=clock) as server:
        await server.ask("PUT", "/v1/policy/*", {"max_claims": 1_000})
        persons = [server.admin_token, *[await server.add_person(f"Pat-{n}") for n in range(1, PERSONS)]]
        labels = [(f"mill-{n}", persons[n % PERSONS]) for n in range(agents)]
        tokens = [await server.add_agent(label, token=owner, standing=True) for label, owner in labels]
        return People(tuple(persons), tuple(tokens))


async def told_of(url: str, *, after: str) -> list[StoredEvent]:
    """Return every event behind the position `after`, as committed."""
    store = await open_store(url)
    try:
        found: list[StoredEvent] = []
        seq = int(after.rpartition("-")[2])
        async with store.read() as tx:
            while page := await stored.events_after(tx, seq, most=PAGE):
                found += page
                seq = page[-1].seq
        return found
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class Tenure:
    """Who held an item from when to when, by the database's clock; `ended` None: it may hold it still."""

    node: str
    epoch: int
    holder: str
    began: Instant
    ended: Instant | None = None
    released: bool = False

    @property
    def lasted_s(self) -> float:
        """Return how long it lasted, in seconds, or 0 while it does."""
        return 0.0 if self.ended is None else (self.ended - self.began) / MICROS_PER_S


def tenures_of(events: Sequence[StoredEvent]) -> list[Tenure]:
    """Return every tenure, in order of its beginning for each item: it ends with its release or with the next one."""
    found: dict[str, list[Tenure]] = defaultdict(list)
    for event in events:
        if event.node is None or event.epoch is None or not event.kind.startswith("lease."):
            continue
        of_node = found[event.node]
        if of_node and of_node[-1].ended is None and event.kind in BEGINS | {"lease.released", "lease.revoked"}:
            of_node[-1] = replace(of_node[-1], ended=event.at, released=event.kind not in BEGINS)
        if event.kind in BEGINS:
            of_node.append(Tenure(event.node, event.epoch, event.actor, event.at))
    return [tenure for of_node in found.values() for tenure in of_node]


def findings(diary: Diary, events: Sequence[StoredEvent], *, agents: int) -> list[str]:
    """Return what is wrong with what everybody was told, given all that happened."""
    tenures = tenures_of(events)
    return [
        *(f"{what} was answered {status}: {body}" for what, status, body in diary.wrong),
        *_tenures_in_turn(tenures),
        *_grants_are_tenures(diary, tenures, agents=agents),
        *_held_by_one_at_a_time(diary),
        *_told_too_early_or_too_late(diary),
    ]


def _tenures_in_turn(tenures: Sequence[Tenure]) -> Iterator[str]:
    """One after the other, each with the next epoch; none was ended by somebody else before its time."""
    for first, second in pairwise(tenures):
        if first.node != second.node:
            continue
        if second.epoch != first.epoch + 1:
            yield f"{first.node}: epoch {second.epoch} follows {first.epoch}"
        if not first.released and second.began - first.began < micros(PROVISIONAL):
            yield f"{first.node}: {second.holder} took it {first.lasted_s:.3f} s after {first.holder}"
    for tenure in tenures:
        if tenure.ended is not None and tenure.ended < tenure.began:
            yield f"{tenure.node}: tenure {tenure.epoch} ended before it began"


def _grants_are_tenures(diary: Diary, tenures: Sequence[Tenure], *, agents: int) -> Iterator[str]:
    """Every answer is a row, and every row was somebody's answer, who is its holder; none was given twice."""
    told: Counter[Grant] = Counter(
        (wait.node, wait.epoch, f"agent-mill-{wait.poller % agents}") for wait in diary.waits
    )
    rows: Counter[Grant] = Counter((tenure.node, tenure.epoch, tenure.holder) for tenure in tenures)
    for grant in told | rows:
        if told[grant] != rows[grant] or rows[grant] != 1:
            yield f"{grant}: told {told[grant]} times, {rows[grant]} rows"


def _held_by_one_at_a_time(diary: Diary) -> Iterator[str]:
    """From being told to the last word under it, on one clock: no two had the same item."""
    by_node: dict[str | None, list[Wait]] = defaultdict(list)
    for wait in diary.waits:
        by_node[wait.node].append(wait)
    for node, waits in by_node.items():
        for first, second in pairwise(sorted(waits, key=lambda wait: wait.epoch or 0)):
            assert first.let_go_s is not None, first
            assert second.told_s is not None, second
            if second.told_s < first.let_go_s:
                yield f"{node}: poller {second.poller} was told of it while poller {first.poller} had it"


def _told_too_early_or_too_late(diary: Diary) -> Iterator[str]:
    """Nobody was given what was still blocked, or what was known to be done."""
    for wait in diary.waits:
        assert wait.node is not None, wait
        assert wait.asked_s is not None, wait
        assert wait.told_s is not None, wait
        if wait.told_s < diary.freed_s.get(wait.node, 0.0):
            yield f"{wait.node}: given to poller {wait.poller} while it was blocked"
        if wait.asked_s > diary.ended_s.get(wait.node, wait.asked_s):
            yield f"{wait.node}: given to poller {wait.poller}, who asked after it was done"


def unheard(readers: Sequence[Reader], events: Sequence[StoredEvent]) -> list[str]:
    """Return how what readers have read differs from what there is: each event once, in its order, as it is."""
    expected = [(event.seq, event.kind, event.node, event.epoch) for event in events]
    found = []
    for reader in readers:
        read = [(event["seq"], event["kind"], event["node"], event.get("epoch")) for event in reader.events]
        if read != expected:
            at = next((i for i, pair in enumerate(zip(read, expected, strict=False)) if pair[0] != pair[1]), "the end")
            found.append(f"reader at {reader.line.port}: {len(read)} events of {len(expected)}, another at {at}")
    return found


@dataclass(frozen=True, slots=True)
class Fairness:
    """How long pollers waited for an item, in seconds, those at the end included, and who was served how often.

    `spread` is how much more often one was served than another at the same
    server, at most. `overtaken` is how many were served, at any server, while
    one waited who had begun to wait before them, at most.
    """

    served: int
    least: int
    most: int
    spread: int
    overtaken: int
    median_s: float
    p99_s: float
    longest_s: float


def fairness(diary: Diary, *, pollers: int) -> Fairness:
    """Return how fair it was for as long as anybody gave; those who waited then had waited in vain so long."""
    until_s = diary.full_s
    done = sorted((wait for wait in diary.waits if _told(wait) <= until_s), key=_told)
    waited = [_told(wait) - wait.began_s for wait in done] + [until_s - wait.began_s for wait in diary.unserved]
    times = Counter(wait.poller for wait in done)
    by_port: dict[int, list[int]] = defaultdict(list)
    for poller, port in {(wait.poller, wait.port) for wait in [*diary.waits, *diary.unserved]}:
        by_port[port].append(times[poller])
    begun: list[float] = []
    overtaken = 0
    for wait in [*done, *diary.unserved]:
        overtaken = max(overtaken, len(begun) - bisect_right(begun, wait.began_s))
        if wait.told_s is not None:
            insort(begun, wait.began_s)
    return Fairness(
        served=len(done),
        least=min(times[number] for number in range(pollers)),
        most=max(times.values()),
        spread=max(max(of_port) - min(of_port) for of_port in by_port.values()),
        overtaken=overtaken,
        median_s=round(statistics.median(waited), 3),
        p99_s=round(statistics.quantiles(waited, n=100)[-1], 3),
        longest_s=round(max(waited), 3),
    )


def _told(wait: Wait) -> float:
    assert wait.told_s is not None, wait
    return wait.told_s
