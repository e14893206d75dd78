"""What a worker would do now, without doing it: what it would take, why it leaves the rest, or why nobody can say."""

from __future__ import annotations

from dataclasses import dataclass

from batonpass.core.errors import BatonError
from batonpass.worker.dispatch import launch
from batonpass.worker.errors import WorkerError
from batonpass.worker.loop import look
from batonpass.worker.pace import disk_full
from batonpass.worker.select import Choice
from batonpass.worker.worker import Worker


@dataclass(frozen=True, slots=True)
class Outlook:
    """What there is to take. `choice` is None when that is not known because of `unknown`, `held_back` the box's."""

    choice: Choice | None
    unknown: str = ""
    held_back: str = ""

    def lines(self) -> list[str]:
        """Return it for a person; what is not known is never shown as nothing."""
        lines = [f"takes nothing: {self.held_back}"] if self.held_back else []
        if self.choice is None:
            return [*lines, f"to take: unknown because {self.unknown}"]
        lines += [f"would take: {node}" for node in self.choice.candidates] or ["nothing to take"]
        lines += [f"leaves alone: {one.item}, {one.reason}" for one in self.choice.skipped]
        if self.choice.more:
            seen = len(self.choice.candidates) + len(self.choice.skipped)
            lines.append(f"… the queue goes on: only its first {seen} were looked at; baton queue shows the rest")
        return lines

    def as_document(self) -> dict[str, object]:
        """Return it for a program; `known` False means that the lists say nothing."""
        choice = self.choice or Choice((), ())
        skipped = [{"id": one.item, "reason": one.reason, "kind": one.kind} for one in choice.skipped]
        return {
            "known": self.choice is not None,
            "unknown_because": self.unknown or None,
            "held_back": self.held_back or None,
            "would_take": list(choice.candidates),
            "skipped": skipped,
            "queue_goes_on": choice.more,
        }


def unknown(error: Exception) -> Outlook:
    """Return the outlook where something is in the way of knowing."""
    return Outlook(None, str(error))


def outlook(worker: Worker) -> Outlook:
    """Return what this worker would do now. Nothing is claimed, written or started."""
    held_back = disk_full(worker.settings) or ""
    try:
        launch.survey(worker.order, worker.settings)
        choice = look(worker, launch.require_agent(worker.graph.caller()))
    except (BatonError, WorkerError, OSError) as error:
        return Outlook(None, str(error), held_back)
    return Outlook(choice, held_back=held_back)
