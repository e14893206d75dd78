from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.capabilities import (
    NAME_CHARS_MAX,
    NAMES_MAX,
    Capabilities,
    Layers,
    Profile,
    Verdict,
    parse_capabilities,
    parse_profile,
    satisfies,
)
from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId

DEEP = NodeId("profile-deep")
names = st.lists(st.sampled_from("a b c d e".split()), unique=True, max_size=4).map(tuple)
machines = st.builds(
    Capabilities,
    harnesses=names,
    reachable_mcp=names,
    skills=names,
    plugins=names,
    gh=st.booleans(),
    deny=st.lists(st.just(DEEP), max_size=1).map(tuple),
)
profiles = st.builds(
    Profile, id=st.just(DEEP), harness=st.none() | st.sampled_from("abc"), mcp=names, skills=names, plugins=names
)


def test_a_profile_without_needs_is_met_by_any_machine() -> None:
    assert satisfies(Capabilities(), Profile(id=DEEP, model="the-largest")) == Verdict(ok=True)


def test_every_lack_is_named_and_nothing_is_put_in_its_place() -> None:
    machine = Capabilities(harnesses=("codex", "gemini"), reachable_mcp=("graph",), skills=("sql",), deny=(DEEP,))
    profile = Profile(
        id=DEEP, harness="claude-code", mcp=("graph", "browser"), skills=("sql", "css"), plugins=("review",)
    )

    assert satisfies(machine, profile).reasons == (
        "profile-deep is denied on this machine",
        "the harness claude-code is not there, only codex, gemini",
        "the MCP server browser is not there",
        "the skill css is not there",
        "the plugin review is not there",
    )


def test_a_machine_without_any_harness_says_so() -> None:
    verdict = satisfies(Capabilities(), Profile(id=DEEP, harness="codex"))

    assert verdict == Verdict(ok=False, reasons=("the harness codex is not there, nor any other",))


def test_another_profile_is_not_concerned_by_a_denial() -> None:
    assert satisfies(Capabilities(deny=(DEEP,)), Profile(id=NodeId("profile-other"))).ok


@given(machines, machines, profiles)
def test_more_capabilities_never_lose_a_profile_unless_it_is_denied(
    one: Capabilities, other: Capabilities, profile: Profile
) -> None:
    both = Layers(probed=one, declared=other).merged()

    if satisfies(one, profile).ok and not other.deny:
        assert satisfies(both, profile).ok
    if satisfies(both, profile).ok:
        assert DEEP not in other.deny


@given(machines, profiles)
def test_a_verdict_is_good_exactly_when_nothing_is_lacking(machine: Capabilities, profile: Profile) -> None:
    everything = (
        DEEP not in machine.deny
        and (profile.harness is None or profile.harness in machine.harnesses)
        and set(profile.mcp) <= set(machine.reachable_mcp)
        and set(profile.skills) <= set(machine.skills)
        and set(profile.plugins) <= set(machine.plugins)
    )
    verdict = satisfies(machine, profile)

    assert verdict.ok is everything
    assert bool(verdict.reasons) is not everything


def test_layers_are_united_in_order_and_only_people_deny() -> None:
    layers = parse_capabilities(
        {
            "harnesses": "gemini",
            "probed": {"harnesses": ["codex", "copilot"], "gh": True, "deny": ["profile-a"]},
            "declared": {"harnesses": ["copilot", "own"], "skills": ["sql", "sql"], "deny": ["profile-b"]},
            "deny": ["profile-c"],
            "of_a_newer_version": 1,
        }
    )

    assert layers.merged() == Capabilities(
        harnesses=("codex", "copilot", "own", "gemini"),
        skills=("sql",),
        gh=True,
        deny=(NodeId("profile-b"), NodeId("profile-c")),
    )


def test_capabilities_may_stand_below_their_own_name() -> None:
    bare = {"plugins": ["review"], "probed": {"reachable_mcp": ["graph"]}}

    assert parse_capabilities({"capabilities": bare}) == parse_capabilities(bare)
    assert parse_capabilities({}) == Layers()


@pytest.mark.parametrize(
    "document, named",
    [
        ({"capabilities": []}, "capabilities: it is not an object"),
        ({"probed": "codex"}, "probed: it is not an object"),
        ({"gh": "yes"}, "gh: it is true or false"),
        ({"declared": {"gh": 1}}, "declared.gh: it is true or false"),
        ({"skills": [3]}, "skills: a name is a line"),
        ({"skills": {"sql": True}}, "skills: a name is a line"),
        ({"skills": [" "]}, "skills: a name is a line"),
        ({"skills": ["two\nlines"]}, "skills: a name is a line"),
        ({"skills": ["x" * (NAME_CHARS_MAX + 1)]}, f"1 to {NAME_CHARS_MAX} characters"),
        ({"skills": ["x"] * (NAMES_MAX + 1)}, f"more than {NAMES_MAX}"),
        ({"deny": ["Not An Id"]}, "deny"),
    ],
)
def test_what_is_no_capability_is_refused_by_its_name(document: dict[str, object], named: str) -> None:
    with pytest.raises(Invalid, match=named):
        parse_capabilities(document)


def test_a_profile_says_what_it_needs() -> None:
    fields = {"harness": "codex", "model": " large ", "mcp": "graph", "skills": ["sql", "css"], "title": "Deep work"}

    assert parse_profile(DEEP, fields) == Profile(
        id=DEEP, harness="codex", model="large", mcp=("graph",), skills=("sql", "css")
    )


@pytest.mark.parametrize("key", ["argv", "env", "binary", "command"])
def test_a_profile_never_chooses_what_is_run(key: str) -> None:
    with pytest.raises(Invalid, match=f"never what it runs: {key}"):
        parse_profile(DEEP, {key: "rm", "harness": "codex"})


def test_a_need_that_cannot_be_read_is_no_need_that_is_met() -> None:
    with pytest.raises(Invalid, match="profile-deep: harness"):
        parse_profile(DEEP, {"harness": ["codex", "gemini"]})
