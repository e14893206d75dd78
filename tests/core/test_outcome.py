from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Final, assert_never

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core import outcome
from batonpass.core.ids import Fence, NodeId, Resource
from batonpass.core.node_types import NODE_TYPES
from batonpass.core.outcome import (
    ClearReadiness,
    Conclude,
    Facts,
    Filed,
    FileFinding,
    FileReport,
    Filing,
    NotFiled,
    Read,
    Reading,
    Refused,
    Release,
    Resolver,
    Terminal,
    Undelivered,
    Unread,
)
from batonpass.core.reports import Standing, is_usable

LEASE: Final = Fence(Resource("task-1"), 3)
RESOLVER: Final = Resolver(NodeId("art-1"), "resolves")
OPEN: Final = Read()
DONE: Final = Read(RESOLVER)
AWAY: Final = Unread("no route to host")

JUDGED: Final = ("task", "issue", "question", "incident")
CLOSED_BY_STATUS: Final = ("decision", "finding", "capture-pending", "of-a-type-unknown-here")
REPORT: Final = "Tests pass."
DECLINE: Final = "DECLINED: done already\nSee the log."
SILENCE: Final = " \n"

# One row per situation; the columns are: nothing sent yet, filed, refused, not known to be filed.
# A cell is the steps in order, then the verdict: `!` it was read off the graph, `?` to be taken up again.
# Where a cell hands back the lease, the same cell without a lease only lacks the steps that need one.
TABLE: Final = """
judged     open  report          report release reported!         | release reported!            | failed   | reported?
judged     open  report+commits  report release reported!         | release reported!            | failed   | reported?
judged     open  decline         finding clear release declined!  | clear release declined!      | declined | declined?
judged     open  decline+commits report release reported!         | release reported!            | failed   | reported?
judged     open  silence         release failed!                  | -                            | -        | -
judged     open  silence+commits release failed!                  | -                            | -        | -
judged     done  report          resolved!                        | release reported!            | resolved!| resolved!
judged     done  report+commits  resolved!                        | release reported!            | resolved!| resolved!
judged     done  decline         resolved!                        | clear release declined!      | resolved!| resolved!
judged     done  decline+commits resolved!                        | release reported!            | resolved!| resolved!
judged     done  silence         resolved!                        | -                            | -        | -
judged     done  silence+commits resolved!                        | -                            | -        | -
judged     away  report          reported?                        | reported?                    | reported?| reported?
judged     away  report+commits  reported?                        | reported?                    | reported?| reported?
judged     away  decline         declined?                        | declined?                    | declined?| declined?
judged     away  decline+commits reported?                        | reported?                    | reported?| reported?
judged     away  silence         failed?                          | -                            | -        | -
judged     away  silence+commits failed?                          | -                            | -        | -
by-status  open  report          unverified reported              | reported                     | failed   | reported?
by-status  open  report+commits  unverified reported              | reported                     | failed   | reported?
by-status  open  decline         finding clear release declined   | clear release declined       | declined | declined?
by-status  open  decline+commits unverified reported              | reported                     | failed   | reported?
by-status  open  silence         failed                           | -                            | -        | -
by-status  open  silence+commits failed                           | -                            | -        | -
by-status  done  report          unverified reported              | reported                     | failed   | reported?
by-status  done  report+commits  unverified reported              | reported                     | failed   | reported?
by-status  done  decline         unverified reported              | clear release declined       | failed   | reported?
by-status  done  decline+commits unverified reported              | reported                     | failed   | reported?
by-status  done  silence         failed                           | -                            | -        | -
by-status  done  silence+commits failed                           | -                            | -        | -
by-status  away  report          reported?                        | reported?                    | reported?| reported?
by-status  away  report+commits  reported?                        | reported?                    | reported?| reported?
by-status  away  decline         declined?                        | declined?                    | declined?| declined?
by-status  away  decline+commits reported?                        | reported?                    | reported?| reported?
by-status  away  silence         failed?                          | -                            | -        | -
by-status  away  silence+commits failed?                          | -                            | -        | -
"""


@dataclass(frozen=True)
class Cell:
    """One cell of the table: the situation, how far the filing is, and the plan told in words."""

    kind: str
    reading: str
    report: str
    filing: str
    told: str

    def __str__(self) -> str:
        return f"{self.kind}-{self.reading}-{self.report}-{self.filing}"

    def facts(self) -> list[Facts]:
        """The facts of this cell, once for each type of node it speaks of."""
        types = JUDGED if self.kind == "judged" else CLOSED_BY_STATUS
        return [facts_of(node_type, self.reading, self.report, self.filing) for node_type in types]


