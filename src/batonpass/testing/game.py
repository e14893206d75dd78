"""The lease protocol as a game: launches, a network that delays, repeats and loses, a clock, and what must hold.

    network ◀── requests ── runs (claim, mint, heartbeat, child's writes, settle) and people (reserve, release, take)
       │
       └─ deliver: to one server or the other, now, later, twice or never; the answer arrives or is lost

A *move* is one method of `Game`. After each, the rows of the database are read
and compared with the row before, and the invariants of the lease law are
checked by name; the first that fails raises `Broken`. The game knows whose
tenure a row is, which no row says: the launch whose request began it.

The servers are real; the game only plays those who talk to them. Everything
before `Game` describes them, everything in it is the game.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol

import httpx

from batonpass.core.clock import MICROS_PER_MS
from batonpass.core.ids import Instant
from batonpass.core.leases import Kind, Lease
from batonpass.core.policy import Policy
from batonpass.testing.crew import Answer

INVARIANTS: Final = frozenset(
    "epoch-up no-shorten grant-has-future answer-is-now refused-changes-nothing fence token-of-tenure verdict-stable"
    " own-release fed item-restored no-ghost no-lockout resume nonce-once no-false-refusal commit-iff-200"
    " no-failure".split()
)
FURTHEST: Final = max(Policy().ttl_max, Policy().grace)


class Broken(AssertionError):
    """An invariant does not hold; `name` is the one of docs/explanation/safety.md."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name}: {why}")
        self.name = name


class Fate(StrEnum):
    """What becomes of a message: carried out or not, answered or not; `TWICE` is now, and once more later."""

    ANSWERED = "answered"
    LOST = "lost"
    LATER = "later"
    TWICE = "twice"
    FAILS = "the server fails before its commit"
    UNKNOWN = "the server fails after its commit"


class Table(Protocol):
    """The servers the game is played against, and a look behind them."""

    def send(
        self, who: str, method: str, path: str, body: object, *, at: int, fate: Fate = Fate.ANSWERED
    ) -> Answer | None:
        """Send one request to the server `at`, which may fail over it; return its answer, or None when it was lost."""
        ...

    def known(self, token: str) -> str:
        """Return the name under which requests may use a minted token."""
        ...

    def prefix(self, name: str) -> str:
        """Return the beginning of the hash of a known token."""
        ...

    def look(self, nodes: tuple[str, ...]) -> Look:
        """Return what is committed about `nodes`."""
        ...

    def back_up(self) -> None:
        """Copy the database."""
        ...

    def restore(self) -> None:
        """Go back to the copy, in a new incarnation."""
        ...

    def moment(self) -> Instant:
        """Return what the clock reads."""
        ...

    def advance(self, span: timedelta) -> None:
        """Move the clock."""
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """What is committed: the lease rows, the nodes' revisions, edges and commits, and the last event's number."""

    rows: Mapping[str, Lease]
    revisions: Mapping[str, str]
    edges: Mapping[str, tuple[str, ...]]
    commits: Mapping[str, tuple[str, ...]]
    events: int


class Phase(StrEnum):
    """How far a run is."""

    IDLE = "idle"
    ASKED = "asked"
    HELD = "held"
    RUNNING = "running"
    REVOKED = "revoked"
    READ = "read"
    ENDING = "ending"
    OVER = "over"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(slots=True)
class Run:
    """One launch of one agent at one node. `dead`: its runner was killed; its child may live on."""

    name: str
    agent: str
    node: str
    nonce: str
    phase: Phase = Phase.IDLE
    epoch: int | None = None
    token: str | None = None
    final: str | None = None
    dead: bool = False
    asked_before: bool = False
    ended: bool = False
    """Its last word, a release or reservation, has been carried out."""

    def may(self, move: str) -> bool:
        """Whether the run can make `move` now."""
        if move in {"write", "drain", "feed", "take_another", "write_another"}:
            return self.token is not None
        phases = {
            "launch": {Phase.IDLE, Phase.ASKED},
            "mint": {Phase.HELD},
            "beat": {Phase.HELD, Phase.RUNNING},
            "note": {Phase.HELD, Phase.RUNNING},
            "settle": {Phase.RUNNING, Phase.REVOKED, Phase.READ, Phase.ENDING},
            "reattach": {Phase.RUNNING},
            "kill": set(Phase) - {Phase.IDLE, Phase.OVER},
        }
        return not self.dead and self.phase in phases[move]


