"""What the tests of pages share."""

import pytest
from playwright.sync_api import sync_playwright

import browser as browsers


@pytest.fixture(scope="module")
def browser():
    """A Chromium; tests that need it are skipped if there is none."""
    with sync_playwright() as playwright:
        found = browsers.launch(playwright)
        if found is None:
            pytest.skip(browsers.HOW_TO_GET_ONE)
        yield found
        found.close()
