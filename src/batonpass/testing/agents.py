"""Real agent programs for tests: installed once for the person who runs them, and pointed at a scripted model.

    program = agents.install("codex")                 # NotInstalled says why there is none
    environ = agents.person("codex", home, model.url) # as somebody who has set the program up

Each is pinned, comes from the package registry that npm is set up for, and
lives in a cache folder, never in this repository: some may not be passed on.
The folder is $BATON_TEST_AGENTS, else in the person's cache. Whoever comes
first installs, under a lock; what failed is not tried again for a while.

    python -m batonpass.testing.agents [NAME ...]     # install, and say where
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import platformdirs

FOLDER_VARIABLE: Final = "BATON_TEST_AGENTS"
INSTALL_S_MAX: Final = 300.0
"""How long npm may take; the largest takes some 10 s from a near registry."""
VERSION_S_MAX: Final = 60.0
FAILED_S: Final = 600.0
"""How long a failed installation stands, so that not every test waits for it once more."""
REASON_CHARS_MAX: Final = 400
_DONE: Final = "installed"
_FAILED: Final = "failed"


class NotInstalled(Exception):
    """The program is not there and can't be installed here; the message says why."""


@dataclass(frozen=True, slots=True)
class Package:
    """An npm package: `version` is the one this project is tried against, `binary` what of it is started."""

    name: str
    version: str
    binary: str

    @property
    def folder(self) -> str:
        """What its folder in the cache is called."""
        return f"{self.name.lstrip('@').replace('/', '-')}-{self.version}"


PACKAGES: Final[Mapping[str, Package]] = {
    "codex": Package("@openai/codex", "0.171.0", "codex"),
    "opencode": Package("opencode-ai", "1.18.33", "opencode"),
    "claude-code": Package("@anthropic-ai/claude-code", "2.1.332", "claude"),
    "copilot": Package("@github/copilot", "1.0.102", "copilot"),
    "gemini": Package("@google/gemini-cli", "0.61.0", "gemini"),
}
"""By the id of their harness, the ones that are quick to start first."""


def install(name: str) -> Path:
    """Return the program of harness `name`, installing it if it is not there; `NotInstalled` says why it can't be."""
    package = PACKAGES[name]
    folder = _cache() / package.folder
    if not (folder / _DONE).exists():
        with _locked(folder.with_name(f"{folder.name}.lock")):
            if not (folder / _DONE).exists():
                _install(package, folder)
    return _program(package, folder)


def person(name: str, home: Path, model_url: str) -> dict[str, str]:
    """Return the environment of somebody at home in `home` whose harness `name` asks the model at `model_url`.

    It is set up as the program's own manual says, in files of the home or in
    variables, and tries a failed request once or twice again where that can be set.
    """
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "LANG": "C.UTF-8",
        **_set_up(name, home, model_url),
    }
    for kept in ("TMPDIR", "NODE_EXTRA_CA_CERTS"):
        if kept in os.environ:
            environ[kept] = os.environ[kept]
    return environ


def _set_up(name: str, home: Path, url: str) -> dict[str, str]:
    match name:
        case "codex":
            _write(home / ".codex" / "config.toml", _CODEX.format(url=url))
            return {"OPENAI_API_KEY": "made-up"}
        case "opencode":
            _write(home / ".config" / "opencode" / "opencode.json", json.dumps(_opencode(url)))
            return dict.fromkeys(
                ("OPENCODE_DISABLE_AUTOUPDATE", "OPENCODE_DISABLE_MODELS_FETCH", "OPENCODE_DISABLE_DEFAULT_PLUGINS"),
                "1",
            )
        case "claude-code":
            quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_AUTOUPDATER", "DISABLE_TELEMETRY")
            return {
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "made-up",
                "CLAUDE_CODE_MAX_RETRIES": "1",
                **dict.fromkeys(quiet, "1"),
            }
        case "copilot":
            return {
                "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
                "COPILOT_PROVIDER_TYPE": "openai",
                "COPILOT_PROVIDER_API_KEY": "made-up",
                "COPILOT_MODEL": "scripted",
                "COPILOT_OFFLINE": "true",
                # Some 180 MB are unpacked at the first start; one copy will do for all homes.
                "COPILOT_CACHE_HOME": str(_cache() / "copilot-unpacked"),
            }
        case "gemini":
            _write(home / ".gemini" / "settings.json", json.dumps(_GEMINI))
            return {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "made-up"}
        case _:
            raise KeyError(name)


