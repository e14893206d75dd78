from __future__ import annotations

from batonpass.wire.keys import KeyReply


def test_the_reply_that_holds_a_secret_does_not_show_it() -> None:
    reply = KeyReply(
        identity="apikey:ci",
        name="ci",
        token="bat_key_" + "s" * 43,
        hash_prefix="0123456789ab",
        expires="2027-01-01T00:00:00+00:00",
        scope="write",
    )

    assert repr(reply) == "KeyReply(identity='apikey:ci', hash_prefix='0123456789ab', …)"
