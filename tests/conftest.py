"""Settings that must be made before scipy is imported, and data that many tests use."""

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

from profiles import NIGHTLY, ORDINARY

# Without it scikit-learn skips its check of array API inputs.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# pytest-xdist has one process per core. With several threads each, threads that wait would take time from those that
# work. Tests that are about threads say how many: n_jobs=2.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test depends on how fast a machine is. Each run draws other examples, so that few of them per run are enough.
settings.register_profile("agbm", deadline=None, max_examples=ORDINARY)
settings.register_profile("nightly", deadline=None, max_examples=NIGHTLY, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("agbm")


def pytest_collection_modifyitems(config, items):
    """Leave out the tests of `make test-nightly`, unless its profile or `-m` asks for them.

    Tests that need a browser or a cluster are slow; the others have the marker themselves.
    """
    for item in items:
        if not {"browser", "cluster"}.isdisjoint(item.fixturenames):
            item.add_marker("slow")
    if config.getoption("hypothesis_profile", None) == "nightly" or "nightly" in config.option.markexpr:
        return
    left_out = [item for item in items if item.get_closest_marker("nightly")]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("nightly")]


def pytest_terminal_summary(terminalreporter):
    """Say why tests were skipped, once per reason: without this, a short run says only how many."""
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} skipped: {reason.removeprefix('Skipped: ')}", yellow=True)


@pytest.fixture(scope="session")
def regression():
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)


@pytest.fixture
def drawn():
    """Draw and close every figure of a test, and check that no setting of Matplotlib has changed."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    settings_before = mpl.rcParams.copy()
    yield
    try:
        for number in plt.get_fignums():
            plt.figure(number).canvas.draw()
    finally:
        plt.close("all")
    assert mpl.rcParams == settings_before
