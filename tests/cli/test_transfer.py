"""`baton export` and `baton import`: files that come back to the byte, and everything that is not as it should be."""

from __future__ import annotations

import fcntl
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from batonpass.cli import transfer as command
from batonpass.client.imports import Told
from batonpass.core.errors import Unavailable
from batonpass.testing.commands import Baton

HEAD: Final = "---\nid: {id}\ntype: {type}\ntitle: T\nsummary: S\ndate: 2026-10-01\n{more}---\n\nText.\n"


def text(node: str, more: str = "") -> str:
    """Return the markdown of a node with these further lines."""
    kinds = {"task": "task", "dec": "decision", "question": "question", "art": "artifact"}
    return HEAD.format(id=node, type=kinds[node.partition("-")[0]], more=more)


def files(folder: Path, **texts: str) -> Path:
    """Write files called after the keywords, `_` for `-`, and return the folder."""
    folder.mkdir(exist_ok=True)
    for name, content in texts.items():
        (folder / f"{name.replace('_', '-')}.md").write_text(content)
    return folder


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    """Write a tar of members as they are."""
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))
    return path


def entry(name: str, content: str = "", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    """Return a member of a tar, with fields of its header."""
    info, raw = tarfile.TarInfo(name), content.encode()
    info.size = len(raw)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, raw


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return the contents of every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# --- export ----------------------------------------------------------------------------------------------------------


def test_an_export_is_a_file_a_node_and_again_changes_nothing(baton: Baton, tmp_path: Path) -> None:
    baton.task("a")
    out = tmp_path / "out"

    first = baton.json("export", str(out))
    before = snapshot(out)
    second = baton.json("export", str(out))

    assert (first["nodes"], first["written"], second["written"], second["unchanged"]) == (
        len(before) - 1, len(before) - 1, 0, len(before) - 1,
    )  # fmt: skip
    assert snapshot(out) == before
    assert before["nodes/task-a.md"].decode() == baton.json("show", "task-a")["raw"]


def test_the_list_beside_an_export_is_one_that_sha256sum_can_check(baton: Baton, tmp_path: Path) -> None:
    baton.task("a")
    baton.ok("export", str(tmp_path / "out"))

    lines = (tmp_path / "out" / "nodes.sha256").read_text().splitlines()

    assert [line.split("  ")[1] for line in lines] == sorted(
        f"nodes/{path.name}" for path in (tmp_path / "out" / "nodes").iterdir()
    )


def test_files_that_others_wrote_or_changed_are_left_alone_and_named(baton: Baton, tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        baton.task(name)
    out = tmp_path / "out"
    baton.ok("export", str(out))
    (out / "nodes" / "task-a.md").write_text("mine now")
    (out / "nodes" / "task-b.md").unlink()
    (out / "nodes" / "task-b.md").symlink_to(tmp_path / "elsewhere")
    (out / "nodes" / "README").write_text("hello")
    (out / "nodes" / "task-d.md").mkdir()
    baton.task("d")
    for name in ("a", "b", "c"):
        baton.ok("set", f"task-{name}", "--priority", "p1")

    ran = baton("export", str(out))

    assert ran.code == 1
    assert [line.partition(": ")[0] for line in ran.err.splitlines()] == [f"nodes/task-{name}.md" for name in "abd"]
    assert (out / "nodes" / "task-a.md").read_text() == "mine now"
    assert not (tmp_path / "elsewhere").exists()
    assert "priority: p1" in (out / "nodes" / "task-c.md").read_text()


def test_a_file_that_was_there_before_is_taken_over_if_it_is_the_node_and_else_left(
    baton: Baton, tmp_path: Path
) -> None:
    baton.task("a")
    baton.task("b")
    baton.ok("export", str(tmp_path / "one"))
    (tmp_path / "one" / "nodes.sha256").unlink()
    (tmp_path / "one" / "nodes" / "task-b.md").write_text("foreign")

    ran = baton("export", str(tmp_path / "one"), "--json")

    assert (ran.code, ran.json["left"], ran.json["written"]) == (1, ["nodes/task-b.md"], 0)


def test_files_of_nodes_that_are_gone_stay_until_they_are_pruned_and_then_only_unchanged_ones_go(
    baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        baton.task(name)
    out = tmp_path / "out"
    baton.ok("export", str(out))
    monkeypatch.setenv("BATON_HOME", str(tmp_path / "where b and c have never been"))
    baton.task("a")
    (out / "nodes" / "task-c.md").write_text("edited")

    kept = baton.json("export", str(out))
    pruned = baton("export", str(out), "--prune", "--json")

    assert (kept["gone"], kept["removed"]) == (["nodes/task-b.md", "nodes/task-c.md"], 0)
    assert (pruned.code, pruned.json["removed"], pruned.json["left"]) == (1, 1, ["nodes/task-c.md"])
    assert sorted(path.name for path in (out / "nodes").iterdir() if path.name.startswith("task-")) == [
        "task-a.md",
        "task-c.md",
    ]


@pytest.mark.parametrize("target", ["out", "out.tar"])
def test_what_is_gone_cannot_be_known_of_one_project_or_in_a_tar(baton: Baton, tmp_path: Path, target: str) -> None:
    project = ["--project", "demo"] if target == "out" else []

    assert baton("export", str(tmp_path / target), "--prune", *project).code == 2


@pytest.mark.parametrize("name", ["out.tar", "out.tar.gz", "out.tgz"])
def test_an_archive_replaces_an_export_and_nothing_else(baton: Baton, tmp_path: Path, name: str) -> None:
    baton.task("a")
    target = tmp_path / name
    baton.ok("export", str(target))
    first = target.read_bytes()
    baton.task("b")
    baton.ok("export", str(target))
    second = target.read_bytes()
    target.write_text("my only copy of something else")

    refused = baton("export", str(target))

    assert first != second
    assert refused.code == 1
    assert "is no export" in refused.err
    assert target.read_text() == "my only copy of something else"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_one_export_at_a_time_writes_into_a_folder(baton: Baton, tmp_path: Path) -> None:
    out = tmp_path / "out"
    baton.ok("export", str(out))
    with (out / "nodes.sha256").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        ran = baton("export", str(out))

    assert (ran.code, "another export is writing there" in ran.err) == (1, True)


# --- import ----------------------------------------------------------------------------------------------------------


def test_an_import_finds_an_order_in_which_everything_can_be_written(baton: Baton, tmp_path: Path) -> None:
    folder = files(
        tmp_path / "in",
        task_a=text("task-a", "status: done\n"),
        task_b=text("task-b", "edges:\n  - {type: blocked-by, to: task-c}\n  - {type: blocks, to: task-nowhere}\n"),
        task_c=text("task-c"),
        dec_z=text("dec-z", "edges:\n  - {type: resolves, to: task-a}\n"),
        question_q=text("question-q", "status: answered\nedges: [{type: answered-by, to: dec-z}]\n"),
    )

    first = baton.json("import", str(folder))
    second = baton.json("import", str(folder))

    assert first["counts"] == {"created": 5}
    assert second["counts"] == {"unchanged": 5}
    assert baton.json("show", "task-b")["frontmatter"]["edges"] == [{"type": "blocks", "to": "task-nowhere"}]
    assert baton.json("show", "dec-z")["frontmatter"]["edges"] == [
        {"type": "answers", "to": "question-q"},
        {"type": "resolves", "to": "task-a"},
    ]


def test_an_inverse_edge_onto_a_node_that_is_there_already_is_written_there_once(baton: Baton, tmp_path: Path) -> None:
    baton.task("c")
    folder = files(tmp_path / "in", task_b=text("task-b", "edges: [{type: blocked-by, to: task-c}]\n"))

    counts = [baton.json("import", str(folder))["counts"] for _ in range(2)]

    assert counts == [{"created": 1}, {"unchanged": 1}]
    assert baton.json("show", "task-c")["frontmatter"]["edges"] == [{"type": "blocks", "to": "task-b"}]


def test_a_refused_file_is_told_with_its_fields_and_stops_no_other(baton: Baton, tmp_path: Path) -> None:
    folder = files(
        tmp_path / "in",
        task_a=text("task-a", "priority: high\nwake: soon\n"),
        task_b=text("task-b", "status: done\n"),
        task_c=text("task-c"),
        task_d="---\nid: task-d\nid: task-e\n---\n",
        task_e=text("task-e", "edges: [{type: blocked-by, to: task-nowhere}]\n"),
    )

    ran = baton("import", str(folder))

    assert ran.code == 1
    assert ran.out == "1 created, 4 refused\n"
    told = [line.removeprefix(f"{folder}/") for line in ran.err.splitlines()]
    assert told[:3] == [
        'task-a.md: refused: priority: "high" is none of p1, p2, p3, clear, none, p0',
        'task-a.md: refused: wake: "soon" is not a day of the form YYYY-MM-DD',
        'task-d.md: refused: front matter, line 3: the key "id" stands twice',
    ] or sorted(told)
    assert any(line.startswith("task-b.md: refused: ") and "resolve" in line for line in told)
    assert "task-e.md: refused: edges: blocks belongs on task-nowhere, which does not exist" in told


def test_a_cycle_of_blockers_comes_in_with_a_warning(baton: Baton, tmp_path: Path) -> None:
    folder = files(
        tmp_path / "in",
        task_a=text("task-a", "edges: [{type: blocks, to: task-b}]\n"),
        task_b=text("task-b", "edges: [{type: blocks, to: task-a}]\n"),
    )

    ran = baton("import", str(folder))

    assert (ran.code, ran.out) == (0, "2 created\n")
    assert "a cycle of blockers" in ran.err


@pytest.mark.parametrize(
    "wish,counts,code,title",
    [
        ("error", {"refused": 1, "created": 1}, 1, "T"),
        ("skip", {"kept": 1, "created": 1}, 0, "T"),
        ("update", {"updated": 1, "created": 1}, 0, "New"),
    ],
)
def test_a_node_that_is_there_and_differs_is_dealt_with_as_wished(  # noqa: PLR0917 — a table
    baton: Baton, tmp_path: Path, wish: str, counts: dict[str, int], code: int, title: str
) -> None:
    folder = files(tmp_path / "in", dec_a=text("dec-a"))
    baton.ok("import", str(folder))
    files(
        folder,
        dec_a=text("dec-a", "edges: [{type: resolves, to: task-b}]\n").replace("title: T", "title: New"),
        task_b=text("task-b", "status: done\n" if wish == "update" else ""),
    )

    ran = baton("import", str(folder), "--if-exists", wish, "--json")

    assert (ran.json["counts"], ran.code) == (counts, code)
    assert baton.json("show", "dec-a")["frontmatter"]["title"] == title


def test_a_dry_run_says_what_is_new_and_what_differs_and_writes_nothing(baton: Baton, tmp_path: Path) -> None:
    folder = files(tmp_path / "in", task_a=text("task-a"), task_b=text("task-b"))
    baton.ok("import", str(folder))
    files(folder, task_b=text("task-b", "priority: p1\n"), task_c=text("task-c"), task_d="---\n")

    ran = baton("import", str(folder), "--dry-run", "--json")

    outcomes = {Path(told["file"]).name: told["outcome"] for told in ran.json["files"]}
    assert outcomes == {
        "task-a.md": "would be unchanged",
        "task-b.md": "differs",
        "task-c.md": "would be created",
        "task-d.md": "refused",
    }
    assert baton("show", "task-c").code == 4


def test_what_lies_beside_nodes_is_passed_over_and_links_are_not_followed(baton: Baton, tmp_path: Path) -> None:
    outside = files(tmp_path / "outside", task_x=text("task-x"))
    folder = files(tmp_path / "in", task_a=text("task-a"), README="# Nodes\n")
    (folder / "package.json").write_text('{"name": "x"}')
    (folder / ".git").mkdir()
    (folder / ".git" / "task-z.md").write_text(text("task-z"))
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "task-b.md").write_text(text("task-b"))
    (folder / "link.md").symlink_to(outside / "task-x.md")
    (folder / "away").symlink_to(outside)
    os.mkfifo(folder / "pipe.md")

    ran = baton("import", str(folder))

    assert (ran.code, ran.out) == (0, "2 created, 5 passed over\n")
    passed = {line.removeprefix(f"{folder}/").partition(": ")[0] for line in ran.err.splitlines()}
    assert passed == {"README.md", "package.json", "link.md", "away", "pipe.md"}


def test_a_link_that_is_named_is_meant(baton: Baton, tmp_path: Path) -> None:
    files(tmp_path / "outside", task_x=text("task-x"))
    (tmp_path / "link.md").symlink_to(tmp_path / "outside" / "task-x.md")

    assert "1 created" in baton.ok("import", str(tmp_path / "link.md")).out


def test_a_tar_that_reaches_beyond_itself_is_refused_member_by_member(baton: Baton, tmp_path: Path) -> None:
    archive = tar_of(
        tmp_path / "in.tar.gz",
        entry("nodes/task-a.md", text("task-a")),
        entry("../task-b.md", text("task-b")),
        entry("/etc/task-c.md", text("task-c")),
        entry("nodes/../../task-d.md", text("task-d")),
        entry("nodes/task-e.md", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        entry("nodes/task-f.md", type=tarfile.LNKTYPE, linkname="nodes/task-a.md"),
        entry("nodes/task-g.md", type=tarfile.CHRTYPE, devmajor=1, devminor=5),
        entry("nodes/task-h.md", text("task-h") + "x" * 1_000_000),
        entry("nodes", type=tarfile.DIRTYPE),
        entry("nodes/notes.txt", "hello"),
        entry("nodes/task-i.md", text("task-i")),
    )

    ran = baton("import", str(archive))

    assert (ran.code, ran.out) == (1, "2 created, 1 passed over, 7 refused\n")
    refused = [line.partition(": refused")[0][-9:] for line in ran.err.splitlines() if ": refused: " in line]
    assert refused == [f"task-{letter}.md" for letter in "bcdefgh"]


def test_a_header_that_announces_terabytes_is_not_believed(baton: Baton, tmp_path: Path) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 42
    (tmp_path / "in.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(10240))

    ran = baton("import", str(tmp_path / "in.tar"))

    assert (ran.code, ran.out) == (1, "1 refused\n")
    assert "a header announces" in ran.err


@pytest.mark.parametrize("name", ["in.tar", "in.tar.gz"])
def test_a_tar_that_was_cut_short_is_said_to_be(baton: Baton, tmp_path: Path, name: str) -> None:
    baton.task("a")
    baton.ok("export", str(tmp_path / name))
    raw = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(raw[: len(raw) // 2])

    ran = baton("import", str(tmp_path / name))

    assert ran.code == 1
    assert "cut short" in ran.err or "no whole tar" in ran.err


def test_what_is_no_text_or_too_large_or_twice_there_is_refused_by_its_file(baton: Baton, tmp_path: Path) -> None:
    folder = files(tmp_path / "in", task_a=text("task-a"), task_other=text("task-a", "priority: p1\n"))
    files(folder, task_z=text("task-a"))
    (folder / "task-b.md").write_bytes(text("task-b").encode("utf-16"))
    (folder / "task-c.md").write_bytes(text("task-c").encode() + b"\xff")
    (folder / "task-d.md").write_text(text("task-d") + "x" * 1_000_000)

    ran = baton("import", str(folder))

    assert (ran.code, ran.out) == (1, "1 created, 1 passed over, 4 refused\n")
    told = {line.removeprefix(f"{folder}/") for line in ran.err.splitlines()}
    assert "task-b.md: refused: is UTF-16; save it as UTF-8" in told
    assert any(line.startswith("task-c.md: refused: not UTF-8, from byte ") for line in told)
    assert any(line.startswith("task-d.md: refused: over 1000000 bytes") for line in told)
    assert f"task-other.md: refused: task-a is in {folder}/task-a.md too, and not the same" in told


def test_nothing_to_import_is_a_matter_of_usage_and_a_path_that_is_not_there_a_failure(
    baton: Baton, tmp_path: Path
) -> None:
    assert baton("import").code == 2
    assert baton("import", str(tmp_path / "nowhere")).code == 1


@pytest.mark.parametrize("as_json", [True, False])
def test_an_import_that_breaks_off_says_what_stands_and_that_it_goes_on_from_there(
    baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, as_json: bool
) -> None:
    def broken(*_: object) -> Iterator[Told]:
        yield Told("task-a.md", "created", "task-a")
        raise Unavailable("no route")

    monkeypatch.setattr(command, "imported", broken)

    ran = baton("import", str(tmp_path), *(["--json"] if as_json else []))

    assert ran.code == 5
    assert "no route\nwhat is counted above stands" in ran.err
    if as_json:
        assert (ran.json["counts"], ran.json["error"]["code"]) == ({"created": 1}, "unavailable")
    else:
        assert ran.out == "1 created\n"


def test_what_is_named_and_is_neither_file_nor_folder_is_a_failure(baton: Baton, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    ran = baton("import", str(tmp_path / "pipe"))

    assert (ran.code, "is neither a file nor a folder" in ran.err) == (1, True)


def test_nodes_as_json_come_in_as_the_same_nodes(baton: Baton, tmp_path: Path) -> None:
    baton.task("a", "--body", "Text: yes\n---\n", "--priority", "p1")
    shown = baton.json("show", "task-a")
    changed = {**shown["frontmatter"], "body": shown["body"], "id": "task-b"}
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "task-b.json").write_text(json.dumps(changed))
    (folder / "task-c.json").write_text('{"id": "task-c", "type": ')

    ran = baton("import", str(folder), "--json")

    assert ran.json["counts"] == {"created": 1, "refused": 1}
    assert baton.json("show", "task-b")["body"] == shown["body"]


# --- there and back --------------------------------------------------------------------------------------------------


def test_an_authored_export_into_an_empty_database_comes_out_the_same_to_the_byte(
    baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = files(
        tmp_path / "in",
        task_a=text("task-a", "status: done\ntags: [yes, '1.0', \"~\"]\n"),
        dec_b=text("dec-b", "edges:\n  - {type: resolves, to: task-a}\n  - {type: blocks, to: task-nowhere}\n"),
        dec_c=text("dec-c", "status: settled\nedges: [{type: supersedes, to: dec-b}]\n"),
    )
    baton.ok("import", str(folder))
    baton.ok("export", str(tmp_path / "one.tar"), "--authored")
    monkeypatch.setenv("BATON_HOME", str(tmp_path / "other"))

    ran = baton("import", str(tmp_path / "one.tar"))
    baton.ok("export", str(tmp_path / "two.tar"), "--authored")

    assert ran.code == 0, ran
    assert _contents(tmp_path / "two.tar") == _contents(tmp_path / "one.tar")


def test_an_admins_import_of_a_whole_export_comes_out_the_same_with_authors_and_times(
    baton: Baton, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(tmp_path / "in", dec_b=text("dec-b", "edges: [{type: resolves, to: task-a}]\n"), task_a=text("task-a"))
    baton.ok("import", str(tmp_path / "in"))
    baton.ok("set", "task-a", "--status", "done")
    baton.ok("set", "task-a", "--priority", "p2")
    baton.ok("unlink", "dec-b", "resolves", "task-a")
    baton.ok("export", str(tmp_path / "one.tar"))
    monkeypatch.setenv("BATON_HOME", str(tmp_path / "other"))
    baton.ok("whoami")

    refused = baton("import", str(tmp_path / "one.tar"))
    kept = baton("import", str(tmp_path / "one.tar"), "--keep-attribution", "--if-exists", "update")
    again = baton("import", str(tmp_path / "one.tar"), "--keep-attribution")
    baton.ok("export", str(tmp_path / "two.tar"))

    assert refused.code == 1
    assert kept.code == 0, kept
    assert set(again.out.strip().split(", ")) == {f"{len(_contents(tmp_path / 'one.tar'))} unchanged"}
    assert (tmp_path / "two.tar").read_bytes() == (tmp_path / "one.tar").read_bytes()


def _contents(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        found = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in found.items() if file is not None}
