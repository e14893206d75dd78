from __future__ import annotations

import io
import sys

import pytest

from batonpass.testing.commands import Baton


def test_a_question_says_to_whom_it_went_and_an_answer_ends_it(baton: Baton) -> None:
    task = baton.task("a")
    with baton.as_agent("mill"):
        asked = baton.ok("ask", "Which port?", "--about", task)

    answered = baton.ok("answer", "question-which-port", "8080.")

    assert asked.out == "question-which-port went to person-ada-reader (author)\n"
    assert answered.out == "question-which-port is answered by dec-answer-which-port\n"
    shown = baton.json("show", "question-which-port")
    assert (shown["frontmatter"]["status"], shown["resolution"]["by"]) == ("answered", "dec-answer-which-port")


def test_a_question_that_finds_nobody_is_everybodys(baton: Baton) -> None:
    assert baton.ok("ask", "Which port?").out == "question-which-port is in everybody's inbox\n"


def test_the_document_is_the_servers_own(baton: Baton) -> None:
    asked = baton.json("ask", "Which port?", "--to", "person-ada-reader", "--title", "Port", "--project", "demo")
    answered = baton.json("answer", "question-port", "8080.")

    assert (asked["id"], asked["via"], asked["project"]) == ("question-port", "to", "demo")
    assert answered["id"] == "dec-answer-port"


def test_an_item_waits_for_what_is_asked_about_it(baton: Baton) -> None:
    baton.task("a", "--ready")
    baton.ok("ask", "Which port?", "--about", "task-a")

    (item,) = [item for item in baton.json("queue")["items"] if item["id"] == "task-a"]

    assert item["readiness"] == "human"
    assert "open question question-which-port in neighborhood" in item["readiness_reasons"]


def test_a_text_comes_from_standard_input(baton: Baton, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"--which port?\n\nIt says \xff.\n")))

    baton.ok("ask", "-")

    shown = baton.json("show", "question-which-port")
    assert shown["body"] == "--which port?\n\nIt says \ufffd.\n"
