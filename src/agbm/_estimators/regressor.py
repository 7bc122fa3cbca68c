"""AGBMRegressor, the estimator of regression."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self, cast

from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .._base import threads
from .._base.sums import Array
from .._base.weights import refuse_dates
from .._data.rows import Given
from .._labels.base import Numbers
from .._losses import frozen_distribution, traits_of
from .._migration.foreign import refuse_arguments
from .._model.calibration import predicted_intervals
from .._model.predictor import Predictor
from .base import ESTIMATORS, BaseAGBM
from .parameters import CONSTRAINTS, documentation


class AGBMRegressor(RegressorMixin, BaseAGBM):  # type: ignore[misc]
    __doc__ = f"""Accelerated gradient boosting for regression.
{documentation(classifies=False)}
    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from agbm import AGBMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AGBMRegressor(max_iter=30, max_depth=3).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = CONSTRAINTS
    _kind = Numbers

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight_val: Any = None, *, offset: Any = None, offset_val: Any = None,
        watch: Mapping[str, Any] | None = None, **unknown: Any,
    ) -> Self:  # fmt: skip
        """Fit to X of shape (rows, features) and y of shape (rows) or (rows, outputs); NaN in X is a missing value.

        Infinite values in X are the largest and the smallest number. Text in y raises an error, even if it shows
        numbers. The loss of several outputs is the sum of their losses. With loss="cross_entropy", y and the
        predictions are probabilities from 0 to 1. X_val, y_val and sample_weight_val are validation rows for early
        stopping. watch has other rows by name, as (X, y), (X, y, sample_weight) or (X, y, sample_weight, offset), whose
        losses and scores are recorded in history_. Integers in sample_weight are numbers of repetitions; for floats,
        only ratios matter. offset, of shape (rows) or (rows, outputs), is the raw score that the model of a row is
        added to, such as log(exposure) for a loss with a log link; offset_val is that of X_val. Rows that do not fit
        into memory can be passed as agbm.Batches or as a pyarrow.dataset.Dataset; for a dataset, y, sample_weight and
        offset may be names of columns.
        """
        refuse_arguments(unknown)
        validation = Given(X_val, y_val, sample_weight_val, offset_val)
        return self._fit(Given(X, y, sample_weight, offset), validation, watch)

    def predict(self, X: Any, offset: Any = None) -> Array:
        """Predicted values. offset is added to the raw scores; None: 0, as for an exposure of 1."""
        return cast(Array, self._finished(X, offset, "predictions"))

    def predict_dist(self, X: Any, offset: Any = None) -> Any:
        """The distribution of the label of each row, for loss="poisson" and losses of kind "distribution:...".

        The result has the methods of a frozen distribution of scipy.stats, with one distribution per row: mean, std,
        pdf or pmf, logpdf or logpmf, cdf, sf, ppf, isf, interval and rvs. offset, of shape (rows, parameters), is added
        to the raw scores.
        """
        raw = self._raw_predict(X, offset)
        return frozen_distribution(self.model_.loss, raw)

    def predict_interval(self, X: Any, coverage: float = 0.9, offset: Any = None) -> Array:
        """Intervals that contain the labels of a share `coverage` of new rows: lower and upper bounds, (rows, 2).

        Of shape (rows, outputs, 2) for several outputs; the coverage holds for each output. Works after a fit that has
        held out rows for early stopping, as by default (CV+), and after calibrate (split conformal prediction). See
        docs/guides/uncertainty.md for what is guaranteed.
        """
        check_is_fitted(self)
        return predicted_intervals(self.model_, X, coverage, threads.resolve(self.n_jobs), offset)

    def predictor(self) -> Predictor:
        """Return a function equivalent to predict for numeric arrays; it is faster, since it skips most checks.

        It accepts no offset: with a log link, multiply its results by the exposure instead.
        """
        return self._predictor("predictions")

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[Array]:
        """Predicted values after each iteration, up to best_iteration_."""
        return self._staged(X, offset, lambda loss, raw: self._labels.predictions(loss, raw))

    @property
    def _labels(self) -> Numbers:
        return cast(Numbers, self.model_.labels)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The coefficient of determination R^2; for a list of quantiles, the mean D^2 of the pinball loss.

        D^2 is the share of the loss that is explained, compared with the same quantile of y for all rows; see
        sklearn.metrics.d2_pinball_score.
        """
        X, y, sample_weight, _ = self._received(Given(X, y, sample_weight))
        refuse_dates(y, "y")
        refuse_dates(sample_weight, "sample_weight")
        levels = traits_of(self.model_.loss).listed_quantiles if self.__sklearn_is_fitted__() else ()
        if not levels:
            return float(super().score(X, y, sample_weight))
        from sklearn.metrics import d2_pinball_score  # slow to import

        of_levels = zip(self.predict(X).T, levels, strict=True)
        scores = [d2_pinball_score(y, found, sample_weight=sample_weight, alpha=level) for found, level in of_levels]
        return float(sum(scores) / len(scores))

    def _one_column(self) -> bool:
        return self._labels.single

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


ESTIMATORS[AGBMRegressor.__name__] = AGBMRegressor
