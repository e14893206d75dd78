"""`baton record …` in local mode: what is printed, how it ends, and the way out that is named."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from batonpass.cli.exits import Exit
from batonpass.cli.local import local_client
from batonpass.client import class_calls
from batonpass.testing.commands import BATON, Baton

INC = "incidents/inc-4471"
ISO = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"
INCIDENTS = {
    "name": "incidents",
    "fields": {
        "status": {"type": "register"},
        "secret": {"type": "register"},
        "actions": {"type": "append", "cap": 2},
        "remediation": {"type": "task", "lease": "300s"},
        "review": {"type": "task"},
    },
    "roles": {
        "person": {"identities": ["person:*"], "read": ["*"], "write": ["*"], "claim": ["*"]},
        "agent": {
            "identities": ["agent:*"],
            "read": ["status", "actions", "remediation"],
            "write": ["status", "actions"],
            "claim": ["remediation"],
        },
    },
}


@pytest.fixture
def records(baton: Baton) -> Baton:
    """Commands over a database that has the class."""
    with local_client(baton.home) as client:
        client.send(class_calls.put_class("incidents", INCIDENTS))
    return baton


# Values


VALUES: Final[tuple[tuple[list[str], object], ...]] = (
    (["5"], 5),
    (["-5"], -5),
    (["null"], None),
    (['"mitigated"'], "mitigated"),
    (['{"a": [1, 2]}'], {"a": [1, 2]}),
    (["mitigated", "--text"], "mitigated"),
    (["5", "--text"], "5"),
    (["", "--text"], ""),
    (["Ünï\u2028", "--text"], "Ünï\u2028"),
)


def test_a_value_is_put_as_the_json_it_is_or_as_text(records: Baton) -> None:
    for version, (argv, value) in enumerate(VALUES, 1):
        done = records.ok("record", "put", INC, "status", *argv)

        assert done.out == f"{INC} status is put, at version {version}; the record is at version {version}\n"
        assert records.json("record", "get", INC)["fields"]["status"]["value"] == value


@pytest.mark.parametrize(
    "argv, words",
    [
        (["mitigated"], "'mitigated' (the value) is not JSON"),
        (["[1,"], "is not JSON"),
        (["NaN"], "is not JSON"),
        (["--file", "none.json", "1"], "give a value, or a file"),
        ([], "give a value, or a file"),
    ],
)
def test_what_is_no_value_is_refused_before_anything_is_sent(baton: Baton, argv: list[str], words: str) -> None:
    ran = baton("record", "put", INC, "status", *argv)

    assert ran.code == Exit.USAGE
    assert words in ran.err
    assert not baton.home.exists(), "no database was opened"


def test_a_plain_word_is_told_how_to_be_a_text(baton: Baton) -> None:
    assert "--text" in baton("record", "put", INC, "status", "mitigated").err


def test_a_value_comes_from_a_file_or_standard_input(
    records: Baton, spawn: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    path = tmp_path / "value.json"
    path.write_text('{"a": 1}\n')
    records.ok("record", "put", INC, "status", "--file", str(path))
    assert records.json("record", "get", INC)["fields"]["status"]["value"] == {"a": 1}

    ran = spawn("record", "append", INC, "actions", "-", "--text", stdin="line\n")

    assert ran.returncode == Exit.OK, ran
    assert records.json("record", "get", INC)["fields"]["actions"]["value"] == ["line\n"]


def test_a_standard_input_that_was_closed_is_an_empty_one(records: Baton) -> None:
    command = [str(BATON), "record", "put", INC, "status", "-"]

    ran = subprocess.run(["sh", "-c", 'exec "$@" <&-', "sh", *command], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (Exit.USAGE, "")
    assert "'' (standard input) is not JSON" in ran.stderr
    assert records.home.exists()


# Premises and tasks


def test_a_write_under_a_fence_stands_until_the_task_moves(records: Baton) -> None:
    claimed = records.ok("record", "claim", INC, "remediation")
    assert re.fullmatch(
        rf"{INC} remediation is claimed for [45] min.*, until {ISO} \(version 1, epoch 1\)\n", claimed.out
    )
    records.ok("record", "put", INC, "status", "1", "--fence", "remediation@1")
    records.ok("record", "renew", INC, "remediation", "--lease", "10m")

    stale = records("record", "put", INC, "status", "2", "--fence", "remediation@1")
    records.ok("record", "append", INC, "actions", "2", "--fence-epoch", "remediation@1")

    assert stale.code == Exit.HELD
    assert "remediation is at version 2, not 1" in stale.err
    assert f"baton record history {INC}" in stale.err
    shown = records.json("record", "get", INC)["fields"]
    assert (shown["status"]["value"], shown["actions"]["value"]) == (1, [2])


def test_a_write_over_what_somebody_else_wrote_is_refused(records: Baton) -> None:
    records.ok("record", "put", INC, "status", "1")
    records.ok("record", "put", INC, "status", "2", "--if", "status@1")

    stale = records("record", "put", INC, "status", "3", "--if", "status@1", "--json")

    assert (stale.code, stale.json["error"]["code"]) == (Exit.HELD, "stale_premise")
    assert stale.json["premises"] == [{"field": "status", "expected": 1, "actual": 2}]
    assert records("record", "delete", INC, "--if", "status@1").code == Exit.HELD
    assert records("record", "claim", INC, "remediation", "--if", "status@1").code == Exit.HELD


@pytest.mark.parametrize("text", ["remediation", "remediation@", "remediation@-1", "@1", "A@1", "remediation@1.5"])
def test_a_premise_that_is_none_is_told_how_one_looks(baton: Baton, text: str) -> None:
    ran = baton("record", "put", INC, "status", "1", "--fence", text)

    assert ran.code == Exit.USAGE
    assert "remediation@5" in ran.err or "not a name" in ran.err


def test_a_held_task_names_its_owner_and_the_way_out(records: Baton) -> None:
    records.ok("record", "claim", INC, "remediation")

    with records.as_agent("mill"):
        held = records("record", "claim", INC, "remediation")

    assert held.code == Exit.HELD
    assert re.search(rf"{INC}#remediation is held by person:\S+ until {ISO}", held.err)
    assert f"baton record claims {INC}" in held.err


def test_renewing_what_nobody_holds_claims_nothing(records: Baton) -> None:
    records.ok("record", "claim", INC, "remediation")
    released = records.ok("record", "release", INC, "remediation")

    ran = records("record", "renew", INC, "remediation")

    assert released.out == f"{INC} remediation is free, at version 2\n"
    assert ran.code == Exit.HELD
    assert "there is nothing to renew" in ran.err
    assert "owner" not in records.json("record", "get", INC)["fields"]["remediation"]


@pytest.mark.parametrize("lease", ["0s", "500ms", "1.5s"])
def test_a_lease_is_whole_seconds(baton: Baton, lease: str) -> None:
    ran = baton("record", "claim", INC, "remediation", "--lease", lease)

    assert (ran.code, "whole number of seconds" in ran.err) == (Exit.USAGE, True)


def test_a_lease_above_the_longest_is_refused_by_name(records: Baton) -> None:
    ran = records("record", "claim", INC, "remediation", "--lease", "25h")

    assert ran.code == Exit.FAILED
    assert "86400" in ran.err


# What is shown


def test_a_record_without_a_claim_is_not_said_to_have_no_task(records: Baton) -> None:
    records.ok("record", "put", INC, "status", "--text", "open")

    shown = records.ok("record", "claims", INC)

    assert shown.out == f"nobody has ever claimed a task of {INC} that you may see\n"
    assert "baton class show incidents" in shown.err


def test_claims_are_shown_as_held_and_free(records: Baton) -> None:
    records.ok("record", "claim", INC, "remediation")
    records.ok("record", "claim", INC, "review", "--lease", "60s")
    records.ok("record", "release", INC, "review")

    lines = records.ok("record", "claims", INC).out.splitlines()

    held, free = sorted(lines)
    assert re.fullmatch(rf"remediation {{10}}person:\S+ +lease_expires_at={ISO} v1 \(held\)", held)
    assert re.fullmatch(r"review {15}- +v2 \(free\)", free)
    assert set(records.json("record", "claims", INC)["fields"]) == {"remediation", "review"}


def test_a_record_is_shown_with_who_wrote_what(records: Baton) -> None:
    records.ok("record", "put", INC, "status", '"open"')
    records.ok("record", "claim", INC, "remediation")

    lines = records.ok("record", "get", INC).out.splitlines()

    assert lines[0] == f"{INC} is at version 2, its class was at version 1"
    assert lines[1].split() == ["field", "value", "version", "author", "updated", "at"]
    assert re.match(r'status +"open" +1 +person:', lines[-1])
    assert re.match(r"remediation +\(held by person:\S+ for \d.*, epoch 1\) +1 ", lines[2])
    assert len(records.ok("record", "get", INC, "status").out.splitlines()) == 3


def test_a_field_that_may_not_be_read_is_not_shown_and_named_when_asked_for(records: Baton) -> None:
    records.ok("record", "put", INC, "secret", "1")
    records.ok("record", "put", INC, "status", "1")

    with records.as_agent("mill"):
        assert set(records.json("record", "get", INC)["fields"]) == {"status"}
        denied = records("record", "get", INC, "secret")
        unwritten = records("record", "put", INC, "secret", "2")

    assert (denied.code, unwritten.code) == (Exit.NOT_ALLOWED, Exit.NOT_ALLOWED)
    assert "baton class show incidents" in denied.err


def test_what_is_not_there_is_told_from_what_has_no_such_field(records: Baton) -> None:
    assert records("record", "get", INC).code == Exit.NOT_FOUND
    no_class = records("record", "put", "invoices/1", "status", "1")
    no_field = records("record", "put", INC, "colour", "1")

    assert (no_class.code, no_field.code) == (Exit.NOT_FOUND, Exit.NOT_FOUND)
    assert "baton class list" in no_class.err
    assert "baton class show incidents" in no_field.err


@pytest.mark.parametrize("record", ["incidents", "Incidents/1", "incidents/", "incidents/a b", "/x"])
def test_a_record_that_can_be_none_is_refused_unsent(baton: Baton, record: str) -> None:
    assert baton("record", "get", record).code == Exit.USAGE


def test_an_append_at_its_cap_says_so(records: Baton) -> None:
    records.ok("record", "append", INC, "actions", "1")
    done = records.ok("record", "append", INC, "actions", "2")
    assert done.out == f"{INC} actions has a new value at 1; it is at version 2\n"

    full = records("record", "append", INC, "actions", "3")

    assert full.code == Exit.FAILED
    assert "baton class show incidents" in full.err


def test_records_are_listed_by_what_is_free_and_by_who_has_what(records: Baton) -> None:
    for name in ("a", "b", "c"):
        records.ok("record", "put", f"incidents/{name}", "status", '"open"')
    with records.as_agent("mill"):
        records.ok("record", "claim", "incidents/a", "remediation")
        mine = records.json("record", "list", "incidents", "--holder", "me")
    free = records.ok("record", "list", "incidents", "--free", "remediation", "--limit", "1")
    theirs = records.ok("record", "list", "incidents", "--holder", "agent:agent-mill")

    assert [each["record"] for each in mine["records"]] == ["incidents/a"]
    lines = free.out.splitlines()
    assert lines[1].split()[:2] == ["incidents/b", "1"]
    assert lines[2].startswith("… only the first 1 of this list; more: baton record list incidents --free remediation")
    assert re.search(r"incidents/a +2 +remediation held by agent:agent-mill +status \"open\"", theirs.out)


def test_history_and_blame_tell_who_wrote_what_on_which_premises(records: Baton) -> None:
    records.ok("record", "claim", INC, "remediation")
    records.ok("record", "put", INC, "status", "1", "--fence-epoch", "remediation@1")
    records.ok("record", "put", INC, "status", "2", "--if", "status@1")

    told = records.ok("record", "history", INC, "--values", "--limit", "2")
    blamed = records.ok("record", "blame", INC)

    assert [line.split()[0] for line in told.out.splitlines()] == ["n", "3", "2", "…"]
    assert re.search(r"3 .* put +status +2 +2 +seen status@1", told.out)
    assert re.search(r"2 .* put +status +1 +1 +under remediation, epoch 1", told.out)
    assert f"more: baton record history {INC} --values --before 2" in told.out
    assert re.search(r"status +2 +person:\S+ +\S+ +put +3", blamed.out)
    assert re.search(r"remediation +1 +person:\S+ +\S+ +claim +1", blamed.out)
    assert set(records.json("record", "blame", INC)["fields"]) == {"status", "remediation"}


def test_a_deleted_record_keeps_its_history_and_goes_on_from_its_versions(records: Baton) -> None:
    records.ok("record", "put", INC, "status", "1")

    deleted = records.ok("record", "delete", INC)

    assert deleted.out == f"{INC} is deleted, at version 2\n"
    assert records("record", "get", INC).code == Exit.NOT_FOUND
    assert "put" in records.ok("record", "history", INC).out
    assert records.json("record", "put", INC, "status", "2")["version"] > 1


@pytest.mark.parametrize(
    "watched, told",
    [
        (["incidnets/inc-4471"], "baton class list"),
        ([INC, "stauts"], "baton class show incidents"),
        (["incidents/nowhere", "stauts"], "baton class show incidents"),
    ],
)
def test_what_can_never_happen_is_not_waited_for(records: Baton, watched: list[str], told: str) -> None:
    records.ok("record", "put", INC, "status", "1")

    refused = records("record", "watch", *watched, "--count", "1")

    assert (refused.code, told in refused.err) == (Exit.NOT_FOUND, True), refused


def test_what_one_may_not_read_is_not_waited_for(records: Baton) -> None:
    records.ok("record", "put", INC, "secret", "1")

    with records.as_agent("mill"):
        assert records("record", "watch", INC, "secret", "--count", "1").code == Exit.NOT_ALLOWED


def test_a_way_out_is_the_same_command_with_what_it_lacked(records: Baton) -> None:
    claimed = records("record", "claim", INC, "review")
    listed = records("record", "list", "incidents", "--free", "status")

    assert claimed.err.splitlines()[-1].split("  ")[1] == f"baton record claim --lease 5m {INC} review"
    assert "baton class show incidents " in listed.err


def test_what_happens_to_a_record_is_followed_as_it_happens(records: Baton) -> None:
    records.ok("record", "put", INC, "status", "1")
    watching = subprocess.Popen(
        [str(BATON), "record", "watch", INC, "status", "--count", "2", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stderr is not None
    assert watching.stderr.readline() == f"watching {INC} status\n"

    records.ok("record", "put", INC, "status", "2")
    records.ok("record", "append", INC, "actions", "1")
    records.ok("record", "put", INC, "status", "3")
    out, _ = watching.communicate(timeout=60)

    events = [json.loads(line) for line in out.splitlines()]
    assert watching.returncode == Exit.OK
    assert [(each["record"], each["field"], each["version"]) for each in events] == [
        (INC, "status", 2),
        (INC, "status", 3),
    ]


@pytest.mark.parametrize("count", ["-1", "0", "1.5", "9" * 30, "٣"])
def test_what_is_no_number_of_events_to_wait_for_is_refused(baton: Baton, count: str) -> None:
    ran = baton("record", "watch", INC, "--count", count)

    assert ran.code == Exit.USAGE
    assert "whole number" in ran.err