MODELS: Final[Mapping[str, str]] = {
    "codex": "gpt-5",
    "opencode": "scripted/scripted",
    "claude-code": "claude-sonnet-4-5",
    "copilot": "scripted",
    "gemini": "gemini-2.5-flash",
}
"""What to ask each program for: a name that it takes, whatever model it then speaks with."""
_CODEX: Final = """\
model_provider = "scripted"
check_for_update_on_startup = false

[analytics]
enabled = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
request_max_retries = 1
stream_max_retries = 1
"""
_GEMINI: Final = {
    "general": {"enableAutoUpdate": False, "maxAttempts": 2},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "security": {"auth": {"selectedType": "gemini-api-key"}},
}


def _opencode(url: str) -> dict[str, object]:
    model = {"name": "scripted", "tool_call": True, "limit": {"context": 200_000, "output": 8_000}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "scripted",
        "options": {"baseURL": f"{url}/v1", "apiKey": "made-up"},
        "models": {"scripted": model},
    }
    return {
        "autoupdate": False,
        "share": "disabled",
        "model": "scripted/scripted",
        "small_model": "scripted/scripted",
        "provider": {"scripted": provider},
    }


def _install(package: Package, folder: Path) -> None:
    failed = folder.with_name(f"{folder.name}.{_FAILED}")
    if failed.exists() and time.time() - failed.stat().st_mtime < FAILED_S:
        raise NotInstalled(failed.read_text())
    try:
        _run_npm(package, folder)
        _require_version(package, folder)
    except NotInstalled as reason:
        failed.write_text(str(reason))
        raise
    (folder / _DONE).write_text(f"{package.version}\n")
    failed.unlink(missing_ok=True)


def _run_npm(package: Package, folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise NotInstalled(f"{package.name} is not installed: there is no npm or no node on PATH")
    # What an earlier try left half done is not built upon.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}\n')
    quietly = ("--no-audit", "--no-fund", "--no-progress", "--loglevel=error", "--fetch-retries=1")
    argv = [npm, "install", *quietly, "--save-exact", f"{package.name}@{package.version}"]
    try:
        done = subprocess.run(
            argv, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=INSTALL_S_MAX, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{package.name} is not installed: npm took longer than {INSTALL_S_MAX:g} s") from None
    if done.returncode != 0:
        said = " ".join(done.stderr.decode(errors="replace").split())[:REASON_CHARS_MAX]
        raise NotInstalled(f"{package.name} is not installed: npm ended with {done.returncode}: {said}")


def _require_version(package: Package, folder: Path) -> None:
    """Refuse a program that does not say that it is of the pinned version: one that does can be started at all."""
    program = _program(package, folder)
    # It may unpack things into its home, and must not look into the person's.
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LANG": "C.UTF-8"}
    (folder / "home").mkdir(exist_ok=True)
    try:
        done = subprocess.run(
            [program, "--version"],
            cwd=folder,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=VERSION_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{package.name} is installed and does not start: {error}") from None
    told = done.stdout.decode(errors="replace")
    if done.returncode != 0 or not re.search(rf"(?<![\d.]){re.escape(package.version)}(?![\d.]*\d)", told):
        said = " ".join((told + done.stderr.decode(errors="replace")).split())[:REASON_CHARS_MAX]
        raise NotInstalled(f"{package.name} does not say that it is {package.version}: {said}")


def _program(package: Package, folder: Path) -> Path:
    return folder / "node_modules" / ".bin" / package.binary


def _cache() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    folder = Path(named) if named else platformdirs.user_cache_path("batonpass") / "agents"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a program's folder: tests in other processes wait for the installation, and then find it."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _main(names: list[str]) -> int:
    """Install what is named, or everything, and say where it is or why it isn't."""
    code = 0
    for name in names or PACKAGES:
        try:
            print(f"{name}\t{PACKAGES[name].version}\t{install(name)}")  # noqa: T201
        except NotInstalled as reason:
            print(f"{name}\t{reason}", file=sys.stderr)  # noqa: T201
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
