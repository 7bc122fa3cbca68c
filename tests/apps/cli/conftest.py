"""Fixtures of the tests of the command line."""

import shutil

import pytest

import agbm
from commands import FEW, SOLD, mixed, run


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The working folder, with a table."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")  # the narrowest usual terminal, into which the output must fit
    mixed().to_csv("mixed.csv", index=False)
    return tmp_path


@pytest.fixture(scope="session")
def sold_model(tmp_path_factory):
    """The file of a model that `agbm train` wrote."""
    folder = tmp_path_factory.mktemp("sold")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        mixed().to_csv("mixed.csv", index=False)
        run(*SOLD, *FEW, "--quiet")
    return folder / "sold.agbm"


@pytest.fixture
def trained(here, sold_model):
    """The model, whose file is in the working folder."""
    shutil.copy(sold_model, "sold.agbm")
    return agbm.load("sold.agbm")
