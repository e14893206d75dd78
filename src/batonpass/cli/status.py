"""`baton status` and `baton whoami`: what is running, and whose token is used."""

from __future__ import annotations

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common
from batonpass.cli.render import print_fields, print_json
from batonpass.client import identity_calls, server_calls


def status(*, common: Common = COMMON) -> None:
    """Say what is running, and on which database."""
    answer = ask(common, server_calls.server_status())
    if common.json:
        print_json(answer.raw)
        return
    found = answer.value
    print_fields(
        {
            "version": found.version,
            "database": f"{found.database}, schema {found.schema}",
            "nodes": str(found.node_count),
            "time": found.time,
            "incarnation": found.incarnation,
        }
    )


def whoami(*, common: Common = COMMON) -> None:
    """Say whose token is used, and what it may do."""
    answer = ask(common, identity_calls.me())
    if common.json:
        print_json(answer.raw)
        return
    me = answer.value
    print_fields(
        {
            "agent": me.agent,
            "person": me.person,
            "name": me.name,
            "email": me.email,
            "identity": me.identity,
            "admin": "yes" if me.is_admin else None,
            "scope": me.scope,
            "session": me.session,
            "run": f"{me.run.resource} at epoch {me.run.epoch}" if me.run is not None else None,
        }
    )
