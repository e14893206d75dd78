"""The JSON Schema of a register: draft 2020-12, by itself, and of bounded cost.

A register's schema judges every value that is written, while the record is
locked. So it stands by itself: it refers to nothing outside (nothing is ever
fetched), and to places of its own by ``#/$defs/…`` only. It has no keyword
that nobody knows, for a misspelt one would judge nothing. It never refers to
itself without going deeper into the value, and its patterns are those of
`core.patterns`. Whether each keyword has a right value is told by a library.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from batonpass.core import patterns
from batonpass.core.class_rules import Rule, SchemaFinding
from batonpass.core.ids import json_type, shown

DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
DEPTH_MAX: Final = 40
WAYS_MAX: Final = 10_000
"""How many schemas may have to be asked about one place of a value, references followed."""
CHAIN_MAX: Final = 50
"""How many schemas may lead one to the other at one place of a value."""

_OF_ONE_VALUE: Final = frozenset({"allOf", "anyOf", "oneOf", "if", "then", "else", "not", "dependentSchemas"})
"""Keywords whose schemas judge the very value that theirs judges, and no part of it."""
_MAPS: Final = frozenset({"properties", "$defs", "dependentSchemas"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE: Final = frozenset(
    "items contains additionalProperties propertyNames if then else not unevaluatedItems unevaluatedProperties".split()
)
_PLAIN: Final = frozenset(
    "type enum const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern maxItems"
    " minItems uniqueItems maxContains minContains maxProperties minProperties required dependentRequired title"
    " description default deprecated readOnly writeOnly examples format contentEncoding contentMediaType $comment"
    " $schema $ref".split()
)
KEYWORDS: Final = _MAPS | _LISTS | _SINGLE | _PLAIN
NOT_TAKEN: Final = {
    "patternProperties": "use propertyNames and additionalProperties",
    "$id": "a schema stands by itself",
    "$anchor": "refer by #/$defs/…",
    "$dynamicRef": "refer by #/$defs/…",
    "$dynamicAnchor": "refer by #/$defs/…",
    "$vocabulary": "the draft is 2020-12",
    "contentSchema": "text is not looked into",
    "definitions": "it is $defs in draft 2020-12",
    "dependencies": "it is dependentRequired or dependentSchemas in draft 2020-12",
    "additionalItems": "it is prefixItems and items in draft 2020-12",
}


def findings(schema: object) -> list[SchemaFinding]:
    """Return what is wrong with `schema`; nothing when a library may be asked about the rest."""
    walk = _Walk()
    walk.visit(schema, "#", 0)
    if not walk.found:
        walk.found.extend(_ways(walk))
    return walk.found


@dataclass(slots=True)
class _Walk:
    """The schemas inside a schema by their places, and which of them judge the same value."""

    places: set[str] = field(default_factory=set)
    same_value: dict[str, list[str]] = field(default_factory=dict)
    refers: dict[str, str] = field(default_factory=dict)
    found: list[SchemaFinding] = field(default_factory=list)

    def visit(self, schema: object, place: str, depth: int) -> None:
        """Look at the schema at `place`, and all below it."""
        self.places.add(place)
        if depth > DEPTH_MAX:
            self.found.append((Rule.BAD_SCHEMA, f"nested more than {DEPTH_MAX} deep"))
            return
        if isinstance(schema, bool):
            return
        if not isinstance(schema, Mapping):
            self.found.append(
                (Rule.BAD_SCHEMA, f"{place}: a schema is an object or a boolean, not {json_type(schema)}")
            )
            return
        for keyword, value in schema.items():
            self._keyword(keyword, value, place)
            for below, part in _parts(keyword, value):
                inner = f"{place}/{below}"
                if keyword in _OF_ONE_VALUE:
                    self.same_value.setdefault(place, []).append(inner)
                self.visit(part, inner, depth + 1)

    def _keyword(self, keyword: str, value: object, place: str) -> None:
        if keyword not in KEYWORDS:
            why = NOT_TAKEN.get(keyword, "no keyword of draft 2020-12")
            self.found.append((Rule.BAD_SCHEMA, f"{place}: {shown(str(keyword))}: {why}"))
        elif keyword == "$schema" and value != DRAFT:
            self.found.append((Rule.BAD_SCHEMA, f"{place}: $schema: it is {DRAFT}, or left out"))
        elif keyword == "$ref":
            self._ref(value, place)
        elif keyword == "pattern" and isinstance(value, str) and (wrong := patterns.what_is_wrong(value)):
            self.found.append((Rule.RISKY_PATTERN, f"{place}: {shown(value)}: {wrong}"))

    def _ref(self, value: object, place: str) -> None:
        if not isinstance(value, str) or (value != "#" and not value.startswith("#/")):
            what = shown(value) if isinstance(value, str) else json_type(value)
            why = f"{place}: $ref: {what}: nothing outside is ever fetched; refer by #/$defs/…"
            self.found.append((Rule.REMOTE_REF, why))
            return
        self.refers[place] = value


def _parts(keyword: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the schemas in a keyword's value, each with its place below."""
    if keyword in _MAPS and isinstance(value, Mapping):
        yield from ((f"{keyword}/{_escaped(str(name))}", part) for name, part in value.items())
    elif keyword in _LISTS and isinstance(value, list):
        yield from ((f"{keyword}/{i}", part) for i, part in enumerate(value))
    elif keyword in _SINGLE:
        yield keyword, value


def _ways(walk: _Walk) -> Iterator[SchemaFinding]:
    """Yield references to no place, and places that need too many schemas, or that lead back to themselves."""
    for place, target in walk.refers.items():
        if target not in walk.places:
            yield Rule.BAD_SCHEMA, f"{place}: $ref: there is no schema at {shown(target)}"
            return
        walk.same_value.setdefault(place, []).append(target)
    cost: dict[str, int] = {}
    for place in sorted(walk.places):
        if _cost(walk.same_value, place, cost, frozenset()) > WAYS_MAX:
            why = f"more than {WAYS_MAX} schemas, or {CHAIN_MAX} in a row, to ask about one value, or one asks itself"
            yield Rule.BAD_SCHEMA, f"{place}: {why}"
            return


def _cost(edges: Mapping[str, list[str]], place: str, known: dict[str, int], above: frozenset[str]) -> int:
    """Return how many schemas are asked at `place`; one that leads back to itself has no end."""
    if place in above or len(above) > CHAIN_MAX:
        return WAYS_MAX + 1
    if place not in known:
        below = above | {place}
        known[place] = 1 + sum(_cost(edges, each, known, below) for each in edges.get(place, ()))
    return known[place]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
