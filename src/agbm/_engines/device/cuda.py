"""An NVIDIA GPU as a device, used through CuPy. No other module imports CuPy, and this one only when a GPU is used."""

from __future__ import annotations

import atexit
import ctypes
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..._base.atomic_file import check_can_replace, replacing
from ..._kernels import KERNELS
from .device import Argument, DeviceArray, DriverCalls

LEAST_CAPABILITY = 70
"""Compute capability 7.0 (Volta): the threads of a warp of older cards cannot wait for each other."""

USUAL_SHARED = 48 * 1024
"""Bytes of shared memory per block that need no request."""

DRIVER = "nvcuda.dll" if os.name == "nt" else "libcuda.so.1"
DRIVER_CALLS = (
    "cuLaunchKernel", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuStreamSynchronize",
)  # fmt: skip
"""The functions of DriverCalls. The versions with which CUDA's headers replace older ones have a suffix."""

COMPILER_OPTIONS = ("-std=c++17", "--fmad=false", f"-I{KERNELS}")
"""Without fused multiply-adds, which round once where the CPU rounds twice."""


def source() -> str:
    """The source of all kernels, with a digest of its headers, which is part of the key of compiled kernels."""
    digest = hashlib.sha256()
    for header in sorted(KERNELS.glob("*/*.hpp")):
        digest.update(header.read_bytes())
    return f"// headers: {digest.hexdigest()}\n" + (KERNELS / "cuda" / "agbm.cu").read_text()


class CudaDevice:
    """CuPy's current GPU; see Device. Kernels run on CuPy's current stream."""

    def __init__(self) -> None:
        self._cupy = cupy = _import_cupy()
        _check_card(cupy)
        self._number = int(cupy.cuda.Device().id)
        self.n_processors = int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        self._module = cupy.RawModule(path=str(_compiled(cupy)))
        self._functions: dict[tuple[str, bool], Any] = {}
        self._plain = {cupy.ndarray, int, float}
        self._full = cupy.cuda.memory.OutOfMemoryError

    def launch(self, kernel: str, n_blocks: int, n_threads: int, *args: Argument, shared: int = 0) -> None:
        function = self._function(kernel, shared > USUAL_SHARED)
        plain = self._plain
        given = [a if type(a) in plain else _plain_number(a) for a in args]
        function((n_blocks,), (n_threads,), given, shared_mem=shared)

    def _function(self, kernel: str, large: bool) -> Any:
        """A kernel; `large`: one that may have more shared memory than usual, which must be requested."""
        known = self._functions.get((kernel, large))
        if known is not None:
            return known
        found = self._module.get_function(kernel)
        if large:
            most = int(self._cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])
            found.max_dynamic_shared_size_bytes = most - int(found.shared_size_bytes)
        self._functions[kernel, large] = found.kernel  # without the checks of CuPy, which take longer than a launch
        return found.kernel

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        try:
            return self._cupy.empty(shape, dtype)
        except self._full as error:
            raise _memory_error(error) from error

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        out = self.empty(shape, dtype)
        out.data.memset_async(0, out.nbytes)
        return out

    def pinned(self, n_words: int) -> NDArray[np.int64]:
        memory = self._cupy.cuda.alloc_pinned_memory(n_words * 8)
        return np.frombuffer(memory, np.int64, n_words)

    def to_device(self, array: NDArray[Any]) -> DeviceArray:
        array = np.ascontiguousarray(array)
        out = self.empty(array.shape, array.dtype)
        if array.nbytes > 0:
            out.data.copy_from_host_async(array.ctypes.data, array.nbytes)  # returns when the array may change
        return out

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        return cast(NDArray[Any], self._cupy.asnumpy(array))

    def adopted(self, array: object) -> DeviceArray:
        found = self._cupy.from_dlpack(array) if hasattr(array, "__dlpack__") else self._cupy.asarray(array)
        if found.device.id != self._number:
            raise ValueError(
                f"an array is on GPU {found.device.id}, but agbm uses GPU {self._number}, which was CuPy's current one "
                'when device="cuda" was first used. Copy the array, or start with cupy.cuda.Device(...).use().'
            )
        return found

    def returned(self, array: DeviceArray, like: object) -> Any:
        """The array as one of the library of `like`; for libraries without DLPack, it stays one of CuPy."""
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(like, torch.Tensor):
            return torch.from_dlpack(array)
        namespace = getattr(like, "__array_namespace__", None)
        return array if namespace is None else namespace().from_dlpack(array)

    def address(self, array: DeviceArray | None) -> int:
        return 0 if array is None else int(array.data.ptr)

    def new_stream(self) -> Any:
        self._cupy.cuda.Device().synchronize()
        return self._cupy.cuda.Stream(non_blocking=True)

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        with stream:
            yield
            stream.synchronize()

    def stream(self) -> int:
        return int(self._cupy.cuda.get_current_stream().ptr)

    def calls(self, kernels: Sequence[str]) -> DriverCalls:
        driver = ctypes.CDLL(DRIVER)  # which CuPy has loaded, so it stays in memory
        launch, to_device, to_host, clear, wait = (
            int(ctypes.cast(getattr(driver, name), ctypes.c_void_p).value or 0) for name in DRIVER_CALLS
        )
        handles = [int(self._function(kernel, large=True).ptr) for kernel in kernels]
        return DriverCalls(launch, to_device, to_host, clear, wait, handles)


