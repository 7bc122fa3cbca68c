"""Settings that must be made before scipy is imported, and data that many tests use."""

import os

import pytest

# Without it scikit-learn skips its check of array API inputs.
os.environ.setdefault("SCIPY_ARRAY_API", "1")


@pytest.fixture(scope="session")
def regression():
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)
