"""Tasks of records: claim, renew, release, take over, and what a fence is good for."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any, Final

from batonpass.conformance.case import requirement
from batonpass.conformance.client import Answer, Client
from batonpass.conformance.world import World, done

LEASE: Final = timedelta(seconds=300)


class Incident:
    """A record nobody has written, of a class of its own: five workers may claim, a clerk may write."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.role = world.name("remediator")
        self.record = f"{world.name('incidents')}/inc-4471"
        self.workers = [self.key(f"{self.role}/worker-{n}") for n in range(1, 6)]
        self.names = [f"apikey:{self.role}/worker-{n}" for n in range(1, 6)]
        self.writer = self.key(f"{self.role}-desk/clerk")
        done(self.load(self.document()))

    def key(self, name: str) -> Client:
        """Return a client under a new key."""
        return self.world.client(done(self.world.admin.post("/v1/admin/keys", {"name": name}))["token"])

    def document(self, **worker: object) -> dict[str, object]:
        """Return the class; `worker` replaces what the workers' role may do."""
        role = {"identities": [f"apikey:{self.role}/*"], "read": ["*"], "claim": ["remediation", "review"], **worker}
        clerk = {"identities": [f"apikey:{self.role}-desk/*"], "read": ["*"], "write": ["status"]}
        return {
            "fields": {
                "status": {"type": "register"},
                "actions": {"type": "append", "cap": 10},
                "remediation": {"type": "task", "lease": "300s"},
                "review": {"type": "task"},
            },
            "roles": {"worker": role, "clerk": clerk},
        }

    def load(self, document: dict[str, object]) -> Answer:
        """Load a class in the place of this one."""
        return self.world.admin.put(f"/v1/classes/{self.record.partition('/')[0]}", document)

    def claim(self, who: Client, field: str = "remediation", **body: object) -> Answer:
        """Claim, renew or release a task."""
        return who.put(f"/v1/records/{self.record}/fields/{field}/claim", body)

    def put(self, who: Client, value: object, **body: object) -> Answer:
        """Put the status."""
        return who.put(f"/v1/records/{self.record}/fields/status", {"value": value, **body})

    def lapses(self) -> None:
        """Let the lease run out."""
        self.world.passes(LEASE + timedelta(seconds=1))

    def history(self) -> list[Any]:
        """Return what was done to the record, newest first."""
        entries: list[Any] = done(self.workers[0].get(f"/v1/records/{self.record}/history"))["entries"]
        return entries


def incident(world: World) -> Incident:
    return Incident(world)


def at_once(incident: Incident, who: Sequence[Client]) -> list[Answer]:
    """Claim the task as each of `who`, through a barrier."""
    barrier = Barrier(len(who))

    def claim(client: Client) -> Answer:
        barrier.wait()
        return incident.claim(client)

    with ThreadPoolExecutor(len(who)) as pool:
        return list(pool.map(claim, who))


@requirement("task-claim", "task-claim-creates")
def a_claim_takes_a_free_task_and_makes_its_record(incident: Incident) -> None:
    body = done(incident.claim(incident.workers[0]))

    assert (body["record"], body["field"], body["owner"]) == (incident.record, "remediation", incident.names[0])
    assert (body["version"], body["record_version"]) == (1, 1)
    assert datetime.fromisoformat(body["lease_expires_at"]).tzinfo is not None
    assert done(incident.workers[0].get(f"/v1/records/{incident.record}"))["record_version"] == 1


@requirement("task-held")
def a_task_that_somebody_holds_is_held(incident: Incident) -> None:
    held = done(incident.claim(incident.workers[0]))

    refused = incident.claim(incident.workers[1])

    assert (refused.status, refused.code) == (409, "HELD")
    named = ("field", "owner", "lease_expires_at", "version")
    assert [refused.body[name] for name in named] == [held[name] for name in named]


@requirement("task-one-wins", "task-fleet")
def of_five_workers_at_a_barrier_one_gets_the_task(incident: Incident) -> None:
    answers = at_once(incident, incident.workers)

    (winner,) = (answer.body["owner"] for answer in answers if answer.ok)
    assert winner in incident.names
    assert [answer.body["owner"] for answer in answers if answer.code == "HELD"] == [winner] * 4


@requirement("task-identity", "task-claim-again")
def copies_with_one_key_all_have_the_task(incident: Incident) -> None:
    answers = at_once(incident, [incident.workers[0]] * 5)

    assert [answer.status for answer in answers] == [200] * 5
    assert {answer.body["owner"] for answer in answers} == {incident.names[0]}


@requirement("task-renew")
def a_renewal_extends_the_lease_from_now(incident: Incident) -> None:
    held = done(incident.claim(incident.workers[0]))
    incident.world.passes(timedelta(seconds=100))

    renewed = done(incident.claim(incident.workers[0], lease_seconds=300, renew=True))

    until = [datetime.fromisoformat(each["lease_expires_at"]) for each in (held, renewed)]
    assert until[1] - until[0] == timedelta(seconds=100)
    assert (renewed["version"], renewed["record_version"]) == (2, 2)


