"""`baton dispatch`: send an agent to one item, the best of the queue, or a task in your own words."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Final

import msgspec
from cyclopts import Parameter

from batonpass.cli.context import connected
from batonpass.cli.exits import Exit, UsageError
from batonpass.cli.options import COMMON, AgentArg, Common, Duration, Flag, Node, TextArg, read_text
from batonpass.cli.render import print_json, print_text, say, warn
from batonpass.client import config
from batonpass.client.client import Client
from batonpass.core.digest_text import Mode
from batonpass.core.errors import AlreadyClaimed, BatonError, Invalid
from batonpass.core.ids import AgentId, HolderId, NodeId, parse_node_id
from batonpass.core.queue import Accept
from batonpass.worker import reaping, signals
from batonpass.worker.boxfile import BoxFile
from batonpass.worker.config import load
from batonpass.worker.dispatch import plan as planning
from batonpass.worker.dispatch import preview
from batonpass.worker.dispatch.handover import ByProcess
from batonpass.worker.dispatch.launch import Begun, Launcher, NotLaunched
from batonpass.worker.dispatch.plan import Plan, Sending, Wish
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.graph import Item
from batonpass.worker.journal import Journal, RunFolder
from batonpass.worker.outcome import Settler
from batonpass.worker.reaping import take_up_item
from batonpass.worker.record import RunRecord, as_json
from batonpass.worker.select import refusal
from batonpass.worker.server_graph import ServerGraph, item_of
from batonpass.worker.settings import DEFAULT_RUN_IDLE_S, DEFAULT_RUN_MAX_S, Settings

PAGE: Final = 100
"""How many items are looked at in one reading of the queue, which is the server's ceiling."""
LOOK_S: Final = 0.5


def dispatch(
    item: str | None = None,
    /,
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    node: Node | None = None,
    from_queue: Flag = False,
    project: str | None = None,
    task: TextArg | None = None,
    harness: str | None = None,
    model: str | None = None,
    profile: Node | None = None,
    as_: Annotated[AgentArg | None, Parameter(name="--as")] = None,
    allow_person_token: Flag = False,
    dir_: Annotated[Path | None, Parameter(name="--dir")] = None,
    base: str = "main",
    name: str | None = None,
    template: Path | None = None,
    brief: Annotated[bool, Parameter(negative="--no-brief", show_default=False)] = True,
    full: Flag = False,
    read_only: Flag = False,
    contract: Flag = False,
    force: Flag = False,
    wait: Flag = False,
    print_: Annotated[Flag, Parameter(name="--print")] = False,
    run_max: Duration = timedelta(seconds=DEFAULT_RUN_MAX_S),
    run_idle: Duration = timedelta(seconds=DEFAULT_RUN_IDLE_S),
    common: Common = COMMON,
) -> int:
    """Send an agent to one item: it gets the task on its standard input, in a git worktree of its own.

    Everything that could stand against the run is looked at first; what is
    refused has changed nothing. The run then goes on by itself (baton runs
    shows it), and the command ends with 0 once its agent is at work, with 1
    when it was not started.

    Args:
        item: the item's id; or, as soon as there is a blank in it, a task in your own words, which is no item's.
        command: a plain program that does the work, and its arguments, after --; otherwise an agent program.
        node: the item's id, when COMMAND follows.
        from_queue: the best item of the queue that an agent may do and whose checkout is known.
        project: with --from-queue: only items of this project.
        task: what you want besides what the item says; "-" reads standard input.
        harness: the agent program, such as codex; otherwise the profile's, the configured or the only one.
        model: the model it is to use.
        profile: the profile it runs under; otherwise the item's or the agent's.
        as_: which agent of yours the run is.
        allow_person_token: let the run carry your own name and token where no agent is named.
        dir_: the checkout it is for.
        base: the branch the work is for.
        name: what the run is called in lists.
        template: a file with the prompt, with names such as {{task}} in it.
        brief: tell it what is known around the item.
        full: tell it more: the text of what is near, and the norms.
        read_only: the agent may look, and change nothing.
        contract: add the rules of a run that nobody watches, as baton work does.
        force: also what is done, is being worked on from here, or is for another checkout.
        wait: follow the run to its end, and say what it did; Ctrl-C then stops the run.
        print_: show what would be done, with the whole prompt, and do nothing.
        run_max: stop the run after this time.
        run_idle: stop the run when it gives no sign of life for this time; 0s never does.

    """
    if full and not brief:
        raise UsageError("--full and --no-brief exclude each other")
    wish = Wish(
        node=None,
        instructions="" if task is None else read_text(task),
        directory=dir_,
        base=base,
        name=name,
        command=command,
        harness=harness,
        model=model,
        profile=profile,
        agent=as_,
        template=template,
        read_only=read_only,
        contract=contract,
        allow_person=allow_person_token,
        force=force,
    )
    wish = _about(wish, item, node=node, from_queue=from_queue)
    home = config.home_of(os.environ)
    said = load(home, os.environ, _standing())
    for warning in said.warnings:
        warn(f"warning: {warning}")
    settings = Settings(
        home=home,
        inherited=dict(os.environ),
        run_max_s=run_max.total_seconds(),
        run_idle_s=run_idle.total_seconds(),
        disposable=said.disposable.value,
        retention=said.retention.value,
        briefing=(Mode.FULL if full else Mode.DIGEST) if brief else None,
    )
    as_person = wish.node is None and not from_queue
    with _sending(common, settings, said.box, as_person=as_person) as (sending, client, starter):
        if wish.node is not None and not print_:
            # What a dead run has left of the item would stand in the way, and be nobody's to clear up.
            take_up_item(Settler(sending.graph, settings, _now), wish.node, say=warn)
        if from_queue:
            plans = _from_queue(sending, client, wish, project=project)
        else:
            plans = iter([planning.prepare(sending, wish)])
        if print_:
            return _show(preview.of(_told(next(plans)), sending), common)
        launcher = Launcher(sending.graph, settings, _now, starter)
        return _send(plans, launcher, client, wait=wait, common=common)


