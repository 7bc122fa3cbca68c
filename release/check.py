"""A rehearsal of a release: all checks in one go, and a table of what was done, what was skipped and why.

    python release/check.py                     all steps                                    (make release-check)
    python release/check.py source wheels       some of them, in this order                  (make wheel, ...)

Options name what this machine has besides: further interpreters (`--python`, any number), one without a global lock
(`--free-threaded`), and the tag that is about to be released (`--tag v1.2.3`), which the version must then match.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

import foreign
import platforms
import wheels
import zig

ROOT, DIST = zig.ROOT, zig.ROOT / "dist"
MOST_BYTES = 2_000_000
HERE = platform.machine()
(OTHER,) = set(zig.ARCHITECTURES) - {HERE}
NATIVE_TESTS = ROOT / "tests" / "native"


class SkippedError(Exception):
    """A step that this machine cannot do; the reason is the message."""


def run(*command: object, **settings: object) -> str:
    """What a command prints, without which no step succeeds. Its errors are shown as they come."""
    words = [str(word) for word in command]
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **settings).stdout.strip()


def source() -> Path:
    """The source distribution."""
    found = list(DIST.glob("*.tar.gz"))
    if len(found) != 1:
        raise SystemExit("dist must have one source distribution: run the step `source` first")
    return found[0]


def built(architecture: str) -> list[Path]:
    """The wheels of an architecture."""
    return sorted(DIST.glob(f"*_{architecture}.whl"))


def wheel_for(version: tuple[int, int], architecture: str) -> Path:
    """The wheel that pip would choose for a version of Python."""
    tag = "cp311-cp311" if version < (3, 12) else "cp312-abi3"
    found = [wheel for wheel in built(architecture) if tag in wheel.name]
    if not found:
        raise SkippedError(f"no wheel {tag} for {architecture}: no interpreter here builds it")
    return found[0]


def empty_environment(python: str, folder: str) -> Path:
    """An environment with pip and nothing else; returns its interpreter."""
    run(python, "-m", "venv", folder)
    return Path(folder) / "bin" / "python"


def try_out(python: Path, *arguments: object) -> str:
    """Run a program in a folder where nothing of the checkout can help it."""
    with tempfile.TemporaryDirectory() as folder:
        return run(python, "-I", *arguments, cwd=folder)


def run_tests(python: Path, variable: str, *arguments: str) -> str:
    """Run tests of the checkout, listed in a variable of the Makefile, with an installed wheel; the last line."""
    tests = os.environ.get(variable, "").split()
    if not tests:
        raise SystemExit(f"{variable} is empty: start this step with make")
    options = ["-p", "no:cacheprovider", *tests, *arguments]
    return run(python, "-m", "pytest", *options, cwd=ROOT).splitlines()[-1]


def check_version(options: argparse.Namespace) -> str:
    """The version is the same everywhere, and the changelog has it."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    if cited is None or cited[1] != version:
        raise SystemExit(f"CITATION.cff must have the version {version}")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    dated = re.search(rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE)
    if options.tag is not None and (options.tag != f"v{version}" or dated is None):
        raise SystemExit(f"{options.tag}: the version is {version}, and CHANGELOG.md needs '## [{version}] - date'")
    return f"{version} everywhere; " + (dated[0] if dated else "the changelog has no date yet, which a tag requires")


def build_documentation(options: argparse.Namespace) -> str:
    """The site builds without warnings."""
    run("make", "-s", "docs", cwd=ROOT)
    return "no warnings"


def build_source(options: argparse.Namespace) -> str:
    """The source distribution is made from the checkout."""
    shutil.rmtree(DIST, ignore_errors=True)
    run(sys.executable, "-m", "build", "--sdist", "--outdir", DIST, ROOT)
    return f"{source().name}, {source().stat().st_size / 1e6:.2f} MB"


def build_wheels(architecture: str, options: argparse.Namespace) -> str:
    """One wheel for Python 3.11 and one with the stable ABI, if there are interpreters to build them with."""
    described = []
    for tag, choose in {"cp311": lambda v: v == (3, 11), "abi3": lambda v: v >= (3, 12)}.items():
        python = next((python for python in options.python if choose(wheels.version_of(python))), None)
        if python is None:
            described.append(f"{tag} not built (no interpreter)")
            continue
        wheel = wheels.build(source(), python, architecture, DIST)
        described.append(f"{wheel.name.split('-', 2)[2]} {wheel.stat().st_size / 1e6:.2f} MB")
    return "; ".join(described)


def check_files(options: argparse.Namespace) -> str:
    """Sizes, metadata and contents are fit for the registry."""
    files = [*DIST.glob("*.whl"), source()]
    for file in files:
        if file.stat().st_size > MOST_BYTES:
            raise SystemExit(f"{file.name} has more than {MOST_BYTES:,} bytes")
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    run(sys.executable, "-m", "check_wheel_contents", *DIST.glob("*.whl"))
    return f"{len(files)} files below {MOST_BYTES / 1e6:.0f} MB; twine, check-wheel-contents: no complaints"


