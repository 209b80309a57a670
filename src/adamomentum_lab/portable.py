"""Classes that are defined in a script or a notebook: what identifies them, and how they reach
other processes.

A class counts by its content: the code of its methods, the values that this code uses, and the
classes and functions of the user that it reaches. cloudpickle sends it.
"""

from __future__ import annotations

import contextlib
import dis
import enum
import functools
import hashlib
import sys
import types
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from adamomentum_lab.errors import LabError
from adamomentum_lab.identity import (
    FAMILY,
    NUMBERS,
    TRAINING,
    Parts,
    digest_of,
    is_covered,
    is_installed,
    parts,
    version_of,
)

_SKIPPED = {
    "__annotations__", "__annotate_func__", "__annotations_cache__", "__dict__", "__doc__",
    "__firstlineno__", "__module__", "__static_attributes__", "__weakref__", "_abc_impl",
    "__abstractmethods__",
}  # fmt: skip
"""Attributes of a class that no number depends on."""
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range)

_known: dict[str, tuple[Any, Parts]] = {}
"""By its code, each object of this process."""
_arrived: dict[str, bytes] = {}
"""By its code, each object of another process, as cloudpickle has written it."""
_sent: dict[str, bytes] = {}
_cells: dict[str, Mapping[str, str]] = {}


class _UnclearError(Exception):
    """An object cannot be identified exactly."""


def add(value: Any, name: str) -> tuple[str, str | None]:
    """Register an object. Return its code, and why it cannot be identified, or else None.

    The code of an object that cannot be identified is new each time, so its runs are never reused.
    """
    why = None
    try:
        found = _Identity(name).of(value)
    except (_UnclearError, RecursionError) as error:
        why = str(error).partition("\n")[0]
        found = {name: f"unknown {uuid.uuid4().hex[:16]}"}
    code = digest_of(found)
    _known[code] = value, found
    _cells[code] = _find_cells()
    return code, why


def knows(code: str) -> bool:
    """Whether this process has an object with this code."""
    return code in _known or code in _arrived


def get(code: str) -> Any:
    """Return the object with this code."""
    if code not in _known:
        _known[code] = _load(_arrived[code]), {}
    return _known[code][0]


def parts_of(code: str) -> Parts:
    """Return what `code` is the digest of; it is known where the object was defined."""
    return _known[code][1] if code in _known else {}


def cells(code: str) -> Mapping[str, str]:
    """Return, for the file of each cell that a class of a notebook was defined in, what to call it.

    A kernel compiles a cell under the name of a file that is not there.
    """
    return _cells.get(code, {})


