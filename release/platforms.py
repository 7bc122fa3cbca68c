"""Compiles the kernels for every platform, runs them where that is possible, and compares the bits of their results.

    python release/platforms.py                                   (make test-cross)

The program is tests/native/kernel_digests.cpp: binning, losses, tree growth and prediction, without Python.
"""

import os
import platform
import shutil
import subprocess

import foreign
import zig

SOURCE = zig.ROOT / "tests" / "native" / "kernel_digests.cpp"
OTHERS = ("x86_64-windows-gnu", "aarch64-windows-gnu", "x86_64-macos", "aarch64-macos")
TARGETS = (*map(zig.linux, zig.ARCHITECTURES), *OTHERS)
# Limits of the instructions that kernels use on x86-64 (native/base/simd.hpp); elsewhere they have no effect.
INSTRUCTIONS = ("plain", "avx2", "all")


def runner(target: str) -> list[str] | None:
    """The command that runs programs of a target on this machine; None if there is none."""
    architecture, system = target.split("-")[:2]
    here = platform.machine()
    if system == "linux":
        return [] if architecture == here else foreign.command(architecture)
    if system == "windows" and architecture == here and (wine := shutil.which("wine64") or shutil.which("wine")):
        return [wine]
    return None


def digests(target: str) -> dict[str, str]:
    """What the program prints, by the instructions that it has used; empty if it cannot be run here."""
    program = zig.BUILD / "kernels" / target / "kernel_digests.exe"
    zig.build_program(SOURCE, target, program)
    command = runner(target)
    found = {}
    for limit in () if command is None else INSTRUCTIONS:
        environment = os.environ | {"AGBM_INSTRUCTIONS": limit, "WINEDEBUG": "-all"}
        ran = subprocess.run([*command, program], env=environment, check=True, capture_output=True, text=True)
        found[ran.stderr.splitlines()[-1]] = ran.stdout  # Wine may have said something before
    return found


def compare() -> list[str]:
    """Compile and compare; returns a line per target, and raises where bits differ."""
    lines, expected = [], None
    for target in TARGETS:
        ran = digests(target)
        for instructions, found in ran.items():
            expected = expected or found
            if found != expected:
                raise SystemExit(f"{target}, {instructions}: other bits\n{expected}\n{found}")
        lines.append(f"{target}: compiled and linked, " + (f"same bits ({', '.join(ran)})" if ran else "not run here"))
        print(lines[-1], flush=True)
    if expected is None:
        raise SystemExit("no target could be run")
    return lines


if __name__ == "__main__":
    compare()
