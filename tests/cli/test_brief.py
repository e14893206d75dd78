"""`baton brief` over the real server in this process."""

from __future__ import annotations

import pytest

from batonpass.cli.exits import Exit
from batonpass.core.digest_text import CAUTION
from batonpass.testing.commands import Baton


@pytest.fixture
def known(baton: Baton) -> Baton:
    """An item with a decision behind it."""
    baton.ok("add", "Cache in memory", "--type", "decision", "--id", "dec-cache", "--project", "demo")
    baton.task("a", "--link", "derived-from:dec-cache")
    return baton


def test_what_is_known_around_a_node_is_shown(known: Baton) -> None:
    shown = known.ok("brief", "task-a")
    reply = known.json("brief", "task-a")

    assert shown.out.startswith(f"{CAUTION}\n\n## Lineage\n- `dec-cache` ")
    assert reply["text"] == shown.out
    assert (reply["found"], reply["node_ids"]) == (True, ["dec-cache"])


def test_the_whole_is_longer_and_begins_with_the_node(known: Baton) -> None:
    full = known.ok("brief", "task-a", "--full").out

    assert "## The node itself\n- `task-a` " in full
    assert len(full) > len(known.ok("brief", "task-a").out)


def test_a_question_and_a_project_are_answered_too(known: Baton) -> None:
    asked = known.json("brief", "--query", "is the cache in memory")
    project = known.ok("brief", "--project", "demo").out

    assert asked["node_ids"][0] == "dec-cache"
    assert asked["top_sim"] > 0.08
    assert "## Lately\n- `dec-cache` " in project


def test_nothing_known_is_said_and_no_failure(baton: Baton) -> None:
    baton.task("alone")

    node = baton("brief", "task-alone")
    project = baton("brief", "--project", "nobodys")

    assert (node.code, node.out, node.err) == (Exit.OK, "", "nothing is known there\n")
    assert (project.code, project.out, project.err) == (Exit.OK, "", "nothing is known of nobodys\n")


@pytest.mark.parametrize(
    "argv, code",
    [
        (["brief"], Exit.USAGE),
        (["brief", "task-a", "--query", "x"], Exit.USAGE),
        (["brief", "task-nowhere"], Exit.FAILED),
        (["brief", "--project", "Not A Slug"], Exit.FAILED),
        (["work", "--once", "--full", "--no-brief", "--", "true"], Exit.USAGE),
    ],
)
def test_what_makes_no_sense_is_refused(baton: Baton, argv: list[str], code: Exit) -> None:
    assert baton(*argv).code == code
