"""`baton init`: the first person of a database."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
from cyclopts import Parameter

from batonpass.cli.options import Flag
from batonpass.cli.render import print_json, say, warn
from batonpass.cli.tokens import store
from batonpass.client import config
from batonpass.client.config import ConfigError


class Made(msgspec.Struct):
    """What `--json` prints: the only time the token is seen."""

    person: str
    token: str


def init(
    *,
    db: Annotated[str | None, Parameter(env_var="BATON_DB")] = None,
    name: str | None = None,
    email: str | None = None,
    server: str | None = None,
    save: Flag = False,
    json: Flag = False,
) -> None:
    """Make the first person of a database, an admin, and print their token.

    The token is printed once and kept nowhere unless --save is given. A
    database that has people already is refused.

    Args:
        db: sqlite:///path or postgresql://user@host/name; without it this machine's own database. The variable
            keeps a password out of the list of processes.
        name: the person's name; without it as git or the system knows you.
        email: their e-mail address; the same.
        server: with --save: the address at which the database will be served.
        save: store the token in credentials.json for that server, and make it the server of all commands.
        json: print {"person", "token"}.

    """
    from batonpass.cli import local

    if save is not (server is not None):
        raise ConfigError("--save and --server belong together: a stored token is for one address")
    address = config.parse_address(server, source="--server") if server is not None else None
    home = config.home_of(os.environ)
    known = local.local_person(os.environ)
    made = local.initialise(db or local.database_url(home), local.Person(name or known.name, email or known.email))
    assert made.person is not None, "it is a person's token"
    if address is not None:
        store(home, address, made)
    if json:
        print_json(msgspec.json.encode(Made(made.person, made.token)))
        return
    warn(f"{made.person} is the first person here, and an admin; this token is shown once:")
    say(made.token)
