"""How this worker is set up: every value with the place it came from (companion 9.5).

    flag  >  environment  >  nearest `.baton.json` of the checkout  >  `$BATON_HOME/config.json`  >  default

A checkout's file is written by whoever writes the checkout. It may say how its
own work is done (how long, how many at a time, which set-up its worktrees
need), and nothing about this box: which programs run, what they may reach,
whose name they carry, where the server is. Such keys of its are passed over
with a warning, and so are keys that mean nothing. A file that can't be read,
or a value that makes no sense, is `ConfigError` with its place: a worker does
not start on a typo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import msgspec

from batonpass.client import config as client_config
from batonpass.client.config import ConfigError
from batonpass.core.errors import Invalid
from batonpass.core.ids import shown
from batonpass.core.queue import Accept
from batonpass.worker import boxfile, worktree
from batonpass.worker.boxfile import BoxFile, parse_hook
from batonpass.worker.cooling import RETRY_AFTER, RETRY_AFTER_MAX
from batonpass.worker.journal import RETENTION
from batonpass.worker.pace import CONCURRENCY_MAX, INTERVAL_S, INTERVAL_S_MAX, MAX_INTERVAL_S
from batonpass.worker.select import parse_accept
from batonpass.worker.settings import DEFAULT_RUN_IDLE_S, DEFAULT_RUN_MAX_S, DISK_FREE_MIN, RUN_S_MAX

T = TypeVar("T")

CHECKOUT_FILE: Final = ".baton.json"
ACCEPT_VARIABLE: Final = "BATON_WORK_ACCEPT"
DEFAULT: Final = "default"
BYTES_MAX: Final = 1024 * 1024
"""More than any such file; what is longer is none."""
RETENTION_MS_MAX: Final = 100 * 366 * 86_400_000


@dataclass(frozen=True, slots=True)
class _Span:
    """How many seconds a setting is at least and at most, whoever sets it."""

    low: float
    high: float


_INTERVAL: Final = _Span(1, INTERVAL_S_MAX)
_RETRY_AFTER: Final = _Span(0, RETRY_AFTER_MAX.total_seconds())
_RUN_IDLE: Final = _Span(0, RUN_S_MAX)
_RUN_MAX: Final = _Span(1, RUN_S_MAX)

_OF_THE_BOX: Final = frozenset(
    f"dispatch.{key}"
    for key in ("agent", "repos", "bin", "harness", "mcp", "capabilities", "runRetentionMs", "allowPersonToken")
) | {"server", "agent", "token"}
"""Keys that count in the home's file only; `boxfile` reads most of them."""
_OF_WORK: Final = frozenset(
    {
        "work.accept",
        "work.project",
        "work.harness",
        "work.concurrency",
        "work.intervalMs",
        "work.maxIntervalMs",
        "work.retryAfterMs",
        "work.runIdleMs",
        "work.runMaxMs",
        "work.diskFreeMin",
        "dispatch.worktreeSetup",
        "dispatch.worktreeTeardown",
        "dispatch.template",
        "worktree.disposable",
    }
)
KEYS: Final = _OF_WORK | _OF_THE_BOX
"""Every key that means something in one of the two files."""
_SECTIONS: Final = frozenset({"work", "dispatch", "worktree"})


