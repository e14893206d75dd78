"""`baton person …`: the people of an organization, for its admins."""

from __future__ import annotations

from typing import Annotated, Final

from cyclopts import App, Parameter

from batonpass.cli.context import ask
from batonpass.cli.options import COMMON, Common, Flag, PersonArg
from batonpass.cli.render import Column, cut_short, print_json, print_table, say, warn
from batonpass.client import identity_calls

COLUMNS: Final = (Column("person"), Column("name", cut=True), Column("email"), Column("admin"), Column("since"))

app = App(name="person", help="People: add and list them; for admins.", version_flags=[])


@app.command(name="add")
def add(
    *,
    name: str,
    email: str,
    id_: Annotated[PersonArg | None, Parameter(name="--id")] = None,
    admin: Flag = False,
    common: Common = COMMON,
) -> None:
    """Add a person. They have no token yet.

    Args:
        name: their name; their id is made of that.
        email: their address, which is nobody else's.
        id_: their id, if it is to be another.
        admin: they may do all that you may.

    """
    answer = ask(common, identity_calls.add_person(name=name, email=email, id_=id_, admin=admin))
    if common.json:
        print_json(answer.raw)
        return
    say(answer.value.id)
    warn(f"a token for them: baton token add --person {answer.value.id}")


@app.command(name="list")
def list_(*, limit: int | None = None, after: str | None = None, common: Common = COMMON) -> None:
    """List people.

    Args:
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    answer = ask(common, identity_calls.people(limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
        return
    people = answer.value.people
    rows = [(each.id, each.name, each.email, "admin" if each.is_admin else None, each.created_at) for each in people]
    print_table(COLUMNS, rows, empty="nobody")
    cut_short(len(people), "baton person list", after=answer.value.next)
