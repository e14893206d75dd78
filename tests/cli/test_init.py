from __future__ import annotations

import functools
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal

from batonpass.cli import local
from batonpass.client import config
from batonpass.store.open import open_store
from batonpass.testing.commands import Baton

WHO = ("--name", "Grace Host", "--email", "grace@example.org")


def test_the_first_person_and_their_token_are_all_that_is_printed(baton: Baton, database_url: str) -> None:
    made = baton.json("init", "--db", database_url, *WHO)

    assert set(made) == {"person", "token"}
    assert made["person"] == "person-grace-host"
    with local.local_server(database_url) as server, server.client(made["token"]) as client:
        me = client.me()
    assert (me.person, me.email, me.is_admin) == ("person-grace-host", "grace@example.org", True)


def test_for_a_person_the_token_stands_alone_on_output(baton: Baton, sqlite_url: str) -> None:
    ran = baton.ok("init", "--db", sqlite_url, *WHO)

    assert ran.out.startswith("bat_pat_")
    assert ran.out.count("\n") == 1
    assert ran.err == "person-grace-host is the first person here, and an admin; this token is shown once:\n"


def test_nothing_secret_is_kept_unless_asked(baton: Baton, sqlite_url: str) -> None:
    made = baton.json("init", "--db", sqlite_url, *WHO)

    kept = [
        path for path in baton.home.parent.rglob("*") if path.is_file() and made["token"].encode() in path.read_bytes()
    ]

    assert kept == []


def test_the_token_is_stored_for_the_server_it_will_be_used_with(baton: Baton, sqlite_url: str) -> None:
    made = baton.json("init", "--db", sqlite_url, *WHO, "--save", "--server", "https://baton.example.org/")

    found = config.load({"BATON_HOME": str(baton.home)})

    assert found.server == config.Value("https://baton.example.org", str(baton.home / "config.json"))
    assert found.token is not None
    assert found.token.text == made["token"]


def test_a_database_that_has_people_is_refused(baton: Baton, sqlite_url: str) -> None:
    baton.ok("init", "--db", sqlite_url, *WHO)

    ran = baton("init", "--db", sqlite_url, *WHO)

    assert ran.code == 1
    assert "has its people already" in ran.err
    assert ran.out == ""


def test_without_a_name_it_is_whoever_uses_this_machine_and_without_a_database_this_machines(baton: Baton) -> None:
    assert baton.json("init")["person"] == "person-ada-reader"
    assert baton.json("whoami")["person"] == "person-ada-reader"


@pytest.mark.parametrize(
    "argv, code, words",
    [
        (["--db", "mysql://x"], 1, "is no database we know"),
        (["--db", "sqlite:///x.db", "--email", "nobody"], 1, "email"),
        (["--save"], 2, "--save and --server belong together"),
        (["--server", "https://a.test"], 2, "--save and --server belong together"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_makes_no_sense_is_refused(argv: list[str], code: int, words: str, baton: Baton) -> None:
    ran = baton("init", *argv)

    assert (ran.code, words in ran.err) == (code, True)


def test_the_database_can_be_named_where_no_list_of_processes_shows_it(
    baton: Baton, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_DB", sqlite_url)

    baton.ok("init", *WHO)

    assert Path(sqlite_url.removeprefix("sqlite:///")).exists()
    with start_blocking_portal() as portal:
        store = portal.call(functools.partial(open_store, sqlite_url, upgrade=False))
        portal.call(store.close)
