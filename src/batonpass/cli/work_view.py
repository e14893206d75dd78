"""What `baton work --status` and `baton work --print` show: workers, values in force, and what would be taken."""

from __future__ import annotations

import msgspec

from batonpass.cli.render import Column, clean, print_json, print_table, say
from batonpass.worker.config import Config
from batonpass.worker.dispatch.launch import Order
from batonpass.worker.outlook import Outlook
from batonpass.worker.pace import Pace
from batonpass.worker.status import Status, as_document

VALUES = (Column("setting"), Column("value", cut=True), Column("from"))


def show_status(workers: list[Status], outlook: Outlook, *, json: bool) -> None:
    """Print the workers of this box, and what there is to take."""
    if json:
        told = {"count": len(workers), "workers": list(map(as_document, workers)), "outlook": outlook.as_document()}
        print_json(msgspec.json.encode(told))
        return
    for status in workers:
        for line in _worker(status):
            say(clean(line))
        say("")
    if not workers:
        say("no worker has run here in the last days")
    for line in outlook.lines():
        say(clean(line))


def show_plan(config: Config, pace: Pace, order: Order | None, outlook: Outlook, *, json: bool) -> None:
    """Print the values in force with the place each came from, and what a worker would do with them."""
    values = values_of(config, pace, order)
    if json:
        told = {
            "values": {name: {"value": value, "source": source} for name, value, source in values},
            "outlook": outlook.as_document(),
        }
        print_json(msgspec.json.encode(told))
        return
    print_table(VALUES, [(name, str(value), source) for name, value, source in values], empty="")
    say("")
    for line in outlook.lines():
        say(clean(line))


def values_of(config: Config, pace: Pace, order: Order | None) -> list[tuple[str, object, str]]:
    """Return the name, the value and the source of everything that is in force."""
    asked = "command line"
    runs: list[tuple[str, object, str]] = []
    if order is not None:
        program = " ".join(order.command) if order.command else str(order.program)
        runs = [("program", program, asked if order.command else config.harness.source)]
    return [
        ("accept", str(config.accept.value), config.accept.source),
        ("project", config.project.value or "any", config.project.source),
        ("harness", "command" if order is None else order.harness, config.harness.source),
        *runs,
        ("concurrency", config.concurrency.value, config.concurrency.source),
        ("interval", f"{config.interval_s.value:g} s", config.interval_s.source),
        ("max interval", f"{config.max_interval_s.value:g} s", config.max_interval_s.source),
        ("retry after", f"{config.retry_after_s.value:g} s", config.retry_after_s.source),
        ("run idle", f"{config.run_idle_s.value:g} s", config.run_idle_s.source),
        ("run max", f"{config.run_max_s.value:g} s", config.run_max_s.source),
        ("disk free", f"{config.disk_free_min.value} bytes", config.disk_free_min.source),
        ("set-up", " ".join(config.set_up.value) or "none", config.set_up.source),
        ("tear-down", " ".join(config.tear_down.value) or "none", config.tear_down.source),
        ("template", str(config.template.value or "our own"), config.template.source),
        ("records stay", f"{config.retention.value.total_seconds() / 86_400:g} d", config.retention.source),
        ("disposable", ", ".join(config.disposable.value), config.disposable.source),
        ("max runs", pace.max_runs or "no limit", asked if pace.max_runs else "default"),
        ("once", "yes" if pace.once else "no", asked if pace.once else "default"),
    ]


def _worker(status: Status) -> list[str]:
    """Return one worker in lines; what was cut off a list is counted (case 174)."""
    about = f"{status.harness or '?'} for {status.project or 'any project'} at {status.server}"
    lines = [f"worker {status.worker_id[:8]} (process {status.pid}): {status.state}, {about}"]
    if status.stop_reason:
        lines.append(f"  stopped at {status.stopped_at}: {status.stop_reason}")
    if status.why:
        lines.append(f"  {status.why}")
    ends = ", ".join(f"{count} {name}" for name, count in status.outcomes.items() if count) or "none over yet"
    lines.append(f"  {len(status.active)} of {status.concurrency} slots in use; {status.dispatched} begun: {ends}")
    lines += [
        f"  at work: {one.node_id} (run {one.run_id[:8]}{', from before this worker' if one.adopted else ''})"
        for one in status.active
    ]
    lines += [
        f"  over: {one.node_id or 'no item'}, {one.terminal_state or one.state} (run {one.run_id[:8]})"
        for one in status.recent
    ]
    if status.recent_total > len(status.recent):
        lines.append(f"  … {len(status.recent)} of {status.recent_total} runs; baton runs list has them all")
    lines += [
        f"  left alone: {one.id}, {one.reason}{f', until {one.until}' if one.until else ''}" for one in status.skipped
    ]
    if status.skipped_total > len(status.skipped) or status.queue_goes_on:
        more = " and the queue goes on" if status.queue_goes_on else ""
        lines.append(f"  … {len(status.skipped)} of {status.skipped_total} shown{more}; baton queue has the rest")
    return lines
