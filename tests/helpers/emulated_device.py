"""A device without a GPU: the kernels, compiled for the CPU (tests/native/cuda_emulation.hpp), on NumPy arrays."""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import subprocess
import threading
import traceback
import weakref
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np

from agbm._engines.device.device import DriverCalls

ROOT = Path(__file__).parent.parent.parent
NATIVE = ROOT / "tests" / "native"
KERNELS = ROOT / "src" / "agbm" / "_kernels"
BUILD = ROOT / "build" / "emulation"
GUARD = 256
"""Bytes before and after every array that must not change."""
GARBAGE = 0xFF
"""The bytes of uninitialised memory: NaN as numbers, -1 as integers."""
LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)  # fmt: skip
COPY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
CLEAR = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_ubyte, ctypes.c_size_t, ctypes.c_void_p)
WAIT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
"""Functions of CUDA's driver; see DriverCalls."""


class EmulatedArray(np.ndarray):
    """An array that NumPy's functions and operators refuse, as they do not know the memory of a GPU."""

    __array_ufunc__ = None

    def __dlpack_device__(self):
        return 2, 0  # CUDA

    def __array_function__(self, function, types, args, kwargs):
        raise TypeError(f"numpy.{function.__name__} of an array of a device")


@cache
def library():
    """The compiled kernels. Several processes of the tests may ask at once, of which one compiles."""
    kernels = [*KERNELS.glob("*/*.hpp"), *KERNELS.glob("*/*.cu")]
    sources = sorted([*kernels, NATIVE / "cuda_emulation.hpp", NATIVE / "emulated_kernels.cpp"])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    BUILD.mkdir(parents=True, exist_ok=True)
    built = BUILD / f"{digest}.so"
    with (BUILD / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            for old in BUILD.glob("*.so"):
                old.unlink()
            flags = ["-std=c++20", "-O2", "-g", "-ffp-contract=off", "-Wall", "-Wextra", "-fPIC", "-shared"]
            flags.append("-U_FORTIFY_SOURCE")  # its check of longjmp knows one stack only
            command = [os.environ.get("CXX", "g++"), *flags, f"-I{KERNELS}", NATIVE / "emulated_kernels.cpp"]
            subprocess.run([*command, "-o", built.with_suffix(".new")], check=True)
            built.with_suffix(".new").rename(built)
    return ctypes.PyDLL(str(built))  # keeps the GIL: there is one block at a time


def address_of(function):
    """The address of a function of ctypes."""
    return ctypes.cast(function, ctypes.c_void_p).value


def code(function):
    """The function with the result of a driver: 0, or 1 after an exception, which is printed."""

    def call(*args):
        try:
            function(*args)
        except Exception:
            traceback.print_exc()
            return 1
        return 0

    return call


class EmulatedDevice:
    """See Device. Launches return when the kernel is done; mistakes that can be found raise RuntimeError."""

    def __init__(self, n_processors=1):
        self.n_processors = n_processors
        self.launched = []
        """The kernels so far."""
        self.streams = {}
        """How often each stream was the current one."""
        self._current = threading.local()
        self._lock = threading.RLock()
        self._buffers = []
        self._functions = []

    def launch(self, kernel, n_blocks, n_threads, *args, shared=0):
        values, types = zip(*map(self._argument, args), strict=True) if args else ((), ())
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
        self._run(kernel, n_blocks, n_threads, shared, pointers, " ".join(types))

    def empty(self, shape, dtype):
        shape, dtype = (shape if isinstance(shape, tuple) else (shape,)), np.dtype(dtype)
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        buffer = np.full(n_bytes + 2 * GUARD, GARBAGE, dtype=np.uint8)
        with self._lock:
            self._buffers.append(weakref.ref(buffer))
        return buffer[GUARD : GUARD + n_bytes].view(dtype).reshape(shape).view(EmulatedArray)

    def zeros(self, shape, dtype):
        array = self.empty(shape, dtype)
        array.view(np.ndarray)[...] = 0
        return array

    def pinned(self, n_words):
        return np.full(n_words, -1, dtype=np.int64)

    def to_device(self, array):
        copy = self.empty(np.shape(array), np.asarray(array).dtype)
        copy.view(np.ndarray)[...] = array
        return copy

    def to_host(self, array):
        assert isinstance(array, EmulatedArray), "an array of the device"
        return np.array(array.view(np.ndarray), order="C")

    def adopted(self, array):
        assert isinstance(array, EmulatedArray), "an array of the device"
        return array

    def returned(self, array, like):
        assert isinstance(like, EmulatedArray), "an array of the device"
        assert isinstance(array, EmulatedArray), "an array of the device"
        return array

    def address(self, array):
        assert array is None or isinstance(array, EmulatedArray), "an array of the device"
        return 0 if array is None else array.ctypes.data

    def new_stream(self):
        with self._lock:
            stream = len(self.streams) + 1
            self.streams[stream] = 0
        return stream

    @contextmanager
    def on(self, stream):
        before, self._current.stream = self.stream(), stream
        self.streams[stream] += 1
        try:
            yield
        finally:
            self._current.stream = before

    def stream(self):
        return getattr(self._current, "stream", 0)

    def calls(self, kernels):
        def launch(kernel, n_blocks, _y, _z, n_threads, _by, _bz, shared, stream, args, _extra):
            self._check_stream(stream)
            self._launch_of_native(kernels[kernel - 1], n_blocks, n_threads, shared, args)

        def to_device(to, source, n_bytes, stream):
            self._check_stream(stream)
            self._check_inside(to, n_bytes)
            ctypes.memmove(to, source, n_bytes)

        def to_host(to, source, n_bytes, stream):
            self._check_stream(stream)
            self._check_inside(source, n_bytes)
            ctypes.memmove(to, source, n_bytes)

        def clear(to, byte, n_bytes, stream):
            self._check_stream(stream)
            self._check_inside(to, n_bytes)
            ctypes.memset(to, byte, n_bytes)

        functions = [
            LAUNCH(code(launch)),
            COPY(code(to_device)),
            COPY(code(to_host)),
            CLEAR(code(clear)),
            WAIT(lambda _: 0),
        ]
        self._functions.append(functions)
        return DriverCalls(*map(address_of, functions), list(range(1, len(kernels) + 1)))

    def _launch_of_native(self, kernel, n_blocks, n_threads, shared, args):
        """Native code gives no types of arguments. Their number, and where pointers point to, can be checked."""
        signature = getattr(library(), f"signature_of_{kernel}")
        signature.restype = ctypes.c_char_p
        types = signature().decode().split()
        n_args = next(i for i in range(100) if not args[i])
        if n_args != len(types):
            raise RuntimeError(f"{kernel} has {len(types)} arguments, not {n_args}")
        for i, kind in enumerate(types):
            address = ctypes.c_uint64.from_address(args[i]).value
            if kind[0] == "p" and address != 0:
                self._check_inside(address, 0)
        self._run(kernel, n_blocks, n_threads, shared, args, " ".join(types))

    def _run(self, kernel, n_blocks, n_threads, shared, pointers, types):
        function = getattr(library(), f"emulate_{kernel}")
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_uint, ctypes.c_uint, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p]
        error = function(n_blocks, n_threads, shared, pointers, types.encode())
        if error is not None:
            raise RuntimeError(f"{kernel}: {error.decode()}")
        self.launched.append(kernel)
        self._check_guards(kernel)

    def _check_stream(self, stream):
        if (stream or 0) != self.stream():
            raise RuntimeError(f"native code uses stream {stream}, but the current one is {self.stream()}")

    def _check_inside(self, address, n_bytes):
        for reference in list(self._buffers):
            buffer = reference()
            if buffer is None:
                continue
            first = buffer.ctypes.data + GUARD
            if first <= address and address + n_bytes <= first + buffer.size - 2 * GUARD:
                return
        raise RuntimeError(f"{n_bytes} bytes at {address:#x} are not those of an array of the device")

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
        with self._lock:
            live = [(reference, buffer) for reference in self._buffers if (buffer := reference()) is not None]
            self._buffers = [reference for reference, _ in live]
        for _, buffer in live:
            if not ((buffer[:GUARD] == GARBAGE).all() and (buffer[-GUARD:] == GARBAGE).all()):
                raise RuntimeError(f"{kernel}: a write before or after an array of {buffer.size - 2 * GUARD} bytes")
