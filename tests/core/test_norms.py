from __future__ import annotations

import pytest

from batonpass.core.ids import NodeId
from batonpass.core.norms import NORMS_MAX, Norm, Scope, Setting, applies, ride_along

HERE = Setting(tags=frozenset({"db"}), repo="web", projects=frozenset({"web", "shop"}))


def scope(*, tags: str = "", repos: str = "", projects: str = "", always_on: bool | None = None) -> Scope:
    return Scope(frozenset(tags.split()), frozenset(repos.split()), frozenset(projects.split()), always_on)


@pytest.mark.parametrize(
    "said, expected",
    [
        (scope(), True),
        (scope(always_on=True), True),
        (scope(always_on=False), False),
        (scope(tags="db ui"), True),
        (scope(tags="ui"), False),
        (scope(tags="ui", repos="web"), True),
        (scope(repos="repo-web"), True),
        (scope(repos="mail", projects="proj-shop"), True),
        (scope(projects="mail"), False),
        (scope(projects="mail", always_on=True), False),
        (scope(tags="db", always_on=False), True),
    ],
)
def test_a_norm_applies_where_one_axis_matches_and_where_none_is_declared(said: Scope, expected: bool) -> None:  # noqa: FBT001
    assert applies(said, HERE) is expected


def test_a_project_blind_briefing_meets_no_projects_norms() -> None:
    blind = Setting(tags=frozenset({"db"}))

    assert [applies(each, blind) for each in (scope(repos="web"), scope(projects="shop"), scope(tags="db"))] == [
        False,
        False,
        True,
    ]


def test_at_most_so_many_ride_along_the_most_particular_first_then_the_newer() -> None:
    norms = [
        Norm(NodeId("norm-everywhere"), scope(), "2026-05-03"),
        Norm(NodeId("norm-here"), scope(repos="web"), "2026-05-01"),
        Norm(NodeId("norm-newer-here"), scope(repos="web"), "2026-05-02"),
        Norm(NodeId("norm-always"), scope(always_on=True)),
        Norm(NodeId("norm-elsewhere"), scope(repos="mail")),
        *(Norm(NodeId(f"norm-x-{n}"), scope()) for n in range(9)),
    ]

    first, left = ride_along(norms, HERE)
    again, _ = ride_along(reversed(norms), HERE)

    assert first[:4] == ["norm-always", "norm-newer-here", "norm-here", "norm-everywhere"]
    assert (len(first), left) == (NORMS_MAX, 5)
    assert again == first
