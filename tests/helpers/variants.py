"""Parametrizations that many tests share."""

import pytest
from sklearn.base import clone

from agbm._core.methods import METHODS as OBJECTS
from agbm.methods import Fading

METHODS = list(OBJECTS)
STRATEGIES = ["one_output_per_tree", "multi_output_tree"]

methods = pytest.mark.parametrize("method", METHODS)
strategies = pytest.mark.parametrize("strategy", STRATEGIES)
shared = pytest.mark.parametrize("shared_structure", [False, True])
newton = pytest.mark.parametrize("second_order", [False, True])


def like_default(name):
    """Parameters for the method of a name with the leaves and, if it has momentum, the weights of the default.

    Steps then have no unit, and no loss diverges: for tests that must hold for every method, whatever the data.
    """
    return {"method": made(name, momentum="fading", correction=0.5, shared_structure=True), "second_order": True}


def made(name, **settings):
    """The method with this name. Settings that it does not have are ignored; momentum="fading" is a Fading object."""
    method = clone(OBJECTS[name])
    if settings.get("momentum") == "fading":
        settings["momentum"] = Fading()
    return method.set_params(**{key: value for key, value in settings.items() if key in method.get_params()})
