"""The emulation of kernels itself, and whether kernels compile for GPUs."""

import ctypes
import ctypes.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agbm._engines.device import cuda
from emulated_device import CLEAR, KERNELS, LAUNCH, EmulatedDevice


@pytest.fixture
def device():
    return EmulatedDevice()


@pytest.mark.parametrize(("n", "n_threads"), [(1, 32), (500, 96), (1000, 256), (1025, 1024), (70, 70)])
def test_threads_wait_for_each_other(device, n, n_threads):
    x = np.random.default_rng(n).integers(-100, 100, size=n)
    out = device.empty(n, np.int64)
    device.launch("test_block_scan", -(-n // n_threads), n_threads, device.to_device(x), out, n)
    expected = [np.cumsum(x[first : first + n_threads]) for first in range(0, n, n_threads)]
    assert np.array_equal(device.to_host(out), np.concatenate(expected))


def test_threads_of_a_warp_exchange_numbers(device):
    x = np.random.default_rng(0).permutation(96) - 40.0
    out = device.empty((3, 8), np.int64)
    device.launch("test_warps", 1, 96, device.to_device(x), out)
    warps = x.reshape(3, 32)
    expected = [
        [of.max(), (of > 0).sum(), (of == 7).any(), 1, of[3], of[31], (x > 0).sum(), (x == 7).any()] for of in warps
    ]
    assert np.array_equal(device.to_host(out), expected)


@pytest.mark.parametrize("n_blocks", [1, 3])
def test_shared_memory_and_atomics(device, n_blocks):
    x = np.random.default_rng(1).integers(0, 50, size=3000, dtype=np.int32)
    out = device.zeros(50, np.uint64)
    device.launch("test_histogram", n_blocks, 64, device.to_device(x), len(x), out, 50, shared=200)
    assert np.array_equal(device.to_host(out), np.bincount(x, minlength=50))


def test_missing_barriers_change_results(device):
    x = np.arange(64.0)
    found = {}
    for barrier in (0, 1):
        out = device.empty(64, np.float64)
        device.launch("test_neighbours", 1, 64, device.to_device(x), out, barrier)
        found[barrier] = device.to_host(out)
    assert np.array_equal(found[1], np.roll(x, -32))
    assert not np.array_equal(found[0], found[1])


def test_wrong_kernels_raise_errors(device):
    with pytest.raises(RuntimeError, match="never arrive"):
        device.launch("test_barrier_for_some", 1, 64, 10)
    device.launch("test_barrier_for_some", 1, 64, 0)
    array, before, after = device.empty(10, np.float64), -1, 10
    device.launch("test_write", 1, 1, array, 9)
    for place in (before, after):
        with pytest.raises(RuntimeError, match="before or after an array of 80 bytes"):
            device.launch("test_write", 1, 1, device.zeros(10, np.float64), place)
    device.launch("test_shared_write", 1, 1, 99, shared=100)
    with pytest.raises(RuntimeError, match="shared memory"):
        device.launch("test_shared_write", 1, 1, 100, shared=100)


def test_wrong_calls_raise_errors(device):
    array = device.empty(10, np.float64)
    assert np.isnan(device.to_host(array)).all()
    with pytest.raises(RuntimeError, match="2 arguments, not 1"):
        device.launch("test_write", 1, 1, array)
    with pytest.raises(RuntimeError, match="argument 0 must be pf8, not pi8"):
        device.launch("test_write", 1, 1, device.empty(10, np.int64), 1)
    with pytest.raises(RuntimeError, match="argument 1 must be i8, not f8"):
        device.launch("test_write", 1, 1, array, 1.0)
    with pytest.raises(TypeError, match="ndarray"):
        device.launch("test_write", 1, 1, np.zeros(10), 1)
    for of_numpy in (lambda: array + array, lambda: np.concatenate([array, array]), lambda: np.exp(array)):
        with pytest.raises(TypeError):
            of_numpy()


def test_wrong_calls_of_native_code_are_errors(device, capfd):
    array, values = device.zeros(10, np.float64), [ctypes.c_void_p(0), ctypes.c_longlong(9), ctypes.c_longlong(0)]
    calls = device.calls(["test_write"])
    launch, clear = LAUNCH(calls.launch), CLEAR(calls.clear)

    def launched(address, n_args):
        values[0].value = address
        args = (ctypes.c_void_p * 4)(*[ctypes.addressof(value) for value in values[:n_args]])
        return launch(calls.kernels[0], 1, 1, 1, 1, 1, 1, 0, None, args, None)

    assert launched(device.address(array), 2) == 0
    assert device.to_host(array)[9] == 1.0
    assert device.launched == ["test_write"]
    for n_args in (1, 3):
        assert launched(device.address(array), n_args) != 0
        assert f"test_write has 2 arguments, not {n_args}" in capfd.readouterr().err
    for address in (8, device.address(array) - 8):
        assert launched(address, 2) != 0
        assert "are not those of an array of the device" in capfd.readouterr().err
    assert clear(device.address(array), 0, 80, None) == 0
    assert not device.to_host(array).any()
    assert clear(device.address(array), 0, 81, None) != 0


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_kernels_compile_for_gpus(tmp_path):
    command = ["nvcc", *cuda.COMPILER_OPTIONS, "-Werror", "all-warnings", "-arch=sm_90", "-cubin"]
    subprocess.run([*command, KERNELS / "cuda" / "agbm.cu", "-o", tmp_path / "agbm.cubin"], check=True)


def nvrtc():
    """The compiler that CuPy uses, if NVIDIA's package for it is installed or the system has it."""
    installed = [path for folder in map(Path, sys.path) for path in folder.glob("nvidia/*/lib/libnvrtc.so.*")]
    found = ctypes.util.find_library("nvrtc") or (str(installed[0]) if installed else None)
    return None if found is None else ctypes.CDLL(found)


@pytest.mark.skipif(nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("architecture", ["compute_75", "sm_90"])
def test_kernels_compile_at_run_time(architecture):
    # CuPy adds the last two options.
    compiler, program, size = nvrtc(), ctypes.c_void_p(), ctypes.c_size_t()
    options = [option.encode() for option in (*cuda.COMPILER_OPTIONS, "-default-device", f"-arch={architecture}")]
    assert compiler.nvrtcCreateProgram(ctypes.byref(program), cuda.source().encode(), b"agbm.cu", 0, None, None) == 0
    failed = compiler.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
    compiler.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    compiler.nvrtcGetProgramLog(program, log)
    assert (failed, log.value.decode()) == (0, "")


def test_the_source_changes_with_its_headers(tmp_path, monkeypatch):
    """CuPy would otherwise use kernels that an earlier version has compiled."""
    shutil.copytree(KERNELS, tmp_path / "kernels")
    monkeypatch.setattr(cuda, "KERNELS", tmp_path / "kernels")
    before = cuda.source()
    assert before == cuda.source()
    with (tmp_path / "kernels" / "formulas" / "portable.hpp").open("a") as header:
        header.write("// changed\n")
    assert cuda.source() != before
