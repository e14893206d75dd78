"""Workers that break one line each: the reference worker, with one thing wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from batonpass.conformance.client import Answer, Client
from batonpass.conformance.reference import Agent, Run, Worker


@dataclass(frozen=True)
class Broken:
    """A worker, and the scenarios that are enough to see what it does wrong."""

    worker: type[Worker]
    scenarios: tuple[str, ...]


class UsesAPersonsToken(Worker):
    """Files under the token that lies about."""

    persons: Client

    def send(self, entry: dict[str, object]) -> Answer:
        """Send an entry, the wrong way."""
        return self.persons.post("/v1/nodes", {"nodes": [entry], "if_exists": "skip"})


class StartsUnclaimed(Worker):
    """Claims when the work is done already."""

    def run(self, agent: Agent) -> Run | None:
        """Do one item."""
        node = self.first()
        text, code = agent(self.prompt(node, self.briefing(node)))
        assert self.claim(node)
        return self.settle(node, text, "late", code=code)

    def first(self) -> str:
        """Return the best item, untaken."""
        return str(self._client.get("/v1/queue", project=self._project).body["items"][0]["id"])


class RepeatsItsNonce(Worker):
    """Calls every launch the same."""

    def nonce(self) -> str:
        """Return what every launch is called."""
        return "launch-1"


class NeverRenews(Worker):
    """Lets the lease run down."""

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Do nothing while the block runs."""
        yield


class TakesAPersons(Worker):
    """Takes whatever stands first."""

    def may_take(self, item: dict[str, Any]) -> bool:
        """Whether an item is not blocked; nothing else matters."""
        return bool(item["suggest"] != "blocked")


class GivesUpTheRace(Worker):
    """Takes a 409 for the end of the queue."""

    def claim_next(self) -> str | None:
        """Try the first item, and no other."""
        first = self._client.get("/v1/queue", project=self._project).body["items"][0]["id"]
        return str(first) if self.claim(first) else None


class SkipsTheBriefing(Worker):
    """Tells the work nothing of what is known."""

    def briefing(self, node: str) -> str:
        """Return a text without what is known."""
        return f"Nothing is known of {node}."


class NamesNoItem(Worker):
    """Tells the work to do its best."""

    def prompt(self, node: str, briefing: str) -> str:
        """Return a prompt without what it must name."""
        return super().prompt(node, briefing).replace(node, "it")


class NamesNoProject(Worker):
    """Leaves the session note out."""

    def prompt(self, node: str, briefing: str) -> str:
        """Return a prompt without what it must name."""
        return super().prompt(node, briefing).replace(self._project, "a project")

    def briefing(self, node: str) -> str:
        """Return a text without what is known."""
        super().briefing(node)
        return f"What is known of {node}."


class ReadsNothingBack(Worker):
    """Knows beforehand how it ends."""

    def settle(self, node: str, text: str, run: str, *, code: int = 0) -> Run:
        """Settle, the wrong way."""
        del code
        return self.reported(node, text, run, summary="A report")


class ReadsAnotherBack(Worker):
    """Reads a batch in which the item is not."""

    def settle(self, node: str, text: str, run: str, *, code: int = 0) -> Run:
        """Settle, the wrong way."""
        del code
        self._client.post("/v1/nodes/batch", {"ids": [self._project]})
        return self.reported(node, text, run, summary="A report")


class TrustsTheExitCode(Worker):
    """Takes 0 for resolved."""

    def settle(self, node: str, text: str, run: str, *, code: int = 0) -> Run:
        """Settle, the wrong way."""
        run_ = None if code else self._client.get(f"/v1/nodes/{node}")
        return self.resolved(node) if run_ is not None else super().settle(node, text, run, code=code)


class TrustsTheWords(Worker):
    """Files a report although the graph says resolved."""

    def resolved(self, node: str) -> Run:
        """Conclude a resolved run, the wrong way."""
        self.file(node, "artifact", f"art-report-{node}", summary="It says that it did not", text="It did not work.")
        return super().resolved(node)


class ReleasesResolved(Worker):
    """Gives a resolved item back."""

    def resolved(self, node: str) -> Run:
        """Conclude a resolved run, the wrong way."""
        self.release(node)
        return super().resolved(node)


class FilesUnrelated(Worker):
    """Files a report that is beside nothing, and keeps the item."""

    def reported(self, node: str, text: str, run: str, *, summary: str) -> Run:
        """Conclude a run with a report, the wrong way."""
        del text, run, summary
        return self.refused(node)


class FilesNoWords(Worker):
    """Files a report in which nothing stands of what the work said."""

    def reported(self, node: str, text: str, run: str, *, summary: str) -> Run:
        """Conclude a run with a report, the wrong way."""
        del text, summary
        return super().reported(node, "A run has ended.", run, summary="A run has ended.")


class FilesWhole(Worker):
    """Sends a report as long as it is."""

    def fitted(self, text: str) -> str:
        """Return the text, however long."""
        return text


class FilesTwice(Worker):
    """Makes another node of a report whose answer was lost."""

    def send(self, entry: dict[str, object]) -> Answer:
        """Send an entry, the wrong way."""
        try:
            return super().send(entry)
        except OSError:
            return super().send({**entry, "id": f"{entry['id']}-again"})


