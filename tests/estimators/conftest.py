"""Data that these tests share."""

import pytest
from sklearn.datasets import load_breast_cancer


@pytest.fixture(scope="module")
def binary():
    return load_breast_cancer(return_X_y=True)
