"""Local mode at its first use, and when what it has stored is no good any more."""

from __future__ import annotations

import json
import os
import pwd
import socket
import sqlite3
import stat
import subprocess
from pathlib import Path

import httpx
import pytest

from batonpass.cli import local
from batonpass.cli.context import connect
from batonpass.client import config, identity_calls
from batonpass.core.errors import Unauthorized
from batonpass.testing.commands import BATON, Baton

WAIT_S_MAX = 60


def stored(home: Path) -> config.Local:
    found = config.credentials(home).local
    assert found is not None
    return found


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def test_the_first_use_makes_the_person_git_knows_and_an_agent_of_this_machine(baton: Baton) -> None:
    assert baton.json("whoami") == {
        "person": "person-ada-reader",
        "name": "Ada Reader",
        "email": "ada@example.org",
        "bound": True,
        "is_admin": True,
        "org": "org-root",
        "scope": "write",
        "identity": "person:person-ada-reader",
    }
    (agent,) = baton.json("agent", "list")["agents"]
    assert (agent["owner"], agent["label"]) == ("person-ada-reader", agent["id"].removeprefix("agent-"))
    assert stored(baton.home).agent is not None
    assert (mode(baton.home), mode(baton.home / "credentials.json")) == ("0o700", "0o600")


def test_a_second_use_is_the_same_person(baton: Baton) -> None:
    baton.ok("whoami")
    before = (baton.home / "credentials.json").read_bytes()

    baton.ok("whoami")

    assert (baton.home / "credentials.json").read_bytes() == before
    assert len(baton.json("person", "list")["people"]) == 1


