"""AGBMSurvival, the estimator of survival analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from .._base import threads
from .._base.sums import Array
from .._base.weights import check_sample_weight, refuse_dates
from .._data.rows import Given
from .._labels.lifetimes import SURVIVAL, Lifetimes, as_matrix
from .._losses import exp
from .._losses.metrics import concordance
from .._migration.foreign import refuse_arguments
from .._model.predictor import Predictor
from .._model.survival_functions import StepFunction, cumulative_hazards, quantiles
from .base import ESTIMATORS, BaseAGBM, of_model
from .parameters import CONSTRAINTS, documentation

_LOSSES = (
    '"auto", "cox", "cox:breslow", "cox:efron", "aft:normal", "aft:logistic", "aft:extreme", "piecewise_exponential"'
)


class AGBMSurvival(BaseAGBM):
    __doc__ = f"""Accelerated gradient boosting for times of events that may be censored.

    predict returns risks: the higher, the earlier the event. Survival functions and times have methods of their own.
    Labels and methods are those of scikit-survival, which is not needed; its metrics accept the results.
{documentation(classifies=False, losses=_LOSSES)}
    unique_times_ : array
        The distinct times of events in fit and in updates, at most 1,000, at which survival functions are evaluated.
        scikit-survival's name for it, event_times_, is an alias.

    Examples
    --------
    >>> import numpy as np
    >>> from agbm import AGBMSurvival
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> time, censored = rng.exponential(np.exp(-X[:, 0])), rng.exponential(2.0, 200)
    >>> y = np.column_stack([np.minimum(time, censored), time <= censored])
    >>> model = AGBMSurvival(max_iter=10).fit(X, y)
    >>> model.predict(X[:2]).shape, model.predict_time(X[:2]).shape
    ((2,), (2,))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS
    _kind = Lifetimes
    unique_times_ = of_model("labels.times")
    event_times_ = of_model("labels.times")

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight_val: Any = None, *, offset: Any = None, offset_val: Any = None,
        watch: Mapping[str, Any] | None = None, **unknown: Any,
    ) -> Self:  # fmt: skip
        """Fit to X of shape (rows, features) and times y; NaN in X is a missing value.

        y is a structured array of scikit-survival (a field of booleans, whether there was an event, and one of times),
        a table or an array with two columns (time, event), or a tuple (time, event); events are 0 or 1. For left- and
        interval-censored times, which need a loss "aft:...", y is a structured array or a data frame with "lower" and
        "upper" bounds, equal for events; lower 0 or upper infinite or missing means that there is no such bound.
        X_val, y_val and sample_weight_val are validation rows for early stopping; for loss "cox", the baseline hazard
        is estimated from them. watch has other rows by name, as (X, y), (X, y, sample_weight) or
        (X, y, sample_weight, offset), whose losses and scores are recorded in history_. Integers in sample_weight are
        numbers of repetitions; for floats, only ratios matter. offset is the raw score that the model of a row is added
        to, of shape (rows) or (rows, scores); offset_val is that of X_val. Rows that do not fit into memory can be
        passed as agbm.Batches, with y of all rows, or with two columns (time, event) in the batches.
        """
        refuse_arguments(unknown)
        validation = Given(X_val, y_val, sample_weight_val, offset_val)
        return self._fit(Given(X, y, sample_weight, offset), validation, watch)

    def _with_labels(self, given: Given, name: str = "y") -> Given:
        return given._replace(y=as_matrix(given.y, name))

    def predict(self, X: Any, offset: Any = None) -> Array:
        """The risk of each row: the higher, the earlier its event. offset is added to the raw scores.

        The logarithm of the hazard ratio for loss "cox", minus the predicted location of the logarithm of the time for
        "aft:...", and the logarithm of the mean cumulative hazard at the ends of the intervals for
        "piecewise_exponential".
        """
        return cast(Array, self._finished(X, offset, "predictions"))

    def predict_time(self, X: Any, quantile: float = 0.5, offset: Any = None) -> Array:
        """The time by which each row has had its event with probability `quantile`; by default, the median.

        With loss "cox", it is infinite for rows whose survival function does not fall that far before the last event.
        """
        if not isinstance(quantile, Real) or not 0.0 < quantile < 1.0:
            raise ValueError(f"quantile={quantile!r} must be a number between 0 and 1.")
        raw = self._raw_predict(X, offset)
        return quantiles(self.model_, raw, float(quantile))

    def predict_survival_function(
        self, X: Any, return_array: bool = False, times: Any = None, offset: Any = None
    ) -> NDArray[Any]:
        """The survival function of each row: the probability that its event is after a time.

        By default an array of functions with attributes x and y, which can be called with times, as those of
        scikit-survival. With return_array=True, the values at unique_times_, of shape (rows, times). times: return the
        values at these times instead. The functions are steps at unique_times_, the values at `times` are exact.
        """
        hazards, at = self._hazards(X, times, offset, "predict_survival_function")
        survival = exp(-hazards, threads.resolve(self.n_jobs))
        return survival if return_array or times is not None else _steps(at, survival, before=1.0)

    def predict_cumulative_hazard_function(
        self, X: Any, return_array: bool = False, times: Any = None, offset: Any = None
    ) -> NDArray[Any]:
        """The cumulative hazard function of each row, minus the logarithm of its survival function.

        The arguments and the form of the result are those of predict_survival_function.
        """
        hazards, at = self._hazards(X, times, offset, "predict_cumulative_hazard_function")
        return hazards if return_array or times is not None else _steps(at, hazards, before=0.0)

    def _hazards(self, X: Any, times: Any, offset: Any, name: str) -> tuple[Array, Array]:
        """The cumulative hazards (row, time), and the times."""
        raw = self._raw_predict(X, offset)
        at = self._labels.times if times is None else _checked_times(times)
        return cumulative_hazards(self.model_, raw, None if times is None else at, name), at

    def predictor(self) -> Predictor:
        """Return a function equivalent to predict for numeric arrays; it is faster, since it skips most checks."""
        return self._predictor("predictions")

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[Array]:
        """The risk after each iteration, up to best_iteration_."""
        return self._staged(X, offset, lambda loss, raw: self._labels.predictions(cast(Any, loss), raw))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Harrell's concordance of risks and times; 0.5 if risks say nothing, 1 if they are in the order of the times.

        It is the share of concordant pairs among the pairs of rows of which it is certain which event is first.
        """
        X, y, sample_weight, _ = self._received(Given(X, y, sample_weight))
        risk = self.predict(X)
        bounds = self._labels.encode_validation(as_matrix(y), len(risk))
        weight = None if sample_weight is None else check_sample_weight(sample_weight, risk).astype(np.float64)
        return concordance(bounds, risk, weight)

    @property
    def _labels(self) -> Lifetimes:
        return cast(Lifetimes, self.model_.labels)

    def _one_column(self) -> bool:
        return self._labels.n_outputs == 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = SURVIVAL
        tags.target_tags.required = True
        tags.target_tags.two_d_labels = True
        tags.target_tags.positive_only = True
        return tags


ESTIMATORS[AGBMSurvival.__name__] = AGBMSurvival


def _steps(times: Array, values: Array, before: float) -> NDArray[Any]:
    """One function per row, in an array of objects as scikit-survival returns them."""
    functions = np.empty(len(values), dtype=object)
    functions[:] = [StepFunction(times, of_row, before) for of_row in values]
    return functions


def _checked_times(times: Any) -> Array:
    refuse_dates(times, "times")
    given = np.atleast_1d(np.asarray(times))
    numbers = given.dtype.kind in "iuf"
    if not numbers or given.ndim != 1 or not np.isfinite(given).all() or (given < 0).any():
        raise ValueError(f"times={times!r} must be finite numbers that are not negative.")
    return given.astype(np.float64)
