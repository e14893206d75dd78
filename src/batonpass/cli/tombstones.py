"""`baton delete`."""

from __future__ import annotations

from batonpass.cli.context import ask
from batonpass.cli.leases import held_by
from batonpass.cli.options import COMMON, Common, Flag, Node
from batonpass.cli.render import print_json, say, warn
from batonpass.client import graph_calls


def delete(node: Node, /, *, reason: str, force: Flag = False, common: Common = COMMON) -> None:
    """Delete a node for good; its history stays.

    For admins. Its id is never used again, and edges onto it lead nowhere.

    To take an item out of the queue a status will do: baton set NODE --status abandoned.

    Args:
        node: which.
        reason: why; whoever asks for the node is told.
        force: also while somebody holds it; their lease ends.

    """
    answer = ask(common, graph_calls.delete(node, reason=reason, force=force))
    if common.json:
        print_json(answer.raw)
        return
    reply = answer.value
    say(f"{reply.id} is deleted; it was at {reply.revision}")
    if reply.ended is not None:
        say(f"the lease of {held_by(reply.ended)} has ended (epoch {reply.ended.epoch})")
    for warning in reply.warnings:
        warn(warning)
