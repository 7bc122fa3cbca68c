"""The common part of the scikit-learn estimators: parameters, fit and what every fitted model can do."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils._param_validation import InvalidParameterError
from sklearn.utils.validation import check_is_fitted

from .._base import threads
from .._base.sums import Array
from .._base.types import AnyArray, Table, Values
from .._core.methods import METHODS, Method, RemembersNames, method_of, owners_of
from .._core.training import Watcher
from .._data.rows import Given
from .._data.tables import collected, is_on_gpu
from .._data.units import GivenUnit, Unit
from .._engines.device import chosen_device, model_on_device, predict_elsewhere, rows_of_device
from .._fit.checks import check_combinations, stopping_settings, watched_rows
from .._fit.planning import Request, checkpoints_of
from .._fit.prepare import prepare
from .._fit.run import Run
from .._fit.sources import RowSource
from .._fit.train import check_continues, settled, train
from .._labels.base import Labels, Result
from .._lifecycle.update import Wanted, updated
from .._lifecycle.verification import ALL, Replay, Verification
from .._losses import Loss, LossFunction
from .._migration.foreign import of_attribute, of_estimator, of_loss
from .._model.calibration import calibrated
from .._model.fitted import FittedModel
from .._model.predictor import Predictor, finish_of
from .._model.reasons import reasons
from .._model.settings import (
    Auto,
    CategoricalFeatures,
    DeviceName,
    Directions,
    Interactions,
    MethodName,
    RandomState,
    Scoring,
    Settings,
    Start,
    Views,
)
from .._storage import model as storage
from .parameters import FitTable, Targets

if TYPE_CHECKING:
    from .._engines.device.prediction import ModelOnDevice

ESTIMATORS: dict[str, type[BaseAGBM]] = {}
"""The estimators that model files can contain, by name."""


def of_model(name: str) -> Any:
    """A fitted attribute: read-only, and missing before fit."""
    return property(attrgetter(f"model_.{name}"))


def _place_in_method(name: str, value: object, method: object) -> str:
    """How to pass a parameter of methods to an estimator; empty if no method has it."""
    name = name.removeprefix("method__")
    owners = owners_of(name)
    given = type(METHODS.get(method) if isinstance(method, str) else method)
    names = [kind.__name__ for kind in ([given] if given in owners else owners)]
    places = " or ".join(f"method={owner}({name}={value!r})" for owner in names)
    return f"{places}, from agbm.methods" if places else ""


def _check_method(method: object, estimator: str) -> None:
    if not (isinstance(method, Method) or (isinstance(method, str) and method in METHODS)):
        names = ", ".join(map(repr, METHODS))
        raise InvalidParameterError(
            f"The 'method' parameter of {estimator} must be one of {names}, or an object such as "
            f"agbm.methods.Fading(). Got {method!r} instead."
        )


class KnowsNames(RemembersNames):
    """An estimator that accepts `method__fade=0.3`, and whose errors say where to put `fade=0.3` or `num_leaves=31`."""

    method: MethodName | Method
    loss: str | Loss | LossFunction
    verbose: int

    if not TYPE_CHECKING:  # type checkers and editors know the parameters from __init__

        def __new__(cls, *args: object, **parameters: object) -> Self:
            instead = cls._instead_of(parameters, parameters.get("method"))
            if instead:
                raise TypeError(instead)
            return super().__new__(cls)

    @classmethod
    def _instead_of(cls, parameters: Mapping[str, Any], method: object) -> str:
        """An error message about unknown parameters that a method or another library has; empty if there are none."""
        known = cls._get_param_names()
        hints = []
        for name, value in parameters.items():
            if name not in known:
                place, instead = _place_in_method(name, value, method), of_estimator(name, value, known)
                if place:
                    hints.append(f"{name} is a parameter of the method, not of {cls.__name__}; pass {place}.")
                elif instead:
                    hints.append(f"{cls.__name__} has no parameter {name!r}: {instead}")
        return " ".join(hints)

    def set_params(self, **parameters: object) -> Self:
        """Set parameters as in scikit-learn. method__x replaces a method name by a method object with that setting."""
        named = parameters.get("method", self.method)
        if any(name.startswith("method__") for name in parameters):
            _check_method(named, type(self).__name__)
            parameters = {**parameters, "method": method_of(named) if isinstance(named, str) else named}
        instead = self._instead_of({name: value for name, value in parameters.items() if "__" not in name}, named)
        if instead:
            raise ValueError(instead)
        return cast(Self, super().set_params(**parameters))

    def _validate_params(self) -> None:
        """Check parameters as scikit-learn does; for values that other libraries have, errors name ours."""
        _check_method(self.method, type(self).__name__)
        found = of_loss(self.loss) if isinstance(self.loss, str) else None
        if found is not None:
            estimator, loss = found
            here = f"loss={loss!r}" if type(self).__name__.endswith(estimator) else f"{estimator}(loss={loss!r})"
            raise ValueError(f"{type(self).__name__} has no loss {self.loss!r}; use {here}.")
        if isinstance(self.verbose, int) and self.verbose < 0:
            raise ValueError(
                f"The 'verbose' parameter of {type(self).__name__} must be 0, which shows nothing, or 1. Got "
                f"{self.verbose!r} instead."
            )
        super()._validate_params()

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            instead = of_attribute(name)
            if instead is None:
                return super().__getattribute__(name)  # raises the error once more
            message = f"{type(self).__name__} has no attribute {name!r}; {instead}."
            raise AttributeError(message, name=name, obj=self)


class BaseAGBM(KnowsNames, ABC):
    """The common part of the estimators."""

    model_: FittedModel
    _kind: ClassVar[type[Labels]]
    _replay: Replay | None = None
    """The fit to repeat instead of a new one; see verify."""

    method: MethodName | Method
    max_iter: int | Auto
    learning_rate: float | Auto
    loss: str | Loss | LossFunction
    init: Start
    max_depth: int | None
    max_leaf_nodes: int | Auto | None
    min_samples_leaf: int | Auto
    l1_regularization: float
    l2_regularization: float | Auto
    min_split_gain: float
    max_bins: int
    categorical_features: CategoricalFeatures
    monotonic_cst: Directions
    interaction_cst: Interactions
    views: Views
    subsample: float
    colsample_bytree: float
    colsample_bynode: float | Auto
    early_stopping: bool | Auto
    n_members: int | Auto
    validation_fraction: float | None
    n_iter_no_change: int
    scoring: Scoring
    callbacks: Sequence[Watcher] | None
    warm_start: bool
    verbose: int
    random_state: RandomState
    n_jobs: int | None
    device: DeviceName

    def _set_parameters(self, given: Mapping[str, object]) -> None:
        """Set the attributes of all parameters, as __init__ does; `given` are its local variables."""
        for name in given.keys() - {"self", "__class__"}:
            setattr(self, name, given[name])

    def _fit(
        self, given: Given, validation: Given, watch: Mapping[str, Any] | None, source: RowSource | None = None
    ) -> Self:
        """Fit to rows on this machine, or to those of a row source. If fit fails, the estimator is unchanged."""
        self._validate_params()
        settings = Settings.of(self)
        given, unit = _unit_of(given)
        check_combinations(settings, validation, checkpoints_of(settings), unit)
        settings = stopping_settings(settings, stacklevel=4)
        given, validation = self._read(given), self._read(validation, "y_val")
        watched = {name: self._read(rows) for name, rows in watched_rows(watch).items()}
        earlier = self.model_ if self.warm_start and self.__sklearn_is_fitted__() else None
        if earlier is not None:
            check_continues(settings, earlier)
        chosen = _device_of_fit(settings, given.X, source)
        if chosen != "cpu":
            source = rows_of_device(chosen)
        replay = self._replay

        def prepared(settings: Settings, seed: int | None) -> Run:
            request = Request(settings, self._kind, earlier, seed=seed, unit=unit)
            return prepare(request, source, given, None if validation.X is None else validation, watched)

        of_device = replace(settings, device=chosen)
        if replay is not None:
            replay.run(settled(prepared, of_device, replay.seed))
            return self
        try:
            return self._keep(train(prepared, of_device), notes={})
        except MemoryError as error:
            if chosen == "cpu" or settings.device != "auto" or is_on_gpu(given.X):
                raise
            warnings.warn(f"device='auto': {error} The CPU is used.", UserWarning, stacklevel=3)
        source = None
        return self._keep(train(prepared, replace(settings, device="cpu")), notes={})

    def _read(self, given: Given, name: str = "y") -> Given:
        """The rows in a form that a fit can use; `name` is that of y in errors."""
        return self._with_labels(self._received(given), name)

    def _received(self, given: Given) -> Given:
        """The rows, of which only X may be on a GPU."""
        given = given._replace(X=collected(given.X))
        device = chosen_device(self.device, given.X)
        return given if device == "cpu" else rows_of_device(device).received(given)

    def _with_labels(self, given: Given, name: str = "y") -> Given:
        """The rows with labels in the form that the estimator's kind of labels reads; `name` is that of y in errors."""
        return given

    def update(
        self,
        X: FitTable,
        y: Targets | None = None,
        sample_weight: Values | None = None,
        X_val: FitTable | None = None,
        y_val: Targets | None = None,
        sample_weight_val: Values | None = None,
        *,
        mode: str,
        max_iter: int | str | None = None,
        old_weight: float | None = None,
        offset: Values | None = None,
        offset_val: Values | None = None,
        groups: Values | str | None = None,
        time: Values | str | None = None,
    ) -> Self:
        """Change the fitted model with new rows, and return the estimator; if it fails, the estimator is unchanged.

        The rows, and their groups or times, are passed as to fit. The parameters are those of the fit, and columns,
        categories and classes stay those of the model: categories that it does not know count as unknown, and y must
        not have new classes. mode is

        - "trees": up to max_iter further iterations are trained on the new rows, on top of the model. Momentum starts
          afresh. Early stopping works as in fit, with rows that are held out of the new ones, or with X_val and y_val.
        - "leaves": the structure of all trees stays. The algorithm runs again on the new rows and gives every leaf a
          new value; leaves without new rows keep their values.
        - "weights": the trees stay. The weights of groups of iterations are fitted to the new rows.
        - "all": a new model is trained on the new rows.

        "leaves" and "weights" also change the constant that the model starts from. old_weight (default: 0.3) is how
        many new rows an old training row counts for in all of these; with 0, the new rows alone count.

        After an update, except with mode="all", warm_start=True raises an error: the run cannot be resumed on one data
        set.
        """
        check_is_fitted(self)
        given = Given(X, y, sample_weight, offset, GivenUnit.of(X, groups, time))
        validation = Given(X_val, y_val, sample_weight_val, offset_val)
        return self._update(given, validation, Wanted(mode, max_iter, old_weight))

    def _update(self, given: Given, validation: Given, wanted: Wanted, source: RowSource | None = None) -> Self:
        self._validate_params()
        given, unit = _unit_of(given)
        given, validation = (rows._replace(X=collected(rows.X)) for rows in (given, validation))
        given, validation = self._with_labels(given), self._with_labels(validation, "y_val")
        return self._keep(updated(self, self._kind, given, unit, validation, wanted, source), dict(self.notes_))

    def verify(self, *rows: Any, iterations: str | int | Sequence[int] = ALL, **named_rows: Any) -> Verification:
        """Check whether the model is the one that fit returns for given rows, bit for bit.

        All arguments but iterations are those of fit. iterations is

        - "all": fit is repeated, and everything is compared.
        - a list, such as [3, 17]: these iterations, counted from 1, are grown again. All others are replayed, that is
          their trees are taken from the model, and the losses that follow are compared with the recorded ones.
        - one iteration: the ones before it are replayed and it is grown again; later ones are not checked.

        The result is true if nothing differs; its `differences` say what does, and `unchecked` what was not compared.
        See docs/guides/verification.md.
        """
        check_is_fitted(self)
        return verified_by(self, lambda checked: checked.fit(*rows, **named_rows), iterations)

    def _keep(self, model: FittedModel, notes: dict[str, str]) -> Self:
        """Set the attributes that fit sets."""
        self.model_, self.notes_ = model, notes
        return self

    n_iter_ = of_model("n_iter")
    best_iteration_ = of_model("best_iteration")
    n_trees_ = of_model("n_trees")
    history_ = of_model("history")
    resolved_params_ = of_model("resolved")
    n_features_in_ = of_model("n_columns")
    feature_names_in_ = of_model("feature_names")

    def _model_for(self, X: Table) -> FittedModel | ModelOnDevice:
        """The model, which predicts on the device that is chosen for X."""
        if not self.__sklearn_is_fitted__():  # tested first: check_is_fitted is slow compared with one row
            check_is_fitted(self)
        device = chosen_device(self.device, X)
        return self.model_ if device == "cpu" else model_on_device(device, self.model_)

    def _raw_predict(self, X: Table, offset: Values | None) -> Array:
        """Scores (output, row)."""
        return self._model_for(X).raw_predict(X, threads.resolve(self.n_jobs), offset)

    def _results(self, X: Table, offset: Values | None, kind: Result) -> Any:
        """The results of a kind for the rows of X; on the GPU if X is there."""
        return self._model_for(X).results(X, threads.resolve(self.n_jobs), offset, kind)

    def _staged(
        self, X: Table, offset: Values | None, finish: Callable[[Loss, Array], NDArray[Any]]
    ) -> Iterator[NDArray[Any]]:
        """The results of `finish` after each iteration."""
        yield from self._model_for(X).staged(X, threads.resolve(self.n_jobs), offset, finish)

    def predict_contributions(self, X: Table, background: Table | None = None) -> Array:
        """SHAP values of the raw scores, of shape (rows, features + 1) or (rows, outputs, features + 1).

        These are the contributions of the features. The raw score is the result of decision_function, or of predict
        before the inverse link. The last column is the base value, the expected score if no feature is known; each row
        sums to its score without an offset. With background rows, unknown features have the values of these
        (interventional values); otherwise those of the training rows in the same nodes. See docs/explain.md.
        """
        total = self._model_for(X).contributions(X, threads.resolve(self.n_jobs), background)
        return total[:, 0] if self._one_column() else total

    def predict_interactions(self, X: Table, background: Table | None = None) -> Array:
        """SHAP interaction values of the raw scores, of shape (rows, [outputs,] features + 1, features + 1).

        They are symmetric: the interaction of two features is divided equally between both places. Rows sum to the
        results of predict_contributions. The last place of the diagonal is the base value. See docs/explain.md.
        """
        total = self._model_for(X).contributions(X, threads.resolve(self.n_jobs), background, pairs=True)
        return total[:, 0] if self._one_column() else total

    def apply(self, X: Table) -> NDArray[np.int32]:
        """The index of the leaf that each row reaches in each tree, of shape (rows, n_trees_).

        Leaves are counted from 0 in each tree, as in LightGBM's pred_leaf and in agbm.export. The trees of a member
        follow each other in the order of training. An iteration has one tree per output, or one for all outputs if
        multi_strategy="multi_output_tree"; methods with a second tree for the momentum have this one after it.
        """
        return cast(NDArray[np.int32], self._model_for(X).leaves(X, threads.resolve(self.n_jobs)))

    @abstractmethod
    def _one_column(self) -> bool:
        """Whether contributions have no axis for outputs."""

    def explain(self, X: Table, background: Table | None = None) -> Any:
        """Return predict_contributions(X, background) as a shap.Explanation, for the plots of shap (extra: explain)."""
        check_is_fitted(self)
        return _explanation(self, collected(X), background)

    def reasons(self, X: Table, top: int = 3, background: Table | None = None) -> list[str]:
        """Explain the prediction of each row in words, with the `top` features that change it most.

        Predictions are compared with that of the base value, which is called typical. Features are added in the order
        of their effects, largest first, and each is shown with the change of the prediction when it is added: the
        change of the probability of the predicted class, per cent with a log link, or a difference. See
        docs/explain.md.
        """
        check_is_fitted(self)
        if not isinstance(top, (int, np.integer)) or top < 1:
            raise ValueError(f"top={top!r} must be a positive integer.")
        X = collected(X)
        found = self.model_.contributions(X, threads.resolve(self.n_jobs), background)
        return reasons(self.model_, X, found, top)

    def _predictor(self, kind: Result) -> Predictor:
        """A predictor of the current model, with results of a kind."""
        check_is_fitted(self)
        model = self.model_
        if not isinstance(model.start, np.ndarray):
            raise ValueError(f"predictor() needs init='prior' or init='zero'; the model has init={model.start!r}.")
        model.check_has_trees("predictor")
        start, n_threads = model.start[:, np.newaxis].copy(), threads.resolve(self.n_jobs)
        result = partial(model.labels.results, kind, model.loss)
        kernel = finish_of(model.labels, model.loss, kind)
        elsewhere = partial(predict_elsewhere, self.device)
        return Predictor(model.reader, model.folded, start, result, kernel, n_threads, elsewhere)

    @property
    def feature_importances_(self) -> Array:
        """Total gain of the splits on each feature, trees multiplied by their weights, normalised to sum to 1."""
        check_is_fitted(self)
        return self.model_.importances()

    @property
    def split_counts_(self) -> NDArray[np.intp]:
        """Number of splits on each feature, in trees with nonzero weight."""
        check_is_fitted(self)
        return self.model_.split_counts()

    @property
    def fingerprint_(self) -> str:
        """A digest of everything that predictions depend on, as 64 hexadecimal digits.

        Two models with the same fingerprint predict the same bits. It is the same for every number of threads, for
        batches, clusters and devices, and after loading. See docs/reproducibility.md.
        """
        check_is_fitted(self)
        try:
            return storage.fingerprint_of(storage.Saved(self, self.model_, {}))
        except ValueError as error:
            raise AttributeError(
                f"fingerprint_ is not defined for this model, which has no model file: {error}"
            ) from error

    def at_iteration(self, iteration: int) -> Self:
        """Return a copy of the fitted estimator whose model is that of an earlier iteration, at most best_iteration_.

        Its predictions are those of staged_predict at this iteration, up to rounding. Use it to choose an iteration by
        another criterion than the one that training stopped on.
        """
        check_is_fitted(self)
        kept = self.model_.best_iteration
        if not 0 <= iteration <= kept:
            raise ValueError(
                f"iteration={iteration} must be between 0 and best_iteration_={kept}; later iterations are not kept. "
                "To keep them, fit with early_stopping=False."
            )
        return copy(self)._keep(self.model_.at_iteration(iteration), dict(self.notes_))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file for agbm.load; docs/model-file.md describes the format.

        The file contains everything needed for predictions, staged predictions and warm_start, but no callbacks and no
        code. Raises ValueError, before anything is written, for models that could not be loaded again: models with a
        learner, a user-defined loss or an init estimator, subclasses, and models whose classes or categories are
        neither text nor numbers.
        """
        check_is_fitted(self)
        if type(self) not in ESTIMATORS.values():
            raise ValueError(
                f"{type(self).__name__} cannot be saved: model files contain no code, so only "
                f"{' and '.join(ESTIMATORS)} are supported, not subclasses. Pickle the model instead."
            )
        storage.save(storage.Saved(self, self.model_, self.notes_), path)

    def __getstate__(self) -> Any:
        """The state for pickles and copies, without the callbacks of a fitted model.

        Callbacks may hold files, connections or lambdas, which cannot be pickled.
        """
        state = super().__getstate__()
        return {**state, "callbacks": None} if self.__sklearn_is_fitted__() else state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = isinstance(self.method, str) or self.method.learner is None
        tags.input_tags.sparse = True
        return tags


def _unit_of(given: Given) -> tuple[Given, Unit]:
    """The rows with the values of their groups or times, and which of these they are."""
    if given.unit is None:
        return given, "rows"
    unit = cast(GivenUnit, given.unit)
    return given._replace(unit=unit.values), unit.kind


def _device_of_fit(settings: Settings, X: Any, source: RowSource | None) -> DeviceName:
    """Where trees are grown; "auto" leaves clusters and custom learners to the CPU."""
    if settings.device == "auto" and (source is not None or settings.method.learner is not None):
        return "cpu"
    if settings.device != "cpu" and source is not None:
        raise ValueError(f"device={settings.device!r}: workers of a cluster grow trees on their CPUs; use 'cpu'.")
    return chosen_device(settings.device, X)


def loaded(path: str | os.PathLike[str]) -> storage.Saved:
    """The contents of a model file; the estimator is fitted."""
    saved = storage.load(path, ESTIMATORS)
    cast(BaseAGBM, saved.estimator)._keep(saved.model, saved.notes)
    return saved


def verified_by(estimator: BaseAGBM, fit: Callable[[Any], Any], iterations: str | int | Sequence[int]) -> Verification:
    """The result of BaseAGBM.verify with the rows that `fit` fits an estimator to."""
    checked, replay = Replay.of(estimator, iterations)
    checked._replay = replay
    fit(checked)
    assert replay.found is not None
    return replay.found


def _explanation(model: BaseAGBM, X: Table, background: Table | None) -> Any:
    """A shap.Explanation for the rows of X.

    Plots take their colours from numbers, with codes for categories, and show the values of X. Outputs are on the last
    axis, as in shap.
    """
    try:
        from shap import Explanation  # an optional dependency, and slow to import
    except ImportError as error:
        raise ImportError(
            "explain() needs shap: pip install 'agbm[explain]'. predict_contributions() works without it."
        ) from error
    contributions = model.predict_contributions(X, background)
    values = contributions if contributions.ndim == 2 else np.moveaxis(contributions, 1, -1)
    n_features = values.shape[1] - 1
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    return Explanation(
        values=values[:, :n_features],
        base_values=values[:, n_features],
        data=_dense(model.model_.reader.numbers(X))[:, :n_features],
        display_data=_dense(X),
        feature_names=[f"Feature {j}" for j in range(n_features)] if names is None else list(names),
        output_names=None if classes is None or values.ndim == 2 else [str(label) for label in classes],
    )


def _dense(X: Any) -> AnyArray:
    return X.toarray() if issparse(X) else np.asarray(X)


class CalibratedAGBM(BaseAGBM):
    """The common part of estimators whose intervals or sets of classes can be calibrated."""

    def calibrate(
        self,
        X: FitTable,
        y: Targets | None = None,
        sample_weight: Values | None = None,
        *,
        group: int | str | None = None,
        offset: Values | None = None,
    ) -> Self:
        """Calibrate intervals or sets of classes by rows that the model was not trained on; returns the estimator.

        This is split conformal prediction. It replaces the calibration by the rows that fit has held out. The rows are
        passed as to fit, in memory or as agbm.Batches. Integers in sample_weight are numbers of repetitions; for
        floats, only ratios matter, and a row to predict has the largest of these weights. group is the name or position
        of a column of X: coverage then holds for the rows of each of its values, and predictions read the column again.
        See docs/guides/uncertainty.md.
        """
        check_is_fitted(self)
        given, n_threads = Given(X, y, sample_weight, offset), threads.resolve(self.n_jobs)
        self.model_ = replace(self.model_, calibration=calibrated(self.model_, given, group, n_threads))
        return self
