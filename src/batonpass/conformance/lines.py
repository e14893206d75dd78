"""The checklist a worker is graded by, line by line: pure rules over what was seen of it.

A rule is asked about each scenario its line names. It returns why the line is
broken and what shows it, an empty answer where it is kept, and None where the
worker did nothing that the line is about. One broken scenario breaks the line;
a line of which nothing was seen in any of them does not pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from batonpass.conformance.grades import Grade, Graded
from batonpass.conformance.proxy import Exchange
from batonpass.conformance.scenarios import DECLINE, HORIZON_MS, SCENARIOS, root_of
from batonpass.conformance.seen import GRANTS, Seen, leased, nonce_of

SUMMARY_CHARS_MAX: Final = 500
BODY_BYTES_MAX: Final = 8192
ALL: Final = tuple(scenario.id for scenario in SCENARIOS)
REPORTING: Final = ("claims-victory", "crashes", "race", "asks")


@dataclass(frozen=True)
class Broken:
    """Why a line is not kept, and the requests that show it."""

    why: str
    by: Sequence[Exchange] = ()


KEPT: Final = ()
Ruling = Broken | tuple[()] | None
Rule = Callable[[Seen], Ruling]


@dataclass(frozen=True)
class Line:
    """One line of the checklist, where it is asked for, and the scenarios in which it is looked at."""

    id: str
    text: str
    source: str
    scenarios: tuple[str, ...]
    rule: Rule


def grade(line: Line, seen: Sequence[Seen]) -> Graded:
    """Grade a line on what was seen in the scenarios it names."""
    quiet: list[str] = []
    kept: list[str] = []
    for each in (one for one in seen if one.scenario.id in line.scenarios):
        ruling = line.rule(each)
        if isinstance(ruling, Broken):
            evidence = [exchange.told() for exchange in ruling.by]
            why = f"{each.scenario.id}: {ruling.why}"
            return Graded(line.id, line.text, line.source, Grade.FAIL, why, evidence)
        if ruling is None:
            quiet.append(f"{each.scenario.id} (the worker: {each.ended})")
        else:
            kept.append(each.scenario.id)
    if kept:
        return Graded(line.id, line.text, line.source, Grade.PASS, f"seen in {', '.join(kept)}")
    why = f"nothing to judge by in {', '.join(quiet) or 'no scenario'}"
    return Graded(line.id, line.text, line.source, Grade.NOT_SEEN, why)


# --- who, and what it takes -------------------------------------------------------------------------------------------


def agent_token(seen: Seen) -> Ruling:
    """Every write is under an agent's token."""
    wrong = [each for each in seen.writes if each.who != "agent"]
    if wrong:
        return Broken(f"a write under the token of: {wrong[0].who}", wrong[:1])
    return KEPT if seen.writes else None


def claim_first(seen: Seen) -> Ruling:
    """The work begins when its item's claim has been granted."""
    if seen.begin is None:
        return None
    if any(each.answered < seen.begin.asked for each in seen.claims if list(leased(each))):
        return KEPT
    return Broken("the work began, and no claim had been granted", [*seen.claims, seen.begin])


def claim_nonce(seen: Seen) -> Ruling:
    """Each claim of one node, or of the next, carries a nonce that no launch before has had."""
    claims = [each for each in seen.claims if each.path != "/v1/queue/claim"]
    bare = [each for each in claims if nonce_of(each) is None]
    if bare:
        return Broken("a claim without a dispatch nonce", bare[:1])
    used = [each for each in claims if nonce_of(each) in seen.nonces]
    if used:
        return Broken("the nonce of a launch before", used[:1])
    return KEPT if claims else None


def renews(seen: Seen) -> Ruling:
    """The lease is renewed while the work goes on, before the horizon closes."""
    if seen.begin is None or seen.taken is None:
        return None
    while_working = [
        each
        for each in seen.calls
        if GRANTS.fullmatch(each.path) and seen.target in leased(each) and each.answered > seen.claims[0].answered
        and (seen.end is None or each.asked < seen.end.asked)
        and each not in seen.claims
    ]  # fmt: skip
    if while_working:
        return KEPT
    told = [each for each in seen.claims if seen.target in leased(each)]
    return Broken(f"the work outlasted a horizon of {HORIZON_MS} ms, and nothing was renewed", told)


