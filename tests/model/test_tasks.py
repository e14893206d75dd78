"""The task of a record, played at random over a bad network until an invariant breaks, which none may (D32 to D34)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from batonpass.testing.ablation import switched_off
from batonpass.testing.crew import Gathered
from batonpass.testing.game import Broken, Fate, Way
from batonpass.testing.processes import site_of
from batonpass.testing.tables import InProcess, Processes, in_process, processes
from batonpass.testing.task_ablation import TASK_ABLATIONS
from batonpass.testing.task_game import CLASS, TaskGame

SEARCH: Final = settings(
    max_examples=25, stateful_step_count=25, suppress_health_check=list(HealthCheck), deadline=None
)
SLOW_SEARCH: Final = settings(SEARCH, max_examples=2, stateful_step_count=10, phases=[Phase.generate])
HUNT: Final = settings(SEARCH, max_examples=300, stateful_step_count=14, phases=[Phase.generate])
FATES: Final = (*[Fate.ANSWERED] * 5, Fate.LOST, Fate.LATER, Fate.TWICE, Fate.FAILS, Fate.UNKNOWN)
PLAYERS: Final = ("a1", "a2", "b1")
"""Two of Ann's agents, and one of Ben's."""
MOVES: Final = {
    "claim": 3,
    "renew": 3,
    "write": 4,
    "release": 1,
    "steal": 1,
    "delete": 1,
    "deliver": 4,
    "lapse": 2,
    "pass_time": 1,
}
"""How often each move is drawn, beside the others."""
FENCES: Final = ("version", "epoch", None)


class Play(RuleBasedStateMachine):
    """Moves of the game, drawn at random among those that can be made."""

    table: ClassVar[InProcess | Processes]
    records: ClassVar[Iterator[int]] = itertools.count()
    weights: ClassVar[Mapping[str, int]] = MOVES
    fates: ClassVar[tuple[Fate, ...]] = FATES

    def __init__(self) -> None:
        super().__init__()
        self.table.set_clock()
        self.game = TaskGame(self.table, f"incidents/inc-{next(self.records)}", PLAYERS)

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        """Make one of the moves that can be made."""
        game = self.game
        able = [move for move, weight in self.weights.items() for _ in range(weight) if move != "deliver" or game.net]
        move = data.draw(st.sampled_from(able))
        way = Way(data.draw(st.sampled_from(self.fates)), data.draw(st.integers(0, 1)))
        match move:
            case "lapse":
                game.lapse()
            case "pass_time":
                game.advance(timedelta(seconds=data.draw(st.sampled_from([-3600, -10, 10, 100, 3600]))))
            case "deliver":
                game.deliver(data.draw(st.integers(0, len(game.net) - 1)), way)
            case "delete":
                game.delete(way)
            case _:
                player = game.players[data.draw(st.sampled_from(PLAYERS))]
                fence = data.draw(st.sampled_from(FENCES[:2] if move == "steal" else FENCES))
                getattr(game, move)(player, way, fence)


def play(table: InProcess | Processes, how: settings, **choices: object) -> None:
    """Search at `table`, with a play that differs from the whole one in its `choices`."""
    applied = table.send("ada", "PUT", "/v1/classes/incidents", CLASS, at=0)
    assert applied is not None
    assert applied.ok, applied
    machine = type("ThisPlay", (Play,), {"table": table, **choices})
    run_state_machine_as_test(machine, settings=how)


@pytest.mark.timeout(300)
def test_no_play_of_three_agents_at_one_task_breaks_an_invariant(gathered: Gathered) -> None:
    with in_process(gathered) as table:
        play(table, SEARCH)


@pytest.mark.timeout(300)
def test_no_play_against_servers_that_are_killed_breaks_an_invariant(gathered: Gathered, tmp_path: Path) -> None:
    with site_of(gathered, tmp_path, servers=2) as site, processes(site) as table:
        play(table, SLOW_SEARCH)


# --- each rule is needed ---------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rule", TASK_ABLATIONS)
def test_with_a_rule_switched_off_the_search_finds_what_it_is_for(gathered_sqlite: Gathered, rule: str) -> None:
    """And with the rule on, the same search finds nothing."""
    ablation = TASK_ABLATIONS[rule]
    choices = {"weights": ablation.weights, "fates": ablation.fates}
    with in_process(gathered_sqlite) as table:
        play(table, settings(HUNT, max_examples=10), **choices)
        with switched_off(ablation), pytest.raises(Broken) as broken:
            play(table, HUNT, **choices)

        assert broken.value.name == ablation.breaks, broken.value
