"""Data sets of the tests in this folder."""

import pytest

import paper_results


@pytest.fixture(scope="session")
def classes():
    """A small data set with two classes."""
    return paper_results.classes()


@pytest.fixture(scope="session")
def numbers():
    """A small regression."""
    return paper_results.numbers()
