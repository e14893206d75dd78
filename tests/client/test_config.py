from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from batonpass.client import config
from batonpass.client.config import ConfigError, Credentials, Local, Token, Value

PAT = "bat_pat_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
AGT = "bat_agt_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
A, B = "https://a.test", "https://b.test"


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"BATON_HOME": str(home), **more}


def store(home: Path, name: str, content: object, *, mode: int = 0o600) -> Path:
    """Write a file of the home folder, as a person would."""
    path = home / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    path.chmod(mode)
    return path


def test_without_anything_all_is_local_and_there_is_no_token_yet(tmp_path: Path) -> None:
    found = config.load(environ(tmp_path))

    assert (found.server, found.token, found.agent) == (None, None, None)
    assert found.database_url == f"sqlite:///{tmp_path}/baton.db"


def test_the_home_folder_is_dot_baton_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home-of-somebody")

    assert config.home_of({}) == Path("/home-of-somebody/.baton")
    assert config.home_of({"BATON_HOME": "~/x"}) == Path("/home-of-somebody/x")


def test_a_flag_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    path = store(tmp_path, "config.json", {"server": "https://file.test", "work": {"accept": "ready"}})

    in_file = config.load(environ(tmp_path))
    in_environment = config.load(environ(tmp_path, BATON_SERVER="https://env.test/"))
    on_the_line = config.load(environ(tmp_path, BATON_SERVER="https://env.test"), server="https://flag.test")

    assert in_file.server == Value("https://file.test", str(path))
    assert in_environment.server == Value("https://env.test", "BATON_SERVER")
    assert on_the_line.server == Value("https://flag.test", "--server")


def test_empty_values_count_as_not_given(tmp_path: Path) -> None:
    assert config.load(environ(tmp_path, BATON_SERVER="", BATON_TOKEN=""), server="").server is None


@pytest.mark.parametrize(
    "text, expected",
    [
        ("https://A.test/", "https://a.test"),
        (" http://127.0.0.1:7777 ", "http://127.0.0.1:7777"),
        ("https://a.test/baton/", "https://a.test/baton"),
        ("http://[::1]:80", "http://[::1]:80"),
    ],
)
def test_an_address_has_one_form(text: str, expected: str) -> None:
    assert config.parse_address(text, source="x") == expected


@pytest.mark.parametrize("named", ["~nosuch-person/x", "~nosuch-person"])
def test_a_home_in_nobodys_home_is_refused_in_words(named: str) -> None:
    with pytest.raises(ConfigError, match=r"^BATON_HOME: .*~nosuch-person.*name a whole path"):
        config.load({"BATON_HOME": named})


