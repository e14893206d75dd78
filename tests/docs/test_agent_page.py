"""The how-to about agents in Python is run: its class is applied, and its code does what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from anyio.from_thread import start_blocking_portal

from batonpass.client.client import Client
from batonpass.client.run import Tally, run
from batonpass.testing.world import World, world_of

PAGE: Final = (Path(__file__).parents[2] / "docs" / "howto" / "write-an-agent-in-python.md").read_text()
BLOCK: Final = re.compile(r"^```(python|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RECORD: Final = "incidents/inc-4471"
LEASE: Final = timedelta(seconds=300)


@dataclass(frozen=True, slots=True)
class Page:
    """What the page's code defines, and a server with the page's class and one open incident."""

    defined: dict[str, Any]
    world: World
    mill: Client
    kiln: Client

    def run(self, client: Client, handler: Callable[..., Any]) -> Tally:
        """Run `handler` over what is free, as the page's last lines do."""
        return run(
            client,
            "incidents",
            "remediation",
            handler,
            wanted=self.defined["is_open"],
            checkpoint="progress",
            once=True,
            clock=self.world.seconds,
        )


@pytest.fixture
def page(sqlite_url: str) -> Iterator[Page]:
    blocks = BLOCK.findall(PAGE)
    defined: dict[str, Any] = {"__name__": "agent"}
    for kind, text in blocks:
        if kind == "python":
            exec(compile(text, "write-an-agent-in-python.md", "exec"), defined)  # noqa: S102 — our own page
    (document,) = [yaml.safe_load(text) for kind, text in blocks if kind == "yaml"]
    with start_blocking_portal() as portal, world_of(sqlite_url, portal) as world:
        world.client().put_class("incidents", document)
        mill, kiln = world.agent("mill"), world.agent("kiln")
        mill.records.put(RECORD, "status", "open")
        yield Page(defined, world, mill, kiln)


def test_the_agent_works_through_its_playbook_and_is_done(page: Page) -> None:
    assert page.run(page.mill, page.defined["remediate"]) == Tally(done=1)

    record = page.kiln.records.get(RECORD)
    assert record.value("actions_taken") == page.defined["PLAYBOOK"]
    assert (record.value("status"), record.value("progress")) == ("mitigated", 3)
    assert page.run(page.kiln, page.defined["remediate"]) == Tally(), "it is not open any more"


def test_the_agent_goes_on_where_the_one_before_it_died(page: Page) -> None:
    done: list[str] = []

    def act(_incident: object, action: str) -> None:
        done.append(action)
        if len(done) == 2:
            raise ZeroDivisionError

    page.defined["act"] = act
    with pytest.raises(ZeroDivisionError):
        page.run(page.mill, page.defined["remediate"])
    page.world.pass_time(LEASE)

    assert page.run(page.kiln, page.defined["remediate"]) == Tally(done=1)
    first, second, third = page.defined["PLAYBOOK"]
    assert done == [first, second, second, third]
    assert page.kiln.records.get(RECORD).value("actions_taken") == [first, second, third]


def test_the_asynchronous_handler_does_the_same(page: Page) -> None:
    assert page.run(page.mill, page.defined["remediate_async"]) == Tally(done=1)
    assert page.kiln.records.get(RECORD).value("actions_taken") == ["looked at it"]


def test_the_block_has_the_task_or_says_who_does(page: Page) -> None:
    assert page.defined["look_into"](page.mill, RECORD) is None
    page.mill.records.claim(RECORD, "remediation")
    assert "agent-mill" in page.defined["look_into"](page.kiln, RECORD)


def test_the_report_tells_whose_the_tasks_are(page: Page, capsys: pytest.CaptureFixture[str]) -> None:
    assert page.defined["report"](page.mill, RECORD).get("remediation") is None
    assert f"{RECORD} open" in capsys.readouterr().out
    page.kiln.records.claim(RECORD, "remediation")
    assert page.defined["report"](page.mill, RECORD) == {"remediation": "agent:agent-kiln"}
