"""What waits for a cluster might wait for ever: then its test fails."""

import signal
from contextlib import contextmanager

import pytest


@contextmanager
def no_longer_than(seconds):
    """Fail if a block takes longer."""

    def ring(*_):
        pytest.fail(f"has been waiting for {seconds} s")  # not an Exception, which a fit may think of as a lost worker

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
