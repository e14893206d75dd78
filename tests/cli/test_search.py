"""`baton search`."""

from __future__ import annotations

import re

from batonpass.testing.commands import Baton


def test_what_is_found_is_a_table_with_the_place_it_was_found_at(baton: Baton) -> None:
    baton.task("login-page")
    baton.task("other", "--body", "See the\nlogin form.")

    lines = baton.ok("search", "LOGIN").out.splitlines()

    assert lines[0].split() == ["node", "type", "project", "title", "found"]
    assert re.fullmatch(r"task-login-page +task +demo +login-page +id, title, summary: login-page", lines[1])
    assert re.fullmatch(r"task-other +task +demo +other +body: login form\.", lines[2])


def test_nothing_found_is_said_and_is_no_failure(baton: Baton) -> None:
    found = baton.ok("search", "nowhere")

    assert (found.out, found.err) == ("nothing was found\n", "")
    assert baton.json("search", "nowhere") == {"items": [], "count": 0, "truncated": False}


def test_a_query_of_punctuation_is_explained(baton: Baton) -> None:
    found = baton.ok("search", "--", "-", '"*')

    assert found.out == "nothing was found\n"
    assert "there is no letter, digit or symbol in it to look for" in found.err


def test_words_are_narrowed_and_pages_follow(baton: Baton) -> None:
    for name in ("fix-a", "fix-b", "fix-c"):
        baton.task(name)

    first = baton.ok("search", "fix", "task", "--type", "task", "--project", "demo", "--limit", "2").out.splitlines()

    assert [line.split()[0] for line in first[1:3]] == ["task-fix-c", "task-fix-b"]
    assert first[-1] == "… 1 to 2 of 3; more: the same with --offset 2, or one word more"
    assert baton.ok("search", "fix", "--offset", "2").out.splitlines()[1].startswith("task-fix-a")
    assert baton.ok("search", "fix", "--offset", "9").out == "nothing from 10 on: 3 were found\n"
    assert baton.json("search", "fix", "--type", "issue")["count"] == 0


def test_what_the_server_refuses_is_the_command_lines_error(baton: Baton) -> None:
    refused = baton("search", "x" * 501)

    assert refused.code == 1
    assert "q: 501 characters; the limit is 500" in refused.err
