"""`baton key`: through a server, and at a database itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from batonpass.cli import local
from batonpass.client.client import Client
from batonpass.core.errors import Unauthorized
from batonpass.testing.commands import Baton

NAME = "remediator/worker-1"


def identity(client: Client) -> str | None:
    """Return who the client's token says it is, None when it opens nothing."""
    try:
        return client.me().identity
    except Unauthorized:
        return None


def test_a_database_at_hand_needs_no_server_and_no_token(baton: Baton, database_url: str) -> None:
    made = baton.json("key", "create", NAME, "--db", database_url)

    assert set(made) == {"identity", "token"}
    assert made["identity"] == f"apikey:{NAME}"
    with local.local_server(database_url) as server, server.client(made["token"]) as client:
        assert identity(client) == f"apikey:{NAME}"
    (listed,) = baton.json("key", "list", "--db", database_url)["keys"]
    assert (listed["name"], listed["created_by"]) == (NAME, "system")
    ended = baton.json("key", "revoke", NAME, "--db", database_url)
    assert (ended["identity"], ended["hash_prefix"]) == (f"apikey:{NAME}", listed["hash_prefix"])
    with local.local_server(database_url) as server, server.client(made["token"]) as client:
        assert identity(client) is None


def test_the_variable_keeps_the_database_off_the_command_line(
    baton: Baton, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BATON_DB", sqlite_url)
    baton.ok("key", "create", NAME)
    monkeypatch.delenv("BATON_DB")

    assert NAME in baton.ok("key", "list", "--db", sqlite_url).out
    assert baton.ok("key", "list").out == "no keys\n", "this machine's own database has none"


def test_a_database_that_is_not_there_has_no_keys_and_is_not_begun(baton: Baton, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.db"
    for command in (["list"], ["revoke", NAME]):
        ran = baton("key", *command, "--db", f"sqlite:///{nowhere}")

        assert (ran.code, str(nowhere) in ran.err, nowhere.exists()) == (4, True, False), command


def test_a_server_and_a_database_are_not_asked_at_once(baton: Baton, sqlite_url: str) -> None:
    ran = baton("key", "list", "--db", sqlite_url, "--server", "http://127.0.0.1:1")
    assert ran.code == 2
    assert "--db" in ran.err


def test_for_a_person_the_secret_stands_alone_on_output(baton: Baton) -> None:
    made = baton.ok("key", "create", NAME, "--expires", "30d")

    secret = made.out.strip()
    assert secret.startswith("bat_key_")
    assert made.out == f"{secret}\n"
    assert made.err.startswith(f"the key of apikey:{NAME} until ")
    assert secret not in made.err + baton.ok("key", "list").out
    with baton.under(secret):
        assert baton.json("whoami")["identity"] == f"apikey:{NAME}"
        assert f"identity  apikey:{NAME}" in baton.ok("whoami").out
        assert baton("add", "A task").code == 6, "it writes records, not the graph"


def test_what_a_server_answers_is_passed_on_whole(baton: Baton) -> None:
    made = baton.json("key", "create", NAME, "--read-only")

    assert made.keys() == {"identity", "name", "token", "hash_prefix", "expires", "scope"}
    assert made["scope"] == "read"


@pytest.mark.parametrize("at", ["server", "database"])
def test_a_second_key_of_a_name_takes_a_word_for_it(baton: Baton, sqlite_url: str, at: str) -> None:
    where = ("--db", sqlite_url) if at == "database" else ()
    baton.ok("key", "create", NAME, *where)

    again = baton("key", "create", NAME, *where)
    replaced = baton.ok("key", "create", NAME, "--replace", *where)

    assert again.code == 1
    assert f"apikey:{NAME} has a live key" in again.err
    assert "of that name has ended" in replaced.err
    assert len(baton.json("key", "list", *where)["keys"]) == 1


@pytest.mark.parametrize("at", ["server", "database"])
@pytest.mark.parametrize("by", ["name", "identity", "prefix"])
def test_a_key_is_ended_by_its_name_or_the_beginning_of_its_hash(
    baton: Baton, sqlite_url: str, at: str, by: str
) -> None:
    where = ("--db", sqlite_url) if at == "database" else ()
    for name in (NAME, "other"):
        baton.ok("key", "create", name, *where)
    key = next(key for key in baton.json("key", "list", *where)["keys"] if key["name"] == NAME)
    which = {"name": NAME, "identity": key["identity"], "prefix": key["hash_prefix"]}[by]

    assert baton.ok("key", "revoke", which, *where).out == f"apikey:{NAME} ({key['hash_prefix']}) is revoked\n"
    assert baton.ok("key", "revoke", key["hash_prefix"], *where).out.endswith(" was revoked before\n")
    assert [each["name"] for each in baton.json("key", "list", *where)["keys"]] == ["other"]


@pytest.mark.parametrize("at", ["server", "database"])
def test_a_name_that_looks_like_a_prefix_goes_before_it(baton: Baton, sqlite_url: str, at: str) -> None:
    where = ("--db", sqlite_url) if at == "database" else ()
    baton.ok("key", "create", NAME, *where)
    (key,) = baton.json("key", "list", *where)["keys"]
    baton.ok("key", "create", key["hash_prefix"], *where)

    assert baton.ok("key", "revoke", key["hash_prefix"], *where).out.startswith(f"apikey:{key['hash_prefix']} (")
    assert baton.ok("key", "revoke", key["hash_prefix"], *where).out.startswith(f"apikey:{NAME} (")


@pytest.mark.parametrize("at", ["server", "database"])
def test_a_key_that_is_not_there_is_not_ended(baton: Baton, sqlite_url: str, at: str) -> None:
    where = ("--db", sqlite_url) if at == "database" else ()
    baton.ok("key", "create", NAME, *where)

    for which in ("0123456789ab", "nobody"):
        ran = baton("key", "revoke", which, *where)
        assert ran.code == 4
        assert which in ran.err
        assert "baton key list" in ran.err
    assert len(baton.json("key", "list", *where)["keys"]) == 1


@pytest.mark.parametrize("name", ["", "a//b", "a b", "apikey:a", "../a"])
def test_what_is_no_name_is_refused_before_anything_is_asked(baton: Baton, name: str) -> None:
    ran = baton("key", "create", name, "--server", "http://127.0.0.1:1")
    assert ran.code == 2


@pytest.mark.parametrize("at", ["server", "database"])
def test_a_list_that_was_cut_says_how_it_goes_on(baton: Baton, sqlite_url: str, at: str) -> None:
    where = ("--db", sqlite_url) if at == "database" else ()
    for name in ("a", "b", "c"):
        baton.ok("key", "create", name, *where)

    first = baton.json("key", "list", "--limit", "2", *where)
    rest = baton.json("key", "list", "--after", first["next"], *where)

    assert [key["name"] for key in first["keys"] + rest["keys"]] == ["a", "b", "c"]
