"""`baton correct` and `corrections`: what briefings say wrongly, until it is put right."""

from __future__ import annotations

from typing import Final

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, TextArg, read_text
from batonpass.cli.render import Column, cut_short, print_json, print_table, say, warn
from batonpass.client import question_calls

COLUMNS: Final = (Column("correction"), Column("of"), Column("by"), Column("since"), Column("title", cut=True))


def correct(target: str, text: TextArg, /, *, title: str | None = None, common: Common = COMMON) -> None:
    """Correct what is said of a node, of a project, or everywhere: briefings carry it until it is applied.

    Take it back with: baton set CORRECTION --status applied

    Args:
        target: a node, project:NAME, or global.
        text: what is right; "-" reads standard input.
        title: a line for it; the first line of the text unless given.

    """
    answer = ask(common, question_calls.correct(target, read_text(text), title=title))
    if common.json:
        print_json(answer.raw)
        return
    say(f"{answer.value.id} stands")
    for warning in answer.value.warnings:
        warn(warning)


def corrections(
    target: str | None = None,
    /,
    *,
    limit: int | None = None,
    after: str | None = None,
    common: Common = COMMON,
) -> None:
    """List the corrections that stand.

    Args:
        target: only those of this node, of project:NAME, or global.
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    answer = ask(common, question_calls.list_corrections(target=target, limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
        return
    found = answer.value.corrections
    rows = [(each.id, each.target, each.author, each.created_at[:10], each.title) for each in found]
    print_table(COLUMNS, rows, empty="no correction stands")
    again = "baton corrections" if target is None else f"baton corrections {target}"
    cut_short(answer.value.count, again, after=answer.value.next)
