"""What many tests run over."""

import pytest

METHODS = ["fading", "gbm", "rnb", "vagbm", "agbm", "agbmr"]
STRATEGIES = ["one_output_per_tree", "multi_output_tree"]

methods = pytest.mark.parametrize("method", METHODS)
strategies = pytest.mark.parametrize("strategy", STRATEGIES)
shared = pytest.mark.parametrize("shared_structure", [False, True])
# The learning rate of "rnb" is the inverse of a damping and not a step, and the damping couples outputs.
without_rnb = pytest.mark.parametrize("method", [method for method in METHODS if method != "rnb"])
newton = pytest.mark.parametrize("second_order", [False, True])
