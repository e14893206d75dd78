from __future__ import annotations

from batonpass.testing.commands import Baton


def test_an_inbox_lists_what_waits_and_for_whom(baton: Baton) -> None:
    baton.ok("ask", "Which port?", "--to", "person-ada-reader", "--project", "demo")
    baton.ok("capture", "The build is slow.")
    baton.ok("add", "Plan", "--type", "artifact", "--id", "art-plan", "--link", "review-requested:person-ada-reader")

    lines = [line.split("  ") for line in baton.ok("inbox").out.splitlines()]

    cells = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert cells == [
        ["what", "node", "for", "waits", "project", "by", "title"],
        ["question", "question-which-port", "person-ada-reader", "today", "demo", "person-ada-reader", "Which port?"],
        ["review", "art-plan", "person-ada-reader", "today", "person-ada-reader", "Plan"],
        ["capture", "cap-the-build-is-slow", "anybody", "today", "person-ada-reader", "The build is slow."],
        ["you asked", "question-which-port", "person-ada-reader", "today", "demo", "person-ada-reader", "Which port?"],
    ]


def test_an_empty_inbox_says_so(baton: Baton) -> None:
    assert baton.ok("inbox").out == "nothing waits for you\n"
    assert baton.ok("questions").out == "no question is open\n"


def test_questions_are_those_for_you_those_for_anybody_and_those_you_asked(baton: Baton) -> None:
    baton.ok("person", "add", "--name", "Pat", "--email", "pat@example.org")
    baton.ok("ask", "Which host?", "--to", "person-pat")
    baton.ok("ask", "Which port?", "--to", "person-ada-reader")
    baton.ok("ask", "Which user?")

    lines = baton.ok("questions").out.splitlines()

    assert [line.split()[:2] for line in lines] == [
        ["question", "for"],
        ["question-which-port", "you"],
        ["question-which-user", "anybody"],
        ["question-which-host", "person-pat"],
    ]
    assert [each["id"] for each in baton.json("questions")["asked"]] == [
        "question-which-host",
        "question-which-port",
        "question-which-user",
    ]


def test_a_list_that_was_cut_says_so_and_how_to_see_more(baton: Baton) -> None:
    for n in range(3):
        baton.ok("ask", f"Number {n}?")

    assert baton.ok("inbox", "--limit", "2").out.splitlines()[-1] == (
        "… there are more questions, asked: baton inbox --limit 200"
    )
    assert baton.ok("questions", "--limit", "2").out.splitlines()[-1] == "… there are more: baton questions --limit 200"


def test_the_queue_says_what_waits_for_your_word(baton: Baton) -> None:
    baton.ok("ask", "Which port?")
    for n in range(21):
        baton.ok("add", f"Finding {n}", "--type", "finding")

    lines = baton.ok("queue").out.splitlines()

    assert "waits for your word: 1 question, 20+ findings (baton inbox)" in lines
