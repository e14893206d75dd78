from __future__ import annotations

import json
import re
import signal
import subprocess

from batonpass.testing.commands import BATON, Baton

WAIT_S_MAX = 30


def test_what_happened_lately_is_a_table_oldest_first(baton: Baton) -> None:
    baton.task("a")
    baton.ok("claim", "task-a")

    lines = baton.ok("events", "--node", "task-a").out.splitlines()

    assert lines[0].split() == ["at", "kind", "about", "project", "by", "what"]
    assert re.fullmatch(r"\S+\+00:00 +node\.put +task-a +demo +person-ada-reader +status created", lines[1])
    assert re.fullmatch(r"\S+\+00:00 +lease\.claimed +task-a +demo +person-ada-reader +epoch 1", lines[2])


def test_events_are_chosen_by_kind_project_and_time(baton: Baton) -> None:
    baton.task("a")
    baton.ok("claim", "task-a")

    claimed = baton.json("events", "--kind", "lease", "--project", "demo")
    later = baton.ok("events", "--since", claimed["next"])

    assert [event["kind"] for event in claimed["events"]] == ["lease.claimed"]
    assert later.out == "nothing happened\n"
    assert baton.ok("events", "--since", "2999-01-01T00:00:00+00:00").out == "nothing happened\n"


def test_a_quiet_hour_is_not_called_a_feed_without_events(baton: Baton) -> None:
    quiet = baton.ok("events", "--kind", "policy")

    assert quiet.out == "nothing happened in the last hour; further back: baton events --since 3d\n"


def test_what_was_none_before_is_said_in_words(baton: Baton) -> None:
    baton.task("a")
    baton.ok("set", "task-a", "--status", "abandoned")

    assert "from none, to abandoned" in baton.ok("events", "--kind", "node.status").out


def test_a_list_that_was_cut_says_how_to_go_on(baton: Baton) -> None:
    baton.task("a")
    baton.task("b")

    first = baton.ok("events", "--kind", "node", "--project", "demo", "--limit", "1").out.splitlines()
    rest = baton.ok(*first[-1].removeprefix("there is more: baton ").split()).out

    assert "task-a" in first[1]
    assert "task-b" in rest


def test_what_makes_no_sense_is_said_in_words(baton: Baton) -> None:
    ran = baton("events", "--since", "yesterday")

    assert ran.code == 1
    assert "neither a position nor a moment" in ran.err


def test_followed_events_are_printed_as_they_come(baton: Baton) -> None:
    """A process of its own over the same file, interrupted in the end."""
    baton.task("a")
    position = baton.json("events")["next"]
    command = [str(BATON), "events", "--follow", "--json", "--since", position]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        baton.ok("claim", "task-a")
        event = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=WAIT_S_MAX)

    assert (event["kind"], event["node"]) == ("lease.claimed", "task-a")
    assert process.returncode == 130
