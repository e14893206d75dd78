"""The calls that compile what is known, around a node or of a project; `client.calls` says what a call is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from batonpass.client.calls import Call, body_of, query_of
from batonpass.core.ids import NodeId
from batonpass.wire import digest, paths


def compile_digest(
    *,
    root: NodeId | None = None,
    query: str | None = None,
    project: str | None = None,
    min_sim: float | None = None,
    mode: Literal["digest", "full"] = "digest",
) -> Call[digest.DigestReply]:
    """Compile what is known around `root`, or about `query` (companion 5); a read, whatever its method."""
    request = digest.DigestRequest(query=query, root=root, project=project, min_sim=min_sim, mode=mode)
    return Call("POST", paths.DIGEST, digest.DigestReply, body=body_of(request))


def briefing(project: str, *, fingerprints: Sequence[str] = ()) -> Call[digest.BriefingReply]:
    """Read the briefing of a project; `fingerprints` tell it apart where the slug does not."""
    path = paths.fill(paths.BRIEFING, project=project)
    return Call("GET", path, digest.BriefingReply, query_of(fp=fingerprints))
