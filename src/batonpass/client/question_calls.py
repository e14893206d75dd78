"""The calls about questions, corrections and captures, and the inbox; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Sequence

from batonpass.client.calls import Call, change, query_of
from batonpass.core.ids import NodeId, PersonId
from batonpass.wire import capture as captured
from batonpass.wire import corrections, paths, questions
from batonpass.wire.inbox import InboxReply


def ask_question(
    text: str,
    *,
    title: str | None = None,
    mentions: Sequence[NodeId] = (),
    project: str | None = None,
    to: PersonId | None = None,
    blocks: Sequence[NodeId] = (),
) -> Call[questions.QuestionReply]:
    """Ask a question; the reply says whom it went to. What the caller is at work on waits for the answer."""
    request = questions.QuestionRequest(
        text=text, title=title, mentions=list(mentions), project=project, to=to, blocks=list(blocks)
    )
    return change("POST", paths.QUESTIONS, request, questions.QuestionReply)


def answer_question(
    id_: NodeId, text: str, *, title: str | None = None, if_epoch: int | None = None
) -> Call[questions.AnswerReply]:
    """Answer a question and complete it, in one step."""
    request = questions.AnswerRequest(text=text, title=title, if_epoch=if_epoch)
    return change("POST", paths.fill(paths.QUESTION_ANSWER, id=id_), request, questions.AnswerReply)


def correct(target: str, text: str, *, title: str | None = None) -> Call[corrections.CorrectionReply]:
    """File a correction of a node, of ``project:<slug>``, or of everything: ``global``."""
    request = corrections.CorrectionRequest(target=target, text=text, title=title)
    return change("POST", paths.CORRECTIONS, request, corrections.CorrectionReply)


def list_corrections(
    *, target: str | None = None, limit: int | None = None, after: str | None = None
) -> Call[corrections.CorrectionsReply]:
    """List the corrections that stand, of one target or all."""
    query = query_of(target=target, limit=limit, after=after)
    return Call("GET", paths.CORRECTIONS, corrections.CorrectionsReply, query)


def capture(
    text: str,
    *,
    title: str | None = None,
    project: str | None = None,
    during: NodeId | None = None,
    blocks: Sequence[NodeId] = (),
    date: str | None = None,
) -> Call[captured.CaptureReply]:
    """Keep a text, whatever it is; a long one in several nodes."""
    request = captured.CaptureRequest(
        text=text, title=title, project=project, during=during, blocks=list(blocks), date=date
    )
    return change("POST", paths.CAPTURE, request, captured.CaptureReply)


def inbox(*, limit: int | None = None) -> Call[InboxReply]:
    """Read what waits for the caller's person, and what they have asked."""
    return Call("GET", paths.INBOX, InboxReply, query_of(limit=limit))
