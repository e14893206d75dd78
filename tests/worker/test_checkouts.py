from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from batonpass.testing.repos import Repo, make_repo
from batonpass.worker import environment
from batonpass.worker.dispatch import checkouts
from batonpass.worker.dispatch.checkouts import Map, Place
from batonpass.worker.errors import LaunchRefused


@pytest.fixture
def other(repo: Repo, tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "other", repo.person)


@pytest.fixture
def known(repo: Repo, tmp_path: Path) -> Map:
    return Map({}, repo.folder, tmp_path / "baton", environment.for_git(repo.person))


def test_the_map_says_which_checkout_a_project_is(repo: Repo, other: Repo, known: Map) -> None:
    there = replace(known, repos={"mail": other.folder})

    assert checkouts.locate("mail", there) == Place(other.folder, "dispatch.repos.mail", certain=True)
    assert checkouts.locate("mail", replace(there, standing=Path("/"))).folder == other.folder
    assert checkouts.locate("web", there) == Place(repo.folder, "the folder you stand in", certain=False)


def test_a_checkout_named_like_the_project_is_certain(repo: Repo, known: Map) -> None:
    assert checkouts.locate("project", replace(known, standing=repo.folder)).certain


def test_an_item_without_a_project_is_refused_unless_the_checkout_is_said(repo: Repo, known: Map) -> None:
    with pytest.raises(LaunchRefused, match="--dir, or give the item its project"):
        checkouts.locate(None, known)
    inside = repo.folder / "deep"
    inside.mkdir()

    assert checkouts.locate(None, known, directory=Path("deep")) == Place(repo.folder, "--dir", certain=True)


def test_a_checkout_of_another_project_is_refused_unless_forced(repo: Repo, other: Repo, known: Map) -> None:
    claimed = replace(known, repos={"web": repo.folder})
    elsewhere = replace(known, repos={"mail": other.folder})

    with pytest.raises(LaunchRefused, match=r"which dispatch\.repos says is web, and the item is for mail"):
        checkouts.locate("mail", claimed)
    with pytest.raises(LaunchRefused, match=r"which dispatch\.repos says is web, and the item is for mail"):
        checkouts.locate("mail", claimed, directory=repo.folder)
    with pytest.raises(LaunchRefused, match=f"dispatch.repos.mail says that mail is {other.folder}"):
        checkouts.locate("mail", elsewhere, directory=repo.folder)
    for map_ in (claimed, elsewhere):
        assert checkouts.locate("mail", map_, directory=repo.folder, force=True).folder == repo.folder


def test_a_project_may_share_its_checkout_and_its_worktrees(repo: Repo, known: Map, tmp_path: Path) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    shared = replace(known, repos={"web": repo.folder, "mail": repo.folder})

    assert checkouts.locate("mail", shared).folder == repo.folder
    assert checkouts.locate("mail", shared, directory=tmp_path / "side").folder == tmp_path / "side"


@pytest.mark.parametrize("mapped", ["gone", "no-checkout"])
def test_a_map_that_leads_nowhere_is_refused_and_not_passed_over(known: Map, tmp_path: Path, mapped: str) -> None:
    (tmp_path / "no-checkout").mkdir()

    with pytest.raises(LaunchRefused, match=f"dispatch.repos.mail is .*{mapped}, which is not inside a git checkout"):
        checkouts.locate("mail", replace(known, repos={"mail": tmp_path / mapped}))


def test_outside_of_any_checkout_the_map_is_asked_for(known: Map, tmp_path: Path) -> None:
    with pytest.raises(LaunchRefused, match=r"dispatch\.repos\.mail names no checkout either"):
        checkouts.locate("mail", replace(known, standing=tmp_path))


def test_a_runs_own_worktree_is_nothing_to_start_from(repo: Repo, known: Map) -> None:
    worktree = known.home / "worktrees" / "project" / "0b101010"
    worktree.parent.mkdir(parents=True)
    repo.git("worktree", "add", "-q", "-b", "run", str(worktree))

    with pytest.raises(LaunchRefused, match="a run's own worktree"):
        checkouts.locate("mail", replace(known, standing=worktree))
    with pytest.raises(LaunchRefused, match="a run's own worktree"):
        checkouts.without_item(known, directory=worktree)


def test_a_task_in_free_words_is_for_the_checkout_one_stands_in(repo: Repo, other: Repo, known: Map) -> None:
    assert checkouts.without_item(known).folder == repo.folder
    assert checkouts.without_item(known, directory=other.folder).folder == other.folder
