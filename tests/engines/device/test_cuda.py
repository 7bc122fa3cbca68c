"""The device of CuPy, with a stand-in for CuPy: CI has no GPU."""

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from agbm._engines.device import cuda


class CudaRuntimeError(Exception):
    pass


class OutOfMemoryError(MemoryError):
    pass


class Memory:
    def __init__(self, array):
        self.address = array.ctypes.data

    def memset_async(self, value, n_bytes):
        ctypes.memset(self.address, value, n_bytes)

    def copy_from_host_async(self, address, n_bytes):
        ctypes.memmove(self.address, address, n_bytes)


class Array(np.ndarray):
    data = property(Memory)


def empty(shape, dtype):
    return np.empty(shape, dtype).view(Array)


class Kernel:
    max_dynamic_shared_size_bytes = 48 * 1024
    shared_size_bytes = 1000

    def __init__(self, name, launches):
        self.name, self.launches = name, launches

    @property
    def kernel(self):
        return self

    @property
    def ptr(self):
        return len(self.name)

    def __call__(self, grid, block, args, shared_mem):
        self.launches.append((self.name, grid, block, args, shared_mem, self.max_dynamic_shared_size_bytes))


class Stream:
    def __init__(self, cupy):
        self.cupy = cupy

    def __enter__(self):
        self.cupy.events.append("use")

    def __exit__(self, *_):
        self.cupy.events.append("leave")

    def synchronize(self):
        self.cupy.events.append("wait")


@pytest.fixture
def cupy(monkeypatch, tmp_path):
    """What cuda.py uses of CuPy."""
    launches = []

    def compiled(code, options, arch, name):
        assert "vector_kernels.hpp" in code
        assert "--fmad=false" in options
        assert not any("ftz" in option for option in options)
        stand_in.n_compiled += 1
        return f"{arch} {name}".encode(), None

    def module(path):
        assert Path(path).read_bytes() == b"90 agbm.cu"
        return SimpleNamespace(get_function=lambda name: Kernel(name, launches))

    def card():
        attributes = {"MultiProcessorCount": 132, "MaxSharedMemoryPerBlockOptin": 227_000}
        return SimpleNamespace(attributes=attributes, compute_capability=stand_in.capability, id=0, synchronize=wait)

    def wait():
        stand_in.events.append("wait for all")

    stand_in = SimpleNamespace(
        ndarray=Array, empty=empty, asnumpy=np.array, RawModule=module,
        launches=launches, capability="90", n_cards=lambda: 1, n_compiled=0,
    )  # fmt: skip
    stand_in.cuda = SimpleNamespace(
        Device=card,
        get_current_stream=lambda: SimpleNamespace(ptr=7),
        Stream=lambda non_blocking: Stream(stand_in),
        alloc_pinned_memory=bytearray,
        compiler=SimpleNamespace(compile_using_nvrtc=compiled),
        nvrtc=SimpleNamespace(getVersion=lambda: (12, 9)),
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=SimpleNamespace(CUDARuntimeError=CudaRuntimeError, getDeviceCount=lambda: stand_in.n_cards()),
    )
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cache"))
    return stand_in


def test_arguments_are_those_of_the_kernels(cupy):
    device, array = cuda.CudaDevice(), empty(3, float)
    assert device.n_processors == 132
    device.launch("agbm_mix", 7, 256, array, None, np.int32(5), True, np.float32(0.5), 2.0, shared=100)
    device.launch("agbm_mix", 7, 256, shared=100_000)
    first, second = cupy.launches
    assert first[:3] == ("agbm_mix", (7,), (256,))
    assert first[3][0] is array
    assert first[3][1:] == [0, 5, 1, 0.5, 2.0]
    assert [type(given) for given in first[3][1:]] == [int, int, int, float, float]
    assert first[4:] == (100, 48 * 1024)
    assert second[4:] == (100_000, 226_000)


