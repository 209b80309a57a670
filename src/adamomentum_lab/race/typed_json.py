"""Dataclasses as JSON and back: every key and type is checked, and a fault names its place."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from adamomentum_lab.errors import LabError

Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]


class FaultError(ValueError):
    """What is wrong with a value, and where, as the end of a sentence."""


def encode(value: Any) -> Any:
    """The value as `json.dumps` takes it."""
    if hasattr(value, "as_json"):
        return value.as_json()
    if is_dataclass(value):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(hint: Any, value: Any, place: str = "") -> Any:
    """A value of a type. Keys that a dataclass lacks are ignored; those without a default must be
    there."""
    read = _dataclass(cast("type[Any]", hint)) if is_dataclass(hint) else _decoder(hint)
    return read(value, place)


def get(value: Json, key: str, place: str = "") -> Json:
    """A member of an object; a FaultError names the key that is missing."""
    if not isinstance(value, dict):
        raise FaultError(f"{place or 'it'} is no object")
    if key not in value:
        raise FaultError(f"{place} has no {key!r}" if place else f"it has no {key!r}")
    return value[key]


Decoder = Callable[[Any, str], Any]


@functools.cache
def _decoder(hint: Any) -> Decoder:
    origin, args = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return lambda value, _: value
    if hasattr(hint, "from_json"):
        return _checked(lambda value: isinstance(value, dict), "an object", hint.from_json)
    if is_dataclass(hint):
        return _dataclass(cast("type[Any]", hint))
    if origin in (Union, types.UnionType):
        return _union([_decoder(one) for one in args])
    if origin is Literal:
        return _checked(lambda value: value in args, " or ".join(map(repr, args)))
    if origin in (tuple, Sequence):
        item = _decoder(args[0])
        make = tuple if origin is tuple else list
        return _many(list, "a list", lambda value, place: make(
            item(one, f"{place}[{i}]") for i, one in enumerate(value)))  # fmt: skip
    if origin in (dict, Mapping):
        item = _decoder(args[1])
        return _many(dict, "an object", lambda value, place: {
            key: item(one, f"{place}.{key}") for key, one in value.items()})  # fmt: skip
    return _plain(hint)


def _plain(hint: Any) -> Decoder:
    kinds: dict[Any, tuple[type | tuple[type, ...], str]] = {
        str: (str, "a text"),
        int: (int, "a whole number"),
        float: ((int, float), "a number"),
        bool: (bool, "true or false"),
        type(None): (type(None), "null"),
    }
    kind, words = kinds[hint]

    def fits(value: Any) -> bool:
        return isinstance(value, kind) and isinstance(value, bool) == (hint is bool)

    return _checked(lambda value: fits(value) and (hint is not float or is_finite(value)), words)


def is_finite(value: object) -> bool:
    """Whether it is a number that a float can hold; JSON has whole numbers of any size."""
    return isinstance(value, (int, float)) and abs(value) <= sys.float_info.max


def _checked(
    fits: Callable[[Any], bool], words: str, make: Callable[[Any], Any] = lambda value: value
) -> Decoder:
    def read(value: Any, place: str) -> Any:
        if not fits(value):
            raise FaultError(f"{place or 'it'} is {value!r:.60}, not {words}")
        try:
            return make(value)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise FaultError(f"{place or 'it'} is damaged ({error})") from error

    return read


def _many(kind: type, words: str, read: Decoder) -> Decoder:
    check = _checked(lambda value: isinstance(value, kind), words)
    return lambda value, place: read(check(value, place), place)


def _union(options: list[Decoder]) -> Decoder:
    def read(value: Any, place: str) -> Any:
        faults = []
        for option in options:
            try:
                return option(value, place)
            except FaultError as fault:
                faults.append(fault)
        raise faults[0]

    return read


def _dataclass(cls: type[Any]) -> Decoder:
    hints = get_type_hints(cls)
    parts = [
        (one.name, _decoder(hints[one.name]), one.default is MISSING is one.default_factory)
        for one in fields(cls)
    ]

    def read(value: Any, place: str) -> Any:
        made = {
            name: part(get(value, name, place), f"{place}.{name}" if place else name)
            for name, part, needed in parts
            if needed or name in value
        }
        try:
            return cls(**made)
        except LabError as error:
            raise FaultError(str(error).rstrip(".")) from error

    return _many(dict, "an object", read)
