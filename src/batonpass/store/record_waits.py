"""What the fields that somebody waits for are at, for all who wait at once."""

from __future__ import annotations

from collections.abc import Iterable

from batonpass.core.ids import Instant
from batonpass.core.record_waits import FieldAt, Stand, held_until
from batonpass.core.records import FieldName
from batonpass.store.base import Reader, Row, as_json, now_asked, q
from batonpass.store.records import key_of, parse_key


async def stands(tx: Reader, wanted: Iterable[FieldAt]) -> dict[FieldAt, Stand]:
    """Return where each field stands now; a field of a record that is not there is not in it."""
    asked = as_json([{**key_of(one.record), "field": one.field} for one in sorted(wanted)])
    rows, ((now,),) = await tx.fetch(q("record_waits.stands", wanted=asked), now_asked(tx.clock))
    return {FieldAt(parse_key(row), FieldName(row[2])): _stand(row, now) for row in rows}


def _stand(row: Row, now: Instant) -> Stand:
    written, leased, epoch, tenure, granted_at, expires_at = row[3:]
    if leased is None:
        return Stand(written or 0)
    ends = held_until(granted_at, expires_at, now) if tenure else None
    return Stand(leased, epoch=epoch, tenure=bool(tenure), left_us=max(ends - now, 0) if ends is not None else 0)
