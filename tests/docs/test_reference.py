"""The reference pages, against the code: commands, exit codes, settings, errors; and every command line a page shows.

`docs/reference/cli.md` is made, not written: ``BATON_WRITE_DOCS=1 just docs`` makes it anew.
"""

from __future__ import annotations

import ast
import inspect
import os
import re
import shlex
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Final

import pytest
from cyclopts import App
from cyclopts.argument import Argument

from batonpass.cli.commands import GROUPS, Command, application
from batonpass.cli.exits import Exit, exit_of
from batonpass.wire.errors import HTTP_STATUS, RECORD_ERRORS

ROOT: Final = Path(__file__).parents[2]
REFERENCE: Final = ROOT / "docs" / "reference"
COMMANDS: Final = [command for group in GROUPS.values() for command in group]
PAGES: Final = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE: Final = re.compile(r"^```(?:sh|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
QUOTED: Final = re.compile(r"`([^`]+)`")
MEANINGS, OF_RECORDS, SHOWN, RESERVED = 5, 4, 2, 3
"""How many columns errors.md has where it says what codes mean, what they are below `/v1/records`, where they are
shown, and which are none of ours."""
VARIABLE: Final = re.compile(r"\bBATON_[A-Z]+(?:_[A-Z]+)*\b")

PREFACE: Final = """# Commands

Made from the commands themselves: `baton COMMAND --help` says the same. For people they print lines and tables. With
`--json` they print the server's answer as the one JSON document it came as, on one line, and nothing else on standard
output; what is to be known beside the data, warnings for instance, is on standard error.

## Exit codes

| code | means |
|---|---|
"""


# --- docs/reference/cli.md -------------------------------------------------------------------------------------------


def cli_page() -> str:
    """Return the reference of all commands."""
    parts = [PREFACE, *(f"| {code.value} | {code.meaning} |\n" for code in Exit)]
    for title, commands in GROUPS.items():
        parts.append(f"\n## {title}\n")
        for command in commands:
            parts += _command(application(command.name)[command.name], f"baton {command.name}")
    return "".join(parts)


def _command(app: App, name: str) -> Iterator[str]:
    subs = [sub for sub in app if not sub.startswith("-")]
    if app.default_command is None:
        yield f"\n### {name}\n\n{app.help}\n"
    else:
        yield from _usage(app, name)
    for sub in subs:
        yield from _command(app[sub], f"{name} {sub}")


def _usage(app: App, name: str) -> Iterator[str]:
    arguments = [each for each in app.assemble_argument_collection(parse_docstring=True) if each.show]
    positional = [each for each in arguments if not each.names[0].startswith("-")]
    usage = " ".join([name, *map(_placeholder, positional), "[options]" if len(arguments) > len(positional) else ""])
    yield f"\n### {name}\n\n```text\n{usage.strip()}\n```\n\n{_prose(app)}\n"
    if arguments:
        yield "\n| argument | what |\n|---|---|\n"
        yield from map(_row, arguments)


def _prose(app: App) -> str:
    """Return a command's docstring without the part about its arguments."""
    assert app.default_command is not None
    text = inspect.getdoc(app.default_command) or ""
    return text.split("\nArgs:\n")[0].strip()


def _placeholder(argument: Argument) -> str:
    many = argument.field_info.kind is inspect.Parameter.VAR_POSITIONAL
    name = f"{argument.names[0]}…" if many else argument.names[0]
    return name if argument.required else f"[{name}]"


def _row(argument: Argument) -> str:
    words = " ".join((argument.parameter.help or "").split()).replace("|", "\\|")
    choices = argument.get_choices()
    default = argument.field_info.default
    notes = [
        f"one of {', '.join(choices)}" if choices else None,
        f"{', '.join(argument.parameter.env_var)} in the environment" if argument.parameter.env_var else None,
        None if _is_plain(default) else f"{default.value if isinstance(default, Enum) else default} by default",
    ]
    said = "; ".join([words.rstrip("."), *filter(None, notes)])
    value = "" if argument.hint is bool or not argument.names[0].startswith("-") else " …"
    return f"| `{argument.names[0]}{value}` | {said} |\n"


def _is_plain(default: object) -> bool:
    """Whether a default goes without saying."""
    return default is None or default is False or default is inspect.Parameter.empty


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    page, expected = REFERENCE / "cli.md", cli_page()
    if os.environ.get("BATON_WRITE_DOCS"):
        page.write_text(expected)

    assert page.read_text() == expected, "run: BATON_WRITE_DOCS=1 just docs"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda each: each.name)
