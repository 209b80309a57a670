"""The grammar of what a user writes of optimizers. Nothing is imported for it.

adamw,slow=adamw(betas=(0.9, 0.99)),torch.optim.SGD(nesterov=True),lion.py:Lion
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from adamomentum_lab.contender import is_value
from adamomentum_lab.errors import LabError
from adamomentum_lab.space import Settings, Value

FORMS = "a name of `adamomentum list`, package.Class, package.module:Class or file.py:Class"
NAME = re.compile(r"[A-Za-z][\w.-]*")


@dataclass(frozen=True)
class Written:
    """A reference in its parts."""

    name: str
    """Empty if the user gave none."""
    target: str
    options: Settings


def split(text: str) -> list[str]:
    """The parts between commas. Commas inside brackets do not separate."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and depth:
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def parse(text: str) -> Written:
    """The parts of one reference."""
    target = text.strip()
    named = re.match(rf"({NAME.pattern})\s*=", target)
    if named:
        target = target[named.end() :].strip()
    options: Settings = {}
    if target.endswith(")"):
        start = _start_of_call(target, text)
        target, options = target[:start].strip(), _options(target[start:], text)
    if not target:
        raise LabError(f"{text!r} names no optimizer; write {FORMS}.")
    return Written(named[1] if named else "", target, options)


def _start_of_call(target: str, text: str) -> int:
    """The first bracket that begins a call; a folder may have brackets in its name."""
    for start in (i for i, letter in enumerate(target) if letter == "("):
        try:
            ast.parse(f"f{target[start:]}", mode="eval")
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        return start
    raise LabError(f"the options of {text!r} are not Python; write them as (betas=(0.9, 0.99)).")


def _options(call: str, text: str) -> Settings:
    node = ast.parse(f"f{call}", mode="eval").body
    if not isinstance(node, ast.Call) or node.args:
        raise LabError(f"the options of {text!r} need names, as (betas=(0.9, 0.99)).")
    options: dict[str, Value] = {}
    for one in node.keywords:
        shown = f"{one.arg or '**'}={ast.unparse(one.value)}"
        try:
            value = ast.literal_eval(one.value)
        except (ValueError, TypeError, MemoryError, RecursionError):
            value = object()
        if one.arg is None or not is_value(value):
            kinds = "a number, a text, True, False, None or a list of them"
            raise LabError(f"{shown} in {text!r} is not usable; an option must be {kinds}.")
        options[one.arg] = value
    return options
