from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core import reports
from batonpass.core.ids import NodeId, RunId, parse_node_id
from batonpass.core.reports import About, Candidate, Decline, Standing

RUN = RunId("0b101010-1234-4abc-8def-0123456789ab")
ABOUT = About(
    run=RUN,
    harness="command",
    target=NodeId("task-retry-emails"),
    target_type="task",
    ended="done",
    date="2026-11-30",
    project="mail",
)

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=400)


# Declines (D18, case 68)


@pytest.mark.parametrize(
    "text",
    [
        "DECLINED: already done",
        "\n  \n\t\nDECLINED: already done\nmore",
        "\ufeffDECLINED: already done",
        "DECLINED: already done\r\nmore",
        "\x1b[1mDECLINED: already done\x1b[0m",
        "\x1b]0;title\x07DECLINED: already done",
        "# DECLINED: already done",
        "### DECLINED: already done ###",
        "**DECLINED: already done**",
        "__DECLINED: already done__",
        "## **DECLINED: already done**",
        "**DECLINED:** already done",
        "**DECLINED**: already done",
        "   DECLINED: already done   ",
        "DECLINED:   already done",
        "DECLINED: already done\nDECLINED: for another reason",
    ],
)
def test_the_fixed_form_on_the_first_line_is_a_decline(text: str) -> None:
    assert reports.parse_decline(text) == Decline("already done")


@pytest.mark.parametrize(
    "text",
    [
        "```\nDECLINED: already done\n```",
        "The contract says to write DECLINED: x",
        "I could not finish.\n\nDECLINED: y",
        "declined: z",
        "Declined: z",
        "DECLINED:",
        "DECLINED:   ",
        "DECLINED : z",
        "DECLINED:z",
        "DECLINED - z",
        "- DECLINED: z",
        "* DECLINED: z",
        "1. DECLINED: z",
        "> DECLINED: z",
        "`DECLINED: z`",
        "    DECLINED: z",
        "**DECLINED: z",
        "*DECLINED: z*",
        "****",
        "**DECLINED:**",
        "#",
        "",
        "\n\n",
    ],
)
def test_anything_else_on_the_first_line_is_a_report(text: str) -> None:
    assert reports.parse_decline(text) is None


def test_a_reason_is_its_whole_line_even_with_a_line_separator_in_it() -> None:
    assert reports.parse_decline("DECLINED: a\u2028b\nrest") == Decline("a\u2028b")


def test_a_candidate_has_one_fixed_form() -> None:
    found = reports.parse_candidate("**CANDIDATE: art-retry-1 — retries are idempotent now**\nrest")

    assert found == Candidate(NodeId("art-retry-1"), "retries are idempotent now")


@pytest.mark.parametrize(
    "text",
    [
        "CANDIDATE: art-retry-1 - why",
        "CANDIDATE: art-retry-1 —",
        "CANDIDATE: Art-Retry — why",
        "CANDIDATE: art-retry-1",
        "see CANDIDATE: art-retry-1 — why",
    ],
)
def test_a_candidate_in_any_other_form_is_a_report(text: str) -> None:
    assert reports.parse_candidate(text) is None


@given(ANY_TEXT)
def test_a_decline_is_never_read_from_text_that_does_not_shout_it(text: str) -> None:
    decline = reports.parse_decline(text)

    assert decline is None or ("DECLINED" in text and decline.reason.strip())


BLANKS = " " * 2**20


@pytest.mark.timeout(2)
@pytest.mark.parametrize(
    "text",
    [
        f"#{BLANKS}DECLINED: x",
        f"# DECLINED:{BLANKS}x",
        f"# DECLINED: x{BLANKS}y",
        f"# DECLINED: x{BLANKS}#y",
        f"**DECLINED: x{BLANKS}y",
        f"** DECLINED: {'**' * 2**19}y",
        f"CANDIDATE:{BLANKS}art-1 — why",
        f"CANDIDATE: art-1{BLANKS}— why",
        f"CANDIDATE: art-1 —{BLANKS}why",
        f"CANDIDATE: art-1 — x{BLANKS}y",
        f"{BLANKS}DECLINED: x",
        f"#{BLANKS}",
        f"# {'#' * 2**20}x",
        f"DECLINED: x{BLANKS}y",
        "DECLINED: " + "\x1b[" * 2**19,
    ],
    ids=range(15),
)
def test_a_first_line_that_goes_on_and_on_is_a_report_at_once(text: str) -> None:
    assert reports.parse_decline(text) is None
    assert reports.parse_candidate(text) is None
    assert reports.storable(text)


