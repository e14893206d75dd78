from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from batonpass.testing.commands import Baton

INCIDENTS = """\
name: incidents
fields:
  status: {type: register, schema: {enum: [open, closed]}}
  actions_taken: {type: append, cap: 500}
  remediation: {type: task, lease: 5m}
roles:
  remediator: {identities: ["apikey:remediator/*"], read: "*", write: [actions_taken], claim: [remediation]}
"""
INVOICES = '{"name": "invoices", "fields": {"work": {"type": "task"}}}'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Return a folder with two classes in it."""
    folder = tmp_path / "classes"
    folder.mkdir()
    (folder / "incidents.yaml").write_text(INCIDENTS)
    (folder / "invoices.json").write_text(INVOICES)
    return folder


def test_files_are_applied_and_again_nothing_changes(baton: Baton, files: Path) -> None:
    both = [str(path) for path in sorted(files.iterdir())]

    assert baton.ok("class", "apply", *both).out.splitlines() == [
        "incidents  applied version 1",
        "invoices  applied version 1",
    ]
    assert baton.json("class", "apply", *both) == {
        "classes": [
            {"class": "incidents", "version": 1, "changed": False},
            {"class": "invoices", "version": 1, "changed": False},
        ]
    }
    assert baton.ok("class", "apply", both[0]).out == "incidents  is in force already, version 1\n"


def test_all_files_are_checked_before_any_is_sent(baton: Baton, files: Path) -> None:
    (files / "orders.yaml").write_text("name: orders\nrole: {}\nfields: {work: {type: task, lease: 0}}\n")
    (files / "zones.yaml").write_text("name: zones\nfields: {a: {type: yes}}\n")

    ran = baton("class", "apply", *(str(path) for path in sorted(files.iterdir())))

    assert (ran.code, ran.out) == (1, "")
    assert ran.err.splitlines() == [
        "baton: 3 thing(s) wrong in 2 of 4 class file(s); nothing was applied",
        "  class orders: unknown-key: role: it takes name, fields, roles",
        "  class orders: field work: bad-lease: lease: 0 s is outside 1 s to 86400 s, a day",
        (
            f'  file {files}/zones.yaml: line 2, fields.a.type: ambiguous-word: "yes" is not text to every reader of'
            " YAML; quote it, or use true, false, null or a number of JSON"
        ),
    ]
    assert baton.json("class", "list")["classes"] == []


def test_only_an_admin_applies(baton: Baton, files: Path) -> None:
    with baton.as_agent("mill"):
        ran = baton("class", "apply", str(files / "invoices.json"))

    assert ran.code == 6
    assert baton("class", "show", "invoices").code == 4


def test_the_same_class_in_two_files_is_refused(baton: Baton, files: Path) -> None:
    (files / "twice.yaml").write_text(INCIDENTS)

    ran = baton("class", "apply", str(files / "incidents.yaml"), str(files / "twice.yaml"))

    assert ran.code == 1
    said = f"file {files}/twice.yaml: class incidents stands in {files}/incidents.yaml too; one file is one class"
    assert said in ran.err


def test_check_asks_no_server_and_says_everything(baton: Baton, files: Path) -> None:
    (files / "bad.yaml").write_text("name: bad\nfields: {}\n")
    names = [str(path) for path in sorted(files.iterdir())]

    ran = baton("class", "check", *names, str(files / "none.yaml"))
    told = baton("class", "check", *names, "--json")

    assert ran.code == 1
    assert ran.out.splitlines() == [
        f"{files}/incidents.yaml: class incidents, 3 field(s), 1 role(s)",
        f"{files}/invoices.json: class invoices, 1 field(s), 0 role(s)",
    ]
    assert ran.err.splitlines() == [
        "class bad: no-fields: fields: a class has at least one",
        f"file {files}/none.yaml: No such file or directory",
    ]
    assert (told.code, told.json["files"][1]) == (
        1,
        {"file": f"{files}/incidents.yaml", "class": "incidents", "findings": []},
    )
    assert baton.ok("class", "check", *names[1:]).err == ""
    assert not baton.home.exists(), "it opened no database"


def test_a_class_is_shown_for_people_for_programs_and_as_a_file(baton: Baton, files: Path) -> None:
    baton.ok("class", "apply", str(files / "incidents.yaml"))

    shown = baton.ok("class", "show", "incidents").out
    document = baton.json("class", "show", "incidents")["document"]
    written = baton.ok("class", "show", "incidents", "--yaml").out
    (files / "again.yaml").write_text(written)

    assert [line.split() for line in shown.splitlines()[4:8]] == [
        ["field", "type", "says"],
        ["status", "register", "schema", '{"enum":["open","closed"]}'],
        ["actions_taken", "append", "cap", "500"],
        ["remediation", "task", "lease", "300s"],
    ]
    assert document["fields"]["remediation"] == {"type": "task", "lease": "300s"}
    assert baton.ok("class", "apply", str(files / "again.yaml")).out == "incidents  is in force already, version 1\n"


def test_a_file_that_is_wrong_is_not_said_to_have_been_left_unapplied_where_it_is_compared(baton: Baton) -> None:
    compared = baton("class", "diff", "nowhere.yaml")

    assert (compared.code, compared.err.splitlines()) == (
        1,
        [
            "baton: 1 thing(s) wrong in 1 of 1 class file(s); nothing was compared",
            "  file nowhere.yaml: No such file or directory",
        ],
    )


def test_a_difference_is_told_field_by_field_and_by_the_exit_code(baton: Baton, files: Path) -> None:
    file = files / "incidents.yaml"
    new = baton("class", "diff", str(file))
    baton.ok("class", "apply", str(file))
    same = baton("class", "diff", str(file))
    file.write_text(INCIDENTS.replace("cap: 500", "cap: 50").replace("  remediation: {type: task, lease: 5m}\n", "")
                    .replace(", claim: [remediation]", ""))  # fmt: skip
    other = baton("class", "diff", str(file))
    told = baton("class", "diff", str(file), "--json")
    baton.ok("class", "apply", str(file))
    since = baton("class", "diff", "incidents")

    assert (new.code, new.out.splitlines()[0]) == (1, "incidents: from nothing to the file")
    assert (same.code, same.out) == (0, "incidents: the file says the same as version 1\n")
    changes = [
        "~ field actions_taken: cap: 500 -> 50",
        "- field remediation: type: task",
        "- field remediation: lease: 300s",
        '- role remediator: claim: ["remediation"]',
    ]
    assert (other.code, other.out.splitlines()) == (1, ["incidents: from version 1 to the file", *changes])
    assert (told.code, told.json["differences"][0]) == (
        1,
        {"change": "changed", "where": "field actions_taken: cap", "before": 500, "after": 50},
    )
    assert (since.code, since.out.splitlines()) == (1, ["incidents: from version 1 to version 2", *changes])
    assert baton("class", "diff", "incidents", "--version", "2").code == 0
    assert baton("class", "show", "incidents", "--version", "1", "--json").json["latest"] == 2


@pytest.mark.parametrize(
    "argv, code",
    [
        (("class", "apply"), 2),
        (("class", "show", "Incidents"), 2),
        (("class", "show", "nothing"), 4),
        (("class", "show", "nothing", "--yaml", "--json"), 2),
        (("class", "diff", "nothing"), 4),
        (("class", "diff", "no-file.yaml"), 1),
        (("class", "apply", "."), 1),
    ],
)
def test_what_makes_no_sense_ends_with_its_code(baton: Baton, argv: tuple[str, ...], code: int) -> None:
    assert baton(*argv).code == code


def test_a_field_with_data_in_it_stays_and_says_how_many_records_have_it(baton: Baton, files: Path) -> None:
    file = files / "notes.yaml"
    file.write_text(
        'name: notes\nfields: {a: {type: register}, b: {type: task}}\nroles: {r: {identities: ["person:*"], read: "*",'
        ' write: "*"}}\n'
    )
    baton.ok("class", "apply", str(file))
    baton.ok("record", "put", "notes/one", "a", "1")
    file.write_text("name: notes\nfields: {b: {type: task}}\n")

    ran = baton("class", "apply", str(files / "invoices.json"), str(file))

    said = "class notes: field a: field-holds-data: 1 record has data in it; delete those first, or keep the field"
    assert (ran.code, ran.out) == (1, "invoices  applied version 1\n")
    assert ran.err.splitlines()[:2] == [f"baton: {said}", "  already applied: invoices"]


def test_commands_that_know_no_schema_start_without_its_library(
    spawn: Callable[..., subprocess.CompletedProcess[str]], files: Path
) -> None:
    code = (
        "import sys; from batonpass.cli.main import main; code = main(sys.argv[1:]);"
        "assert not {'jsonschema', 'referencing', 'rpds'} & set(sys.modules), 'imported'; sys.exit(code)"
    )
    del spawn
    ran = subprocess.run(
        [sys.executable, "-c", code, "class", "check", str(files / "invoices.json"), "--json"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout)["files"][0]["class"] == "invoices"
