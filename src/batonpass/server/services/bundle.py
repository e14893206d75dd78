"""Every service over one store: all that the HTTP layer can reach."""

from __future__ import annotations

from dataclasses import dataclass

from batonpass.core.ids import Instant
from batonpass.server.services.batch import Batches
from batonpass.server.services.briefing import Briefings
from batonpass.server.services.capabilities import Fleet
from batonpass.server.services.capture import Captures
from batonpass.server.services.choosing import Taken
from batonpass.server.services.classes import Classes
from batonpass.server.services.commits import Commits
from batonpass.server.services.corrections import Corrections
from batonpass.server.services.digest import Digests
from batonpass.server.services.engine import LeaseEngine
from batonpass.server.services.feed import Feed
from batonpass.server.services.graph import Graph
from batonpass.server.services.history import History
from batonpass.server.services.identity import Identity
from batonpass.server.services.inbox import Inboxes
from batonpass.server.services.keys import Keys
from batonpass.server.services.leases import Leases
from batonpass.server.services.lines import Lines
from batonpass.server.services.policy import Policies
from batonpass.server.services.questions import Questions
from batonpass.server.services.queue import Queue
from batonpass.server.services.record_history import RecordHistories
from batonpass.server.services.record_pages import RecordPages
from batonpass.server.services.record_waits import RecordWaits
from batonpass.server.services.record_writes import RecordWrites
from batonpass.server.services.records import Records
from batonpass.server.services.runs import Runs
from batonpass.server.services.search import Search
from batonpass.server.services.service_accounts import ServiceAccounts
from batonpass.server.services.tasks import Tasks
from batonpass.server.services.tokens import Tokens
from batonpass.server.services.tombstones import Tombstones
from batonpass.server.services.transfer import Transfers
from batonpass.store.base import Store, q


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What GET /v1/status says."""

    schema: int
    node_count: int
    now: Instant
    dialect: str
    incarnation: str


@dataclass(frozen=True, slots=True)
class Services:
    """Every service over one store. The HTTP layer reaches nothing else."""

    store: Store
    engine: LeaseEngine
    feed: Feed
    graph: Graph
    history: History
    tombstones: Tombstones
    commits: Commits
    batches: Batches
    leases: Leases
    lines: Lines[Taken]
    queue: Queue
    digests: Digests
    briefings: Briefings
    questions: Questions
    corrections: Corrections
    captures: Captures
    inboxes: Inboxes
    search: Search
    policies: Policies
    classes: Classes
    records: Records
    record_waits: RecordWaits
    record_pages: RecordPages
    record_histories: RecordHistories
    record_writes: RecordWrites
    tasks: Tasks
    identity: Identity
    tokens: Tokens
    keys: Keys
    transfers: Transfers
    runs: Runs
    fleet: Fleet

    @staticmethod
    def over(store: Store, *, accounts: ServiceAccounts | None = None) -> Services:
        """Return the services over `store`; `accounts` says which service accounts are believed, if any."""
        classes = Classes(store)
        engine = LeaseEngine(store, classes)
        feed = Feed(store, classes)
        records = Records(store, classes)
        identity = Identity(store, accounts=accounts)
        return Services(
            store=store,
            engine=engine,
            feed=feed,
            graph=Graph(store),
            history=History(store),
            tombstones=Tombstones(store),
            commits=Commits(store),
            batches=Batches(store),
            leases=Leases(store, engine),
            lines=Lines(store, feed),
            queue=Queue(store),
            digests=Digests(store),
            briefings=Briefings(store),
            questions=Questions(store),
            corrections=Corrections(store),
            captures=Captures(store),
            inboxes=Inboxes(store),
            search=Search(store),
            policies=Policies(store),
            classes=classes,
            records=records,
            record_waits=RecordWaits(store, feed, classes, records),
            record_pages=RecordPages(store, classes),
            record_histories=RecordHistories(store, classes),
            record_writes=RecordWrites(store, classes),
            tasks=Tasks(engine),
            identity=identity,
            tokens=Tokens(store, identity.principals),
            keys=Keys(store, identity.principals),
            transfers=Transfers(store),
            runs=Runs(store),
            fleet=Fleet(store),
        )

    async def status(self) -> ServerFacts:
        """Return what is running here."""
        async with self.store.read() as tx:
            applied, ((count,),) = await tx.fetch(q("schema.applied"), q("schema.node_count"))
            return ServerFacts(applied[-1][0], count, await tx.now(), self.store.dialect, self.store.incarnation)
