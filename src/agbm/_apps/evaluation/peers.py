"""Other boosting libraries with their own defaults, for `comparison.py`.

benchmarks/libraries uses the same libraries for a different purpose: there, trees have the same size and early stopping
is off, so that times can be compared.

Categories are passed as codes, in the form that each library expects. A missing or unknown category is NaN, which
LightGBM, XGBoost and HistGradientBoosting treat as missing, and CatBoost as a separate category. Entries that a sparse
matrix does not store are zeros, except for XGBoost, which treats them as missing values.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, issparse
from sklearn.utils import check_array

from ..._base.sums import Array
from ..._base.types import AnyArray
from ..._data.derivation import Derivation, look
from ..._data.tables import Categories, as_table, categorical_mask, named_mask, needs_reading
from ..._estimators.base import BaseAGBM
from ..._model.settings import CategoricalFeatures

Matrix: TypeAlias = "AnyArray | csr_matrix"


@dataclass(frozen=True)
class Effort:
    """Limits that are the same for all contenders."""

    max_iter: int
    patience: int
    """Iterations without a lower validation loss before a fit stops."""
    seed: int
    threads: int


@dataclass(frozen=True)
class PeerRows:
    """The rows of a split as numeric matrices, with categories as codes and classes as 0, 1, ..."""

    X: Matrix
    y: NDArray[Any]
    X_val: Matrix
    y_val: NDArray[Any]
    X_test: Matrix
    categorical: NDArray[np.bool_]
    n_classes: int
    """0 for regression, rankings and survival analysis."""
    queries: NDArray[np.intp] | None = None
    """For rankings, the number of rows of each query; queries follow each other."""
    queries_val: NDArray[np.intp] | None = None
    censored: bool = False
    """Whether y are times: positive for events, negative if they are censored."""

    @property
    def n_outputs(self) -> int:
        """Number of scores per row. Most libraries grow one tree per score in each iteration."""
        return self.n_classes if self.n_classes > 2 else 1

    def choose(self, values: str, two_classes: str, classes: str, ranking: str, survival: str = "") -> str:
        """Choose one of five names, for regression, two classes, more classes, rankings, or survival analysis."""
        if self.queries is not None:
            return ranking
        if self.censored:
            return survival
        return values if not self.n_classes else two_classes if self.n_classes == 2 else classes


@dataclass(frozen=True)
class Fitted:
    """The result of a fit; see `evaluation.Tried` for the fields.

    Losses are log losses, mean squared errors, 1 - NDCG@10, or Cox's loss per row.
    """

    predicted: Array
    """Predictions for the test rows: probabilities (row, class), or values, scores or risks (row)."""
    seconds: float
    best: int
    curve: Mapping[str, Sequence[float]]
    parameters: Mapping[str, Any]
    model: BaseAGBM | None = None
    """The fitted estimator, if it is one of this library."""


def matrices(tables: Sequence[Any], categorical_features: CategoricalFeatures) -> tuple[list[Any], NDArray[np.bool_]]:
    """Convert tables to numeric matrices, with categories as codes; also return which columns are categorical.

    The codes are those of the first table; categories that it does not have become NaN. Dates become the numbers that
    our trees see: no library would read them in the same way.
    """
    tables = [as_table(table) for table in tables]
    derivation = Derivation.of([look(tables[0])], named_mask(tables[0], categorical_features))
    mask = derivation.others(categorical_mask(tables[0], categorical_features))
    if not mask.any() and not derivation and not any(map(needs_reading, tables)):
        return [_checked(table) for table in tables], mask
    categories = Categories.learn(tables[0], mask, None)
    mask = np.append(mask, np.zeros(len(derivation.parts), dtype=bool))
    unknown = np.where(mask, categories.counts(len(mask)), np.inf)
    encoded = [np.ascontiguousarray(categories.encode(table, derivation.apply(table))) for table in tables]
    return [np.where(matrix == unknown, np.nan, matrix) for matrix in encoded], mask


def _checked(table: Any) -> Any:
    """Validate a numeric table with scikit-learn; sparse matrices stay sparse."""
    checked = check_array(table, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, order="C")
    return csr_matrix(checked) if issparse(checked) else checked  # not all libraries support sparse arrays


class _Stopwatch:
    """Seconds since the start of the fit, including the library's own data structures."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self.at: list[float] = []
        """Times after each iteration."""

    def now(self) -> float:
        return time.perf_counter() - self._began

    def lap(self) -> None:
        self.at.append(self.now())


