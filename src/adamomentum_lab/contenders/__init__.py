"""The optimizers that can be raced, one file each.

Each public module here defines `CONTENDER`. Its name is the module's name, with `-` for `_`. To add
an optimizer, add a file.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib
import importlib.util
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from adamomentum_lab import portable
from adamomentum_lab.catalog import modules
from adamomentum_lab.contender import Contender, Entry
from adamomentum_lab.contenders._written import NAME, parse, split
from adamomentum_lab.errors import LabError, unknown
from adamomentum_lab.identity import FAMILY, Parts, digest_of, is_installed, parts

STANDARD = ("sgdm", "adam", "adamw", "yogi", "adabound", "radam", "adabelief", "adamomentum")
"""The optimizers of a race by default. Lists begin with them; the others follow in alphabetical
order."""
BASELINE = "adamw"
"""The default baseline of a race, if it takes part."""
BASELINE_OF_0_1 = "adamomentum"
"""The baseline of every race of version 0.1 that it took part in."""


def names() -> list[str]:
    """Return the names of all contenders: the standard ones, then the others alphabetically."""
    return list(_files())


def check_names(given: Iterable[str]) -> None:
    """Raise a LabError for the first unknown name. Imports no contender."""
    for name in given:
        if name not in _files():
            raise LabError(unknown("optimizer", name, _files()))


def available() -> list[Contender]:
    """Every contender whose packages are installed."""
    found = []
    for name in names():
        with contextlib.suppress(LabError):
            found.append(get(name))
    return found


@functools.cache
def get(name: str) -> Contender:
    """Return the contender of this name."""
    check_names([name])
    try:
        module = importlib.import_module(_files()[name])
    except ModuleNotFoundError as error:
        install = "pip install 'adamomentum[contenders]'"
        raise LabError(f"{name} needs {error.name}, which is not installed: {install}.") from error
    found = getattr(module, "CONTENDER", None)
    if not isinstance(found, Contender):
        raise LabError(f"{module.__file__} defines no CONTENDER = Contender(...).")
    return replace(found, name=name)


def find(text: str) -> Contender:
    """The contender that a user's words stand for: a name, package.Class, package.module:Class,
    file.py:Class, file.py:function or file.py with a CONTENDER.

    Options may follow in brackets, and `name=` may stand before.
    """
    written = parse(text)
    if written.target in _files():
        code, name, target = code_of(written.target), written.target, written.target
        if not written.options and written.name in ("", name):
            return get(name)
    elif "." not in written.target and ":" not in written.target:
        raise LabError(unknown("optimizer", written.target, _files()))
    else:
        from adamomentum_lab.contenders import _found

        found = _found.find(written.target)
        code, name, target = found.code, found.name, found.target
    name = written.name or name
    if name in _files() and name != written.target:
        other = f"give {text!r} another name, as my-{name}=..."
        raise LabError(f"{name!r} is one of the lab's optimizers; {other}")
    return _make(name, target, _as_text(written.options), code)


def refer(value: Any, name: str = "") -> tuple[Contender, str | None]:
    """The contender that a class, a function or a Contender of this process stands for, and why it
    cannot be identified, or else None."""
    module, attribute = getattr(value, "__module__", ""), getattr(value, "__qualname__", "")
    named = f"{name}=" if name else ""
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    installed = is_installed(file) or module.partition(".")[0] in FAMILY
    if attribute and "<" not in attribute and installed:
        return find(f"{named}{module}:{attribute}"), None
    if isinstance(value, Contender):
        attribute = value.name or getattr(value.optimizer, "__name__", "")
    name = name or attribute.rpartition(".")[2]
    if not NAME.fullmatch(name):
        raise LabError(f"{value!r} needs a name; write optimizers={{'mine': ...}}.")
    if name in _files():
        other = f"write optimizers={{'my-{name}': ...}}"
        raise LabError(f"{name!r} is one of the lab's optimizers; {other}.")
    code, why = portable.add(value, name)
    return _make(name, f"given:{attribute or name}", "{}", code), why


def find_all(text: str) -> list[Contender]:
    """The contenders that a list with commas stands for. Commas inside brackets do not separate."""
    found = [find(part) for part in split(text)]
    if name := _repeated(found):
        again = f"name one of them, as other={_last(text, name)}"
        raise LabError(f"two optimizers are called {name!r}; {again}.")
    return found


def check_distinct(found: Iterable[Contender]) -> None:
    """Raise a LabError if two of them have the same name."""
    if name := _repeated(found):
        raise LabError(f"two optimizers are called {name!r}; write optimizers={{'other': ...}}.")


def _repeated(found: Iterable[Contender]) -> str:
    counts = Counter(one.name for one in found)
    return next((name for name, count in counts.items() if count > 1), "")


def load(name: str, entry: Entry | None) -> Contender:
    """The contender of this name in a race, which has an entry unless it is the lab's."""
    if entry is None:
        return get(name)
    return _make(name, entry.target, _as_text(entry.options), entry.code)


def origin(name: str, entry: Entry | None) -> dict[str, str]:
    """What the specification of a run says of where its contender comes from."""
    if entry is None:
        return {"optimizer_code": code_of(name)}
    return {"optimizer_code": entry.code, "target": entry.label}


def parts_for(name: str, entry: Entry | None) -> Parts:
    """What the code of `origin` is the digest of."""
    if entry is None or entry.target in _files():
        return parts_of(name if entry is None else entry.target)
    if portable.knows(entry.code):
        return portable.parts_of(entry.code)
    from adamomentum_lab.contenders import _found

    return _found.find(entry.target).parts


@functools.cache
def _make(name: str, target: str, options: str, code: str) -> Contender:
    """With the options in place of its defaults; the code must be that of this digest."""
    given = ast.literal_eval(options)
    if target in _files():
        lab = get(target)
        lab.check(given)
        now, like = code_of(target), lab.like or {"*": target}
        made = replace(lab, settings={**lab.settings, **given}, like=like)
    elif portable.knows(code):
        from adamomentum_lab.contenders import _from_user

        now = code
        made = _from_user.make(portable.get(code), given, target.rpartition(":")[2])
    else:
        from adamomentum_lab.contenders import _found, _from_user  # which import torch

        found = _found.find(target)
        now = found.code
        shown = target.rpartition("/")[2]
        shown = shown if found.place else shown.replace(":", ".")
        made = _from_user.make(found.value, given, shown)
    if now != code:
        raise LabError(f"{target} has changed since the start; start again.")
    entry = Entry(target, given, code, made.settings)
    return replace(made, name=name, entry=entry)


def _as_text(options: Mapping[str, Any]) -> str:
    """For a cache, which must not take 1 for True; lists, which JSON has, are tuples."""

    def plain(value: Any) -> Any:
        return tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value

    return repr({name: plain(value) for name, value in options.items()})


def _last(text: str, name: str) -> str:
    """The last part of a list that goes by this name."""
    return [part for part in split(text) if find(part).name == name][-1].removeprefix(f"{name}=")


@functools.cache
def code_of(name: str) -> str:
    """Return the digest of a contender's own code."""
    return digest_of(parts_of(name))


@functools.cache
def parts_of(name: str) -> Parts:
    """Return the parts that `code_of` is the digest of."""
    check_names([name])
    spec = importlib.util.find_spec(_files()[name])
    assert spec is not None
    return parts(Path(spec.origin or ""))


@functools.cache
def _files() -> dict[str, str]:
    """Map the name of each contender to its module."""
    found = {name.replace("_", "-"): module for name, module in modules(__name__).items()}
    order = dict.fromkeys((*STANDARD, *sorted(found)))
    return {name: found[name] for name in order}
