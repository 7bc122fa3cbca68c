"""AGBMClassifier, the estimator of classification."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._base import threads
from .._base.sums import Array
from .._base.weights import refuse_dates
from .._core.methods import Method
from .._core.training import Watcher
from .._data.rows import Given
from .._labels.base import Classes
from .._labels.matrices import LabelSets
from .._losses import Loss
from .._migration.foreign import refuse_arguments
from .._model.calibration import predicted_sets
from .._model.predictor import Predictor
from .base import ESTIMATORS, BaseAGBM, of_model
from .parameters import CONSTRAINTS, documentation


class AGBMClassifier(ClassifierMixin, BaseAGBM):  # type: ignore[misc]
    __doc__ = f"""Accelerated gradient boosting for classification.
{documentation(classifies=True)}
    n_classes_ : int
        The number of classes, or of labels if rows have several.
    classes_ : array
        The classes, sorted; for several labels per row, the positions of their columns.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from agbm import AGBMClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = AGBMClassifier(max_iter=30, max_depth=3).fit(X, y)
    >>> model.predict_proba(X[:2]).shape
    (2, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "temperature_scaling": ["boolean"],
    }
    _kind = Classes
    classes_ = of_model("labels.classes")
    n_classes_ = of_model("labels.n_classes")

    def __init__(
        self,
        *,
        method: str | Method = "fading",
        max_iter: int | str = "auto",
        learning_rate: float = 0.1,
        loss: str | Loss = "auto",
        multi_strategy: str = "auto",
        second_order: bool | str = "auto",
        init: Any = "prior",
        max_depth: int | None = None,
        max_leaf_nodes: int | str | None = "auto",
        min_samples_leaf: int | str = "auto",
        l2_regularization: float | str = "auto",
        min_split_gain: float = 0.0,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float | str = "auto",
        dropout: float = 0.0,
        early_stopping: bool | str = "auto",
        n_members: int | str = "auto",
        validation_fraction: float | None = 0.1,
        n_iter_no_change: int = 20,
        tol: float = 1e-7,
        scoring: Any = None,
        learner: Any = None,
        callbacks: Sequence[Watcher] | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = 0,
        n_jobs: int | None = None,
        device: str = "cpu",
        class_weight: dict[Any, float] | str | None = None,
        temperature_scaling: bool = False,
    ) -> None:
        super().__init__(
            method=method,
            max_iter=max_iter,
            learning_rate=learning_rate,
            loss=loss,
            multi_strategy=multi_strategy,
            second_order=second_order,
            init=init,
            max_depth=max_depth,
            max_leaf_nodes=max_leaf_nodes,
            min_samples_leaf=min_samples_leaf,
            l2_regularization=l2_regularization,
            min_split_gain=min_split_gain,
            max_bins=max_bins,
            categorical_features=categorical_features,
            monotonic_cst=monotonic_cst,
            interaction_cst=interaction_cst,
            subsample=subsample,
            colsample_bytree=colsample_bytree,
            colsample_bynode=colsample_bynode,
            dropout=dropout,
            early_stopping=early_stopping,
            n_members=n_members,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            scoring=scoring,
            learner=learner,
            callbacks=callbacks,
            warm_start=warm_start,
            verbose=verbose,
            random_state=random_state,
            n_jobs=n_jobs,
            device=device,
        )
        self.class_weight = class_weight
        self.temperature_scaling = temperature_scaling

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None,
        sample_weight_val: Any = None, *, offset: Any = None, offset_val: Any = None,
        watch: Mapping[str, Any] | None = None, **unknown: Any,
    ) -> Self:  # fmt: skip
        """Fit to X of shape (rows, features) and the labels y; NaN in X is a missing value.

        Infinite values in X are the largest and the smallest number. y has one class per row or, for several labels per
        row (multi-label), is a matrix (rows, labels) of 0 and 1, which may be sparse. Every label then has its own
        log-odds, and their losses add up. With loss="cross_entropy", y are probabilities (rows, classes) of the classes
        0, 1, ..., or the probability of the second of two classes. X_val, y_val and sample_weight_val are validation
        rows for early stopping. watch has other rows by name, as (X, y), (X, y, sample_weight) or (X, y, sample_weight,
        offset), whose losses and scores are recorded in history_. Integers in sample_weight are numbers of repetitions;
        for floats, only ratios matter. offset is the raw score that the model of a row is added to: log-odds of shape
        (rows), or scores of shape (rows, classes) for more than two classes; offset_val is that of X_val. Rows that do
        not fit into memory can be passed as agbm.Batches or as a pyarrow.dataset.Dataset; for a dataset, y,
        sample_weight and offset may be names of columns.
        """
        refuse_arguments(unknown)
        validation = Given(X_val, y_val, sample_weight_val, offset_val)
        return self._fit(Given(X, y, sample_weight, offset), validation, watch)

    def decision_function(self, X: Any, offset: Any = None) -> Array:
        """Log-odds of the second class for two classes; scores of shape (rows, classes) for more; plus offset.

        For several labels per row, the log-odds of each label, of shape (rows, labels).
        """
        return cast(Array, self._finished(X, offset, "scores"))

    def predict_proba(self, X: Any, offset: Any = None) -> Array:
        """Class probabilities, of shape (rows, classes). offset is added to the raw scores; None: 0.

        For several labels per row, the probability of each label, of shape (rows, labels), as in scikit-learn's
        MLPClassifier and OneVsRestClassifier.
        """
        return cast(Array, self._finished(X, offset, "probabilities"))

    def predict(self, X: Any, offset: Any = None) -> NDArray[Any]:
        """The most probable class; for several labels per row, a matrix (rows, labels) of 0 and 1.

        offset is added to the raw scores; None: 0.
        """
        return cast(NDArray[Any], self._finished(X, offset, "predictions"))

    def predict_set(self, X: Any, coverage: float = 0.9, offset: Any = None) -> NDArray[np.bool_]:
        """Sets of classes that contain the classes of a share `coverage` of new rows: a matrix (rows, classes).

        Its columns are in the order of classes_. A set may be empty or contain all classes. Works after a fit that has
        held out rows for early stopping, as by default (CV+), and after calibrate (split conformal prediction). See
        docs/guides/uncertainty.md for what is guaranteed.
        """
        check_is_fitted(self)
        return predicted_sets(self.model_, X, coverage, threads.resolve(self.n_jobs), offset)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The accuracy: the share of rows whose class, or all of whose labels, are predicted."""
        X, y, sample_weight, _ = self._received(Given(X, y, sample_weight))
        refuse_dates(sample_weight, "sample_weight")
        return float(super().score(X, y, sample_weight))

    def predictor(self, method: str = "predict") -> Predictor:
        """Return a function equivalent to a method for numeric arrays; it is faster, since it skips most checks.

        method is "predict", "predict_proba" or "decision_function". The function accepts no offset; add one to the
        results for "decision_function".
        """
        finish = {"predict": "predictions", "predict_proba": "probabilities", "decision_function": "scores"}
        if method not in finish:
            raise ValueError(f"method={method!r} must be one of {list(finish)}.")
        return self._predictor(finish[method])

    def staged_decision_function(self, X: Any, offset: Any = None) -> Iterator[Array]:
        """The decision function after each iteration, up to best_iteration_."""
        return self._staged(X, offset, lambda loss, raw: self._labels.scores(loss, raw))

    def staged_predict_proba(self, X: Any, offset: Any = None) -> Iterator[Array]:
        """Class probabilities, of shape (rows, classes), after each iteration, up to best_iteration_."""
        return self._staged(X, offset, lambda loss, raw: self._labels.probabilities(loss, raw))

    def staged_predict(self, X: Any, offset: Any = None) -> Iterator[NDArray[Any]]:
        """The most probable class after each iteration, up to best_iteration_."""
        return self._staged(X, offset, lambda loss, raw: self._labels.predictions(loss, raw))

    @property
    def _labels(self) -> Classes | LabelSets:
        return cast(Classes | LabelSets, self.model_.labels)

    def _one_column(self) -> bool:
        return self._labels.n_outputs == 1

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


ESTIMATORS[AGBMClassifier.__name__] = AGBMClassifier
