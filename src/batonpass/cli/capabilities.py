"""`baton capabilities …`: what this machine can run, and telling the server so."""

from __future__ import annotations

import os

import msgspec
from cyclopts import App

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, AgentArg, Common, Flag
from batonpass.cli.render import print_fields, print_json, say
from batonpass.client import config
from batonpass.client.capability_calls import publish_capabilities
from batonpass.core.capabilities import Layers
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
    can = layers.merged()
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


def _look() -> Layers:
    return found.look(boxfile.read(config.home_of(os.environ), os.environ), os.environ)
