"""POST /v1/questions, and their answers (companion 6.3)."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import Response

from batonpass.core.errors import BadRequest, Invalid
from batonpass.core.identity import parse_person_id
from batonpass.core.ids import NodeId, parse_node_id
from batonpass.core.nodes import EDGES_MAX, parse_slug
from batonpass.server.http.call import Call, changed
from batonpass.server.services.questions import Asked
from batonpass.wire import questions as wire
from batonpass.wire.nodes import fences


async def ask(call: Call) -> Response:
    """Ask a question: it is routed to a person, and what the asker works on waits for the answer."""
    body = await call.body(wire.QuestionRequest)
    value = body.value
    asked = Asked(
        text=value.text,
        title=value.title,
        mentions=ids(value.mentions, "mentions"),
        project=_project(value.project),
        to=parse_person_id(value.to, field="to") if value.to is not None else None,
        blocks=ids(value.blocks, "blocks"),
    )
    stands_on = fences(None, if_epoch=None, based_on=value.based_on)
    caller = call.caller(body.raw, warnings=body.notices).standing_on(*stands_on)
    return changed(await call.services.questions.ask(caller, asked))


async def answer(call: Call) -> Response:
    """Answer a question: files the answer and completes the question in one step."""
    node = call.node_id()
    body = await call.body(wire.AnswerRequest)
    value = body.value
    stands_on = fences(node, if_epoch=value.if_epoch, based_on=value.based_on)
    caller = call.caller(body.raw, warnings=body.notices).standing_on(*stands_on)
    return changed(await call.services.questions.answer(caller, node, value.text, title=value.title))


def ids(values: Sequence[object], field: str) -> tuple[NodeId, ...]:
    """Return a list of node ids, each once, in the order given; `Invalid` naming the first that is none."""
    if len(values) > EDGES_MAX:
        raise Invalid(f"{field}: {len(values)} ids; the limit is {EDGES_MAX}, that of a node's edges", field=field)
    return tuple(dict.fromkeys(parse_node_id(value, field=f"{field}[{i}]") for i, value in enumerate(values)))


def _project(text: str | None) -> str | None:
    """Return a project; one that is malformed is 400 on this route, as published."""
    if text is None:
        return None
    try:
        return parse_slug(text, name="project")
    except Invalid as error:
        raise BadRequest(error.message, field="project") from error
