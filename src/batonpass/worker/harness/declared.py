"""Agent programs that a person describes in the home's configuration (companion 11).

    "dispatch": {"harness": {"pi": {
        "command": "pi",
        "args": ["--mode", "json", "-p", "--model", "{model}"],
        "label": "Pi",
        "report": {"from": "agent_end", "text": "messages.-1.content.0.text"},
        "session": {"from": "session", "text": "id"}}}}

The prompt goes to standard input, as with every harness. In `args`, ``{cwd}``
is the worktree, ``{report}`` a file the program is to write its report to, and
``{model}`` the model that was asked for; where none was, an argument that
names it is left out, and so is the option before it. Whatever else stands in
braces stays as it is.

The report is ``lastText`` (what the program prints is plain text, and that is
the report), ``file`` (it writes one to ``{report}``), or ``{"from", "text"}``:
it prints a JSON object a line, the last one whose ``type`` is `from` carries
the report, and `text` says where in it, steps separated by dots, a number
counting into a list, from its end when negative. `session` and `failure` are
said the same way: the session's id, and the words of the program (not of its
model) for why it gave up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from batonpass.core.errors import Invalid
from batonpass.worker.errors import LaunchRefused
from batonpass.worker.harness.base import Command, Failure, Heard, Reader, Wish
from batonpass.worker.harness.events import Event, as_text, event_of
from batonpass.worker.harness.failures import failure_of, judged

ARGS_MAX: Final = 200
TEXT_CHARS_MAX: Final = 4096
"""How long a command, an argument, a label or a path may be: as much as a system takes for the name of a file."""
REPORT_BYTES_MAX: Final = 1 << 20
"""How much of a plain-text output is kept as the report: its beginning, which says whether it is a decline (D18)."""
_ID: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_KEYS: Final = ("command", "args", "label", "report", "session", "failure", "posture", "readOnly")
_REPORT_FILE: Final = "report.txt"
Posture = Literal["unattended", "attended"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a text stands in a stream of JSON lines: in events of the type `event`, at `steps`."""

    event: str
    steps: tuple[str | int, ...]

    def text_in(self, event: Mapping[str, object]) -> str | None:
        """Return the text, or None where `event` is of another type or has none there."""
        if event.get("type") != self.event:
            return None
        value: object = event
        for step in self.steps:
            value = _at(value, step)
        return as_text(value)


Report = Literal["lastText", "file"] | Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """An agent program as a person described it; a `Harness`.

    `posture` says whether it works on without asking anybody; one that asks is
    not started. `read_only` are arguments that keep it from changing anything.
    """

    id: str
    binary: str
    args: tuple[str, ...] = ()
    label: str
    report: Report = "lastText"
    session: Place | None = None
    failure: Place | None = None
    posture: Posture = "unattended"
    read_only: tuple[str, ...] | None = None

    def command(self, wish: Wish) -> Command:
        """Return how to start it; `LaunchRefused` names what of the wish it was not described to do."""
        self._require_possible(wish)
        report = wish.folder / _REPORT_FILE
        tokens = {"{cwd}": str(wish.cwd), "{report}": str(report)}
        args = self.args + ((self.read_only or ()) if wish.read_only else ())
        if wish.model is None:
            args = _without_model(args)
        else:
            tokens["{model}"] = wish.model
        return Command(
            argv=(str(wish.program), *(_filled(arg, tokens) for arg in args)),
            final_message=report if self.report == "file" else None,
        )

    def reader(self) -> Reader:
        """Return a reader of plain text, or of one JSON object a line where the report is said to stand in one."""
        if isinstance(self.report, Place) or self.session is not None or self.failure is not None:
            return _JsonReader(self)
        return _TextReader(keeps=self.report == "lastText")

    def judge(self, heard: Heard, *, code: int | None, signal: str | None, stderr: bytes) -> Failure | None:
        """Return the program's own word for why it failed, or else how it ended, or None when it did not fail."""
        if heard.failure is not None:
            return heard.failure
        if code == 0:
            return None
        return judged(self.label, heard, code=code, signal=signal, stderr=stderr)

    def _require_possible(self, wish: Wish) -> None:
        where = f"dispatch.harness.{self.id}"
        if self.posture == "attended":
            raise LaunchRefused(f"{self.id}: {where}.posture is attended, and nobody is there to answer it")
        if wish.model is not None and not any("{model}" in arg for arg in self.args):
            raise LaunchRefused(f"{self.id} can't be told the model {wish.model}: no {{model}} in {where}.args")
        if wish.read_only and self.read_only is None:
            raise LaunchRefused(f"{self.id} can't be started read-only: {where}.readOnly does not say how")
        if wish.mcp:
            raise LaunchRefused(f"{self.id} can't be handed tool servers: a declared harness has no way to say how")
        if wish.resume is not None:
            raise LaunchRefused(f"{self.id} can't go on with a session: a declared harness has no way to say how")


