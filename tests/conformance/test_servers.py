"""Our server, on either database, before the kit: every case of every requirement."""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from batonpass.conformance.case import Case, cases
from batonpass.conformance.grades import Grade
from batonpass.conformance.servers import Tried, attempt
from batonpass.conformance.world import Server

_number: Final = itertools.count(1)


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.id)
def test_our_server_does_what_the_published_protocol_asks_of_one(server: Server, case: Case) -> None:
    assert attempt(case, server, next(_number)) == Tried(case, Grade.PASS, "")
