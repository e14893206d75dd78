"""`baton class …`: classes of records, from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from cyclopts import App, Parameter

from batonpass.cli.class_files import ClassFile, look_at, look_at_all, require_right
from batonpass.cli.context import connected
from batonpass.cli.exits import Exit, UsageError
from batonpass.cli.options import COMMON, Common, FileArg, Flag
from batonpass.cli.render import Column, clean, cut_short, print_fields, print_json, print_table, say, warn
from batonpass.client import class_calls
from batonpass.client.client import Client
from batonpass.core.class_changes import Difference, differences
from batonpass.core.class_documents import document_of, text_of
from batonpass.core.classes import RecordClass
from batonpass.core.errors import BatonError, NotFound
from batonpass.core.records import ClassName, parse_class_name
from batonpass.wire.classes import ClassDocumentReply, ClassReply, kept_class, values_of

COLUMNS: Final = tuple(Column(title) for title in ("class", "version", "applied by", "applied at"))
FIELD_COLUMNS: Final = (Column("field"), Column("type"), Column("says", cut=True))
ROLE_COLUMNS: Final = tuple(Column(title, cut=True) for title in ("role", "identities", "read", "write", "claim"))

Files = Annotated[list[FileArg], Parameter(negative=())]

app = App(name="class", help="Classes of records: apply, check, list, show and compare them.", version_flags=[])


class Looked(msgspec.Struct):
    """What `check --json` says of a file."""

    file: str
    record_class: str | None = msgspec.field(name="class")
    findings: list[str]


class Checked(msgspec.Struct):
    """What `check --json` prints."""

    files: list[Looked]


class Applied(msgspec.Struct):
    """What `apply --json` prints."""

    classes: list[ClassReply]


class Differing(msgspec.Struct):
    """One thing that differs; `before` and `after` are null where it is not there."""

    change: Literal["added", "removed", "changed"]
    where: str
    before: Any
    after: Any


class Compared(msgspec.Struct):
    """What `diff --json` prints; a `before` of 0 is a class that is not there yet, an `after` of null a file."""

    record_class: str = msgspec.field(name="class")
    before: int
    after: int | None
    differences: list[Differing]


@app.command(name="apply")
def apply(files: Files, /, *, common: Common = COMMON) -> None:
    """Make the classes in these files the ones in force; for admins.

    All files are checked before the first is sent. What says the same as
    what is in force makes no new version.

    Args:
        files: one class each, as YAML or JSON.

    """
    wanted = require_right(look_at_all(files))
    done: list[ClassReply] = []
    with connected(common) as client:
        for each in wanted:
            done.append(_applied(client, each, done, common))
    if common.json:
        print_json(msgspec.json.encode(Applied(done)))


def _applied(client: Client, wanted: RecordClass, before: list[ClassReply], common: Common) -> ClassReply:
    try:
        reply = client.put_class(wanted.name, document_of(wanted))
    except BatonError as error:
        if before:
            error.add_note(f"already applied: {', '.join(each.record_class for each in before)}")
        raise
    if not common.json:
        what = "applied" if reply.changed else "is in force already,"
        say(f"{reply.record_class}  {what} version {reply.version}")
    return reply


@app.command(name="check")
def check(files: Files, /, *, as_json: Annotated[Flag, Parameter(name="--json")] = False) -> int:
    """Say everything that is wrong with class files; no server is asked.

    Ends with 1 when anything is. What a server has besides is not known here:
    it also refuses to take away what its records hold.

    Args:
        files: one class each, as YAML or JSON.
        as_json: say it as {"files": [{"file", "class", "findings"}]}.

    """
    looked = look_at_all(files)
    if as_json:
        print_json(msgspec.json.encode(Checked([_looked(each) for each in looked])))
    for each in looked if not as_json else ():
        if each.found is not None:
            say(f"{clean(str(each.path))}: class {each.found.name}, {_counted(each.found)}")
        for line in each.findings:
            warn(clean(line))
    return Exit.FAILED if any(each.findings for each in looked) else Exit.OK


def _looked(file: ClassFile) -> Looked:
    name = None if file.found is None else file.found.name
    return Looked(str(file.path), name, list(file.findings))


@app.command(name="list")
def list_(*, limit: int | None = None, after: str | None = None, common: Common = COMMON) -> None:
    """List the classes there are, each with its version in force.

    Args:
        limit: how many at most.
        after: begin after this one, as the end of a list that was cut names it.

    """
    with connected(common) as client:
        answer = client.answer(class_calls.list_classes(limit=limit, after=after))
    if common.json:
        print_json(answer.raw)
        return
    found = answer.value
    rows = [(each.record_class, str(each.version), each.applied_by, each.applied_at) for each in found.classes]
    print_table(COLUMNS, rows, empty="no classes; make one: baton class apply FILE")
    cut_short(len(rows), "baton class list", after=found.next)


@app.command(name="show")
def show(name: str, /, *, version: int | None = None, yaml: Flag = False, common: Common = COMMON) -> None:
    """Show a class: its fields, and who may do what with them.

    Args:
        name: which.
        version: an earlier version; the one in force without it.
        yaml: as a file that can be applied again.

    """
    if yaml and common.json:
        raise UsageError("--yaml and --json are two forms; choose one")
    with connected(common) as client:
        answer = client.answer(class_calls.get_class(_name(name), version=version))
    if common.json:
        print_json(answer.raw)
    elif yaml:
        from batonpass.wire.class_files import write_document

        say(write_document(values_of(answer.value.document)).rstrip("\n"))
    else:
        _print_class(answer.value)


@app.command(name="diff")
def diff(which: str, /, *, version: int | None = None, common: Common = COMMON) -> int:
    """Show what applying a file would change, or what the last version of a class did, field by field.

    Ends with 1 when there is a difference.

    Args:
        which: a file, compared with what is in force; or a class, whose version in force is compared with the one
            before it.
        version: compare with this version instead.

    """
    path = Path(which)
    with connected(common) as client:
        if _is_name(which) and not path.is_file():
            compared = _with_earlier(client, ClassName(which), version)
        else:
            (wanted,) = require_right([look_at(path)], to="compared")
            compared = _with_file(client, wanted, version)
    if common.json:
        print_json(msgspec.json.encode(compared))
    else:
        _print_differences(compared)
    return Exit.FAILED if compared.differences else Exit.OK


def _with_file(client: Client, wanted: RecordClass, version: int | None) -> Compared:
    try:
        present = client.get_class(wanted.name, version=version)
    except NotFound:
        if version is not None:
            raise
        return _compared(wanted.name, 0, None, differences(None, wanted))
    return _compared(wanted.name, present.version, None, differences(_class(present), wanted))


def _with_earlier(client: Client, name: ClassName, version: int | None) -> Compared:
    present = client.get_class(name)
    earlier = present.version - 1 if version is None else version
    before = client.get_class(name, version=earlier) if earlier else None
    found = differences(None if before is None else _class(before), _class(present))
    return _compared(name, earlier, present.version, found)


def _compared(name: ClassName, before: int, after: int | None, found: tuple[Difference, ...]) -> Compared:
    return Compared(name, before, after, [_differing(each) for each in found])


def _differing(each: Difference) -> Differing:
    before, after = (None if text is None else json.loads(text) for text in (each.before, each.after))
    if each.before is None:
        return Differing("added", each.where, before, after)
    return Differing("removed" if each.after is None else "changed", each.where, before, after)


def _print_differences(compared: Compared) -> None:
    before = f"version {compared.before}" if compared.before else "nothing"
    after = "the file" if compared.after is None else f"version {compared.after}"
    if not compared.differences:
        say(f"{compared.record_class}: {after} says the same as {before}")
        return
    say(f"{compared.record_class}: from {before} to {after}")
    for each in compared.differences:
        match each.change:
            case "added":
                say(f"+ {each.where}: {_text(each.after)}")
            case "removed":
                say(f"- {each.where}: {_text(each.before)}")
            case "changed":
                say(f"~ {each.where}: {_text(each.before)} -> {_text(each.after)}")


def _print_class(found: ClassDocumentReply) -> None:
    of = "" if found.version == found.latest else f" of {found.latest}"
    applied = f"{found.applied_at}, by {found.applied_by}"
    print_fields({"class": found.record_class, "version": f"{found.version}{of}", "applied": applied})
    document = values_of(found.document)
    say("")
    print_table(FIELD_COLUMNS, [_field_row(name, spec) for name, spec in document["fields"].items()], empty="no fields")
    say("")
    roles = [_role_row(name, role) for name, role in document["roles"].items()]
    print_table(ROLE_COLUMNS, roles, empty="no roles: nobody may do anything with its records")


def _field_row(name: str, spec: dict[str, Any]) -> tuple[str, str, str]:
    said = ", ".join(f"{key} {_text(value)}" for key, value in spec.items() if key != "type")
    return name, spec["type"], said


def _role_row(name: str, role: dict[str, Any]) -> tuple[str, ...]:
    return (name, *(_listed(role.get(key, [])) for key in ("identities", "read", "write", "claim")))


def _listed(names: str | list[str]) -> str:
    return names if isinstance(names, str) else " ".join(names)


def _text(value: object) -> str:
    return clean(value if isinstance(value, str) else text_of(value))


def _counted(found: RecordClass) -> str:
    return f"{len(found.fields)} field(s), {len(found.roles)} role(s)"


def _class(found: ClassDocumentReply) -> RecordClass:
    return kept_class(ClassName(found.record_class), bytes(found.document).decode())


def _is_name(text: str) -> bool:
    try:
        parse_class_name(text)
    except BatonError:
        return False
    return True


def _name(text: str) -> ClassName:
    try:
        return parse_class_name(text)
    except BatonError as error:
        raise UsageError(error.message) from error
