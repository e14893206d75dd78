from __future__ import annotations

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batonpass.core.clock import micros
from batonpass.core.errors import Conflict, Invalid
from batonpass.core.ids import Instant, TokenHash
from batonpass.core.keys import ApiKey, KeyName, parse_key_name, replaced_by_mint
from batonpass.core.records import identity_of
from batonpass.core.tokens import LIVES, SECRET_BYTES, Kind, Scope, expiry_of, is_of_key, secret_of, well_formed

NOW = Instant(10**15)
SEGMENT = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,30}", fullmatch=True)


def key(digit: str = "a", *, ends: int = 1, revoked: bool = False) -> ApiKey:
    """Return a key that ends so many microseconds from now."""
    revoked_at = NOW if revoked else None
    return ApiKey(TokenHash(digit * 64), KeyName("w/1"), Scope.WRITE, "system", NOW, Instant(NOW + ends), revoked_at)


@given(st.lists(SEGMENT, min_size=1, max_size=6))
def test_a_name_is_segments_with_slashes_between(segments: list[str]) -> None:
    name = parse_key_name("/".join(segments))

    assert name == "/".join(segments)
    identity = ApiKey(TokenHash(""), name, Scope.WRITE, "", NOW, NOW).identity
    assert identity_of(identity) == f"apikey:{name}"


@given(st.text(max_size=20))
def test_a_name_is_taken_as_it_is_or_refused(text: str) -> None:
    segments = text.split("/")
    try:
        name = parse_key_name(text)
    except Invalid:
        assert not all(re.fullmatch("[A-Za-z0-9][A-Za-z0-9._-]*", segment) for segment in segments)
    else:
        assert name == text
        assert all(segment[:1].isalnum() for segment in segments)


@pytest.mark.parametrize("kind", Kind)
def test_a_secret_is_no_name(kind: Kind) -> None:
    secret = secret_of(kind, bytes(SECRET_BYTES)).reveal()
    for name in (secret, f"worker/{secret}"):
        with pytest.raises(Invalid, match="has the text of a token in it") as refused:
            parse_key_name(name)
        assert secret not in str(refused.value)


@pytest.mark.parametrize("value", [None, 7, True, ["a"], {}])
def test_a_name_is_a_text(value: object) -> None:
    with pytest.raises(Invalid, match=r"^key: must be a string"):
        parse_key_name(value, field="key")


@pytest.mark.parametrize("text", ["apikey:w", "a/", "/a", "a//b", "a/*", "a\n", "sa:x/y", "x" * 201])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"^name: "):
        parse_key_name(text)


def test_a_key_holds_until_it_ends_or_is_revoked() -> None:
    assert key(ends=1).valid(NOW)
    assert not key(ends=0).valid(NOW)
    assert not key(ends=1, revoked=True).valid(NOW)


def test_a_name_has_one_live_key() -> None:
    first = key("a")

    assert replaced_by_mint(None, replace=False, repeats=None) == frozenset()
    assert replaced_by_mint(None, replace=True, repeats=first.hash) == frozenset()
    assert replaced_by_mint(first, replace=True, repeats=None) == {first.hash}
    assert replaced_by_mint(first, replace=False, repeats=first.hash) == {first.hash}
    for repeats in (None, key("b").hash):
        with pytest.raises(Conflict, match="has a live key"):
            replaced_by_mint(first, replace=False, repeats=repeats)


def test_a_key_lives_a_year_and_five_at_most() -> None:
    assert expiry_of(Kind.KEY, None, NOW) == (NOW + micros(timedelta(days=365)), False)
    assert expiry_of(Kind.KEY, "1825d", NOW) == (NOW + micros(LIVES[Kind.KEY].most), False)
    with pytest.raises(Invalid, match="an API key lives at most 1825 days"):
        expiry_of(Kind.KEY, "1826d", NOW)


def test_a_keys_secret_says_that_it_is_one() -> None:
    secrets = {kind: secret_of(kind, bytes(SECRET_BYTES)) for kind in Kind}

    assert all(well_formed(secret) for secret in secrets.values())
    assert [kind for kind, secret in secrets.items() if is_of_key(secret)] == [Kind.KEY]