def test_the_line_in_the_list_of_commands_is_the_commands_own_first_line(command: Command) -> None:
    app = application(command.name)[command.name]

    is_group = any(not sub.startswith("-") for sub in app)
    first = app.help if is_group else _prose(app).split("\n\n")[0]

    assert first is not None
    assert " ".join(first.split()) == command.words


# --- the other pages -------------------------------------------------------------------------------------------------


def rows(page: str) -> list[list[str]]:
    """Return the cells of all tables of a reference page, without their heads."""
    lines = (REFERENCE / page).read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    heads = {"variable", "code", "key", "file"}
    return [row for row in cells if row[0] not in heads]


def test_every_variable_of_the_environment_is_documented_and_every_documented_one_is_used() -> None:
    sources = (ROOT / "src" / "batonpass").rglob("*.py")
    used = {name for path in sources for name in VARIABLE.findall(path.read_text()) if not name.endswith("_")}

    documented = {name for row in rows("configuration.md") for name in VARIABLE.findall(row[0])}

    assert documented == used


def test_every_error_code_is_documented_with_its_status_and_exit_code() -> None:
    expected = {kind.code: (str(status), str(exit_of(kind("x")).value)) for kind, status in HTTP_STATUS.items()}

    documented = {row[0].strip("`"): (row[1], row[2]) for row in rows("errors.md") if len(row) == MEANINGS}

    assert documented == expected


def test_every_code_below_records_is_documented_with_its_status_and_exit_code() -> None:
    expected = {code: (str(status), str(exit_of(kind("x")).value)) for kind, (code, status) in RECORD_ERRORS.items()}

    documented = {
        row[0].strip("`"): (row[1], row[2]) for row in rows("errors.md") if len(row) == OF_RECORDS and row[0] != "here"
    }

    assert documented == expected


PROTOCOL: Final = frozenset(
    """
    unauthorized forbidden not_found conflict transition_denied lease_expired lease_lost already_claimed
    outcome_conflict not_ready execution_boundary fence_stale not_owned already_owned too_large invalid_node no_person
    rate_limited internal unimplemented membership_requery_failed ingestion_unavailable
    """.split()
)
"""Every code of the published protocol."""


def test_every_error_code_names_the_tests_that_get_it_and_each_of_them_is_there() -> None:
    shown = {row[0].strip("`"): QUOTED.findall(row[1]) for row in rows("errors.md") if len(row) == SHOWN}

    assert set(shown) == {kind.code for kind in HTTP_STATUS}
    assert [code for code, tests in shown.items() if not tests] == []
    assert [test for tests in shown.values() for test in tests if not is_a_test(test)] == []


def is_a_test(name: str) -> bool:
    path, _, function = name.partition("::")
    found = ast.walk(ast.parse((ROOT / path).read_text()))
    return function in {each.name for each in found if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_code_of_the_protocol_is_answered_or_has_a_reason_why_not() -> None:
    answered = {kind.code for kind in HTTP_STATUS}
    reserved = {code for row in rows("errors.md") if len(row) == RESERVED for code in QUOTED.findall(row[0])}

    assert PROTOCOL - answered == reserved
    assert answered & reserved == set()


def shown() -> list[tuple[str, list[str]]]:
    """Return every command line of ours that a page shows, with the page's name."""
    found = []
    for page in PAGES:
        for block in FENCE.findall(page.read_text()):
            for command in _typed(re.sub(r"\$\([^)]*\)", "x", block.replace("\\\n", " "))):
                words = shlex.split(command, comments=True)
                while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
                    del words[0]
                if words[:1] == ["baton"]:
                    end = next((at for at, word in enumerate(words) if word in {"|", ">", "<", "&&", "&", ";"}), None)
                    found.append((page.name, words[1:end]))
    return found


def _typed(block: str) -> list[str]:
    """Return what is typed in a block: in a console what stands behind the prompt, with its further lines."""
    prompted = re.findall(r"^\$ (.*(?:\n> .*)*)", block, re.MULTILINE)
    return [command.replace("\n> ", "\n") for command in prompted] or block.splitlines()


@pytest.mark.parametrize("page, argv", shown(), ids=lambda value: " ".join(value) if isinstance(value, list) else value)
def test_every_command_line_a_page_shows_can_be_typed(page: str, argv: list[str]) -> None:
    del page
    application().parse_args(argv, exit_on_error=False, print_error=False)
