"""Two server processes over one database, on either kind, with a clock in a file that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batonpass.testing.crew import Gathered
from batonpass.testing.processes import Site, site_of


@pytest.fixture
def site(gathered: Gathered, tmp_path: Path) -> Iterator[Site]:
    """Two servers."""
    with site_of(gathered, tmp_path, servers=2) as running:
        yield running