def _curve(seconds: Sequence[float], trees_at_once: int, first: int, **losses: Sequence[float]) -> dict[str, Any]:
    """Columns with one entry per iteration, starting at iteration `first`."""
    trees = [trees_at_once * iteration for iteration in range(first, first + len(seconds))]
    return {"trees": trees, "seconds": list(seconds), **{name: list(column) for name, column in losses.items()}}


def _losses(
    data: PeerRows, record: Mapping[str, Sequence[float]], roots: bool = False, cox: float = 1.0
) -> list[float]:
    """The losses of the only metric of a record.

    `roots`: those of regression are roots of mean squared errors. `cox` is Cox's loss per row, relative to the metric.
    """
    (values,) = record.values()
    if data.queries is not None:
        return [1.0 - value for value in values]
    if data.censored:
        return [cox * value for value in values]
    return [value**2 for value in values] if roots and not data.n_classes else list(values)


def _numbered(queries: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
    """The number of the query of each row."""
    return None if queries is None else np.repeat(np.arange(len(queries)), queries)


def _both_classes(second: NDArray[Any]) -> Array:
    return np.column_stack([1.0 - second, second])


def _fit_lightgbm(data: PeerRows, effort: Effort) -> Fitted:
    import lightgbm

    if data.censored:
        raise ValueError("LightGBM has no loss for censored times")
    parameters: dict[str, Any] = {
        "objective": data.choose("regression", "binary", "multiclass", "lambdarank"),
        "metric": data.choose("l2", "binary_logloss", "multi_logloss", "ndcg"),
        "num_threads": effort.threads,
        "seed": effort.seed,
        "verbosity": -1,
    }
    if data.n_outputs > 1:
        parameters["num_class"] = data.n_outputs
    if data.queries is not None:
        parameters["eval_at"] = [10]
    record: dict[str, dict[str, list[float]]] = {}
    watch = _Stopwatch()
    train = lightgbm.Dataset(
        data.X, data.y, categorical_feature=np.flatnonzero(data.categorical).tolist(), params=parameters,
        group=data.queries,
    )  # fmt: skip
    model = lightgbm.train(
        parameters,
        train,
        effort.max_iter,
        valid_sets=[lightgbm.Dataset(data.X_val, data.y_val, reference=train, group=data.queries_val)],
        valid_names=["validation"],
        callbacks=[
            lambda environment: watch.lap(),
            lightgbm.record_evaluation(record),
            lightgbm.early_stopping(effort.patience, verbose=False),
        ],
    )
    seconds = watch.now()
    predicted = np.asarray(model.predict(data.X_test, num_threads=effort.threads))
    return Fitted(
        _both_classes(predicted) if data.n_classes == 2 else predicted,
        seconds,
        model.best_iteration - 1,
        _curve(watch.at, data.n_outputs, 1, validation_loss=_losses(data, record["validation"])),
        {"num_boost_round": effort.max_iter, "early_stopping_rounds": effort.patience},
    )


def _fit_xgboost(data: PeerRows, effort: Effort) -> Fitted:
    import xgboost

    metric = data.choose("rmse", "logloss", "mlogloss", "ndcg@10", "cox-nloglik")
    parameters: dict[str, Any] = {
        "objective": data.choose("reg:squarederror", "binary:logistic", "multi:softprob", "rank:ndcg", "survival:cox"),
        "eval_metric": metric,
        "nthread": effort.threads,
        "seed": effort.seed,
        "verbosity": 0,
    }
    if data.n_outputs > 1:
        parameters["num_class"] = data.n_outputs
    kinds = ["c" if categorical else "q" for categorical in data.categorical]
    shared = {"feature_types": kinds, "enable_categorical": True, "nthread": effort.threads}
    record: dict[str, dict[str, list[float]]] = {}
    watch = _Stopwatch()

    class Laps(xgboost.callback.TrainingCallback):  # type: ignore[misc]
        def after_iteration(self, model: object, epoch: int, evals_log: object) -> bool:
            watch.lap()
            return False

    train = xgboost.QuantileDMatrix(data.X, data.y, qid=_numbered(data.queries), **shared)
    validation = xgboost.QuantileDMatrix(data.X_val, data.y_val, qid=_numbered(data.queries_val), ref=train, **shared)
    model = xgboost.train(
        parameters,
        train,
        effort.max_iter,
        evals=[(validation, "validation")],
        evals_result=record,
        early_stopping_rounds=effort.patience,
        verbose_eval=False,
        callbacks=[Laps()],
    )
    seconds = watch.now()
    best = model.best_iteration
    losses = _losses(data, record["validation"], roots=True, cox=float(np.mean(data.y_val > 0.0)))  # it is per event
    predicted = np.asarray(model.predict(xgboost.DMatrix(data.X_test, **shared), iteration_range=(0, best + 1)))
    return Fitted(
        _both_classes(predicted) if data.n_classes == 2 else predicted,
        seconds,
        best,
        _curve(watch.at, data.n_outputs, 1, validation_loss=losses),
        {"num_boost_round": effort.max_iter, "early_stopping_rounds": effort.patience},
    )


def _fit_catboost(data: PeerRows, effort: Effort) -> Fitted:
    """Fit CatBoost. It grows one tree per iteration; leaves have one value per class."""
    import catboost

    metric = data.choose("RMSE", "Logloss", "MultiClass", "NDCG:top=10;type=Exp", "Cox")
    categorical = np.flatnonzero(data.categorical).tolist()

    def pool(X: Matrix, y: NDArray[Any] | None = None, queries: NDArray[np.intp] | None = None) -> Any:
        shared = {"group_id": _numbered(queries), "thread_count": effort.threads}
        if not categorical:
            return catboost.Pool(X, y, **shared)
        import pandas as pd  # a dependency of CatBoost

        columns: dict[int, Any] = dict(enumerate(X.T))
        for f in categorical:
            columns[f] = np.where(np.isnan(X[:, f]), -1, X[:, f]).astype(np.int64)
        return catboost.Pool(pd.DataFrame(columns), y, cat_features=categorical, **shared)

    watch = _Stopwatch()

    class Laps:
        def after_iteration(self, info: object) -> bool:
            watch.lap()
            return True

    model = catboost.CatBoost({
        "loss_function": metric if data.queries is None else "YetiRank", "eval_metric": metric,
        "iterations": effort.max_iter, "early_stopping_rounds": effort.patience,
        "random_seed": effort.seed, "thread_count": effort.threads, "logging_level": "Silent",
        "allow_writing_files": False,
    })  # fmt: skip
    validation = pool(data.X_val, data.y_val, data.queries_val)
    model.fit(pool(data.X, data.y, data.queries), eval_set=validation, callbacks=[Laps()])
    seconds = watch.now()
    record = model.get_evals_result()
    parts = {"train_loss": (record.get("learn", {}), data.y), "validation_loss": (record["validation"], data.y_val)}
    losses = {  # Cox is a log-likelihood, a sum over rows
        part: _losses(data, {metric: of[metric]}, roots=True, cox=-1.0 / len(y))
        for part, (of, y) in parts.items()
        if metric in of
    }
    form = "Probability" if data.n_classes else "RawFormulaVal"
    return Fitted(
        np.asarray(model.predict(pool(data.X_test), prediction_type=form, thread_count=effort.threads)),
        seconds,
        model.get_best_iteration(),
        _curve(watch.at, 1, 1, **losses),
        {"iterations": effort.max_iter, "early_stopping_rounds": effort.patience},
    )


def _fit_hist_gradient_boosting(data: PeerRows, effort: Effort) -> Fitted:
    """Fit HistGradientBoosting. It keeps the last iteration, not the best; all are assumed to take the same time."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    if data.queries is not None:
        raise ValueError("scikit-learn has no ranker")
    if data.censored:
        raise ValueError("scikit-learn has no loss for censored times")
    kind = HistGradientBoostingClassifier if data.n_classes else HistGradientBoostingRegressor
    parameters = {"max_iter": effort.max_iter, "n_iter_no_change": effort.patience}
    model = kind(early_stopping=True, categorical_features=data.categorical, random_state=effort.seed, **parameters)
    with threadpool_limits(effort.threads, user_api="openmp"):
        watch = _Stopwatch()
        model.fit(data.X, data.y, X_val=data.X_val, y_val=data.y_val)
        seconds = watch.now()
        predicted = model.predict_proba(data.X_test) if data.n_classes else model.predict(data.X_test)
    scale = -1.0 if data.n_classes else -2.0  # scores are negative losses; for regression, half the squared error
    return Fitted(
        np.asarray(predicted),
        seconds,
        model.n_iter_,
        _curve(
            np.linspace(0.0, seconds, model.n_iter_ + 1).tolist(),
            data.n_outputs,
            0,
            train_loss=(scale * model.train_score_).tolist(),
            validation_loss=(scale * model.validation_score_).tolist(),
        ),
        parameters,
    )


FITS: Mapping[str, Callable[[PeerRows, Effort], Fitted]] = {
    "LightGBM": _fit_lightgbm,
    "XGBoost": _fit_xgboost,
    "CatBoost": _fit_catboost,
    "HistGradientBoosting": _fit_hist_gradient_boosting,
}
"""The libraries of `contenders.PACKAGES`."""
