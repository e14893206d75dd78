"""`baton`: from an argument list to an exit code. The only place where errors end as words (D43)."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from batonpass import __version__

if TYPE_CHECKING:
    from rich.console import Console

    from batonpass.core.errors import BatonError

GOES_ON: Final = frozenset({"work", "serve", "sidecar"})
"""Commands that do more than print: that their reader has gone is no reason to end well."""
COLLECT_AFTER: Final = (50_000, 20, 20)
"""Garbage is looked for less often than by default. What a request makes is freed by counting; a full search is a pause
of some ten milliseconds in the slowest answers of a server, and a tenth of the start of a command."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; `argv` is without the program's name."""
    args = list(sys.argv[1:] if argv is None else argv)
    if args in (["--version"], ["-V"]):  # before anything is imported: the promise is 0.15 s (D37)
        sys.stdout.write(f"{__version__}\n")
        return 0
    if argv is None and args == ["supervise"]:
        return _supervise()
    if argv is None:
        _start_fast()
        _replace_closed_streams()
    try:
        code = _run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError as error:
        if args and args[0] in GOES_ON:
            return _fail_here(error, args)
        _leave_quietly()
        return 0
    except OSError as error:
        return _fail_here(error, args)
    return code


def _supervise() -> int:
    """Be the supervisor of a run: no command of a person's, so nothing of the command line is loaded for it."""
    _start_fast()
    from batonpass.cli.supervise import supervise

    return supervise()


def _run(args: list[str]) -> int:
    from cyclopts import CycloptsError, UnknownCommandError

    from batonpass.cli.commands import application
    from batonpass.cli.exits import Exit, UsageError, WorkFailed, exit_of
    from batonpass.client.config import ConfigError
    from batonpass.core.errors import BatonError
    from batonpass.worker.errors import WorkerError

    failure: BatonError
    try:
        args = [_as_text(arg) for arg in args]
        code = application(args[0] if args else None)(
            args, console=_help_console(args), exit_on_error=False, print_error=False
        )
    except UnknownCommandError as error:
        failure = UsageError(_unknown(error.unused_tokens or args))
    except (CycloptsError, ConfigError) as error:
        failure = UsageError(str(error))
    except WorkerError as error:
        failure = WorkFailed(error.message)
    except BatonError as error:
        failure = error
    else:
        return code if isinstance(code, int) else Exit.OK
    _complain(failure, args)
    return exit_of(failure)


def _fail_here(error: OSError, args: list[str]) -> int:
    """Say what this machine refused, and of which file; standard output itself may be what is full."""
    from batonpass.cli.exits import WorkFailed, exit_of

    words = error.strerror or str(error) or type(error).__name__
    failure = WorkFailed(words if error.filename is None else f"{error.filename}: {words}")
    try:
        _complain(failure, args)
        sys.stdout.flush()
    except OSError:
        _leave_quietly()
    return exit_of(failure)


def _as_text(arg: str) -> str:
    """Return an argument as the UTF-8 it is, whatever the locale made of it; refuse bytes that are none."""
    import os

    from batonpass.cli.exits import UsageError

    try:
        arg.encode()
    except UnicodeEncodeError:  # a locale without these bytes leaves them as they came: LANG=C, without UTF-8 mode
        try:
            return os.fsencode(arg).decode()
        except UnicodeError as error:
            raise UsageError(f"{arg!a} is no text: arguments are UTF-8") from error
    return arg


def _help_console(args: list[str]) -> Console | None:
    """Return what help is printed with, if it was asked for: like any other output it may lose its reader."""
    if args and not {"--help", "-h"} & set(args):
        return None
    from rich.console import Console

    class HelpConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return HelpConsole()


def _unknown(rest: list[str]) -> str:
    """Return what to say of a command that is not there, without importing all that are."""
    from difflib import get_close_matches

    from batonpass.cli.commands import GROUPS

    names = [command.name for group in GROUPS.values() for command in group]
    close = get_close_matches(rest[0], names, n=1)
    return f"there is no command {rest[0]!r}; {f'baton {close[0]}?' if close else 'baton --help lists them'}"


def _complain(error: BatonError, args: Sequence[str]) -> None:
    """Say what went wrong and what to do next on standard error; with `--json` also in the one shape on output."""
    from batonpass.cli.explain import hints
    from batonpass.cli.render import clean, print_json, warn

    if "--json" in itertools.takewhile(lambda arg: arg != "--", args):  # what stands after is another command's
        import msgspec

        from batonpass.wire.errors import error_body

        print_json(msgspec.json.encode(error_body(error)))
    warn(f"baton: {clean(error.message)}")  # it may quote what was typed
    for line in (*(each for each in error.details if each not in error.message), *getattr(error, "__notes__", ())):
        warn(f"  {clean(line)}")
    commands = hints(error, args)
    wide = max((len(command) for command, _ in commands), default=0)
    for command, words in commands:
        warn(f"  {command.ljust(wide)}  {words}")


def _start_fast() -> None:
    """Leave out of this process's start what it has no use for: together a fifth of it."""
    import gc
    from types import ModuleType

    # Half a million objects are made by imports and none of them is garbage.
    gc.set_threshold(*COLLECT_AFTER)
    # httpx brings a command of its own, and with it click, pygments and all of rich.
    stub = ModuleType("httpx._main")
    vars(stub)["main"] = _leave_quietly  # any function will do: httpx only puts its own name on it
    sys.modules["httpx._main"] = stub


def _replace_closed_streams() -> None:
    """Read and write nothing where a standard stream was closed before we started: Python then has none at all."""
    import os

    # Input first: the lowest number that is free is given away, and each is to have its own.
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 — stays as long as we do


def _leave_quietly() -> None:
    """Forget what is still to be written: whoever read our output has gone."""
    from batonpass.cli.render import silence

    silence(sys.stdout)