@requirement("task-release")
def a_released_task_is_free(incident: Incident) -> None:
    done(incident.claim(incident.workers[0]))

    released = done(incident.claim(incident.workers[0], lease_seconds=0))

    assert (released["version"], released["record_version"]) == (2, 2)
    assert released.keys().isdisjoint({"owner", "lease_expires_at"})
    assert done(incident.claim(incident.workers[1])).keys().isdisjoint({"took_over_from"})


@requirement("task-takeover", "task-takeover-history", "task-renew-held")
def a_lapsed_task_is_taken_over_and_its_former_holder_told(incident: Incident) -> None:
    done(incident.claim(incident.workers[0]))
    incident.lapses()

    taken = done(incident.claim(incident.workers[1], lease_seconds=300))
    late = incident.claim(incident.workers[0], renew=True)

    assert (taken["owner"], taken["took_over_from"]) == (incident.names[1], incident.names[0])
    assert (late.status, late.code, late.body["owner"]) == (409, "HELD", incident.names[1])
    newest = incident.history()[0]
    assert (newest["verb"], newest["author"], newest["took_over_from"]) == ("takeover", *incident.names[1::-1])


@requirement("task-release-other")
def a_lapsed_task_released_by_somebody_else_is_recorded_as_taken_over(incident: Incident) -> None:
    done(incident.claim(incident.workers[0]))
    incident.lapses()

    done(incident.claim(incident.workers[1], lease_seconds=0))

    newest = incident.history()[0]
    assert (newest["verb"], newest["author"], newest["took_over_from"]) == ("takeover", *incident.names[1::-1])


@requirement("task-get")
def reading_a_task_shows_who_has_it_and_until_when(incident: Incident) -> None:
    held = done(incident.claim(incident.workers[0]))

    read = done(incident.writer.get(f"/v1/records/{incident.record}/fields/remediation"))

    assert {name: read[name] for name in ("version", "owner", "lease_expires_at")} == {
        name: held[name] for name in ("version", "owner", "lease_expires_at")
    }
    assert read["author"] == incident.names[0]
    since = datetime.fromisoformat(read["updated_at"])
    assert datetime.fromisoformat(read["lease_expires_at"]) - since == LEASE
    assert "value" not in read


@requirement("task-lease-default")
def how_long_a_lease_is(incident: Incident) -> None:
    unsaid = incident.claim(incident.workers[0], "review")
    too_long = incident.claim(incident.workers[0], "review", lease_seconds=86_401)
    longest = incident.claim(incident.workers[0], "review", lease_seconds=86_400)

    assert [(each.status, each.code, each.body["field"]) for each in (unsaid, too_long)] == [
        (400, "BAD_REQUEST", "lease_seconds")
    ] * 2
    assert longest.ok


@requirement("task-not-task")
def only_a_task_is_claimed(incident: Incident) -> None:
    answers = [incident.claim(incident.workers[0], field) for field in ("status", "actions")]

    assert [(each.status, each.code) for each in answers] == [(400, "NOT_TASK_FIELD")] * 2


@requirement("task-scope")
def claiming_is_a_permission_of_its_own(incident: Incident) -> None:
    claimed_by_a_writer = incident.claim(incident.writer)
    done(incident.claim(incident.workers[0]))
    put_by_a_claimer = incident.put(incident.workers[0], "open")

    assert [(each.status, each.code) for each in (claimed_by_a_writer, put_by_a_claimer)] == [(403, "SCOPE_DENIED")] * 2


@requirement("task-claim-reads")
def a_role_that_claims_what_it_may_not_read_is_not_loaded(incident: Incident) -> None:
    refused = incident.load(incident.document(read=["status"]))

    assert not refused.ok
    assert "remediation" in str(refused.body)


@requirement("task-fence", "task-locks-nothing-else")
def a_fence_holds_while_the_claim_stands_and_others_write_meanwhile(incident: Incident) -> None:
    done(incident.load(incident.document(write=["status"])))
    held = done(incident.claim(incident.workers[0]))
    fence = [{"field": "remediation", "version": held["version"], "kind": "fence"}]

    by_another = incident.put(incident.writer, "seen")
    fenced = incident.put(incident.workers[0], "working", based_on=fence)
    incident.lapses()
    done(incident.claim(incident.workers[1]))
    late = incident.put(incident.workers[0], "done", based_on=fence)

    assert (by_another.status, fenced.status) == (200, 200)
    assert (late.status, late.code) == (409, "STALE_PREMISE")
    assert done(incident.writer.get(f"/v1/records/{incident.record}/fields/status"))["value"] == "working"
