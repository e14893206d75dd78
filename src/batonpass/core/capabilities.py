"""What a machine can run, what a profile needs, and whether the one will do for the other (companion 7).

A machine's capabilities come in three layers: what was `probed`, rewritten
whole at each probe, so that a removed tool drops out; what a person `declared`,
which stays; and a `flat` layer that says no more of itself. The machine can do
what any of them names. `deny` is policy, so it is never probed: a machine
refuses a profile because somebody said so.

Nothing is substituted: a profile is met as a whole, or every reason is given
why not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from batonpass.core.errors import Invalid
from batonpass.core.ids import NodeId, parse_node_id
from batonpass.core.nodes import LAUNCH_KEYS

T = TypeVar("T", bound=str)

NAME_CHARS_MAX: Final = 200
NAMES_MAX: Final = 500
"""How many names an axis has at most; no machine has more skills than anybody reads."""
LAYERS: Final = ("probed", "declared")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What can be run: names on four axes, each in the order it was told, and whether GitHub's `gh` is there.

    `deny` are the profiles that policy keeps off this machine.
    """

    harnesses: tuple[str, ...] = ()
    reachable_mcp: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    gh: bool = False
    deny: tuple[NodeId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """Capabilities by where they are known from."""

    probed: Capabilities = field(default_factory=Capabilities)
    declared: Capabilities = field(default_factory=Capabilities)
    flat: Capabilities = field(default_factory=Capabilities)

    def merged(self) -> Capabilities:
        """Return what the machine can run, whoever says so; only people deny."""
        layers = (self.probed, self.declared, self.flat)
        return Capabilities(
            harnesses=_union(layer.harnesses for layer in layers),
            reachable_mcp=_union(layer.reachable_mcp for layer in layers),
            skills=_union(layer.skills for layer in layers),
            plugins=_union(layer.plugins for layer in layers),
            gh=any(layer.gh for layer in layers),
            deny=_union(layer.deny for layer in layers[1:]),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a run under this profile needs; `model` is a wish to the harness and matched against nothing."""

    id: NodeId
    harness: str | None = None
    model: str | None = None
    mcp: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a machine will do for a profile; every reason why it won't."""

    ok: bool
    reasons: tuple[str, ...] = ()


def satisfies(machine: Capabilities, profile: Profile) -> Verdict:
    """Return whether `machine` has all that `profile` needs; nothing is substituted, and every lack is named."""
    reasons = tuple(_lacks(machine, profile))
    return Verdict(not reasons, reasons)


def parse_capabilities(fields: Mapping[str, object]) -> Layers:
    """Return the capabilities in a document: axes, or axes in layers, or either below ``capabilities``.

    Unknown keys are left aside, as a newer machine may know more. `Invalid`
    names the axis that is none.
    """
    wrapped = fields.get("capabilities")
    if wrapped is not None:
        return parse_capabilities(_object(wrapped, field="capabilities"))
    probed, declared = (_axes(_object(fields.get(layer, {}), field=layer), within=f"{layer}.") for layer in LAYERS)
    return Layers(probed=probed, declared=declared, flat=_axes(fields))


def parse_profile(profile: NodeId, fields: Mapping[str, object]) -> Profile:
    """Return what the profile node `profile` with these front matter fields needs.

    `Invalid` when a need can't be read, since one that is passed over is one
    that is not met; and when a field would choose what is run (`LAUNCH_KEYS`),
    which nothing in the graph may.
    """
    if chosen := sorted(LAUNCH_KEYS & fields.keys()):
        raise Invalid(f"{profile}: a profile says what a worker needs, never what it runs: {', '.join(chosen)}")
    return Profile(
        id=profile,
        harness=_word(fields, "harness", of=profile),
        model=_word(fields, "model", of=profile),
        mcp=_names(fields.get("mcp"), field=f"{profile}: mcp"),
        skills=_names(fields.get("skills"), field=f"{profile}: skills"),
        plugins=_names(fields.get("plugins"), field=f"{profile}: plugins"),
    )


def _lacks(machine: Capabilities, profile: Profile) -> Iterable[str]:
    if profile.id in machine.deny:
        yield f"{profile.id} is denied on this machine"
    if profile.harness is not None and profile.harness not in machine.harnesses:
        yield f"the harness {profile.harness} is not there{_instead(machine.harnesses)}"
    for needs, has, what in (
        (profile.mcp, machine.reachable_mcp, "MCP server"),
        (profile.skills, machine.skills, "skill"),
        (profile.plugins, machine.plugins, "plugin"),
    ):
        yield from (f"the {what} {name} is not there" for name in needs if name not in has)


def _instead(harnesses: tuple[str, ...]) -> str:
    return f", only {', '.join(harnesses)}" if harnesses else ", nor any other"


def _axes(fields: Mapping[str, object], *, within: str = "") -> Capabilities:
    gh = fields.get("gh", False)
    if not isinstance(gh, bool):
        raise Invalid(f"{within}gh: it is true or false", field=f"{within}gh")
    return Capabilities(
        harnesses=_names(fields.get("harnesses"), field=f"{within}harnesses"),
        reachable_mcp=_names(fields.get("reachable_mcp"), field=f"{within}reachable_mcp"),
        skills=_names(fields.get("skills"), field=f"{within}skills"),
        plugins=_names(fields.get("plugins"), field=f"{within}plugins"),
        gh=gh,
        deny=tuple(
            parse_node_id(name, field=f"{within}deny") for name in _names(fields.get("deny"), field=f"{within}deny")
        ),
    )


def _object(value: object, *, field: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{field}: it is not an object", field=field)
    return value


def _word(fields: Mapping[str, object], key: str, *, of: NodeId) -> str | None:
    value = fields.get(key)
    return None if value is None else _name(value, field=f"{of}: {key}")


def _names(value: object, *, field: str) -> tuple[str, ...]:
    """Return a list of names, one name standing for a list of it; each once."""
    if value is None:
        return ()
    listed = value if isinstance(value, list | tuple) else [value]
    if len(listed) > NAMES_MAX:
        raise Invalid(f"{field}: {len(listed)} names, more than {NAMES_MAX}", field=field)
    return _union([tuple(_name(each, field=field) for each in listed)])


def _name(value: object, *, field: str) -> str:
    if not isinstance(value, str) or not value.isprintable() or not 0 < len(value.strip()) <= NAME_CHARS_MAX:
        raise Invalid(f"{field}: a name is a line of 1 to {NAME_CHARS_MAX} characters, not {value!r}", field=field)
    return value.strip()


def _union(lists: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(name for names in lists for name in names))