def cells() -> list[Cell]:
    found = []
    for line in TABLE.strip().splitlines():
        head, *columns = [column.strip() for column in line.split("|")]
        kind, reading, report, first = head.split(maxsplit=3)
        found += [
            Cell(kind, reading, report, filing, words)
            for filing, words in zip(("not-filed", "filed", "refused", "undelivered"), (first, *columns), strict=True)
            if words != "-"
        ]
    return found


def facts_of(node_type: str, reading: str, report: str, filing: str) -> Facts:
    text, _, commits = report.partition("+")
    is_decline = report == "decline"
    readings: dict[str, Reading] = {"open": OPEN, "done": DONE, "away": AWAY}
    filings: dict[str, Filing] = {
        "not-filed": NotFiled(),
        "filed": Filed(NodeId("find-1" if is_decline else "art-1"), finding=is_decline),
        "refused": Refused("summary: 900 characters"),
        "undelivered": Undelivered("503"),
    }
    return Facts(
        target_type=node_type,
        reading=readings[reading],
        report={"report": REPORT, "decline": DECLINE, "silence": SILENCE}[text],
        has_commits=bool(commits),
        lease=LEASE,
        filing=filings[filing],
    )


def told(steps: tuple[outcome.Step, ...]) -> str:
    return " ".join(map(_told, steps))


def _told(step: outcome.Step) -> str:
    match step:
        case FileReport(standing):
            return "report" if standing is Standing.UNRESOLVED else "unverified"
        case FileFinding():
            return "finding"
        case ClearReadiness():
            return "clear"
        case Release():
            return "release"
        case Conclude(state=state, enforced=enforced, pending=pending):
            return state + "!" * enforced + "?" * pending
        case unknown:
            assert_never(unknown)


def test_the_table_has_every_cell() -> None:
    rows = {(cell.kind, cell.reading, cell.report) for cell in cells()}

    reports = [text + commits for text in ("report", "decline", "silence") for commits in ("", "+commits")]
    assert rows == set(product(("judged", "by-status"), ("open", "done", "away"), reports))


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_every_cell_of_the_outcome_contract(cell: Cell) -> None:
    for facts in cell.facts():
        assert told(outcome.plan(facts)) == cell.told


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_a_run_without_a_lease_hands_nothing_back(cell: Cell) -> None:
    for facts in cell.facts():
        steps = outcome.plan(replace(facts, lease=None))

        assert told(steps) == cell.told.replace("clear ", "").replace("release ", "")


def test_only_types_completed_by_an_edge_are_judged() -> None:
    assert {name for name in NODE_TYPES if outcome.is_judged_by_edge(name)} == set(JUDGED)
    assert not outcome.is_judged_by_edge("no-such-type")


def test_the_verdict_names_the_resolver_and_the_edge() -> None:
    facts = facts_of("task", "done", "report", "not-filed")

    assert outcome.plan(facts) == (Conclude(Terminal.RESOLVED, enforced=True, resolver=RESOLVER),)


def test_the_verdict_of_a_decline_carries_its_reason() -> None:
    facts = facts_of("task", "open", "decline", "not-filed")

    assert outcome.plan(facts) == (
        FileFinding("done already"),
        ClearReadiness(LEASE),
        Release(LEASE),
        Conclude(Terminal.DECLINED, enforced=True, declined_reason="done already"),
    )


@pytest.mark.parametrize("report", ["report", "decline"])
def test_a_refusal_is_named_in_the_note(report: str) -> None:
    (verdict,) = outcome.plan(facts_of("task", "open", report, "refused"))

    assert isinstance(verdict, Conclude)
    assert "summary: 900 characters" in verdict.note
    assert "left to lapse" in verdict.note


@pytest.mark.parametrize("reading, filing, cause", [("away", "not-filed", "no route"), ("open", "undelivered", "503")])
@pytest.mark.parametrize("report", ["report", "decline"])
def test_a_settlement_that_waits_says_for_what(reading: str, filing: str, cause: str, report: str) -> None:
    (verdict,) = outcome.plan(facts_of("task", reading, report, filing))

    assert isinstance(verdict, Conclude)
    assert cause in verdict.note


