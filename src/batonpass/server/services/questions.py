"""Asking and answering: a question finds its person and its project, and an answer ends it (companion 3.8, 6.3).

A question leads to what its asker is at work on, besides what it mentions. So
that item waits: an open question one hop away is a person's (companion 3.8),
until the answer is there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from batonpass.core import filing as naming
from batonpass.core import questions as law
from batonpass.core.edges import Edge, in_order
from batonpass.core.errors import Conflict
from batonpass.core.ids import NodeId, PersonId, Resource
from batonpass.core.node_types import is_dead
from batonpass.core.nodes import Authored
from batonpass.core.questions import Facts, Route
from batonpass.server.services import filing
from batonpass.server.services.change import Caller, Change, Replayed, change
from batonpass.server.services.editor import Deed, Editor, Step
from batonpass.store import edges as edge_rows
from batonpass.store import questions
from batonpass.store.base import Store, retried
from batonpass.wire import questions as wire

QUESTION: Final = "question-"
ANSWER: Final = "dec-answer-"
WAY_OUT: Final = "; file the rest as a node of its own, and mention it"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as it came in, its ids parsed; `mentions` in the order given."""

    text: str
    title: str | None = None
    mentions: tuple[NodeId, ...] = ()
    project: str | None = None
    to: PersonId | None = None
    blocks: tuple[NodeId, ...] = ()


class Questions:
    """The questions of the API."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @retried
    async def ask(self, caller: Caller, asked: Asked) -> wire.QuestionReply | Replayed:
        """File a question, route it by core's law, and say to whom it went."""
        text = filing.require_text(asked.text, way_out=WAY_OUT)
        title = naming.title_of(text) if asked.title is None else asked.title
        stem = naming.stem_of(QUESTION, title)
        onto = filing.onto(caller.principal, _targets(asked))
        async with change(self._store, caller, onto=onto) as made:
            if made.replayed is not None:
                return made.replayed
            at_work = await filing.at_work(made)
            node = await filing.free_id(made.tx, stem, (naming.numbered(stem, n) for n in count(1)))
            editor = await filing.opened(made, {node}, {*_targets(asked), *([at_work] if at_work else [])})
            _require_targets(editor, asked)
            project, route = await _placed(made, editor, asked, at_work)
            authored = Authored(
                id=node,
                type="question",
                title=title,
                summary=naming.summary_of(text),
                status=law.OPEN,
                date=filing.today(made),
                project=project,
                edges=_edges(asked, at_work if at_work in editor.nodes else None, route),
                body=naming.body_of(text, naming.summary_of(text)),
            )
            (stored,) = await filing.file(editor, [authored])
            await editor.finish()
            reply = wire.QuestionReply(
                status="created",
                id=node,
                project=project,
                routed_to=route.to,
                via=route.via.value,
                asker=caller.principal.id,
                revision=stored.revision,
                warnings=list(caller.warnings),
            )
            return made.answer(reply)

    @retried
    async def answer(
        self, caller: Caller, question: NodeId, text: str, *, title: str | None
    ) -> wire.AnswerReply | Replayed:
        """File a decision that answers `question`, and complete it: both, or neither.

        `Conflict` when it is answered or retired already: a better answer supersedes the one that stands.
        """
        text = filing.require_text(text, way_out=WAY_OUT)
        stem = naming.stem_of(ANSWER, question.removeprefix(QUESTION))
        async with change(self._store, caller, onto=frozenset({Resource(question)})) as made:
            if made.replayed is not None:
                return made.replayed
            node = await filing.free_id(made.tx, stem, (naming.numbered(stem, n) for n in count(1)))
            editor = await filing.opened(made, {node}, {question})
            before = editor.require(question)
            law.require_question(before)
            if is_dead(before.kind, before.authored.status):
                raise Conflict(f"{question} is {before.authored.status} already; put a node that supersedes its answer")
            summary = naming.summary_of(text)
            answer = Authored(
                id=node,
                type="decision",
                title=title or naming.title_of(text),
                summary=summary,
                date=filing.today(made),
                project=before.authored.project,
                edges=(Edge("answers", question),),
                body=naming.body_of(text, summary),
            )
            (stored,) = await filing.file(editor, [answer])
            step = Step(before, replace(before.authored, status=law.ANSWERED))
            await editor.check([step])
            moved = {"from": before.authored.status, "to": law.ANSWERED}
            done = await editor.carry_out(step, Deed("status", "node.status", moved))
            await editor.finish()
            reply = wire.AnswerReply("created", node, stored.revision, question, done.revision, list(caller.warnings))
            return made.answer(reply)


async def _placed(made: Change, editor: Editor, asked: Asked, at_work: NodeId | None) -> tuple[str | None, Route]:
    """Return the question's project and its route.

    What is mentioned is locked. Stewards are read as they are now: one who
    steps down at this moment may still be asked, and can pass it on.
    """
    mentioned = [law.mentioned(editor.nodes[node]) for node in asked.mentions]
    own = law.mentioned(editor.nodes[at_work]) if at_work in editor.nodes else None
    project = law.project_of(asked.project, mentioned, own.project if own is not None else None)
    # What the asker is at work on counts as mentioned where it has mentioned nothing itself.
    mentioned = mentioned or ([own] if own is not None else [])
    seats = await _seats(made, {project, *(each.project for each in mentioned)})
    standing = {seat for found in seats.values() for seat in found}
    by = made.caller.principal
    facts = Facts(
        asker=by.person if by.is_person else None,
        to=asked.to,
        mentioned=mentioned,
        project=project,
        seats=seats,
        stewards=await questions.stewards(made.tx, standing.union(each.id for each in mentioned)),
    )
    return project, law.route(facts)


async def _seats(made: Change, projects: set[str | None]) -> dict[str, list[NodeId]]:
    """Return the nodes that stand for each project, nearest first: its repository, its project, what groups them."""
    seats = {slug: [NodeId(f"repo-{slug}"), NodeId(f"proj-{slug}")] for slug in projects if slug is not None}
    own = [seat for found in seats.values() for seat in found]
    (rows,) = await made.tx.fetch(edge_rows.edges_asked(own))
    outbound = edge_rows.edges_by_src(rows)
    for found in seats.values():
        found += [edge.to for seat in tuple(found) for edge in outbound.get(seat, ()) if edge.type == "grouped-under"]
    return seats


def _targets(asked: Asked) -> list[NodeId]:
    return [*asked.mentions, *asked.blocks, *([NodeId(asked.to)] if asked.to is not None else [])]


def _require_targets(editor: Editor, asked: Asked) -> None:
    filing.require_known(editor, asked.mentions, field="mentions")
    filing.require_known(editor, asked.blocks, field="blocks")
    if asked.to is not None:
        filing.require_known(editor, [NodeId(asked.to)], field="to")


def _edges(asked: Asked, at_work: NodeId | None, route: Route) -> tuple[Edge, ...]:
    """Return the question's edges: what it mentions, its asker's item included, what it blocks, and whom it goes to."""
    mentions = dict.fromkeys([*asked.mentions, *([at_work] if at_work is not None else [])])
    routed = [Edge("routed-to", NodeId(route.to))] if route.to is not None else []
    blocks = [Edge("blocks", node) for node in dict.fromkeys(asked.blocks)]
    return in_order([*(Edge("mentions", node) for node in mentions), *blocks, *routed])