def _standing() -> Path:
    """Return the folder that the command was started in; `UsageError` when that was removed."""
    try:
        return Path.cwd()
    except FileNotFoundError as error:
        raise UsageError("the folder you stand in is not there any more; change to one that is") from error


def _about(wish: Wish, item: str | None, *, node: NodeId | None, from_queue: bool) -> Wish:
    """Return the wish with what it is about; a first argument beside --node or --from-queue is the command's."""
    if node is not None or from_queue:
        if node is not None and from_queue:
            raise UsageError("--node and --from-queue exclude each other")
        command = wish.command if item is None else (item, *wish.command)
        return replace(wish, node=node, command=command)
    if item is None:
        raise UsageError("name an item, as in: baton dispatch task-1; or say --from-queue, or a task in your own words")
    if item.split() == [item]:
        try:
            return replace(wish, node=parse_node_id(item))
        except Invalid as error:
            raise UsageError(f"{error.message}; a task in your own words has more than one") from error
    return replace(wish, instructions="\n\n".join(filter(None, [item, wish.instructions])))


@contextmanager
def _sending(
    common: Common, settings: Settings, said: BoxFile, *, as_person: bool
) -> Iterator[tuple[Sending, Client, ByProcess]]:
    """Speak as whoever's token is configured; without a server as this machine's agent, sent by its person (D37).

    `as_person` has the person speak there: what needs no lease needs a token that only they can have made (D2a).
    """
    found = config.load(os.environ, server=common.server)
    agent = said.agent or (None if found.agent is None else AgentId(HolderId(found.agent.text)))
    if found.server is not None:
        with connected(common) as client:
            token = None if found.token is None else found.token.text
            sending = Sending(client, ServerGraph(client), said, settings, _standing(), configured_agent=agent)
            yield sending, client, ByProcess(server=client.server, token=token)
        return
    from batonpass.cli.local import agent_token, database_url, local_server, person_token

    with local_server(database_url(found.home)) as server:
        its_agent = agent_token(server, found.home)
        speaks = person_token(server, found.home) if as_person else its_agent
        own = agent or (None if its_agent.agent is None else AgentId(HolderId(its_agent.agent)))
        with server.client(speaks.token) as client:
            graph = ServerGraph(client)
            sending = Sending(client, graph, said, settings, _standing(), by_person=True, configured_agent=own)
            yield sending, client, ByProcess(server=None, token=None)