def leaves_humans(seen: Seen) -> Ruling:
    """Nobody claims what is a person's."""
    human = seen.pool["human"]
    wrong = [
        each
        for each in seen.claims
        if human in each.path.split("/") or human in leased(each) or human in _asked_for(each)
    ]
    if wrong:
        return Broken(f"{human} is a person's, and was claimed", wrong[:1])
    return KEPT if seen.claims else None


def goes_on(seen: Seen) -> Ruling:
    """Who loses a race takes the next item in the same pass."""
    if not seen.claims:
        return None
    if seen.taken == seen.pool["target"]:
        return KEPT
    return Broken(f"{seen.pool['taken']} was lost to a rival, and {seen.pool['target']} not taken", seen.claims)


# --- what the work is told --------------------------------------------------------------------------------------------


def briefs(seen: Seen) -> Ruling:
    """The item's briefing is read before the work begins."""
    if seen.begin is None:
        return None
    for each in seen.calls:
        is_digest = each.path == "/v1/digest" and each.ok and root_of(each.query, each.sent) == seen.target
        if is_digest and each.answered < seen.begin.asked:
            return KEPT
    return Broken(f"the work began, and the briefing of {seen.target} had not been read", [seen.begin])


def names_the_item(seen: Seen) -> Ruling:
    """The work is told which item it is about."""
    if seen.begin is None:
        return None
    return KEPT if seen.target in seen.prompt else Broken(f"{seen.target} is not in the prompt", [seen.begin])


def stamps_questions(seen: Seen) -> Ruling:
    """A question that mentions nothing names the session's project."""
    asked = [each for each in seen.calls if (each.method, each.path) == ("POST", "/v1/questions")]
    bare = [each for each in asked if not each.sent.get("mentions")]
    wrong = [each for each in bare if each.sent.get("project") != seen.project]
    if wrong and seen.begin is not None:
        why = f"a question without the project {seen.project}: the work was not told of it"
        return Broken(why, [seen.begin, wrong[0]])
    return KEPT if bare else None


# --- what became of it ------------------------------------------------------------------------------------------------


def reads_back(seen: Seen) -> Ruling:
    """The item is read again when the work is over, before anything follows from it."""
    if seen.end is None:
        return None
    for each in seen.settling:
        if each is seen.read_back:
            return KEPT
        if each in seen.releases or each.path == "/v1/nodes":
            return Broken(f"acted on before {seen.target} had been read again", [seen.end, each])
    return Broken(f"{seen.target} was not read again", [seen.end])


def believes_the_graph(seen: Seen) -> Ruling:
    """Neither an exit code nor a word is a verdict: an edge is."""
    if seen.end is None:
        return None
    filed = [filing.exchange for filing in seen.about]
    if seen.is_resolved and filed:
        return Broken("the graph says resolved, and a report was filed as if it did not", filed[:1])
    if not seen.is_resolved and not filed:
        return Broken("nothing in the graph says that it is done, and no report was filed", [seen.end])
    return KEPT if seen.read_back or filed else None


def keeps_resolved(seen: Seen) -> Ruling:
    """Of a resolved item the lease is not given back: the edge stands as the record of who did it."""
    if seen.end is None or not seen.is_resolved:
        return None
    if seen.releases:
        return Broken("a resolved item was given back", seen.releases[:1])
    return KEPT if seen.read_back else None


def files_report(seen: Seen) -> Ruling:
    """A report that resolves nothing becomes an artifact beside the item, with what the work said."""
    if seen.end is None:
        return None
    sent = [filing.exchange for filing in seen.filings]
    found = [each for each in seen.about if each.node.get("type") == "artifact"]
    if not found:
        return Broken(f"no artifact with a relates-to edge to {seen.target} was sent", [seen.end, *sent])
    head = seen.scenario.says.splitlines()[0]
    return KEPT if head in str(found[0].node.get("body", "")) else Broken("the report lacks the work's words", sent)


