"""A worker written from the published protocol: from the queue to the terminal state, in the order it lays down."""

from __future__ import annotations

from batonpass.conformance.case import requirement
from batonpass.conformance.reference import Run, Worker
from batonpass.conformance.world import TTL, World, done


def worker(world: World) -> Worker:
    return Worker(world.agent, project=world.project)


def is_held(world: World, node: str) -> bool:
    return world.rival.post(f"/v1/nodes/{node}/claim").status == 409


@requirement("worker-pool", "worker-human")
def a_worker_takes_the_best_item_that_is_meant_for_agents(world: World, worker: Worker) -> None:
    world.node(priority="p1", requires=["human"])
    world.node(priority="p1")
    world.ready()
    best = world.ready(priority="p2")

    assert worker.claim_next() == best
    assert world.read(best)["lease"]["by"] == world.ids["agent"]


@requirement("worker-race")
def a_worker_whom_another_was_faster_than_takes_the_next(world: World, worker: Worker) -> None:
    first, second = world.ready(priority="p1"), world.ready()
    rival = Worker(world.rival, project=world.project)

    assert [rival.claim_next(), worker.claim_next(), worker.claim(first)] == [first, second, False]


@requirement("worker-resolved")
def a_run_is_resolved_when_the_graph_says_so_whatever_it_says_itself(world: World, worker: Worker) -> None:
    node = world.ready()
    assert worker.claim(node)

    def agent(_: str) -> tuple[str, int]:
        entry = world.entry(world.name("art"), "artifact", edges=[{"type": "resolves", "to": node}])
        done(world.agent.post("/v1/nodes", {"nodes": [entry]}))
        return "DECLINED: no, it is not", 1

    assert worker.work(node, agent, "r1") == Run(node, "resolved", terminal_enforced=True, released=False)
    assert is_held(world, node), "the durable edge stands as the record of who did it"
    assert world.assigned(node) == [world.ids["agent"]]


@requirement("worker-reported", "worker-order")
def a_run_that_only_says_it_is_done_is_reported_and_the_item_goes_back_with_the_report(
    world: World, worker: Worker
) -> None:
    node = world.ready()
    assert worker.claim(node)

    run = worker.work(node, lambda _: ("All done, tests pass, resolved.", 0), world.name("r"))

    assert (run.terminal_state, run.terminal_enforced, run.released) == ("reported", True, True)
    assert run.filed is not None
    report = world.read(run.filed)
    assert {"type": "relates-to", "to": node} in report["frontmatter"]["edges"]
    assert report["frontmatter"]["authored_by_agent"] == world.ids["agent"]
    assert world.queued(world.rival) == [node]
    assert world.assigned(node) == []


@requirement("worker-report-idempotent")
def a_report_that_is_filed_twice_is_there_once(world: World, worker: Worker) -> None:
    node, run = world.ready(), world.name("r")
    assert worker.claim(node)

    first, again = worker.settle(node, "Half of it.", run), worker.settle(node, "Half of it.", run)

    assert first == again
    assert (first.terminal_state, first.released) == ("reported", True)


@requirement("worker-declined")
def a_decline_is_filed_as_a_finding_and_takes_the_stamp_away(world: World, worker: Worker) -> None:
    node = world.ready()
    assert worker.claim(node)

    run = worker.work(node, lambda _: ("DECLINED: it is done already\n\nSee the log.", 0), world.name("r"))

    assert (run.terminal_state, run.released) == ("declined", True)
    assert run.filed is not None
    assert world.read(run.filed)["frontmatter"]["type"] == "finding"
    assert run.filed in str(world.read(node)["open_findings"])
    assert world.page(world.rival)["items"][0].get("readiness") is None


@requirement("worker-unjudgeable")
def a_target_that_is_closed_by_a_status_is_reported_unverified_and_its_lease_left_to_lapse(
    world: World, worker: Worker
) -> None:
    node = world.node("finding", prefix="find")
    assert worker.claim(node)

    said, silent = worker.settle(node, "Looked at it.", world.name("r")), worker.settle(node, " \n", world.name("r"))

    assert (said.terminal_state, said.terminal_enforced, said.released) == ("reported", False, False)
    assert (silent.terminal_state, silent.terminal_enforced, silent.released) == ("failed", False, False)
    assert is_held(world, node)
    world.passes(TTL)
    assert not is_held(world, node)


@requirement("worker-refused")
def a_report_that_is_refused_leaves_the_lease_held(world: World, worker: Worker) -> None:
    node, run = world.ready(), world.name("r")
    assert worker.claim(node)
    reader = done(world.ann.post(f"/v1/agents/{world.ids['agent']}/token", {"scope": "read"}))["token"]

    settled = Worker(world.client(reader), project=world.project).settle(node, "Half of it.", run)

    assert (settled.terminal_state, settled.released, settled.filed) == ("failed", False, None)
    assert is_held(world, node)


@requirement("worker-failed")
def a_run_that_left_nothing_has_failed_and_gives_its_item_back(world: World, worker: Worker) -> None:
    node = world.ready()
    assert worker.claim(node)

    run = worker.work(node, lambda _: ("  \n", 0), world.name("r"))

    assert (run.terminal_state, run.terminal_enforced, run.released, run.filed) == ("failed", True, True, None)
    assert world.queued(world.rival) == [node]


@requirement("worker-beat", "worker-crash")
def a_worker_that_beats_keeps_its_item_and_one_that_died_needs_to_do_nothing(world: World, worker: Worker) -> None:
    kept = world.ready()
    assert worker.claim(kept)
    for _ in range(3):
        world.passes(TTL / 2)
        assert worker.beat() == [kept]
    assert is_held(world, kept)

    world.passes(TTL)

    assert Worker(world.rival, project=world.project).claim_next() == kept
    assert worker.beat() == []