@dataclass(frozen=True, slots=True)
class Sourced(Generic[T]):
    """A value in force, and where it came from: ``--accept``, ``BATON_WORK_ACCEPT``, a file, or ``default``."""

    value: T
    source: str

    def unless(self, flag: T | None, name: str) -> Sourced[T]:
        """Return the flag's value if there was one, else this."""
        return self if flag is None else Sourced(flag, name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What is in force, as far as no flag says otherwise. `box` has the cascade's word for hooks, template, harness.

    `warnings` name what was passed over, for a person.
    """

    box: BoxFile
    accept: Sourced[Accept]
    project: Sourced[str | None]
    harness: Sourced[str | None]
    concurrency: Sourced[int]
    interval_s: Sourced[float]
    max_interval_s: Sourced[float]
    retry_after_s: Sourced[float]
    run_idle_s: Sourced[float]
    run_max_s: Sourced[float]
    disk_free_min: Sourced[int]
    set_up: Sourced[tuple[str, ...]]
    tear_down: Sourced[tuple[str, ...]]
    template: Sourced[Path | None]
    retention: Sourced[timedelta]
    disposable: Sourced[tuple[str, ...]]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """What the command line says; None is nothing. Durations are as `core.durations` reads them."""

    accept: str | None = None
    project: str | None = None
    harness: str | None = None
    concurrency: int | None = None
    interval: timedelta | None = None
    max_interval: timedelta | None = None
    retry_after: timedelta | None = None
    run_idle: timedelta | None = None
    run_max: timedelta | None = None
    template: Path | None = None


def under(flags: Flags, config: Config) -> Config:
    """Return what is in force once the command line has had its say; `ConfigError` names a flag that is wrong."""
    accept = None if flags.accept is None else _parsed(_accept, flags.accept, "--accept", where="--accept")
    concurrency = flags.concurrency
    if concurrency is not None:
        _parsed(_whole(1, CONCURRENCY_MAX), concurrency, "--concurrency", where="--concurrency")
    template = config.template.unless(flags.template, "--template")
    harness = config.harness.unless(flags.harness, "--harness")
    return replace(
        config,
        box=replace(config.box, harness=harness.value, template=template.value),
        accept=config.accept.unless(accept, "--accept"),
        project=config.project.unless(flags.project, "--project"),
        harness=harness,
        concurrency=config.concurrency.unless(concurrency, "--concurrency"),
        interval_s=_flag(config.interval_s, flags.interval, "--interval", _INTERVAL),
        max_interval_s=_flag(config.max_interval_s, flags.max_interval, "--max-interval", _INTERVAL),
        retry_after_s=_flag(config.retry_after_s, flags.retry_after, "--retry-after", _RETRY_AFTER),
        run_idle_s=_flag(config.run_idle_s, flags.run_idle, "--run-idle", _RUN_IDLE),
        run_max_s=_flag(config.run_max_s, flags.run_max, "--run-max", _RUN_MAX),
        template=template,
    )


def load(home: Path, environ: Mapping[str, str], folder: Path) -> Config:
    """Return what is in force for a worker that is started in `folder`. Raises `ConfigError`."""
    layers = list(_layers(home, folder))
    box = boxfile.read(home, environ)
    read = _Reader(layers, environ)
    nothing: tuple[str, ...] = ()
    set_up = read.value("dispatch.worktreeSetup", parse_hook, nothing)
    tear_down = read.value("dispatch.worktreeTeardown", parse_hook, nothing)
    template = read.template()
    harness: Sourced[str | None] = read.value("work.harness", _text, None)
    return Config(
        box=replace(
            box, harness=harness.value, set_up=set_up.value, tear_down=tear_down.value, template=template.value
        ),
        accept=read.value("work.accept", _accept, Accept.READY, variable=ACCEPT_VARIABLE),
        project=read.value("work.project", _text, None),
        harness=harness,
        concurrency=read.value("work.concurrency", _whole(1, CONCURRENCY_MAX), 1),
        interval_s=read.value("work.intervalMs", _seconds(_INTERVAL), INTERVAL_S),
        max_interval_s=read.value("work.maxIntervalMs", _seconds(_INTERVAL), MAX_INTERVAL_S),
        retry_after_s=read.value("work.retryAfterMs", _seconds(_RETRY_AFTER), RETRY_AFTER.total_seconds()),
        run_idle_s=read.value("work.runIdleMs", _seconds(_RUN_IDLE), DEFAULT_RUN_IDLE_S),
        run_max_s=read.value("work.runMaxMs", _seconds(_RUN_MAX), DEFAULT_RUN_MAX_S),
        disk_free_min=read.value("work.diskFreeMin", _whole(0, 2**60), DISK_FREE_MIN),
        set_up=set_up,
        tear_down=tear_down,
        template=template,
        retention=read.value("dispatch.runRetentionMs", _retention, RETENTION),
        disposable=read.value("worktree.disposable", _globs, worktree.DISPOSABLE),
        warnings=tuple(warning for layer in layers for warning in layer.warnings),
    )


def disposable_in(home: Path, repository: Path) -> tuple[str, ...]:
    """Return what tools make anew in worktrees of `repository`, as it or this box says; nothing if that can't be read.

    A worker also settles runs on other repositories than the one it stands in,
    and that one has no say in what may be deleted of theirs.
    """
    try:
        return load(home, {}, repository).disposable.value
    except ConfigError:
        return ()


@dataclass(frozen=True, slots=True)
class _Layer:
    """One file's keys, written whole as in ``work.accept``, as far as they count there."""

    path: Path
    values: Mapping[str, object]
    warnings: tuple[str, ...]
    is_checkout: bool


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads keys off the layers, the nearest first."""

    layers: list[_Layer]
    environ: Mapping[str, str]

    def value(
        self, key: str, parse: Callable[[object, str], T], default: T, *, variable: str | None = None
    ) -> Sourced[T]:
        """Return what is in force under a key; `parse` gets a value and the name to call it by."""
        if variable is not None and (said := self.environ.get(variable)) is not None:
            return Sourced(_parsed(parse, said, variable, where=variable), variable)
        for layer in self.layers:
            if key in layer.values:
                return Sourced(_parsed(parse, layer.values[key], key, where=str(layer.path)), str(layer.path))
        return Sourced(default, DEFAULT)

    def template(self) -> Sourced[Path | None]:
        """Return the file of `dispatch.template`, whole: it is looked for beside the file that names it.

        A checkout's template is one of its own files: no other is to end up in a prompt.
        """
        for layer in self.layers:
            if "dispatch.template" in layer.values:
                where = str(layer.path)
                said = _parsed(_text, layer.values["dispatch.template"], "dispatch.template", where=where)
                folder = layer.path.parent
                path = folder / Path(said).expanduser()
                if layer.is_checkout and not path.resolve().is_relative_to(folder.resolve()):
                    raise ConfigError(f"{where}: dispatch.template: {shown(said)} is not below {folder}")
                return Sourced(path, where)
        return Sourced(None, DEFAULT)


def _layers(home: Path, folder: Path) -> Iterator[_Layer]:
    checkout = next((path for parent in _within_checkout(folder) if (path := parent / CHECKOUT_FILE).is_file()), None)
    if checkout is not None:
        yield _layer(checkout, is_checkout=True)
    yield _layer(home / client_config.CONFIG, is_checkout=False)


def _within_checkout(folder: Path) -> Iterator[Path]:
    """Yield `folder` and those above it, up to the top of its checkout; beyond, a file may be anybody's.

    A folder that is in no checkout is looked at alone.
    """
    above = (folder, *folder.parents)
    tops = [place for place, parent in enumerate(above) if (parent / ".git").exists()]
    yield from above[: tops[0] + 1 if tops else 1]


def _layer(path: Path, *, is_checkout: bool) -> _Layer:
    values, warnings = {}, []
    for key, value in _flat(_document(path)):
        if key not in KEYS:
            warnings.append(f"{path}: {key!r} means nothing, and is passed over")
        elif is_checkout and key in _OF_THE_BOX:
            warnings.append(f"{path}: {key} is this machine's to say, in its own config.json, and is passed over here")
        else:
            values[key] = value
    return _Layer(path, values, tuple(warnings), is_checkout)


def _document(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            data = file.read(BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    if len(data) > BYTES_MAX:
        raise ConfigError(f"{path}: it is longer than {BYTES_MAX} bytes")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: {error}") from error


def _flat(document: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Give every key with its section, as in ``work.accept``."""
    for name, value in document.items():
        if name in _SECTIONS and isinstance(value, dict):
            yield from ((f"{name}.{key}", one) for key, one in value.items())
        else:
            yield name, value


def _parsed(parse: Callable[[object, str], T], value: object, field: str, *, where: str) -> T:
    try:
        return parse(value, field)
    except Invalid as error:
        raise ConfigError(error.message if field == where else f"{where}: {error.message}") from error


def _accept(value: object, field: str) -> Accept:
    return parse_accept(str(value), field=field)


def _text(value: object, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise Invalid(f"{field}: {shown(str(value))} is not a text in quotes", field=field)
    return value


def _whole(low: int, high: int) -> Callable[[object, str], int]:
    def parse(value: object, field: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            raise Invalid(f"{field}: {shown(str(value))} is not a whole number from {low} to {high}", field=field)
        return value

    return parse


def _seconds(span: _Span) -> Callable[[object, str], float]:
    """Return what reads milliseconds, and gives seconds within the span."""

    def parse(value: object, field: str) -> float:
        if not isinstance(value, int) or isinstance(value, bool) or not span.low * 1000 <= value <= span.high * 1000:
            bounds = f"{span.low * 1000:.0f} to {span.high * 1000:.0f}"
            raise Invalid(f"{field}: {shown(str(value))} is not a whole number of ms from {bounds}", field=field)
        return value / 1000

    return parse


def _flag(configured: Sourced[float], flag: timedelta | None, name: str, span: _Span) -> Sourced[float]:
    if flag is None:
        return configured
    seconds = flag.total_seconds()
    if not span.low <= seconds <= span.high:
        raise ConfigError(f"{name}: {seconds:g} s is not between {span.low:g} s and {span.high:g} s")
    return Sourced(seconds, name)


def _retention(value: object, field: str) -> timedelta:
    return timedelta(milliseconds=_whole(0, RETENTION_MS_MAX)(value, field))


def _globs(value: object, field: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) and one for one in value):
        raise Invalid(f"{field}: {shown(str(value))} is not a list of names such as node_modules", field=field)
    return tuple(value)
