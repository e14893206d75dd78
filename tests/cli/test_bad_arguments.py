"""Whatever stands on the command line of whichever command: a sentence and an exit code, never a traceback (D43).

The commands are walked, so that one that is added cannot be forgotten.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from batonpass.cli.commands import application
from batonpass.cli.exits import Exit
from batonpass.testing.commands import Baton, Ran

BAD: Final[Mapping[str, str]] = {
    "nothing": "",
    "blanks": "  ",
    "bytes that are no text": "\udcff\udc80",
    "an escape": "a\x1b[31m",
    "a line end": "a\nb",
    "emoji": "🪃",
    "digits": "9" * 40,
    "a hundred kilobytes": "x" * 100_000,
}
GOOD: Final[Mapping[str, str]] = {
    "NODE": "task-a",
    "EDGE": "mentions",
    "OTHER": "task-b",
    "DURATION": "1h",
    "LABEL": "box",
    "AGENT": "agent-box",
    "PREFIX": "00000000",
    "PROFILE": "profile-a",
    "QUESTION": "question-a",
    "TARGET": "global",
    "TEXT": "Which port?",
    "SESSION": "s-1",
    "FILE": "a-file",
    "PRIORITY": "p1",
    "COMMIT": "web@abcdef1",
    "SHA": "abcdef1",
    "RECORD": "incidents/inc-1",
    "RECORD_CLASS": "incidents",
    "FIELD": "status",
    "FILES": "a-file",
    "NAME": "worker",
    "WHICH": "worker",
    "--record": "incidents/inc-1",
    "--field": "status",
    "--revision": "abcdef12",
    "--reason": "why",
    "--name": "Nia New",
    "--email": "nia@example.org",
}
"""What is given for the required arguments that are not the one tried."""
PLAYED: Final = {"demo", "serve", "record watch"}
"""These go on by themselves, and have tests of their own."""
SHOWN: Final[Mapping[str, str]] = {
    "work": "--print",
    "dispatch": "--print",
    "conformance worker": "--list",
    "conformance server": "--list",
}
"""These would start programs, or a server to try, where what they are given is good: they only show what they would."""
EXITS: Final = set(Exit) - {Exit.INTERRUPTED}


@dataclass(frozen=True, slots=True)
class Leaf:
    """A command and its arguments: positional ones and options that take a value, and which of them are required."""

    path: tuple[str, ...]
    arguments: tuple[tuple[str, bool], ...]

    def lines(self, bad: str, seen: Counter[str]) -> Iterator[tuple[str, ...]]:
        """Yield a command line for each argument, with `bad` in its place and what else is required as it should be.

        `seen` counts the options that were tried; one that was tried often enough is passed over.
        """
        for tried, _ in self.arguments:
            seen[tried] += 1
            if tried.startswith("--") and seen[tried] > SHARED_TRIED_MAX:
                continue
            given = [
                (name, bad if name == tried else GOOD[name])
                for name, required in self.arguments
                if required or name == tried
            ]
            options = [part for name, value in given if name.startswith("--") for part in (name, value)]
            shown = SHOWN.get(" ".join(self.path))
            only = () if shown is None else (shown,)
            yield (*self.path, *options, *only, *(value for name, value in given if not name.startswith("--")))


def leaves(app: Any, path: tuple[str, ...] = ()) -> Iterator[Leaf]:  # noqa: ANN401 — an application or one of its commands
    for name in app:
        if name.startswith("-"):
            continue
        command, at = app[name], (*path, name)
        if command.default_command is None:
            yield from leaves(command, at)
            continue
        arguments = [
            each for each in command.assemble_argument_collection() if each.name != "*" and each.hint is not bool
        ]
        yield Leaf(at, tuple((each.name, bool(each.required)) for each in arguments))


LEAVES: Final = [leaf for leaf in leaves(application(None)) if " ".join(leaf.path) not in PLAYED]
SHARED_TRIED_MAX: Final = 3
"""An option of the same name and kind, such as --server, is one piece of code: it is tried with as many commands."""


def test_every_command_is_walked_with_every_argument() -> None:
    walked = {" ".join(leaf.path): [name for name, _ in leaf.arguments] for leaf in LEAVES}

    assert len(walked) > 35
    assert walked["take"] == ["NODE", "--reason", "--session", "--server"]
    assert walked["db restore"][0] == "FILE"
    assert set(SHOWN) <= set(walked)
    assert {name for leaf in LEAVES for name, required in leaf.arguments if required} == set(GOOD)


@pytest.mark.parametrize("what", BAD)
def test_an_argument_that_is_none_ends_with_a_sentence(
    what: str, baton: Baton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", None)  # `token save` asks for a token there
    seen: Counter[str] = Counter()
    found = [
        (" ".join(line)[:80], wrong)
        for leaf in LEAVES
        for line in leaf.lines(BAD[what], seen)
        if (wrong := _wrong(baton(*line))) is not None
    ]

    assert found == []


def _wrong(ran: Ran) -> str | None:
    """Return what is wrong with how a command ended, or None."""
    if ran.code not in EXITS:
        return f"ended with {ran.code}"
    if ran.code not in {Exit.OK, Exit.FAILED} and not ran.err.startswith("baton: "):
        return f"ended with {ran.code} and without a sentence: {ran.err[:200]}"
    if "Traceback" in ran.err or "\x1b" in ran.out + ran.err:
        return f"said what does not belong on a terminal: {ran.err[:200]!r}"
    return None
