from __future__ import annotations

import errno
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from batonpass import __version__
from batonpass.cli import commands, status
from batonpass.cli.exits import Exit
from batonpass.testing.commands import BATON, Baton

WAIT_S_MAX = 30
Spawn = Callable[..., subprocess.CompletedProcess[str]]


def test_the_version_is_told_before_anything_heavy_is_imported() -> None:
    code = (
        "import sys; from batonpass.cli.main import main; assert main(['--version']) == 0;"
        "heavy = {'httpx', 'cyclopts', 'msgspec', 'anyio', 'starlette'} & set(sys.modules); assert not heavy, heavy"
    )

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout == f"{__version__}\n"


@pytest.mark.usefixtures("home")
def test_a_command_does_not_import_what_it_does_not_use() -> None:
    """D37: the drawing of tables for terminals, web serving and httpx's own command line cost a third of a start."""
    code = (
        "import sys; from batonpass.cli.main import main; sys.argv[1:] = ['queue']; main();"
        "unused = {'rich', 'click', 'pygments', 'uvicorn', 'uvloop'} & set(sys.modules); assert not unused, unused"
    )

    subprocess.run([sys.executable, "-c", code], check=True, timeout=WAIT_S_MAX)


def test_help_lists_every_command_and_every_exit_code(baton: Baton) -> None:
    printed = baton.ok("--help").out

    words = printed.split()
    for group in commands.GROUPS.values():
        for command in group:
            assert command.name in words
    flat = " ".join(words)
    for code in Exit:
        assert f"{code.value} {code.meaning}" in flat


@pytest.mark.parametrize(
    "command", [each for group in commands.GROUPS.values() for each in group], ids=lambda each: each.name
)
def test_every_command_has_help(command: commands.Command, baton: Baton) -> None:
    printed = baton.ok(command.name, "--help").out

    assert printed.startswith(f"Usage: baton {command.name} ")
    assert command.words.split(".")[0].split(":")[0] in " ".join(printed.split())


