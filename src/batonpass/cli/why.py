"""`baton why`: every reason why an item is or isn't taken, each with its way out (D41)."""

from __future__ import annotations

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, Node
from batonpass.cli.render import print_json, say
from batonpass.client import node_calls
from batonpass.wire.why import ReasonBody, WhyReply


def why(node: Node, /, *, common: Common = COMMON) -> None:
    """Say why an item is or isn't taken, and what would change it.

    Args:
        node: which.

    """
    answer = ask(common, node_calls.why(node))
    if common.json:
        print_json(answer.raw)
        return
    say(_verdict(answer.value))
    for reason in answer.value.reasons:
        say(_line(reason))


def _verdict(reply: WhyReply) -> str:
    if reply.taken.ready:
        said = "you would be given it by: baton next"
    elif reply.taken.open:
        said = "you would be given it by: baton next --accept open"
    else:
        said = "you would not be given it by: baton next"
    if reply.item is None:
        return f"{reply.id} is not in your queue; {said}"
    return f"{reply.id} is in your queue with {reply.item.score:.2f} ({reply.item.why}); {said}"


def _line(reason: ReasonBody) -> str:
    return f"- {reason.says}" + (f"\n  {reason.way_out}" if reason.way_out is not None else "")