def _from_queue(sending: Sending, client: Client, wish: Wish, *, project: str | None) -> Iterator[Plan]:
    """Return plans for items that nothing stands against, the best first; then `LaunchRefused` says what did."""
    caller = sending.graph.caller()
    accept = Accept.OPEN if sending.by_person or caller.agent is None else Accept.READY
    agent = wish.agent or caller.agent or sending.configured_agent or AgentId(HolderId(""))
    left, seen, offset = list[str](), set[str](), 0
    while True:
        page = client.queue(project=project, limit=PAGE, offset=offset)
        fresh = [body for body in page.items if body.id not in seen]
        for body in fresh:
            seen.add(body.id)
            item = item_of(body)
            try:
                plan = _plan_for(sending, wish, item, refusal(item, accept=accept, agent=agent))
            except (LaunchRefused, BatonError) as error:
                left.append(f"{item.id}: {error.message}")
            else:
                yield plan
                left.append(f"{item.id}: others were faster")
        if not page.truncated or page.next_offset is None or not fresh:
            break
        offset = page.next_offset
    told = "; ".join(left[:5]) + (f"; and {len(left) - 5} more" if len(left) > 5 else "")  # noqa: PLR2004
    raise LaunchRefused("there is nothing in the queue to send a run to" + (f": {told}" if told else ""))


def _plan_for(sending: Sending, wish: Wish, item: Item, why_not: str | None) -> Plan:
    if why_not is not None:
        raise LaunchRefused(why_not)
    plan = planning.prepare(sending, replace(wish, node=item.id, force=False))
    if not plan.place.certain:
        raise LaunchRefused(f"nobody has said which checkout {item.project} is; set dispatch.repos.{item.project}")
    return plan


def _send(plans: Iterator[Plan], launcher: Launcher, client: Client, *, wait: bool, common: Common) -> int:
    """Send off the first run of which the claim is granted, and follow it if that is wished; return the exit code."""
    told = list[int]()

    def tell(number: int) -> None:
        told.append(number)
        launcher.stopping.set()

    with signals.heard(tell):
        begun = _first(plans, launcher, client)
        record = _follow(begun, launcher, told) if isinstance(begun, Begun) and wait else begun.record
    code = Exit.FAILED if isinstance(begun, NotLaunched) else Exit.OK
    if common.json:
        print_json(msgspec.json.encode({"run": as_json(record)}))
    elif wait or code is Exit.FAILED:
        (say if code is Exit.OK else warn)(reaping.told(record))
    else:
        say(f"{record.name or 'the task'}: at work in {record.cwd} (run {record.run_id})")
        warn(f"follow it with: baton runs log {record.run_id[:8]} --follow")
    return Exit.INTERRUPTED if told else code


def _first(plans: Iterator[Plan], launcher: Launcher, client: Client) -> Begun | NotLaunched:
    lost: AlreadyClaimed | None = None
    try:
        for plan in plans:
            try:
                return planning.send(_told(plan), launcher, client)
            except AlreadyClaimed as error:
                lost = error
    except LaunchRefused as error:
        raise error from lost
    assert lost is not None
    raise LaunchRefused(f"{lost.message}; nothing was started") from lost


def _told(plan: Plan) -> Plan:
    for warning in plan.warnings:
        warn(warning)
    return plan


def _follow(begun: Begun, launcher: Launcher, told: list[int]) -> RunRecord:
    """Wait for the end of a run, and return its record.

    The first SIGINT stops the run, and its end is waited for; whatever else asks us to end leaves it alone.
    """
    run, asked = begun.record.run_id[:8], False
    while not begun.supervisor.wait(LOOK_S):
        if told and (len(told) > 1 or told[0] != signal.SIGINT):
            warn(f"the run goes on: baton runs show {run}, or baton runs kill {run}")
            return _read(launcher, begun.record)
        if told and not asked:
            warn("stopping the run; once more leaves it to itself")
            begun.supervisor.terminate()
            asked = True
    record = _read(launcher, begun.record)
    if record.is_settled or record.pending_for is not None:
        return record
    # Its supervisor died before it had settled it.
    left = RunFolder(Journal(launcher.settings.home).folder / record.run_id)
    return reaping.finish(Settler(launcher.graph, launcher.settings, _now), left, warn) or record


def _read(launcher: Launcher, record: RunRecord) -> RunRecord:
    folder: RunFolder = RunFolder(Journal(launcher.settings.home).folder / record.run_id)
    return folder.readable() or record


def _show(preview_: preview.Preview, common: Common) -> int:
    if common.json:
        print_json(msgspec.json.encode(preview_.as_document()))
        return Exit.OK
    for line in preview_.lines():
        say(line)
    say("")
    print_text(preview_.prompt)
    sys.stdout.flush()
    return Exit.OK


def _now() -> datetime:
    return datetime.now(UTC)