@pytest.mark.parametrize(
    "argv, words",
    [
        (["nonsense"], "there is no command 'nonsense'; baton --help lists them"),
        (["clam", "task-1"], "there is no command 'clam'; baton claim?"),
        (["agent", "nonsense"], "there is no command 'nonsense'"),
        (["queue", "--nonsense"], "Unknown option: --nonsense"),
        (["queue", "--limit", "many"], "many"),
        (["claim"], "name at least one node"),
        (["claim", "No Id"], "is not an id"),
        (["extend", "task-1", "soon"], "is not a duration"),
        (["release"], "name a node, or say --all"),
        (["set", "task-1"], "--status or --priority"),
        (["status", "--server", "nowhere"], "is no server's address"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_ends_with_2_before_anything_is_tried(argv: list[str], words: str, baton: Baton) -> None:
    ran = baton(*argv)

    assert ran.code == 2
    assert words in ran.err
    assert ran.out == ""
    assert not (baton.home / "baton.db").exists()


def test_a_malformed_configuration_ends_with_2_and_names_the_file(baton: Baton) -> None:
    baton.home.mkdir()
    (baton.home / "config.json").write_text("{")

    ran = baton("status")

    assert ran.code == 2
    assert f"{baton.home}/config.json: not a JSON object we can read" in ran.err


def test_an_error_for_programs_is_the_envelope_on_output_and_a_sentence_on_error(baton: Baton) -> None:
    ran = baton("show", "task-9", "--json")

    assert (ran.code, ran.json) == (4, {"error": {"code": "not_found", "message": "there is no node task-9"}})
    assert ran.err.startswith("baton: there is no node task-9\n")


def test_a_usage_error_for_programs_is_the_envelope_too(baton: Baton) -> None:
    ran = baton("claim", "--json")

    assert (ran.code, ran.json["error"]["code"]) == (2, "usage")


def test_interrupting_ends_with_130(baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(status, "ask", interrupted)

    assert baton("status").code == 130


@pytest.mark.parametrize(
    "error, words",
    [
        (OSError(errno.ENOSPC, "No space left on device", "/srv/baton.db"), "/srv/baton.db: No space left on device"),
        (OSError(errno.EMFILE, "Too many open files"), "Too many open files"),
        (TimeoutError("timed out"), "timed out"),
    ],
    ids=repr,
)
def test_what_this_machine_refuses_is_said_with_the_path(
    baton: Baton, monkeypatch: pytest.MonkeyPatch, error: OSError, words: str
) -> None:
    def refused(*_: object) -> None:
        raise error

    monkeypatch.setattr(status, "ask", refused)

    ran = baton("status")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"baton: {words}\n")
    assert baton("status", "--json").json["error"] == {"code": "work_failed", "message": words}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_a_failure(baton: Baton) -> None:
    baton.task("a")

    with Path("/dev/full").open("w") as full:
        ran = subprocess.run([BATON, "queue"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (1, "baton: No space left on device\n")


def test_an_interrupt_of_a_process_leaves_no_traceback(home: Path, tmp_path: Path) -> None:
    """The signal comes while the command waits for its standard input."""
    del home
    fifo = tmp_path / "input"
    os.mkfifo(fifo)
    process = subprocess.Popen([BATON, "add", "--file", str(fifo)], stderr=subprocess.PIPE, text=True)
    with fifo.open("w"):  # opens when the command has opened its end, and so is reading
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=WAIT_S_MAX)

    assert process.returncode == 130
    assert "Traceback" not in err


# --- case 168 --------------------------------------------------------------------------------------------------------


def test_json_has_no_colour_whatever_the_environment_asks_for(baton: Baton, spawn: Spawn) -> None:
    baton.task("a")

    printed = spawn("queue", "--json", FORCE_COLOR="1", CLICOLOR_FORCE="1", TERM="xterm-256color").stdout

    assert "\x1b" not in printed
    assert printed.count("\n") == 1


def on_a_terminal(*argv: str, **environ: str) -> str:
    """Return what a command prints on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([BATON, *argv], stdout=theirs, stderr=theirs, env={**os.environ, **environ}) as process:
        os.close(theirs)
        printed = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Linux says so when the last writer has gone
                break
            printed += chunk
        process.wait(WAIT_S_MAX)
    os.close(ours)
    return printed.decode()


def test_json_on_a_terminal_is_spread_out_and_still_one_document(baton: Baton) -> None:
    baton.task("a")

    printed = on_a_terminal("show", "task-a", "--json", FORCE_COLOR="1", TERM="xterm-256color")

    assert "\x1b" not in printed
    assert printed.startswith('{\r\n  "id": "task-a",')


def test_a_table_on_a_terminal_is_drawn_for_it_and_elsewhere_is_plain(baton: Baton, spawn: Spawn) -> None:
    baton.task("a")

    drawn = on_a_terminal("queue", TERM="xterm-256color", COLUMNS="100")
    plain = spawn("queue", FORCE_COLOR="1", CLICOLOR_FORCE="1").stdout

    assert "\x1b[1m" in drawn
    assert "task-a" in drawn
    assert "\x1b" not in plain
    assert plain.splitlines()[1].split()[0] == "task-a"


def test_json_is_ascii_where_the_locale_is_not_utf8(baton: Baton, spawn: Spawn) -> None:
    baton.task("a", "--summary", "caf\u00e9 \U0001f680")

    plain = spawn("show", "task-a", "--json", LANG="C")
    rich = spawn("show", "task-a", "--json", LANG="C.UTF-8")

    assert plain.stdout.isascii()
    assert "caf\\u00e9 \\ud83d\\ude80" in plain.stdout
    assert "caf\u00e9 \U0001f680" in rich.stdout


def test_a_table_in_a_locale_without_the_letters_shows_them_as_escapes(baton: Baton, spawn: Spawn) -> None:
    baton.task("a")
    baton.ok("add", "caf\u00e9 \U0001f680", "--id", "task-b")

    printed = spawn("list", "--type", "task", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="POSIX")

    assert printed.returncode == 0
    assert "caf\\xe9 \\U0001f680" in printed.stdout


@pytest.mark.parametrize("argv", [["queue"], ["queue", "--json"], ["--help"]], ids=" ".join)
def test_a_reader_that_leaves_early_is_no_error(argv: list[str], baton: Baton) -> None:
    baton.task("a")
    reader, writer = os.pipe()
    os.close(reader)

    with subprocess.Popen([BATON, *argv], stdout=writer, stderr=subprocess.PIPE, text=True) as process:
        os.close(writer)
        _, err = process.communicate(timeout=WAIT_S_MAX)

    assert (process.returncode, err) == (0, "")


def test_arguments_are_utf_8_in_a_locale_that_knows_no_such_bytes(baton: Baton, spawn: Spawn) -> None:
    """Case 168: without UTF-8 mode LANG=C hands them over as they came, and they are text all the same."""
    added = spawn("add", "na\xefve \U0001f389", "--id", "task-a", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")

    assert (added.returncode, added.stderr) == (0, "")
    assert 'title: "na\xefve \U0001f389"' in baton.ok("show", "task-a").out
