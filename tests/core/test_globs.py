"""The table of identity globs: whom each means, and which are none (D35)."""

from __future__ import annotations

import time

import pytest

from batonpass.core.globs import matches, what_is_wrong
from batonpass.core.records import Identity


@pytest.mark.parametrize(
    "glob, identity",
    [
        ("agent:*", "agent:agent-mill"),
        ("agent:agent-mill", "agent:agent-mill"),
        ("agent:agent-*", "agent:agent-mill"),
        ("agent:agent-m*l", "agent:agent-mill"),
        ("agent:*l*", "agent:agent-mill"),
        ("person:*", "person:person-ada"),
        ("apikey:*", "apikey:worker"),
        ("apikey:remediator", "apikey:remediator"),
        ("apikey:remediator/*", "apikey:remediator/worker-1"),
        ("apikey:remediator/worker-*", "apikey:remediator/worker-"),
        ("apikey:a/b/*", "apikey:a/b/c"),
        ("apikey:a/*b*c*", "apikey:a/xbxbxc"),
        ("sa:kagent/*", "sa:kagent/remediator"),
        ("sa:kagent/remediator", "sa:kagent/remediator"),
    ],
)
def test_a_glob_means(glob: str, identity: str) -> None:
    assert what_is_wrong(glob) is None
    assert matches(glob, Identity(identity))


@pytest.mark.parametrize(
    "glob, identity",
    [
        ("agent:*", "person:person-ada"),
        ("agent:*", "apikey:agent"),
        ("agent:agent-mill", "agent:agent-miller"),
        ("agent:agent-mill*", "agent:agent-mil"),
        ("agent:*a*a*", "agent:b-a"),
        ("apikey:*", "apikey:remediator/worker-1"),
        ("apikey:remediator/*", "apikey:remediator"),
        ("apikey:remediator/*", "apikey:remediator/east/worker-1"),
        ("apikey:remediator/*", "apikey:remediator2/worker-1"),
        ("apikey:remediator/w*1", "apikey:remediator/w"),
        ("apikey:aa*aa", "apikey:aaa"),
        ("apikey:Remediator", "apikey:remediator"),
        ("sa:kagent/*", "sa:kagent2/remediator"),
        ("sa:kagent/*", "apikey:kagent/remediator"),
    ],
)
def test_a_glob_does_not_mean(glob: str, identity: str) -> None:
    assert what_is_wrong(glob) is None
    assert not matches(glob, Identity(identity))


@pytest.mark.parametrize(
    "glob, why",
    [
        ("*", "begins with agent:, person:, apikey:, sa:, and then says who"),
        ("", "begins with agent:, person:, apikey:, sa:, and then says who"),
        ("mill", "begins with agent:, person:, apikey:, sa:, and then says who"),
        ("*:mill", "begins with agent:, person:, apikey:, sa:, and then says who"),
        ("user:ada", "begins with agent:, person:, apikey:, sa:, and then says who"),
        ("Agent:*", "begins with agent:, person:, apikey:, sa:, and then says who"),
        ("apikey:*/worker-1", "* stands in the last segment only"),
        ("apikey:a*/b", "* stands in the last segment only"),
        ("sa:*/*", "* stands in the last segment only"),
        ("apikey:**", "** is no glob; * means any characters of the last segment"),
        ("apikey:a/**", "** is no glob; * means any characters of the last segment"),
        ("apikey:", "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"),
        ("apikey:a//b", "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"),
        ("apikey:a/", "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"),
        ("apikey:a?", "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"),
        ("apikey:[ab]", "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"),
        ("apikey:a b", "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"),
        ("apikey:ä", "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"),
        ("apikey:a:b", "each segment is letters, digits, dots, underscores and hyphens, and in the last one *"),
        ("sa:kagent", "a service account is sa:<namespace>/<name>"),
        ("sa:*", "a service account is sa:<namespace>/<name>"),
        ("sa:a/b/c", "a service account is sa:<namespace>/<name>"),
        ("agent:mill", "means nobody: it is agent:<id>, and the id of every agent begins with agent-"),
        ("agent:mill-*", "means nobody: it is agent:<id>, and the id of every agent begins with agent-"),
        ("agent:agent-a/b", "means nobody: it is agent:<id>, and the id of every agent begins with agent-"),
        ("person:agent-mill", "means nobody: it is person:<id>, and the id of every person begins with person-"),
        ("apikey:" + "a" * 200, "207 characters; the limit is 200"),
    ],
)
def test_what_is_no_glob_says_why(glob: str, why: str) -> None:
    assert what_is_wrong(glob) == why


def test_a_glob_of_many_stars_is_as_quick_as_any() -> None:
    glob, identity = "apikey:" + "a*" * 90 + "b", Identity("apikey:" + "a" * 5_000)

    began = time.perf_counter()
    assert not matches(glob, identity)

    assert time.perf_counter() - began < 0.5
