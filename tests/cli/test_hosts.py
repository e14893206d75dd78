"""What machines can run and which will do for a profile, as commands; and the word of a budget that is used up."""

from __future__ import annotations

import json
from pathlib import Path

from batonpass.testing.commands import Baton

PROFILE = "profile-strong"


def with_profile(baton: Baton) -> None:
    """Put a profile into the graph, and an agent."""
    baton.ok("add", "Strong", "--type", "profile", "--id", PROFILE)
    baton.ok("edit", PROFILE, "--set", "harness=codex")
    baton.ok("agent", "add", "Mill")


def test_what_an_agent_can_run_is_published_from_a_file_and_shown(baton: Baton, tmp_path: Path) -> None:
    with_profile(baton)
    axes = tmp_path / "axes.json"
    axes.write_text(json.dumps({"probed": {"harnesses": ["codex"], "gh": True}, "deny": ["profile-weak"]}))

    published = baton.json("agent", "capabilities", "agent-mill", "--publish", str(axes))
    shown = baton.ok("agent", "capabilities", "agent-mill").out

    assert (published["changed"], published["capabilities"]["harnesses"]) == (True, ["codex"])
    assert "codex" in shown
    assert "profile-weak" in shown


def test_what_was_never_published_can_not_be_shown(baton: Baton) -> None:
    with_profile(baton)

    ran = baton("agent", "capabilities", "agent-mill")

    assert (ran.code, "has never published" in ran.err) == (4, True)


def test_a_file_that_is_none_or_no_object_is_refused(baton: Baton, tmp_path: Path) -> None:
    with_profile(baton)
    (tmp_path / "list.json").write_text("[]")

    for name, why in (("none.json", "can't be read"), ("list.json", "is no JSON object")):
        ran = baton("agent", "capabilities", "agent-mill", "--publish", str(tmp_path / name))
        assert (ran.code != 0, why in ran.err) == (True, True), ran


def test_hosts_are_listed_with_why_each_will_not_do(baton: Baton, tmp_path: Path) -> None:
    with_profile(baton)
    none = baton.ok("hosts", PROFILE)
    axes = tmp_path / "axes.json"
    axes.write_text('{"harnesses": ["gemini"]}')
    baton.ok("agent", "capabilities", "agent-mill", "--publish", str(axes))

    shown = baton.ok("hosts", PROFILE, "--max-age", "12h").out
    told = baton.json("hosts", PROFILE)

    assert "no machine of yours" in none.out + none.err
    assert "the harness codex is not there, only gemini" in shown
    assert told["counts"] == {"satisfiable": 0, "unsatisfiable": 1, "stale": 0}
