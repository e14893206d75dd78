"""`baton capture`: keep a text before it is forgotten."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, Node, TextArg, read_text
from batonpass.cli.render import print_json, say, warn
from batonpass.client import question_calls


def capture(
    text: TextArg,
    /,
    *,
    during: Node | None = None,
    blocks: Annotated[list[Node] | None, Parameter(negative=())] = None,
    project: str | None = None,
    title: str | None = None,
    date: str | None = None,
    common: Common = COMMON,
) -> None:
    """Keep a text, whatever it is, as a node that somebody sorts later.

    Sort it with: baton set CAPTURE --status merged, or --status rejected

    Args:
        text: the text; "-" reads standard input.
        during: the node it was found during; in a run its own unless given.
        blocks: a node that waits until it is sorted; may be given several times.
        project: its project; that of the node it was found during unless given.
        title: a line for it; the first line of the text unless given.
        date: the day it was found, as 2027-01-31; today unless given.

    """
    call = question_calls.capture(
        read_text(text), title=title, project=project, during=during, blocks=blocks or (), date=date
    )
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
        return
    first, *rest = answer.value.ids
    say(f"{first} is kept" + (f", with the rest of it in {len(rest)} more" if rest else ""))
    for warning in answer.value.warnings:
        warn(warning)