def test_without_git_the_operating_system_says_who_it_is(baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    me = baton.json("whoami")

    assert me["name"]
    assert "@" in me["email"]


def test_a_user_the_system_has_not_heard_of_is_somebody_too(baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    def unheard_of(uid: int) -> object:
        raise KeyError(uid)

    Path("~/.gitconfig").expanduser().unlink()
    monkeypatch.setattr(pwd, "getpwuid", unheard_of)

    assert baton.json("whoami")["name"] == f"User {os.getuid()}"


def test_a_folder_for_a_database_that_cannot_be_made_is_named(home: Path) -> None:
    (home.parent / "file").write_text("")

    with pytest.raises(config.ConfigError, match="set BATON_HOME to a folder of yours"):
        local.local_server(f"sqlite:///{home.parent}/file/x.db").__enter__()


def test_a_name_that_can_be_nobodys_here_gives_way_to_the_systems(baton: Baton) -> None:
    Path("~/.gitconfig").expanduser().write_text('[user]\n\tname = "Ada"\n\temail = "not an address"\n')

    assert baton.json("whoami")["email"].endswith("@localhost")


def test_the_machines_agent_works_under_its_own_name(baton: Baton) -> None:
    baton.ok("whoami")
    agent = stored(baton.home).agent
    assert agent is not None

    with baton.under(agent.token):
        assert baton.json("whoami")["agent"] == agent.agent


def test_a_stored_token_that_opens_nothing_is_replaced(baton: Baton) -> None:
    baton.ok("whoami")
    local_ = stored(baton.home)
    for each in baton.json("token", "list")["tokens"]:
        baton.ok("token", "revoke", each["hash_prefix"])

    assert baton.json("whoami")["person"] == "person-ada-reader"
    assert stored(baton.home).person.token != local_.person.token
    assert stored(baton.home).agent == local_.agent


def test_lost_credentials_are_made_anew_for_who_has_the_database(baton: Baton) -> None:
    baton.task("a")
    (baton.home / "credentials.json").unlink()

    assert baton.json("whoami")["person"] == "person-ada-reader"
    assert [item["id"] for item in baton.json("queue")["items"]] == ["task-a"]


def test_a_database_that_was_removed_is_begun_anew(baton: Baton) -> None:
    baton.task("a")
    for path in baton.home.glob("baton.db*"):
        path.unlink()

    assert baton.json("queue")["items"] == []
    assert baton.json("whoami")["person"] == "person-ada-reader"


def test_what_is_stored_for_servers_is_kept(baton: Baton) -> None:
    baton.home.mkdir()
    with config.changing(baton.home):
        servers = {"https://a.test": config.Token("bat_pat_x")}
        config.save_credentials(baton.home, config.Credentials(servers))

    baton.ok("whoami")

    assert config.credentials(baton.home).servers == servers


def test_two_first_uses_at_once_are_one_person_and_one_agent(baton: Baton) -> None:
    first_uses = [subprocess.Popen([BATON, "whoami"], stdout=subprocess.DEVNULL) for _ in range(4)]

    assert [each.wait(WAIT_S_MAX) for each in first_uses] == [0, 0, 0, 0]
    assert len(baton.json("person", "list")["people"]) == 1
    assert len(baton.json("agent", "list")["agents"]) == 1
    assert len(baton.json("token", "list")["tokens"]) == 1


def test_a_home_folder_that_cannot_be_made_is_named(baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path.cwd() / "file").write_text("")
    monkeypatch.setenv("BATON_HOME", str(Path.cwd() / "file"))

    ran = baton("queue")

    assert ran.code == 2
    assert ran.err == f"baton: {Path.cwd()}/file/config.json: Not a directory\n"


def test_a_database_of_a_newer_version_is_refused_in_words(baton: Baton) -> None:
    baton.ok("whoami")
    with sqlite3.connect(baton.home / "baton.db") as connection:
        connection.execute("INSERT INTO schema_migrations (version, name) VALUES (9999, '9999_pre_x')")
    connection.close()

    ran = baton("queue")

    assert ran.code == 1
    assert "Install the newer Batonpass" in ran.err


def test_children_reach_the_same_server_over_a_port_while_it_is_served(baton: Baton) -> None:
    baton.task("a")
    with local.serve_local(baton.home) as served:
        child = subprocess.run(
            [BATON, "queue", "--json"],
            env={**os.environ, "BATON_HOME": str(baton.home / "run"), "BATON_SERVER": served.address,
                 "BATON_TOKEN": served.agent.token},
            capture_output=True, timeout=WAIT_S_MAX, check=True,
        )  # fmt: skip
        assert [item["id"] for item in json.loads(child.stdout)["items"]] == ["task-a"]
        with served.client() as mine:
            assert mine.me().person == "person-ada-reader"
        assert served.inside(as_agent=True).me().agent == served.agent.agent

    with pytest.raises(httpx.ConnectError):
        httpx.get(served.address)
    assert not (baton.home / "run").exists(), "the child opened a database of its own"


def test_the_address_children_get_is_on_this_machine_only(baton: Baton) -> None:
    with local.serve_local(baton.home) as served:
        host, port = served.address.removeprefix("http://").split(":")

        assert host == "127.0.0.1"
        with pytest.raises(OSError, match="refused"), socket.create_connection(("127.0.0.2", int(port)), 1):
            pytest.fail("reached from elsewhere")


def test_git_tells_a_setting_or_that_there_is_none(home: Path) -> None:
    from batonpass.worker import git

    at = git.Checkout(Path.cwd(), {"HOME": str(Path.cwd()), "PATH": os.environ["PATH"]})

    assert git.setting(at, "user.name") == "Ada Reader"
    assert git.setting(at, "user.signingkey") is None
    assert not home.exists()


def test_a_program_speaks_to_what_the_commands_do_as_whom_they_do(baton: Baton) -> None:
    with connect() as client:
        assert client.send(identity_calls.me()).person == "person-ada-reader"

    with baton.as_agent("mill"), connect() as client:
        assert client.send(identity_calls.me()).agent == "agent-mill"

    with pytest.raises(Unauthorized, match="no token for"), connect(server="http://127.0.0.1:9"):
        pass
