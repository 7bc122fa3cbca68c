"""Errors for the names that other libraries use for weights of rare classes."""

import pytest

from agbm import AGBMClassifier


@pytest.mark.parametrize(
    ("name", "value", "ours"),
    [
        ("is_unbalance", True, "class_weight='balanced'"),
        ("auto_class_weights", "Balanced", "class_weight='balanced'"),
        ("scale_pos_weight", 3.0, "class_weight={0: 1.0, 1: 3.0}"),
        ("class_weights", [1.0, 5.0], "class_weight={0: 1.0, 1: 5.0}"),
    ],
)
def test_weights_of_rare_classes(name, value, ours):
    with pytest.raises(TypeError) as caught:
        AGBMClassifier(**{name: value})
    assert f"{name} is {ours} here" in str(caught.value)
