from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.clock import MICROS_PER_S
from batonpass.core.ids import Instant
from batonpass.core.records import identity_of
from batonpass.core.service_accounts import (
    ALGORITHMS,
    LEEWAY,
    TIME_S_MAX,
    TOKEN_CHARS_MAX,
    Distrusted,
    ServiceAccount,
    Vouched,
    decide_trust,
    is_jwt,
    parse_subject,
)

NOW_S = 1_780_000_000
NOW = Instant(NOW_S * MICROS_PER_S)
SUBJECT = "system:serviceaccount:prod:remediator"
LABEL = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
SECONDS = st.integers(NOW_S - 100, NOW_S + 100)
LEEWAY_S = LEEWAY.seconds


@given(LABEL, st.lists(LABEL, min_size=1, max_size=4).map(".".join))
def test_a_subject_names_an_account(namespace: str, name: str) -> None:
    account = parse_subject(f"system:serviceaccount:{namespace}:{name}")

    assert account == ServiceAccount(namespace, name)
    assert account is not None
    assert identity_of(account.identity) == f"sa:{namespace}/{name}"


@given(st.text() | st.integers() | st.none() | st.text().map("system:serviceaccount:".__add__))
def test_an_account_says_its_subject_again(subject: Any) -> None:  # noqa: ANN401
    account = parse_subject(subject)
    assert account is None or subject == f"system:serviceaccount:{account.namespace}:{account.name}"


@given(exp=SECONDS, nbf=st.none() | SECONDS, iat=st.none() | SECONDS)
def test_a_token_holds_between_its_times_with_the_leeway(exp: int, nbf: int | None, iat: int | None) -> None:
    claims = {"sub": SUBJECT, "exp": exp, "nbf": nbf, "iat": iat}
    decided = decide_trust({name: value for name, value in claims.items() if value is not None}, NOW)

    begins = max([each for each in (nbf, iat) if each is not None], default=0)
    holds = begins - LEEWAY_S <= NOW_S < exp + LEEWAY_S
    assert isinstance(decided, Vouched) is holds
    if isinstance(decided, Vouched):
        assert decided.left == (exp + LEEWAY_S - NOW_S) * MICROS_PER_S > 0


@pytest.mark.parametrize("claim", ["exp", "nbf", "iat"])
@pytest.mark.parametrize("odd", ["1", True, None, [], {}, math.nan, math.inf, -math.inf, -1, TIME_S_MAX + 1, 10**400])
def test_a_time_that_is_none_breaks_the_token(claim: str, odd: object) -> None:
    decided = decide_trust({"sub": SUBJECT, "exp": NOW_S + 60, claim: odd}, NOW)
    assert decided == Distrusted(f"{claim}: is no time")


def test_a_token_without_an_end_is_broken() -> None:
    assert decide_trust({"sub": SUBJECT}, NOW) == Distrusted("exp: is no time")


def test_a_time_may_have_a_fraction() -> None:
    assert decide_trust({"sub": SUBJECT, "exp": NOW_S + 0.5}, NOW) == Vouched(
        ServiceAccount("prod", "remediator"), LEEWAY_S * MICROS_PER_S + MICROS_PER_S // 2
    )


@pytest.mark.parametrize(
    "text",
    ["", "a.b", "a.b.c.d", "a.b.", ".b.c", "a..c", "a.b.c\n", "a.b.c=", "ä.b.c", "a b.c.d", "bat_key_" + "A" * 43],
)
def test_what_has_not_the_form_of_a_token_is_none(text: str) -> None:
    assert not is_jwt(text)


def test_a_token_has_an_end_to_its_length() -> None:
    assert is_jwt("a.b." + "c" * (TOKEN_CHARS_MAX - 4))
    assert not is_jwt("a.b." + "c" * (TOKEN_CHARS_MAX - 3))


def test_no_algorithm_shares_a_secret() -> None:
    allowed = {name for names in ALGORITHMS.values() for name in names}
    assert not {name for name in allowed if name.upper().startswith(("HS", "NONE"))}
