"""`baton edit`: a node changed in an editor, from a file, key by key; and no typed text is ever lost."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from batonpass.testing.commands import Baton


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the script that is the editor; it gets the file's name and changes what it says in it."""
    script = tmp_path / "editor.py"
    monkeypatch.setenv("EDITOR", f"{sys.executable} {script}")
    return script


def edits(script: Path, old: str, new: str, *more: str) -> None:
    """Let the editor put `new` in the place of `old`, and run the lines `more` besides."""
    lines = [
        "import pathlib, sys",
        "file = pathlib.Path(sys.argv[-1])",
        f"file.write_text(file.read_text().replace({old!r}, {new!r}))",
        *more,
    ]
    script.write_text("\n".join(lines))


def body(baton: Baton) -> str:
    text: str = baton.json("show", "task-a")["body"]
    return text


def test_a_node_is_changed_in_an_editor(baton: Baton, editor: Path) -> None:
    baton.ok("add", "A", "--id", "task-a", "--body", "first")
    edits(editor, "first", "second")

    done = baton.ok("edit", "task-a")

    assert re.fullmatch(r"task-a is at [0-9a-f]{40}\n", done.out)
    assert body(baton) == "second"
    assert [entry["verb"] for entry in baton.json("history", "task-a")["entries"]] == ["put", "put"]


def test_the_editor_gets_what_may_be_written_and_nothing_else(baton: Baton, editor: Path, tmp_path: Path) -> None:
    baton.ok("add", "A", "--id", "task-a", "--priority", "p1")
    baton.ok("claim", "task-a")
    copy = tmp_path / "copy.md"
    edits(editor, "", "", f"pathlib.Path({str(copy)!r}).write_text(file.read_text())")

    same = baton.ok("edit", "task-a")

    assert same.out.startswith("task-a is as it was, at ")
    assert "priority: p1" in copy.read_text()
    assert not {"author", "priority_by", "created_at", "edges"} & set(
        re.findall(r"^(\w+):", copy.read_text(), re.MULTILINE)
    )
    assert len(baton.json("history", "task-a")["entries"]) == 1


def test_a_text_that_came_too_late_is_kept_and_the_way_on_is_said(baton: Baton, editor: Path) -> None:
    baton.ok("add", "A", "--id", "task-a", "--body", "first")
    meanwhile = "from batonpass.cli.main import main; main(['priority', 'task-a', 'p1'])"
    edits(editor, "first", "second", f"import subprocess; subprocess.run([sys.executable, '-c', {meanwhile!r}])")

    late = baton("edit", "task-a")

    assert (late.code, body(baton)) == (1, "first")
    kept = Path(re.search(r"your text is kept in (\S+)", late.err)[1])  # type: ignore[index]  # a test of just that
    assert kept.is_relative_to(baton.home / "edits")
    assert kept.stat().st_mode & 0o077 == 0
    assert "1. see what was changed meanwhile: baton history task-a --diff" in late.err
    assert f"2. bring that into your text, and write it: baton edit task-a --from {kept}" in late.err

    again = re.search(r"write it: baton (edit .+)", late.err)[1].split()  # type: ignore[index]  # the same
    baton.ok("priority", "task-a", "p2")
    assert baton(*again).code == 1  # whoever brings changes in has not seen this one

    baton.ok("edit", "task-a", "--from", str(kept))
    assert body(baton) == "second"


def test_a_text_that_is_repaired_later_does_not_overwrite_what_came_meanwhile(baton: Baton, editor: Path) -> None:
    baton.ok("add", "A", "--id", "task-a", "--body", "first")
    edits(editor, "type: task", "type: tsak")
    refused = baton("edit", "task-a")
    again = re.search(r"write it: baton (edit .+)", refused.err)[1].split()  # type: ignore[index]  # a test of just that
    kept = Path(again[3])
    kept.write_text(kept.read_text().replace("tsak", "task").replace("first", "mine"))
    baton.ok("edit", "task-a", "--set", "body=theirs")

    late = baton(*again)

    assert (late.code, body(baton)) == (1, "theirs")


def test_a_second_text_that_is_not_taken_leaves_the_first_where_it_is(baton: Baton, editor: Path) -> None:
    baton.ok("add", "A", "--id", "task-a", "--body", "first")
    for word in ("one", "two"):
        edits(editor, "first", word, "file.write_text(file.read_text().replace('type: task', 'type: tsak'))")
        baton("edit", "task-a")

    assert sorted(file.read_text().rsplit("\n", 2)[-2] for file in (baton.home / "edits").iterdir()) == ["one", "two"]