def carry(code: str, make: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """Return what `__reduce__` of something returns that needs the object with this code."""
    return _restore, (code, _content(code), cells(code), make, arguments)


def _restore(
    code: str, content: bytes, places: Mapping[str, str], make: Callable[..., Any], arguments: Any
) -> Any:
    if code not in _known:
        _arrived[code] = content
        _cells[code] = places
    return make(*arguments)


def _content(code: str) -> bytes:
    if code in _arrived:
        return _arrived[code]
    if code not in _sent:
        _sent[code] = dump(get(code))
    return _sent[code]


def dump(value: Any) -> bytes:
    """Pickle an object for another process, with the user's classes and functions that it needs."""
    import cloudpickle

    with contextlib.ExitStack() as registered:
        for module in [module for module in sys.modules.values() if _is_users(module)]:
            with contextlib.suppress(ValueError):  # it is registered, or no longer imported
                cloudpickle.register_pickle_by_value(module)
                registered.callback(cloudpickle.unregister_pickle_by_value, module)
        try:
            content: bytes = cloudpickle.dumps(value)
        except Exception as error:
            name = getattr(value, "__name__", type(value).__name__)
            why = str(error).partition("\n")[0]
            raise LabError(f"{name} cannot be sent to worker processes ({why}).") from error
    return content


def _load(content: bytes) -> Any:
    import cloudpickle

    return cloudpickle.loads(content)


def _find_cells() -> Mapping[str, str]:
    """The cells of this notebook that were run so far; none outside a notebook."""
    try:
        numbers = sys.modules["IPython"].get_ipython().compile._filename_map
    except (KeyError, AttributeError):
        return {}
    return {place: f"cell [{number}]" for place, number in numbers.items()}


def _is_users(module: Any) -> bool:
    """Whether a module is a file of the user."""
    name, file = getattr(module, "__name__", ""), getattr(module, "__file__", None) or ""
    own = name.partition(".")[0] in FAMILY or name in ("__main__", "__mp_main__")
    return file.endswith(".py") and not own and not is_installed(file)


class _Identity:
    """Digests an object by its content."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._open: dict[int, int] = {}
        """By its id, the depth of each object that is being digested."""
        self._done: dict[int, bytes] = {}
        self._alive: list[Any] = []  # so that no id is used twice
        self._packages = {"torch"}
        self._files: dict[str, Path] = {}

    def of(self, value: Any) -> Parts:
        found = {self._name: self._digest(value).hex()[:16]}
        for name, file in self._files.items():
            found |= {f"{name}: {key}": part for key, part in parts(file).items()}
        versions = {name: version_of(name) for name in self._packages - sys.stdlib_module_names}
        return {**found, **versions, TRAINING: str(NUMBERS)}

    def _digest(self, value: Any) -> bytes:
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return _hash(type(value).__name__, repr(value))
        key = id(value)
        if key in self._done:
            return self._done[key]
        if key in self._open:
            return _hash("above", str(self._open[key]))
        self._open[key] = len(self._open)
        self._alive.append(value)
        try:
            found = _hash(*self._content(value))
        finally:
            del self._open[key]
        self._done[key] = found
        return found

    def _content(self, value: Any) -> Iterator[str | bytes]:
        """The parts of an object that its digest is made from."""
        yield type(value).__name__
        if isinstance(value, types.ModuleType):
            yield self._module(value)
        elif isinstance(value, (type, types.FunctionType)):
            if not self._is_defined_by_user(value):
                yield self._by_name(value)
            elif isinstance(value, type):
                yield from self._class(value)
            else:
                yield from self._function(value)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, enum.Enum):
            yield from map(self._digest, (type(value), value.name, value.value))
        elif isinstance(value, (staticmethod, classmethod)):
            yield self._digest(value.__func__)
        elif isinstance(value, property):
            yield from map(self._digest, (value.fget, value.fset, value.fdel))
        elif isinstance(value, functools.cached_property):
            yield self._digest(value.func)
        elif isinstance(value, types.MethodType):
            yield from map(self._digest, (value.__func__, value.__self__))
        elif isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType)):
            yield value.__name__
        elif isinstance(value, (dict, types.MappingProxyType)) and _is_plain(value):
            for pair in value.items():
                yield from map(self._digest, pair)
        elif type(value) in (list, tuple):
            yield from map(self._digest, value)
        elif type(value) in (set, frozenset):
            yield from sorted(map(self._digest, value))
        else:
            yield from self._instance(value)

    def _instance(self, value: Any) -> Iterator[str | bytes]:
        array = _array(value)
        if array is not None:
            yield f"{value.dtype} {tuple(value.shape)}"
            yield array
            return
        try:
            reduced = value.__reduce_ex__(4)
        except Exception as error:
            what = f"it uses {_article(type(value).__name__)}, which cannot be pickled"
            raise _UnclearError(what) from error
        if isinstance(reduced, str):
            yield self._by_name(value, reduced)
            return
        make, arguments, *rest = reduced
        yield from map(self._digest, (make, arguments))
        for i, part in enumerate(rest):
            # The third and fourth are iterators over items.
            yield self._digest(list(part) if i in (1, 2) and part is not None else part)

    def _is_defined_by_user(self, value: Any) -> bool:
        name = value.__module__
        if name in ("__main__", "__mp_main__", None):
            return True
        module = sys.modules.get(name)
        if module is None:
            return True  # made by a cell or a file that is gone
        return _is_users(module)

    def _by_name(self, value: Any, name: str = "") -> str:
        module = getattr(value, "__module__", None) or getattr(type(value), "__module__", "")
        self._note(module or "")
        return f"{module}.{name or getattr(value, '__qualname__', '')}"

    def _note(self, module: str) -> None:
        """Make what stands for a module a part of the identity."""
        package = module.partition(".")[0]
        if package not in FAMILY:
            self._packages.add(package)
            return
        file = getattr(sys.modules.get(module), "__file__", None)
        if file and not is_covered(module) and package != "adamomentum":
            self._files[module] = Path(file)

    def _module(self, module: types.ModuleType) -> str:
        if _is_users(module):
            self._files[module.__name__] = Path(str(module.__file__))
        else:
            self._note(module.__name__)
        return module.__name__

    def _class(self, cls: type) -> Iterator[str | bytes]:
        yield cls.__qualname__
        yield from map(self._digest, (type(cls), *cls.__bases__))
        for name, value in sorted(vars(cls).items()):
            if name not in _SKIPPED:
                yield name
                yield self._digest(value)

    def _function(self, function: types.FunctionType) -> Iterator[str | bytes]:
        # Not `__defaults__ or ()`: None and () are called differently.
        parts = (function.__code__, function.__defaults__, function.__kwdefaults__)
        yield from map(self._digest, parts)
        for cell in function.__closure__ or ():
            try:
                yield self._digest(cell.cell_contents)
            except ValueError:
                yield "an empty cell"
        used = function.__globals__
        for name in sorted(_global_names(function.__code__)):
            if name in used:
                yield name
                yield self._digest(used[name])
        for name, value in sorted(vars(function).items()):
            yield name
            yield self._digest(value)

    def _code(self, code: types.CodeType) -> Iterator[str | bytes]:
        yield code.co_code
        yield getattr(code, "co_exceptiontable", b"")
        shape = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        yield repr((sys.version_info[:2], shape, names))
        yield from map(self._digest, code.co_consts)


def _hash(*content: str | bytes) -> bytes:
    found = hashlib.sha256()
    for part in content:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.digest()


def _is_plain(value: Any) -> bool:
    return type(value) in (dict, types.MappingProxyType)


def _array(value: Any) -> bytes | None:
    """The content of a tensor or an array of numbers; None for other objects."""
    import numpy as np
    import torch

    if type(value) in (torch.Tensor, torch.nn.Parameter):
        if value.layout != torch.strided or value.is_quantized:
            return None
        value = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    if type(value) is np.ndarray and not value.dtype.hasobject:
        return hashlib.sha256(np.ascontiguousarray(value).data).digest()
    return None


def _global_names(code: types.CodeType) -> set[str]:
    """The names of global variables that a function and those inside it use."""
    loads = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")
    found = {one.argval for one in dis.get_instructions(code) if one.opname in loads}
    inner: Iterable[Any] = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return found.union(*map(_global_names, inner))


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
