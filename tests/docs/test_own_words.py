"""The project speaks of itself only: no path of the machine it was written on, no name of a place it came from."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
# Written with character classes, so that this file does not find itself.
FOREIGN: Final = re.compile(
    r"(?<![\w.~*/-])/(?:[w]ork|[r]oot|[h]ome|[U]sers|[w]orkspace)/[\w.]"  # somebody's folders
    r"|\b[s]hared/(?:spec|design|cases|samples)\b"  # somebody's notes
    r"|\b[o]pt/(?:pypi|wheels)\b|\b[d]evpi\b|\b[a]rtifactory\b"  # somebody's package index
    r"|/tmp/[b]ash_jobs"  # somebody's shell
)


def test_no_file_names_the_machine_or_the_place_it_was_written_in() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = []
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        text = path.read_text(errors="replace") if path.exists() else ""
        found += [(name, line) for line in text.splitlines() if FOREIGN.search(line)]

    assert found == []


def test_a_foreign_path_would_be_found() -> None:
    assert FOREIGN.search("see /" + "work/notes.txt")
    assert FOREIGN.search("in ../sha" + "red/spec/leases.md")
    assert not FOREIGN.search("src/batonpass/wor" + "k/loop.py and /var/lib/batonpass")