def test_a_run_that_said_nothing_has_that_in_its_note() -> None:
    *_, verdict = outcome.plan(facts_of("task", "open", "silence", "not-filed"))

    assert isinstance(verdict, Conclude)
    assert verdict.note == "the run left no report"


def test_a_report_filed_before_a_crash_stays_the_verdict_when_the_item_is_resolved_since() -> None:
    facts = facts_of("task", "done", "report", "filed")

    assert told(outcome.plan(facts)) == "release reported!"


def test_a_decline_judged_as_a_claim_stays_one_when_its_commits_are_gone_since() -> None:
    facts = replace(facts_of("task", "open", "decline", "not-filed"), filing=Filed(NodeId("art-1")))

    assert told(outcome.plan(facts)) == "release reported!"


# The laws, over everything


FILINGS = st.one_of(
    st.just(NotFiled()),
    st.builds(Filed, st.just(NodeId("art-1")), finding=st.booleans()),
    st.builds(Refused, st.text()),
    st.builds(Undelivered, st.text()),
)
FACTS = st.builds(
    Facts,
    target_type=st.sampled_from([*NODE_TYPES, "unknown"]),
    reading=st.sampled_from([OPEN, DONE, AWAY]),
    report=st.one_of(st.sampled_from([REPORT, DECLINE, SILENCE, "CANDIDATE: art-1 — why"]), st.text(max_size=20)),
    has_commits=st.booleans(),
    lease=st.one_of(st.none(), st.just(LEASE)),
    filing=FILINGS,
)


@given(FACTS)
def test_a_plan_ends_in_its_only_verdict(facts: Facts) -> None:
    verdicts = [isinstance(step, Conclude) for step in outcome.plan(facts)]

    assert verdicts.count(True) == 1
    assert verdicts[-1]


@given(FACTS)
def test_resolved_is_only_ever_read_from_the_graph(facts: Facts) -> None:
    *_, verdict = outcome.plan(facts)

    assert isinstance(verdict, Conclude)
    if verdict.state is Terminal.RESOLVED:
        assert facts.reading == Read(verdict.resolver)
        assert verdict.resolver is not None
        assert facts.target_type in JUDGED
    else:
        assert verdict.resolver is None


@given(FACTS)
def test_no_lease_is_released_while_a_report_is_not_filed(facts: Facts) -> None:
    steps = outcome.plan(facts)

    for index, step in enumerate(steps):
        if isinstance(step, Release):
            filed = isinstance(facts.filing, Filed)
            filed_first = any(isinstance(earlier, FileReport | FileFinding) for earlier in steps[:index])
            assert filed or filed_first or not is_usable(facts.report)


@given(FACTS)
def test_only_a_lease_the_run_holds_is_handed_back_or_stands_behind_a_change(facts: Facts) -> None:
    for step in outcome.plan(facts):
        if isinstance(step, Release | ClearReadiness):
            assert step.lease == facts.lease


@given(FACTS)
def test_what_closes_by_status_keeps_its_lease_unless_it_was_declined(facts: Facts) -> None:
    *steps, verdict = outcome.plan(facts)

    assert isinstance(verdict, Conclude)
    if facts.target_type not in JUDGED:
        assert not verdict.enforced
        assert verdict.state is Terminal.DECLINED or not any(isinstance(step, Release) for step in steps)


@given(FACTS)
def test_a_verdict_that_waits_changes_nothing_and_claims_nothing(facts: Facts) -> None:
    *steps, verdict = outcome.plan(facts)

    assert isinstance(verdict, Conclude)
    if verdict.pending or facts.reading == AWAY:
        assert not steps
        assert not verdict.enforced
        assert verdict.state is not Terminal.RESOLVED


@given(FACTS)
def test_an_answered_filing_is_never_sent_again(facts: Facts) -> None:
    if not isinstance(facts.filing, NotFiled):
        assert not any(isinstance(step, FileReport | FileFinding) for step in outcome.plan(facts))


@given(FACTS)
def test_asking_again_after_the_filing_goes_on_where_the_plan_was(facts: Facts) -> None:
    steps = outcome.plan(replace(facts, filing=NotFiled()))
    if isinstance(steps[0], FileReport | FileFinding):
        filed = Filed(NodeId("art-1"), finding=isinstance(steps[0], FileFinding))

        assert outcome.plan(replace(facts, filing=filed)) == steps[1:]
