"""docs/reference/api.md against the OpenAPI document, which it is made from: ``BATON_WRITE_DOCS=1 just docs``."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from batonpass.server.http.openapi import document
from batonpass.server.http.operations import JSON, Operation
from batonpass.server.http.routes import OPERATIONS

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
DOCUMENT: Final = document(OPERATIONS)
SCHEMAS: Final[Mapping[str, Any]] = DOCUMENT["components"]["schemas"]
CHOICES_SHOWN: Final = 8
PREFACE: Final = """# The API

Made from the server's own table of operations, as `GET /v1/openapi.json` is: that document says the same to programs,
in OpenAPI 3.1, and takes no token.

Every request carries `Authorization: Bearer <token>`. Bodies are JSON objects of at most 1 MiB. *Published* operations
are those of the published protocol: they overlook fields that they do not know, and name them in `warnings` or in the
header `Baton-Ignored`; all others refuse them. *Keyed* ones take an `Idempotency-Key`: sent again under the same key
within 24 hours, a request is answered with the first reply, marked `Idempotency-Replayed: true`, and changes nothing
more. Whatever writes takes `If-Lease: <resource>; epoch=<n>`, and is refused when that tenure is over.

Any operation may refuse with 401, 403, 422, 500 or 503, and one that takes a body with 400 or 413;
[errors](errors.md) has what each means. What else one refuses with stands beside it.
"""
ANYWHERE: Final = {"400", "401", "403", "413", "422", "500", "503"}


def api_page() -> str:
    """Return the reference of all operations."""
    nouns = dict.fromkeys(operation.noun for operation in OPERATIONS)
    parts = [PREFACE]
    for noun in nouns:
        parts.append(f"\n## {noun.capitalize()}\n")
        for operation in OPERATIONS:
            if operation.noun == noun:
                parts += _operation(operation)
    parts.append("\n## Bodies\n\nFields without *required* may be left out of a request, and out of a reply.\n")
    for name in sorted(SCHEMAS):
        parts += _body(name, SCHEMAS[name])
    return "".join(parts)


def _operation(operation: Operation) -> Iterator[str]:
    told = DOCUMENT["paths"][operation.path][operation.method.lower()]
    marks = [word for word, holds in (("published", operation.published), ("keyed", operation.keyed)) if holds]
    yield f"\n### {operation.method} {operation.path}\n\n{operation.summary}{_marked(marks)}\n"
    rows = [each for each in told["parameters"] if each["in"] != "header"]
    if rows:
        yield "\n| parameter | in | takes | what |\n|---|---|---|---|\n"
        for each in rows:
            yield f"| `{each['name']}` | {each['in']} | {_cell(words(each['schema']))} | {each['description']} |\n"
    if "requestBody" in told:
        yield f"\nTakes {words(told['requestBody']['content'][JSON]['schema'])}.\n"
    yield f"\nAnswers {_answers(told['responses'])}\n"


def _marked(marks: list[str]) -> str:
    return f" *{', '.join(marks).capitalize()}.*" if marks else ""


def _answers(responses: Mapping[str, Any]) -> str:
    """Return a sentence about all answers: each success with its body, and the statuses of its own refusals."""
    well = [
        f"{status} with {' or '.join(_content(media, what) for media, what in told['content'].items())}"
        for status, told in responses.items()
        if "content" in told
    ]
    refused = [status for status, told in responses.items() if "$ref" in told and status not in ANYWHERE]
    return f"{', or '.join(well)}{'; refuses with ' if refused else ''}{', '.join(refused)}."


def _content(media: str, told: Mapping[str, Any]) -> str:
    return words(told["schema"]) if "schema" in told else f"`{media}`"


def _body(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    yield f"\n### {name}\n\n{schema['description']}\n"
    if schema["properties"]:
        yield "\n| field | what |\n|---|---|\n"
    for field, told in schema["properties"].items():
        required = " *required*" if field in schema.get("required", ()) else ""
        yield f"| `{field}` | {_cell(words(told))}{required} |\n"


def words(schema: Any) -> str:  # noqa: ANN401 — a JSON schema
    """Return in a few words what `schema` takes."""
    match schema:
        case {"$ref": str(ref)}:
            name = ref.rpartition("/")[2]
            return f"[{name}](#{name.lower()})"
        case {"enum": [*values]}:
            shown = [f"`{value}`" for value in values[:CHOICES_SHOWN]]
            return f"one of {', '.join(shown)}{' …' if len(values) > CHOICES_SHOWN else ''}"
        case {"anyOf": [*options]}:
            return " or ".join(dict.fromkeys(words({**_limits(schema), **option}) for option in options))
        case {"type": [*names]}:
            return " or ".join(words({**schema, "type": name}) for name in names)
        case {"type": "array", "items": items}:
            return f"list of {words(items)}"
        case {"type": "array"}:
            return "list"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {words(values)}"
        case {"type": "null"}:
            return "null"
        case {"type": str(name)}:
            return f"{name}{_limit_words(schema)}"
        case _:
            return "anything"


def _limits(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in schema.items() if name in {"minimum", "maximum", "maxLength", "minLength"}}


def _limit_words(schema: Mapping[str, Any]) -> str:
    said = []
    if "minimum" in schema and "maximum" in schema and schema["maximum"] < 2**53:
        said.append(f"{schema['minimum']} to {schema['maximum']}")
    elif "minimum" in schema:
        said.append(f"at least {schema['minimum']}")
    elif "exclusiveMinimum" in schema:
        said.append(f"above {schema['exclusiveMinimum']}")
    if "maxLength" in schema:
        said.append(f"at most {schema['maxLength']} characters")
    return f" ({', '.join(said)})" if said else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def test_the_page_of_the_api_is_what_the_operations_say() -> None:
    expected = api_page()
    if os.environ.get("BATON_WRITE_DOCS"):
        PAGE.write_text(expected)

    assert PAGE.read_text() == expected, "run: BATON_WRITE_DOCS=1 just docs"
