"""Where a worker's settings come from, and what a checkout has no say in (case 172)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from batonpass.client.config import ConfigError
from batonpass.core.queue import Accept
from batonpass.worker import config
from batonpass.worker.config import CHECKOUT_FILE, Config, Flags, Sourced, disposable_in


@dataclass
class Place:
    """A home, a checkout, and an environment to set up from."""

    home: Path
    checkout: Path
    environ: dict[str, str]

    def said(self, where: Path, **document: object) -> Path:
        path = where / ("config.json" if where == self.home else ".baton.json")
        path.write_text(json.dumps(document))
        return path

    def load(self, flags: Flags | None = None) -> Config:
        deep = self.checkout / "src"
        deep.mkdir(exist_ok=True)
        return config.under(flags or Flags(), config.load(self.home, self.environ, deep))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    for name in ("home", "checkout"):
        (tmp_path / name).mkdir()
    (tmp_path / "checkout" / ".git").mkdir()
    return Place(tmp_path / "home", tmp_path / "checkout", {})


def test_the_nearest_word_counts_and_its_place_is_known(place: Place) -> None:
    assert place.load().accept == Sourced(Accept.READY, "default")
    home = place.said(place.home, work={"accept": "open", "concurrency": 4})
    assert place.load().accept == Sourced(Accept.OPEN, str(home))
    checkout = place.said(place.checkout, work={"accept": "ready"})
    assert place.load().accept == Sourced(Accept.READY, str(checkout))
    place.environ["BATON_WORK_ACCEPT"] = "open"
    assert place.load().accept == Sourced(Accept.OPEN, "BATON_WORK_ACCEPT")
    assert place.load(Flags(accept="ready")).accept == Sourced(Accept.READY, "--accept")
    assert place.load().concurrency == Sourced(4, str(home))


def test_what_stands_above_a_checkout_is_not_its_word(place: Place) -> None:
    place.said(place.checkout.parent, work={"accept": "open"})

    assert place.load().accept == Sourced(Accept.READY, "default")


def test_a_folder_in_no_checkout_is_looked_at_alone(place: Place, tmp_path: Path) -> None:
    loose = tmp_path / "loose" / "deep"
    loose.mkdir(parents=True)
    for folder, concurrency in ((loose.parent, 7), (loose, 3)):
        place.said(folder, work={"concurrency": concurrency})
    loaded = config.under(Flags(), config.load(place.home, place.environ, loose))

    assert loaded.concurrency == Sourced(3, str(loose / ".baton.json"))


@pytest.mark.parametrize("word", ["readdy", "OPEN", " ready ", ""])
def test_an_unknown_policy_refuses_to_start_wherever_it_stands(place: Place, word: str) -> None:
    with pytest.raises(ConfigError, match=r"--accept: .*"):
        place.load(Flags(accept=word))
    place.environ["BATON_WORK_ACCEPT"] = word
    with pytest.raises(ConfigError, match="BATON_WORK_ACCEPT: "):
        place.load()
    del place.environ["BATON_WORK_ACCEPT"]
    path = place.said(place.home, work={"accept": word})
    with pytest.raises(ConfigError) as raised:
        place.load()
    assert str(path) in str(raised.value)
    assert "work.accept" in str(raised.value)


@pytest.mark.parametrize("said", ["readdy", "", ["ready"], None])
def test_a_refusal_lists_what_would_do(place: Place, said: object) -> None:
    place.said(place.home, work={"accept": said})

    with pytest.raises(ConfigError, match="one of ready, open"):
        place.load()


@pytest.mark.parametrize(
    "section, key, value",
    [
        ("work", "accept", ["ready"]),
        ("work", "concurrency", 0),
        ("work", "concurrency", 1001),
        ("work", "concurrency", True),
        ("work", "concurrency", "3"),
        ("work", "intervalMs", 999),
        ("work", "maxIntervalMs", 86_400_001),
        ("work", "retryAfterMs", -1),
        ("work", "retryAfterMs", 30 * 86_400_000 + 1),
        ("work", "runIdleMs", 1.5),
        ("work", "runMaxMs", 0),
        ("work", "diskFreeMin", -1),
        ("work", "project", ""),
        ("dispatch", "runRetentionMs", 2**63),
        ("worktree", "disposable", "node_modules"),
        ("worktree", "disposable", [1]),
    ],
)
def test_a_value_that_makes_no_sense_refuses_to_start_and_is_named(
    place: Place, section: str, key: str, value: object
) -> None:
    path = place.said(place.home, **{section: {key: value}})

    with pytest.raises(ConfigError) as raised:
        place.load()

    assert f"{path}: {section}.{key}: " in str(raised.value)


@pytest.mark.parametrize("text", [b"{", b"[]", b'"work"', b"\xff", b" " * (config.BYTES_MAX + 1)])
def test_a_malformed_file_refuses_to_start(place: Place, text: bytes) -> None:
    path = place.checkout / ".baton.json"
    path.write_bytes(text)

    with pytest.raises(ConfigError, match=r"\.baton\.json: "):
        place.load()


def test_a_checkout_has_no_say_in_what_runs_here_or_as_whom(place: Place) -> None:
    place.said(place.home, dispatch={"bin": {"codex": "/opt/codex"}})
    place.said(
        place.checkout,
        server="http://evil.test",
        token="bat_pat_x",
        agent="agent-evil",
        dispatch={
            "bin": {"codex": "./evil"},
            "harness": {"mine": {"command": "./evil"}},
            "capabilities": {"harnesses": ["codex"]},
            "mcp": {"x": {"command": "./evil"}},
            "agent": "agent-evil",
            "repos": {"mail": "/"},
            "allowPersonToken": True,
            "runRetentionMs": 0,
        },
    )

    found = place.load()

    assert found.box.binaries == {"codex": "/opt/codex"}
    assert (found.box.declared, found.box.mcp, found.box.agent, found.box.repos) == ({}, {}, None, {})
    assert found.box.allow_person is False
    assert found.retention == Sourced(timedelta(days=14), "default")
    assert len(found.warnings) == 11
    assert all("passed over" in warning for warning in found.warnings)


def test_keys_that_mean_nothing_are_said(place: Place) -> None:
    path = place.said(place.home, work={"acept": "open"}, dispath={})

    assert place.load().warnings == (
        f"{path}: 'work.acept' means nothing, and is passed over",
        f"{path}: 'dispath' means nothing, and is passed over",
    )


def test_a_checkouts_template_is_one_of_its_own_files(place: Place) -> None:
    place.said(place.checkout, dispatch={"template": "prompts/ours.md"})
    assert place.load().template.value == place.checkout / "prompts/ours.md"

    place.said(place.checkout, dispatch={"template": "../home/credentials.json"})

    with pytest.raises(ConfigError, match="is not below"):
        place.load()


def test_a_duration_on_the_command_line_is_bounded_like_one_in_a_file(place: Place) -> None:
    assert place.load(Flags(run_idle=timedelta(0))).run_idle_s == Sourced(0.0, "--run-idle")
    with pytest.raises(ConfigError, match=r"--interval: 0\.5 s is not between 1 s and 86400 s"):
        place.load(Flags(interval=timedelta(seconds=0.5)))
    with pytest.raises(ConfigError, match="--concurrency"):
        place.load(Flags(concurrency=1001))


def test_of_a_repository_whose_settings_cannot_be_read_nothing_counts_as_made_anew(tmp_path: Path) -> None:
    (tmp_path / CHECKOUT_FILE).write_text("{")

    assert disposable_in(tmp_path / "home", tmp_path) == ()
    (tmp_path / CHECKOUT_FILE).write_text('{"worktree": {"disposable": ["build"]}}')
    assert disposable_in(tmp_path / "home", tmp_path) == ("build",)
