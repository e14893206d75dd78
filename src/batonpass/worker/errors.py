"""What goes wrong on the worker's own box, as opposed to at the server.

    WorkerError
    ├── NotStarted        a command could not be executed at all
    ├── TimedOut          a short command did not end in time, and was killed
    ├── GitFailed         git refused; the message carries its words
    ├── WorktreeRefused   a worktree is not what it should be, or may not be made
    ├── LaunchRefused     a run was not started, and nothing of it is left
    ├── FileDamaged       a file of a run's folder holds something else than what is written there
    ├── RunBusy           somebody else is settling, or running, this very run
    └── RecordMoved       the run's record is not the one the change was based on

Errors of the server arrive as `core.errors`. Messages are for people.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


class WorkerError(Exception):
    """Base of what a worker reports on purpose about its own box."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class NotStarted(WorkerError):
    """The command could not be executed: not there, not executable, or no such directory."""


class TimedOut(WorkerError):
    """A command that should be short was not, and has been killed."""


class CalledOff(WorkerError):
    """A command was ended because we were told to stop."""


class GitFailed(WorkerError):
    """Git ended with an error; `code` is its exit status."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


class WorktreeRefused(WorkerError):
    """A worktree can't be made here, or what stands there is not the one expected."""


class LaunchRefused(WorkerError):
    """The run was not started; what had been done for it is undone."""


class FileDamaged(WorkerError):
    """What stands in `path` is not what is written there: cut off, emptied, or somebody else's."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} can't be read")
        self.path = path


class RunBusy(WorkerError):
    """Another process holds this run's lock: it is running or settling it."""


class RecordMoved(WorkerError):
    """Somebody else changed the run's record first; their word stands."""
