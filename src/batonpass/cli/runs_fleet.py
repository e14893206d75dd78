"""`baton runs --fleet`: the runs of every machine, as their supervisors told the server of them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from batonpass.cli.context import ask
from batonpass.cli.options import Common
from batonpass.cli.render import Column, again, cut_short, print_json, print_table, span
from batonpass.client import run_calls
from batonpass.core.ids import NodeId
from batonpass.wire.runs import RunBody

SHORT: Final = 8
"""Characters of a run's id."""
COLUMNS: Final = (
    Column("run"),
    Column("item"),
    Column("agent"),
    Column("machine"),
    Column("harness"),
    Column("state"),
    Column("outcome"),
    Column("heard of"),
    Column("why", cut=True),
)


def print_list(*, node: NodeId | None, limit: int, after: str | None, common: Common) -> None:
    """Print the newest runs that the server has, or those behind `after`."""
    answer = ask(common, run_calls.list_runs(node=node, limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
        return
    now = datetime.now(UTC)
    found = answer.value
    print_table(COLUMNS, [_row(run, now) for run in found.runs], empty="the server has heard of no runs")
    cut_short(len(found.runs), again("baton runs --fleet", node=node, limit=str(limit)), after=found.next)


def _row(run: RunBody, now: datetime) -> tuple[str | None, ...]:
    told = run.record
    silent = (now - datetime.fromisoformat(run.last_seen)) / timedelta(milliseconds=1)
    return (
        run.run_id[:SHORT],
        run.node_id,
        run.agent,
        _word(told.get("host")),
        _word(told.get("harness")),
        run.state,
        _outcome(run),
        f"{span(silent)} ago",
        _word(told.get("terminal_note")) or _word(told.get("termination_reason")),
    )


def _outcome(run: RunBody) -> str | None:
    state = _word(run.record.get("terminal_state"))
    if state is None or not run.settled:
        return None
    return state if run.record.get("terminal_enforced") is True else f"{state} (not verified)"


def _word(value: Any) -> str | None:  # noqa: ANN401 — a record is what a worker made it
    return value if isinstance(value, str) else None
