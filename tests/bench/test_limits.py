"""The limits write the rows they claim to: a ratio to anything less would flatter us."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from batonpass.core.ids import Instant, Resource
from batonpass.core.leases import Kind, LockedLease
from batonpass.core.records import ClassName, FieldName, RecordId, RecordPath
from batonpass.store import leases, records
from batonpass.store.base import SYSTEM, Fences, q
from batonpass.store.open import open_store
from batonpass.testing.populated import contents
from bench import limits, slowdisk
from bench.seed import CLAIMED, FREE_RECORDS, HELD, HELD_RECORDS, RECORD_CLASS, WORK, Fleet
from bench.served import Database
from bench.world import plain_item

CELLS = 50


async def make_rows(url: str) -> None:
    store = await open_store(url)
    free, held = ([Resource(pool.node(number)) for number in range(pool.count)] for pool in (CLAIMED, HELD))
    async with store.write(SYSTEM, Fences()) as tx:
        leases.create(tx, [*free, *held, *(Resource(plain_item(cell)) for cell in range(CELLS))])
    async with store.write(SYSTEM, Fences(changing=frozenset(held))) as tx:
        leases.write(tx, [(row, claimed(row)) for row in tx.locked.values()])
    await store.close()


async def make_records(url: str) -> None:
    store = await open_store(url)
    pools = (FREE_RECORDS, HELD_RECORDS)
    made = [RecordPath(ClassName(RECORD_CLASS), RecordId(p.record(n))) for p in pools for n in range(p.count)]
    async with store.write(SYSTEM, Fences()) as tx:
        leases.create(tx, [record.task(FieldName(WORK)) for record in made])
        await tx.fetch(records.created_asked(made))
    await store.close()


def claimed(row: LockedLease) -> LockedLease:
    now = Instant(1)
    return replace(
        row, kind=Kind.CLAIM, holder=SYSTEM.id, version=1, claimed_at=now, granted_at=now, expires_at=Instant(2)
    )


async def counts(url: str) -> tuple[int, int, int]:
    """Return how many claims were made, how many events were written, and how often a row was changed in all."""
    store = await open_store(url)
    async with store.read() as tx:
        (events,) = await tx.fetch(q("events.after", seq=0, most=1_000_000))
        nodes = [Resource(pool.node(number)) for pool in (CLAIMED, HELD) for number in range(pool.count)]
        nodes += [Resource(plain_item(cell)) for cell in range(CELLS)]
        rows = (await leases.leases_of(tx, nodes)).values()
    await store.close()
    return sum(row.epoch for row in rows), len(events), sum(row.version for row in rows)


@pytest.fixture
def database(database_url: str) -> Database:
    asyncio.run(make_rows(database_url))
    dialect = "sqlite" if database_url.startswith("sqlite") else "postgres"
    twin = database_url.removeprefix("sqlite:///") if dialect == "sqlite" else database_url
    return Database(dialect, database_url, twin, Fleet("", []))


def test_the_limit_of_a_claim_is_a_claim_and_its_event(database: Database) -> None:
    rate = limits.rate(database, "claim", 0.2)

    claims, events, changes = asyncio.run(counts(database.url))
    assert claims == events == changes - HELD.count > 0
    assert rate > 0


def test_the_limit_of_taking_is_a_claim_of_an_item_of_the_world(database: Database) -> None:
    rate = limits.rate_in_world(database, CELLS, 0.2)

    claims, events, changes = asyncio.run(counts(database.url))
    assert claims == events == changes - HELD.count > 0
    assert rate > 0


def test_the_limit_of_a_renewal_is_one_row(database: Database) -> None:
    rate = limits.rate(database, "renew", 0.2)

    claims, events, changes = asyncio.run(counts(database.url))
    assert (claims, events) == (0, 0)
    assert changes > HELD.count
    assert rate > 0


@pytest.mark.parametrize("verb, kind", [("record_claim", "lease.claimed"), ("record_put", "record.put")])
def test_the_limit_of_a_record_s_verb_is_its_row_its_history_and_its_event(
    database: Database, verb: str, kind: str
) -> None:
    asyncio.run(make_records(database.url))

    rate = limits.rate(database, verb, 0.2)

    rows = contents(database.url)
    written = [event for event in rows["events"] if event[2] == kind]
    versions = [sum(int(str(row[3])) for row in rows[table]) for table in ("records", "record_fields")]
    assert versions == [len(written), len(written) if verb == "record_put" else 0]
    assert len(rows["record_log"]) == len(written) > 0
    assert rate > 0


def test_a_slowed_disk_takes_a_millisecond_a_flush(tmp_path: Path) -> None:
    try:
        environ = slowdisk.environment(tmp_path)
    except slowdisk.NoSlowDisk as reason:
        pytest.skip(str(reason))
    flush = "import os, time; f = os.open('f', os.O_CREAT | os.O_WRONLY); t = time.perf_counter()\n"
    flush += "for _ in range(50): os.write(f, b'x'); os.fdatasync(f); os.fsync(f)\n"
    flush += "print(time.perf_counter() - t)"

    done = subprocess.run(
        [sys.executable, "-c", flush], cwd=tmp_path, env=environ, capture_output=True, text=True, check=True
    )

    assert float(done.stdout) >= 100 * slowdisk.FSYNC_MS / 1000
