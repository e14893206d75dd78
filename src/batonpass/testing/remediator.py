"""An agent in a process of its own, to be frozen and killed: ``python -m batonpass.testing.remediator URL TOKEN``.

It works on one free incident in three steps. After each it leaves a checkpoint,
prints the step and goes on when it is sent a line; when the steps are done it
writes the status. At its end it prints what became of the task.
"""

from __future__ import annotations

import sys
from typing import Final

from batonpass.client.client import Client
from batonpass.client.run import Finish, run
from batonpass.client.task import HeldTask

STEPS: Final = 3


def remediate(task: HeldTask) -> Finish:
    """Do the steps that no checkpoint says are done."""
    done = task.checkpoint if isinstance(task.checkpoint, int) else 0
    for step in range(done + 1, STEPS + 1):
        task.save_checkpoint(step)
        say(f"step {step}")
        if not sys.stdin.readline():
            raise EOFError("the test is over")
    return Finish(put={"status": f"mitigated by {task.owner}"})


def say(words: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def main() -> None:
    """Work on one incident."""
    server, token = sys.argv[1:]
    with Client(server, token) as client:
        say(str(run(client, "incidents", "remediation", remediate, checkpoint="progress", max_tasks=1)))


if __name__ == "__main__":
    main()
