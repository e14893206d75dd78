"""A file appears under its name whole or not at all, and never over what somebody else put there."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from batonpass.core.errors import Conflict, Unavailable
from batonpass.store.scratch import scratch


def refusing_links(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Make the file system one that answers a link with this error."""

    def refuse(self: Path, target: Path) -> None:
        raise OSError(code, os.strerror(code), str(self), None, str(target))

    monkeypatch.setattr(Path, "hardlink_to", refuse)


def write(target: Path, text: str, *, overwrite: bool = False) -> None:
    with scratch(target) as file:
        file.path.write_text(text)
        file.place(overwrite=overwrite)


def test_what_is_not_placed_is_gone_with_all_that_was_beside_it(tmp_path: Path) -> None:
    with scratch(tmp_path / "copy") as file:
        file.path.write_text("half")
        file.path.with_name(f"{file.path.name}-journal").write_text("of a database")

    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_emptied_and_used_again(tmp_path: Path) -> None:
    (tmp_path / ".copy.partial").write_text("left over, and longer")
    (tmp_path / ".copy.partial-wal").write_text("left over")

    write(tmp_path / "copy", "new")

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"copy": "new"}


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_links_takes_a_backup_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    refusing_links(monkeypatch, code)

    write(tmp_path / "copy", "first")
    with pytest.raises(Conflict, match="is there already"):
        write(tmp_path / "copy", "second")

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"copy": "first"}


def test_another_error_of_the_file_system_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing_links(monkeypatch, errno.EIO)

    with pytest.raises(Unavailable, match="Input/output error"):
        write(tmp_path / "copy", "text")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_came_at_the_last_moment_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Path.hardlink_to

    def link_late(self: Path, target: Path) -> None:
        self.write_text("somebody's")
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", link_late)

    with pytest.raises(Conflict, match="is there already"):
        write(tmp_path / "copy", "ours")

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"copy": "somebody's"}


def test_a_link_that_leads_nowhere_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "copy").symlink_to(tmp_path / "nowhere")

    with pytest.raises(Conflict):
        write(tmp_path / "copy", "ours")

    assert not (tmp_path / "nowhere").exists()


def test_a_name_that_leads_elsewhere_is_not_written_through(tmp_path: Path) -> None:
    """Who can make files in the folder could else have us empty any file of ours."""
    (tmp_path / "precious").write_text("precious")
    (tmp_path / ".copy.partial").symlink_to(tmp_path / "precious")

    with pytest.raises(Unavailable):
        write(tmp_path / "copy", "ours")

    assert (tmp_path / "precious").read_text() == "precious"


def test_who_opened_a_file_that_its_maker_has_placed_since_does_not_empty_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the opening and the lock the first may place its file; the second then holds the finished one."""
    opened = os.open
    turns: list[str] = []

    def open_then_lose_the_race(path: Path, flags: int, mode: int = 0o777) -> int:
        descriptor = opened(path, flags, mode)
        if not turns and str(path).endswith(".copy.partial"):
            turns.append("lost")
            (tmp_path / ".copy.partial").rename(tmp_path / "copy")
            (tmp_path / "copy").write_text("finished")
        return descriptor

    monkeypatch.setattr(os, "open", open_then_lose_the_race)

    with pytest.raises(Conflict, match="has just written"):
        write(tmp_path / "copy", "ours")

    assert (tmp_path / "copy").read_text() == "finished"
