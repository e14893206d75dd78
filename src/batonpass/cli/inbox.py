"""`baton inbox` and `baton questions`: what waits for your word, and for what you wait."""

from __future__ import annotations

from typing import Final

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common
from batonpass.cli.render import Column, print_json, print_table, say, span
from batonpass.client import question_calls
from batonpass.wire.inbox import WaitingBody

COLUMNS: Final = (
    Column("what"),
    Column("node"),
    Column("for"),
    Column("waits"),
    Column("project"),
    Column("by"),
    Column("title", cut=True),
)
QUESTIONS: Final = (
    Column("question"),
    Column("for"),
    Column("waits"),
    Column("project"),
    Column("asked by"),
    Column("title", cut=True),
)
DAY_MS: Final = 86_400_000


def inbox(*, limit: int | None = None, common: Common = COMMON) -> None:
    """List what waits for your word: questions, reviews, findings, captures; and what you have asked.

    Args:
        limit: how many at most of each; 20 unless given.

    """
    answer = ask(common, question_calls.inbox(limit=limit))
    if common.json:
        print_json(answer.raw)
        return
    reply = answer.value
    lists = (  # the most pressing first
        ("question", reply.questions),
        ("review", reply.reviews),
        ("finding", reply.findings),
        ("capture", reply.pending),
        ("you asked", reply.asked),
    )
    rows = [_row(each, what) for what, entries in lists for each in entries]
    print_table(COLUMNS, rows, empty="nothing waits for you")
    if reply.truncated:
        say(f"… there are more {', '.join(reply.truncated)}: baton inbox --limit 200")


def questions(*, limit: int | None = None, common: Common = COMMON) -> None:
    """List the open questions that are yours to answer, that anybody may, and that you have asked.

    Args:
        limit: how many at most of each; 20 unless given.

    """
    found = ask(common, question_calls.inbox(limit=limit))
    if common.json:
        print_json(found.raw)
        return
    reply = found.value
    rows = [_question(each, "you" if each.routed_to else "anybody") for each in reply.questions]
    listed = {each.id for each in reply.questions}
    rows += [_question(each, each.routed_to or "anybody") for each in reply.asked if each.id not in listed]
    print_table(QUESTIONS, rows, empty="no question is open")
    if {"questions", "asked"} & set(reply.truncated):
        say("… there are more: baton questions --limit 200")


def _row(each: WaitingBody, what: str) -> tuple[str | None, ...]:
    return (what, each.id, each.routed_to or "anybody", _waits(each), each.project, each.by, each.title)


def _question(each: WaitingBody, whom: str) -> tuple[str | None, ...]:
    return (each.id, whom, _waits(each), each.project, each.by, each.title)


def _waits(each: WaitingBody) -> str:
    return span(each.age_days * DAY_MS) if each.age_days else "today"
