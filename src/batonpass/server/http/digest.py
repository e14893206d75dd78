"""POST /v1/digest and GET /v1/briefing/{project} (companion 5.1)."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from batonpass.core.digest_text import Mode
from batonpass.core.errors import Invalid
from batonpass.core.ids import parse_label, parse_node_id
from batonpass.core.nodes import parse_slug
from batonpass.server.http.call import Call, reply
from batonpass.server.services.digest import Asked
from batonpass.wire import digest as wire

QUERY_CHARS_MAX: Final = 2_000
FINGERPRINTS_MAX: Final = 20


async def compile_(call: Call) -> Response:
    """Compile what is known around a node, or about a question."""
    body = await call.body(wire.DigestRequest)
    found = await call.services.digests.compile(_asked(body.value))
    return reply(
        wire.DigestReply(found=found.found, text=found.text, node_ids=list(found.node_ids), top_sim=found.top_sim),
        ignored=body.ignored,
    )


async def briefing(call: Call) -> Response:
    """Read the briefing of a project, or of a repository with that of its project."""
    project = parse_slug(call.request.path_params["project"], name="project")
    found = await call.services.briefings.get(project, fingerprints=_fingerprints(call.query.get("fp", "")))
    return reply(
        wire.BriefingReply(
            found=found.found,
            version=found.version,
            body=found.body,
            graph_status=found.status.value,
            project_brief=found.of_grouping or None,
        )
    )


def _fingerprints(text: str) -> list[str]:
    given = [part.strip() for part in text.split(",") if part.strip()]
    if len(given) > FINGERPRINTS_MAX:
        raise Invalid(f"fp: {len(given)} fingerprints; the limit is {FINGERPRINTS_MAX}", field="fp")
    return [parse_label(part, field="fp") for part in given]


def _asked(value: wire.DigestRequest) -> Asked:
    root = parse_node_id(value.root, field="root") if value.root is not None else None
    query = (value.query or "").strip()
    if root is None and not query:
        raise Invalid("root: name a node, or say in query what it is to be about", field="root")
    if len(query) > QUERY_CHARS_MAX:
        raise Invalid(f"query: {len(query)} code points; the limit is {QUERY_CHARS_MAX} code points", field="query")
    if value.min_sim is not None and not 0 <= value.min_sim <= 1:
        raise Invalid("min_sim: takes a number from 0 to 1", field="min_sim")
    return Asked(
        root=root,
        query="" if root is not None else query,
        project=parse_slug(value.project, name="project") if value.project is not None else None,
        min_sim=value.min_sim,
        mode=Mode(value.mode),
    )