@pytest.mark.timeout(2)
@pytest.mark.parametrize("text", [f"# DECLINED: x{BLANKS}", f"DECLINED: x{BLANKS}\t", f"\n{BLANKS}\n## DECLINED: x ##"])
def test_blanks_that_nobody_sees_do_not_make_a_decline_longer(text: str) -> None:
    assert reports.parse_decline(text) == Decline("x")


def test_a_declaration_is_one_line_of_4_kib_at_most() -> None:
    room = reports.DECLARATION_BYTES_MAX - len("DECLINED: ")

    assert reports.parse_decline("DECLINED: " + "é" * (room // 2)) == Decline("é" * (room // 2))
    assert reports.parse_decline("DECLINED: " + "é" * (room // 2 + 1)) is None


@pytest.mark.timeout(2)
@pytest.mark.parametrize("blanks", [60, 3_000])
def test_blanks_within_the_limit_are_looked_through(blanks: int) -> None:
    gap = " " * blanks

    assert reports.parse_decline(f"#{gap}DECLINED: x {gap}y") == (Decline(f"x {gap}y") if blanks == 60 else None)
    assert reports.parse_candidate(f"CANDIDATE:{gap}art-1 — why") == Candidate(NodeId("art-1"), "why")


# What counts as a report


@pytest.mark.parametrize("text", ["", " \n\t ", "\x00\x00", "\ud800", "\ufeff", "\x1b[0m\n", "\u2028"])
def test_text_nobody_could_read_is_no_report(text: str) -> None:
    assert not reports.is_usable(reports.storable(text))


@pytest.mark.parametrize("text", ["x", "\x00x", "\x1b[31m!\x1b[0m", "—"])
def test_a_single_readable_character_is_a_report(text: str) -> None:
    assert reports.is_usable(reports.storable(text))


# What the graph can keep (case 66)


def test_nul_and_lone_surrogates_become_the_replacement_character() -> None:
    assert reports.storable("a\x00b\ud800c\udfff") == "a\ufffdb\ufffdc\ufffd"


def test_an_escaped_nul_is_text_and_stays() -> None:
    assert reports.storable(r"literally \u0000 here") == r"literally \u0000 here"


def test_a_token_that_the_child_printed_is_not_filed() -> None:
    text = "BATON_TOKEN=bat_agt_9fKq2mXv7LpWz3Rt and bat_pat_AAAABBBBCCCC"

    assert reports.storable(text) == "BATON_TOKEN=bat_agt_[redacted] and bat_pat_[redacted]"


@pytest.mark.parametrize(
    "text",
    [
        "\x1b[31mbat_agt_9fKq2mXv7LpWz3Rt\x1b[0m",
        "\x1b[1mbat_agt_9f\x1b[0m\x1b[32mKq2mXv7LpWz3Rt",
        "bat_\x1b[0magt_9fKq2mXv7LpWz3Rt",
        "TOKENbat_agt_9fKq2mXv7LpWz3Rt",
        "0_bat_agt_9fKq2mXv7LpWz3Rt",
    ],
)
def test_neither_colours_nor_letters_around_it_hide_a_token(text: str) -> None:
    stored = reports.storable(text)

    assert "Kq2mXv7" not in stored
    assert stored.endswith("bat_agt_[redacted]")


# The report artifact (D19, D20, cases 74, 76, 78)


def test_a_report_is_an_artifact_that_relates_to_its_target() -> None:
    draft = reports.report_node(ABOUT, "Fixed the retry.\nTwo tests added.", Standing.UNRESOLVED)

    assert draft.fields() == {
        "id": "art-dispatch-report-retry-emails-0b101010",
        "type": "artifact",
        "title": "Dispatch report — task-retry-emails",
        "summary": "Final report from the dispatched command run on task-retry-emails,"
        " ended without resolving it: Fixed the retry.",
        "date": "2026-11-30",
        "project": "mail",
        "edges": [{"type": "relates-to", "to": "task-retry-emails"}],
        "body": f"Final report of dispatched run `{RUN}` (command), which ended `done`. It is kept here so that what"
        " the run did is not lost with it; this artifact resolves nothing.\n\n"
        "The run ended without resolving `task-retry-emails`: the graph shows no live resolving edge on it, so the"
        " item goes back to the queue together with this report.\n\n"
        "Fixed the retry.\nTwo tests added.",
    }


def test_a_report_on_a_target_closed_by_status_says_not_verified() -> None:
    about = replace(ABOUT, target=NodeId("dec-use-queue"), target_type="decision", project=None)

    draft = reports.report_node(about, "Settled.", Standing.NOT_VERIFIED)

    assert "not verified" in draft.body
    assert "not verified" in draft.summary
    assert "ended without resolving" not in draft.body
    assert "project" not in draft.fields()


def test_a_decline_is_an_open_finding_with_the_whole_report_in_it() -> None:
    text = "DECLINED: the retry exists already\n\nSee mail/retry.py."

    draft = reports.finding_node(ABOUT, text, "the retry exists already")

    assert (draft.id, draft.type, draft.status) == ("find-declined-retry-emails-0b101010", "finding", "open")
    assert draft.edges == (("relates-to", "task-retry-emails"),)
    assert draft.summary == "The dispatched command run declined task-retry-emails: the retry exists already"
    assert draft.body.endswith(text)


def test_more_digits_of_the_run_id_make_a_longer_id() -> None:
    ids = [reports.report_node(ABOUT, "x", Standing.UNRESOLVED, digits=digits).id for digits in reports.ID_DIGITS]

    assert ids == [
        "art-dispatch-report-retry-emails-0b101010",
        "art-dispatch-report-retry-emails-0b10101012344abc",
        "art-dispatch-report-retry-emails-0b10101012344abc8def0123456789ab",
    ]


@pytest.mark.parametrize(
    "target, stem",
    [
        ("task-" + "a" * 60, "a" * 40),
        ("task-" + "a" * 39 + "-" + "b" * 9, "a" * 39),
        ("orphan", "orphan"),
        ("task-", "task-"),
    ],
)
def test_the_stem_is_the_target_without_its_prefix_and_at_most_40_characters(target: str, stem: str) -> None:
    draft = reports.report_node(replace(ABOUT, target=NodeId(target)), "x", Standing.UNRESOLVED)

    assert draft.id == f"art-dispatch-report-{stem.rstrip('-')}-0b101010"
    assert parse_node_id(draft.id) == draft.id


def test_a_stored_report_is_known_by_the_full_id_of_its_run() -> None:
    other = replace(ABOUT, run=RunId("0b101010-ffff-4abc-8def-0123456789ab"))

    stored = reports.report_node(ABOUT, "x", Standing.UNRESOLVED)

    assert stored.id == reports.report_node(other, "x", Standing.UNRESOLVED).id
    assert reports.names_run(stored.body, ABOUT.run)
    assert not reports.names_run(stored.body, other.run)


def test_the_first_line_that_is_not_blank_goes_into_the_summary_as_one_line() -> None:
    draft = reports.report_node(ABOUT, "\n\n\tkey:\u0085value \x1b[1m# c\x1b[0m \nsecond", Standing.UNRESOLVED)

    assert draft.summary.endswith("ended without resolving it: key: value # c")


def test_a_summary_of_emoji_is_cut_by_code_points_with_our_own_words_counted() -> None:
    draft = reports.report_node(ABOUT, "\U0001f600" * 600, Standing.UNRESOLVED)

    assert len(draft.summary) == reports.SUMMARY_CHARS_MAX
    assert draft.summary.endswith("\U0001f600…")


def test_a_cut_inside_a_joined_emoji_leaves_no_dangling_joiner() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"

    assert reports.one_line("a" * 7 + family, chars_max=10) == "a" * 7 + "\U0001f468…"


def test_a_body_cut_inside_a_four_byte_character_ends_with_the_notice() -> None:
    draft = reports.report_node(ABOUT, "\U0001f600" * 4_000, Standing.UNRESOLVED)

    size = len(draft.body.encode())
    assert reports.BODY_BYTES_MAX - 4 < size <= reports.BODY_BYTES_MAX
    assert draft.body.endswith("\U0001f600" + reports.TRUNCATED)


def test_a_body_of_exactly_the_limit_is_whole() -> None:
    assert reports.cut("x" * 7_000) == "x" * 7_000
    assert len(reports.cut("x" * 7_001)) == 7_000 - len(reports.TRUNCATED.encode()) + len(reports.TRUNCATED)


@given(ANY_TEXT.map(lambda text: text * 25), st.sampled_from(Standing))
def test_whatever_a_run_says_its_report_fits_and_can_be_stored(text: str, standing: Standing) -> None:
    for draft in (
        reports.report_node(ABOUT, text, standing),
        reports.finding_node(ABOUT, text, text),
    ):
        assert len(draft.body.encode()) <= reports.BODY_BYTES_MAX
        assert len(draft.summary) <= reports.SUMMARY_CHARS_MAX
        assert len(draft.summary.splitlines()) == 1
        assert "\x00" not in draft.body + draft.summary
        assert reports.names_run(draft.body, RUN)
