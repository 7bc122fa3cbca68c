"""What many tests run over."""

import pytest

METHODS = ["fading", "gbm", "vagbm", "agbm", "agbmr"]
STRATEGIES = ["one_output_per_tree", "multi_output_tree"]

methods = pytest.mark.parametrize("method", METHODS)
strategies = pytest.mark.parametrize("strategy", STRATEGIES)
shared = pytest.mark.parametrize("shared_structure", [False, True])
newton = pytest.mark.parametrize("second_order", [False, True])
