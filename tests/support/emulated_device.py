"""A device without a GPU: the kernels, compiled for the CPU (tests/native/cuda_emulation.hpp), on NumPy arrays."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import subprocess
import weakref
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent.parent
NATIVE = ROOT / "tests" / "native"
KERNELS = ROOT / "src" / "agbm" / "_device" / "kernels"
BUILD = ROOT / "build" / "emulation"
GUARD = 256
"""Bytes before and after every array that must not change."""
GARBAGE = 0xFF
"""The bytes of uninitialised memory: NaN as numbers, -1 as integers."""


class EmulatedArray(np.ndarray):
    """An array that NumPy's functions and operators refuse, as they do not know the memory of a GPU."""

    __array_ufunc__ = None

    def __array_function__(self, function, types, args, kwargs):
        raise TypeError(f"numpy.{function.__name__} of an array of a device")


@cache
def library():
    """The compiled kernels. Several processes of the tests may ask at once, of which one compiles."""
    sources = sorted([*KERNELS.iterdir(), NATIVE / "cuda_emulation.hpp", NATIVE / "emulated_kernels.cpp"])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    BUILD.mkdir(parents=True, exist_ok=True)
    built = BUILD / f"{digest}.so"
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            for old in BUILD.glob("*.so"):
                old.unlink()
            flags = ["-std=c++20", "-O2", "-g", "-ffp-contract=off", "-Wall", "-Wextra", "-fPIC", "-shared"]
            command = [os.environ.get("CXX", "g++"), *flags, f"-I{KERNELS}", NATIVE / "emulated_kernels.cpp"]
            subprocess.run([*command, "-o", built.with_suffix(".new")], check=True)
            built.with_suffix(".new").rename(built)
    return ctypes.PyDLL(str(built))  # keeps the GIL: there is one block at a time


class EmulatedDevice:
    """See Device. Launches return when the kernel is done; mistakes that can be found raise RuntimeError."""

    def __init__(self, n_processors=1):
        self.n_processors = n_processors
        self.launched = []
        """The kernels so far."""
        self._buffers = []

    def launch(self, kernel, n_blocks, n_threads, *args, shared=0):
        values, types = zip(*map(self._argument, args), strict=True) if args else ((), ())
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        function = getattr(library(), f"emulate_{kernel}")
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p]
        error = function(n_blocks, n_threads, shared, pointers, " ".join(types).encode())
        if error is not None:
            raise RuntimeError(f"{kernel}: {error.decode()}")
        self.launched.append(kernel)
        self._check_guards(kernel)

    def empty(self, shape, dtype):
        shape, dtype = (shape if isinstance(shape, tuple) else (shape,)), np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = np.full(n_bytes + 2 * GUARD, GARBAGE, dtype=np.uint8)
        self._buffers.append(weakref.ref(buffer))
        return buffer[GUARD : GUARD + n_bytes].view(dtype).reshape(shape).view(EmulatedArray)

    def zeros(self, shape, dtype):
        array = self.empty(shape, dtype)
        array.view(np.ndarray)[...] = 0
        return array

    def to_device(self, array):
        copy = self.empty(np.shape(array), np.asarray(array).dtype)
        copy.view(np.ndarray)[...] = array
        return copy

    def to_host(self, array):
        assert isinstance(array, EmulatedArray), "an array of the device"
        return np.array(array.view(np.ndarray), order="C")

    def _argument(self, given):
        """A number or address in memory, and the code of its type."""
        if given is None:
            return ctypes.c_void_p(0), "p"
        if isinstance(given, EmulatedArray):
            return ctypes.c_void_p(given.ctypes.data), f"p{given.dtype.kind}{given.dtype.itemsize}"
        if isinstance(given, float | np.floating):
            return ctypes.c_double(given), "f8"
        if isinstance(given, int | np.integer):
            return ctypes.c_longlong(given), "i8"
        raise TypeError(f"a kernel cannot take {type(given).__name__}")

    def _check_guards(self, kernel):
        live = [(reference, buffer) for reference in self._buffers if (buffer := reference()) is not None]
        self._buffers = [reference for reference, _ in live]
        for _, buffer in live:
            if not ((buffer[:GUARD] == GARBAGE).all() and (buffer[-GUARD:] == GARBAGE).all()):
                raise RuntimeError(f"{kernel}: a write before or after an array of {buffer.size - 2 * GUARD} bytes")
