"""`baton hosts`: which of one's machines will do for a profile, and why the others won't."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, Duration, Node, PersonArg
from batonpass.cli.render import Column, print_json, print_table, span_of
from batonpass.client import capability_calls
from batonpass.wire.capabilities import HostBody

COLUMNS: Final = (Column("agent"), Column("seen"), Column("verdict", cut=True))


def hosts(
    profile: Node,
    /,
    *,
    owner: PersonArg | None = None,
    max_age: Duration | None = None,
    common: Common = COMMON,
) -> None:
    """List your machines by whether they will do for a profile.

    Those that do come first. Nothing is substituted: each reason is named.

    Args:
        profile: the profile's node.
        owner: as an admin: whose machines.
        max_age: only machines that were there within this time, such as 12h.

    """
    ms = None if max_age is None else str(max_age // timedelta(milliseconds=1))
    answer = ask(common, capability_calls.profile_hosts(profile, owner=owner, max_age=ms))
    if common.json:
        print_json(answer.raw)
        return
    found = answer.value
    rows = [_row(host) for host in (*found.satisfiable, *found.unsatisfiable)]
    none = "no machine of yours has published what it can run: baton agent capabilities AGENT --publish FILE"
    if max_age is not None and found.counts.stale:
        none = f"no machine was there within {span_of(max_age)}; {found.counts.stale} were before"
    print_table(COLUMNS, rows, empty=none)


def _row(host: HostBody) -> tuple[str, str, str]:
    return host.agent, host.last_seen, "; ".join(host.reasons) or "will do"