def _plain_number(given: float | np.floating[Any] | np.integer[Any] | None) -> float:
    """The argument as a plain number: CuPy would pass NumPy's in their own width, and cannot pass null pointers."""
    if given is None:
        return 0
    return float(given) if isinstance(given, float | np.floating) else int(given)


def _memory_error(error: Exception) -> MemoryError:
    return MemoryError(
        f'device="cuda": the memory of the GPU is full ({error}). Use fewer rows or columns, or device="cpu".'
    )


@cache
def cuda_device() -> CudaDevice:
    """CuPy's current GPU, with its compiled kernels; raises ImportError or RuntimeError that names what is missing."""
    return CudaDevice()


def _compiled(cupy: ModuleType) -> Path:
    """A file with the compiled kernels, next to those that CuPy caches.

    CuPy's cache itself would compile with -ftz=true: float32 numbers below 1e-38 would count as zero in comparisons.
    """
    capability, version = cupy.cuda.Device().compute_capability, cupy.cuda.nvrtc.getVersion()
    code = source()
    key = hashlib.sha256(repr((code, COMPILER_OPTIONS, capability, version)).encode()).hexdigest()
    folder = Path(os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache")
    if (folder / f"agbm-{key}").exists():
        return folder / f"agbm-{key}"
    compiled, _ = cupy.cuda.compiler.compile_using_nvrtc(code, COMPILER_OPTIONS, capability, "agbm.cu")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        check_can_replace(folder / f"agbm-{key}")
    except OSError:  # a read-only home: this process compiles for itself
        folder = Path(mkdtemp())
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with replacing(folder / f"agbm-{key}") as fresh:
        fresh.write_bytes(compiled.encode() if isinstance(compiled, str) else compiled)
    return folder / f"agbm-{key}"


def _import_cupy() -> Any:
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            f"device=\"cuda\" needs CuPy, which cannot be imported ({error}): pip install 'agbm[cuda]'."
        ) from error
    return cupy


def _check_card(cupy: ModuleType) -> None:
    try:
        n_cards = int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise RuntimeError(f'device="cuda": no NVIDIA GPU or driver was found ({error}). Use device="cpu".') from error
    if n_cards == 0:
        raise RuntimeError('device="cuda": no NVIDIA GPU was found. Use device="cpu".')
    capability = int(cupy.cuda.Device().compute_capability)
    if capability < LEAST_CAPABILITY:
        raise RuntimeError(
            f'device="cuda" needs a GPU of compute capability {LEAST_CAPABILITY / 10} or later; the current one has '
            f"{capability / 10}. Choose another one with the environment variable CUDA_VISIBLE_DEVICES, or use "
            'device="cpu".'
        )
