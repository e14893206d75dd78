"""`GET R/fields/{f}?wait=`: an answer that comes when the field moves, for as long as its client is there (D38)."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from batonpass.core.errors import Invalid
from batonpass.core.record_waits import FieldAt, Stand
from batonpass.core.records import identity_of
from batonpass.server.http.call import Call, flag
from batonpass.server.http.waiting import place_of, require_known_still, wait_s
from batonpass.wire.records import FieldReply

VERSION_MAX: Final = 2**63 - 1


async def when_moved(call: Call, at: FieldAt, read: Callable[[], Awaitable[FieldReply]]) -> FieldReply:
    """Return what `read` gives of a field: at once, or with `wait` when it is no longer as the caller saw it.

    It saw `version`, and, where it says so, `held` or not. Without them it is whatever `read` gives at first.
    """
    asked = call.query
    within_s, version = wait_s(asked), _version(asked)
    held = flag(asked, "held") if "held" in asked else None
    found = await read()
    if not within_s or (version is not None and version != found.version):
        return found
    if held is not None and held != bool(found.held):
        return found
    seen = Stand(
        found.version,
        epoch=found.epoch or 0,
        tenure=found.epoch is not None,
        left_us=(found.expires_in_ms or 0) * 1000 if found.held else 0,
    )
    still = functools.partial(require_known_still, call)
    async with place_of(call.services.feed, call.request.receive) as place:
        viewer = identity_of(call.principal.id)
        await call.services.record_waits.moved(place, at, viewer=viewer, seen=seen, within_s=within_s, still=still)
    await still()
    return await read()


def _version(asked: Mapping[str, str]) -> int | None:
    text = asked.get("version")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text[:20]) > VERSION_MAX:
        raise Invalid("version: takes the version that was seen, a whole number from 0", field="version")
    return int(text)
