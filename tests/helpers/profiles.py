"""How many examples Hypothesis draws: a test names the number for `make test`, the profile multiplies it."""

from hypothesis import settings

ORDINARY, NIGHTLY = 20, 500
"""Examples of a test that names no number."""


def examples(number):
    """Settings for so many examples in `make test`, and 25 times as many in `make test-nightly`."""
    return settings(max_examples=number * settings.default.max_examples // ORDINARY)
