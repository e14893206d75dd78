"""The calls about runs of the whole fleet; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from batonpass.client.calls import Call, body_of, query_of
from batonpass.core.ids import AgentId, NodeId, RunId
from batonpass.wire import paths, runs

MIRROR_S_MAX: Final = 5.0
"""How long an answer to a mirrored record or log may take: a run has better to do."""


def put_run(run: RunId, record: Mapping[str, Any]) -> Call[runs.RunPutReply]:
    """Send the record of a run as it is now, whole; the server keeps the copy that is furthest on."""
    body = body_of(runs.RunRequest(dict(record)))
    path = paths.fill(paths.RUN, run_id=run)
    return Call("PUT", path, runs.RunPutReply, body=body, answer_s_max=MIRROR_S_MAX)


def put_run_log(run: RunId, *, offset: int, text: str) -> Call[runs.RunLogPutReply]:
    """Send text of a run's log from the byte `offset` on; what the server has of it already is passed over."""
    body = body_of(runs.RunLogRequest(offset, text))
    path = paths.fill(paths.RUN_LOG, run_id=run)
    return Call("POST", path, runs.RunLogPutReply, body=body, answer_s_max=MIRROR_S_MAX)


def list_runs(
    *,
    node: NodeId | None = None,
    project: str | None = None,
    agent: AgentId | None = None,
    state: str | None = None,
    limit: int | None = None,
    after: str | None = None,
) -> Call[runs.RunsReply]:
    """List the fleet's runs, the newest first: of an item, a project, an agent, or in one state."""
    query = query_of(node=node, project=project, agent=agent, state=state, limit=limit, after=after)
    return Call("GET", paths.RUNS, runs.RunsReply, query)


def get_run(run: RunId) -> Call[runs.RunBody]:
    """Read a run as its worker told of it last."""
    return Call("GET", paths.fill(paths.RUN, run_id=run), runs.RunBody)


def get_run_log(run: RunId) -> Call[runs.RunLogReply]:
    """Read the end of a run's log."""
    return Call("GET", paths.fill(paths.RUN_LOG, run_id=run), runs.RunLogReply)
