from __future__ import annotations

from batonpass.store import migrate
from batonpass.testing.commands import Baton


def test_the_policy_is_shown_as_people_say_it(baton: Baton) -> None:
    assert baton.ok("policy").out.splitlines() == [
        "project           every project",
        "claim ttl         45 min",
        "at most           8 h",
        "reserve grace     2 d",
        "lapse limit       5",
        "run limit         10",
        "max claims        50",
        "agents may ready  no",
        "paused            no",
    ]


def test_a_change_is_of_what_is_named_and_of_nothing_else(baton: Baton) -> None:
    baton.ok("policy", "--project", "demo", "--claim-ttl", "90s", "--agents-may-ready", "--max-claims", "3")

    changed = baton.json("policy", "--project", "demo")

    assert (changed["claim_ttl_ms"], changed["max_claims"], changed["agents_may_ready"]) == (90_000, 3, True)
    assert changed["claim_ttl_max_ms"] == 8 * 3_600_000
    assert baton.json("policy")["claim_ttl_ms"] == 45 * 60_000


def test_a_pause_refuses_claims_with_its_reason_and_a_resume_lets_them_through(baton: Baton) -> None:
    task, held = baton.task("a"), baton.task("b")
    baton.ok("claim", held)

    assert "claims of demo are refused" in baton.ok("pause", "--project", "demo", "--reason", "release day").out
    refused = baton("claim", task)

    assert refused.code == 1
    assert "release day" in refused.err
    assert "baton resume" in refused.err
    baton.ok("renew", held)
    assert baton.ok("resume", "--project", "demo").out == "claims of demo go through\n"
    baton.ok("claim", task)


def test_a_pause_of_every_project_outlives_the_resume_of_one(baton: Baton) -> None:
    baton.ok("pause", "--reason", "all hands")

    resumed = baton.ok("resume", "--project", "demo").out

    assert resumed == "claims of demo are still refused, for every project is paused: baton resume\n"
    assert baton.json("resume")["paused"] is None
    assert baton.json("pause", "--reason", "again")["paused"] == "again"


def test_a_policy_is_an_admins_to_change(baton: Baton) -> None:
    with baton.as_agent("mill"):
        ran = baton("pause", "--reason", "x")

    assert ran.code == 6


def test_what_is_running_is_told_for_people_and_for_programs(baton: Baton) -> None:
    told = baton.ok("status").out.splitlines()

    assert told[1].split() == ["database", "sqlite,", "schema", str(len(migrate.known("sqlite")))]
    assert set(baton.json("status")) == {
        "ok", "version", "schema", "node_count", "time", "database", "incarnation",
    }  # fmt: skip


def test_whose_token_is_used_is_told_for_people(baton: Baton) -> None:
    assert baton.ok("whoami").out.splitlines() == [
        "person    person-ada-reader",
        "name      Ada Reader",
        "email     ada@example.org",
        "identity  person:person-ada-reader",
        "admin     yes",
        "scope     write",
    ]