@pytest.mark.parametrize(
    "text",
    [
        "a.test",
        "ftp://a.test",
        "https://",
        "/var/run/baton.sock",
        "sqlite:///x",
        "http://[::1",
        "http://a.test:port",
        "http://a.test:99999",
        "http://a.test:0",
    ],
)
def test_what_is_no_address_is_refused_by_its_source(text: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^BATON_SERVER: .* is no server's address"):
        config.load(environ(tmp_path, BATON_SERVER=text))


@pytest.mark.parametrize("text", ["https://me:pass@a.test", "https://a.test?token=x", "https://a.test#x"])
def test_secrets_do_not_belong_into_an_address(text: str) -> None:
    with pytest.raises(ConfigError, match="goes into BATON_TOKEN") as refused:
        config.parse_address(text, source="--server")

    assert "pass" not in str(refused.value).replace("password", "")


@pytest.mark.parametrize(
    "address, expected",
    [
        ("http://a.test", True),
        ("http://10.0.0.1:80", True),
        ("http://127.0.0.1:7777", False),
        ("http://localhost:7777", False),
        ("http://[::1]:7777", False),
        ("https://a.test", False),
    ],
)
def test_a_token_over_plain_http_to_another_machine_is_in_the_clear(address: str, *, expected: bool) -> None:
    assert config.in_the_clear(address) is expected


def test_a_stored_token_is_for_its_own_server_only(tmp_path: Path) -> None:
    store(tmp_path, "credentials.json", {"servers": {A: {"token": PAT}}})

    mine = config.load(environ(tmp_path, BATON_SERVER=A))
    other = config.load(environ(tmp_path, BATON_SERVER=B))

    assert mine.token == Value(PAT, str(tmp_path / "credentials.json"))
    assert other.token is None


def test_a_token_in_the_environment_goes_before_a_stored_one(tmp_path: Path) -> None:
    store(tmp_path, "credentials.json", {"servers": {A: {"token": PAT}}})

    assert config.load(environ(tmp_path, BATON_SERVER=A, BATON_TOKEN=AGT)).token == Value(AGT, "BATON_TOKEN")


def test_locally_the_persons_token_is_used(tmp_path: Path) -> None:
    store(tmp_path, "credentials.json", {"local": {"person": {"token": PAT}, "agent": {"token": AGT}}})

    found = config.load(environ(tmp_path)).token

    assert found is not None
    assert found.text == PAT


def test_in_a_run_the_home_folder_is_the_runs_and_no_other_credential_is_found(tmp_path: Path) -> None:
    """D49, H33: what the owner has stored elsewhere is not looked for."""
    owners, runs = tmp_path / "owner", tmp_path / "run"
    owners.mkdir()
    store(owners, "credentials.json", {"servers": {A: {"token": PAT}}})

    found = config.load(environ(runs, HOME=str(owners.parent), BATON_SERVER=A, BATON_TOKEN=AGT))
    without = config.load(environ(runs, HOME=str(owners.parent), BATON_SERVER=A))

    assert found.token == Value(AGT, "BATON_TOKEN")
    assert without.token is None


@pytest.mark.parametrize("text", ["two words", "", "\u00fcmlaut", "x" * 1001, "a\nb"], ids=ascii)
def test_what_is_no_token_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^stdin: this is no token") as refused:
        config.parse_token(text, source="stdin")

    assert not text or text not in str(refused.value)


@pytest.mark.parametrize(
    "content, words",
    [
        ("{", "not a JSON object we can read"),
        ("[]", "not a JSON object we can read"),
        ('{"server": 7}', "Expected `str | null`"),
    ],
)
def test_a_malformed_file_is_named_and_not_passed_over(content: str, words: str, tmp_path: Path) -> None:
    path = store(tmp_path, "config.json", content)

    with pytest.raises(ConfigError) as refused:
        config.load(environ(tmp_path))

    assert str(refused.value).startswith(f"{path}: ")
    assert words in str(refused.value)


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").mkdir()

    with pytest.raises(ConfigError, match=r"config\.json: Is a directory"):
        config.load(environ(tmp_path))


def test_credentials_that_others_can_read_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = store(tmp_path, "credentials.json", {"servers": {A: {"token": PAT}}}, mode=0o640)

    with pytest.raises(ConfigError, match=rf"mode 0640\); run: chmod 600 {path}"):
        config.load(environ(tmp_path, BATON_SERVER=A))


def test_saved_credentials_come_back_and_are_the_owners_alone(tmp_path: Path) -> None:
    home = tmp_path / "new"
    stored = Credentials({A: Token(PAT, person="person-a")}, Local(Token(PAT), Token(AGT)))

    with config.changing(home):
        config.save_credentials(home, stored)

    assert config.credentials(home) == stored
    assert oct((home / "credentials.json").stat().st_mode & 0o777) == "0o600"
    assert oct(home.stat().st_mode & 0o777) == "0o700"


def test_saving_one_setting_keeps_the_others(tmp_path: Path) -> None:
    store(tmp_path, "config.json", {"work": {"accept": "ready"}, "agent": "agent-a"})

    with config.changing(tmp_path):
        config.save_setting(tmp_path, "server", A)
        config.save_setting(tmp_path, "agent", None)

    assert json.loads((tmp_path / "config.json").read_text()) == {"work": {"accept": "ready"}, "server": A}


def test_a_home_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="set BATON_HOME to a folder of yours"), config.changing(tmp_path / "file"):
        pytest.fail("locked a folder that does not exist")


def test_two_processes_change_the_files_one_after_the_other(tmp_path: Path) -> None:
    inside, entered_second = threading.Event(), threading.Event()

    def second() -> None:
        assert inside.wait(10)
        with config.changing(tmp_path):
            entered_second.set()

    thread = threading.Thread(target=second)
    thread.start()
    with config.changing(tmp_path):
        inside.set()
        assert not entered_second.wait(0.05)
    thread.join(10)

    assert entered_second.is_set()


def test_secrets_are_not_in_what_prints_itself() -> None:
    local = Local(Token(PAT, person="person-a"), Token(AGT))

    assert PAT not in repr(Value(PAT, "BATON_TOKEN"))
    assert PAT not in repr(Credentials({A: Token(PAT)}, local))
    assert AGT not in repr(local)