def declared(name: str, description: object) -> Declared:
    """Return the adapter that `dispatch.harness.<name>` describes; `Invalid` names the field that does not fit."""
    where = f"dispatch.harness.{name}"
    if not _ID.fullmatch(name):
        raise Invalid(f"{where}: a harness is named by a-z, 0-9 and -, at most 64 of them", field=where)
    fields = _mapping(description, where)
    for key in fields:
        if key not in _KEYS:
            raise Invalid(f"{where}.{key}: no such key; there are {', '.join(_KEYS)}", field=f"{where}.{key}")
    made = Declared(
        id=name,
        binary=_text(fields.get("command"), f"{where}.command"),
        args=_texts(fields.get("args", ()), f"{where}.args"),
        label=_text(fields.get("label", name), f"{where}.label"),
        report=_report(fields.get("report", "lastText"), f"{where}.report"),
        session=_place(fields["session"], f"{where}.session") if "session" in fields else None,
        failure=_place(fields["failure"], f"{where}.failure") if "failure" in fields else None,
        posture=_posture(fields.get("posture", "unattended"), f"{where}.posture"),
        read_only=_texts(fields["readOnly"], f"{where}.readOnly") if "readOnly" in fields else None,
    )
    if (made.report == "file") != any("{report}" in arg for arg in made.args):
        raise Invalid(
            f'{where}.report: "file" goes together with {{report}} in {where}.args, which says where the file goes',
            field=f"{where}.report",
        )
    return made


class _TextReader:
    """Keeps the beginning of what a program prints."""

    def __init__(self, *, keeps: bool) -> None:
        self._keeps = keeps
        self._kept = bytearray()
        self._heard = Heard()

    def line(self, line: bytes, *, is_cut: bool = False) -> None:  # noqa: ARG002 — a head is all that is kept here
        self._heard = replace(self._heard, progress=self._heard.progress + 1)
        if self._keeps and len(self._kept) < REPORT_BYTES_MAX:
            self._kept += line[: REPORT_BYTES_MAX - len(self._kept)] + b"\n"

    def heard(self) -> Heard:
        text = self._kept.decode(errors="replace").strip()
        return replace(self._heard, final_text=text or None)


class _JsonReader:
    """Finds a declared program's report, session and failure in its events."""

    def __init__(self, harness: Declared) -> None:
        self._harness = harness
        self._heard = Heard()

    def line(self, line: bytes, *, is_cut: bool = False) -> None:
        # Of a line that was cut there is no JSON left to read; that it came is a sign of life.
        event: Event | None = {} if is_cut else event_of(line)
        if event is None:
            return
        heard = replace(self._heard, progress=self._heard.progress + 1, steps=self._heard.steps + 1)
        if (session := self._harness.session) is not None:
            heard = replace(heard, session_id=heard.session_id or session.text_in(event))
        if isinstance(self._harness.report, Place) and (text := self._harness.report.text_in(event)) is not None:
            # It went on after whatever had failed.
            heard = replace(heard, final_text=text, failure=None)
        if (failure := self._harness.failure) is not None and (why := failure.text_in(event)) is not None:
            heard = replace(heard, failure=failure_of(why))
        self._heard = heard

    def heard(self) -> Heard:
        return self._heard


def _at(value: object, step: str | int) -> object:
    if isinstance(value, Mapping):
        return value.get(str(step))
    if isinstance(value, Sequence) and not isinstance(value, str) and isinstance(step, int):
        return value[step] if -len(value) <= step < len(value) else None
    return None


def _without_model(args: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments without those that name a model, and without the options they belong to."""
    kept: list[str] = []
    for arg in args:
        if "{model}" not in arg:
            kept.append(arg)
        elif arg == "{model}" and kept and kept[-1].startswith("-"):
            kept.pop()
    return tuple(kept)


def _filled(arg: str, tokens: Mapping[str, str]) -> str:
    """Return `arg` with each token replaced once; what a value holds is not looked at again."""
    pattern = "|".join(re.escape(token) for token in tokens)
    return re.sub(pattern, lambda found: tokens[found[0]], arg)


def _mapping(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise Invalid(f"{where}: must be an object", field=where)
    return value


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= TEXT_CHARS_MAX or "\0" in value:
        raise Invalid(f"{where}: must be a text of 1 to {TEXT_CHARS_MAX} characters without NUL", field=where)
    return value


def _texts(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or len(value) > ARGS_MAX:
        raise Invalid(f"{where}: must be a list of at most {ARGS_MAX} texts", field=where)
    return tuple(_text(item, f"{where}[{i}]") for i, item in enumerate(value))


def _posture(value: object, where: str) -> Posture:
    if value == "unattended" or value == "attended":  # noqa: PLR1714 — this is what narrows it to the literal
        return value
    raise Invalid(f"{where}: must be unattended or attended", field=where)


def _report(value: object, where: str) -> Report:
    if value == "lastText" or value == "file":  # noqa: PLR1714
        return value
    if isinstance(value, str):
        raise Invalid(f'{where}: must be "lastText", "file" or {{"from", "text"}}', field=where)
    return _place(value, where)


def _place(value: object, where: str) -> Place:
    fields = _mapping(value, where)
    if set(fields) != {"from", "text"}:
        raise Invalid(f'{where}: must have "from", a type of event, and "text", where in it; nothing else', field=where)
    steps = _text(fields["text"], f"{where}.text").split(".")
    if not all(steps):
        raise Invalid(f"{where}.text: has an empty step; separate steps by one dot", field=f"{where}.text")
    return Place(
        _text(fields["from"], f"{where}.from"),
        tuple(int(step) if re.fullmatch(r"-?\d{1,6}", step, re.ASCII) else step for step in steps),
    )
