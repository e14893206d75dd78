from __future__ import annotations

from batonpass.testing.commands import Baton


def test_a_correction_stands_until_it_is_applied(baton: Baton) -> None:
    task = baton.task("a")
    made = baton.ok("correct", task, "It listens on 8080.")
    baton.ok("correct", "project:demo", "The demo is in English.", "--title", "Language")

    listed = baton.ok("corrections").out.splitlines()
    baton.ok("set", "corr-task-a-1", "--status", "applied")

    assert made.out == "corr-task-a-1 stands\n"
    assert [line.split("  ")[0] for line in listed] == ["correction", "corr-project-demo-1", "corr-task-a-1"]
    assert [each["id"] for each in baton.json("corrections")["corrections"]] == ["corr-project-demo-1"]
    assert baton.ok("corrections", task).out == "no correction stands\n"


def test_a_list_that_was_cut_says_how_it_goes_on(baton: Baton) -> None:
    for n in range(3):
        baton.ok("correct", "global", f"Not {n}.")

    lines = baton.ok("corrections", "global", "--limit", "2").out.splitlines()

    assert lines[-1] == "… only the first 2 of this list; more: baton corrections global --after corr-global-2"


def test_a_node_that_is_not_there_is_not_found(baton: Baton) -> None:
    ran = baton("correct", "task-nowhere", "No.")

    assert (ran.code, "there is no node task-nowhere" in ran.err) == (4, True)
