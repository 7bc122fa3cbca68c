"""Settings that must be made before scipy is imported, and data that many tests use."""

import os

import pytest
from hypothesis import settings

# Without it scikit-learn skips its check of array API inputs.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

# No test depends on how fast a machine is.
settings.register_profile("agbm", deadline=None)
settings.load_profile("agbm")


@pytest.fixture(scope="session")
def regression():
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)
