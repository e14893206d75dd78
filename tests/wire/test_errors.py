from __future__ import annotations

import msgspec

from batonpass.core.errors import BatonError, Conflict, FenceBroken, Internal
from batonpass.wire.errors import HTTP_STATUS, error_body, error_of, http_status


class Unlisted(BatonError):
    """An error that nobody has given a status."""

    code = "unlisted"


def test_an_error_has_the_status_of_its_nearest_class_in_the_table() -> None:
    assert http_status(FenceBroken("gone")) == HTTP_STATUS[Conflict]
    assert http_status(Unlisted("?")) == HTTP_STATUS[Internal]


def test_an_error_comes_back_as_the_class_that_was_raised() -> None:
    for kind, status in HTTP_STATUS.items():
        error = error_of(status, msgspec.json.encode(error_body(kind("words"))))
        assert (type(error), error.message) == (kind, "words")
