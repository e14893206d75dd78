"""`baton serve` as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
import pytest

from batonpass.cli import local
from batonpass.client.client import Client
from batonpass.core.clock import instant_of
from batonpass.testing.commands import BATON, Baton
from batonpass.testing.issuer import AUDIENCE, ISSUER, Issuer
from batonpass.testing.points import environment, wait_paused

WAIT_S_MAX = 30


@contextmanager
def serving(*argv: str, environ: Mapping[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve while the block runs, and give the process and its address once it says it."""
    command = [str(BATON), "serve", "--port", "0", "--json", *argv]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environ or {})}
    ) as process:
        try:
            assert process.stdout is not None
            said = json.loads(process.stdout.readline())
            assert said["pid"] == process.pid
            yield process, said["url"]
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return how the process ended and what it said on its standard error."""
    _, err = process.communicate(timeout=WAIT_S_MAX)
    return process.returncode, err


def test_it_says_where_and_answers_there(baton: Baton, database_url: str) -> None:
    token = baton.json("init", "--db", database_url)["token"]

    with serving("--db", database_url) as (process, url), Client(url, token) as client:
        assert url.startswith("http://127.0.0.1:")
        assert client.status().ok
        assert client.me().person == "person-ada-reader"

        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "")


def test_those_who_wait_are_answered_when_it_ends(baton: Baton, sqlite_url: str) -> None:
    token = baton.json("init", "--db", sqlite_url)["token"]
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}

    with serving("--db", sqlite_url) as (process, url), httpx.Client(base_url=url, headers=headers) as client:
        with client.stream("GET", "/v1/events?after=now", timeout=WAIT_S_MAX) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry: ")
            process.send_signal(signal.SIGTERM)
            assert [line for line in lines if line.startswith("data:")] == [], "it ends properly, and not in the middle"
        assert ended(process) == (0, "")


def test_a_person_is_told_in_a_sentence(baton: Baton, sqlite_url: str) -> None:
    baton.ok("init", "--db", sqlite_url)
    command = [str(BATON), "serve", "--port", "0", "--db", sqlite_url]

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("serving on http://127.0.0.1:")
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S_MAX) == 130


def test_commands_reach_it_as_they_reach_the_local_database(baton: Baton, sqlite_url: str) -> None:
    token = baton.json("init", "--db", sqlite_url)["token"]

    with serving("--db", sqlite_url) as (_, url), baton.under(token):
        baton.ok("add", "Over the wire", "--id", "task-a", "--server", url)
        assert [item["id"] for item in baton.json("queue", "--server", url)["items"]] == ["task-a"]


def test_a_token_that_would_travel_in_the_clear_is_warned_about_beside_the_document(
    baton: Baton, sqlite_url: str
) -> None:
    """Case 168: the warning is due, and is not on standard output."""
    token = baton.json("init", "--db", sqlite_url)["token"]

    with serving("--db", sqlite_url, "--host", "127.0.0.2") as (_, url), baton.under(token):
        ran = baton.ok("status", "--json", "--server", url)

    assert ran.json["ok"]
    assert ran.err == f"warning: {url} (from --server) is not encrypted; others can read your token\n"


def test_without_a_database_it_serves_this_machines_own(baton: Baton) -> None:
    baton.task("a")
    token = baton.json("token", "add")["token"]

    with serving() as (_, url), Client(url, token) as client:
        assert [item.id for item in client.queue().items] == ["task-a"]


def test_a_database_without_people_is_served_with_a_hint(home: Path, sqlite_url: str) -> None:
    with serving("--db", sqlite_url) as (process, _):
        process.send_signal(signal.SIGTERM)
        code, err = ended(process)

    assert code == 0
    assert err == "nobody can use this database yet; make its first person: baton init --db URL\n"
    assert not home.exists()


@pytest.mark.usefixtures("home")
def test_a_schema_from_the_future_is_refused_in_words(baton: Baton, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'future.db'}"
    baton.ok("init", "--db", url)
    connection = sqlite3.connect(tmp_path / "future.db")
    with connection:
        connection.execute("INSERT INTO schema_migrations (version, name) VALUES (9999, '9999_pre_x')")
    connection.close()

    ran = subprocess.run([BATON, "serve", "--db", url], capture_output=True, text=True, timeout=WAIT_S_MAX, check=False)

    assert ran.returncode == 1
    assert ran.stderr.startswith("baton: the database's schema is at version 9999;")
    assert "Traceback" not in ran.stderr


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize(
    "argv, code, words",
    [
        (["--port", "65536"], 2, "65535"),
        (["--host", "256.0.0.1", "--db", "sqlite:///x.db"], 1, "cannot listen on 256.0.0.1"),
        (["--db", "sqlite:////nowhere/x.db"], 1, "the folder /nowhere does not exist"),
    ],
    ids=["port", "host", "folder"],
)
def test_what_cannot_be_served_ends_with_a_sentence(argv: list[str], code: int, words: str) -> None:
    ran = subprocess.run([BATON, "serve", *argv], capture_output=True, text=True, timeout=WAIT_S_MAX, check=False)

    assert (ran.returncode, words in ran.stderr, "Traceback" in ran.stderr) == (code, True, False)


@pytest.mark.usefixtures("home")
def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ran = subprocess.run(
            [BATON, "serve", "--port", port], capture_output=True, text=True, timeout=WAIT_S_MAX, check=False
        )

    assert ran.returncode == 1
    assert f"cannot listen on 127.0.0.1, port {port}: " in ran.stderr


def test_a_request_under_way_is_answered_before_it_ends(baton: Baton, sqlite_url: str, tmp_path: Path) -> None:
    """The signal comes between the statements of a change and its commit."""
    token = baton.json("init", "--db", sqlite_url)["token"]
    paused = tmp_path / "paused"
    answered: list[bool] = []
    node = {"id": "task-a", "type": "task", "title": "x", "summary": "x"}

    with serving("--db", sqlite_url, environ=environment(f"group.committing:pause={paused}")) as (process, url):

        def put() -> None:
            with Client(url, token) as client:
                answered.append(client.put_nodes([node]).results[0].ok)

        sender = threading.Thread(target=put)
        sender.start()
        wait_paused(paused)
        process.send_signal(signal.SIGTERM)
        paused.unlink()
        sender.join(WAIT_S_MAX)
        assert ended(process) == (0, "")

    assert answered == [True]
    with local.local_server(sqlite_url) as server, server.client(token) as client:
        assert client.queue().items[0].id == "task-a"


def test_service_accounts_of_an_issuer_are_let_in(baton: Baton, sqlite_url: str, tmp_path: Path) -> None:
    baton.ok("init", "--db", sqlite_url)
    issuer, keys = Issuer(), tmp_path / "keys.json"
    keys.write_bytes(issuer.read())
    token = issuer.token("prod", "remediator", at=instant_of(datetime.now(UTC)))
    believed = {"BATON_JWT_ISSUER": ISSUER, "BATON_JWT_AUDIENCE": AUDIENCE, "BATON_JWT_JWKS": str(keys)}

    with serving("--db", sqlite_url, environ=believed) as (process, url), Client(url, token) as client:
        assert client.me().identity == "sa:prod/remediator"
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "")


def test_an_issuer_who_cannot_be_asked_keeps_nobody_else_out(baton: Baton, sqlite_url: str) -> None:
    token = baton.json("init", "--db", sqlite_url)["token"]
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        nobody = f"http://127.0.0.1:{listening.getsockname()[1]}/keys"
    believed = ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-jwks", nobody)

    with serving("--db", sqlite_url, *believed) as (process, url), Client(url, token) as client:
        assert client.me().is_admin
        process.send_signal(signal.SIGTERM)
        code, err = ended(process)
    assert code == 0
    assert err.startswith(f"warning: no service account is let in until the issuer's keys are there: {nobody}: ")


@pytest.mark.parametrize(
    "options, named",
    [
        (("--jwt-issuer", ISSUER), "jwt-audience: missing"),
        (("--jwt-issuer", ISSUER, "--jwt-audience", "a", "--jwt-jwks", "http://issuer.example/k"), "jwt-jwks: takes"),
        (("--jwt-issuer", ISSUER, "--jwt-audience", "a", "--jwt-jwks", "/no/such/file"), "jwt-jwks: /no/such/file"),
    ],
)
def test_half_an_issuer_is_refused_before_anything_is_served(
    baton: Baton, sqlite_url: str, options: tuple[str, ...], named: str
) -> None:
    ran = baton("serve", "--port", "0", "--db", sqlite_url, *options)
    assert ran.code != 0
    assert ran.err.startswith(f"baton: {named}")


# --- classes that a server is started with ---------------------------------------------------------------------------

NOTES: Final = (
    'name: notes\nfields: {a: {type: register}}\nroles: {r: {identities: ["person:*"], read: "*", write: "*"}}\n'
)


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """Return a folder with one class in it, and with what is none of its business."""
    folder = tmp_path / "classes"
    (folder / "more").mkdir(parents=True)
    (folder / "notes.yaml").write_text(NOTES)
    (folder / ".hidden.yaml").write_text("nothing")
    (folder / "README.md").write_text("# Ours")
    return folder


def test_a_folder_of_classes_is_applied_before_connections_are_taken(
    baton: Baton, sqlite_url: str, classes: Path
) -> None:
    token = baton.json("init", "--db", sqlite_url)["token"]

    with serving("--db", sqlite_url, "--classes", str(classes)) as (_, url), Client(url, token) as client:
        first = client.get_class("notes")
    with serving("--db", sqlite_url, environ={"BATON_CLASSES": str(classes)}) as (_, url), Client(url, token) as client:
        second = client.get_class("notes")

    assert (first.version, first.applied_by) == (1, "system")
    assert second == first


def test_servers_that_start_at_once_with_the_same_classes_make_one_version(
    baton: Baton, database_url: str, classes: Path
) -> None:
    token = baton.json("init", "--db", database_url)["token"]
    command = [str(BATON), "serve", "--port", "0", "--json", "--db", database_url, "--classes", str(classes)]

    with ExitStack() as stack:
        started = [stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)) for _ in range(2)]
        for process in started:
            stack.callback(process.kill)
        urls = [json.loads(process.stdout.readline())["url"] for process in started if process.stdout is not None]
        for url in urls:
            with Client(url, token) as client:
                assert client.get_class("notes").latest == 1

    assert len(urls) == len(started)


@pytest.mark.parametrize(
    "text, said",
    [
        ("name: b\nfields: {}\n", "class b: no-fields: fields: a class has at least one"),
        (NOTES, "class notes stands in "),
    ],
    ids=["wrong", "twice"],
)
def test_a_wrong_class_stops_the_start_before_the_database_is_opened(
    baton: Baton, classes: Path, text: str, said: str
) -> None:
    (classes / "b.yaml").write_text(text)

    ran = baton("serve", "--port", "0", "--db", f"sqlite:///{classes}/new.db", "--classes", str(classes))

    assert (ran.code, said in ran.err, (classes / "new.db").exists()) == (1, True, False), ran.err


def test_a_class_that_would_take_away_what_records_hold_stops_the_start_and_none_of_the_folder_is_applied(
    baton: Baton, sqlite_url: str, classes: Path
) -> None:
    token = baton.json("init", "--db", sqlite_url)["token"]
    with serving("--db", sqlite_url, "--classes", str(classes)) as (_, url), Client(url, token) as client:
        client.records.put("notes/one", "a", 1)
    (classes / "a.yaml").write_text("name: a\nfields: {b: {type: task}}\n")
    (classes / "notes.yaml").write_text("name: notes\nfields: {b: {type: task}}\n")

    ran = baton("serve", "--port", "0", "--db", sqlite_url, "--classes", str(classes))

    assert ran.code == 1
    assert ran.err.startswith("baton: class notes: field a: field-holds-data: 1 record has data in it;")
    with serving("--db", sqlite_url) as (_, url), Client(url, token) as client:
        assert [each.record_class for each in client.list_classes().classes] == ["notes"]


@pytest.mark.parametrize("folder", ["nowhere", "more"])
def test_a_folder_without_classes_is_a_mistake(baton: Baton, sqlite_url: str, classes: Path, folder: str) -> None:
    baton.ok("init", "--db", sqlite_url)

    ran = baton("serve", "--port", "0", "--db", sqlite_url, "--classes", str(classes / folder))

    assert (ran.code, ran.err.startswith(f"baton: classes: {classes / folder}: ")) == (1, True)
