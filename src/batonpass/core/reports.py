"""A run's last words: what they declare, and the node they become.

A final report is text that a program wrote about its own work. Three things
are read from it and nothing else: whether there is anything to file, whether
its first line is the fixed form of a decline or of a candidate (D18), and
what the artifact or finding made of it holds. Whether the work is done is
never read from it (`core.outcome`).

Sizes: a body is counted in bytes, a summary in code points (D20). Both stay
below the server's caps, so that a long report is cut here and never refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from batonpass.core.ids import NodeId, RunId

BODY_BYTES_MAX: Final = 7_000
"""Of a filed report, everything included; the server's own cap is 8,192."""
SUMMARY_CHARS_MAX: Final = 460
"""Code points of a filed summary, our own words included; the server's cap is 500."""
DECLARATION_BYTES_MAX: Final = 4_096
"""Of a first line that may decline or offer something; a longer one is prose, whatever it opens with."""
STEM_CHARS_MAX: Final = 40
REPORT_PREFIX: Final = "art-dispatch-report"
DECLINE_PREFIX: Final = "find-declined"
ID_DIGITS: Final = (8, 16, 32)
"""Hex digits of the run id in a report's id: the shortest that no other run has taken (D19)."""
TRUNCATED: Final = "\n\n[report truncated — see the run log for the full text]"
REPLACEMENT: Final = "\ufffd"

_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")
_SECRET: Final = re.compile(r"(bat_(?:pat|agt|key)_)[A-Za-z0-9_-]{8,}")
_ANSI: Final = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_]")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Blanks at the end are stripped before these see a line: whatever follows a `.*` here is its end, so each is linear.
_HEADING: Final = re.compile(r" {0,3}#{1,6}[ \t]*(?P<rest>.*)")
_BOLD_LINE: Final = re.compile(r"(?P<mark>\*\*|__)(?P<rest>.+)(?P=mark)")
_BOLD_LABEL: Final = re.compile(r"(?P<mark>\*\*|__)(?P<label>[A-Z]+)(?::(?P=mark)|(?P=mark):)(?P<rest>.*)")
_DECLINED: Final = re.compile(r" {0,3}DECLINED:[ \t]+(?P<reason>\S.*)")
_CANDIDATE: Final = re.compile(
    r" {0,3}CANDIDATE:[ \t]+(?P<resolver>[a-z0-9][a-z0-9-]{0,199})[ \t]+—[ \t]+(?P<why>\S.*)"
)


@dataclass(frozen=True, slots=True)
class Decline:
    """The run says the item is wrong, not that the work is unfinished."""

    reason: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """The run offers the work behind `resolver` to be judged."""

    resolver: NodeId
    why: str


class Standing(StrEnum):
    """What a filed report may say about its target."""

    UNRESOLVED = "unresolved"
    """The graph was read: no live resolving edge."""
    NOT_VERIFIED = "not_verified"
    """The target's type is closed by status, which a run's outcome does not read (D17)."""


@dataclass(frozen=True, slots=True)
class About:
    """Whose report it is. `ended` is the process state of the run; `date` is YYYY-MM-DD."""

    run: RunId
    harness: str
    target: NodeId
    target_type: str
    ended: str
    date: str
    project: str | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """A node to file: every field it has, and its edges as (type, target)."""

    id: NodeId
    type: str
    title: str
    summary: str
    date: str
    body: str
    edges: tuple[tuple[str, NodeId], ...]
    project: str | None = None
    status: str | None = None

    def fields(self) -> dict[str, object]:
        """Return the draft as the JSON form of a node, keys without a value left out (D12)."""
        optional = {"project": self.project, "status": self.status}
        return {
            "id": self.id,
            "type": self.type,
            "title": self.title,
            "summary": self.summary,
            "date": self.date,
            **{key: value for key, value in optional.items() if value is not None},
            "edges": [{"type": kind, "to": target} for kind, target in self.edges],
            "body": self.body,
        }


def storable(text: str) -> str:
    """Return `text` as the graph can keep it: no NUL, no lone surrogate, no terminal code, no secret of ours.

    The first two become U+FFFD, as the server would make them. A token that a
    child printed keeps its prefix only: a report is read by everybody. What
    stands before a token doesn't hide it, and a colour inside doesn't split it.
    """
    return _SECRET.sub(r"\1[redacted]", _UNSTORABLE.sub(REPLACEMENT, _ANSI.sub("", text)))


def is_usable(text: str) -> bool:
    """Whether `text` holds anything a person could read."""
    return bool(one_line(text).strip(REPLACEMENT + "\ufeff "))


def parse_decline(text: str) -> Decline | None:
    """Return the decline `text` opens with, or None when it opens with anything else (D18).

    Only the first line that is not blank is read. A byte-order mark, terminal
    codes, carriage returns, a heading mark and a bold wrapper are looked
    through; a bullet, a quote, a code span or a fence is not, because those
    are how a report cites the form without using it.
    """
    match = _DECLINED.fullmatch(_declaration(text))
    return None if match is None else Decline(match["reason"])


def parse_candidate(text: str) -> Candidate | None:
    """Return the candidate `text` opens with, or None; the same line and wrappers as a decline."""
    match = _CANDIDATE.fullmatch(_declaration(text))
    return None if match is None else Candidate(NodeId(match["resolver"]), match["why"])


