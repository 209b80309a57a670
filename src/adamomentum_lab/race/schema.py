"""The JSON schema of `race.json`, made from the types of the record."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from adamomentum_lab.race.record import FORMAT, Record

Schema = dict[str, Any]
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def record_schema() -> Schema:
    """The schema. Other keys are allowed everywhere: later versions may add some."""
    definitions: dict[str, Schema] = {}
    root = _schema(Record, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"race.json of adamomentum, format {FORMAT}",
        **root,
        "$defs": definitions,
    }


def _schema(hint: Any, definitions: dict[str, Schema]) -> Schema:
    origin, args = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return {}
    if is_dataclass(hint) and isinstance(hint, type):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}  # it may contain itself
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(one, definitions) for one in args]}
    if origin is Literal:
        return {"enum": [*args]}
    if origin in (tuple, list, Sequence):
        return {"type": "array", "items": _schema(args[0], definitions)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(args[1], definitions)}
    return {"type": PLAIN[hint]}


def _object(cls: type[Any], definitions: dict[str, Schema]) -> Schema:
    if hasattr(cls, "from_json") and cls is not Record:
        # It writes itself: settings are an object there, and what has its default may be missing.
        return {"type": "object", "required": ["optimizer", "settings", "seed"]}
    hints = get_type_hints(cls)
    needed = [
        field.name
        for field in fields(cls)
        if field.default is MISSING and field.default_factory is MISSING
    ]
    properties = {field.name: _schema(hints[field.name], definitions) for field in fields(cls)}
    return {"type": "object", "properties": properties, "required": needed}
