"""A Chromium for the tests of pages. Run as a program (`make browser`), it fetches one where there is none.

In this order: a browser of the system; Playwright's own; the packages of Debian, unpacked below `build/venv` without
being installed, for machines that reach a mirror of Debian but not Playwright's server.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from playwright.sync_api import Browser, Error, Playwright, sync_playwright

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
UNPACKED = Path(sys.prefix) / "chromium"
HOW_TO_GET_ONE = (
    "no Chromium that starts: run `make browser`, or as root `apt-get install chromium`"
    " or `build/venv/bin/playwright install --with-deps chromium`"
)
# Libraries from the packages come before those of the system; fonts from the packages serve where the system has none.
START = """#!/bin/sh
export LD_LIBRARY_PATH={libraries}
[ -d /etc/fonts ] || export FONTCONFIG_SYSROOT={root}
exec {root}/usr/lib/chromium/chromium "$@"
"""


def candidates(playwright: Playwright) -> Iterator[str]:
    """Paths of browsers that exist."""
    yield from filter(None, map(shutil.which, NAMES))
    yield from (str(path) for path in (Path(playwright.chromium.executable_path), UNPACKED / "start") if path.exists())


def launch(playwright: Playwright) -> Browser | None:
    """The first one that starts."""
    for path in candidates(playwright):
        try:
            return playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            print(f"{path} does not start: {error}", file=sys.stderr)
    return None


def starts() -> bool:
    """Whether there is one."""
    with sync_playwright() as playwright:
        browser = launch(playwright)
        if browser is not None:
            browser.close()
        return browser is not None


def succeeds(*command: str) -> bool:
    """Whether a command exists and ends without an error; its output is dropped."""
    return shutil.which(command[0]) is not None and not subprocess.run(command, capture_output=True).returncode


def unpack_debian() -> bool:
    """Download Chromium and what it needs and the system has not, with apt's settings but in a folder of its own."""
    shutil.rmtree(UNPACKED, ignore_errors=True)
    for name in ("lists/partial", "cache/archives/partial"):
        (UNPACKED / name).mkdir(parents=True)
    apt = ["apt-get", "-qq", "-o", f"Dir::State::Lists={UNPACKED / 'lists'}", "-o", f"Dir::Cache={UNPACKED / 'cache'}"]
    apt += ["-o", "Debug::NoLocking=true", "-o", "APT::Sandbox::User="]  # which root alone could set
    install = ["install", "-y", "--no-install-recommends", "--download-only", "chromium"]
    if not (succeeds(*apt, "update") and succeeds(*apt, *install)):
        return False
    root = UNPACKED / "root"
    for package in (UNPACKED / "cache" / "archives").glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    libraries = sorted({str(path.parent) for path in root.rglob("*.so*") if path.parent.name != "chromium"})
    start = UNPACKED / "start"
    start.write_text(START.format(root=quote(str(root)), libraries=quote(":".join(libraries))))
    start.chmod(0o755)
    for name in ("lists", "cache"):
        shutil.rmtree(UNPACKED / name)
    return True


def fetch() -> bool:
    """Whether one could be fetched that starts."""
    print("No Chromium found: downloading Playwright's (about 200 MB)", flush=True)
    if succeeds(sys.executable, "-m", "playwright", "install", "chromium") and starts():
        return True
    print("Playwright's cannot be downloaded or started: downloading Debian's packages (about 110 MB)", flush=True)
    return unpack_debian() and starts()


if __name__ == "__main__" and not starts() and not fetch():
    print(f"Tests of pages will be skipped, {HOW_TO_GET_ONE}")
