from __future__ import annotations

import json
from pathlib import Path

import pytest

from batonpass.client.config import ConfigError
from batonpass.core.capabilities import parse_capabilities
from batonpass.worker import boxfile, capabilities
from batonpass.worker.boxfile import BoxFile


def read(home: Path, **said: object) -> BoxFile:
    return read_under({}, home, said)


def read_under(environ: dict[str, str], home: Path, said: dict[str, object]) -> BoxFile:
    (home / "config.json").write_text(json.dumps({"dispatch": said}))
    return boxfile.read(home, environ)


def program(folder: Path, name: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return folder / name


def test_what_is_here_is_found_beside_what_was_declared(tmp_path: Path) -> None:
    for name in ("codex", "gh", "graph-tools"):
        program(tmp_path / "bin", name)
    said = read(
        tmp_path,
        mcp={"graph": {"command": "graph-tools serve"}, "gone": {"command": ["not-here"]}},
        capabilities={"probed": {"harnesses": ["gemini"]}, "declared": {"skills": ["sql"]}, "deny": ["profile-x"]},
    )

    layers = capabilities.look(said, {"PATH": str(tmp_path / "bin")})

    merged = layers.merged()
    assert merged.harnesses == ("codex",), "what an earlier probe found and is gone does not count"
    assert (merged.reachable_mcp, merged.skills, merged.gh, merged.deny) == (("graph",), ("sql",), True, ("profile-x",))
    assert parse_capabilities(capabilities.as_document(layers)).merged() == merged


def test_looking_writes_nothing(tmp_path: Path) -> None:
    said = read(tmp_path)
    before = sorted(tmp_path.rglob("*"))

    capabilities.look(said, {"PATH": str(tmp_path)})

    assert sorted(tmp_path.rglob("*")) == before


def test_the_home_says_what_its_box_is_like(tmp_path: Path) -> None:
    said = read(
        tmp_path,
        agent="agent-mill",
        repos={"mail": "src/mail", "web": "/srv/web"},
        worktreeSetup="make ready",
        worktreeTeardown=["docker", "compose", "down"],
        template="mine.md",
        allowPersonToken=True,
    )

    assert (said.agent, said.allow_person) == ("agent-mill", True)
    assert said.repos == {"mail": tmp_path / "src/mail", "web": Path("/srv/web")}
    assert (said.set_up, said.tear_down) == (("make", "ready"), ("docker", "compose", "down"))
    assert said.template == tmp_path / "mine.md"


def test_without_a_file_nothing_is_said(tmp_path: Path) -> None:
    assert boxfile.read(tmp_path, {}) == BoxFile()


@pytest.mark.parametrize("said, allowed", [("1", True), ("No", False), ("", False)])
def test_the_environment_goes_before_the_file(tmp_path: Path, said: str, allowed: bool) -> None:  # noqa: FBT001
    there = read_under({boxfile.ALLOW_PERSON: said}, tmp_path, {"allowPersonToken": not allowed})

    assert there.allow_person is allowed


@pytest.mark.parametrize(
    "said, named",
    [
        ({"agent": "Mill"}, "dispatch.agent"),
        ({"worktreeSetup": ""}, "dispatch.worktreeSetup"),
        ({"mcp": {"graph": {"command": []}}}, r"dispatch\.mcp\.graph\.command"),
        ({"capabilities": {"skills": [3]}}, "skills"),
        ({"repos": []}, r"\$\.dispatch\.repos"),
        ({"allowPersonToken": "yes"}, "allowPersonToken"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key_and_its_file(tmp_path: Path, said: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named) as refused:
        read_under({}, tmp_path, said)
    assert str(tmp_path / "config.json") in str(refused.value)


def test_a_variable_that_is_neither_yes_nor_no_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="neither yes nor no"):
        boxfile.read(tmp_path, {boxfile.ALLOW_PERSON: "maybe"})