@pytest.mark.parametrize(
    "change, words",
    [
        (("type: task", "type: tsak"), "did you mean task?"),
        (("id: task-a", "id: task-b"), "the text is of task-b, not of task-a"),
        (("---\nid", "id"), "a node begins with its keys between two lines of ---"),
    ],
)
def test_a_text_that_is_not_taken_is_kept_too(baton: Baton, editor: Path, change: tuple[str, str], words: str) -> None:
    baton.ok("add", "A", "--id", "task-a")
    edits(editor, *change)

    ran = baton("edit", "task-a")

    assert ran.code in (1, 2)
    assert words in ran.err
    assert re.search(r"repair it there, and write it: baton edit task-a --from \S+", ran.err)
    assert len(list((baton.home / "edits").iterdir())) == 1


def test_bytes_that_are_no_text_are_kept_as_they_are(baton: Baton, editor: Path) -> None:
    baton.ok("add", "A", "--id", "task-a")
    edits(editor, "", "", "file.write_bytes(b'caf\\xe9')")

    ran = baton("edit", "task-a")

    (kept,) = (baton.home / "edits").iterdir()
    assert (ran.code, kept.read_bytes()) == (2, b"caf\xe9")
    assert "not UTF-8" in ran.err


def test_an_editor_that_fails_changes_nothing(baton: Baton, editor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    baton.ok("add", "A", "--id", "task-a", "--body", "first")
    edits(editor, "first", "second", "sys.exit(3)")

    failed = baton("edit", "task-a")
    monkeypatch.setenv("EDITOR", "/nowhere/vi")
    missing = baton("edit", "task-a")
    monkeypatch.delenv("EDITOR")
    unset = baton("edit", "task-a")

    assert (failed.code, "ended with 3, so nothing was changed" in failed.err) == (1, True)
    assert (missing.code, "/nowhere/vi could not be started" in missing.err) == (1, True)
    assert (unset.code, "set EDITOR" in unset.err) == (2, True)
    assert body(baton) == "first"


def test_keys_are_set_and_taken_away_without_an_editor(baton: Baton) -> None:
    baton.ok("add", "A", "--id", "task-a", "--body", "first", "--link", "blocks:task-b", "--priority", "p1")

    baton.ok("edit", "task-a", "--set", "title=New = better", "--set", "requires=shell, network", "--set", "priority=")

    front = baton.json("show", "task-a")["frontmatter"]
    assert (front["title"], front["requires"], "priority" in front) == ("New = better", ["shell", "network"], False)
    assert front["edges"] == [{"type": "blocks", "to": "task-b"}]
    assert body(baton) == "first"


@pytest.mark.parametrize(
    "argv, words",
    [
        (["--set", "title"], "write it as key=value"),
        (["--set", "colour=red"], "colour: is not a key; there are title, summary"),
        (["--set", "id=task-b"], "id: is fixed"),
        (["--set", "edges=x"], "edges: has link and unlink"),
        (["--set", "title=x", "--from", "a.md"], "give --from or --set, not both"),
        (["--revision", "0" * 40], "--revision goes with --from"),
        (["--from", "nowhere.md"], "nowhere.md: No such file or directory"),
    ],
)
def test_what_makes_no_sense_is_refused_with_what_would(baton: Baton, argv: list[str], words: str) -> None:
    baton.ok("add", "A", "--id", "task-a")

    ran = baton("edit", "task-a", *argv)

    assert ran.code == 2
    assert words in ran.err


def test_a_text_made_from_an_older_revision_is_refused_as_such(baton: Baton) -> None:
    baton.ok("add", "A", "--id", "task-a", "--body", "first")
    old = baton.json("history", "task-a", "--revision", baton.json("show", "task-a")["revision"])
    baton.ok("priority", "task-a", "p1")
    Path("a.md").write_text(old["raw"].replace("first", "second"))

    ran = baton("edit", "task-a", "--from", "a.md", "--revision", old["revision"])

    assert ran.code == 1
    assert f"not {old['revision']}; read it and try again" in ran.err
    assert ran.err.count("kept in") == 0  # it is in a file already
