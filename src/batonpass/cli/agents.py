"""`baton agent …`: the agents of a person, and the tokens they work under."""

from __future__ import annotations

import os
from typing import Annotated, Any, Final

import msgspec
from cyclopts import App, Parameter

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, AgentArg, Common, Flag, Label, Node, PersonArg, read_file
from batonpass.cli.render import Column, cut_short, print_fields, print_json, print_table, say, warn
from batonpass.cli.tokens import print_tokens
from batonpass.client import config, identity_calls, token_calls
from batonpass.client.capability_calls import get_capabilities, publish_capabilities
from batonpass.client.config import ConfigError
from batonpass.core.ids import Fence, Resource

COLUMNS: Final = (Column("agent"), Column("label", cut=True), Column("owner"), Column("since"))

app = App(name="agent", help="Agents: make and list them, and their tokens.", version_flags=[])


@app.command(name="add")
def add(
    label: str,
    /,
    *,
    id_: Annotated[AgentArg | None, Parameter(name="--id")] = None,
    owner: PersonArg | None = None,
    common: Common = COMMON,
) -> None:
    """Make an agent. It holds leases in its own name, and works under tokens of its own.

    Args:
        label: what it is called; its id is made of that.
        id_: its id, if it is to be another.
        owner: as an admin: whose it will be.

    """
    answer = ask(common, identity_calls.add_agent(label=label, id_=id_, owner=owner))
    if common.json:
        print_json(answer.raw)
        return
    say(f"{answer.value.id} of {answer.value.owner}")
    warn(f"a token for it: baton agent token {answer.value.id} --standing")


@app.command(name="list")
def list_(
    *,
    all_: Annotated[Flag, Parameter(name="--all")] = False,
    limit: int | None = None,
    after: str | None = None,
    common: Common = COMMON,
) -> None:
    """List your agents.

    Args:
        all_: everybody's, for an admin.
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    answer = ask(common, identity_calls.agents(everybodys=all_, limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
        return
    agents = answer.value.agents
    rows = [(agent.id, agent.label, agent.owner, agent.created_at) for agent in agents]
    print_table(COLUMNS, rows, empty="no agents; make one: baton agent add LABEL")
    cut_short(len(agents), "baton agent list", after=answer.value.next)


@app.command(name="token")
def token(
    agent: AgentArg,
    /,
    *,
    standing: Flag = False,
    session: Label | None = None,
    label: str | None = None,
    expires: str | None = None,
    node: Node | None = None,
    epoch: int | None = None,
    replace: Flag = False,
    common: Common = COMMON,
) -> None:
    """Make a token for an agent, and print it: the only time it is seen.

    Three kinds: for one session (the default), standing, or for one run: with
    --node and --epoch it is good for that tenure and dies with it.

    Args:
        agent: whose it will be.
        standing: for a service that runs for months.
        session: the session it is bound to; it can also be bound once, later.
        label: of a standing one: what it is for.
        expires: a duration such as 12h, or a date.
        node: of a run's: the node whose lease it stands on.
        epoch: of a run's: the lease's epoch.
        replace: of a run's: end the token this tenure may have already.

    """
    if (node is None) is not (epoch is None):
        raise ConfigError("--node and --epoch belong together: a run's token stands on one tenure")
    if node is not None and epoch is not None:
        tenure = Fence(Resource(node), epoch)
        of_run = ask(common, token_calls.mint_run_token(agent, tenure, session=session, replace=replace))
        raw, secret, until = of_run.raw, of_run.value.token, f"the end of {node} at epoch {epoch}"
    elif standing:
        of_service = ask(common, token_calls.mint_standing_token(agent, label=label, expires=expires))
        raw, secret, until = of_service.raw, of_service.value.token, of_service.value.expires
    else:
        of_session = ask(common, token_calls.mint_session_token(agent, session=session, expires=expires))
        raw, secret, until = of_session.raw, of_session.value.token, of_session.value.expires_at
    if common.json:
        print_json(raw)
        return
    warn(f"a token of {agent} until {until}")
    say(secret)


@app.command(name="tokens")
def tokens(agent: AgentArg, /, *, limit: int | None = None, after: str | None = None, common: Common = COMMON) -> None:
    """List the tokens of an agent, without their secrets.

    Args:
        agent: whose.
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    answer = ask(common, token_calls.agent_tokens(agent, limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
    else:
        print_tokens(answer.value, again=f"baton agent tokens {agent}")


@app.command(name="revoke")
def revoke(agent: AgentArg, prefix: str, /, *, common: Common = COMMON) -> None:
    """End a token of an agent. Writes under it that are under way are waited for.

    Args:
        agent: whose.
        prefix: the beginning of its hash, as the list shows it.

    """
    answer = ask(common, token_calls.revoke_agent_token(agent, prefix))
    if common.json:
        print_json(answer.raw)
    else:
        say(f"{answer.value.hash_prefix} {'was revoked before' if answer.value.unchanged else 'is revoked'}")


@app.command(name="bind")
def bind(session: Label, /, *, common: Common = COMMON) -> None:
    """Bind the agent token in use to a session, once and for all.

    Args:
        session: the session's id.

    """
    answer = ask(common, identity_calls.bind_session(session))
    if common.json:
        print_json(answer.raw)
    else:
        say(f"{answer.value.agent} is bound to session {answer.value.session}")


@app.command(name="capabilities")
def capabilities(agent: AgentArg, /, *, publish: str | None = None, common: Common = COMMON) -> None:
    """Show what the machine of an agent can run, as it was published last, or publish it.

    Args:
        agent: whose.
        publish: a file of JSON with the axes harnesses, reachable_mcp, skills, plugins, gh and deny, or with those
            in the layers probed and declared; - is standard input. It takes the place of what was published before.

    """
    call = get_capabilities(agent) if publish is None else publish_capabilities(agent, _axes(publish))
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
        return
    found = answer.value
    can = found.capabilities
    names = {"harnesses": can.harnesses, "MCP servers": can.reachable_mcp, "skills": can.skills, "plugins": can.plugins}
    print_fields(
        {
            "agent": found.agent,
            **{axis: ", ".join(each) or "none" for axis, each in names.items()},
            "gh": "yes" if can.gh else "no",
            "denied profiles": ", ".join(can.deny) or "none",
            "published": f"{found.published_at} by {found.published_by}",
            "last seen": found.last_seen,
        }
    )


def _axes(file: str) -> dict[str, Any]:
    """Return the JSON object in a file, or on standard input for ``-``."""
    try:
        return msgspec.json.decode(read_file(file), type=dict[str, Any])
    except OSError as error:
        raise ConfigError(f"--publish: {file} can't be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"--publish: {file} is no JSON object: {error}") from error


@app.command(name="use")
def use(agent: AgentArg, /) -> None:
    """Name the agent that workers of this machine work as.

    Args:
        agent: its id; BATON_AGENT goes before it.

    """
    home = config.home_of(os.environ)
    with config.changing(home):
        config.save_setting(home, "agent", agent)
    say(f"workers work as {agent} (kept in {home / config.CONFIG})")
