"""The lease verbs as commands, in local mode: the same server as anywhere."""

from __future__ import annotations

import re

from batonpass.testing.commands import Baton

ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"


def test_a_claim_says_for_how_long(baton: Baton) -> None:
    task = baton.task("a")

    printed = baton.ok("claim", task)

    assert re.fullmatch(rf"task-a is claimed for 4[45] min.*, until {ISO} \(epoch 1\)\n", printed.out)


def test_claiming_again_renews_and_says_that_it_was_yours(baton: Baton) -> None:
    task = baton.task("a")
    baton.ok("claim", task)

    again = baton.ok("claim", task)

    assert "(epoch 1)" in again.out
    assert again.err == "it was yours already\n"


def test_json_is_the_wires_answer_alone(baton: Baton) -> None:
    task = baton.task("a")

    answer = baton.json("claim", task, "--session", "s1")

    assert (answer["ok"], answer["status"], answer["edge"]) == (True, "claimed", "added")
    assert (answer["lease"]["node_id"], answer["lease"]["session"]) == ("task-a", "s1")
    assert answer["expires_in_ms"] > 2_600_000


def test_a_held_node_names_node_holder_expiry_and_what_to_do(baton: Baton) -> None:
    task = baton.task("a")
    with baton.as_agent("mill"):
        baton.ok("claim", task)

    with baton.as_agent("kiln"):
        ran = baton("claim", task)

    assert ran.code == 3
    lines = ran.err.splitlines()
    assert re.match(rf"baton: task-a is held by agent-mill until {ISO}", lines[0])
    assert lines[1:] == [
        "  baton queue                     what is free",
        "  baton take task-a --reason WHY  end that lease and claim; for its owner, or an admin",
    ]


def test_of_several_nodes_the_free_ones_are_claimed_and_the_others_named(baton: Baton) -> None:
    a, b = baton.task("a"), baton.task("b")
    with baton.as_agent("mill"):
        baton.ok("claim", a)

    with baton.as_agent("kiln"):
        ran = baton("claim", a, b, "task-c")
        as_json = baton("claim", a, b, "--json")

    assert ran.code == 1, "held and not found are two reasons"
    assert re.match(r"claimed task-b: for 4[45] min", ran.out)
    assert "task-a is held by agent-mill" in ran.err
    assert "task-c" in ran.err
    assert (as_json.code, as_json.json["status"]) == (3, "partial")


def test_a_nonce_keeps_a_second_launch_out(baton: Baton) -> None:
    task = baton.task("a")
    baton.ok("claim", task, "--dispatch", "u1")

    assert baton("claim", task, "--dispatch", "u2").code == 3
    assert baton("claim", task, "task-b", "--dispatch", "u2").code == 2


def test_renewing_acts_on_the_present_tenure_and_takes_no_free_node(baton: Baton) -> None:
    """D2: the command reads the epoch and names it, so one typed too late acquires nothing."""
    task = baton.task("a")
    baton.ok("claim", task)

    assert "task-a is renewed for" in baton.ok("renew", task).out
    baton.ok("release", task)
    late = baton("renew", task)

    assert (late.code, late.err.splitlines()[0]) == (3, "baton: nobody holds task-a")
    assert baton.json("leases")["leases"] == []


def test_renewing_with_an_epoch_that_is_over_is_refused(baton: Baton) -> None:
    task = baton.task("a")
    for _ in range(2):
        baton.ok("claim", task)
        baton.ok("release", task)
    baton.ok("claim", task)

    assert baton("renew", task, "--epoch", "2").code == 3
    assert baton.json("renew", task, "--epoch", "3", "--session", "s2")["lease"]["session"] == "s2"


def test_extending_is_capped_by_the_policy_and_says_so(baton: Baton) -> None:
    task = baton.task("a")
    baton.ok("claim", task)

    long = baton.ok("extend", task, "2h")
    too_long = baton.ok("extend", task, "3d")

    assert "task-a is extended for" in long.out
    assert long.err == ""
    assert too_long.err == "the policy allows 8 h at most\n"


def test_a_reserved_node_is_kept_and_can_be_given_back(baton: Baton) -> None:
    task = baton.task("a")
    baton.ok("claim", task)

    assert re.match(r"task-a is reserved for (2 d|1 d 23 h)", baton.ok("reserve", task).out)
    assert baton.json("leases", "--state", "reserved")["count"] == 1
    assert baton.ok("release", task).out == "task-a is released\n"
    assert baton.json("leases")["count"] == 0


def test_releasing_what_nobody_holds_changes_nothing_and_is_no_error(baton: Baton) -> None:
    task = baton.task("a")

    assert baton.ok("release", task).out == "task-a was not held: nothing changed\n"


def test_releasing_another_ones_lease_is_refused_unless_it_is_ones_to_end(baton: Baton) -> None:
    task = baton.task("a")
    with baton.as_agent("mill"):
        baton.ok("claim", task)
    with baton.as_agent("kiln"):
        assert baton("release", task).code == 3

    assert baton.ok("release", task).out == "task-a is released\n"


def test_all_that_one_holds_is_released_at_once(baton: Baton) -> None:
    baton.ok("claim", baton.task("a"), baton.task("b"))
    baton.ok("claim", baton.task("c"), "--session", "s1")
    baton.ok("reserve", baton.task("d"))

    assert baton.ok("release", "--all", "--session", "s1").out == "released task-c\n"
    assert baton.ok("release", "--all").out == "released task-a, task-b\n"
    assert baton.ok("release", "--all", "--reservations").out == "released task-d\n"
    assert baton.ok("release", "--all").out == "released nothing: you hold nothing\n"
    assert baton("release", "task-a", "--all").code == 2


def test_taking_a_node_says_whose_it_was(baton: Baton) -> None:
    task = baton.task("a")
    with baton.as_agent("mill"):
        baton.ok("claim", task)

    taken = baton.ok("take", task, "--reason", "it hangs")

    assert re.match(r"task-a is taken for .*\(epoch 2\)", taken.out)
    assert taken.err == "it was agent-mill's before\n"


def test_who_holds_what_and_for_how_long_is_a_table(baton: Baton) -> None:
    a, b = baton.task("a"), baton.task("b")
    with baton.as_agent("mill"):
        baton.ok("claim", a, "--session", "s1")
    baton.ok("claim", b)

    printed = baton.ok("leases").out.splitlines()

    assert printed[0].split() == ["node", "held", "by", "for", "state", "epoch", "session", "project", "title"]
    assert re.fullmatch(r"task-a  agent-mill \(mill\) +44 min \d+ s  live   1      s1       demo     a", printed[1])
    assert "person-ada-reader (Ada Reader)" in printed[2]
    assert [row["lease"]["node_id"] for row in baton.json("leases", "--holder", "me")["leases"]] == ["task-a", "task-b"]


def test_a_list_of_leases_that_was_cut_says_so_and_how_to_go_on(baton: Baton) -> None:
    """Case 174."""
    baton.ok("claim", *[baton.task(name) for name in "abc"])

    first = baton.ok("leases", "--limit", "2").out

    assert first.splitlines()[-1] == "… only the first 2 of this list; more: baton leases --after task-b"
    assert baton.ok("leases", "--after", "task-b").out.splitlines()[1].startswith("task-c")
    assert baton.ok("leases", "--holder", "agent-nobody").out == "nothing is held\n"