@dataclass(frozen=True, slots=True)
class Message:
    """A request on its way. `run` is the launch it is of, None for a person's."""

    kind: str
    node: str
    who: str
    path: str
    body: Mapping[str, object]
    method: str = "POST"
    run: Run | None = None
    token: str | None = None
    """The run token it is sent under, when it is the child's."""


@dataclass(frozen=True, slots=True)
class Way:
    """What becomes of a message, and to which server it goes."""

    fate: Fate = Fate.ANSWERED
    at: int = 0


@dataclass(slots=True)
class Tenure:
    """Whose the latest tenure of a node is: a run, or a person; and the tokens that were minted for it."""

    epoch: int
    run: Run | None
    by: str
    tokens: set[str] = field(default_factory=set)


class Game:
    """Plays runs and people against a table, and checks the invariants after every move."""

    def __init__(self, table: Table, nodes: tuple[str, ...], agents: str, *, revoke_first: bool = True) -> None:
        """Begin with the free `nodes`; ``agents`` is one letter per launch: A for a1, B for b1, S for a2."""
        named = {"A": "a1", "B": "b1", "S": "a2"}
        self.table = table
        self.nodes = nodes
        self.runs = [Run(f"run{i}", named[letter], nodes[0], f"{nodes[0]}-u{i}") for i, letter in enumerate(agents, 1)]
        self.net: list[Message] = []
        self.tenures: dict[str, Tenure] = {}
        self.working: dict[tuple[str, str], Run] = {}
        self.seen_nonces: dict[str, int] = {}
        self.answered_commits: set[str] = set()
        self.highest = dict.fromkeys(nodes, 0)
        self.backed_up = False
        self.restored = False
        self.revoke_first = revoke_first
        self.serial = 0
        self.look = table.look(nodes)
        self.edges_at_first = self.look.edges

    # --- moves of a run -----------------------------------------------------------------------------------------

    def launch(self, run: Run, way: Way) -> None:
        """Claim the node, for the first time or again because nobody answered."""
        run.phase = Phase.ASKED
        self._send(self._of(run, "claim", {"dispatch": run.nonce}), way)

    def mint(self, run: Run, way: Way) -> None:
        """Ask for the run's token, and start the child when it is there."""
        body = {"lease": {"node": run.node, "epoch": run.epoch}}
        path = f"/v1/agents/agent-{run.agent}/token"
        self._send(Message("mint", run.node, run.agent, path, body, run=run), way)

    def beat(self, run: Run, way: Way, *, reclaim: bool = True) -> None:
        """Send the heartbeat of the tenure."""
        self._send(self._of(run, "renew", {"if_epoch": run.epoch, "reclaim": reclaim}), way)

    def write(self, run: Run, way: Way) -> None:
        """Let the child, or a stray process of the run, write under the run's token."""
        self._send(self._childs(run, "commits", {"repo": "mail", "sha": self._sha()}), way)

    def note(self, run: Run, way: Way) -> None:
        """Let the runner change the node under the agent's unbound token, naming its tenure (D20a)."""
        body = {"repo": "mail", "sha": self._sha(), "if_epoch": run.epoch}
        self._send(self._of(run, "commits", body, kind="note"), way)

    def drain(self, run: Run, way: Way) -> None:
        """Let the child tidy up: release whatever the caller holds."""
        self._send(self._childs(run, "release", {}, kind="drain", path="/v1/queue/release"), way)

    def feed(self, run: Run, way: Way) -> None:
        """Let the child's heartbeat renew whatever the caller holds."""
        self._send(self._childs(run, "renew", {}, kind="feed", path="/v1/queue/renew"), way)

    def take_another(self, run: Run, way: Way) -> None:
        """Let the child claim the second node, under the run's token."""
        self._send(replace(self._childs(run, "claim", {}, node=self.nodes[1]), kind="take another"), way)

    def write_another(self, run: Run, way: Way) -> None:
        """Let the child write onto the second node."""
        body = {"repo": "mail", "sha": self._sha()}
        self._send(replace(self._childs(run, "commits", body, node=self.nodes[1]), kind="write another"), way)

    def settle(self, run: Run, way: Way, final: str) -> None:
        """Take the next step of settling: revoke, read the graph, then release or reserve (D20a)."""
        if run.phase is Phase.RUNNING and self.revoke_first:
            assert run.token is not None
            path = f"/v1/agents/agent-{run.agent}/tokens/{self.table.prefix(run.token)}"
            self._send(Message("revoke", run.node, run.agent, path, {}, "DELETE", run=run), way)
        elif run.phase in {Phase.REVOKED, Phase.RUNNING}:
            run.phase = Phase.READ
        elif run.phase in {Phase.READ, Phase.ENDING}:
            run.phase, run.final = Phase.ENDING, final
            self._send(self._of(run, final, {"if_epoch": run.epoch}), way)

    def reattach(self, run: Run, way: Way) -> None:
        """Start a second process of the same launch's agent by hand: a claim without a nonce, then another token."""
        self._send(replace(self._of(run, "claim", {}), kind="reattach"), way)
        body = {"lease": {"node": run.node, "epoch": run.epoch}}
        path = f"/v1/agents/agent-{run.agent}/token"
        self._send(Message("second mint", run.node, run.agent, path, body, run=run), way)

    def kill(self, run: Run) -> None:
        """Kill the runner with -9. Its child lives on, and what it had sent is still on its way."""
        run.dead = True

    # --- moves of others ----------------------------------------------------------------------------------------

    def person(self, verb: str, way: Way) -> None:
        """Let Ann, who owns the agents a1 and a2, act on the first node; she names no tenure."""
        body: dict[str, object] = {"take": True} if verb == "take" else {}
        path = f"/v1/nodes/{self.nodes[0]}/{'claim' if verb == 'take' else verb}"
        self._send(Message(f"ann's {verb}", self.nodes[0], "ann", path, body), way)

    def stranger(self, way: Way) -> None:
        """Let Ben claim the first node."""
        self._send(Message("ben's claim", self.nodes[0], "ben", f"/v1/nodes/{self.nodes[0]}/claim", {}), way)

    def deliver(self, place: int, way: Way) -> None:
        """Carry out a message that is on its way."""
        if self.net:
            self._send(self.net.pop(place % len(self.net)), way)

    def drop(self, place: int) -> None:
        """Lose a message that is on its way."""
        if self.net:
            self.net.pop(place % len(self.net))

    def lapse(self) -> None:
        """Let every lease and reservation run out; nobody has to do anything for that."""
        ends = [row.expires_at for row in self.look.rows.values() if row.expires_at is not None]
        if ends and (left := max(ends) - self.table.moment()) > 0:
            self.advance(timedelta(microseconds=left))

    def advance(self, span: timedelta) -> None:
        """Move the clock, backwards too."""
        self.table.advance(span)

    def back_up(self) -> None:
        """Copy the database; what happens from here on may be lost history."""
        self.table.back_up()
        self.backed_up = True

    def restore(self) -> None:
        """Go back to the copy. Who acquired in the history that is lost was told so all the same (D46)."""
        self.table.restore()
        self.restored = True
        self.look = self.table.look(self.nodes)
        self.answered_commits &= set(self.look.commits[self.nodes[0]])

    # --- carrying out -------------------------------------------------------------------------------------------

    def _send(self, message: Message, way: Way) -> None:
        if way.fate is Fate.LATER:
            self.net.append(message)
            return
        if way.fate is Fate.TWICE:
            self.net.append(message)
        before = self.look
        answer = self.table.send(message.who, message.method, message.path, message.body, at=way.at, fate=way.fate)
        self.look = self.table.look(self.nodes)
        if answer is not None and way.fate in FAILING and answer.status == httpx.codes.SERVICE_UNAVAILABLE:
            unchanged = self.look == before
            _require(unchanged or way.fate is Fate.UNKNOWN, "commit-iff-200", f"{message.kind} failed, and is there")
            answer = None
        self._remember(message, before)
        if answer is not None:
            self._judge(message, answer, before)
        if message.run is not None and message.kind == "claim":
            message.run.asked_before = True
        self._check_state()
        if answer is not None and way.fate is not Fate.LOST:
            self._tell(message, answer)

    def _judge(self, message: Message, answer: Answer, before: Look) -> None:
        """Check what the answer says against the rows before and after."""
        _require(
            answer.status < httpx.codes.INTERNAL_SERVER_ERROR,
            "no-failure",
            f"{message.kind}: {answer.status} {answer.body}",
        )
        now = self.table.moment()
        if not answer.ok:
            self._judge_refusal(message, answer, before, now)
            return
        if message.kind in WRITES:
            self._judge_write(message, before)
        row = self.look.rows[message.node]
        if "lease" in answer.body and message.kind not in {"mint", "second mint"}:
            _require(row.expires_at is not None, "answer-is-now", f"{message.kind} was granted, and the row is free")
            shown = answer.lease
            _require(shown["epoch"] == row.epoch, "answer-is-now", f"{shown} is not {row}")
            _require(shown["expires"] == _ms(row.expires_at), "answer-is-now", f"{shown} is not {row}")
            left = answer.body["expires_in_ms"]
            _require(0 < left <= FURTHEST // MICROS_PER_MS, "grant-has-future", f"{left} ms")
        if message.kind == "claim" and message.run is not None:
            known = self.seen_nonces.setdefault(message.run.nonce, row.epoch)
            _require(known == row.epoch, "nonce-once", f"{message.run.nonce} acquired epochs {known} and {row.epoch}")
        if message.kind in {"mint", "second mint"}:
            self._judge_mint(message, answer)

    def _judge_refusal(self, message: Message, answer: Answer, before: Look, now: Instant) -> None:
        """Check that a refusal changed nothing, and that it refused nobody's right."""
        anchored = {node: row.anchored(now) for node, row in before.rows.items()}
        same = all(row in {before.rows[node], anchored[node]} for node, row in self.look.rows.items())
        same = same and (before.revisions, before.events) == (self.look.revisions, self.look.events)
        _require(same, "refused-changes-nothing", f"{message.kind}: {answer.code}; {before} became {self.look}")
        run, row = message.run, anchored[message.node]
        if run is None:
            return
        stands = run.epoch is not None and row.epoch == run.epoch and row.kind is Kind.CLAIM
        if message.kind == "renew" and stands:
            _require(message.body.get("reclaim") is False and not row.in_force(now), "resume", f"{run.name}: {answer}")
        if message.kind == "claim" and not run.asked_before and row.kind is Kind.RESERVATION:
            _require(row.holder != f"agent-{run.agent}", "no-lockout", f"{run.name}: {answer.body}")
        tenure = self.tenures.get(message.node)
        if message.kind == "write" and stands and tenure is not None and answer.status == httpx.codes.CONFLICT:
            _require(message.token not in tenure.tokens, "no-false-refusal", f"{run.name}: {answer.body}")

    def _judge_write(self, message: Message, before: Look) -> None:
        """Check that a write that landed is of the tenure that stands."""
        run = message.run
        assert run is not None, message
        self._judge_fence(run, run.node, before, f"a write of {run.name}")
        judged = run.phase in {Phase.READ, Phase.ENDING, Phase.OVER}
        _require(
            not judged or message.kind == "note", "verdict-stable", f"a write of {run.name} lands after the verdict"
        )
        if message.kind != "write another":
            self.answered_commits.add(str(message.body["sha"]))
        elif (run.name, message.node) in self.working:
            self._judge_fence(run, message.node, before, f"a write of {run.name} onto its working set")

    def _judge_fence(self, run: Run, node: str, before: Look, what: str) -> None:
        row, tenure = before.rows[node], self.tenures.get(node)
        own = tenure is not None and tenure.run is run and (node != run.node or row.epoch == run.epoch)
        _require(own, "fence", f"{what} lands in the tenure of {tenure}")
        _require(row.kind is Kind.CLAIM, "fence", f"{what} lands after its tenure ended: {row}")

    def _judge_mint(self, message: Message, answer: Answer) -> None:
        tenure = self.tenures[message.node]
        name = self.table.known(answer.body["token"])
        _require(not tenure.tokens, "token-of-tenure", f"{message.node} at {tenure.epoch} has two run tokens")
        tenure.tokens.add(name)
        answer.body["known_as"] = name

    def _remember(self, message: Message, before: Look) -> None:
        """Note whose tenure each row is now, and check how it came to be so."""
        run = message.run
        for node, row in self.look.rows.items():
            was = before.rows[node]
            if message.kind == "revoke" and run is not None and run.token is not None and node == run.node:
                self._forget_token(node, run)
            _require(row.epoch in {was.epoch, was.epoch + 1}, "epoch-up", f"{was} became {row}")
            _require(row.epoch == was.epoch or row.epoch > self.highest[node], "epoch-up", f"{row.epoch} once more")
            self.highest[node] = max(self.highest[node], row.epoch)
            if row.epoch > was.epoch or (message.kind in CLAIMS and was.kind is not row.kind is Kind.CLAIM):
                begun_by = None if message.kind == "reattach" else run
                self.tenures[node] = Tenure(row.epoch, begun_by, message.who)
                if message.kind == "take another" and run is not None:
                    self.working[run.name, node] = run
            elif was.kind is not Kind.NONE and row.kind is Kind.NONE:
                self._judge_ending(message, node)
            self._judge_expiry(was, row)
            self._judge_revival(message, node, was, row)
        if run is not None and message.kind == run.final:
            run.ended = True

    def _forget_token(self, node: str, run: Run) -> None:
        tenure = self.tenures.get(node)
        if tenure is not None and tenure.run is run:
            tenure.tokens.clear()

    def _judge_ending(self, message: Message, node: str) -> None:
        """Check that a release ended the tenure of whoever sent it, or a person's right was used."""
        tenure, run = self.tenures.get(node), message.run
        if tenure is None or run is None:
            return
        own = tenure.run is run
        if message.kind == "drain":
            own = own and (run.name, node) in self.working
        _require(own, "own-release", f"{message.kind} of {run.name} ended the tenure of {tenure}")

    def _judge_expiry(self, was: Lease, row: Lease) -> None:
        if row != was and row.epoch == was.epoch and row.kind is was.kind and row.expires_at is not None:
            anchored = was.anchored(self.table.moment())
            assert anchored.expires_at is not None, was
            _require(row.expires_at >= anchored.expires_at, "no-shorten", f"{was} became {row}")

    def _judge_revival(self, message: Message, node: str, was: Lease, row: Lease) -> None:
        """Check that nothing of a run that is over, or of somebody else's run, brings its lease back or keeps it."""
        run, tenure = message.run, self.tenures.get(node)
        if run is None or row == was or tenure is None:
            return
        revived = row.kind is not Kind.NONE and (row.kind is not was.kind or row.epoch > was.epoch)
        if run.ended and tenure.run is run:
            _require(not revived, "no-ghost", f"{message.kind} of {run.name}, which is over: {was} became {row}")
        kept = row.epoch == was.epoch and row.expires_at != was.anchored(self.table.moment()).expires_at
        if message.kind == "feed" and kept:
            own = tenure.run is run and (run.name, node) in self.working
            _require(own, "fed", f"the heartbeat of {run.name}'s child keeps the lease of {tenure}")

    def _check_state(self) -> None:
        for node, row in self.look.rows.items():
            ended = row.kind is not Kind.CLAIM
            _require(not ended or row.run_token is None, "token-of-tenure", f"{row} has a token and no tenure")
            lost = self.answered_commits - set(self.look.commits[node]) if node == self.nodes[0] else set()
            _require(not lost, "commit-iff-200", f"answered and not there: {lost}")
        _require(self.look.edges == self.edges_at_first, "item-restored", f"{self.look.edges}")

    # --- what the runs are told ---------------------------------------------------------------------------------

    def _tell(self, message: Message, answer: Answer) -> None:
        run = message.run
        if run is None or run.dead:
            return
        told: dict[str, Callable[[Run, Answer], None]] = {
            "claim": self._told_claim,
            "mint": self._told_mint,
            "renew": self._told_beat,
            "revoke": self._told_revoked,
            "release": self._told_over,
            "reserve": self._told_over,
        }
        if message.kind in told:
            told[message.kind](run, answer)

    def _told_claim(self, run: Run, answer: Answer) -> None:
        if run.phase is Phase.ASKED:
            run.phase = Phase.HELD if answer.ok else Phase.REFUSED
            run.epoch = answer.epoch if answer.ok else None

    def _told_mint(self, run: Run, answer: Answer) -> None:
        if run.phase is Phase.HELD and answer.ok:
            run.phase = Phase.RUNNING
            run.token = answer.body["known_as"]

    def _told_beat(self, run: Run, answer: Answer) -> None:
        if run.phase in {Phase.HELD, Phase.RUNNING} and not answer.ok:
            run.phase = Phase.LOST

    def _told_revoked(self, run: Run, answer: Answer) -> None:
        del answer  # whatever it says, the token is over
        if run.phase is Phase.RUNNING:
            run.phase = Phase.REVOKED

    def _told_over(self, run: Run, answer: Answer) -> None:
        del answer
        if run.phase is Phase.ENDING:
            run.phase = Phase.OVER

    # --- messages -----------------------------------------------------------------------------------------------

    def _of(self, run: Run, verb: str, body: Mapping[str, object], *, kind: str | None = None) -> Message:
        return Message(kind or verb, run.node, run.agent, f"/v1/nodes/{run.node}/{verb}", body, run=run)

    def _childs(
        self,
        run: Run,
        verb: str,
        body: Mapping[str, object],
        *,
        kind: str | None = None,
        path: str | None = None,
        node: str | None = None,
    ) -> Message:
        assert run.token is not None, run
        node = node or run.node
        kind = kind or ("write" if verb == "commits" else verb)
        return Message(kind, node, run.token, path or f"/v1/nodes/{node}/{verb}", body, run=run, token=run.token)

    def _sha(self) -> str:
        self.serial += 1
        return f"{self.serial:040x}"


FAILING: Final = {Fate.FAILS, Fate.UNKNOWN}
WRITES: Final = {"write", "note", "write another"}
CLAIMS: Final = {"claim", "take another", "reattach", "ann's take", "ann's renew", "ben's claim"}
"""What begins a tenure where there is none, whatever becomes of the epoch."""


def _require(holds: bool, name: str, why: str) -> None:  # noqa: FBT001  # an assertion with a name
    assert name in INVARIANTS, name
    if not holds:
        raise Broken(name, why)


def _ms(moment: Instant | None) -> int | None:
    return None if moment is None else moment // MICROS_PER_MS
