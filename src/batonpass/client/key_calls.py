"""The calls about API keys, which are an admin's; `client.calls` says what a call is."""

from __future__ import annotations

from batonpass.client.calls import Call, change, query_of
from batonpass.core.keys import parse_key_name
from batonpass.wire import keys, paths
from batonpass.wire.tokens import Expires


def mint_key(
    name: str, *, expires: Expires = None, read_only: bool = False, replace: bool = False
) -> Call[keys.KeyReply]:
    """Make the API key `name`; `replace` ends the live one. Sent again, it ends what it made and makes anew (D11)."""
    request = keys.KeyRequest(
        name=parse_key_name(name), expires=expires, scope="read" if read_only else "write", replace=replace
    )
    return change("POST", paths.ADMIN_KEYS, request, keys.KeyReply)


def list_keys(*, name: str | None = None, limit: int | None = None, after: str | None = None) -> Call[keys.KeysReply]:
    """List the API keys that open something, in order of name; `name` is the one of that name."""
    return Call("GET", paths.ADMIN_KEYS, keys.KeysReply, query_of(name=name, limit=limit, after=after))


def revoke_key(prefix: str) -> Call[keys.KeyRevokeReply]:
    """End the API key whose hash begins with `prefix`."""
    return Call("DELETE", paths.fill(paths.ADMIN_KEY, prefix=prefix), keys.KeyRevokeReply)
