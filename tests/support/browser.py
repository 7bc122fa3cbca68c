"""A browser for tests of HTML pages: the system's or Playwright's. Run as a program, it installs one if necessary."""

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Playwright, sync_playwright

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
HOW_TO_GET_ONE = "no browser found: run .venv/bin/playwright install chromium, or install the system package chromium"


def find(playwright: Playwright) -> str | None:
    """The path of a browser, or None."""
    own = playwright.chromium.executable_path
    return next(filter(None, map(shutil.which, NAMES)), own if Path(own).exists() else None)


if __name__ == "__main__":
    with sync_playwright() as playwright:
        found = find(playwright)
    if found is None and subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"]).returncode:
        print(f"{HOW_TO_GET_ONE}; until then, tests of HTML pages are skipped")
