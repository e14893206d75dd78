"""The standing rules of a run that nobody watches, and the shorter ones of a run that may only look.

In our own words; nothing of the graph's is in them but a node's id and type,
which have a form that no text can hide in, and the names of branches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from batonpass.core.ids import NodeId
from batonpass.core.outcome import is_judged_by_edge


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a contract is about: the item, the branch of the run, and the branch that its work is for."""

    node: NodeId
    type: str
    branch: str
    target: str


_ONE_TURN: Final = """\
You work unattended, and this is your only turn: when you stop, the run is over, and whatever you left running is
stopped. Wait for your own commands; don't put work off to the background.
"""
_GRAPH: Final = """\
The command `baton` is on your PATH and speaks to the graph in this run's name (`baton --help`, `baton show {node}`,
   `baton ask "…"` for a question to a person). The server itself is `$BATON_SERVER`, your token `$BATON_TOKEN`; it is
   good for this run only and dies with its lease. A 409 with `lease_lost` means that the item is somebody else's by
   now: stop.
"""
_DECLINE: Final = """\
If the item itself is wrong (done already, its premise gone, not for this repository), decline it: commit nothing,
   change nothing about the item, and let the first line of the report be exactly

       DECLINED: <the reason, in one line>
"""
_REPORT: Final = """\
Write your final report to the file `$BATON_REPORT`, or as your last message if you can't write files. Say which item it
was (`{node}`), what you changed, how you checked it, and then by its id what now shows that it is done, or what stands
in the way, or that you decline. End with what you noticed besides, one line each
(`- [issue|task|smell|better-approach] <where> — …`), or with "none".
"""
_WORK: Final = f"""
# Contract

{_ONE_TURN}
1. Stay in this checkout and on its branch, `{{branch}}`. Don't merge into `{{target}}`, don't push, don't touch other
   checkouts.
2. Check what you did with commands whose result you can name, not by reading alone.
3. Commit everything and leave the tree clean before you say that the item is done.
4. <completion>
5. {_GRAPH}\
6. If it does not come out, leave the item as it is. Commit what is worth keeping, and name what stopped you in the
   report.
7. {_DECLINE}
If your change makes something remember that it owes a later step (a flag, a marker file, a row to be handled), go
through four ways for that to go wrong, and say in the report which of them you ruled out and how: the mark itself can't
be written; one mark is cleared before the next is set, and a crash comes in between; somebody else acts between the
check and the write; the mark is found again when the matter has long been settled.

{_REPORT}"""
_LOOK: Final = f"""
# Contract

{_ONE_TURN}
1. This run may only look: change no file, commit nothing, and don't say of the item that it is done. What you find out
   is your report and nothing else.
2. Stay in this checkout. Don't push, and don't touch other checkouts.
3. {_GRAPH}\
4. {_DECLINE}
{_REPORT}"""
_BY_EDGE: Final = """\
Only an edge on the graph makes it done. As the very last step file a resolver: an artifact or a decision with a
   `resolves` edge onto `{node}`.

       baton add "<what there is now>" --type artifact --summary "<it in a sentence>" --link resolves:{node}

   Where that command can't be run, send the same by hand:

       POST $BATON_SERVER/v1/nodes
       {{"nodes": [{{"id": "art-…", "type": "artifact", "title": "…", "summary": "…", "date": "YYYY-MM-DD",
                    "edges": [{{"type": "resolves", "to": "{node}"}}], "body": "…"}}]}}
"""
_BY_STATUS: Final = """\
A `{type}` is closed by its own status, and nothing but that says that it is done. As the very last step set it:

       baton set {node} --status <status>

   Where that command can't be run, send the same by hand:

       POST $BATON_SERVER/v1/nodes/{node}/status
       {{"status": "…"}}
"""
READ_ONLY: Final = (
    "This run may only look: change no file, commit nothing, and don't say of anything that it is done. What you find"
    " out is your answer."
)


def of_work(terms: Terms) -> str:
    """Return the rules of a run that does the work; it can end in every way that the outcome contract has."""
    completion = _BY_EDGE if is_judged_by_edge(terms.type) else _BY_STATUS
    return _filled(_WORK.replace("<completion>\n", completion), terms)


def of_looking(terms: Terms) -> str:
    """Return the rules of a run that changes nothing."""
    return _filled(_LOOK, terms)


def _filled(text: str, terms: Terms) -> str:
    names = {"branch": terms.branch, "target": terms.target, "node": terms.node, "type": terms.type}
    return text.format(**names).strip()
