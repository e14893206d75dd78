"""Environments of what a worker starts: built anew, never handed down (D23).

A child gets the machine's own settings (where programs are, whose home it is,
an agent program's credentials for its model) and what we add. It does not get
what points it at another repository, acts for a person at a forge, belongs to
another run, or waits for somebody at a terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from batonpass.core.ids import AgentId
from batonpass.worker.crew import MARK

MACHINE_NAME: Final = "Batonpass"
MACHINE_EMAIL: Final = "batonpass@localhost"

_DROPPED: Final = re.compile(
    r"GIT_.*"  # another repository, index or identity
    r"|BATON_(?!RUN_MARK$).*"  # another run, or a wider token under any name
    r"|(?:SSH_AUTH_SOCK|SSH_AGENT_PID|SSH_ASKPASS|.*_ASKPASS)"  # a person's keys (D49)
    # A person's word at a forge (D49); COPILOT_GITHUB_TOKEN is none, it opens copilot's model.
    r"|(?:GH|GITHUB|HOMEBREW_GITHUB|GITLAB|GLAB|CI_JOB|GITEA|FORGEJO|BITBUCKET|ACTIONS)_(?:\w+_)?(?:TOKEN|PAT|PASSWORD)"
    r"|(?:SYSTEM_ACCESSTOKEN|AZURE_DEVOPS_EXT_PAT)"
    # What an agent program tells those it starts: a worker that one of them started begins sessions of its own.
    r"|(?:CLAUDECODE|CLAUDE_CODE_(?:ENTRYPOINT|SSE_PORT)|CODEX_(?:SANDBOX\w*|THREAD_ID)|GEMINI_CLI|OPENCODE(?:_PID)?)"
    r"|(?:LC_\w+|LANG|LANGUAGE)"  # replaced
    r"|(?:EDITOR|VISUAL|PAGER|MANPAGER|LESS|TERM|COLORTERM|(?:CLI|FORCE_)COLOR\w*)"  # a terminal
    r"|(?:PWD|OLDPWD|SHLVL|_)"  # the shell we were started from
)
_SECRET: Final = re.compile(r"bat_(?:pat|agt|key)_")
_FIXED: Final = {
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "TERM": "dumb",
    "NO_COLOR": "1",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}


def plain(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return what of `inherited` a child may know, in a fixed language, without colour, pager or prompt.

    A value that holds one of our tokens goes too, whatever its name is.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if not _DROPPED.fullmatch(name) and (name == MARK or not _SECRET.search(value))
    }
    return {**kept, **_FIXED}


def for_git(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of our own git commands; what they write carries the machine's name."""
    return {
        **plain(inherited),
        # A look at a checkout must not take its index lock from whoever works there.
        "GIT_OPTIONAL_LOCKS": "0",
        **_identity(MACHINE_NAME, MACHINE_EMAIL),
    }


def for_child(inherited: Mapping[str, str], *, agent: AgentId, run: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a run's child: `run` says what it is about (D31a).

    Its commits carry the agent's name, not the person's whose box this is, and
    neither sign with the person's key nor push with the person's password.
    """
    settings = {"commit.gpgSign": "false", "tag.gpgSign": "false", "credential.helper": ""}
    numbered = enumerate(settings.items())
    return {
        **plain(inherited),
        **_identity(agent, f"{agent}@localhost"),
        "GIT_EDITOR": ":",
        "GIT_CONFIG_COUNT": str(len(settings)),
        **{name: text for i, (key, value) in numbered for name, text in _git_setting(i, key, value)},
        **run,
    }


def path_with(folder: Path, path: str | None) -> str:
    """Return the search path with `folder` in front of it."""
    return os.pathsep.join([str(folder), path or os.defpath])


def with_changes(built: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return an environment with variables added, or taken out where they are None."""
    return {name: value for name, value in {**built, **changes}.items() if value is not None}


def _identity(name: str, email: str) -> dict[str, str]:
    return {f"GIT_{role}_{part}": text for role in ("AUTHOR", "COMMITTER") for part, text in _parts(name, email)}


def _parts(name: str, email: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (("NAME", name), ("EMAIL", email))


def _git_setting(index: int, key: str, value: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ((f"GIT_CONFIG_KEY_{index}", key), (f"GIT_CONFIG_VALUE_{index}", value))