def report_node(about: About, text: str, standing: Standing, *, digits: int = ID_DIGITS[0]) -> Draft:
    """Return the artifact that carries `text` to the graph; it relates to its target and resolves nothing.

    `digits` is how much of the run id the artifact's id shows: more of it when
    the shorter id is another run's (D19).
    """
    clause, remark = _standing_words(standing, about)
    opening = (
        f"Final report of {_run_mark(about.run)} ({about.harness}), which ended `{about.ended}`."
        " It is kept here so that what the run did is not lost with it; this artifact resolves nothing."
    )
    lead = f"Final report from the dispatched {about.harness} run on {about.target}, {clause}: "
    return Draft(
        id=_node_id(REPORT_PREFIX, about, digits),
        type="artifact",
        title=f"Dispatch report — {about.target}",
        summary=one_line(lead + _first_line(storable(text)), chars_max=SUMMARY_CHARS_MAX),
        date=about.date,
        project=about.project,
        edges=(("relates-to", about.target),),
        body=cut(f"{opening}\n\n{remark}\n\n{storable(text)}"),
    )


def finding_node(about: About, text: str, reason: str, *, digits: int = ID_DIGITS[0]) -> Draft:
    """Return the open finding that says why the item was declined, with the whole report in its body."""
    opening = (
        f"Declined by {_run_mark(about.run)} ({about.harness}): the run found the item itself wrong and did no work"
        f" on it. `{about.target}` waits for somebody to correct or retire it."
    )
    lead = f"The dispatched {about.harness} run declined {about.target}: "
    return Draft(
        id=_node_id(DECLINE_PREFIX, about, digits),
        type="finding",
        title=f"Declined — {about.target}",
        summary=one_line(lead + storable(reason), chars_max=SUMMARY_CHARS_MAX),
        date=about.date,
        project=about.project,
        status="open",
        edges=(("relates-to", about.target),),
        body=cut(f"{opening}\n\n{storable(text)}"),
    )


def names_run(raw: str, run: RunId) -> bool:
    """Whether the stored node `raw` is this very run's, by its full id (D19)."""
    return _run_mark(run) in raw


def one_line(text: str, *, chars_max: int | None = None) -> str:
    """Return `text` on one line without terminal codes, of at most `chars_max` code points."""
    line = " ".join(_CONTROL.sub(" ", _ANSI.sub("", text)).split())
    if chars_max is None or len(line) <= chars_max:
        return line
    # A cut inside a joined emoji leaves its joiner dangling: take that away as well.
    return line[: chars_max - 1].rstrip("\u200d\ufe0f ") + "…"


def cut(text: str, *, bytes_max: int = BODY_BYTES_MAX, notice: str = TRUNCATED) -> str:
    """Return `text` in at most `bytes_max` bytes of UTF-8, with `notice` at its end when something was cut."""
    data = text.encode()
    if len(data) <= bytes_max:
        return text
    # Ignoring errors drops exactly the bytes of a character the limit fell into.
    return data[: bytes_max - len(notice.encode())].decode(errors="ignore") + notice


def _declaration(text: str) -> str:
    """Return the first line without its wrappers and without blanks at its end; "" when it is too long to declare."""
    line = _first_line(_ANSI.sub("", text.replace("\r", "")).removeprefix("\ufeff")).rstrip()
    if len(line.encode(errors="surrogatepass")) > DECLARATION_BYTES_MAX:
        return ""
    if heading := _HEADING.fullmatch(line):
        line = _without_closing_marks(heading["rest"])
    if bold := _BOLD_LINE.fullmatch(line):
        return bold["rest"].rstrip()
    if label := _BOLD_LABEL.fullmatch(line):
        return f"{label['label']}:{label['rest']}"
    return line


def _without_closing_marks(heading: str) -> str:
    """Return a heading's text without the marks that may close it, which stand after a blank."""
    open_part = heading.rstrip("#")
    return open_part.rstrip() if open_part.endswith((" ", "\t")) else heading


def _first_line(text: str) -> str:
    # Only LF ends a line: a reason may hold U+2028 and stay whole.
    return next((line for line in text.split("\n") if line.strip()), "")


def _standing_words(standing: Standing, about: About) -> tuple[str, str]:
    """Return the clause of the summary and the sentence of the body that say what is known of the target."""
    match standing:
        case Standing.UNRESOLVED:
            clause = "ended without resolving it"
            remark = (
                f"The run ended without resolving `{about.target}`: the graph shows no live resolving edge on it,"
                " so the item goes back to the queue together with this report."
            )
        case Standing.NOT_VERIFIED:
            clause = "whose outcome was not verified against the graph"
            remark = (
                f"Whether `{about.target}` is complete was not verified: a `{about.target_type}` is closed by its"
                " status, and the runner judges by resolving edges alone."
            )
        case unknown:
            assert_never(unknown)
    return clause, remark


def _node_id(prefix: str, about: About, digits: int) -> NodeId:
    stem = (about.target.partition("-")[2] or about.target)[:STEM_CHARS_MAX].rstrip("-")
    return NodeId(f"{prefix}-{stem}-{about.run.replace('-', '')[:digits]}")


def _run_mark(run: RunId) -> str:
    return f"dispatched run `{run}`"