def test_native_code_gets_addresses(cupy, monkeypatch):
    names = []

    class Driver:
        def __getattr__(self, name):
            names.append(name)
            return ctypes.CFUNCTYPE(ctypes.c_int)(len(names))  # a function at this address

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Driver())
    device = cuda.CudaDevice()
    calls = device.calls(["agbm_pack", "agbm_histograms"])
    assert names == list(cuda.DRIVER_CALLS)
    assert calls[:-1] == (1, 2, 3, 4, 5)
    assert calls.kernels == [len("agbm_pack"), len("agbm_histograms")]
    assert device.stream() == 7
    cupy.events = []
    with device.on(device.new_stream()):
        cupy.events.append("a kernel")
    assert cupy.events == ["wait for all", "use", "a kernel", "wait", "leave"]
    pinned = device.pinned(3)
    assert (pinned.shape, pinned.dtype) == ((3,), np.int64)
    memory = SimpleNamespace(data=SimpleNamespace(ptr=1000))
    assert (device.address(memory), device.address(None)) == (1000, 0)


def test_arrays_are_contiguous_copies(cupy):
    device, columns = cuda.CudaDevice(), np.arange(6.0).reshape(2, 3).T
    copy = device.to_device(columns)
    assert copy.flags.c_contiguous
    assert np.array_equal(device.to_host(copy), columns)
    assert device.empty((2, 3), np.int32).shape == (2, 3)
    assert np.array_equal(device.zeros((2, 3), np.int32), np.zeros((2, 3)))


class Foreign:
    """An array of another library."""

    def __init__(self, card=0):
        self.device = SimpleNamespace(id=card)


def test_arrays_of_other_libraries(cupy, monkeypatch):
    device = cuda.CudaDevice()
    cupy.from_dlpack = cupy.asarray = lambda array: array
    with_dlpack = Foreign()
    with_dlpack.__dlpack__ = with_dlpack.__dlpack_device__ = None
    for array in (Foreign(), with_dlpack):
        assert device.adopted(array) is array
    with pytest.raises(ValueError, match=r"on GPU 1, but agbm uses GPU 0.*cupy\.cuda\.Device"):
        device.adopted(Foreign(1))
    numbers = device.to_device(np.arange(3.0))
    assert isinstance(device.returned(numbers, Foreign()), Array), "an unknown library"
    standard = Foreign()
    standard.__array_namespace__ = lambda: SimpleNamespace(from_dlpack=lambda array: ("standard", array.tolist()))
    assert device.returned(numbers, standard) == ("standard", [0.0, 1.0, 2.0])
    torch = SimpleNamespace(Tensor=Foreign, from_dlpack=lambda array: ("torch", array.tolist()))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert device.returned(numbers, Foreign()) == ("torch", [0.0, 1.0, 2.0])


def test_kernels_are_compiled_once(cupy, monkeypatch, tmp_path):
    for _ in range(2):
        cuda.CudaDevice()
    assert cupy.n_compiled == 1
    monkeypatch.setattr(cupy.cuda.nvrtc, "getVersion", lambda: (13, 0))
    cuda.CudaDevice()
    assert cupy.n_compiled == 2
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_without_a_folder_for_compiled_kernels(cupy, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "file" / "cache"))
    cuda.CudaDevice()
    assert cupy.n_compiled == 1


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ImportError, match=r"pip install 'agbm\[cuda\]'"):
        cuda.CudaDevice()


def test_without_a_card(cupy):
    cupy.n_cards = lambda: 0
    with pytest.raises(RuntimeError, match=r"no NVIDIA GPU was found\. Use device="):
        cuda.CudaDevice()

    def no_driver():
        raise CudaRuntimeError("cudaErrorInsufficientDriver")

    cupy.n_cards = no_driver
    with pytest.raises(RuntimeError, match=r"no NVIDIA GPU or driver was found \(cudaErrorInsufficientDriver\)"):
        cuda.CudaDevice()


def test_an_old_card(cupy):
    cupy.capability = "61"
    with pytest.raises(RuntimeError, match=r"compute capability 7\.0 or later; the current one has 6\.1"):
        cuda.CudaDevice()


def test_too_little_memory(cupy):
    def full(*args):
        raise OutOfMemoryError("allocating 8 bytes")

    device = cuda.CudaDevice()
    cupy.empty = full
    for allocate in (lambda: device.empty(1, float), lambda: device.zeros(1, float), lambda: device.to_device([1.0])):
        with pytest.raises(MemoryError, match=r"memory of the GPU is full \(allocating 8 bytes\)"):
            allocate()
