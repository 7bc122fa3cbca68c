"""Zig as a cross-compiler: Clang with the C and C++ libraries of every platform, from the package `ziglang`.

The C++ library is linked statically, and for Linux the target names the oldest glibc that the result runs with. The
same program therefore builds for all platforms, on any machine, without containers and system packages.
"""

import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "release"
ARCHITECTURES = ("x86_64", "aarch64")
ZIG = [sys.executable, "-I", "-m", "ziglang"]
"""Isolated (-I), because pip hides the packages of this interpreter from what builds a wheel."""
GLIBC = (2, 28)
"""The oldest glibc that wheels work with; Debian 10, Ubuntu 20.04 and RHEL 8 have it."""
OPTIONS = ["-std=c++20", "-O3", "-ffp-contract=off", "-Wall", "-Wextra"]
INCLUDES = [f"-I{ROOT / 'native'}", f"-I{ROOT / 'src' / 'agbm' / '_kernels'}"]


def linux(architecture: str) -> str:
    """The name of the target that wheels for Linux are built for."""
    return f"{architecture}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"


def compiler(target: str) -> list[str]:
    """The command of the C++ compiler; symbols are stripped when it links."""
    return [*ZIG, "c++", "-target", target, "-s"]


def build_program(source: Path, target: str, program: Path) -> None:
    """Compile and link one source file, which may include the kernels; warnings are errors."""
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [*compiler(target), *OPTIONS, "-Werror", *INCLUDES, str(source), "-o", str(program)]
    subprocess.run(command, check=True)


def scripts(target: str) -> Path:
    """A folder with the commands `c++` and `ar`, because CMake takes a path and no arguments."""
    folder = BUILD / "zig" / target
    folder.mkdir(parents=True, exist_ok=True)
    for name, command in {"c++": compiler(target), "ar": [*ZIG, "ar"]}.items():
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        script.chmod(0o755)
    return folder
