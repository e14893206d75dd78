"""API keys: identities of programs that keep records, and stand for no person (D1, D35).

A key is a *name* and a secret. The name is who it is, `apikey:<name>`, to
classes, to leases and in history; it may have segments, so that one glob of a
role covers a fleet: `apikey:remediator/*` is `remediator/worker-1` and its
like. Whoever shows the same key is the same holder: copies of a program that
are to exclude each other need a key each.

A name has one live key. What was revoked or has expired is live no more, and
its name may have another; history goes on under the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NewType

from batonpass.core.errors import Conflict, Invalid, NotFound
from batonpass.core.identity import KEY_PREFIX
from batonpass.core.ids import HolderId, Instant, TokenHash, json_type, shown
from batonpass.core.tokens import PREFIX_HEX_SHOWN, Scope, Secret, parse_hash_prefix, well_formed

KeyName = NewType("KeyName", str)

KEY_NAME_CHARS_MAX: Final = 200
KEY_NAME_PATTERN: Final = "[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9][A-Za-z0-9._-]*)*"
_NAME: Final = re.compile(KEY_NAME_PATTERN, re.ASCII)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is kept of a key. `created_by` is the holder id of whoever made it."""

    hash: TokenHash
    name: KeyName
    scope: Scope
    created_by: str
    created_at: Instant
    expires_at: Instant
    revoked_at: Instant | None = None

    @property
    def identity(self) -> HolderId:
        """Who holds what the key claims."""
        return HolderId(KEY_PREFIX + self.name)

    @property
    def hash_prefix(self) -> str:
        """What names the key in lists, and is enough to revoke it."""
        return self.hash[:PREFIX_HEX_SHOWN]

    def valid(self, now: Instant) -> bool:
        """Whether the key still opens anything at `now`."""
        return self.revoked_at is None and now < self.expires_at


def parse_key_name(text: object, *, field: str = "name") -> KeyName:
    """Return `text` as a key's name: segments with a slash between them, at most 200 characters in all."""
    if not isinstance(text, str):
        raise Invalid(f"{field}: must be a string, not {json_type(text)}", field=field)
    if len(text) > KEY_NAME_CHARS_MAX:
        raise Invalid(f"{field}: {len(text)} characters; the limit is {KEY_NAME_CHARS_MAX} characters", field=field)
    if text.startswith(KEY_PREFIX):
        raise Invalid(f"{field}: {shown(text)} is an identity; give the name behind {KEY_PREFIX}", field=field)
    if not _NAME.fullmatch(text):
        raise Invalid(
            f"{field}: {shown(text)} is not a key's name; it takes letters, digits, dots, underscores and hyphens in"
            " segments with / between them, each beginning with a letter or digit",
            field=field,
        )
    if any(well_formed(Secret(segment)) for segment in text.split("/")):
        raise Invalid(f"{field}: it has the text of a token in it, and names are shown to others", field=field)
    return KeyName(text)


def prefix_unless_named(which: str) -> str:
    """Return what is no live key's name as the beginning of a hash; `NotFound` for what can be neither."""
    try:
        return parse_hash_prefix(which)
    except Invalid as error:
        raise NotFound(f"there is no live key of the name {shown(which)}", field="key") from error


def replaced_by_mint(live: ApiKey | None, *, replace: bool, repeats: TokenHash | None) -> frozenset[TokenHash]:
    """Return the key that a new one of the same name takes the place of: the one `live` key, if there is any.

    `repeats` is the key that this very request minted before (D11). Raises
    `Conflict` when somebody else's would end without their word for it.
    """
    if live is None:
        return frozenset()
    if not replace and live.hash != repeats:
        raise Conflict(
            f"{live.identity} has a live key ({live.hash_prefix}) already; revoke that one, or end it and have another"
            ' in one step with "replace": true (--replace)',
            field="name",
        )
    return frozenset({live.hash})
