"""Parametrizations that many tests share."""

import pytest

from agbm._core.methods import METHODS as OBJECTS
from agbm._core.methods import method_of
from agbm.methods import Fading

METHODS = list(OBJECTS)
STRATEGIES = ["one_output_per_tree", "multi_output_tree"]

methods = pytest.mark.parametrize("method", METHODS)
strategies = pytest.mark.parametrize("strategy", STRATEGIES)
shared = pytest.mark.parametrize("shared_structure", [False, True])
newton = pytest.mark.parametrize("second_order", [False, True])


def few(values, *ordinary):
    """The values as parameters, of which `make test` tries only some."""
    return [value if value in ordinary else pytest.param(value, marks=pytest.mark.nightly) for value in values]


def like_default(name, **settings):
    """Parameters for the method of a name with the leaves and, if it has momentum, the weights of the default.

    Steps then have no unit, and no loss diverges: for tests that must hold for every method, whatever the data.
    """
    return {
        "method": made(name, momentum="fading", correction=0.5, shared_structure=True, second_order=True, **settings)
    }


def made(method, **settings):
    """A method, given by name or as an object, with settings; momentum="fading" is a Fading object.

    Settings that the method does not have are ignored.
    """
    method = method_of(method)
    if settings.get("momentum") == "fading":
        settings["momentum"] = Fading()
    return method.set_params(**{key: value for key, value in settings.items() if key in method.get_params()})
