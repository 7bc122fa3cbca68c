"""A Python of the other architecture, run by QEMU's user mode: no root, no container, no settings of the system.

Its packages are those of Debian 12, which has Python 3.11, downloaded and unpacked into a folder by apt and dpkg.
The program `python` in the environment is a shell script that starts QEMU, so that processes that Python starts with
`sys.executable` are emulated as well.
"""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import zig

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
NEWEST_GLIBC = 36
"""Of Debian 12: 2.36."""
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SOURCE = f"deb [signed-by={KEYS}] http://deb.debian.org/debian bookworm main\n"
START = """#!/bin/sh
exec env {settings} {command} -0 "$0" {python} "$@"
"""
SETTINGS = {"x86_64": "NPY_DISABLE_CPU_FEATURES=X86_V3", "aarch64": ""}
"""What NumPy's argsort needs: its AVX2 instructions, as QEMU 7.2 emulates them, leave numbers unsorted."""


def missing(architecture: str) -> str | None:
    """What this machine lacks to run programs of an architecture and to get a Python of it; None if nothing."""
    if emulator(architecture) is None:
        return f"qemu-{architecture} (Debian and Ubuntu: apt-get install qemu-user-static)"
    if shutil.which("apt-get") is None or not KEYS.exists():
        return f"apt and {KEYS} (Ubuntu: apt-get install debian-archive-keyring)"
    return None


def emulator(architecture: str) -> list[str] | None:
    """The command that runs programs of an architecture, with all instructions that it can emulate; None without."""
    names = (f"qemu-{architecture}", f"qemu-{architecture}-static")
    found = next(filter(None, map(shutil.which, names)), None)
    return found and [found, "-cpu", "max"]


def unpack(architecture: str, root: Path) -> None:
    """Download Debian's Python with all that it depends on, and unpack it."""
    work = root.parent / "apt"
    shutil.rmtree(work, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial"):
        (work / name).mkdir(parents=True)
    (work / "status").touch()  # nothing is installed, so apt downloads the C library as well
    (work / "sources.list").write_text(SOURCE)
    settings = {
        "Dir::State::Lists": work / "lists",
        "Dir::Cache": work / "cache",
        "Dir::State::status": work / "status",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Architecture": DEBIAN[architecture],
        "APT::Architectures": DEBIAN[architecture],
        "Debug::NoLocking": "true",
        "APT::Sandbox::User": "",
    }
    apt = ["apt-get", "-qq", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    install = ["install", "-y", "--no-install-recommends", "--download-only", "python3", "libstdc++6"]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, *install], check=True, stdout=subprocess.DEVNULL)
    for package in sorted((work / "cache" / "archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    for path in root.rglob("*"):
        if path.is_symlink() and path.readlink().is_absolute():  # would lead to files of this machine
            target = root / path.readlink().relative_to("/")
            path.unlink()
            path.symlink_to(os.path.relpath(target, path.parent))
    shutil.rmtree(work)


def system(architecture: str) -> Path:
    """The folder with Debian's files, downloaded at its first use."""
    root = zig.BUILD / f"foreign-{architecture}" / "root"
    if not root.exists():
        unpack(architecture, root)
    return root


def command(architecture: str) -> list[str] | None:
    """The command that runs programs of an architecture; None if this machine lacks something."""
    if missing(architecture) is not None:
        return None
    return [*emulator(architecture), "-L", str(system(architecture))]


def environment(architecture: str) -> Path:
    """Create an empty environment; returns its interpreter."""
    folder = zig.BUILD / f"foreign-{architecture}" / "venv"
    python, real = folder / "bin" / "python", (system(architecture) / "usr" / "bin" / "python3").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    python.parent.mkdir(parents=True)
    start = {"settings": SETTINGS[architecture], "command": shlex.join(command(architecture))}
    python.write_text(START.format(**start, python=shlex.quote(str(real))))
    python.chmod(0o755)
    (folder / "pyvenv.cfg").write_text(f"home = {real.parent}\ninclude-system-site-packages = false\n")
    (folder / "lib" / real.name / "site-packages").mkdir(parents=True)
    return python


def install(python: Path, architecture: str, *requirements: str) -> None:
    """Install wheels from the registry. The pip of this machine does it: an emulated one is many times slower."""
    folder = python.parent.parent
    (packages,) = folder.glob("lib/python*/site-packages")
    version = packages.parent.name.removeprefix("python")
    tags = [f"manylinux_2_{minor}_{architecture}" for minor in range(NEWEST_GLIBC, 16, -1)]
    choice = [word for tag in (*tags, f"manylinux2014_{architecture}") for word in ("--platform", tag)]
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-compile",
        "--only-binary=:all:",
        "--target",
        str(packages),
    ]
    subprocess.run([*pip, *choice, "--python-version", version, *requirements], check=True)
    for script in (packages / "bin").iterdir():
        code = script.read_text().split("\n", 1)[1]  # the first line names the interpreter that has run pip
        (python.parent / script.name).write_text(f"#!{python}\n{code}")
        (python.parent / script.name).chmod(0o755)