def fits(seen: Seen) -> Ruling:
    """A long report is cut to what a node has room for."""
    for filing in seen.about:
        body, summary = str(filing.node.get("body", "")).encode(), str(filing.node.get("summary", ""))
        if len(body) > BODY_BYTES_MAX or len(summary) > SUMMARY_CHARS_MAX:
            why = f"a body of {len(body)} bytes and a summary of {len(summary)} characters"
            return Broken(why, [filing.exchange])
    return KEPT if seen.about else None


def files_once(seen: Seen) -> Ruling:
    """A report that is sent again is the same node."""
    if not seen.about:
        return None
    if len({filing.id for filing in seen.about}) > 1 or len(seen.reports) > 1:
        return Broken("one report became several nodes", [filing.exchange for filing in seen.about])
    bold = [filing.exchange for filing in seen.about if filing.exchange.sent.get("if_exists") != "skip"]
    return Broken("a report was sent without if_exists: skip", bold[:1]) if bold else KEPT


def releases_after(seen: Seen) -> Ruling:
    """The item goes back only when the graph has said that it has the report."""
    if not seen.releases:
        return None
    early = _unconfirmed(seen, seen.releases)
    return Broken("given back, and no report had been confirmed", early[:1]) if early else KEPT


def holds_on_refusal(seen: Seen) -> Ruling:
    """While the report is refused the lease is held."""
    if not seen.filings:
        return None
    return Broken("the report was refused, and the item given back", seen.releases[:1]) if seen.releases else KEPT


def gives_back(seen: Seen) -> Ruling:
    """What is reported goes back into the pool."""
    if seen.confirmed is None:
        return None
    if seen.given_back:
        return KEPT
    return Broken("the report is in the graph, and the item was not given back", [seen.filings[-1].exchange])


def gives_back_silent(seen: Seen) -> Ruling:
    """What nothing was said about goes back into the pool, without a report."""
    if seen.end is None or seen.is_resolved:
        return None
    if seen.filings:
        return Broken("the work said nothing, and a report was filed", [seen.filings[0].exchange])
    return KEPT if seen.given_back else Broken("the item was not given back", [seen.end])


def holds_unjudgeable(seen: Seen) -> Ruling:
    """What can't be judged is not given back."""
    if seen.end is None:
        return None
    if seen.releases:
        return Broken("an item that no edge can resolve was given back", seen.releases[:1])
    return KEPT if seen.read_back else None


def says_unverified(seen: Seen) -> Ruling:
    """The report about what can't be judged says so."""
    if not seen.about:
        return None
    filing = seen.about[0]
    said = " ".join(str(filing.node.get(key, "")) for key in ("title", "summary", "body")).lower()
    return KEPT if "not verified" in said else Broken("the report does not say: not verified", [filing.exchange])


# --- declining --------------------------------------------------------------------------------------------------------


def files_decline(seen: Seen) -> Ruling:
    """A decline becomes a finding beside the item, with the whole text."""
    if seen.end is None:
        return None
    sent = [filing.exchange for filing in seen.filings]
    found = [each for each in seen.about if each.node.get("type") == "finding"]
    if not found:
        return Broken(f"no finding with a relates-to edge to {seen.target} was sent", [seen.end, *sent])
    rest = DECLINE.splitlines()[-1]
    return KEPT if rest in str(found[0].node.get("body", "")) else Broken("the finding lacks the decline's text", sent)


def clears(seen: Seen) -> Ruling:
    """A decline takes the stamp away."""
    if seen.end is None:
        return None
    if "readiness" not in seen.after.get("frontmatter", {}):
        return KEPT
    return Broken(f"{seen.target} still carries the stamp, and will be taken again as it is", [seen.end])


def releases_decline_after(seen: Seen) -> Ruling:
    """A declined item's stamp and lease go when the finding is in the graph."""
    if seen.end is None:
        return None
    stamps = [each for each in seen.settling if each.path == f"/v1/nodes/{seen.target}/readiness"]
    early = _unconfirmed(seen, [*stamps, *seen.releases])
    if early:
        return Broken("stamp or lease went, and no finding had been confirmed", early[:1])
    return KEPT if seen.given_back else Broken("the declined item was not given back", [seen.end])


