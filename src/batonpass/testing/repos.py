"""Throwaway repositories: real git, as a person with a home and an identity of their own."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from batonpass.worker import environment
from batonpass.worker.git import Checkout, Sha

PERSON: Final = "Pat Person <pat@example.org>"
"""Whose repository it is; no commit of a run may carry this name."""
_GITCONFIG: Final = """\
[user]
\tname = Pat Person
\temail = pat@example.org
[init]
\tdefaultBranch = main
"""


@dataclass(frozen=True)
class Repo:
    """A person's checkout on `main`, and git in it as that person."""

    folder: Path
    person: dict[str, str]

    @property
    def checkout(self) -> Checkout:
        """The checkout as the worker runs git in it."""
        return Checkout(self.folder, environment.for_git(self.person))

    def git(self, *command: str, at: Path | None = None) -> str:
        """Run git as the person, and return what it printed without the blank at its end."""
        argv = ["git", *command]
        done = subprocess.run(argv, cwd=at or self.folder, env=self.person, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(self, name: str, text: str = "text\n", *, at: Path | None = None) -> Sha:
        """Write and commit one file, and return the commit."""
        path = (at or self.folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.git("add", "--", name, at=at)
        self.git("commit", "--quiet", "-m", f"Write {name}", at=at)
        return self.head(at=at)

    def head(self, *, at: Path | None = None) -> Sha:
        """Return the commit that is checked out."""
        return Sha(self.git("rev-parse", "HEAD", at=at))

    def refs(self) -> set[str]:
        """Return the full names of all references."""
        return set(self.git("for-each-ref", "--format=%(refname)").split())


def person_environment(home: Path) -> dict[str, str]:
    """Return the environment of somebody who lives in `home` and has told git who they are."""
    home.mkdir(parents=True, exist_ok=True)
    (home / ".gitconfig").write_text(_GITCONFIG)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "BATON_"))}
    return {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home / ".config")}


def make_repo(folder: Path, person: dict[str, str]) -> Repo:
    """Make a repository with one commit on `main` and return it."""
    folder.mkdir(parents=True)
    repo = Repo(folder, person)
    repo.git("init", "--quiet")
    (folder / ".gitignore").write_text("*.env\nnotes/\n__pycache__/\n")
    repo.git("add", ".gitignore")
    repo.commit("README.md", "A project.\n")
    return repo