def install_wheels(options: argparse.Namespace) -> str:
    """The wheels work in empty environments of all interpreters and fit the same bits in all of them."""
    tried, bits = [], set()
    for python in options.python:
        with tempfile.TemporaryDirectory() as folder:
            inside = empty_environment(python, folder)
            version = wheels.version_of(python)
            run(inside, "-m", "pip", "install", "-q", wheel_for(version, HERE))
            try_out(inside, ROOT / "tests" / "smoke.py")
            bits.add(run(inside, NATIVE_TESTS / "bits.py", "here"))
        tried.append(".".join(map(str, version)))
    if len(bits) > 1:
        raise SystemExit(f"other bits with other versions of Python ({', '.join(tried)}):\n" + "\n\n".join(bits))
    return f"smoke test passed with Python {', '.join(tried)}; {len(bits.pop().splitlines())} models with the same bits"


def install_source(options: argparse.Namespace) -> str:
    """The source distribution builds in an empty environment, with the compiler of this machine, and works."""
    with tempfile.TemporaryDirectory() as folder:
        inside = empty_environment(options.python[0], folder)
        environment = {name: value for name, value in os.environ.items() if name not in ("CXX", "CMAKE_ARGS")}
        run(inside, "-m", "pip", "install", "-q", "--no-cache-dir", source(), env=environment)
        try_out(inside, ROOT / "tests" / "smoke.py")
    return "built and smoke-tested in an empty environment"


def emulate(options: argparse.Namespace) -> str:
    """The wheel of the other architecture works with QEMU and gives the bits of this machine."""
    if (missing := foreign.missing(OTHER)) is not None:
        raise SkippedError(f"needs {missing}")
    python = foreign.environment(OTHER)
    version = wheels.version_of(str(python))
    foreign.install(python, OTHER, str(wheel_for(version, OTHER)), "pytest", "hypothesis")
    try_out(python, ROOT / "tests" / "smoke.py")
    n_models = compare_bits(python)
    said = run_tests(python, "EMULATED_TESTS", "-m", "not slow")
    return f"{OTHER}, Python {version[0]}.{version[1]}: {n_models} models with the bits of {HERE}; kernel tests: {said}"


def compare_bits(python: Path) -> int:
    """Fit the same models with an emulated interpreter and with one of this machine; returns their number."""
    settings = {"AGBM_BITS_ROWS": "2000"} | os.environ
    found = run(python, NATIVE_TESTS / "bits.py", "here", env=settings)
    with tempfile.TemporaryDirectory() as folder:
        inside = empty_environment(sys.executable, folder)
        # Of the same versions, because random numbers come from NumPy.
        others = run(sys.executable, "-m", "pip", "--python", python, "freeze", "--exclude", "agbm").splitlines()
        run(inside, "-m", "pip", "install", "-q", wheel_for(wheels.version_of(sys.executable), HERE), *others)
        expected = run(inside, NATIVE_TESTS / "bits.py", "here", env=settings)
    if found != expected:
        raise SystemExit(f"{OTHER} has other bits than {HERE}:\n{found}\n{expected}")
    return len(found.splitlines())


def cross_compile(options: argparse.Namespace) -> str:
    """The kernels compile for all platforms and give the same bits where they run."""
    return "; ".join(platforms.compare())


def without_lock(options: argparse.Namespace) -> str:
    """The package works without a global lock and does not enable one."""
    if options.free_threaded is None:
        raise SkippedError("needs a free-threaded interpreter: --free-threaded python3.14t")
    with tempfile.TemporaryDirectory() as folder:
        inside = empty_environment(options.free_threaded, folder)
        run(inside, "-m", "pip", "install", "-q", source(), "pytest", "hypothesis", "--prefer-binary")
        try_out(inside, ROOT / "tests" / "smoke.py")
        try_out(inside, "-c", "import agbm, sys; assert not sys._is_gil_enabled(), 'a global lock'")
        said = run_tests(inside, "THREAD_TESTS")
    return f"{run(options.free_threaded, '--version')}, no global lock: smoke test; tests of threads: {said}"


STEPS: dict[str, Callable[[argparse.Namespace], str]] = {
    "version": check_version,
    "documentation": build_documentation,
    "source": build_source,
    "wheels": lambda options: build_wheels(HERE, options),
    "cross-wheels": lambda options: build_wheels(OTHER, options),
    "files": check_files,
    "install": install_wheels,
    "install-source": install_source,
    "emulate": emulate,
    "platforms": cross_compile,
    "free-threaded": without_lock,
}


def perform(name: str, options: argparse.Namespace) -> tuple[str, str]:
    """Do one step; returns how it ended, and a line about it."""
    print(f"-- {name}", flush=True)
    try:
        return "done", STEPS[name](options)
    except SkippedError as reason:
        return "skipped", str(reason)
    except subprocess.CalledProcessError as error:
        return "FAILED", f"{' '.join(map(str, error.cmd[:6]))} ... exit status {error.returncode}\n{error.stdout or ''}"
    except SystemExit as error:
        return "FAILED", str(error)


def main() -> None:
    """Perform the steps and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("steps", nargs="*", help=f"of {', '.join(STEPS)}; none: all")
    parser.add_argument("--python", action="append", default=[], help="an interpreter besides that of the environment")
    parser.add_argument("--free-threaded", help="an interpreter without a global lock")
    parser.add_argument("--tag")
    options = parser.parse_args()
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    options.python = [sys.executable, *options.python]
    results = {name: perform(name, options) for name in options.steps or STEPS}
    print()
    for name, (end, line) in results.items():
        print(f"{name:15} {end:8} {line}")
    (ROOT / "build" / "release" / "check.json").write_text(json.dumps(results, indent=2))
    if any(end == "FAILED" for end, _ in results.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
