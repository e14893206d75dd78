"""The graph in and out: export, import."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal

import msgspec

from batonpass.cli.context import connected
from batonpass.cli.exits import Exit, UsageError, exit_of
from batonpass.cli.options import COMMON, Common, FileArg, Flag
from batonpass.cli.render import clean, print_json, say, warn
from batonpass.client.exports import Exported, is_archive, to_archive, to_folder
from batonpass.client.imports import FAILED, Told, Wish, imported
from batonpass.core.errors import BatonError
from batonpass.wire.errors import error_body

QUIET: Final = frozenset({"created", "updated", "unchanged", "would be created", "would be unchanged"})


def export(
    target: FileArg,
    /,
    *,
    authored: Flag = False,
    project: str | None = None,
    prune: Flag = False,
    common: Common = COMMON,
) -> int:
    """Write every node into files: one a node in a folder, or all in one tar.

    Files that are not as an export wrote them are left alone, and named.

    Args:
        target: a folder, or the name of a .tar, .tar.gz or .tgz file.
        authored: exactly what a revision covers: no stamps, authors or times.
        project: only the nodes of this project.
        prune: also remove the files of nodes that are gone, as far as nobody has changed them.

    """
    if prune and (project is not None or is_archive(target)):
        raise UsageError("--prune is for a folder with the whole graph: of one project it can't know what is gone")
    with connected(common) as client:
        if is_archive(target):
            done = to_archive(client, target, project=project, authored=authored)
        else:
            done = to_folder(client, target, project=project, authored=authored, prune=prune)
    if common.json:
        print_json(msgspec.json.encode({"target": str(target), **_counts(done)}))
    else:
        _say_exported(target, done)
    _warn_each("changed since it was exported, and left alone", done.left)
    return Exit.FAILED if done.left else Exit.OK


def import_(
    *paths: FileArg,
    keep_attribution: Flag = False,
    dry_run: Flag = False,
    if_exists: Literal["error", "skip", "update"] = "error",
    common: Common = COMMON,
) -> int:
    """Bring nodes in from folders, tars and files of markdown; say it again and nothing happens twice.

    Everything is read first, then sent in an order in which it can be written.
    What is refused is named with its file, and stops nothing else.

    Args:
        paths: folders, .tar or .tar.gz files, or single files.
        keep_attribution: authors, stamps and times are those of the files; for admins.
        dry_run: only say what is new and what differs; what the graph would refuse is not known.
        if_exists: what to do with a node that is there already and differs.

    """
    if not paths:
        raise UsageError("say what to import: folders, tars or files")
    wish = Wish(if_exists, keep_attribution=keep_attribution, dry_run=dry_run)
    told: list[Told] = []
    failure = None
    try:
        with connected(common) as client:
            for each in imported(client, list(paths), wish):
                told.append(each)
                if not common.json:
                    _say_told(each)
    except BatonError as error:
        failure = error
        if not told:
            raise
    _say_all(told, failure, common)
    if failure is not None:
        warn(f"baton: {clean(failure.message)}")
        warn("what is counted above stands; the same command goes on from there")
        return exit_of(failure)
    return Exit.FAILED if any(each.outcome in FAILED for each in told) else Exit.OK


# --- words -----------------------------------------------------------------------------------------------------------


def _counts(done: Exported) -> dict[str, object]:
    return {
        "nodes": done.nodes,
        "written": done.written,
        "unchanged": done.unchanged,
        "removed": done.removed,
        "left": done.left,
        "gone": done.gone,
    }


def _say_exported(target: Path, done: Exported) -> None:
    if is_archive(target):
        say(f"{done.nodes} nodes in {clean(str(target))}")
        return
    removed = f", {done.removed} removed" if done.removed else ""
    say(f"{done.nodes} nodes in {clean(str(target))}: {done.written} written, {done.unchanged} unchanged{removed}")
    if done.gone:
        say(f"{len(done.gone)} files are of nodes that are not in it; --prune removes those of nodes that are gone")


def _say_told(told: Told) -> None:
    if told.outcome not in QUIET:
        for reason in told.reasons:
            warn(f"{clean(told.file)}: {told.outcome}: {clean(reason)}")
    for warning in told.warnings:
        warn(f"{clean(told.file)}: {clean(warning)}")


def _say_all(told: list[Told], failure: BatonError | None, common: Common) -> None:
    counts = Counter(each.outcome for each in told)
    if common.json:
        error = {} if failure is None else {"error": error_body(failure).error}
        print_json(msgspec.json.encode({"counts": counts, "count": len(told), "files": told, **error}))
        return
    say(", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))


def _warn_each(what: str, names: Iterable[str]) -> None:
    for name in names:
        warn(f"{clean(name)}: {what}")
