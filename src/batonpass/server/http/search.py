"""GET /v1/search (D39)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from batonpass.core.errors import Invalid
from batonpass.core.node_types import require_type
from batonpass.core.nodes import parse_slug
from batonpass.core.search import FOUND_MAX, LIMIT_MAX, Question, question
from batonpass.server.http.call import Call, reply
from batonpass.server.http.leases import whole_number
from batonpass.server.services.search import Found, Page
from batonpass.wire import search as wire
from batonpass.wire.text import REPLACEMENT

LIMIT_DEFAULT: Final = 20


async def found(call: Call) -> Response:
    """Find nodes that hold every word of a query, where the last word may only be begun."""
    asked = _question(call.query)
    limit, offset = _window(call.query)
    project = parse_slug(call.query["project"], name="project") if "project" in call.query else None
    page = await call.services.search.page(asked, project=project, limit=limit, offset=offset)
    return reply(
        wire.SearchReply(
            [_body(item) for item in page.items], page.count, page.more, _warnings(call.query.get("q", ""), asked, page)
        )
    )


def _question(query: Mapping[str, str]) -> Question:
    return question(
        query.get("q", ""),
        types=[require_type(name).name for name in query["type"].split(",") if name] if "type" in query else (),
    )


def _window(query: Mapping[str, str]) -> tuple[int, int]:
    """Return limit and offset; beyond what a search finds at most there is nothing to show."""
    limit = whole_number(query.get("limit"), "limit", default=LIMIT_DEFAULT)
    offset = whole_number(query.get("offset"), "offset", default=0, least=0)
    if limit > LIMIT_MAX:
        raise Invalid(f"limit: {limit} nodes; the limit is {LIMIT_MAX} nodes", field="limit")
    if offset >= FOUND_MAX:
        raise Invalid(
            f"offset: {offset} nodes; a search finds at most {FOUND_MAX} nodes, so add a word to it", field="offset"
        )
    return limit, offset


def _warnings(query: str, asked: Question, page: Page) -> list[str]:
    warnings = []
    if REPLACEMENT in query:
        warnings.append("q: has U+FFFD, which stands for what was no text; it is passed over")
    if asked.is_empty:
        warnings.append("q: there is no letter, digit or symbol in it to look for; punctuation is passed over")
    if page.unread:
        warnings.append(
            f"{page.unread} nodes written before an upgrade are not in the index yet; the server is reading them"
        )
    if page.cut:
        warnings.append(
            f"q: {asked.wanted.last} begins words of very many nodes, of which the newest are listed; type more of it"
        )
    return warnings


def _body(found: Found) -> wire.FoundBody:
    node = found.node.authored
    return wire.FoundBody(
        id=node.id,
        type=node.type,
        title=node.title,
        summary=node.summary,
        status=node.status,
        project=node.project,
        date=node.date,
        matched=list(found.matched),
        snippet=found.snippet,
    )
