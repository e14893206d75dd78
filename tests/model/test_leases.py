"""The lease protocol, played at random against the real servers until an invariant breaks, which none may."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from batonpass.testing.ablation import ABLATIONS, Ablation, switched_off
from batonpass.testing.crew import Gathered
from batonpass.testing.game import Broken, Fate, Game, Run, Way
from batonpass.testing.processes import site_of
from batonpass.testing.tables import InProcess, Processes, in_process, processes

SEARCH: Final = settings(
    max_examples=40, stateful_step_count=30, suppress_health_check=list(HealthCheck), deadline=None
)
SLOW_SEARCH: Final = settings(SEARCH, max_examples=3, stateful_step_count=25, phases=[Phase.generate])

NETWORK: Final = (*[Fate.ANSWERED] * 5, Fate.LOST, Fate.LATER, Fate.TWICE)
FAULTS: Final = (*NETWORK, Fate.FAILS, Fate.UNKNOWN)

OF_A_RUN: Final = {
    "launch": 3,
    "mint": 6,
    "beat": 2,
    "write": 3,
    "note": 2,
    "drain": 1,
    "feed": 1,
    "take_another": 1,
    "write_another": 1,
    "settle": 3,
    "reattach": 1,
    "kill": 1,
}
OF_OTHERS: Final = {"person": 2, "stranger": 1, "deliver": 4, "drop": 1, "lapse": 2, "pass_time": 1}
"""How often each move is drawn, beside the others that can be made."""

Choice = tuple[str, str | None]
"""A move and the name of the run that makes it."""


class Play(RuleBasedStateMachine):
    """Moves of the game, drawn at random among those that can be made."""

    table: ClassVar[InProcess | Processes]
    agents: ClassVar[str] = "AAB"
    weights: ClassVar[Mapping[str, int]] = {**OF_A_RUN, **OF_OTHERS}
    fates: ClassVar[tuple[Fate, ...]] = FAULTS
    revoke_first: ClassVar[bool] = True

    def __init__(self) -> None:
        super().__init__()
        self.game = Game(self.table, self.table.deal(), self.agents, revoke_first=self.revoke_first)
        self.runs = {run.name: run for run in self.game.runs}

    def choices(self) -> list[Choice]:
        """Return what can be done now, each as often as it weighs."""
        able: list[Choice] = []
        for move, weight in self.weights.items():
            if move in OF_A_RUN:
                able += [(move, name) for name, run in self.runs.items() if run.may(move)] * weight
            elif self.can(move):
                able += [(move, None)] * weight
        return able

    def can(self, move: str) -> bool:
        match move:
            case "deliver" | "drop":
                return bool(self.game.net)
            case "back_up":
                return not self.game.backed_up
            case "restore":
                return self.game.backed_up and not self.game.restored
            case _:
                return True

    @rule(data=st.data())
    def move(self, data: st.DataObject) -> None:
        """Make one of the moves that can be made."""
        if not (able := self.choices()):
            return
        move, name = data.draw(st.sampled_from(able))
        way = Way(data.draw(st.sampled_from(self.fates)), data.draw(st.integers(0, 1)))
        if name is not None:
            self.of_a_run(move, self.runs[name], way, data)
        else:
            self.of_others(move, way, data)

    def of_a_run(self, move: str, run: Run, way: Way, data: st.DataObject) -> None:
        match move:
            case "beat":
                self.game.beat(run, way, reclaim=data.draw(st.booleans()))
            case "settle":
                self.game.settle(run, way, data.draw(st.sampled_from(["release", "reserve"])))
            case "kill":
                self.game.kill(run)
            case _:
                getattr(self.game, move)(run, way)

    def of_others(self, move: str, way: Way, data: st.DataObject) -> None:
        match move:
            case "person":
                self.game.person(data.draw(st.sampled_from(["release", "reserve", "take", "renew"])), way)
            case "stranger":
                self.game.stranger(way)
            case "deliver":
                self.game.deliver(data.draw(st.integers(0, len(self.game.net) - 1)), way)
            case "drop":
                self.game.drop(data.draw(st.integers(0, len(self.game.net) - 1)))
            case "lapse" | "back_up" | "restore":
                getattr(self.game, move)()
            case _:
                self.game.advance(timedelta(minutes=data.draw(st.sampled_from([-60, -1, 1, 20, 44, 60]))))


def play(table: InProcess | Processes, how: settings, **choices: object) -> None:
    """Search at `table`, with a play that differs from the whole one in its `choices`."""
    machine = type("ThisPlay", (Play,), {"table": table, **choices})
    run_state_machine_as_test(machine, settings=how)


@pytest.fixture
def table(gathered: Gathered) -> Iterator[InProcess]:
    with in_process(gathered) as dealt:
        yield dealt


@pytest.mark.timeout(300)
def test_no_play_of_two_siblings_and_a_rival_breaks_an_invariant(table: InProcess) -> None:
    play(table, SEARCH)


@pytest.mark.timeout(300)
def test_no_play_against_servers_that_are_killed_breaks_an_invariant(gathered: Gathered, tmp_path: Path) -> None:
    """Two processes over one database; each failing message kills its server, which is started again."""
    with site_of(gathered, tmp_path, servers=2) as site, processes(site) as table:
        play(table, SLOW_SEARCH)


@pytest.mark.timeout(300)
def test_no_play_in_which_history_goes_back_breaks_an_invariant(gathered_sqlite: Gathered) -> None:
    """The database is restored from a copy of itself, in the middle of everything (D46)."""
    restores = {**OF_A_RUN, **OF_OTHERS, "back_up": 1, "restore": 1}
    with in_process(gathered_sqlite) as table:
        play(table, settings(SEARCH, max_examples=15, stateful_step_count=20), weights=restores)


# --- each rule is needed ---------------------------------------------------------------------------------------------

HUNT: Final = settings(SEARCH, max_examples=400, stateful_step_count=16, phases=[Phase.generate])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rule", ABLATIONS)
def test_with_a_rule_switched_off_the_search_finds_what_it_is_for(gathered_sqlite: Gathered, rule: str) -> None:
    """A search that finds nothing then would prove nothing when it finds nothing with the rule on."""
    ablation = ABLATIONS[rule]
    with in_process(gathered_sqlite) as table:
        with switched_off(ablation), pytest.raises(Broken) as broken:
            play(table, HUNT, **choices_of(ablation))

        assert broken.value.name == ablation.breaks, broken.value


@pytest.mark.timeout(300)
@pytest.mark.parametrize("rule", [name for name, ablation in ABLATIONS.items() if ablation.revoke_first])
def test_the_same_search_finds_nothing_with_the_rule_on(gathered_sqlite: Gathered, rule: str) -> None:
    ablation = ABLATIONS[rule]
    with in_process(gathered_sqlite) as table:
        play(table, settings(HUNT, max_examples=12), **choices_of(ablation))


def choices_of(ablation: Ablation) -> dict[str, object]:
    """Return the play that the ablation needs, and no more."""
    return {name: getattr(ablation, name) for name in ("agents", "weights", "fates", "revoke_first")}
