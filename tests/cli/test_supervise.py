"""`baton supervise`: a process for each run, so what it loads is paid for with each run."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

LOADED: Final = """
import sys
from batonpass.cli.main import _start_fast
_start_fast()
import batonpass.cli.supervise
print(*sorted({name.partition(".")[0] for name in sys.modules}))
"""
NOT_YET: Final = {
    "cyclopts",
    "rich",
    "click",
    "pygments",
    "psutil",
    "yaml",
    "sqlite3",
    "psycopg",
    "starlette",
    "uvicorn",
}
"""Of the command line and the server it needs nothing, of the others nothing before its child is at work."""


def test_a_supervisor_starts_without_what_it_has_no_use_for() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], check=True, capture_output=True, text=True, timeout=60)

    loaded = set(done.stdout.split())
    assert "batonpass" in loaded
    assert loaded & NOT_YET == set()
