"""`baton history`, `blame`, `redact`, `delete`, `commit`, `commits`, `schema`: told for people and for programs."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Sequence

import pytest

from batonpass.core.node_types import NODE_TYPES
from batonpass.testing.commands import BATON, Baton

Spawn = Callable[..., subprocess.CompletedProcess[str]]


def wrote(baton: Baton, *bodies: str, task: str = "task-a") -> list[str]:
    """Write a task with one body after the other, and return the first digits of the revisions."""
    baton.ok("add", "A", "--id", task, "--body", bodies[0])
    for body in bodies[1:]:
        baton.ok("edit", task, "--set", f"body={body}")
    return [entry["revision"][:10] for entry in reversed(baton.json("history", task)["entries"])]


def test_a_history_is_listed_newest_first(baton: Baton) -> None:
    first, second = wrote(baton, "one", "two")
    baton.ok("priority", "task-a", "p1")

    lines = baton.ok("history", "task-a").out.splitlines()

    assert lines[0].split() == ["n", "revision", "when", "verb", "who", "via"]
    assert re.fullmatch(rf"1  {first}  \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d  put       person-ada-reader  cli", lines[3])
    assert [line.split()[1] for line in lines[2:]] == [second, first]
    assert lines[1].split()[3] == "priority"


def test_a_list_that_is_cut_says_so_and_how_to_go_on(baton: Baton) -> None:
    wrote(baton, "one", "two", "three")

    cut = baton.ok("history", "task-a", "--limit", "2").out.splitlines()
    rest = baton.ok("history", "task-a", "--limit", "2", "--before", "2").out.splitlines()

    assert cut[-1] == "… only the newest 2 of this list; more: baton history task-a --before 2"
    assert len(rest) == 2
    changes = baton.ok("history", "task-a", "--diff", "--limit", "1").out.splitlines()
    assert changes[-1] == "… only the newest 1 of this list; more: baton history task-a --diff --before 3"


def test_a_revision_is_shown_as_it_was(baton: Baton) -> None:
    first, _ = wrote(baton, "one\x1b[31m", "two")

    shown = baton.ok("history", "task-a", "--revision", first).out

    assert shown.startswith("---\nid: task-a\n")
    assert shown.endswith("\none\\x1b[31m\n")
    assert baton.json("history", "task-a", "--revision", first)["revision"].startswith(first)
    assert baton("history", "task-a", "--revision", "0" * 8).code == 4
    assert baton("history", "task-a", "--revision", first, "--limit", "2").code == 2


def test_what_was_changed_is_shown_line_by_line(baton: Baton) -> None:
    first, second = wrote(baton, "one\ntwo", "one\n2")

    of_one = baton.ok("history", "task-a", "--revision", second, "--diff").out
    of_all = baton.json("history", "task-a", "--diff")

    assert f"--- {first}\n+++ {second}\n" in of_one
    assert "\n one\n-two\n+2\n" in of_one
    assert [(change["n"], change["before"]) for change in of_all["changes"]] == [
        (2, of_all["changes"][1]["revision"]),
        (1, None),
    ]
    assert of_all["changes"][1]["diff"].endswith("\n+one\n+two")
    assert of_all["next"] is None


def test_blame_names_who_made_each_part_what_it_is(baton: Baton) -> None:
    first, second = wrote(baton, "one\ntwo", "zero\none\n2")
    with baton.as_agent("mill"):
        third = baton.json("priority", "task-a", "p1")["revision"][:10]

    lines = [line.split() for line in baton.ok("blame", "task-a").out.splitlines()[1:]]
    places = {line[3]: (line[0], line[2]) for line in lines}

    assert places["title"] == (first, "person-ada-reader")
    assert places["priority"] == (third, "agent-mill")
    assert [places[at][0] for at in "123"] == [second, first, second]
    told = baton.json("blame", "task-a")
    assert [line["text"] for line in told["lines"]] == ["zero", "one", "2"]


def test_a_redaction_is_told_and_what_it_hid_is_not_guessed(baton: Baton) -> None:
    first, second, _ = wrote(baton, "one", "one\nsecret", "one\nclean")

    done = baton.ok("redact", "task-a", "--revision", second, "--reason", "a password")

    assert done.out == f"task-a {second} is redacted (1 entry)\n"
    assert done.err == "backups, exports and work folders made before still have it\n"
    again = baton.ok("redact", "task-a", "--revision", second, "--reason", "again").out
    assert again == f"task-a {second} was redacted already\n"
    listed = baton.ok("history", "task-a").out
    assert ("a password" in listed, "its text was redacted" in listed, "secret" in listed) == (True, True, False)
    shown = baton.ok("history", "task-a", "--revision", second)
    assert (shown.out, "by person-ada-reader: a password" in shown.err) == ("[redacted]\n", True)
    blamed = baton.json("blame", "task-a")
    assert [(line["text"], line["revision"][:10] == first, line["unsure"]) for line in blamed["lines"]] == [
        ("one", True, False),
        ("clean", False, True),
    ]
    assert "whose text was redacted" in baton.ok("blame", "task-a").out.splitlines()[-1]
    assert "cannot be compared" in baton.ok("history", "task-a", "--diff").out


def test_what_the_node_reads_now_is_not_redacted_and_the_way_out_is_said(baton: Baton) -> None:
    (only,) = wrote(baton, "secret")

    ran = baton("redact", "task-a", "--revision", only, "--reason", "a password")

    assert ran.code == 1
    assert "write a clean revision first" in ran.err


def test_a_deleted_node_says_why_and_its_history_goes_on(baton: Baton) -> None:
    wrote(baton, "one")
    baton.ok("add", "B", "--id", "task-b", "--link", "blocks:task-a")

    done = baton.ok("delete", "task-a", "--reason", "filed twice")

    assert done.out.startswith("task-a is deleted; it was at ")
    assert done.err == "edges: 1 edge onto task-a lead nowhere now; they are not removed\n"
    gone = baton("show", "task-a")
    assert (gone.code, "by person-ada-reader: filed twice" in gone.err) == (4, True)
    assert "(deleted)" in baton.ok("show", "task-b").out
    history = baton.ok("history", "task-a").out.splitlines()
    assert history[0].startswith("task-a was deleted at ")
    assert history[2].split()[3] == "delete"
    again = baton("add", "A", "--id", "task-a")
    assert (again.code, "an id is never used again" in again.err) == (1, True)


def test_a_node_that_somebody_holds_is_deleted_by_force_only(baton: Baton) -> None:
    task = baton.task("a")
    with baton.as_agent("mill"):
        baton.ok("claim", task)

    held = baton("delete", task, "--reason", "x")
    forced = baton.ok("delete", task, "--reason", "x", "--force").out.splitlines()

    assert (held.code, "force deletes it and ends that lease" in held.err) == (3, True)
    assert re.fullmatch(r"the lease of agent-mill \(mill\).* has ended \(epoch 1\)", forced[1])


def test_a_commit_is_noted_and_found(baton: Baton) -> None:
    task = baton.task("a")

    assert baton.ok("commit", task, "web@0123456789").out == "task-a carries web@0123456789\n"
    assert baton.ok("commit", task, "web@01234567").out == "task-a carried already web@01234567\n"
    assert baton.ok("commits", "0123456").out.splitlines()[1].split() == [
        "task-a",
        "task",
        "demo",
        "web@0123456789",
        "a",
    ]
    assert baton.ok("commits", "fedcba9").out == "no node carries it\n"
    for bad in ("web", "web@XYZ", "@abcdef1"):
        ran = baton("commit", task, bad)
        assert (ran.code, "is not repo@sha with 7 to 40 lower-case hex digits" in ran.err) == (2, True)


def test_a_list_of_carriers_that_is_cut_says_so_with_its_own_filters(baton: Baton) -> None:
    for name in "abc":
        baton.ok("commit", baton.task(name), "web@0123456")

    cut = baton.ok("commits", "0123456", "--repo", "web", "--limit", "2").out.splitlines()

    assert cut[-1] == "… only the first 2 of this list; more: baton commits 0123456 --repo web --after task-b"


def test_the_schema_is_told_whole_and_by_type(baton: Baton) -> None:
    whole, task = baton.ok("schema").out, baton.ok("schema", "task").out.splitlines()

    assert all(re.search(rf"^{name} ", whole, re.MULTILINE) for name in NODE_TYPES)
    assert "summary" in whole
    assert dict(line.split("  ", 1) for line in task)["which needs"].strip() == (
        "resolves onto it, from artifact or decision, first"
    )
    assert baton.json("schema", "task")["in_progress"] == "active"
    assert {kind["name"] for kind in baton.json("schema")["types"]} == set(NODE_TYPES)
    typo = baton("schema", "tsak")
    assert (typo.code, "did you mean task?" in typo.err) == (4, True)


def test_a_priority_is_set_and_taken_away(baton: Baton) -> None:
    task = baton.task("a")

    assert baton.ok("priority", task, "p1").out == "task-a is p1\n"
    assert baton.ok("priority", task, "p1").out == "task-a is that already\n"
    assert baton.ok("priority", task, "none").out == "task-a has no priority\n"
    assert baton("priority", task, "p4").code == 2


@pytest.mark.parametrize(
    "argv",
    [
        ["history", "task-a", "--diff"],
        ["blame", "task-a"],
        ["schema", "task"],
        ["edit", "task-a", "--set", "title=Ü 🪃"],
    ],
    ids=" ".join,
)
def test_json_is_one_document_in_ascii_whatever_the_surroundings(
    argv: Sequence[str], baton: Baton, spawn: Spawn
) -> None:
    baton.ok("add", "Ü 🪃", "--id", "task-a", "--body", "línea")
    colours = {"FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"}

    plain = spawn(*argv, "--json", LANG="C", LC_ALL="C", **colours)
    closed = _closed(argv)

    assert plain.returncode == 0, plain.stderr
    assert plain.stdout.isascii()
    assert json.loads(plain.stdout)
    assert closed == (0, b"")


def _closed(argv: Sequence[str]) -> tuple[int, bytes]:
    """Run a command whose reader has gone before it begins; return how it ended and what it complained of."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as out:
        ran = subprocess.run([str(BATON), *argv, "--json"], stdout=out, stderr=subprocess.PIPE, check=False)
    return ran.returncode, ran.stderr
