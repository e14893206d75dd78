"""`GET R/fields/{f}?wait=`: an answer that comes when the field moves, for as long as its client is there (D38)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Final

from batonpass.core.errors import Invalid
from batonpass.core.record_waits import FieldAt
from batonpass.core.records import identity_of
from batonpass.server.http.call import Call, flag
from batonpass.server.http.waiting import place_of, require_known_still, wait_s
from batonpass.server.services.records import Look

VERSION_MAX: Final = 2**63 - 1


async def when_moved(call: Call, at: FieldAt) -> Look:
    """Return a field as it is: at once, or with `wait` when it is no longer as the caller saw it.

    It saw `version`, and, where it says so, `held` or not. Without them it is whatever there is at first.
    """
    asked, waits, within_s = call.query, call.services.record_waits, wait_s(call.query)
    version, held = _version(asked), flag(asked, "held") if "held" in asked else None
    if not within_s:
        return await call.services.records.field(call.principal, at.record, at.field)
    viewer = identity_of(call.principal.id)
    seen = await waits.stand(at, viewer)
    if seen is not None and version in {None, seen.version} and held in {None, seen.held}:
        still = functools.partial(require_known_still, call)
        async with place_of(call.services.feed, call.request.receive) as place:
            await waits.moved(place, at, viewer=viewer, seen=seen, within_s=within_s, still=still)
        await still()
    return await waits.field(call.principal, at)


def _version(asked: Mapping[str, str]) -> int | None:
    text = asked.get("version")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > VERSION_MAX:
        raise Invalid("version: takes the version that was seen, a whole number from 0", field="version")
    return int(text)
