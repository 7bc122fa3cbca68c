"""A browser to look at pages with: the system's, or Playwright's own. Run as a program, it fetches one if need be."""

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Playwright, sync_playwright

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]
HOW_TO_GET_ONE = "no browser here: run .venv/bin/playwright install chromium, or install the system's package chromium"


def find(playwright: Playwright) -> str | None:
    """Where it is."""
    own = playwright.chromium.executable_path
    return next(filter(None, map(shutil.which, NAMES)), own if Path(own).exists() else None)


if __name__ == "__main__":
    with sync_playwright() as playwright:
        found = find(playwright)
    if found is None and subprocess.run([sys.executable, "-m", "playwright", "install", "chromium"]).returncode:
        print(f"{HOW_TO_GET_ONE}; until then tests of pages are skipped")
