from __future__ import annotations

import io
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from batonpass.cli.exits import UsageError
from batonpass.cli.nodes import made_id
from batonpass.testing.commands import Baton

DECISION = """---
id: dec-a
type: decision
title: "Done: as planned"
summary: "x"
date: 2026-01-01
edges:
  - {type: resolves, to: task-a}
---
Body.
"""


@pytest.fixture
def stdin(monkeypatch: pytest.MonkeyPatch) -> io.BytesIO:
    """What the next command reads from standard input."""
    content = io.BytesIO()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    return content


def test_a_node_is_made_of_a_title_and_options(baton: Baton, stdin: io.BytesIO) -> None:
    stdin.write(b"More of it.")
    stdin.seek(0)
    baton.task("b")

    added = baton.ok(
        "add", "Fix the caf\u00e9: it leaks!", "--project", "demo", "--priority", "p2", "--needed-by", "2999-01-31",
        "--summary", "It leaks", "--body", "-", "--link", "blocks:task-b", "--ready",
    )  # fmt: skip

    assert added.out == "task-fix-the-cafe-it-leaks created\n"
    node = baton.json("show", "task-fix-the-cafe-it-leaks")
    front = node["frontmatter"]
    assert {
        key: front[key] for key in ("title", "summary", "project", "priority", "needed_by", "readiness", "date")
    } == {
        "title": "Fix the caf\u00e9: it leaks!",
        "summary": "It leaks",
        "project": "demo",
        "priority": "p2",
        "needed_by": "2999-01-31",
        "readiness": "agent",
        "date": datetime.now(UTC).date().isoformat(),
    }
    assert node["body"] == "More of it."
    assert front["edges"] == [{"type": "blocks", "to": "task-b"}]


@pytest.mark.parametrize(
    "type_, title, expected",
    [
        ("task", "Fix it", "task-fix-it"),
        ("issue", "  \u00dcber-Grund!  ", "issue-uber-grund"),
        ("decision", "x" * 300, "dec-" + "x" * 60),
    ],
)
def test_an_id_is_made_of_type_and_title(type_: str, title: str, expected: str) -> None:
    assert made_id(type_, title) == expected


@pytest.mark.parametrize("type_, title", [("task", "\u4f60\u597d"), ("task", "!!!"), ("taks", "Fix it")])
def test_where_no_id_can_be_made_one_is_asked_for(type_: str, title: str) -> None:
    with pytest.raises(UsageError):
        made_id(type_, title)


def test_files_are_written_in_order_and_each_on_its_own(baton: Baton) -> None:
    baton.task("a")
    Path("dec.md").write_text(DECISION)
    Path("bad.md").write_text("---\nid: task-c\ntype: task\n---\n")

    ran = baton("add", "--file", "dec.md", "--file", "bad.md")

    assert ran.code == 1
    assert ran.out == "dec-a created\n"
    assert "task-c: title: required" in ran.err
    shown = baton.ok("show", "task-a").out
    assert "resolved  dec-a resolves this node; its own status still reads open" in shown
    assert "← resolves  dec-a" in shown


def test_a_node_that_is_there_is_left_skipped_or_updated_as_told(baton: Baton) -> None:
    Path("dec.md").write_text(DECISION)
    baton.task("a")
    revision = baton.json("add", "--file", "dec.md")["results"][0]["revision"]
    Path("dec.md").write_text(DECISION.replace("Body.", "Other."))

    assert baton("add", "--file", "dec.md").code == 1
    assert baton.ok("add", "--file", "dec.md", "--if-exists", "skip").out == "dec-a skipped\n"
    assert baton.ok("add", "--file", "dec.md", "--if-exists", "update", "--revision", revision).out == "dec-a updated\n"
    assert baton.json("show", "dec-a")["body"] == "Other."


