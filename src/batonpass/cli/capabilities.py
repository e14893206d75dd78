"""`baton capabilities …`: what this machine can run, and telling the server so."""

from __future__ import annotations

import os

import msgspec
from cyclopts import App

from batonpass.cli.context import ask
from batonpass.cli.exits import UsageError
from batonpass.cli.options import COMMON, AgentArg, Common, Flag, Node
from batonpass.cli.render import print_fields, print_json, say
from batonpass.client import config
from batonpass.client.capability_calls import publish_capabilities
from batonpass.core.capabilities import Capabilities, Layers, parse_capabilities
from batonpass.worker import boxfile
from batonpass.worker import capabilities as found

app = App(
    name="capabilities", help="What this machine can run: show it, and publish it for an agent.", version_flags=[]
)


@app.command
def show(*, json: Flag = False) -> None:
    """Show what this machine can run: what is here now, what was declared, and the profiles it never runs.

    Args:
        json: print one JSON document.

    """
    layers = _look()
    if json:
        print_json(msgspec.json.encode(found.as_document(layers)))
        return
    _print(layers.merged())


def _print(can: Capabilities) -> None:
    print_fields(
        {
            "harnesses": ", ".join(can.harnesses) or "none",
            "tool servers": ", ".join(can.reachable_mcp),
            "skills": ", ".join(can.skills),
            "plugins": ", ".join(can.plugins),
            "gh": "yes" if can.gh else "no",
            "never": ", ".join(can.deny),
        }
    )


@app.command
def probe(*, json: Flag = False) -> None:
    """Show only what is found here at this moment. Nothing is kept: every run looks anew.

    Args:
        json: print one JSON document.

    """
    layers = _look()
    if json:
        print_json(msgspec.json.encode(found.as_document(layers)["probed"]))
    else:
        _print(layers.probed)


@app.command
def declare(
    *,
    harness: tuple[str, ...] = (),
    mcp: tuple[str, ...] = (),
    skill: tuple[str, ...] = (),
    plugin: tuple[str, ...] = (),
    deny: tuple[Node, ...] = (),
    forget: Flag = False,
) -> None:
    """Declare what this machine can run and looking would not find, and which profiles it never runs.

    Args:
        harness: an agent program.
        mcp: a tool server.
        skill: a skill that an agent program has here.
        plugin: a plugin of an agent program.
        deny: a profile that is never run here.
        forget: take back what is named, instead.

    """
    named = {"harnesses": harness, "reachable_mcp": mcp, "skills": skill, "plugins": plugin, "deny": deny}
    if not any(named.values()):
        raise UsageError("name what to declare, as in: baton capabilities declare --skill sql")
    home = config.home_of(os.environ)
    boxfile.read(home, os.environ)  # what can't be read is not written over
    with config.changing(home):
        dispatch = _object(config.setting(home, "dispatch"))
        capabilities = _object(dispatch.get("capabilities"))
        declared = _object(capabilities.get("declared"))
        for axis, names in named.items():
            if names:
                declared[axis] = _changed(declared.get(axis), names, forget=forget)
        changed = {**capabilities, "declared": declared}
        parse_capabilities(changed)
        config.save_setting(home, "dispatch", {**dispatch, "capabilities": changed})
    say(f"kept in {home / config.CONFIG}; tell the server with: baton capabilities publish AGENT")


@app.command
def publish(agent: AgentArg, /, *, common: Common = COMMON) -> None:
    """Tell the server what this machine can run, as an agent's; it takes the place of what was told before.

    Args:
        agent: the agent that works here.

    """
    answer = ask(common, publish_capabilities(agent, found.as_document(_look())))
    if common.json:
        print_json(answer.raw)
    else:
        say(f"published for {answer.value.agent} at {answer.value.published_at}")


def _object(value: object) -> dict[str, object]:
    return dict(value) if isinstance(value, dict) else {}


def _changed(present: object, names: tuple[str, ...], *, forget: bool) -> list[str]:
    """Return the names of an axis with some added at the end, or taken away."""
    there = [name for name in present if isinstance(name, str)] if isinstance(present, list) else []
    return [name for name in there if name not in names] if forget else list(dict.fromkeys([*there, *names]))


def _look() -> Layers:
    return found.look(boxfile.read(config.home_of(os.environ), os.environ), os.environ)
