"""Digests of objects that are the same in every process.

A run can be resumed, by `warm_start` or from a checkpoint, only with the objects that it started with. User-defined
objects are identified by what they do and contain: functions by their code and the values it refers to, classes by
their namespaces, instances by their class and the state that pickle would save. Objects of installed packages are
identified by name. Digests do not depend on memory addresses, hashes of strings, file paths or line numbers.
"""

from __future__ import annotations

import copyreg
import dis
import functools
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
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

from .types import AnyArray


@functools.cache
def library_version() -> str:
    """The version of this library; looking it up reads a file."""
    return version("agbm")


class UnidentifiedError(TypeError):
    """An object has no digest, because its state cannot be read."""


def identity_of(fingerprints: Mapping[str, str], arrays: Iterable[AnyArray | None]) -> str:
    """A digest of the fingerprints of parameters, and of arrays."""
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


def content_of(array: AnyArray) -> bytes | memoryview:
    """The bytes of an array; for objects, the bytes of their repr."""
    if array.dtype.hasobject:
        return repr(array.tolist()).encode()
    flat = np.ascontiguousarray(array).reshape(-1)
    return flat.view(np.uint8).data if flat.nbytes else b""


def fingerprints(parameters: Mapping[str, Any]) -> dict[str, str]:
    """The fingerprint of each parameter; raises UnidentifiedError if one has none."""
    return {name: _fingerprint_of_parameter(name, value) for name, value in parameters.items()}


def _fingerprint_of_parameter(name: str, value: object) -> str:
    try:
        return fingerprint(value)
    except UnidentifiedError as error:
        raise UnidentifiedError(
            f"{name}={value!r} cannot be distinguished from other objects of its class: {error}. Remove this part from "
            "the object, or from the result of its __getstate__."
        ) from error


def fingerprint(value: object) -> str:
    """A digest of a value, equal for values that behave the same, in this and every other process."""
    if type(value) in _ATOMS:  # the usual case
        return _digest_of_atom(type(value).__name__, repr(value)).hex()
    try:
        return _Digests().of(value).hex()
    except RecursionError as error:
        raise UnidentifiedError("it is nested too deeply") from error


class _Unordered(NamedTuple):
    """Values whose order does not matter."""

    values: list[Any]


_ATOMS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented))

# Entries of a class that do not affect its behaviour, or that Python adds when an instance is pickled.
_NOT_IN_CLASSES = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__", "__doc__",
    "__firstlineno__", "__module__", "__slotnames__", "__static_attributes__", "_abc_impl",
}  # fmt: skip

_DESCRIPTORS = (
    ClassMethodDescriptorType, GetSetDescriptorType, MemberDescriptorType, MethodDescriptorType, WrapperDescriptorType,
)  # fmt: skip


class _Digests:
    """Digests of the values that one object consists of.

    If an object contains itself, the inner occurrence is replaced by the depth of the outer one.
    """

    def __init__(self) -> None:
        self._known: dict[int, bytes] = {}
        self._open: dict[int, int] = {}
        self._kept: list[Any] = []  # keeps values alive, so that ids stay unique

    def of(self, value: object) -> bytes:
        """The digest of a value."""
        if isinstance(value, (np.bool_, np.integer, np.float64)):
            value = value.item()
        if type(value) in _ATOMS:
            return _digest_of_atom(type(value).__name__, repr(value))
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

    def _of_part(self, part: object) -> bytes:
        if isinstance(part, _Unordered):
            return _digest(*sorted(map(self.of, part.values)))
        return _digest(part) if isinstance(part, memoryview) else self.of(part)


@functools.lru_cache(256)  # most parameters of most fits are the same few values
def _digest_of_atom(kind: str, value: str) -> bytes:
    return _digest(kind.encode(), value.encode())


def _digest(*parts: bytes | memoryview) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def _parts_of(value: Any) -> Iterable[Any]:
    """A word for the kind of a value, and its parts."""
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


def _parts_of_array(array: AnyArray) -> Iterable[Any]:
    if array.dtype.names:  # the padding between fields may contain anything
        return "array", array.shape, [array[name] for name in array.dtype.names], list(array.dtype.names)
    if array.dtype.hasobject:
        return "array", array.shape, array.ravel().tolist()
    return "array", array.shape, str(array.dtype), content_of(array)


def _parts_of_ufunc(ufunc: np.ufunc) -> Iterable[Any]:
    if not ufunc.__name__.isidentifier():
        raise UnidentifiedError(f"the function inside {ufunc!r} cannot be read (use numpy.vectorize)")
    return "ufunc", ufunc.__name__, list(ufunc.types)


def _parts_of_callable(value: object) -> Iterable[Any]:
    """The parts of functions and methods of all kinds; empty for other values."""
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
    if isinstance(value, functools.cached_property):  # it contains a lock in some versions of Python
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
    except ValueError:  # the cell is still empty
        return ...


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    """A code object and all code objects inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes_in(constant)


def _names_in(code: CodeType) -> Iterator[str]:
    for inner in _codes_in(code):
        yield from inner.co_names


def _globals_in(code: CodeType) -> set[str]:
    """The names that code looks up in the globals of its module."""
    return {
        instruction.argval
        for inner in _codes_in(code)
        for instruction in dis.get_instructions(inner)
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
    }


def _used(value: object, names: set[str], within: tuple[ModuleType, ...] = ()) -> Any:
    """A value that code refers to; for a user-defined module, only the entries that the code may use."""
    if not isinstance(value, ModuleType) or _is_installed(value.__name__) or value in within:
        return value
    inside = (*within, value)
    return {name: _used(vars(value)[name], names, inside) for name in names if name in vars(value)}


def _parts_of_instance(value: object) -> Iterable[Any]:
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
    except Exception as error:  # user-defined classes may raise anything
        raise UnidentifiedError(f"it contains a {kind.__qualname__} whose state cannot be read ({error})") from error


def _installed_name(value: object) -> str | None:
    """The name of a class or function of an installed package; None if it cannot be looked up by its name."""
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
    """Whether a module belongs to the standard library, to this package or to another installed package."""
    if module == "__main__":
        return False
    package = module.partition(".")[0]
    if package == __name__.partition(".")[0]:  # this package, which may be used from a source tree
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return package in sys.stdlib_module_names
    path = Path(file)
    return "site-packages" in path.parts or "dist-packages" in path.parts or path.is_relative_to(_STDLIB)


_STDLIB = sysconfig.get_path("stdlib")
