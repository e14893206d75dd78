"""`baton worktrees …`: what runs have left on this machine's disk, and removing what is provably done (D31)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from cyclopts import App

from batonpass.cli.context import connected
from batonpass.cli.options import COMMON, Common, Flag
from batonpass.cli.render import Column, clean, print_json, print_table, say, span
from batonpass.client import config
from batonpass.worker import gc
from batonpass.worker.config import disposable_in
from batonpass.worker.gc import Collected, Collector, Kind, Tree
from batonpass.worker.git import HEADS
from batonpass.worker.server_graph import ServerGraph

COLUMNS: Final = (
    Column("run"),
    Column("item"),
    Column("size"),
    Column("ended"),
    Column("why it stays", cut=True),
    Column("where"),
)
UNITS: Final = ("B", "kB", "MB", "GB", "TB")
STEP: Final = 1000
WHAT: Final = {
    Kind.TRASH: "its removal did not come to its end",
    Kind.MISSING: "its folder is gone, and git still has it registered",
    Kind.OTHER: "what stands there is no folder",
}

app = App(
    name="worktrees",
    help="The worktrees that runs have left here: list them, and remove those that nobody can miss.",
    version_flags=[],
)


@app.command(name="list")
def list_(*, json: Flag = False) -> None:
    """List the worktrees of this machine's runs, what each takes on disk, and as far as it is known why it is there.

    Args:
        json: print one JSON document; sizes are in bytes.

    """
    trees, now = gc.survey(_home(), os.environ), datetime.now(UTC)
    if json:
        print_json(msgspec.json.encode(_reply([_fields(tree, tree.stays, now) for tree in trees])))
        return
    print_table(COLUMNS, [_row(tree, tree.stays, now) for tree in trees], empty="no worktrees")
    if trees:
        whole = _size(sum(tree.bytes for tree in trees))
        say(f"{_count(len(trees))}, {whole}; baton worktrees gc removes what is done with")


@app.command(name="gc")
def gc_(*, dry_run: Flag = False, common: Common = COMMON) -> None:
    """Remove the worktrees that are provably done, and runs' branches that other branches have all of.

    A worktree goes when its run is settled, the server was asked about its
    item, nothing in it is modified, untracked or ignored (but what tools make
    anew), no process stands in it, no operation of git is under way in it, and
    every commit has a name that stays; commits without one are kept under
    refs/baton/kept. Everything else stays, with the reason. Without an answer
    of the server nothing is removed.

    Args:
        dry_run: only say what would go.

    """
    trees = gc.survey(_home(), os.environ)
    everything = (*trees, *gc.branches(_home(), os.environ, beside=trees))
    with connected(common) as client:
        collector = Collector(ServerGraph(client), _home(), os.environ, partial(disposable_in, _home()))
        found = gc.collect(collector, everything, dry_run=dry_run)
    if common.json:
        print_json(msgspec.json.encode(_collected(found, dry_run=dry_run)))
    else:
        _print_collected(found, dry_run=dry_run)


def _home() -> Path:
    return config.home_of(os.environ)


def _fields(tree: Tree, reasons: Sequence[str], now: datetime) -> dict[str, Any]:
    """Return a tree as programs read it; what is not known of it is null."""
    record = tree.record
    return {
        "path": clean(str(tree.path)),
        "kind": tree.kind,
        "run_id": record and record.run_id,
        "node_id": record and record.node_id,
        "repository": record and clean(record.repository),
        "branch": record and record.branch,
        "bytes": tree.bytes,
        "ended_at": tree.ended_at and tree.ended_at.isoformat(timespec="milliseconds"),
        "age_ms": tree.ended_at and (now - tree.ended_at) // timedelta(milliseconds=1),
        "reasons": [clean(reason) for reason in _with_kind(tree, reasons)],
    }


def _with_kind(tree: Tree, reasons: Sequence[str]) -> list[str]:
    return [*filter(None, [WHAT.get(tree.kind)]), *reasons]


def _reply(trees: list[dict[str, Any]]) -> dict[str, Any]:
    return {"count": len(trees), "bytes": sum(tree["bytes"] for tree in trees), "worktrees": trees}


def _row(tree: Tree, reasons: Sequence[str], now: datetime) -> tuple[str | None, ...]:
    record = tree.record
    return (
        None if record is None else record.run_id[:8],
        None if record is None else record.node_id,
        _size(tree.bytes),
        None if tree.ended_at is None else f"{span((now - tree.ended_at) / timedelta(milliseconds=1))} ago",
        "; ".join(_with_kind(tree, reasons)),
        str(tree.path),
    )


def _collected(found: Sequence[Collected], *, dry_run: bool) -> dict[str, Any]:
    now = datetime.now(UTC)
    trees = [each for each in found if each.tree.kind is not Kind.BRANCH]
    gone = [each for each in trees if each.is_gone]
    return {
        "dry_run": dry_run,
        "removed": len(gone),
        "kept": len(trees) - len(gone),
        "bytes_freed": sum(each.tree.bytes for each in gone),
        "bytes_kept": sum(each.tree.bytes for each in trees) - sum(each.tree.bytes for each in gone),
        "worktrees": [
            {**_fields(each.tree, each.reasons, now), "removed": each.is_gone, "branch_kept": each.branch}
            for each in found
        ],
    }


def _print_collected(found: Sequence[Collected], *, dry_run: bool) -> None:
    now = datetime.now(UTC)
    trees = [each for each in found if each.tree.kind is not Kind.BRANCH]
    kept = [each for each in trees if not each.is_gone]
    if kept:
        print_table(COLUMNS, [_row(each.tree, each.reasons, now) for each in kept], empty="")
    gone = [each for each in trees if each.is_gone]
    verb = "would go" if dry_run else "removed"
    for each in gone:
        say(f"{verb}: {clean(str(each.tree.path))} ({_size(each.tree.bytes)})")
    for branch in (each for each in found if each.is_gone and each.branch is None and each.tree.record):
        say(f"{verb}: branch {clean(_branch(branch.tree))}")
    held = sum(each.branch is not None for each in found if each.is_gone)
    say(f"{_count(len(gone))} {verb} ({_size(sum(each.tree.bytes for each in gone))}), {len(kept)} kept")
    if held:
        say(
            "the branch of 1 run stays: it has commits that no other branch has"
            if held == 1
            else f"the branches of {held} runs stay: they have commits that no other branch has"
        )


def _branch(tree: Tree) -> str:
    return (tree.record.branch or "").removeprefix(HEADS) if tree.record else ""


def _count(number: int) -> str:
    return f"{number} worktree{'' if number == 1 else 's'}"


def _size(count: int) -> str:
    """Return a number of bytes as a person says it."""
    amount, unit = float(count), UNITS[0]
    for unit in UNITS:  # noqa: B007 — the last one is told as it is
        if amount < STEP:
            break
        amount /= STEP
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
