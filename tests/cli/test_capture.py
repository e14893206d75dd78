from __future__ import annotations

import io
import sys

import pytest

from batonpass.testing.commands import Baton


def test_a_capture_is_kept_and_sorted(baton: Baton) -> None:
    task = baton.task("a")

    kept = baton.ok("capture", "The build is slow.", "--during", task, "--blocks", task)
    baton.ok("set", "cap-the-build-is-slow", "--status", "merged")

    assert kept.out == "cap-the-build-is-slow is kept\n"
    shown = baton.json("show", "cap-the-build-is-slow")["frontmatter"]
    assert (shown["status"], shown["project"], len(shown["edges"])) == ("merged", "demo", 2)


def test_a_long_text_from_standard_input_is_kept_whole(baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"word " * 4000)))

    kept = baton.ok("capture", "-", "--title", "Words")

    assert kept.out == "cap-words is kept, with the rest of it in 2 more\n"
    ids = ["cap-words", "art-cap-words-part-2", "art-cap-words-part-3"]
    assert "".join(baton.json("show", node)["body"] for node in ids) == "word " * 4000
