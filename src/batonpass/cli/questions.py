"""`baton ask` and `baton answer`: a word is needed, and it is given."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from batonpass.cli.context import ask as send
from batonpass.cli.options import COMMON, Common, Node, PersonArg, TextArg, read_text
from batonpass.cli.render import print_json, say, warn
from batonpass.client import question_calls

Nodes = Annotated[list[Node] | None, Parameter(negative=())]


def ask(
    text: TextArg,
    /,
    *,
    about: Nodes = None,
    to: PersonArg | None = None,
    project: str | None = None,
    title: str | None = None,
    blocks: Nodes = None,
    common: Common = COMMON,
) -> None:
    """Ask a question: it finds its person, and what you work on waits for the answer.

    Without --to it goes to a person it is about, else to who stewards, owns or wrote what it is about; a question that
    finds nobody is in everybody's inbox.

    Args:
        text: the question; "-" reads standard input.
        about: a node it is about; may be given several times.
        to: the person to ask.
        project: its project; that of the nodes it is about unless given.
        title: a line for it; the first line of the text unless given.
        blocks: a node that may not be worked on before there is an answer; may be given several times.

    """
    call = question_calls.ask_question(
        read_text(text), title=title, mentions=about or (), project=project, to=to, blocks=blocks or ()
    )
    answer = send(common, call)
    if common.json:
        print_json(answer.raw)
        return
    reply = answer.value
    whom = f"went to {reply.routed_to} ({reply.via})" if reply.routed_to is not None else "is in everybody's inbox"
    say(f"{reply.id} {whom}")
    for warning in reply.warnings:
        warn(warning)


def answer(question: Node, text: TextArg, /, *, title: str | None = None, common: Common = COMMON) -> None:
    """Answer a question: files the answer and completes the question in one step.

    Args:
        question: which.
        text: the answer; "-" reads standard input.
        title: a line for it; the first line of the text unless given.

    """
    found = send(common, question_calls.answer_question(question, read_text(text), title=title))
    if common.json:
        print_json(found.raw)
        return
    say(f"{found.value.question} is answered by {found.value.id}")
    for warning in found.value.warnings:
        warn(warning)
