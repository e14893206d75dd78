from __future__ import annotations

import pytest

from batonpass.cli.commands import GROUPS
from batonpass.cli.exits import Exit, UsageError, exit_of, exit_of_code
from batonpass.cli.explain import hints
from batonpass.core import errors
from batonpass.core.errors import BatonError
from batonpass.testing.commands import Baton
from batonpass.testing.scripted import lease
from batonpass.wire.errors import HTTP_STATUS
from batonpass.wire.leases import lease_view

COMMANDS = {command.name for group in GROUPS.values() for command in group}


@pytest.mark.parametrize(
    "error, expected",
    [
        (errors.AlreadyClaimed("x"), 3),
        (errors.LeaseLost("x"), 3),
        (errors.Conflict("x"), 1),
        (errors.NotReady("x"), 1),
        (errors.Paused("x"), 1),
        (errors.NotFound("x"), 4),
        (errors.Unavailable("x"), 5),
        (errors.Unknown("x"), 5),
        (errors.Unauthorized("x"), 6),
        (errors.Forbidden("x"), 6),
        (errors.InvalidNode("x"), 1),
        (errors.Internal("x"), 1),
        (UsageError("x"), 2),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BatonError) else str(value),
)
def test_each_error_ends_as_the_table_says(error: BatonError, expected: int) -> None:
    assert exit_of(error) == expected


def test_one_item_of_a_bulk_answer_ends_as_the_whole_would() -> None:
    assert {kind: exit_of_code(kind.code) for kind in HTTP_STATUS} == {kind: exit_of(kind("x")) for kind in HTTP_STATUS}
    assert exit_of_code("invented_later") is Exit.FAILED


@pytest.mark.parametrize("kind", HTTP_STATUS, ids=lambda kind: kind.__name__)
def test_each_hint_is_a_command_that_exists(kind: type[BatonError]) -> None:
    for command, words in hints(kind("x")):
        program, name, *_ = command.split()
        assert (program, name in COMMANDS) == ("baton", True)
        assert words


def test_hints_name_the_node_that_was_refused() -> None:
    held = errors.AlreadyClaimed("x", holder=lease_view(lease("task-7")))

    assert ("baton take task-7 --reason WHY") in dict(hints(held))


@pytest.mark.parametrize(
    "argv, told",
    [
        (("show", "task-x"), "baton list"),
        (("history", "task-a", "--revision", "00000000"), "baton history"),
        (("schema", "tsak"), "baton schema"),
        (("class", "show", "incidnets"), "baton class list"),
    ],
)
def test_what_is_not_there_is_looked_up_where_it_would_be(baton: Baton, argv: tuple[str, ...], told: str) -> None:
    baton.task("a")

    ran = baton(*argv)

    assert (ran.code, ran.err.splitlines()[-1].strip().startswith(f"{told} ")) == (Exit.NOT_FOUND, True)


def test_a_refusal_says_once_what_is_missing(baton: Baton) -> None:
    assert baton("ask", "Where?", "--about", "task-x").err.splitlines() == [
        "baton: mentions: there is no node task-x",
        "  baton list  what there is",
    ]


def test_an_offset_may_be_nothing_and_the_refusal_says_so(baton: Baton) -> None:
    refused = baton("queue", "--offset", "-1")

    assert (refused.code, refused.err) == (Exit.FAILED, "baton: offset: must be a whole number of at least 0\n")
    assert baton("queue", "--offset", "0").code == Exit.OK