def _unconfirmed(seen: Seen, calls: Sequence[Exchange]) -> list[Exchange]:
    """Return those of `calls` that were sent before the graph had said that it has the report."""
    return [each for each in calls if seen.confirmed is None or each.asked < seen.confirmed]


def _asked_for(exchange: Exchange) -> Sequence[object]:
    sent = exchange.sent if isinstance(exchange.sent, dict) else {}
    return sent.get("ids") or () if exchange.path == "/v1/queue/claim" else ()


_POOL, _PROMPT, _STATES = (
    f"worker protocol, {part}" for part in ("the pool and the claim", "the prompt contract", "terminal states")
)
_CHECKLIST: Final = "worker protocol, minimal conformance checklist"

LINES: Final = (
    Line("agent-token", "Every write to the graph is under an agent's token, never a person's.", _CHECKLIST, ALL,
         agent_token),
    Line("claim-first", "The item is claimed before the work begins.", _CHECKLIST, ALL, claim_first),
    Line("claim-nonce", "Each launch claims with a nonce of its own.", _POOL, ALL, claim_nonce),
    Line("renews", "The lease is renewed before its horizon closes, while the work goes on.", _CHECKLIST,
         ("works-long",), renews),
    Line("human", "What is a person's is never claimed, whatever stamp it carries.", _CHECKLIST, ("asks",),
         leaves_humans),
    Line("race", "A claim that is answered 409 is somebody else's, and the worker goes on to the next.", _POOL,
         ("race",), goes_on),
    Line("briefing", "The item's compiled briefing is read before the work begins.", _CHECKLIST, ALL, briefs),
    Line("prompt-item", "The work is told which item it is about.", _PROMPT, ALL, names_the_item),
    Line("session-project", "A question that mentions nothing is stamped with the session's project.", _CHECKLIST,
         ("asks",), stamps_questions),
    Line("reads-back", "When the work is over the item is read again before anything follows from it.", _CHECKLIST, ALL,
         reads_back),
    Line("verdict", "Resolved is what an edge in the graph says: no exit code and no word of the work's.", _STATES,
         ("resolves", "claims-victory"), believes_the_graph),
    Line("resolved-keeps", "A resolved item is not given back.", _STATES, ("resolves",), keeps_resolved),
    Line("report-filed", "What is not resolved is reported: an artifact with the work's words, related to the item.",
         _CHECKLIST, ("crashes", "race", "asks"), files_report),
    Line("report-size", "A long report is cut to what a node has room for.", "worker protocol, the report artifact",
         ("crashes",), fits),
    Line("report-once", "A report is filed so that sending it twice lands it once.",
         "worker protocol, the report artifact", ("claims-victory",), files_once),
    Line("report-first", "The item is given back only when the write of its report is confirmed.", _CHECKLIST,
         REPORTING, releases_after),
    Line("released", "An item whose report is in the graph is given back.", _STATES, REPORTING, gives_back),
    Line("refused-holds", "While its report is refused the item is held.", _CHECKLIST,
         ("report-refused", "report-rejected"), holds_on_refusal),
    Line("silent-released", "A run without a word files nothing and gives its item back.", _STATES, ("works-long",),
         gives_back_silent),
    Line("decline-filed", "A decline is filed as a finding that relates to the item and has the whole text.", _STATES,
         ("declines",), files_decline),
    Line("decline-clears", "A decline takes the item's stamp away.", _STATES, ("declines",), clears),
    Line("decline-first", "Stamp and lease of a declined item go only when the finding is confirmed.", _CHECKLIST,
         ("declines",), releases_decline_after),
    Line("unjudgeable-holds", "An item that no edge can resolve is never given back.", _STATES, ("unjudgeable",),
         holds_unjudgeable),
    Line("unjudgeable-says", "The report on an item that no edge can resolve says that it is not verified.", _STATES,
         ("unjudgeable",), says_unverified),
)  # fmt: skip
