"""The interface of a device that runs the kernels of `kernels/`: a GPU, or its emulation in tests."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import DTypeLike, NDArray

DeviceArray = Any
"""An array of a device: CuPy's on a GPU, NumPy's in the emulation. Only what both have is used: shape, dtype, strides,
slices and reshape."""


class Device(Protocol):
    """Memory and kernels of a device. Kernels run one after the other, in the order of their launches."""

    @property
    def n_processors(self) -> int:
        """Number of multiprocessors: fewer blocks leave some of them idle."""

    def launch(self, kernel: str, n_blocks: int, n_threads: int, *args: Any, shared: int = 0) -> None:
        """Start a kernel with blocks of n_threads threads and `shared` bytes of dynamic shared memory per block.

        Arguments are device arrays, integers, floats, and None for null pointers.
        """

    def empty(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """An uninitialised array."""

    def zeros(self, shape: int | tuple[int, ...], dtype: DTypeLike) -> DeviceArray:
        """An array of zeros."""

    def to_device(self, array: NDArray[Any]) -> DeviceArray:
        """A contiguous copy of a NumPy array on the device."""

    def to_host(self, array: DeviceArray) -> NDArray[Any]:
        """A copy of a device array as a NumPy array. Waits for the kernels before it."""


def blocks_for(device: Device, n: int, n_threads: int, per_processor: int = 8) -> int:
    """A number of blocks for a loop over n items: enough to occupy the device, and none without an item."""
    return max(1, min(-(-n // n_threads), per_processor * device.n_processors))
