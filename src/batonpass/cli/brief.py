"""`baton brief`: what is known around a node, about a question, or of a project."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from batonpass.cli.context import ask
from batonpass.cli.exits import UsageError
from batonpass.cli.options import COMMON, Common, Flag, Node
from batonpass.cli.render import print_json, print_text, say, warn
from batonpass.client import digest_calls


def brief(
    node: Node | None = None,
    /,
    *,
    query: str | None = None,
    project: str | None = None,
    full: Flag = False,
    min_sim: Annotated[float | None, Parameter(name="--min-sim")] = None,
    common: Common = COMMON,
) -> None:
    """Show what is known around a node, about a question or of a project, as agents are told it.

    Args:
        node: which; baton work tells the same to whoever it starts.
        query: a question, in words; what is like it is where the search begins.
        project: alone, the project's own briefing; otherwise the project whose nodes are nearer than others.
        full: the text of what is near, and the norms, too.
        min_sim: how like the question something must be, from 0 to 1; 0.08 unless given.

    """
    if node is not None and query is not None:
        raise UsageError("give a node or --query, not both")
    if node is None and query is None:
        if project is None:
            raise UsageError("give a node, --query, or --project")
        _project(project, common)
        return
    answer = ask(
        common,
        digest_calls.compile_digest(
            root=node, query=query, project=project, min_sim=min_sim, mode="full" if full else "digest"
        ),
    )
    if common.json:
        print_json(answer.raw)
        return
    if not answer.value.found:
        warn("nothing is known there")
    print_text(answer.value.text)


def _project(project: str, common: Common) -> None:
    """Print a project's briefing, and that of the project it belongs to."""
    answer = ask(common, digest_calls.briefing(project))
    if common.json:
        print_json(answer.raw)
        return
    found = answer.value
    if not found.found:
        warn(f"nothing is known of {project}" if found.graph_status == "unknown" else f"{project} has no briefing yet")
    print_text(found.body)
    if found.project_brief is not None:
        say("")
        print_text(found.project_brief)
