"""What an object is, in a digest that is the same in every process.

A run is resumed, by `warm_start` or from a checkpoint, only with the objects that it began with. Those of the user are
told apart by what they do and hold: functions by their code and by the values that it refers to, classes by their
namespaces, instances by their class and what pickle would keep of them. Objects of installed packages have names.
Nothing in a digest depends on memory addresses, hashes of strings, file paths or line numbers.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CellType,
    ClassMethodDescriptorType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class UnidentifiedError(TypeError):
    """An object whose state nobody can read."""


def identity_of(fingerprints: Mapping[str, str], arrays: Iterable[NDArray[Any] | None]) -> str:
    """A digest of the fingerprints of parameters and of arrays."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(fingerprints):
        digest.update(f"{name}={fingerprints[name]};".encode())
    for array in arrays:
        if array is None:
            digest.update(b"None")
        else:
            digest.update(f"{array.shape}{array.dtype}".encode())
            digest.update(content_of(array))
    return digest.hexdigest()


def content_of(array: NDArray[Any]) -> bytes | memoryview:
    """The bytes of an array; of objects, those of their text."""
    if array.dtype.hasobject:
        return repr(array.tolist()).encode()
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data if flat.nbytes else b""


def fingerprints(parameters: Mapping[str, Any]) -> dict[str, str]:
    """Of each parameter; an error names the one that has none."""
    return {name: _fingerprint_of_parameter(name, value) for name, value in parameters.items()}


def _fingerprint_of_parameter(name: str, value: Any) -> str:
    try:
        return fingerprint(value)
    except UnidentifiedError as error:
        raise UnidentifiedError(
            f"{name}={value!r} cannot be told apart from another object of its class: {error}. Leave that out of the "
            "object, or of what its __getstate__ returns."
        ) from error


def fingerprint(value: Any) -> str:
    """What a value is; equal for values that act alike, in this and in every other process."""
    try:
        return _Digests().of(value).hex()
    except RecursionError as error:
        raise UnidentifiedError("it is nested too deeply") from error


class _Unordered(NamedTuple):
    """Values whose order says nothing."""

    values: list[Any]


_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))

# Entries of a class that say nothing of what it does, or that Python adds when an instance is pickled.
_NOT_IN_CLASSES = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__doc__",
    "__firstlineno__", "__module__", "__slotnames__", "__static_attributes__", "_abc_impl",
}  # fmt: skip

_DESCRIPTORS = (
    ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType,
)  # fmt: skip


class _Digests:
    """Digests of the values that one object consists of.

    An object that is part of itself stands for its depth where it occurs again.
    """

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}
        self._open: dict[int, int] = {}
        self._kept: list[Any] = []  # so that no two of them have the same id

    def of(self, value: Any) -> bytes:
        """The digest of a value."""
        if isinstance(value, (np.bool_, np.integer, np.float64)):
            value = value.item()
        if type(value) in _ATOMS:
            return _digest(type(value).__name__.encode(), repr(value).encode())
        if id(value) in self._known:
            return self._known[id(value)]
        if id(value) in self._open:
            return _digest(b"cycle", str(self._open[id(value)]).encode())
        self._open[id(value)] = len(self._open)
        self._kept.append(value)
        kind, *parts = _parts_of(value)
        found = _digest(kind.encode(), *map(self._of_part, parts))
        del self._open[id(value)]
        self._known[id(value)] = found
        return found

    def _of_part(self, part: Any) -> bytes:
        if isinstance(part, _Unordered):
            return _digest(*sorted(map(self.of, part.values)))
        return _digest(part) if isinstance(part, memoryview) else self.of(part)


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _parts_of(value: Any) -> Iterable[Any]:
    """A word for the kind of a value, and what a value of that kind consists of."""
    if type(value) in (list, tuple):
        return type(value).__name__, *value
    if type(value) in (dict, MappingProxyType):
        return "dict", _Unordered(list(value.items()))
    if type(value) in (set, frozenset):
        return "set", _Unordered(list(value))
    if type(value) in (np.ndarray, np.memmap):
        return _parts_of_array(value)
    if isinstance(value, np.ufunc):
        return _parts_of_ufunc(value)
    name = _installed_name(value)
    if name is not None:
        return "installed", name
    if isinstance(value, ModuleType):
        return "module", value.__name__
    if isinstance(value, type):
        entries = {key: entry for key, entry in vars(value).items() if key not in _NOT_IN_CLASSES}
        return "class", value.__name__, type(value), value.__bases__, entries
    return _parts_of_callable(value) or _parts_of_instance(value)


