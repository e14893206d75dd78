"""`baton token …`: one's own tokens, and where they are kept. No token is ever an argument: those are public."""

from __future__ import annotations

import os
import sys
from getpass import getpass
from pathlib import Path
from typing import Final

import msgspec
from cyclopts import App

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, Flag, PersonArg
from batonpass.cli.render import Column, cut_short, print_json, print_table, say, warn
from batonpass.client import config, token_calls
from batonpass.client.client import Client
from batonpass.client.config import ConfigError, Token
from batonpass.wire.tokens import TokensReply

COLUMNS: Final = tuple(
    Column(title) for title in ("prefix", "kind", "label", "agent", "session", "lease", "scope", "expires")
)

app = App(name="token", help="Your tokens: make, list, end, and store them.", version_flags=[])


@app.command(name="add")
def add(
    *,
    label: str | None = None,
    expires: str | None = None,
    read_only: Flag = False,
    person: PersonArg | None = None,
    common: Common = COMMON,
) -> None:
    """Make a token of your own, and print it: the only time it is seen.

    Args:
        label: what it is for.
        expires: a duration such as 90d, or a date; at most a year.
        read_only: it opens no write.
        person: as an admin: whose it will be.

    """
    call = token_calls.mint_token(label=label, expires=expires, read_only=read_only, person=person)
    answer = ask(common, call)
    if common.json:
        print_json(answer.raw)
        return
    made = answer.value
    warn(f"a token of {made.person} until {made.expires}; end it with: baton token revoke {made.hash_prefix}")
    say(made.token)


@app.command(name="list")
def list_(
    *,
    person: PersonArg | None = None,
    limit: int | None = None,
    after: str | None = None,
    common: Common = COMMON,
) -> None:
    """List your tokens that open something, without their secrets.

    Args:
        person: as an admin: whose.
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    mine = token_calls.my_tokens(limit=limit, after=after)
    answer = ask(common, mine if person is None else token_calls.tokens_of(person, limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
    else:
        print_tokens(answer.value, again="baton token list")


@app.command(name="revoke")
def revoke(prefix: str, /, *, admin: Flag = False, common: Common = COMMON) -> None:
    """End one of your tokens for good.

    Args:
        prefix: the beginning of its hash, as the list shows it.
        admin: anybody's, as an admin.

    """
    answer = ask(common, token_calls.revoke_token(prefix, as_admin=admin))
    if common.json:
        print_json(answer.raw)
    else:
        say(f"{answer.value.hash_prefix} {'was revoked before' if answer.value.unchanged else 'is revoked'}")


@app.command(name="save")
def save(*, server: str | None = None) -> None:
    """Store a token, read from standard input, for a server, and make that the server of all commands.

    The token is tried first. It is kept in credentials.json, readable by you
    alone, and is sent to no other address.

    Args:
        server: the server's address; without it BATON_SERVER, or the one configured before.

    """
    found = config.load({**os.environ, config.TOKEN: ""}, server=server)
    if found.server is None:
        raise ConfigError("for which server? add --server https://…")
    address = found.server.text
    if config.in_the_clear(address):
        warn(f"warning: {address} is not encrypted; others can read your token")
    text = getpass("token: ") if sys.stdin.isatty() else sys.stdin.readline()
    token = config.parse_token(text, source="standard input")
    with Client(address, token) as client:
        me = client.me()
    store(found.home, address, Token(token, person=me.person, agent=me.agent))
    say(f"stored for {address}: {me.agent or me.person or me.name}")


def store(home: Path, address: str, token: Token) -> None:
    """Keep `token` for the server at `address`, and make that the server of all commands."""
    with config.changing(home):
        present = config.credentials(home)
        servers = {**present.servers, address: token}
        config.save_credentials(home, msgspec.structs.replace(present, servers=servers))
        config.save_setting(home, "server", address)


def print_tokens(reply: TokensReply, *, again: str) -> None:
    """Print tokens for people; `again` is the command that goes on where the list was cut."""
    print_table(
        COLUMNS,
        [
            (
                token.hash_prefix,
                token.kind + (" (ended)" if token.ended else ""),
                token.label,
                token.agent,
                token.session,
                f"{token.lease.resource} @{token.lease.epoch}" if token.lease is not None else None,
                token.scope,
                token.expires,
            )
            for token in reply.tokens
        ],
        empty="no tokens",
    )
    cut_short(len(reply.tokens), again, after=reply.next)
