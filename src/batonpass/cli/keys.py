"""`baton key …`: API keys of programs that keep records; for admins, or for whoever has the database at hand."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from cyclopts import App, Parameter

from batonpass.cli.context import connected
from batonpass.cli.exits import UsageError
from batonpass.cli.options import COMMON, Common, Flag, KeyArg
from batonpass.cli.render import Column, cut_short, print_json, print_table, say, warn
from batonpass.client import key_calls
from batonpass.client.client import Client
from batonpass.core.identity import KEY_PREFIX
from batonpass.core.keys import KeyName, parse_key_name, prefix_unless_named
from batonpass.wire.keys import KeyReply, KeyRevokeReply, KeysReply

Db = Annotated[str | None, Parameter(env_var="BATON_DB")]

COLUMNS: Final = tuple(Column(title) for title in ("identity", "prefix", "scope", "made by", "expires"))

app = App(name="key", help="API keys of programs that keep records: make, list and end them.", version_flags=[])


class Made(msgspec.Struct):
    """What `create --db --json` prints: the only time the secret is seen."""

    identity: str
    token: str


@app.command(name="create")
def create(
    name: KeyArg,
    /,
    *,
    expires: str | None = None,
    read_only: Flag = False,
    replace: Flag = False,
    db: Db = None,
    common: Common = COMMON,
) -> None:
    """Make an API key, and print its secret: the only time it is seen.

    The key is the identity apikey:NAME to the roles of classes. Whoever shows
    the same key is the same holder: give every copy of a program that is to
    exclude the others a key of its own, as worker/1 and worker/2.

    Args:
        name: letters, digits, dots, underscores and hyphens, in segments with / between them.
        expires: a duration such as 90d, or a date; a year from now without it, at most five years.
        read_only: it opens no write.
        replace: end the live key of this name, if there is one, in the same step.
        db: make it in this database itself, with no server and no token.

    """
    if (url := _database(db, common)) is not None:
        from batonpass.cli import local

        made = local.mint_key(url, name, expires=expires, read_only=read_only, replace=replace)
        raw = msgspec.json.encode(Made(made.identity, made.token))
    else:
        with connected(common) as client:
            answer = client.answer(key_calls.mint_key(name, expires=expires, read_only=read_only, replace=replace))
        made, raw = answer.value, answer.raw
    if common.json:
        print_json(raw)
    else:
        _print_made(made)


@app.command(name="list")
def list_(*, limit: int | None = None, after: str | None = None, db: Db = None, common: Common = COMMON) -> None:
    """List the API keys that open something, without their secrets.

    Args:
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.
        db: those of this database itself.

    """
    if (url := _database(db, common)) is not None:
        from batonpass.cli import local

        found = local.list_keys(url, after=after, limit=limit)
        raw = msgspec.json.encode(found)
    else:
        with connected(common) as client:
            answer = client.answer(key_calls.list_keys(limit=limit, after=after))
        found, raw = answer.value, answer.raw
    if common.json:
        print_json(raw)
    else:
        _print_keys(found)


@app.command(name="revoke")
def revoke(which: str, /, *, db: Db = None, common: Common = COMMON) -> None:
    """End an API key for good. Servers that have it in memory refuse it within 5 seconds.

    Args:
        which: its name, or the beginning of its hash as the list shows it; a name goes before a prefix.
        db: one of this database itself.

    """
    wanted = which.removeprefix(KEY_PREFIX)
    if (url := _database(db, common)) is not None:
        from batonpass.cli import local

        ended = local.revoke_key(url, wanted)
        raw = msgspec.json.encode(ended)
    else:
        with connected(common) as client:
            answer = client.answer(key_calls.revoke_key(_prefix(client, parse_key_name(wanted, field="key"))))
        ended, raw = answer.value, answer.raw
    if common.json:
        print_json(raw)
    else:
        _print_ended(ended)


def _database(db: str | None, common: Common) -> str | None:
    """Return the database to go to itself, None to ask a server; both at once contradict each other."""
    if db is not None and common.server is not None:
        raise UsageError("--db goes to a database itself, and --server to whoever serves one: leave one out")
    return db


def _prefix(client: Client, wanted: KeyName) -> str:
    """Return the prefix of the live key of that name; without one, the text is a prefix itself."""
    named = client.list_keys(name=wanted).keys
    return named[0].hash_prefix if named else prefix_unless_named(wanted)


def _print_made(made: KeyReply) -> None:
    if made.replaced is not None:
        warn(f"the key {made.replaced} of that name has ended")
    warn(f"the key of {made.identity} until {made.expires}; end it with: baton key revoke {made.name}")
    say(made.token)


def _print_keys(found: KeysReply) -> None:
    rows = [(key.identity, key.hash_prefix, key.scope, key.created_by, key.expires) for key in found.keys]
    print_table(COLUMNS, rows, empty="no keys")
    cut_short(len(found.keys), "baton key list", after=found.next)


def _print_ended(ended: KeyRevokeReply) -> None:
    say(f"{ended.identity} ({ended.hash_prefix}) {'was revoked before' if ended.unchanged else 'is revoked'}")