def _parts_of_array(array: NDArray[Any]) -> Iterable[Any]:
    if array.dtype.names:  # there may be anything between the fields
        return "array", array.shape, [array[name] for name in array.dtype.names], list(array.dtype.names)
    if array.dtype.hasobject:
        return "array", array.shape, array.ravel().tolist()
    return "array", array.shape, str(array.dtype), content_of(array)


def _parts_of_ufunc(ufunc: np.ufunc) -> Iterable[Any]:
    if not ufunc.__name__.isidentifier():
        raise UnidentifiedError(f"the function inside {ufunc!r} cannot be seen (use numpy.vectorize)")
    return "ufunc", ufunc.__name__, list(ufunc.types)


def _parts_of_callable(value: Any) -> Iterable[Any]:
    """Functions and methods of all kinds; nothing for everything else."""
    if isinstance(value, FunctionType):
        return _parts_of_function(value)
    if isinstance(value, CodeType):
        return (
            "code", value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags, value.co_code,
            value.co_exceptiontable, value.co_consts, value.co_names, value.co_varnames, value.co_freevars,
            value.co_cellvars,
        )  # fmt: skip
    if isinstance(value, MethodType):
        return "method", value.__func__, value.__self__
    if isinstance(value, (staticmethod, classmethod)):
        return type(value).__name__, value.__func__
    if isinstance(value, property):
        return "property", value.fget, value.fset, value.fdel
    if isinstance(value, functools.cached_property):  # which has a lock in some versions of Python
        return "cached_property", value.func
    if isinstance(value, (BuiltinFunctionType, MethodWrapperType)):
        return "builtin", value.__name__, value.__self__
    if isinstance(value, _DESCRIPTORS):
        return "descriptor", value.__name__, value.__objclass__
    return ()


def _parts_of_function(function: FunctionType) -> Iterable[Any]:
    code = function.__code__
    names = set(_names_in(code))
    cells = [_used(_content(cell), names) for cell in function.__closure__ or ()]
    within = {
        name: _used(function.__globals__[name], names) for name in _globals_in(code) if name in function.__globals__
    }
    return "function", code, function.__defaults__, function.__kwdefaults__, cells, within, vars(function)


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it has none yet
        return ...


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object and all those inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


def _names_in(code: CodeType) -> Iterator[str]:
    for inner in _codes_in(code):
        yield from inner.co_names


def _globals_in(code: CodeType) -> set[str]:
    """The names that code looks up among the globals of its module."""
    return {
        instruction.argval
        for inner in _codes_in(code)
        for instruction in dis.get_instructions(inner)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    }


def _used(value: Any, names: set[str], within: tuple[ModuleType, ...] = ()) -> Any:
    """A value that code refers to; of a module of the user those entries that the code can mean."""
    if not isinstance(value, ModuleType) or _is_installed(value.__name__) or value in within:
        return value
    inside = (*within, value)
    return {name: _used(vars(value)[name], names, inside) for name in names if name in vars(value)}


def _parts_of_instance(value: Any) -> Iterable[Any]:
    kind = type(value)
    wrapped = getattr(value, "__wrapped__", None)
    if isinstance(wrapped, FunctionType) and _is_installed(kind.__module__):  # compiled or cached by a library
        return "wrapper", kind, wrapped
    try:
        reduce = copyreg.dispatch_table.get(kind)
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(reduced, str):
            return "named", kind, reduced
        make, arguments, state, entries, items = (*reduced, None, None, None)[:5]
        return "object", kind, make, arguments, state, list(entries or ()), dict(items or ())
    except RecursionError:
        raise
    except Exception as error:  # whatever a class of the user does
        raise UnidentifiedError(f"a {kind.__qualname__} in it has a state that cannot be read ({error})") from error


def _installed_name(value: Any) -> str | None:
    """The name of a class, or of a function that is found by it, in an installed package."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not _is_installed(module):
        return None
    if isinstance(value, type):
        return None if "<locals>" in name else f"{module}.{name}"
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}.{name}" if found is value else None


def _is_installed(module: str) -> bool:
    """Whether a module is Python's, of this package or of another one that pip has installed."""
    if module == "__main__":
        return False
    package = module.partition(".")[0]
    if package == __name__.partition(".")[0]:  # this one, which may be used from a source tree
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return package in sys.stdlib_module_names
    path = Path(file)
    return "site-packages" in path.parts or "dist-packages" in path.parts or path.is_relative_to(_STDLIB)


_STDLIB = sysconfig.get_path("stdlib")
