"""The settings of a fit: the parameters of an estimator as they were when it began."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .._core.methods import Method, method_of, name_of
from .._core.training import Watcher
from .._losses import Loss

Auto = Literal["auto"]

# Parameters that do not affect the model after a given number of iterations.
_WITHOUT_EFFECT = {
    "max_iter", "n_iter_no_change", "tol", "scoring", "callbacks", "warm_start", "verbose", "random_state", "n_jobs",
    "device",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Settings:
    """Parameters of an estimator, checked. Nothing below the estimators sees an estimator.

    Parameters that an estimator does not have are those of a fit without them.
    """

    estimator: str
    """The class of the estimator, for messages."""
    scored: Any
    """The estimator, which scorers get copies of that know their predictions; None in other processes."""
    names: tuple[str, ...]
    """The parameters that the estimator has."""
    method_name: str
    """The method as progress shows it."""
    method: Method
    max_iter: int | Auto
    learning_rate: float
    loss: str | Loss
    init: Any
    max_depth: int | None
    max_leaf_nodes: int | Auto | None
    min_samples_leaf: int | Auto
    l2_regularization: float | Auto
    min_split_gain: float
    max_bins: int
    categorical_features: Any
    subsample: float
    colsample_bytree: float
    colsample_bynode: float | Auto
    early_stopping: bool | Auto
    n_members: int | Auto
    validation_fraction: float | None
    n_iter_no_change: int
    tol: float
    callbacks: Sequence[Watcher] | None
    warm_start: bool
    verbose: int
    random_state: Any
    n_jobs: int | None
    second_order: bool | Auto = "auto"
    dropout: float = 0.0
    learner: Any = None
    device: str = "cpu"
    scoring: Any = None
    multi_strategy: str = "auto"
    monotonic_cst: Any = None
    interaction_cst: Any = None
    class_weight: Mapping[Any, float] | str | None = None
    temperature_scaling: bool = False

    @classmethod
    def of(cls, estimator: Any) -> Settings:
        """The parameters of an estimator; its method as an object."""
        given = estimator.get_params(deep=False)
        name = name_of(given["method"])
        given["method"] = method_of(given["method"])
        return cls(type(estimator).__name__, estimator, tuple(given), name, **given)

    def shaping(self) -> dict[str, Any]:
        """The parameters that affect the model after a given number of iterations."""
        return {name: getattr(self, name) for name in self.names if name not in _WITHOUT_EFFECT}