class ForbidsRepetition(Worker):
    """Sends a report in a way in which a second time is a conflict."""

    def send(self, entry: dict[str, object]) -> Answer:
        """Send an entry, the wrong way."""
        return self._client.post("/v1/nodes", {"nodes": [entry]})


class ReleasesFirst(Worker):
    """Gives the item back, and files the report after that."""

    def reported(self, node: str, text: str, run: str, *, summary: str) -> Run:
        """Conclude a run with a report, the wrong way."""
        self.release(node)
        return super().reported(node, text, run, summary=summary)


class KeepsReported(Worker):
    """Files the report and keeps the item."""

    def release(self, node: str) -> bool:
        """Do nothing, and say that it is done."""
        return bool(node)


class ParksReported(Worker):
    """Files the report and parks the item, which keeps it from others for days."""

    def release(self, node: str) -> bool:
        """Park it, and say that it is handed back."""
        return self._client.post(f"/v1/nodes/{node}/reserve").ok


class ReleasesOnRefusal(Worker):
    """Gives the item back though its report was refused."""

    def refused(self, node: str) -> Run:
        """Conclude a run whose report was refused, the wrong way."""
        self.release(node)
        return super().refused(node)


class KeepsSilent(Worker):
    """Keeps an item of which nothing was said."""

    def silent(self, node: str) -> Run:
        """Conclude a run without a word, the wrong way."""
        return self.refused(node)


class DeclinesByReport(Worker):
    """Files a decline as any report."""

    def file(self, node: str, kind: str, report: str, *, summary: str, text: str) -> str | None:
        """File, as what it is not."""
        named = report.replace("find-", "art-")
        return super().file(node, kind.replace("finding", "artifact"), named, summary=summary, text=text)


class KeepsTheStamp(Worker):
    """Leaves a declined item's stamp where it is."""

    def clear(self, node: str) -> bool:
        """Do nothing, and say that it is done."""
        return bool(node)


class DeclinesAfterRelease(Worker):
    """Gives a declined item back before its finding is filed."""

    def declined(self, node: str, text: str, run: str, *, why: str) -> Run:
        """Conclude a decline, in the wrong order."""
        self.release(node)
        return super().declined(node, text, run, why=why)


class ReleasesUnjudged(Worker):
    """Gives back what it could not judge."""

    def unverified(self, node: str, text: str, run: str) -> Run:
        """Conclude a run that can't be judged, the wrong way."""
        ended = super().unverified(node, text, run)
        self.release(node)
        return ended


class ClaimsToHaveVerified(Worker):
    """Reports on what it could not judge as on anything."""

    def unverified(self, node: str, text: str, run: str) -> Run:
        """Conclude a run that can't be judged, the wrong way."""
        filed = self.file(node, "artifact", f"art-report-{run}", summary=text, text=text)
        return Run(node, "reported", terminal_enforced=False, released=False, filed=filed)


BROKEN: Final[tuple[tuple[str, Broken], ...]] = (
    ("agent-token", Broken(UsesAPersonsToken, ("crashes", "declines"))),
    ("claim-first", Broken(StartsUnclaimed, ("crashes",))),
    ("claim-nonce", Broken(RepeatsItsNonce, ("crashes", "declines"))),
    ("renews", Broken(NeverRenews, ("works-long",))),
    ("human", Broken(TakesAPersons, ("asks",))),
    ("race", Broken(GivesUpTheRace, ("race",))),
    ("briefing", Broken(SkipsTheBriefing, ("crashes", "declines"))),
    ("prompt-item", Broken(NamesNoItem, ("crashes", "declines"))),
    ("session-project", Broken(NamesNoProject, ("asks",))),
    ("reads-back", Broken(ReadsNothingBack, ("crashes",))),
    ("reads-back", Broken(ReadsAnotherBack, ("crashes",))),
    ("verdict", Broken(TrustsTheExitCode, ("resolves", "claims-victory"))),
    ("verdict", Broken(TrustsTheWords, ("resolves", "claims-victory"))),
    ("resolved-keeps", Broken(ReleasesResolved, ("resolves",))),
    ("report-filed", Broken(FilesUnrelated, ("crashes", "race"))),
    ("report-filed", Broken(FilesNoWords, ("crashes", "race"))),
    ("report-size", Broken(FilesWhole, ("crashes",))),
    ("report-once", Broken(FilesTwice, ("claims-victory",))),
    ("report-once", Broken(ForbidsRepetition, ("claims-victory",))),
    ("report-first", Broken(ReleasesFirst, ("crashes",))),
    ("released", Broken(KeepsReported, ("crashes",))),
    ("released", Broken(ParksReported, ("crashes",))),
    ("refused-holds", Broken(ReleasesOnRefusal, ("report-refused",))),
    ("refused-holds", Broken(ReleasesOnRefusal, ("report-rejected",))),
    ("silent-released", Broken(KeepsSilent, ("works-long",))),
    ("silent-released", Broken(ParksReported, ("works-long",))),
    ("decline-filed", Broken(DeclinesByReport, ("declines",))),
    ("decline-clears", Broken(KeepsTheStamp, ("declines",))),
    ("decline-first", Broken(DeclinesAfterRelease, ("declines",))),
    ("unjudgeable-holds", Broken(ReleasesUnjudged, ("unjudgeable",))),
    ("unjudgeable-says", Broken(ClaimsToHaveVerified, ("unjudgeable",))),
)
