"""The settings of a fit: the parameters of an estimator as they were when it began."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from .._base.types import AnyArray
from .._core.methods import Method, method_of, title_of
from .._core.training import Watcher
from .._data.crosses import Cross
from .._data.offsets import RawScores
from .._losses import Loss, LossFunction

# The values that parameters may have, for type checkers.

Auto = Literal["auto"]
MethodName = Literal["fading", "gbm", "vagbm", "agbm", "agbmr"]
MultiStrategy = Literal["auto", "one_output_per_tree", "multi_output_tree"]
DeviceName = Literal["cpu", "cuda", "auto"]
# Lists rather than sequences: a text is a sequence of texts.
CategoricalFeatures: TypeAlias = "Literal['from_dtype'] | list[int] | list[str] | list[bool] | AnyArray | None"
Interactions: TypeAlias = "Literal['no_interactions', 'pairwise'] | list[list[int]] | list[list[str]] | None"
Views: TypeAlias = "Literal['auto'] | Sequence[tuple[int, str, int]] | Sequence[tuple[str, str, str]] | None"
Direction: TypeAlias = "int | Mapping[Any, int]"
"""-1, 0 or 1; of several classes, for one of them."""
Directions: TypeAlias = "Sequence[int] | AnyArray | Mapping[int, Direction] | Mapping[str, Direction] | None"
Scorer: TypeAlias = "str | Callable[..., float] | Callable[..., tuple[str, float, bool]]"
Scoring: TypeAlias = "Scorer | Sequence[str] | Mapping[str, Scorer] | None"
ClassWeight: TypeAlias = "Mapping[Any, float] | Literal['balanced'] | None"
RandomState: TypeAlias = "int | np.random.RandomState | None"


class Predicts(Protocol):
    """A fitted model that predicts."""

    def predict(self, X: Any) -> Any:
        """Predictions of the rows of a table."""


class Decides(Protocol):
    """A fitted model with a decision function."""

    def decision_function(self, X: Any) -> Any:
        """Scores of the rows of a table."""


Start: TypeAlias = "Literal['prior', 'zero'] | Predicts | Decides"
"""What a model starts from."""

# Parameters that do not affect the model after a given number of iterations.
_WITHOUT_EFFECT = {
    "max_iter", "n_iter_no_change", "scoring", "callbacks", "warm_start", "verbose", "random_state", "n_jobs",
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
    method_title: str
    """The method as progress shows it."""
    method: Method
    max_iter: int | Auto
    learning_rate: float | Auto
    loss: str | Loss | LossFunction
    init: Start | RawScores
    """RawScores: the model that an update begins with."""
    max_depth: int | None
    max_leaf_nodes: int | Auto | None
    min_samples_leaf: int | Auto
    l1_regularization: float
    l2_regularization: float | Auto
    min_split_gain: float
    max_bins: int
    categorical_features: CategoricalFeatures
    subsample: float
    colsample_bytree: float
    colsample_bynode: float | Auto
    early_stopping: bool | Auto
    n_members: int | Auto
    validation_fraction: float | None
    n_iter_no_change: int
    callbacks: Sequence[Watcher] | None
    warm_start: bool
    verbose: int
    random_state: RandomState
    n_jobs: int | None
    device: DeviceName = "cpu"
    scoring: Scoring = None
    multi_strategy: MultiStrategy = "auto"
    monotonic_cst: Directions = None
    interaction_cst: Interactions = None
    views: Views | Sequence[Cross] = None
    class_weight: ClassWeight = None

    @classmethod
    def of(cls, estimator: Any) -> Settings:
        """The parameters of an estimator; its method as an object."""
        given = estimator.get_params(deep=False)
        name = title_of(given["method"])
        given["method"] = method_of(given["method"])
        return cls(type(estimator).__name__, estimator, tuple(given), name, **given)

    def shaping(self) -> dict[str, Any]:
        """The parameters that affect the model after a given number of iterations."""
        return {name: getattr(self, name) for name in self.names if name not in _WITHOUT_EFFECT}
