"""The interface of a device that runs the kernels of `kernels/`: a GPU, or its emulation in tests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

DeviceArray = Any
"""An array of a device: CuPy's on a GPU, NumPy's in the emulation. Only what both have is used: shape, dtype, strides,
slices, indices of rows, reshape and astype."""

Argument: TypeAlias = "DeviceArray | float | None"
"""An argument of a kernel: an array, a number, or None for a null pointer."""


class DriverCalls(NamedTuple):
    """Addresses of the functions that native code calls; their signatures are those of CUDA's driver API."""

    launch: int
    """cuLaunchKernel. Native code ends the arguments of kernels with a null pointer, which the driver does not read."""
    copy_to_device: int
    """cuMemcpyHtoDAsync."""
    copy_to_host: int
    """cuMemcpyDtoHAsync."""
    clear: int
    """cuMemsetD8Async."""
    wait: int
    """cuStreamSynchronize."""
    kernels: list[int]
    """Kernels as `launch` takes them."""


class Device(Protocol):
    """Memory and kernels of a device.

    Kernels of a stream run one after the other, in the order of their launches, and those of several streams at the
    same time. Memory that is freed is for later arrays of its stream only.
    """

    @property
    def n_processors(self) -> int:
        """Number of multiprocessors: fewer blocks leave some of them idle."""

    def launch(self, kernel: str, n_blocks: int, n_threads: int, *args: Argument, shared: int = 0) -> None:
        """Start a kernel with blocks of n_threads threads and `shared` bytes of dynamic shared memory per block."""

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """An uninitialised array."""

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """An array of zeros."""

    def pinned(self, n_words: int) -> NDArray[np.int64]:
        """Memory of the host that can be copied to and from the device without waiting."""

    def to_device(self, array: NDArray[Any]) -> DeviceArray:
        """A contiguous copy of a NumPy array on the device."""

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        """A copy of a device array as a NumPy array. Waits for the kernels before it."""

    def adopted(self, array: object) -> DeviceArray:
        """An array of another library, which is on this device, as one of this device; its numbers are not copied."""

    def returned(self, array: DeviceArray, like: object) -> Any:
        """An array of this device as one of the library that `like` is an array of; its numbers are not copied."""

    def address(self, array: DeviceArray | None) -> int:
        """The address of the first number of an array, for native code; 0 for None."""

    def new_stream(self) -> Any:
        """A stream, after everything that was launched before is done."""

    def on(self, stream: Any) -> AbstractContextManager[None]:
        """Makes a stream the current one of this thread, and in the end waits until its kernels are done."""

    def stream(self) -> int:
        """The current stream of this thread, for native code."""

    def calls(self, kernels: Sequence[str]) -> DriverCalls:
        """The functions and kernels for native code; valid as long as the device exists."""


def blocks_for(device: Device, n: int, n_threads: int, per_processor: int = 8) -> int:
    """A number of blocks for a loop over n items: enough to occupy the device, but no block without an item."""
    return max(1, min(-(-n // n_threads), per_processor * device.n_processors))
