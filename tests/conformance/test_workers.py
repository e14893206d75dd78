"""The kit before workers: the reference passes every line, and for every line there is a worker that fails it alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Final

import pytest

from batonpass.cli.local import Person, serve_throwaway
from batonpass.conformance import task
from batonpass.conformance.client import Client
from batonpass.conformance.grades import Grade, passes
from batonpass.conformance.lines import LINES
from batonpass.conformance.reference import Run, Worker
from batonpass.conformance.workers import Job, Launch, grade_worker
from batonpass.conformance.world import Server
from batonpass.testing.broken_workers import BROKEN, Broken, UsesAPersonsToken

_numbers: Final = itertools.count(1)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all that are graded; each scenario has a corner of it to itself."""
    folder = tmp_path_factory.mktemp("graded")
    with serve_throwaway(folder, Person("Ada Admin", "ada@example.org")) as (address, token):
        yield Server(address, token.token)


def inside(kind: type[Worker]) -> Launch:
    """Run a worker in this process, and its work too: the same requests, and no process to start."""

    def launch(job: Job) -> str:
        told = job.environ
        worker = kind(Client(told["BATON_SERVER"], told["BATON_TOKEN"]), project=told["BATON_PROJECT"])
        if isinstance(worker, UsesAPersonsToken):
            worker.persons = Client(told["BATON_SERVER"], told["BATON_CONFORMANCE_PERSON_TOKEN"])
        return str(worker.run(lambda prompt: task.perform(job.control, prompt, environ=told)))

    return launch


def test_the_reference_worker_passes_every_line(own: Server) -> None:
    graded = grade_worker(own, inside(Worker), numbers=_numbers)

    assert [(each.id, each.why) for each in graded if each.grade is not Grade.PASS] == []
    assert [each.id for each in graded] == [line.id for line in LINES]


@pytest.mark.parametrize("line, broken", BROKEN, ids=[f"{line}-{each.worker.__name__}" for line, each in BROKEN])
def test_a_worker_that_breaks_one_line_fails_that_line_and_no_other(own: Server, line: str, broken: Broken) -> None:
    graded = grade_worker(own, inside(broken.worker), scenarios=broken.scenarios, numbers=_numbers)

    assert {each.id: each.why for each in graded if each.grade is Grade.FAIL}.keys() == {line}
    (failed,) = (each for each in graded if each.id == line)
    assert failed.why
    assert failed.evidence, "the requests that show it"
    assert not passes(graded)


def test_there_is_a_worker_that_breaks_it_for_every_line() -> None:
    assert {line for line, _ in BROKEN} == {line.id for line in LINES}


def test_a_worker_that_does_nothing_passes_no_line(own: Server) -> None:
    graded = grade_worker(own, lambda _: "ended with 0", scenarios=("declines", "asks"), numbers=_numbers)

    assert {each.grade for each in graded} == {Grade.NOT_SEEN}
    assert not passes(graded)


class _EndsWithItsWork(Worker):
    """Dies at the moment at which its work is over."""

    def settle(self, node: str, text: str, run: str, *, code: int = 0) -> Run:
        """Do nothing at all."""
        del text, run, code
        return self.refused(node)


def test_a_worker_that_dies_with_its_work_passes_no_line_about_what_becomes_of_the_item(own: Server) -> None:
    scenarios = ("resolves", "unjudgeable", "report-refused")
    graded = grade_worker(own, inside(_EndsWithItsWork), scenarios=scenarios, numbers=_numbers)

    about = {"verdict", "resolved-keeps", "unjudgeable-holds", "unjudgeable-says", "refused-holds"}
    assert {each.id for each in graded if each.grade is Grade.PASS} & about == set()


def test_no_token_gets_into_the_evidence(own: Server) -> None:
    """Evidence is shown, sent around and kept."""
    secrets: list[str] = []
    launch = inside(UsesAPersonsToken)

    def noting(job: Job) -> str:
        secrets.extend([job.environ["BATON_TOKEN"], job.environ["BATON_CONFORMANCE_PERSON_TOKEN"]])
        return launch(job)

    told = str([each.told() for each in grade_worker(own, noting, scenarios=("crashes",), numbers=_numbers)])

    assert "a person" in told
    assert len(secrets) == 2
    assert not [secret for secret in secrets if secret in told]
