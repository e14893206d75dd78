from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId, RunId
from batonpass.testing.repos import Repo
from batonpass.worker import git, worktree
from batonpass.worker.crew import Crew
from batonpass.worker.dispatch import hooks
from batonpass.worker.dispatch.hooks import Site
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.worktree import Worktree

RUN = RunId("0b101010-0000-4000-8000-000000000001")


@pytest.fixture
def site(repo: Repo, tmp_path: Path) -> Site:
    repo.commit(".gitignore", "cache/\n")
    tree = Worktree(
        tmp_path / "worktrees" / "it's here", "refs/heads/baton/task-1-0b101010", repo.head(), repo.checkout
    )
    worktree.create(tree)
    inherited = {**repo.person, "BATON_TOKEN": "bat_pat_AAAA", "GIT_DIR": "/nowhere", "HOOK": "yes"}
    return Site(tree=tree, run=RUN, slug="mail", node=NodeId("task-1"), inherited=inherited)


@pytest.fixture
def script(repo: Repo) -> Callable[[str], tuple[str, ...]]:
    """Write a hook into the checkout, and return the command that names it as a configuration there would."""

    def write(text: str) -> tuple[str, ...]:
        path = repo.folder / "tools" / "hook"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return ("tools/hook",)

    return write


Script = Callable[[str], tuple[str, ...]]


def test_a_set_up_stands_in_the_worktree_and_knows_what_it_is_for(site: Site, repo: Repo, script: Script) -> None:
    hooks.set_up(script("mkdir cache; env > cache/env; pwd > cache/pwd; test ! -t 0"), site)

    told = dict(line.split("=", 1) for line in (site.tree.path / "cache/env").read_text().splitlines())
    assert told["BATON_WORKTREE"] == str(site.tree.path)
    assert told["BATON_MAIN_CHECKOUT"] == str(repo.folder)
    assert (told["BATON_DISPATCH_SLUG"], told["BATON_DISPATCH_NODE"]) == ("mail", "task-1")
    assert told["HOOK"] == "yes"
    assert not {"BATON_TOKEN", "BATON_SERVER", "GIT_DIR"} & told.keys()
    assert (site.tree.path / "cache/pwd").read_text() == f"{site.tree.path}\n"


def test_a_set_up_does_not_hold_up_whoever_is_told_to_stop(site: Site, tmp_path: Path) -> None:
    stopping = threading.Event()
    stopping.set()
    waiting = tmp_path / "ended"

    with pytest.raises(LaunchRefused, match="set-up hook: it was stopped before it had ended"):
        hooks.set_up(("sh", "-c", f"sleep 3600; touch {shlex.quote(str(waiting))}"), site, stopping=stopping)

    assert Crew(RUN).look() == frozenset()
    assert not waiting.exists()


def test_without_project_and_item_their_variables_are_empty(site: Site, script: Script) -> None:
    bare = Site(tree=site.tree, run=RUN, slug=None, node=None, inherited=site.inherited)

    hooks.set_up(script('test "$BATON_DISPATCH_SLUG$BATON_DISPATCH_NODE" = ""'), bare)


def test_a_set_up_that_fails_is_refused_in_its_own_words_and_leaves_the_worktree_as_it_was_made(
    site: Site, script: Script
) -> None:
    made = "mkdir cache lib; touch cache/a lib/b; echo changed > README.md"
    failing = script(f"{made}; echo no bat_pat_BBBBCCCCDDDD >&2; exit 3")

    with pytest.raises(LaunchRefused, match=r"set-up hook ended with exit code 3: no bat_pat_\[redacted\]"):
        hooks.set_up(failing, site)

    assert worktree.discard(site.tree) == ()
    assert not site.tree.path.exists()


@pytest.mark.parametrize("copy", ["cp -a . ../copy && cd ../copy", 'cd "$BATON_MAIN_CHECKOUT"'])
def test_a_set_up_that_moves_the_index_or_head_of_its_source_is_refused(site: Site, script: Script, copy: str) -> None:
    with pytest.raises(LaunchRefused, match=r"HEAD or the index of .* moved"):
        hooks.set_up(script(f"{copy} && echo new > new.txt && git add new.txt"), site)


def test_a_set_up_that_checks_out_something_else_in_a_copy_is_refused_and_the_tree_kept(
    site: Site, script: Script
) -> None:
    with pytest.raises(LaunchRefused, match=f"HEAD or the index of {site.tree.path} moved"):
        hooks.set_up(script("cp -a . ../copy && cd ../copy && git checkout --quiet --detach"), site)

    assert worktree.discard(site.tree) != (), "it is not as we made it, and so it is a person's to look at"


def test_an_index_that_was_only_touched_has_not_moved(site: Site, script: Script) -> None:
    hooks.set_up(script("touch README.md .gitignore && git update-index --refresh"), site)


def test_a_set_up_that_takes_too_long_is_stopped_with_all_that_it_started(site: Site, script: Script) -> None:
    with pytest.raises(LaunchRefused, match=r"did not end within 0\.3 s"):
        hooks.set_up(script("setsid sleep 60 & sleep 60"), site, timeout_s=0.3)

    assert Crew(RUN).look() == frozenset()


@pytest.mark.parametrize("command", [("tools/none",), ("no-such-command-here",)])
def test_a_set_up_that_is_not_there_is_refused(site: Site, command: tuple[str, ...]) -> None:
    with pytest.raises(LaunchRefused, match="set-up hook could not be started"):
        hooks.set_up(command, site)


def test_a_tear_down_that_fails_says_so_and_stands_in_the_way_of_nothing(site: Site, script: Script) -> None:
    assert hooks.tear_down(script("exit 0"), site) is None
    assert hooks.tear_down(script("exit 7"), site) == "the tear-down hook ended with exit code 7"
    site.tree.path.rename(site.tree.path.with_name("elsewhere"))
    assert hooks.tear_down(script("exit 0"), site) is not None


def test_scouring_leaves_nothing_but_the_commit(site: Site) -> None:
    inside = site.tree.path
    (inside / "README.md").write_text("changed")
    (inside / "cache" / "deep").mkdir(parents=True)
    (inside / "cache" / "deep" / "ignored").write_text("x")
    os.mkfifo(inside / "untracked")

    git.scour(site.tree.inside)

    assert git.status(site.tree.inside) == git.Status((), (), ())


@pytest.mark.parametrize(
    "value, words",
    [
        ("make  ready", ("make", "ready")),
        ('run "a b"', ("run", "a b")),
        (["./set up.sh", "-v"], ("./set up.sh", "-v")),
    ],
)
def test_a_command_is_a_line_or_a_list_of_words(value: object, words: tuple[str, ...]) -> None:
    assert hooks.parse_command(value, field="dispatch.worktreeSetup") == words


@pytest.mark.parametrize("value", ["", " ", [], [""], [1], 3, None, {"a": 1}, 'open "quotation'])
def test_what_is_no_command_is_refused_by_the_name_of_its_key(value: object) -> None:
    with pytest.raises(Invalid, match=r"dispatch\.worktreeSetup: "):
        hooks.parse_command(value, field="dispatch.worktreeSetup")
