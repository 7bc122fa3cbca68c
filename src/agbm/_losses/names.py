"""Losses by name, and what is known about any loss. The registry follows from the classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Any, TypeGuard, TypeVar, get_args

from .._base.collectives import anywhere
from .._base.sums import Array
from . import classification, distributions, histogram_distribution, ranking, regression, survival
from .base import LOSSES, BuiltInLoss, JointLoss, Loss, Prediction, Task, Traits
from .constants import zero_slope
from .function import FunctionLoss, LossFunction

L = TypeVar("L")

_FAMILIES = classification, distributions, histogram_distribution, ranking, regression, survival
"""The modules whose classes are the registry."""

_AUTO: dict[Task, Callable[[], BuiltInLoss]] = {
    "regression": regression.HalfSquaredError,
    "classification": classification.LogLoss,
    "ranking": lambda: ranking.LambdaRank("ndcg", 10),
    "survival": survival.Cox,
}
"""The losses that "auto" stands for."""


def named_loss(task: Task, name: str | LossFunction) -> Any:
    """The loss of a task with a name such as "auto", "poisson" or "quantile:0.9", or of a function."""
    if not isinstance(name, str):
        if task not in ("regression", "classification"):
            raise ValueError(f"loss={name!r} sees one row at a time; for {task}, use a name or an object.")
        return FunctionLoss(name, 2 if task == "classification" else 0)
    if name == "auto":
        return _AUTO[task]()
    word, colon, _ = name.partition(":")
    kinds = [kind for kind in LOSSES.values() if task in kind.tasks]
    for kind in kinds:
        if name in kind.names or _takes_number(kind, word):
            return kind.named(name)
    alternatives = [known for known in loss_names(task) if colon and known.startswith(f"{word}:")]
    if alternatives:
        raise ValueError(f"loss={name!r}: '{word}:' must be followed by one of {_listed(_after_colon(alternatives))}.")
    raise _unknown(name, ["auto", *loss_names(task)])


def loss_names(task: Task) -> list[str]:
    """Names of the losses of a task; numbers after a colon stand for any."""
    names = [name for kind in LOSSES.values() if task in kind.tasks for name in kind.names]
    return sorted(names, key=lambda name: (":" in name, name not in _AUTO[task]().names))


def is_loss_name(name: str) -> bool:
    """Whether an estimator has a loss with this name."""
    for task in get_args(Task):
        with suppress(ValueError):
            named_loss(task, name)
            return True
    return False


def is_built_in(loss: object) -> TypeGuard[BuiltInLoss]:
    """Whether a loss is a built-in one; a custom loss that is derived from one may have changed anything."""
    return LOSSES.get(type(loss).__name__) is type(loss)


def traits_of(loss: object) -> Traits:
    """The traits of any loss. Custom losses may have `min_hessian_leaf`; see docs/guides/custom-losses.md."""
    if isinstance(loss, BuiltInLoss):
        return loss.traits
    has_value = not isinstance(loss, FunctionLoss)
    return Traits(min_hessian_leaf=getattr(loss, "min_hessian_leaf", 0.0), has_value=has_value)


def prediction_of(loss: object) -> Prediction | None:
    """What makes predictions of scores, by name; None for custom losses."""
    return loss.traits.prediction if is_built_in(loss) else None


def with_threads(loss: L, n_threads: int) -> L:
    """The loss with a number of threads for its kernels; custom losses have none."""
    return loss.with_threads(n_threads) if isinstance(loss, BuiltInLoss) else loss


def is_row_wise(loss: Loss) -> bool:
    """Whether no hessian depends on other rows. Custom losses say so by `row_wise`."""
    return loss.constant_hessian or is_built_in(loss) or getattr(loss, "row_wise", False)


def frozen_distribution(loss: Any, f: Array) -> Any:
    """The distributions of rows with scores f; raises ValueError for a loss that does not determine them."""
    if traits_of(loss).is_distribution:
        return loss.frozen(f)
    names = _listed(name for name in loss_names("regression") if name.startswith("distribution:"))
    raise ValueError(f"predict_dist() needs a loss that is a distribution: {names} or 'poisson'; got loss={loss!r}.")


def best_constant_with(loss: Loss, y: Array, weight: Array | None, offset: Array | None) -> float | Array:
    """The constant c with the smallest total loss of the scores c + offset; (K,) for offsets (K, row)."""
    if offset is None or not anywhere(offset):
        return loss.best_constant(y, weight)
    if isinstance(loss, BuiltInLoss) and (is_built_in(loss) or isinstance(loss, JointLoss)):
        found: float | Array = loss.best_constant_with(y, weight, offset)
        return found
    if offset.ndim == 2:
        raise ValueError(
            f"init='prior' with offsets: the best constants of loss={loss!r}, which has several scores per row, "
            "are unknown; use init='zero', or add them to the offsets."
        )
    return zero_slope(loss, y, weight, offset)


def _takes_number(kind: type[BuiltInLoss], word: str) -> bool:
    """Whether a number follows a word and a colon."""
    return any(name.partition(":")[0] == word and name[-1].isdigit() for name in kind.names)


def _after_colon(names: Iterable[str]) -> list[str]:
    return [name.partition(":")[2] for name in names]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _unknown(name: str, known: Iterable[str]) -> ValueError:
    known = list(known)
    similar = get_close_matches(name.lower(), known, n=1)
    hint = f" Did you mean {similar[0]!r}?" if similar else ""
    return ValueError(f"loss={name!r} must be one of {_listed(known)}, or a loss object.{hint}")
