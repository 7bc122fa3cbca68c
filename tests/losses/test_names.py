"""Losses by name: the registry follows from the classes."""

from typing import get_args

import pytest

from agbm import losses
from agbm._losses import LOSSES, is_built_in, loss_names, named_loss, traits_of
from agbm._losses.base import Task

TASKS = get_args(Task)


def test_public_losses_are_the_registry():
    assert set(losses.__all__) == {"Loss", *LOSSES}


@pytest.mark.parametrize("task", TASKS)
def test_every_name_creates_a_loss_of_its_task(task):
    for name in ["auto", *loss_names(task)]:
        loss = named_loss(task, name)
        assert is_built_in(loss)
        assert task in type(loss).tasks


@pytest.mark.parametrize("name", sorted({name for task in TASKS for name in loss_names(task)}))
def test_traits_agree_with_the_loss(name):
    (loss, *_) = (named_loss(task, name) for task in TASKS if name in loss_names(task))
    traits = traits_of(loss)
    assert traits.n_scores == max(1, len(traits.score_signs))
    assert not traits.quantiles or traits.n_scores == len(traits.quantiles)
    low, high = traits.label_range
    assert low < high


def test_derived_classes_are_custom_losses():
    class Mine(losses.LogLoss):
        pass

    assert "Mine" not in LOSSES
    assert not is_built_in(Mine())
    assert traits_of(Mine()) == traits_of(losses.LogLoss())


def test_custom_losses_may_limit_hessians():
    class Mine:
        min_hessian_leaf = 0.5

    assert traits_of(Mine()).min_hessian_leaf == 0.5
    assert traits_of(object()).min_hessian_leaf == 0.0
