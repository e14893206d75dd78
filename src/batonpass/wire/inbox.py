"""The inbox on the wire: five lists of what waits for the viewer's word (companion 3.2)."""

from __future__ import annotations

import msgspec


class WaitingBody(msgspec.Struct):
    """One entry. `by` wrote it, an agent before its person; `routed_to` is null when it is everybody's."""

    id: str
    title: str
    project: str | None
    by: str | None
    at: str
    age_days: int
    routed_to: str | None


class InboxReply(msgspec.Struct):
    """Reply of `GET /v1/inbox`: each list with the longest waiting first. `truncated` names the lists that go on."""

    questions: list[WaitingBody]
    asked: list[WaitingBody]
    findings: list[WaitingBody]
    pending: list[WaitingBody]
    reviews: list[WaitingBody]
    truncated: list[str]
    generated_at: str
