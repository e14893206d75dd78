"""Which agent program is run: the box's word, in the order it gives it, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from batonpass.core.errors import Invalid
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.harness import registry
from batonpass.worker.harness.registry import Box

MINE = {"command": "my-agent", "label": "Mine"}


def program(path: Path, text: str = "#!/bin/sh\necho my-agent 1.2.3-rc.1 on 20.1\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """A box with `codex` and `my-agent` on its PATH."""
    program(tmp_path / "bin" / "codex")
    program(tmp_path / "bin" / "my-agent")
    return Box(environ={"PATH": f"{tmp_path / 'bin'}:/nowhere"}, declared={"mine": MINE})


def test_all_that_could_be_run_is_known_and_what_is_there_is_installed(box: Box, tmp_path: Path) -> None:
    assert registry.known(box) == ("claude-code", "codex", "opencode", "copilot", "gemini", "mine")
    assert [(found.harness.id, found.program, found.source) for found in registry.installed(box)] == [
        ("codex", tmp_path / "bin" / "codex", "PATH"),
        ("mine", tmp_path / "bin" / "my-agent", "dispatch.harness.mine.command"),
    ]


def test_a_variable_is_heard_before_the_configuration_and_that_before_path(tmp_path: Path) -> None:
    first, second, third = (program(tmp_path / name / "codex") for name in ("a", "b", "c"))
    path = {"PATH": str(third.parent)}

    def found(environ: dict[str, str], binaries: dict[str, str]) -> tuple[Path, str]:
        answer = registry.resolve("codex", Box(environ=path | environ, binaries=binaries))
        return answer.program, answer.source

    assert found({"BATON_CODEX_CMD": str(first)}, {"codex": str(second)}) == (first, "BATON_CODEX_CMD")
    assert found({}, {"codex": str(second)}) == (second, "dispatch.bin.codex")
    assert found({}, {}) == (third, "PATH")


@pytest.mark.parametrize("named", ["/nowhere/codex", "./codex", "bin/codex", "no-such-codex", "/", "~nobody/codex"])
def test_nothing_takes_the_place_of_a_binary_that_was_named_and_is_not_there(box: Box, named: str) -> None:
    told = Box(environ={**box.environ, "BATON_CODEX_CMD": named})

    with pytest.raises(LaunchRefused, match="BATON_CODEX_CMD"):
        registry.resolve("codex", told)


def test_a_checkout_has_no_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "codex")
    program(tmp_path / "bin" / "codex")
    monkeypatch.chdir(tmp_path)

    for path in (".", "bin", "", ":", "bin:.:/nowhere"):
        assert registry.installed(Box(environ={"PATH": path})) == ()


def test_a_file_that_can_not_be_run_is_no_program(tmp_path: Path) -> None:
    program(tmp_path / "codex").chmod(0o644)

    with pytest.raises(LaunchRefused, match="codex"):
        registry.resolve("codex", Box(environ={"PATH": "/nowhere"}, binaries={"codex": str(tmp_path / "codex")}))


def test_an_unknown_harness_is_refused_and_those_that_are_known_are_listed(box: Box) -> None:
    with pytest.raises(LaunchRefused, match=r"'pi'; known are claude-code, codex, .*, mine"):
        registry.resolve("pi", box)


def test_the_only_program_need_not_be_named_and_of_several_one_must(box: Box, tmp_path: Path) -> None:
    alone = Box(environ=box.environ)
    nothing = Box(environ={"PATH": "/nowhere"})

    assert registry.only(alone).harness.id == "codex"
    with pytest.raises(LaunchRefused, match=rf"codex \({tmp_path}/bin/codex\), mine"):
        registry.only(box)
    with pytest.raises(LaunchRefused, match="looked for claude-code, codex"):
        registry.only(nothing)


@pytest.mark.parametrize("taken", ["codex", "command"])
def test_no_description_takes_the_name_of_a_harness_of_ours(taken: str) -> None:
    with pytest.raises(Invalid) as refused:
        Box(environ={}, declared={taken: MINE})

    assert refused.value.field == f"dispatch.harness.{taken}"


def test_a_wrong_description_is_refused_before_anything_is_run() -> None:
    with pytest.raises(Invalid) as refused:
        Box(environ={}, declared={"mine": {"command": 1}})

    assert refused.value.field == "dispatch.harness.mine.command"


def test_a_description_makes_the_same_harness_elsewhere(box: Box) -> None:
    found = registry.resolve("mine", box)

    assert registry.harness(found.harness.id, found.description) == found.harness
    assert registry.harness("codex").id == "codex"
    with pytest.raises(LaunchRefused, match="'mine'"):
        registry.harness("mine")


def test_a_program_tells_its_version_unless_it_will_not(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.resolve("mine", box)

    assert registry.version(found, box.environ) == "1.2.3-rc.1"
    program(found.program, "#!/bin/sh\nexit 3\n")
    assert registry.version(found, box.environ) is None
    program(found.program, "#!/bin/sh\nexec /bin/sleep 600\n")
    monkeypatch.setattr(registry, "VERSION_TIMEOUT_S", 0.05)
    assert registry.version(found, box.environ) is None
    found.program.unlink()
    assert registry.version(found, box.environ) is None


def test_asking_for_a_version_hands_over_no_token_of_ours(box: Box, tmp_path: Path) -> None:
    found = registry.resolve("mine", box)
    program(found.program, f'#!/bin/sh\nenv > "{tmp_path}/env"\npwd >> "{tmp_path}/env"\necho 1.0\n')

    registry.version(found, {**box.environ, "BATON_TOKEN": "bat_pat_x", "GH_TOKEN": "y"})

    told = (tmp_path / "env").read_text().splitlines()
    assert told[-1] == "/"
    assert not [line for line in told if "bat_pat_x" in line or line.startswith("GH_TOKEN")]


def test_what_is_nowhere_on_path_is_refused_in_these_words(tmp_path: Path) -> None:
    box = Box(environ={"PATH": str(tmp_path)})

    with pytest.raises(LaunchRefused, match=r"^codex: no codex on PATH; .* BATON_CODEX_CMD$"):
        registry.resolve("codex", box)
