"""`baton commit` and `commits`: note a commit on a node, and find the nodes that carry one."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import Parameter, Token

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, Node
from batonpass.cli.render import Column, again, cut_short, print_json, print_table, say, warn
from batonpass.client import graph_calls, node_calls
from batonpass.core.errors import Invalid
from batonpass.core.nodes import check_commit, parse_sha

COLUMNS: Final = (
    Column("node"),
    Column("type"),
    Column("status"),
    Column("project"),
    Column("commit"),
    Column("title", cut=True),
)


def _commit(_type: object, tokens: list[Token]) -> str:
    if (finding := check_commit(tokens[0].value, name="commit")) is not None:
        raise ValueError(finding.removeprefix("commit: "))
    return tokens[0].value


def _sha(_type: object, tokens: list[Token]) -> str:
    try:
        return parse_sha(tokens[0].value)
    except Invalid as error:
        raise ValueError(error.message.removeprefix("sha: ")) from error


CommitArg = Annotated[str, Parameter(converter=_commit)]
ShaArg = Annotated[str, Parameter(converter=_sha)]


def commit(node: Node, commit: CommitArg, /, *, common: Common = COMMON) -> None:
    """Note a commit on a node, as in: baton commit task-1 web@9fceb02.

    Args:
        node: which.
        commit: the repository and the hash, or at least 7 digits of it.

    """
    repo, _, sha = commit.rpartition("@")
    answer = ask(common, node_calls.add_commit(node, repo=repo, sha=sha))
    if common.json:
        print_json(answer.raw)
        return
    reply = answer.value
    say(f"{reply.id} {'carries' if reply.status == 'updated' else 'carried already'} {commit}")
    for warning in reply.warnings:
        warn(warning)


def commits(
    sha: ShaArg,
    /,
    *,
    repo: str | None = None,
    limit: int | None = None,
    after: str | None = None,
    common: Common = COMMON,
) -> None:
    """List the nodes that carry a commit.

    Args:
        sha: the commit's hash, or at least 7 digits of it.
        repo: only of this repository.
        limit: how many at most.
        after: begin after this node, as the end of a list that was cut names it.

    """
    answer = ask(common, graph_calls.nodes_with_commit(sha, repo=repo, limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
        return
    rows = [
        (node.id, node.type, node.status, node.project, ", ".join(node.commits), node.title)
        for node in answer.value.nodes
    ]
    print_table(COLUMNS, rows, empty="no node carries it")
    cut_short(answer.value.count, again(f"baton commits {sha}", repo=repo), after=answer.value.next)