@pytest.mark.parametrize(
    "argv, words",
    [
        (["add"], "give a title, or --file"),
        (["add", "x", "--file", "y"], "give a title, or --file"),
        (["add", "--file", "gone.md"], "gone.md: No such file or directory"),
        (["add", "--file", "latin.md"], "latin.md: not UTF-8"),
        (["add", "x", "--link", "task-1"], "write it as type:node"),
        (["add", "x", "--link", "blocks:Task 1"], "is not an id"),
        (["add", "--file", "a.md", "--file", "a.md", "--revision", "x"], "--revision is of one node"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_added_is_refused_before_anything_is_sent(argv: list[str], words: str, baton: Baton) -> None:
    Path("latin.md").write_bytes("caf\u00e9".encode("latin-1"))
    Path("a.md").write_text(DECISION)

    ran = baton(*argv)

    assert ran.code == 2
    assert words in ran.err


def test_a_node_shows_who_holds_it_and_cannot_play_with_the_terminal(baton: Baton) -> None:
    baton.ok("add", "Title", "--id", "task-a", "--body", "line one\n\x1b[31mline two")
    baton.ok("claim", "task-a")

    shown = baton.ok("show", "task-a").out

    assert shown.startswith("held by  person-ada-reader (Ada Reader) until ")
    assert "\nline one\n\\x1b[31mline two\n" in shown


def test_nodes_are_listed_by_what_is_asked_for(baton: Baton) -> None:
    for name in "abc":
        baton.task(name)
    baton.ok("set", "task-b", "--priority", "p1")

    listed = baton.ok("list", "--type", "task", "--limit", "2").out.splitlines()

    assert listed[0].split() == ["node", "type", "priority", "project", "date", "title"]
    assert listed[-1] == "… only the first 2 of this list; more: baton list --type task --after task-b"
    words = baton.ok("list", "--type", "task", "--type", "issue", "--project", "demo", "--limit", "1").out.splitlines()
    assert words[-1].endswith("more: baton list --type task --type issue --project demo --after task-a")
    assert baton.ok("list", "--project", "elsewhere").out == "no node is like that\n"


def test_edges_are_added_and_removed_and_doing_it_twice_is_no_error(baton: Baton) -> None:
    a, b = baton.task("a"), baton.task("b")

    assert baton.ok("link", a, "blocks", b).out == "task-a linked\n"
    assert baton.ok("link", b, "blocked-by", a).out == "task-a was there already\n"
    assert baton.ok("unlink", a, "blocks", b).out == "task-a unlinked\n"
    assert baton.ok("unlink", a, "blocks", b).out == "task-a was not there\n"
    assert baton("link", a, "befriends", b).code == 1


def test_a_status_in_progress_claims_and_says_so(baton: Baton) -> None:
    task = baton.task("a")

    active = baton.ok("set", task, "--status", "active").out

    assert active.splitlines()[0] == "task-a is active"
    assert active.splitlines()[1].startswith("task-a is held by person-ada-reader (Ada Reader) until ")
    assert baton.ok("set", task, "--status", "none").out == "task-a is none\n"


def test_a_word_that_is_no_status_is_refused_with_the_words_that_are(baton: Baton) -> None:
    ran = baton("set", baton.task("a"), "--status", "doing")

    assert ran.code == 1
    assert "open, active, done, abandoned" in ran.err or "abandoned" in ran.err


def test_priority_and_readiness_are_set_and_taken_back(baton: Baton) -> None:
    task = baton.task("a")

    assert baton.ok("set", task, "--priority", "p1").out == "task-a is p1\n"
    assert baton.ok("ready", task).out == "task-a is ready for agents\n"
    assert baton.json("queue")["items"][0]["readiness"] == "agent"
    assert baton.ok("ready", task, "--needs-input").out == "task-a needs input\n"
    assert baton.ok("set", task, "--priority", "none").out == "task-a is none\n"
    front = baton.json("show", task)["frontmatter"]
    assert ("priority" in front, "readiness" in front) == (False, False)


def test_what_is_set_from_the_command_line_is_stamped_so(baton: Baton) -> None:
    task = baton.task("a", "--priority", "p1")
    baton.ok("ready", task)

    front = baton.json("show", task)["frontmatter"]

    assert [front[f"{key}_via"] for key in ("priority", "readiness")] == ["cli", "cli"]
    assert front["authored_via"] == "cli"


def test_each_command_about_nodes_prints_the_wires_answer(baton: Baton) -> None:
    a, b = baton.task("a"), baton.task("b")

    assert baton.json("link", a, "blocks", b)["status"] == "updated"
    assert baton.json("list", "--type", "task")["count"] == 2
    assert baton.json("release", a)["edge"] == "skipped"
    assert baton.json("release", "--all")["count"] == 0


def test_what_stands_around_a_node_is_shown_with_it(baton: Baton) -> None:
    task = baton.task("a")
    baton.ok("add", "Watch out", "--type", "finding", "--id", "find-a", "--link", f"relates-to:{task}")
    baton.ok("add", "Better", "--id", "task-b", "--link", f"supersedes:{task}")

    shown = baton.ok("show", task).out

    assert "open finding   find-a Watch out" in shown
    assert "superseded by  task-b Better" in shown
