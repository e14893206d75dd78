"""`baton supervise`: a process for each run, so what it loads is paid for with each run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from batonpass.cli.exits import Exit
from batonpass.core.outcome import Terminal
from batonpass.testing.commands import BATON, Baton
from batonpass.testing.processes import wait_gone
from batonpass.testing.repos import make_repo, person_environment
from batonpass.worker.journal import Journal

END_S_MAX: Final = 40.0

LOADED: Final = """
import sys
before = set(sys.modules)  # whoever measures coverage has loaded some
from batonpass.cli.main import _start_fast
_start_fast()
import batonpass.cli.supervise
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
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


def test_who_starts_one_by_hand_is_told_who_does() -> None:
    done = subprocess.run(
        [BATON, "supervise"], check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )

    assert done.returncode == Exit.USAGE
    assert done.stderr.startswith("baton: ")
    assert "baton work" in done.stderr


def test_without_a_server_a_run_outlives_its_worker_and_its_child_still_reaches_the_graph(
    baton: Baton, tmp_path: Path
) -> None:
    """Started with an open pipe for standard input, which nobody writes to or closes, as other programs start us."""
    repo = make_repo(tmp_path / "repository", person_environment(Path(os.environ["HOME"])))
    baton.task("a", "--ready")
    ready, go = tmp_path / "ready", tmp_path / "go"
    os.mkfifo(ready)
    os.mkfifo(go)
    resolve = "baton add Done --id art-done --type artifact --link resolves:task-a"
    script = f"cat > /dev/null; echo > {ready}; read _ < {go}; {resolve}"
    argv = [str(BATON), "work", "--once", "--project", "demo", "--", "sh", "-c", script]

    with subprocess.Popen(argv, cwd=repo.folder, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as worker:
        ready.read_text()
        worker.kill()
    (run,) = Journal(baton.home).runs()
    runner = run.read().runner
    assert runner is not None
    assert run.is_held()
    go.write_text("\n")
    wait_gone(runner.pid, seconds_max=END_S_MAX)

    record = run.read()
    assert (record.terminal_state, record.resolved_by) == (Terminal.RESOLVED, "art-done")
    assert record.is_settled
    assert baton.json("queue")["items"] == []
