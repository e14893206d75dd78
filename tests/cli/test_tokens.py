"""Tokens, agents and people: secrets appear once, on standard output, and are never an argument."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from batonpass.cli import local
from batonpass.client import config
from batonpass.testing.commands import Baton


def read_from(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have the next command read `text` from standard input."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_a_token_is_printed_alone_and_what_to_know_of_it_beside(baton: Baton) -> None:
    made = baton.ok("token", "add", "--label", "laptop", "--expires", "30d")

    secret = made.out.strip()
    assert secret.startswith("bat_pat_")
    assert secret not in made.err
    with baton.under(secret):
        assert baton.json("whoami")["person"] == "person-ada-reader"
    assert secret not in baton.ok("token", "list").out


def test_a_revoked_token_opens_nothing(baton: Baton) -> None:
    made = baton.json("token", "add", "--label", "laptop")

    assert baton.ok("token", "revoke", made["hash_prefix"]).out == f"{made['hash_prefix']} is revoked\n"
    assert baton.ok("token", "revoke", made["hash_prefix"]).out == f"{made['hash_prefix']} was revoked before\n"
    with baton.under(made["token"]):
        ran = baton("whoami")
    assert ran.code == 6


def test_a_reading_token_writes_nothing(baton: Baton) -> None:
    task = baton.task("a")
    made = baton.json("token", "add", "--read-only")

    with baton.under(made["token"]):
        assert baton.ok("queue").code == 0
        assert baton("claim", task).code == 6


def test_agents_are_made_and_work_under_tokens_of_their_own(baton: Baton) -> None:
    made = baton.ok("agent", "add", "Mill")
    standing = baton.ok("agent", "token", "agent-mill", "--standing", "--label", "service").out.strip()
    session = baton.json("agent", "token", "agent-mill", "--session", "s1", "--expires", "12h")

    assert made.out == "agent-mill of person-ada-reader\n"
    assert made.err == "a token for it: baton agent token agent-mill --standing\n"
    with baton.under(standing):
        assert baton.json("whoami")["agent"] == "agent-mill"
    assert session["session"] == "s1"
    tokens = baton.json("agent", "tokens", "agent-mill")["tokens"]
    assert sorted(token["kind"] for token in tokens) == ["session", "standing"]
    assert "service" in baton.ok("agent", "tokens", "agent-mill").out
    assert "is revoked" in baton.ok("agent", "revoke", "agent-mill", session["hash_prefix"]).out
    assert "Mill" in baton.ok("agent", "list", "--all").out


def test_a_runs_token_ends_with_its_tenure(baton: Baton) -> None:
    task = baton.task("a")
    baton.ok("claim", task)
    baton.ok("agent", "add", "mill")
    with baton.as_agent("mill"):
        other = baton.task("b")
        baton.ok("claim", other)
    run = baton.json("agent", "token", "agent-mill", "--node", other, "--epoch", "1")

    with baton.under(run["token"]):
        assert baton.json("whoami")["run"] == {"resource": "task-b", "epoch": 1}
        baton.ok("set", other, "--priority", "p1")
    baton.ok("release", other)
    with baton.under(run["token"]):
        assert baton("set", other, "--priority", "p2").code in {3, 6}
    assert baton("agent", "token", "agent-mill", "--node", other).code == 2


def test_a_session_is_bound_once(baton: Baton) -> None:
    baton.ok("agent", "add", "mill")
    token = baton.json("agent", "token", "agent-mill")["token"]

    with baton.under(token):
        assert baton.ok("agent", "bind", "s1").out == "agent-mill is bound to session s1\n"
        assert baton("agent", "bind", "s2").code == 1


def test_the_agent_workers_work_as_is_kept_in_the_configuration(baton: Baton) -> None:
    baton.ok("agent", "use", "agent-mill")

    found = config.load({"BATON_HOME": str(baton.home)})

    assert found.agent == config.Value("agent-mill", str(baton.home / "config.json"))
    assert config.load({"BATON_HOME": str(baton.home), "BATON_AGENT": "agent-kiln"}).agent == config.Value(
        "agent-kiln", "BATON_AGENT"
    )


def test_each_command_about_tokens_agents_and_people_prints_the_wires_answer(baton: Baton) -> None:
    assert baton.json("agent", "add", "mill")["id"] == "agent-mill"
    token = baton.json("agent", "token", "agent-mill")
    with baton.under(token["token"]):
        assert baton.json("agent", "bind", "s1") == {"ok": True, "agent": "agent-mill", "session": "s1"}
    assert baton.json("agent", "revoke", "agent-mill", token["hash_prefix"])["ok"]
    assert baton.json("person", "add", "--name", "Bob", "--email", "b@example.org", "--admin")["is_admin"]
    mine = baton.json("token", "add")
    assert baton.json("token", "revoke", mine["hash_prefix"])["hash_prefix"] == mine["hash_prefix"]


def test_people_are_added_by_admins_and_get_their_token_from_them(baton: Baton) -> None:
    added = baton.ok("person", "add", "--name", "Bob Builder", "--email", "bob@example.org")
    token = baton.json("token", "add", "--person", "person-bob-builder")["token"]

    assert added.out == "person-bob-builder\n"
    assert "bob@example.org" in baton.ok("person", "list").out
    assert len(baton.json("token", "list", "--person", "person-bob-builder")["tokens"]) == 1
    with baton.under(token):
        assert baton("person", "list").code == 6


def test_a_token_is_stored_for_its_server_once_it_is_known_to_be_good(
    baton: Baton, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    baton.task("a")
    home = baton.home.parent / "other"
    with local.serve_local(baton.home) as served:
        monkeypatch.setenv("BATON_HOME", str(home))
        there = Baton(home, capsys.readouterr)

        read_from(monkeypatch, "bat_pat_wrong\n")
        refused = there("token", "save", "--server", served.address)
        assert refused.code == 6
        assert not home.exists()

        read_from(monkeypatch, f"{served.person.token}\n")
        saved = there.ok("token", "save", "--server", served.address)

        assert saved.out == f"stored for {served.address}: person-ada-reader\n"
        assert served.person.token not in saved.out + saved.err
        assert [item["id"] for item in there.json("queue")["items"]] == ["task-a"]
        assert not (home / "baton.db").exists()
        assert (home / "credentials.json").stat().st_mode & 0o077 == 0


def test_saving_a_token_asks_for_which_server(baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    read_from(monkeypatch, "bat_pat_x\n")

    ran = baton("token", "save")

    assert (ran.code, "for which server?" in ran.err) == (2, True)


def test_a_server_without_a_token_says_where_one_goes(baton: Baton) -> None:
    ran = baton("queue", "--server", "https://a.test")

    assert ran.code == 6
    assert "there is no token for https://a.test (from --server): set BATON_TOKEN" in ran.err
    assert "baton token save" in ran.err


def test_a_token_the_server_does_not_know_is_traced_to_where_it_came_from(baton: Baton) -> None:
    with local.serve_local(baton.home) as served, baton.under("bat_pat_wrong"):
        ran = baton("whoami", "--server", served.address)

    assert ran.code == 6
    assert "  the token came from BATON_TOKEN, the server from --server" in ran.err.splitlines()


def test_no_command_takes_a_token_as_an_argument() -> None:
    """Case 162: what stands on a command line is public."""
    source = Path(local.__file__).parent
    assert [path.name for path in source.glob("*.py") if "--token" in path.read_text(encoding="utf-8")] == []
