from __future__ import annotations

import re

from batonpass.testing.commands import Baton


def test_the_queue_is_a_table_best_first(baton: Baton) -> None:
    baton.task("a", "--ready")
    baton.task("b", "--priority", "p1")
    baton.ok("claim", "task-a")

    lines = baton.ok("queue").out.splitlines()

    assert lines[0].split() == [
        "node", "priority", "readiness", "suggest", "project", "score", "held", "by", "title",
    ]  # fmt: skip
    assert re.fullmatch(r"task-b  p1 +do +demo +6\.00 +b", lines[1])
    assert re.fullmatch(r"task-a +agent +dispatch +demo +0\.00 +Ada Reader +a", lines[2])


def test_an_empty_queue_says_so(baton: Baton) -> None:
    assert baton.ok("queue").out == "the queue is empty\n"


def test_what_is_not_listed_is_counted_with_the_command_that_shows_it(baton: Baton) -> None:
    a, b, _ = baton.task("a"), baton.task("b"), baton.task("c", "--wake", "2999-01-01")
    d, e = baton.task("d"), baton.task("e")
    baton.ok("link", a, "blocks", b)
    with baton.as_agent("mill"):
        baton.ok("claim", d)
        baton.ok("reserve", e)

    with baton.as_agent("kiln"):
        printed = baton.ok("queue").out

    assert printed.splitlines()[-1] == (
        "not listed: 1 held by others (baton leases), 1 reserved by others (baton leases --state reserved),"
        " 1 blocked (baton queue --include-blocked), 1 asleep until their day"
    )
    blocked = baton.ok("queue", "--include-blocked").out
    assert re.search(r"task-b +blocked by task-a +demo", blocked)


def test_a_queue_that_was_cut_says_so_and_how_to_go_on(baton: Baton) -> None:
    """Case 174: twenty of twenty-five are shown; `count` in JSON is the ranking's, `returned_count` the page's."""
    files = [f'---\nid: task-{n:02}\ntype: task\ntitle: "{n}"\nsummary: "{n}"\nproject: demo\n---\n' for n in range(25)]
    for n, text in enumerate(files):
        (baton.home.parent / f"{n}.md").write_text(text)
    baton.ok("add", *[word for n in range(25) for word in ("--file", str(baton.home.parent / f"{n}.md"))])

    first = baton.ok("queue").out.splitlines()
    rest = baton.ok("queue", "--offset", "20").out.splitlines()
    page = baton.json("queue")

    assert len(first) == 1 + 20 + 1
    assert first[-1] == "… 1 to 20 of 25; more: baton queue --offset 20"
    assert len(rest) == 1 + 5
    assert (page["returned_count"], page["total_count"], page["truncated"]) == (20, 25, True)


def test_next_claims_the_best_item_and_says_how_to_keep_it(baton: Baton) -> None:
    baton.task("a", "--ready")
    baton.task("b", "--ready", "--priority", "p1")

    taken = baton.ok("next", "--project", "demo")

    assert re.fullmatch(r"task-b is claimed for (1 min|59 s) \(epoch 1\): b\n", taken.out)
    assert taken.err == "keep it with: baton renew task-b\n"


def test_next_takes_only_what_is_meant_for_agents_unless_told(baton: Baton) -> None:
    baton.task("a")

    nothing = baton("next")
    as_json = baton("next", "--json")

    assert (nothing.code, nothing.out) == (1, "there is nothing to take\n")
    assert (as_json.code, as_json.json) == (1, {"ok": True, "status": "empty"})
    assert baton.json("next", "--accept", "open")["item"]["id"] == "task-a"


def test_next_passes_over_what_it_is_told_to(baton: Baton) -> None:
    baton.task("a", "--ready", "--priority", "p1")
    baton.task("b", "--ready")

    assert baton.json("next", "--exclude", "task-a", "--type", "task")["item"]["id"] == "task-b"


def test_the_same_launch_gets_the_same_item_again(baton: Baton) -> None:
    baton.task("a", "--ready")
    baton.task("b", "--ready")

    first = baton.json("next", "--dispatch", "u1")
    again = baton.json("next", "--dispatch", "u1")

    assert first["item"]["id"] == again["item"]["id"]
    assert baton.json("leases")["count"] == 1


def test_the_rest_of_a_filtered_queue_is_told_with_its_filters(baton: Baton) -> None:
    for name in "abc":
        baton.task(name, "--ready")

    printed = baton.ok(
        "queue", "--project", "demo", "--type", "task", "--exclude-type", "issue", "--readiness", "agent",
        "--include-blocked", "--limit", "1",
    ).out  # fmt: skip

    said = re.search(r"… 1 to 1 of 3; more: baton (.+)\n", printed)
    assert said is not None
    assert said[1] == (
        "queue --project demo --type task --exclude-type issue --readiness agent --include-blocked --limit 1 --offset 1"
    )
    assert "… 2 to 2 of 3" in baton.ok(*said[1].split()).out


def test_a_page_behind_the_end_is_not_called_an_empty_queue(baton: Baton) -> None:
    baton.task("a")

    assert baton.ok("queue", "--offset", "7").out == "nothing from 8 on: there are 1\n"
