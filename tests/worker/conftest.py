"""A real repository for each test of the worker, with a person's identity that must stay the person's."""

from __future__ import annotations

from pathlib import Path

import pytest

from batonpass.testing.repos import Repo, make_repo, person_environment


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A person's repository with one commit on `main`."""
    return make_repo(tmp_path / "project", person_environment(tmp_path / "home"))
