"""Class files that are wrong in every way the loader names, each with what is said of it."""

from __future__ import annotations

import pytest

from batonpass.core.class_rules import (
    CAP_MAX,
    DOCUMENT_BYTES_MAX,
    FIELDS_MAX,
    IDENTITIES_MAX,
    ROLES_MAX,
    Rule,
)
from batonpass.core.classes import RecordClass
from batonpass.core.errors import Invalid
from batonpass.wire.class_files import FILE_BYTES_MAX, read_document
from batonpass.wire.classes import checked_class

OF_RECORDS = {Rule.FIELD_HOLDS_DATA, Rule.KIND_HOLDS_DATA, Rule.OTHER_KIND_BEFORE}
"""Rules about the records that are there, which no file alone can break."""
T = "fields: {t: {type: task}}\n"
"""A task and nothing else."""
R = "roles: {r: {identities: ['agent:*'], "


def load(text: str | bytes, *, name: str | None = None) -> RecordClass:
    raw = text if isinstance(text, bytes) else text.encode()
    return checked_class(read_document(raw, file="c.yaml"), name=name)


def schema(text: str) -> str:
    return "name: c\nfields: {f: {type: register, schema: " + text + "}}\n"


CASES: list[tuple[str | bytes, str]] = [
    # as a file
    (b"\xff\xfe", "file c.yaml: bad-yaml: not UTF-8: invalid start byte at byte 0"),
    ("", "file c.yaml: bad-yaml: nothing stands in it"),
    ("# a word\n", "file c.yaml: bad-yaml: nothing stands in it"),
    (
        "a: {",
        (
            "file c.yaml: line 2: bad-yaml: did not find expected node content; quote texts that have marks of YAML"
            ' in them, as "*"'
        ),
    ),
    (
        "roles: {r: {read: [*]}}",
        (
            "file c.yaml: line 1: bad-yaml: did not find expected alphabetic or numeric character;"
            ' quote texts that have marks of YAML in them, as "*"'
        ),
    ),
    ("%YAML 1.1\n---\nname: c\n", "file c.yaml: line 1: bad-yaml: directives are not read"),
    ("name: c\n---\nname: d\n", "file c.yaml: line 2: bad-yaml: a second document begins; one file is one class"),
    ("a: " + "[" * 101 + "]" * 101, "file c.yaml: bad-yaml: nested more than 100 deep"),
    (
        "name: c\n" + "#" * FILE_BYTES_MAX,
        f"file c.yaml: too-large: {FILE_BYTES_MAX + 8} bytes; the limit is 262144 bytes",
    ),
    ("- name: c\n", "file c.yaml: wrong-type: a class is a mapping, with its fields and roles"),
    ("? [a]\n: b\n", "file c.yaml: line 1: wrong-type: a key is text"),
    (
        "name: c\nfields:\n  f: {type: task}\n  f: {type: register}\n",
        'file c.yaml: line 4, fields.f: duplicate-key: the key "f" stands twice',
    ),
    (
        "name: c\nfields: {f: &f {type: task}}\n",
        "file c.yaml: line 2, fields.f: anchor: anchors are not read; a text that begins with & is quoted",
    ),
    (
        "name: c\nfields: {f: *f}\n",
        'file c.yaml: line 2, fields.f: anchor: aliases are not read; a text that begins with * is quoted, as "*"',
    ),
    ("name: !!str c\n", "file c.yaml: line 1, name: tag: tags are not read; a text that begins with ! is quoted"),
    *[
        (
            f"name: {word}\n",
            (
                f'file c.yaml: line 1, name: ambiguous-word: "{word}" is not text to every reader of YAML;'
                " quote it, or use true, false, null or a number of JSON"
            ),
        )
        for word in (
            "yes",
            "no",
            "on",
            "Off",
            "y",
            "N",
            "True",
            "NULL",
            "~",
            "0x10",
            "010",
            "0o17",
            "1_000",
            "+1",
            ".5",
            "1.",
            "5:00",
            ".inf",
            "2026-01-01",
            "1e999",
        )
    ],
    *[
        (
            f"{word}: 1\n",
            (f'file c.yaml: line 1: ambiguous-word: the key "{word}" is not text to every reader of YAML; quote it'),
        )
        for word in ("on", "no", "true", "null", "12", "1e3", "<<", "=")
    ],
    # the class
    (T, "class without a name: missing-key: name: required; it is what records are called by, <name>/<id>"),
    (
        "name: Incidents\n" + T,
        (
            'class Incidents: bad-name: name: "Incidents" is not a name; it takes lower-case letters,'
            " digits and hyphens, at most 100 characters, a letter or digit first"
        ),
    ),
    ("name: 7\n" + T, "class without a name: bad-name: name: must be a string, not a number"),
    ("name: d\n" + T, "class d: other-name: the document calls itself d, and is applied as c"),
    (
        "name: pipelines\n" + T,
        ("class pipelines: reserved-name: pipelines is built in; the server brings it, and nobody applies it"),
    ),
    ("name: c\n", "class c: no-fields: fields: a class has at least one"),
    ("name: c\nfields: {}\n", "class c: no-fields: fields: a class has at least one"),
    ("name: c\nfeilds: {}\n" + T, "class c: unknown-key: feilds: it takes name, fields, roles"),
    ("name: c\nfields: [t]\n", "class c: fields: wrong-type: must be a mapping, not an array"),
    (
        'name: c\ndescription: "\\udc80"\n',
        (
            "file c.yaml: line 2: bad-yaml: found invalid Unicode character escape code;"
            ' quote texts that have marks of YAML in them, as "*"'
        ),
    ),
    (
        "name: c\nfields: {f: {type: register, schema: {title: '" + "x" * DOCUMENT_BYTES_MAX + "'}}}\n",
        f"class c: too-large: {DOCUMENT_BYTES_MAX + 69} bytes as JSON; the limit is 65536 bytes",
    ),
    (
        "name: c\nfields:\n" + "".join(f"  f{n}: {{type: task}}\n" for n in range(FIELDS_MAX + 1)),
        "class c: too-many: fields: 101; the limit is 100",
    ),
    # fields
    (
        "name: c\nfields: {Status: {type: task}}\n",
        (
            'class c: field Status: bad-name: field: "Status" is not a name; it'
            " takes lower-case letters, digits, underscores and hyphens, at most 100 characters, a letter or"
            " digit first"
        ),
    ),
    ("name: c\nfields: {f: task}\n", "class c: field f: wrong-type: must be a mapping, not a string"),
    (
        "name: c\nfields: {f: {}}\n",
        ("class c: field f: missing-key: type: required; a field is a register, an append or a task"),
    ),
    (
        "name: c\nfields: {f: {cap: 1}}\n",
        ("class c: field f: missing-key: type: required; a field is a register, an append or a task"),
    ),
    (
        "name: c\nfields: {f: {type: counter}}\n",
        ('class c: field f: unknown-type: type: "counter" is none; a field is a register, an append or a task'),
    ),
    (
        "name: c\nfields: {f: {type: 1}}\n",
        ("class c: field f: unknown-type: type: a number is none; a field is a register, an append or a task"),
    ),
    ("name: c\nfields: {f: {type: task, laese: 5m}}\n", "class c: field f: unknown-key: laese: it takes type, lease"),
    (
        "name: c\nfields: {f: {type: task, cap: 5}}\n",
        ("class c: field f: misplaced-key: cap: a task has none; it takes lease"),
    ),
    (
        "name: c\nfields: {f: {type: append, lease: 5m}}\n",
        ("class c: field f: misplaced-key: lease: an append has none; it takes cap"),
    ),
    *[
        (
            f"name: c\nfields: {{f: {{type: append, cap: {cap}}}}}\n",
            f"class c: field f: bad-cap: cap: {said}; give a whole number of items, 1 to {CAP_MAX}",
        )
        for cap, said in (
            ("0", "0"),
            ("-1", "-1"),
            ("100001", "100001"),
            ("1.5", "1.5"),
            ("'5'", "a string"),
            ("true", "a boolean"),
            ("null", "null"),
        )
    ],
    *[
        (f"name: c\nfields: {{f: {{type: task, lease: {lease}}}}}\n", f"class c: field f: bad-lease: lease: {said}")
        for lease, said in (
            ("0", "0 s is outside 1 s to 86400 s, a day"),
            ("0s", "0 s is outside 1 s to 86400 s, a day"),
            ("-1", "-1 s is outside 1 s to 86400 s, a day"),
            ("86401", "86401 s is outside 1 s to 86400 s, a day"),
            ("2d", "172800 s is outside 1 s to 86400 s, a day"),
            ("1.5", "1.5 is no lease; give whole seconds, such as 300s or 5m"),
            ("1.5h", '"1.5h" is no lease; give whole seconds, such as 300s, 5m, 2h or 1d'),
            ("300ms", '"300ms" is no lease; give whole seconds, such as 300s, 5m, 2h or 1d'),
            ("'300'", '"300" is no lease; give whole seconds, such as 300s, 5m, 2h or 1d'),
            ("true", "a boolean is no lease; give whole seconds, such as 300s or 5m"),
            ("null", "null is no lease; give whole seconds, such as 300s or 5m"),
        )
    ],
    # roles
    ("name: c\n" + T + "roles: [r]\n", "class c: roles: wrong-type: must be a mapping, not an array"),
    (
        "name: c\n" + T + "roles: {R: {identities: ['agent:*']}}\n",
        (
            'class c: role R: bad-name: role: "R" is not a name;'
            " it takes lower-case letters, digits, underscores and hyphens, at most 100 characters, a letter or"
            " digit first"
        ),
    ),
    (
        "name: c\n" + T + "roles: {r: {}}\n",
        ("class c: role r: no-identities: identities: name whom the role is for, at least one"),
    ),
    (
        "name: c\n" + T + "roles: {r: {identities: 'agent:*'}}\n",
        ("class c: role r: wrong-type: identities: must be a list, not a string"),
    ),
    (
        "name: c\n" + T + "roles: {r: {identities: [7, 'agent:*']}}\n",
        ("class c: role r: wrong-type: identities: holds a number; it takes names"),
    ),
    (
        "name: c\n" + T + R + "reads: []}}\n",
        ("class c: role r: unknown-key: reads: it takes identities, read, write, claim"),
    ),
    (
        "name: c\n" + T + "roles: {r: {identities: ['apikey:*/w']}}\n",
        ('class c: role r: bad-glob: identities: "apikey:*/w": * stands in the last segment only'),
    ),
    (
        "name: c\n" + T + "roles: {r: {identities: [" + "'agent:*'," * (IDENTITIES_MAX + 1) + "]}}\n",
        "class c: role r: too-many: identities: 101; the limit is 100",
    ),
    (
        "name: c\n" + T + "roles:\n" + "".join(f"  r{n}: {{identities: ['agent:*']}}\n" for n in range(ROLES_MAX + 1)),
        "class c: too-many: roles: 101; the limit is 100",
    ),
    ("name: c\n" + T + R + "read: [u]}}\n", "class c: role r: field u: unknown-field: read: the class has t"),
    (
        "name: c\n" + T + R + "read: '*', write: [t]}}\n",
        ("class c: role r: field t: write-on-task: a task has no value to write; it is given to claim"),
    ),
    (
        "name: c\n" + T + R + "claim: [t]}}\n",
        (
            "class c: role r: field t: claim-without-read: whoever claims it names its"
            " version as a premise, and that is a read; add it to read"
        ),
    ),
    (
        "name: c\n" + T + R + "claim: '*'}}\n",
        (
            "class c: role r: field t: claim-without-read: whoever claims it names its"
            " version as a premise, and that is a read; add it to read"
        ),
    ),
    (
        "name: c\nfields: {f: {type: append}}\n" + R + "read: '*', claim: [f]}}\n",
        ("class c: role r: field f: claim-on-no-task: only a task can be claimed, and it is an append"),
    ),
    # schemas
    (schema("[]"), "class c: field f: bad-schema: schema: #: a schema is an object or a boolean, not an array"),
    (schema("{tpye: string}"), 'class c: field f: bad-schema: schema: #: "tpye": no keyword of draft 2020-12'),
    (
        schema("{type: strin}"),
        ("class c: field f: bad-schema: schema: type: 'strin' is not valid under any of the given schemas"),
    ),
    (schema("{minLength: -1}"), "class c: field f: bad-schema: schema: minLength: -1 is less than the minimum of 0"),
    (
        schema("{properties: {a: {maximum: high}}}"),
        ("class c: field f: bad-schema: schema: properties/a/maximum: 'high' is not of type 'number'"),
    ),
    (
        schema("{patternProperties: {a: true}}"),
        ('class c: field f: bad-schema: schema: #: "patternProperties": use propertyNames and additionalProperties'),
    ),
    (
        schema("{$id: 'https://example.org/s'}"),
        ('class c: field f: bad-schema: schema: #: "$id": a schema stands by itself'),
    ),
    (
        schema("{$schema: 'http://json-schema.org/draft-07/schema#'}"),
        (
            "class c: field f: bad-schema: schema: #: $schema:"
            " it is https://json-schema.org/draft/2020-12/schema, or left out"
        ),
    ),
    (
        schema("{$ref: 'https://example.org/s'}"),
        (
            'class c: field f: remote-ref: schema: #: $ref: "https://example.org/s":'
            " nothing outside is ever fetched; refer by #/$defs/…"
        ),
    ),
    (
        schema("{items: {$ref: other.json}}"),
        (
            'class c: field f: remote-ref: schema: #/items: $ref: "other.json": nothing'
            " outside is ever fetched; refer by #/$defs/…"
        ),
    ),
    (schema("{$ref: '#/$defs/a'}"), 'class c: field f: bad-schema: schema: #: $ref: there is no schema at "#/$defs/a"'),
    (
        schema("{$ref: '#'}"),
        (
            "class c: field f: bad-schema: schema: #: more than 10000 schemas, or 50 in a row, to ask"
            " about one value, or one asks itself"
        ),
    ),
    (
        schema("{$defs: {a: {allOf: [{$ref: '#/$defs/b'}]}, b: {anyOf: [{$ref: '#/$defs/a'}]}}}"),
        (
            "class c: field f:"
            " bad-schema: schema: #/$defs/a: more than 10000 schemas, or 50 in a row, to ask about one value, or"
            " one asks itself"
        ),
    ),
    (
        schema("{pattern: '(a+)+$'}"),
        (
            'class c: field f: risky-pattern: schema: #: "(a+)+$": a repetition repeats another'
            " one, or an alternative, and no character parts its turns"
        ),
    ),
    (
        schema("{pattern: '['}"),
        (
            'class c: field f: risky-pattern: schema: #: "[": no regular expression of Python\'s:'
            " unterminated character set at position 0"
        ),
    ),
    (schema("{not: " * 41 + "{}" + "}" * 41), "class c: field f: bad-schema: schema: nested more than 40 deep"),
]


