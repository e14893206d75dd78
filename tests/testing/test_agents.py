"""Installing agent programs: once, whole, the pinned version; or a reason that a skipped test can show."""

from __future__ import annotations

from pathlib import Path

import pytest

from batonpass.testing import agents

NPM = """\
#!/bin/sh
echo "$@" >> "{log}"
mkdir -p node_modules/.bin
printf '#!/bin/sh\\necho codex-cli {version}\\n' > node_modules/.bin/codex
chmod +x node_modules/.bin/codex
exit {code}
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What npm was told; there is nothing in the cache."""
    monkeypatch.setenv(agents.FOLDER_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    write(tmp_path / "node", "#!/bin/sh\n")
    return tmp_path / "log"


def write(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def npm(log: Path, *, code: int = 0, version: str = agents.PACKAGES["codex"].version) -> None:
    write(log.with_name("npm"), NPM.format(log=log, code=code, version=version))


def test_a_program_is_installed_once_in_the_version_that_is_pinned(log: Path, tmp_path: Path) -> None:
    npm(log)

    program = agents.install("codex")

    assert program == agents.install("codex")
    assert program.is_relative_to(tmp_path / "cache")
    (told,) = log.read_text().splitlines()
    assert told.startswith("install ")
    assert told.endswith(f" @openai/codex@{agents.PACKAGES['codex'].version}")


@pytest.mark.parametrize("code, version, why", [(7, "0.171.0", "ended with 7"), (0, "0.171.01", "does not say")])
def test_what_failed_is_said_and_not_tried_again_at_once(log: Path, code: int, version: str, why: str) -> None:
    npm(log, code=code, version=version)

    with pytest.raises(agents.NotInstalled, match=why):
        agents.install("codex")
    npm(log)
    with pytest.raises(agents.NotInstalled, match=why):
        agents.install("codex")

    assert len(log.read_text().splitlines()) == 1


def test_without_npm_there_is_a_reason(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(log.parent))

    with pytest.raises(agents.NotInstalled, match="no npm"):
        agents.install("codex")


def test_every_program_can_be_set_up_and_asked_for_a_model(tmp_path: Path) -> None:
    assert list(agents.MODELS) == list(agents.PACKAGES)
    for name in agents.PACKAGES:
        environ = agents.person(name, tmp_path / name, "http://127.0.0.1:1")
        files = [path.read_text() for path in tmp_path.joinpath(name).rglob("*") if path.is_file()]
        assert any("http://127.0.0.1:1" in text for text in [*environ.values(), *files])