@pytest.mark.parametrize("text, finding", CASES, ids=lambda value: str(value)[-50:])
def test_what_is_wrong_is_named(text: str | bytes, finding: str) -> None:
    with pytest.raises(Invalid) as refused:
        load(text, name="c" if "other-name" in finding else None)

    assert refused.value.details == (finding,)
    assert refused.value.message == finding


def test_every_rule_that_a_file_can_break_is_in_the_table() -> None:
    named = {rule for rule in Rule if any(f": {rule}: " in finding for _, finding in CASES)}

    assert set(Rule) - named == {*OF_RECORDS, Rule.BAD_TEXT}


def test_a_lone_surrogate_is_no_text() -> None:
    with pytest.raises(Invalid) as refused:
        checked_class({"name": "c", "fields": {"f": {"type": "register", "schema": {"title": "\ud800"}}}})

    assert refused.value.message == "class c: bad-text: half of a surrogate pair stands in it, which is no character"


def test_all_of_it_is_told_at_once_class_role_field_and_rule() -> None:
    with pytest.raises(Invalid) as refused:
        load("""
            name: incidents
            owner: ops
            fields:
              status: {type: regster}
              work: {type: task, lease: 2d}
              log: {type: append, cap: 0}
            roles:
              worker: {identities: ["*"], write: [work, nothing], claim: [work]}
        """)

    assert [tuple(line.split(": ")[:4]) for line in refused.value.details] == [
        ("class incidents", "unknown-key", "owner", "it takes name, fields, roles"),
        ("class incidents", "field status", "unknown-type", "type"),
        ("class incidents", "field work", "bad-lease", "lease"),
        ("class incidents", "field log", "bad-cap", "cap"),
        ("class incidents", "role worker", "bad-glob", "identities"),
        ("class incidents", "role worker", "field work", "write-on-task"),
        ("class incidents", "role worker", "field nothing", "unknown-field"),
        ("class incidents", "role worker", "field work", "claim-without-read"),
    ]
    assert refused.value.message == f"{refused.value.details[0]} (and 7 more)"


def test_findings_of_the_file_come_with_their_lines_and_before_those_of_the_class() -> None:
    with pytest.raises(Invalid) as refused:
        load("name: c\nfields:\n  on: {type: task}\n  f: {type: yes}\n  f: {}\n")

    assert [line.split(": ")[1] for line in refused.value.details] == [
        "line 3, fields",
        "line 4, fields.f.type",
        "line 5, fields.f",
    ]


def test_json_is_read_as_well() -> None:
    assert load('{"name": "c", "fields": {"t": {"type": "task", "lease": 60}}}') == load(
        "name: c\nfields: {t: {type: task, lease: 1m}}\n"
    )
