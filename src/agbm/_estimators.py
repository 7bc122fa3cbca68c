"""scikit-learn estimators: validate, encode, call boosting. No algorithm here."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy, deepcopy
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_X_y
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_monotonic_cst,
    _check_y,
    _num_samples,
    check_array,
    check_is_fitted,
    validate_data,
)

from . import _threads
from ._core import boosting
from ._core.dropout import Dropout
from ._core.ensemble import Ensemble
from ._core.learners import Fitter, Learner, RegressorLearner, V
from ._core.losses import (
    CLASSIFICATION_LOSSES,
    LOSS_METHODS,
    REGRESSION_LOSSES,
    Array,
    BuiltInLoss,
    Exponential,
    LogLoss,
    Loss,
    Multinomial,
    Tweedie,
)
from ._core.objective import LocalObjective, Objective, Outputs, of_each_output, start_residual
from ._core.replay import ReplayingFitter
from ._core.run import Plan, Run
from ._core.sums import exact_mean
from ._core.theory import Fading, Momentum, Schedule
from ._core.training import EarlyStopping, Watcher, after, warn_diverged, watch
from ._core.weights import Weights, check_sample_weight, class_factors
from ._data.batches import Batches, blocks_of
from ._data.blocks import (
    BlockReader,
    Blocks,
    BlockTable,
    Gathered,
    LocalBlocks,
    Looked,
    OneTable,
    Places,
    WithValidation,
    check_columns,
    gather,
    naming,
)
from ._data.hold_out import hold_out, seed_of
from ._data.rows import Rows, check_y_val, plain, refuse_dates, some_of, weighted_rows
from ._data.tables import Categories, as_table, categorical_mask, explain, missing, needs_reading
from ._explanation import explanation
from ._parameters import CONSTRAINTS, check_combinations, documentation, interaction_groups
from ._predictor import Predictor
from ._progress import progress
from ._storage.checkpoint import Checkpoint
from ._storage.identity import UnidentifiedError, fingerprints, identity_of
from ._tree import Forest, TreeLearner
from ._tree.forest import gain_by_feature

# With early_stopping="auto", data sets with more rows stop early; smaller ones can spare no rows.
AUTO_EARLY_STOPPING_ROWS = 10_000

# With max_iter="auto": many where the run stops early, else as many as is usual.
AUTO_ITERATIONS = 1_000
AUTO_ITERATIONS_TO_THE_END = 100

# With max_depth="auto": so many levels that a full tree has this many training rows a leaf, within bounds.
AUTO_ROWS_A_LEAF = 125
AUTO_DEPTH = 3, 6

# With min_samples_leaf="auto": a leaf may have one such part of the training rows, within bounds.
AUTO_LEAVES = 500
AUTO_MIN_SAMPLES_LEAF = 2, 10

# With l2_regularization="auto". Where leaves count rows, the first. Else as if a leaf had so many more rows with
# residual zero, which depends on no unit. The hessians of classes have none: they are the noise of the gradient, and
# the third is a prior of leaf values; where their mean is below the fourth it is less, in proportion.
AUTO_L2_OF_COUNTS = 1.0
AUTO_L2_ROWS = 7.0
AUTO_L2_OF_CLASSES = 7.0
AUTO_L2_HESSIAN = 0.05

# Parameters of which the model does not depend, given its number of iterations.
_WITHOUT_EFFECT = {
    "max_iter", "n_iter_no_change", "tol", "callbacks", "warm_start", "verbose", "random_state", "n_jobs",
}  # fmt: skip


class _BaseAGBM(BaseEstimator, ABC):  # type: ignore[misc]
    """What the regressor and the classifier share."""

    _numeric_labels: ClassVar[bool]
    _losses: ClassVar[dict[str, Callable[[], Loss]]]
    _ensemble: Ensemble
    _categories: Categories
    _seed: int
    _held_out: bool

    def __init__(
        self,
        *,
        method: str = "fading",
        max_iter: int | str = "auto",
        learning_rate: float | str = 0.1,
        momentum: float | str = "fading",
        entry: float = 6.0,
        fade: float = 0.4,
        rate_growth: float = 0.01,
        look_ahead: float = 2.0,
        correction: float = 0.5,
        shared_structure: bool = True,
        restart: str = "loss_rise",
        strong_convexity: float | None = None,
        loss: str | Loss = "auto",
        multi_strategy: str = "one_output_per_tree",
        second_order: bool = True,
        init: Any = "prior",
        max_depth: int | str | None = "auto",
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int | str = "auto",
        l2_regularization: float | str = "auto",
        min_split_gain: float = 0.0,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        dropout: float = 0.0,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        tol: float = 1e-7,
        learner: Any = None,
        callbacks: Sequence[Watcher] | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.method = method
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.momentum = momentum
        self.entry = entry
        self.fade = fade
        self.rate_growth = rate_growth
        self.look_ahead = look_ahead
        self.correction = correction
        self.shared_structure = shared_structure
        self.restart = restart
        self.strong_convexity = strong_convexity
        self.loss = loss
        self.multi_strategy = multi_strategy
        self.second_order = second_order
        self.init = init
        self.max_depth = max_depth
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.min_split_gain = min_split_gain
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.interaction_cst = interaction_cst
        self.subsample = subsample
        self.colsample_bytree = colsample_bytree
        self.colsample_bynode = colsample_bynode
        self.dropout = dropout
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.learner = learner
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.verbose = verbose
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit(self, X: Any, y: Any, sample_weight: Any, X_val: Any, y_val: Any) -> Self:
        before = dict(self.__dict__)
        try:
            self._validate_params()
            self._check_combinations(X_val, y_val)
            blocks = self._blocks_of(X, y, sample_weight)
            if blocks is None:
                return self._train(self._prepare(X, y, sample_weight, X_val, y_val))
            return self._train(self._prepare_blocks(*blocks, self._validation_blocks(X_val, y_val)))
        except BaseException:  # a fit that fails or is interrupted leaves the model as it was
            self.__dict__ = before
            raise

    def _blocks_of(self, X: Any, y: Any, sample_weight: Any) -> tuple[Blocks, Any, Any] | None:
        """The blocks of X, with y and sample_weight of all rows where blocks do not have them; None for a table."""
        return blocks_of(X, y, sample_weight)

    def _prepare(self, X: Any, y: Any, sample_weight: Any, X_val: Any, y_val: Any) -> Run[Array]:
        """A run on a table."""
        rows = self._check_training_rows(X, y, sample_weight)
        plan = self._plan(
            rows, X_val is not None, lambda parts: identity_of(parts, [self._known_categorical(), *rows.arrays()])
        )
        n_train = rows.n
        if X_val is not None:
            rows = rows.followed_by(*self._check_validation_rows(X_val, y_val))
        elif plan.held_out:
            rows, n_train = self._hold_out(rows)
        start, problem = self._make_problem(plan.loss, rows, n_train)
        learner = self._make_learner(plan.loss, problem)
        fitter = learner.bind(rows.X, n_train, problem.train_weights, start_residual(problem))
        return Run(plan, start, problem, learner, fitter)

    def _prepare_blocks(
        self, blocks: Blocks, y: Any, sample_weight: Any, validation: tuple[Blocks, Any] | None
    ) -> Run[Any]:
        """A run on blocks of rows; y and sample_weight are of all rows, or None where the blocks have them.

        In `rows`, the numbers of the rows stand for their features.
        """
        if self.learner is not None:
            raise ValueError(
                f"learner={self.learner!r} needs all rows at once; use learner=None, or give X as a table."
            )
        given = gather(blocks, y, sample_weight)
        rows, sample_weight = self._check_block_labels(given)
        table = BlockTable(blocks, Places(given.n_rows, rows.X, rows.n))
        plan = self._plan(
            rows,
            validation is not None,
            lambda parts: identity_of(parts, [*rows.arrays()[1:], *self._digested(table)]),
        )
        n_rows, n_train = given.n_rows, rows.n
        if validation is not None:
            watched, y_val = self._check_validation_blocks(*validation, given)
            numbers = given.total + np.arange(watched.total)
            rows, n_rows = rows.followed_by(numbers, y_val, None), n_rows + watched.n_rows
            blocks = WithValidation(blocks, validation[0], len(given.n_rows))
        elif plan.held_out:
            rows, n_train = self._hold_out(rows)
        table = BlockTable(blocks, Places(n_rows, rows.X, n_train))
        looked = self._look(table, sample_weight, None if rows.weights is None else rows.weights[:n_train])
        self._categories = looked.categories
        start, problem = self._make_problem(plan.loss, replace(rows, start=looked.start), n_train)
        learner = self._make_learner(plan.loss, problem)
        assert isinstance(learner, TreeLearner)
        bins = table.bins(looked, learner, problem.train_weights, start_residual(problem))
        del looked  # the sample takes memory, as the matrix will
        reader = BlockReader(self._for_reading()._check_table, bins)
        return Run(plan, start, *self._bind_blocks(plan.loss, learner, table, reader, problem))

    def _bind_blocks(
        self, loss: Loss, learner: TreeLearner, table: BlockTable, reader: BlockReader, problem: LocalObjective
    ) -> tuple[Objective[Any], TreeLearner, Fitter[Any]]:
        """The objective, the learner and a fitter on the codes of blocks."""
        blocks = table.blocks.training if isinstance(table.blocks, WithValidation) else table.blocks
        matrix = table.encode(reader, cast(LocalBlocks, blocks).folder, learner.n_threads)
        return problem, learner, learner.bind_codes(reader.bins, matrix, problem.n_train, problem.train_weights)

    def _look(self, table: BlockTable, sample_weight: NDArray[Any] | None, train_weights: Weights | None) -> Looked:
        start_values = self._for_reading()._init_values
        known = self._categories if self._goes_on() else None
        return table.look(self.categorical_features, start_values, sample_weight, train_weights, known)

    def _known_categorical(self) -> NDArray[np.intp]:
        """Features that are categories: in a table of codes they look like numbers."""
        return np.array(sorted(self._categories.of), dtype=np.intp)

    def _digested(self, table: BlockTable) -> Iterator[NDArray[Any]]:
        """What a checkpoint knows the features of blocks by: categories, some of the rows, values of init.

        The sample does not tell categories apart. Their sums of random numbers, one per row, tell which rows have them.
        """
        n_rows = table.places.n_train
        largest = 2 ** (52 - n_rows.bit_length())  # such that sums are exact
        looked = self._look(table, None, Weights(np.random.default_rng(0).integers(1, largest, n_rows), None))
        yield np.array([repr(looked.categories.of)])
        yield from looked.category_weight.values()
        yield np.asarray(looked.sample, dtype=np.float64)
        yield from ([] if looked.start is None else [looked.start])

    def _for_reading(self) -> Self:
        """A copy that checks tables as this estimator does and has no model: it may travel."""
        names = {*self._parameter_constraints, "_categories", "_label_shape", "classes_"}
        names |= {"n_features_in_", "feature_names_in_"}
        bare = copy(self)
        bare.__dict__ = {name: value for name, value in self.__dict__.items() if name in names}
        bare.callbacks = None
        return bare

    def _validation_blocks(self, X_val: Any, y_val: Any) -> tuple[Blocks, Any] | None:
        """Blocks of validation rows, and their labels where the blocks have none."""
        if X_val is None:
            return None
        with naming("X_val"):
            found = self._blocks_of(X_val, y_val, None)
        return (OneTable(as_table(X_val), None), y_val) if found is None else found[:2]

    def _check_block_labels(self, given: Gathered) -> tuple[Rows, NDArray[Any] | None]:
        """The rows that training may use, by their numbers, and the sample weights of all rows."""
        # Names and number of features.
        validate_data(self, given.head, reset=not self._goes_on(), skip_check_array=True)
        if given.y is None:
            raise ValueError("y=None: give the labels of all rows, or batches (X, y).")
        self._check_present(given.y)
        y = _check_y(given.y, multi_output=self._numeric_labels, y_numeric=self._numeric_labels, estimator=self)
        sample_weight = None if given.weight is None else check_sample_weight(given.weight, y)
        kept, weights, encoded = self._weigh(y, sample_weight)
        return Rows(np.arange(len(y))[kept], encoded, weights, None), sample_weight

    def _check_validation_blocks(self, blocks: Blocks, y_val: Any, given: Gathered) -> tuple[Gathered, Array]:
        with naming("X_val"):
            watched = gather(blocks, y_val, None, "y_val")
            check_columns(watched.head, given.head, "X")
        return watched, self._encode_validation(watched.y, watched.total)

    def _plan(self, rows: Rows, has_validation: bool, identity: Callable[[dict[str, str]], str]) -> Plan:
        """What follows from the labels; `identity` tells fingerprints with these rows from others."""
        loss = self._make_loss()
        stops_early = self._stops_early(rows.n, has_validation)
        held_out = stops_early and not has_validation
        earlier, self._seed = self._earlier_run(held_out, identity)
        self._held_out = held_out
        max_iter = self._max_iterations(stops_early)
        return Plan(loss, max_iter, stops_early, earlier, held_out)

    def _hold_out(self, rows: Rows) -> tuple[Rows, int]:
        """Training rows first, with their number, and held-out rows behind."""
        train, watched = self._split(rows.y)
        return rows.take(np.concatenate([train, watched])), len(train)

    def _make_problem(self, loss: Loss, rows: Rows, n_train: int) -> tuple[Any, LocalObjective]:
        """The start function, and the problem of the first n_train rows."""
        rows.y.setflags(write=False)  # a loss of the user's may not change it
        self._check_labels(loss, rows.y, n_train)
        start: Any = deepcopy(self.init)  # what becomes of a given model later is not our model's business
        if isinstance(start, str):
            start = self._start_constants(loss, rows.y[..., :n_train], rows.weights)
        start_values = rows.start
        if start_values is None:
            start_values = np.broadcast_to(start[:, np.newaxis], (len(start), rows.n))
        n_threads = _threads.resolve(self.n_jobs)
        joint = self._joint(loss)
        return start, LocalObjective(joint, rows.y, n_train, start_values, rows.weights, self.second_order, n_threads)

    def _train(self, run: Run[V]) -> Self:
        """Run the algorithm, and keep what it has found."""
        plan, problem, fitter, ensemble = run.plan, run.objective, run.fitter, Ensemble()
        n_known = 0 if plan.earlier is None else len(plan.earlier)
        if plan.earlier is not None:
            fitter = ReplayingFitter(plan.earlier, fitter, problem)
        steps = self._steps(problem, fitter, plan.max_iter, ensemble)
        with progress(self.method, plan.max_iter, self.verbose) as bar:
            watchers = [after(n_known, callback) for callback in self._begin(ensemble)]
            if bar is not None:
                watchers.append(bar)
            if plan.stops_early:
                watchers.append(EarlyStopping(self.n_iter_no_change, self.tol))
            history, diverged = watch(steps, problem, ensemble, watchers)

        best = history.records[-1].iteration
        if plan.stops_early or diverged:
            best = history.best_iteration(by_validation=problem.has_validation)
        ensemble.truncate(best)
        if diverged:
            warn_diverged(history, best)
        self._fitted_parameters = self._parameters_with_effect()
        self._fitted_fingerprints = self._known_fingerprints()
        self._fitted_start = run.start
        self._fitted_loss = plan.loss
        self._ensemble = ensemble
        self._folded = ensemble.fold(run.learner, self._n_outputs)
        self.n_iter_ = history.records[-1].iteration
        self.best_iteration_ = best
        self.n_trees_ = ensemble.n_learners
        self.history_ = history.columns()
        self.notes_: dict[str, str] = {}
        return self

    def _check_labels(self, loss: Loss, y: Array, n_train: int) -> None:
        """Whether the loss allows the labels of each output: those of the training rows, and those of all rows."""
        for labels in y if y.ndim == 2 else [y]:
            loss.check(labels[:n_train])
            loss.check(labels)

    def _earlier_run(self, held_out: bool, identity: Callable[[dict[str, str]], str]) -> tuple[Ensemble | None, int]:
        """The run that this one goes on from, of warm_start or a checkpoint, and the seed of both."""
        earlier, seed = None, seed_of(self.random_state)
        if self._goes_on():
            if held_out != self._held_out:
                held, given = ("no rows", "not given") if held_out else ("some rows", "given")
                raise ValueError(
                    f"warm_start=True goes on with the training rows of the last fit, which held {held} out for early "
                    f"stopping; with X_val {given} others would be used. Give X_val as before, or use warm_start=False."
                )
            earlier, seed = self._ensemble, self._seed
        for checkpoint in self._checkpoints():
            saved = checkpoint.load(
                identity(self._fingerprints(checkpoint, seed, held_out)), self.n_features_in_, self._n_outputs
            )
            if saved is not None and len(saved[0]) > (0 if earlier is None else len(earlier)):
                earlier, seed = saved
        return earlier, seed

    def _fingerprints(self, checkpoint: Checkpoint, seed: int, held_out: bool) -> dict[str, str]:
        """Of everything but rows that the run of a checkpoint depends on."""
        parameters = self._parameters_with_effect()
        parameters["seed"] = seed if isinstance(self.random_state, (int, np.integer)) else None
        parameters["held_out"] = held_out
        parameters["features"] = list(getattr(self, "feature_names_in_", range(self.n_features_in_)))
        if not isinstance(self.init, str):  # a run depends on its values, which are among the rows
            parameters["init"] = None
        with naming(repr(checkpoint)):
            return fingerprints(parameters)

    def _checkpoints(self) -> list[Checkpoint]:
        return [callback for callback in self.callbacks or () if isinstance(callback, Checkpoint)]

    def _begin(self, ensemble: Ensemble) -> Sequence[Watcher]:
        """The callbacks, with checkpoints told which run to save."""
        for checkpoint in self._checkpoints():
            checkpoint.begin(ensemble, self._seed)
        return self.callbacks or ()

    def _start_constants(self, loss: Loss, y: Array, weights: Weights | None) -> Array:
        if self.init == "zero":
            return np.zeros(self._n_outputs)
        weight = None if weights is None else weights.total[: y.shape[-1]]
        if y.ndim == 1:
            return np.asarray(loss.best_constant(y, weight), dtype=np.float64)
        return np.array([float(loss.best_constant(labels, weight)) for labels in y])

    def _joint(self, loss: Loss) -> Loss | Outputs:
        """The loss of all outputs at once."""
        return loss if self._one_label_for_all_outputs() else of_each_output(loss)

    def _check_combinations(self, X_val: Any, y_val: Any) -> None:
        """Parameters that are fine alone and not together."""
        check_combinations(self, saves_checkpoints=bool(self._checkpoints()))
        for checkpoint in self._checkpoints():
            checkpoint.check_path()
        if self._goes_on():
            self._check_going_on()
        if (X_val is None) != (y_val is None) and not isinstance(X_val, Batches):  # which may have labels of their own
            missing, given = ("y_val", "X_val") if y_val is None else ("X_val", "y_val")
            raise ValueError(f"{missing}=None: X_val and y_val must be given together, got {given} alone.")

    def _check_going_on(self) -> None:
        """A run that goes on is the same run: what would have changed its earlier iterations must not change."""
        parameters = self._parameters_with_effect()
        with naming("warm_start=True"):
            now = fingerprints(parameters)
            # A model that was read from a file has none; its parameters are those of the file.
            then = getattr(self, "_fitted_fingerprints", None) or fingerprints(self._fitted_parameters)
        changed = [self._change(name) for name in parameters if now[name] != then.get(name)]
        if changed:
            raise ValueError(
                f"warm_start=True needs the parameters of the last fit, got {', '.join(changed)}; set them "
                "back, or use warm_start=False."
            )

    def _change(self, name: str) -> str:
        """What has become of a parameter since the last fit."""
        now, then = repr(getattr(self, name)), repr(self._fitted_parameters[name])
        return f"{name}={now} (was {then})" if now != then else f"{name}={now} (has changed inside)"

    def _parameters_with_effect(self) -> dict[str, Any]:
        """Those that change the model of a given number of iterations."""
        return {name: getattr(self, name) for name in self._parameter_constraints if name not in _WITHOUT_EFFECT}

    def _known_fingerprints(self) -> dict[str, str]:
        """Of the parameters now: objects may change later. Those that have none cannot be gone on with."""
        known: dict[str, str] = {}
        for name, value in self._parameters_with_effect().items():
            with suppress(UnidentifiedError):
                known |= fingerprints({name: value})
        return known

    def _goes_on(self) -> bool:
        return self.warm_start and self.__sklearn_is_fitted__()

    def _make_loss(self) -> Loss:
        loss = self._loss_of_name(self.loss) if isinstance(self.loss, str) else self.loss
        return loss.with_threads(_threads.resolve(self.n_jobs)) if isinstance(loss, BuiltInLoss) else loss

    def _loss_of_name(self, name: str) -> Loss:
        return self._losses[name]()

    def _stops_early(self, n_rows: int, has_validation: bool) -> bool:
        if self.early_stopping == "auto":
            return has_validation or n_rows > AUTO_EARLY_STOPPING_ROWS
        return bool(self.early_stopping)

    def _max_iterations(self, stops_early: bool) -> int:
        if isinstance(self.max_iter, str):
            wanted = AUTO_ITERATIONS if stops_early else AUTO_ITERATIONS_TO_THE_END
        else:
            wanted = self.max_iter
        if self._goes_on() and wanted < self.best_iteration_:
            here = f" (here {wanted})" if isinstance(self.max_iter, str) else ""
            raise ValueError(
                f"max_iter={self.max_iter!r}{here} must be at least best_iteration_={self.best_iteration_}, the "
                "iterations that the model has, with warm_start=True; give a larger one, or use warm_start=False."
            )
        return wanted

    def _check_training_rows(self, X: Any, y: Any, sample_weight: Any) -> Rows:
        goes_on = self._goes_on()
        self._check_present(y)
        if not goes_on:
            table = as_table(X)
            mask = categorical_mask(table, self.categorical_features)
            weight = None if sample_weight is None or not mask.any() else check_sample_weight(sample_weight, table)
            self._categories = Categories.learn(table, mask, weight)
        checked, y = self._check_table(X, y, reset=not goes_on)
        kept, weights, encoded = self._weigh(
            y, None if sample_weight is None else check_sample_weight(sample_weight, checked)
        )
        start = self._init_values(X)
        if encoded.shape[-1] < len(y):
            checked, start = checked[kept], None if start is None else start[:, kept]
        return Rows(plain(checked), encoded, weights, start)

    def _weigh(self, y: NDArray[Any], sample_weight: NDArray[Any] | None) -> tuple[Any, Weights | None, Array]:
        """The rows that have weight, their weights with those of their classes, and their encoded labels.

        Rows without weight must change nothing: not bins, not classes, not a split.
        """
        kept: Any = slice(None)  # all of them, without a list and without a copy
        if sample_weight is not None:
            kept = weighted_rows(sample_weight, "sample_weight")
            sample_weight = sample_weight[kept]
        of_class = self._class_factors(y[kept], sample_weight)
        if of_class is not None:
            rows = weighted_rows(of_class, "class_weight")
            kept, of_class = np.arange(len(y))[kept][rows], of_class[rows]
            sample_weight = None if sample_weight is None else sample_weight[rows]
        return kept, Weights.of(sample_weight, of_class), self._encode_fit(y[kept])

    def _check_present(self, y: Any) -> None:
        """Labels must not be missing, and those of a regressor must be numbers; scikit-learn's checks say the rest."""
        refuse_dates(y, "y")

    def _check_validation_rows(self, X_val: Any, y_val: Any) -> tuple[Any, Array, Array | None]:
        """Their features, encoded labels and values of an init model."""
        try:
            checked = self._check_table(X_val)
        except ValueError as error:
            raise ValueError(f"X_val: {error}") from error
        return plain(checked), self._encode_validation(y_val, checked.shape[0]), self._init_values(X_val)

    def _check_table(self, X: Any, y: Any = "no_validation", reset: bool = False) -> Any:
        """X, or X and y, as scikit-learn checks them, X with numbers for categories."""
        options: dict[str, Any] = {
            "dtype": [np.float64, np.float32],
            "ensure_all_finite": False,  # trees take NaN and infinity, other learners check for themselves
            "accept_sparse": "csr",
        }
        has_y = not (isinstance(y, str) and y == "no_validation")
        labels = {"y_numeric": self._numeric_labels, "multi_output": self._numeric_labels} if has_y else {}
        try:
            table = as_table(X)
            if not self._categories.of and not needs_reading(table):
                return validate_data(self, X, y, reset=reset, **options, **labels)
            validate_data(self, X, reset=reset, skip_check_array=True)  # names and number of features
            encoded = self._categories.encode(table)
            if has_y:
                return check_X_y(encoded, y, estimator=self, **options, **labels)
            return check_array(encoded, estimator=self, input_name="X", **options)
        except ValueError as error:
            explained = explain(error, X, getattr(self, "feature_names_in_", None))
            if explained is error:  # an error that is its own cause is never at its end
                raise
            raise explained from error

    def _class_factors(self, y: NDArray[Any], sample_weight: NDArray[Any] | None) -> Array | None:
        """The weights of the rows' classes; None where all weigh the same."""
        return None

    def _init_values(self, X: Any) -> Array | None:
        return None if isinstance(self.init, str) else self._start_values(self.init, self._make_loss(), X)

    def _split(self, y: Array) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Training rows and rows held out for early stopping."""
        try:
            return hold_out(y.shape[-1], self.validation_fraction, self._stratify(y), self._seed)
        except ValueError as error:
            raise ValueError(
                f"early_stopping={self.early_stopping!r} with validation_fraction={self.validation_fraction}: {error} "
                "Give X_val and y_val, or use early_stopping=False."
            ) from error

    def _make_learner(self, loss: Loss, problem: LocalObjective) -> Learner:
        if self.learner is None:
            monotone = _check_monotonic_cst(self, self.monotonic_cst)
            n_categories = self._categories.counts(self.n_features_in_)
            self._check_monotone(monotone, n_categories > 0)
            max_depth, min_samples_leaf = self._tree_size(problem)
            return TreeLearner(
                max_depth=max_depth,
                max_leaf_nodes=self.max_leaf_nodes,
                min_samples_leaf=min_samples_leaf,
                min_leaf_hessian=getattr(loss, "min_leaf_hessian", 0.0),
                l2_regularization=self._l2(problem),
                min_split_gain=self.min_split_gain,
                max_bins=self.max_bins,
                shared_structure=self.shared_structure,
                vector_leaves=self.multi_strategy == "multi_output_tree",
                n_categories=n_categories,
                monotone=monotone.tolist() if monotone.any() else (),
                interactions=interaction_groups(self.interaction_cst, self.n_features_in_),
                subsample=self.subsample,
                colsample_bytree=self.colsample_bytree,
                colsample_bynode=self.colsample_bynode,
                seed=self._seed,
                n_threads=_threads.resolve(self.n_jobs),
            )
        learner = RegressorLearner(self.learner, self._seed, self._n_outputs)
        if self._categories.of:
            raise ValueError(
                f"X has categorical features ({sorted(self._categories.of)}), which work with trees only, got "
                f"learner={self.learner!r}; encode them, or use categorical_features=None."
            )
        if self.second_order and not loss.constant_hessian and not learner.takes_weights:
            raise ValueError(
                f"second_order=True needs a learner whose fit takes sample_weight, got learner={self.learner!r}; "
                "use second_order=False."
            )
        return learner

    def _tree_size(self, problem: LocalObjective) -> tuple[int | None, int]:
        """max_depth and min_samples_leaf; "auto" follows the number of training rows, whatever their weights."""
        n = problem.n_train
        depth, fewest = self.max_depth, self.min_samples_leaf
        if depth == "auto":
            full = (n // AUTO_ROWS_A_LEAF).bit_length() - 1
            depth = None if self.max_leaf_nodes is not None else min(max(full, AUTO_DEPTH[0]), AUTO_DEPTH[1])
        if fewest == "auto":
            fewest = min(max(n // AUTO_LEAVES, AUTO_MIN_SAMPLES_LEAF[0]), AUTO_MIN_SAMPLES_LEAF[1])
        return cast(int | None, depth), cast(int, fewest)

    def _l2(self, problem: LocalObjective) -> float:
        """What leaves add to their sums of hessians, or to their rows."""
        given = None if isinstance(self.l2_regularization, str) else self.l2_regularization
        if given is not None and problem.quantile is None:
            return given
        hessian = problem.hessian(problem.start)
        if hessian is None:
            return AUTO_L2_OF_COUNTS if given is None else given
        mean = exact_mean(hessian, problem.train_weight, problem.n_threads)
        if given is not None:
            return given * mean
        if isinstance(problem.loss, (LogLoss, Exponential, Multinomial)):
            return AUTO_L2_OF_CLASSES * min(1.0, mean / AUTO_L2_HESSIAN)
        return AUTO_L2_ROWS * mean

    def _check_monotone(self, monotone: NDArray[np.int8], categorical: NDArray[np.bool_]) -> None:
        both = np.flatnonzero((monotone != 0) & categorical)
        if len(both):
            raise ValueError(
                f"monotonic_cst={self.monotonic_cst!r}: features {both.tolist()} are categorical and have no order; "
                "give them 0."
            )

    def _steps(
        self,
        problem: Objective[V],
        fitter: Fitter[V],
        max_iter: int,
        ensemble: Ensemble,
    ) -> Iterator[boosting.Step[V]]:
        """The algorithm that `method` names."""
        shared: dict[str, Any] = {"max_iter": max_iter}
        if self.dropout > 0.0:
            shared["drop"] = Dropout(self.dropout, self._seed, problem, ensemble, fitter)
        if self.method == "gbm":
            eta = None if isinstance(self.learning_rate, str) else self.learning_rate
            return boosting.gbm(problem, fitter, eta=eta, **shared)
        rate = float(self.learning_rate)
        if self.method == "fading":
            return boosting.fading(problem, fitter, schedule=self._fading(rate, self.look_ahead), **shared)
        shared["schedule"] = self._schedule(rate)
        if self.method == "vagbm":
            return boosting.vagbm(problem, fitter, **shared)
        shared["correction"] = self.correction
        if self.method == "agbm":
            del shared["max_iter"]
            return boosting.agbm(problem, fitter, length=lambda gamma: max_iter, **shared)
        return boosting.agbmr(problem, fitter, restart=self._restart_rule(problem), **shared)

    def _schedule(self, rate: float) -> Schedule:
        if self.momentum == "fading":
            return self._fading(rate, look_ahead=0.0)  # the paper's loops look ahead in their own way
        return Momentum(rate, self.momentum)

    def _fading(self, rate: float, look_ahead: float) -> Fading:
        return Fading(rate, min(self.entry * rate, 1.0), self.fade, self.rate_growth, look_ahead)

    def _restart_rule(self, problem: Objective[V]) -> boosting.Rule[V] | float:
        """Or, for a fixed length, the strong-convexity constant that it follows from."""
        if self.strong_convexity is not None:
            return self.strong_convexity
        if self.restart == "validation_rise" and not problem.has_validation:
            raise ValueError(
                "restart='validation_rise' needs validation rows: give X_val and y_val, or use early_stopping=True."
            )
        return {
            "loss_rise": boosting.loss_rises,
            "gradient": boosting.gradient_turns,
            "validation_rise": boosting.validation_loss_rises,
        }[self.restart]

    def _start_values(self, start: Any, loss: Loss, X: Any) -> Array:
        """The start function f^0 on the rows of X as the user gave them: (output, row), or (output, 1) if constant."""
        if isinstance(start, np.ndarray):
            return start[:, np.newaxis]
        n_rows = _num_samples(X)
        if isinstance(start, BaseEstimator):
            check_is_fitted(start)
        values = np.asarray(self._raw_score_of(start, loss)(X), dtype=np.float64)
        scores = values[np.newaxis] if values.ndim == 1 else values.T
        if scores.shape != (self._n_outputs, n_rows) or not np.isfinite(scores).all():
            log_link = ", and positive ones for a log link" if isinstance(loss, Tweedie) else ""
            raise ValueError(
                f"init={start!r} must give {self._n_outputs} finite numbers per row{log_link}; got an array of shape "
                f"{values.shape}, {np.count_nonzero(~np.isfinite(scores))} of them not finite or without a logarithm."
            )
        return np.ascontiguousarray(scores)

    def _raw_predict(self, X: Any) -> Array:
        """Scores (output, row)."""
        if not self.__sklearn_is_fitted__():  # asked first: the check takes longer than a row
            check_is_fitted(self)
        checked = plain(self._check_table(X))
        values = self._folded.predict(checked, _threads.resolve(self.n_jobs))[0]
        return np.asarray(self._start_values(self._fitted_start, self._fitted_loss, X) + values)

    def _staged_raw_predict(self, X: Any) -> Iterator[Array]:
        check_is_fitted(self)
        checked = plain(self._check_table(X))
        start = self._start_values(self._fitted_start, self._fitted_loss, X)
        start = np.broadcast_to(start, (len(start), checked.shape[0]))
        yield from self._ensemble.staged(checked, start, _threads.resolve(self.n_jobs))

    def predict_contributions(self, X: Any) -> Array:
        """What each feature adds to the raw score of each row: (row, feature + 1), or (row, output, feature + 1).

        The raw score is what decision_function gives, or predict before the inverse link. The last place has its
        expected value where no feature is known; all places of a row add up to the score. See docs/explain.md.
        """
        check_is_fitted(self)
        self._check_has_trees("predict_contributions")
        checked, n_features = plain(self._check_table(X)), self.n_features_in_
        total = np.zeros((checked.shape[0], self._n_outputs, n_features + 1))
        if isinstance(self._folded, Forest):  # else there are no trees
            total = self._folded.contributions(checked, _threads.resolve(self.n_jobs))[0].transpose(1, 0, 2)
        total[..., n_features] += self._start_values(self._fitted_start, self._fitted_loss, X).T
        return total[:, 0] if self._n_outputs == 1 and not getattr(self, "_label_shape", ()) else total

    def explain(self, X: Any) -> Any:
        """What predict_contributions gives as an Explanation of the shap package, for its plots (extra: explain)."""
        return explanation(self, X, self._check_table)

    def _check_has_trees(self, asked: str) -> None:
        if not isinstance(self._folded, Forest) and self._ensemble.models:
            raise ValueError(f"{asked}() exists for trees only, this model has learner={self.learner!r}.")

    def _predictor(self, finish: str) -> Predictor:
        """The scores of this model, and what a method makes of them, as they are now."""
        check_is_fitted(self)
        if self._categories.of:
            raise ValueError(
                f"predictor() takes numbers only, the model has categorical features ({sorted(self._categories.of)}); "
                "use predict, which looks categories up."
            )
        if not isinstance(self._fitted_start, np.ndarray):
            raise ValueError(
                f"predictor() is for init='prior' or 'zero', the model starts from {self._fitted_start!r}."
            )
        self._check_has_trees("predictor")
        start, threads = self._fitted_start[:, np.newaxis].copy(), _threads.resolve(self.n_jobs)
        return Predictor(self.n_features_in_, self._folded, start, getattr(copy(self), finish), threads)

    @property
    def feature_importances_(self) -> Array:
        """Gain of the splits on each feature, each tree times its weight in the model, with sum 1."""
        features, gains = self._gains()
        total = np.zeros(self.n_features_in_)
        total[features] = gains
        return np.asarray(total / total.sum()) if total.sum() > 0 else total

    def _gains(self) -> tuple[NDArray[np.int64], Array]:
        """The features that trees split on, and the gain of each, trees times their weights."""
        forests, weights = self._weighted_forests("feature_importances_")
        if not forests:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        return gain_by_feature(forests, [weight.sum() for weight in weights])

    def _weighted_forests(self, asked: str) -> tuple[list[Forest], list[Array]]:
        """The forests, and the weights of their functions."""
        check_is_fitted(self)
        if not all(isinstance(model, Forest) for model in self._ensemble.models):
            raise AttributeError(f"{asked} exists for trees only, this model has another learner.")
        return cast(list[Forest], self._ensemble.models), self._ensemble.model_weights()

    @property
    def split_counts_(self) -> NDArray[np.intp]:
        """Number of splits on each feature, in the trees that have weight in the model."""
        forests, weights = self._weighted_forests("split_counts_")
        used = [forest.nodes["feature"] for forest, weight in zip(forests, weights, strict=True) if weight.any()]
        feature = np.concatenate([np.zeros(0, dtype=np.int32), *used])
        return np.bincount(feature[feature >= 0], minlength=self.n_features_in_)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that agbm.load reads; docs/model-file.md has its format.

        It holds trees, with what is needed to predict, to look at every iteration and to continue training, but neither
        callbacks nor code. Raises ValueError, before anything is written, for a model that load could not give back:
        one with a learner, a user-defined loss or an init estimator, a subclass, or one whose classes or categories
        are neither texts nor numbers.
        """
        from ._storage import model as saving  # here, not above: it needs this module

        saving.save(self, path)

    def __getstate__(self) -> Any:
        """For pickles and copies: a fitted model goes without its callbacks, which have done their work.

        They may hold files, connections or lambdas, with which a model could not be pickled.
        """
        state = super().__getstate__()
        return {**state, "callbacks": None} if self.__sklearn_is_fitted__() else state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_folded")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.learner is None
        tags.input_tags.sparse = True
        return tags

    # What the two estimators differ in.
    @property
    @abstractmethod
    def _n_outputs(self) -> int:
        """Scores of a row."""

    @abstractmethod
    def _one_label_for_all_outputs(self) -> bool:
        """Whether the loss takes one label and all scores of a row at once, and not a label and a score each."""

    @abstractmethod
    def _encode_fit(self, y: NDArray[Any]) -> Array:
        """Labels of the training rows as numbers (output, row), or (row) where one serves all outputs."""

    @abstractmethod
    def _encode_validation(self, y: Any, n_rows: int) -> Array:
        """Labels of the validation rows in the same form."""

    @abstractmethod
    def _stratify(self, y: Array) -> NDArray[np.intp] | None:
        """The classes that a validation split keeps in proportion."""

    @abstractmethod
    def _raw_score_of(self, model: Any, loss: Loss) -> Callable[[Any], Any]:
        """The function of an `init` model that gives raw scores, (row) or (row, output)."""


class AGBMRegressor(RegressorMixin, _BaseAGBM):  # type: ignore[misc]
    __doc__ = f"""Accelerated gradient boosting for regression.
{documentation('"auto", "squared_error", "absolute_error", "poisson", "gamma"', classifies=False)}
    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from agbm import AGBMRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AGBMRegressor(max_iter=30, max_depth=3).fit(X, y)
    >>> model.predict(X[:2]).shape
    (2,)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "loss": [StrOptions(set(REGRESSION_LOSSES)), HasMethods(LOSS_METHODS)],
    }
    _numeric_labels = True
    _losses = REGRESSION_LOSSES
    _label_shape: tuple[int, ...]

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to X (rows, features; NaN is a missing value) and y (rows, or rows and outputs).

        X_val and y_val are validation rows for early stopping; each weighs 1. sample_weight: integers say how often a
        row is repeated; of floats only the ratios matter. Rows that do not fit into memory are given as agbm.Batches or
        as a pyarrow.dataset.Dataset, of which y and sample_weight may be the names of columns. The
        losses of several outputs add up.
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    def predict(self, X: Any) -> Array:
        """Predicted values."""
        return self._values(self._raw_predict(X))

    def predictor(self) -> Predictor:
        """A function that gives what predict gives, for arrays of numbers, without the time that checks take."""
        return self._predictor("_values")

    def staged_predict(self, X: Any) -> Iterator[Array]:
        """Predicted values after each iteration, up to best_iteration_."""
        return map(self._values, self._staged_raw_predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _values(self, raw: Array) -> Array:
        if not self._label_shape:
            return np.asarray(self._fitted_loss.inverse_link(raw[0]))
        return np.stack([self._fitted_loss.inverse_link(scores) for scores in raw], axis=-1)

    @property
    def _n_outputs(self) -> int:
        return self._label_shape[0] if self._label_shape else 1

    def _one_label_for_all_outputs(self) -> bool:
        return False

    def _encode_fit(self, y: NDArray[Any]) -> Array:
        if self._goes_on() and self._label_shape != y.shape[1:]:
            raise ValueError(
                f"y has shape {y.shape}, with warm_start=True it must have as many columns as before: "
                f"{self._label_shape or 1}."
            )
        self._label_shape = y.shape[1:]
        return self._outputs_first(y)

    def _outputs_first(self, y: NDArray[Any]) -> Array:
        try:
            numbers = np.asarray(y, dtype=np.float64)
        except ValueError as error:
            raise ValueError(f"y must be numbers for a regressor: {error}.") from error
        return np.ascontiguousarray(numbers.reshape(len(y), self._n_outputs).T)

    def _encode_validation(self, y: Any, n_rows: int) -> Array:
        return self._outputs_first(check_y_val(y, n_rows, numeric=True, shape=self._label_shape))

    def _stratify(self, y: Array) -> NDArray[np.intp] | None:
        return None

    def _raw_score_of(self, model: Any, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "predict"):
            raise TypeError(f"init={model!r} has no predict; give 'prior', 'zero' or a fitted regressor.")
        return lambda X: loss.link(np.asarray(model.predict(X), dtype=np.float64))


class AGBMClassifier(ClassifierMixin, _BaseAGBM):  # type: ignore[misc]
    __doc__ = f"""Accelerated gradient boosting for classification.
{documentation('"auto", "log_loss", "exponential"', classifies=True)}
    classes_ : array
        The labels, sorted.

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
        "loss": [StrOptions(set(CLASSIFICATION_LOSSES)), HasMethods(LOSS_METHODS)],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    _numeric_labels = False
    _losses = CLASSIFICATION_LOSSES
    classes_: NDArray[Any]

    def __init__(
        self,
        *,
        method: str = "fading",
        max_iter: int | str = "auto",
        learning_rate: float | str = 0.1,
        momentum: float | str = "fading",
        entry: float = 6.0,
        fade: float = 0.4,
        rate_growth: float = 0.01,
        look_ahead: float = 2.0,
        correction: float = 0.5,
        shared_structure: bool = True,
        restart: str = "loss_rise",
        strong_convexity: float | None = None,
        loss: str | Loss = "auto",
        multi_strategy: str = "one_output_per_tree",
        second_order: bool = True,
        init: Any = "prior",
        max_depth: int | str | None = "auto",
        max_leaf_nodes: int | None = None,
        min_samples_leaf: int | str = "auto",
        l2_regularization: float | str = "auto",
        min_split_gain: float = 0.0,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        monotonic_cst: Any = None,
        interaction_cst: Any = None,
        subsample: float = 1.0,
        colsample_bytree: float = 1.0,
        colsample_bynode: float = 1.0,
        dropout: float = 0.0,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        tol: float = 1e-7,
        learner: Any = None,
        callbacks: Sequence[Watcher] | None = None,
        warm_start: bool = False,
        verbose: int = 0,
        random_state: Any = 0,
        n_jobs: int | None = None,
        class_weight: dict[Any, float] | str | None = None,
    ) -> None:
        super().__init__(
            method=method,
            max_iter=max_iter,
            learning_rate=learning_rate,
            momentum=momentum,
            entry=entry,
            fade=fade,
            rate_growth=rate_growth,
            look_ahead=look_ahead,
            correction=correction,
            shared_structure=shared_structure,
            restart=restart,
            strong_convexity=strong_convexity,
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
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            learner=learner,
            callbacks=callbacks,
            warm_start=warm_start,
            verbose=verbose,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit to X (rows, features; NaN is a missing value) and the labels y.

        X_val and y_val are validation rows for early stopping; each weighs 1. sample_weight: integers say how often a
        row is repeated; of floats only the ratios matter. Rows that do not fit into memory are given as agbm.Batches or
        as a pyarrow.dataset.Dataset, of which y and sample_weight may be the names of columns.
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the second of two classes; of more, scores (row, class)."""
        return self._scores(self._raw_predict(X))

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (row, class)."""
        return self._probabilities(self._raw_predict(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class."""
        return self._labels(self._raw_predict(X))

    def predictor(self, method: str = "predict") -> Predictor:
        """A function that gives what a method gives, for arrays of numbers, without the time that checks take.

        The method is "predict", "predict_proba" or "decision_function".
        """
        finish = {"predict": "_labels", "predict_proba": "_probabilities", "decision_function": "_scores"}
        if method not in finish:
            raise ValueError(f"method={method!r} must be one of {list(finish)}.")
        return self._predictor(finish[method])

    def staged_decision_function(self, X: Any) -> Iterator[Array]:
        """What decision_function gives after each iteration, up to best_iteration_."""
        return map(self._scores, self._staged_raw_predict(X))

    def staged_predict_proba(self, X: Any) -> Iterator[Array]:
        """Probabilities (row, class) after each iteration, up to best_iteration_."""
        return map(self._probabilities, self._staged_raw_predict(X))

    def staged_predict(self, X: Any) -> Iterator[NDArray[Any]]:
        """The most probable class after each iteration, up to best_iteration_."""
        return map(self._labels, self._staged_raw_predict(X))

    def _scores(self, raw: Array) -> Array:
        return raw[0] if self._n_outputs == 1 else np.ascontiguousarray(raw.T)

    def _probabilities(self, raw: Array) -> Array:
        if self._n_outputs > 1:
            return np.ascontiguousarray(self._fitted_loss.inverse_link(raw).T)
        second = self._fitted_loss.inverse_link(raw[0])
        return np.column_stack([1.0 - second, second])

    def _labels(self, raw: Array) -> NDArray[Any]:
        codes = raw.argmax(axis=0) if self._n_outputs > 1 else (raw[0] > 0).astype(np.intp)
        return np.asarray(self.classes_[codes])

    @property
    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _one_label_for_all_outputs(self) -> bool:
        return self._n_outputs > 1

    def _loss_of_name(self, name: str) -> Loss:
        loss = super()._loss_of_name(name)
        if self._n_outputs == 1:
            return loss
        if not isinstance(loss, LogLoss):
            raise ValueError(f"loss={name!r} is for two classes, y has {len(self.classes_)}; use loss='log_loss'.")
        return Multinomial(len(self.classes_))

    def _class_factors(self, y: NDArray[Any], sample_weight: NDArray[Any] | None) -> Array | None:
        if self.class_weight is None:
            return None
        classes, codes = self._unique_labels(y)
        labels = classes.tolist()
        if isinstance(self.class_weight, dict):
            unknown = [label for label in self.class_weight if label not in set(labels)]
            if unknown:
                raise ValueError(f"class_weight has weights for {unknown}, which y has not; y has {labels}.")
            values = list(self.class_weight.values())
            if not all(isinstance(value, Real) and math.isfinite(value) and value >= 0.0 for value in values):
                raise ValueError(f"class_weight={self.class_weight!r}: weights must be finite numbers of at least 0.")
        return class_factors(self.class_weight, codes, labels, sample_weight)

    def _check_present(self, y: Any) -> None:
        labels = np.asarray(y)
        if labels.ndim == 1 and labels.dtype.kind in "OMm" and missing(labels).any():
            raise ValueError("y has missing labels (None, NaN, NaT or NA); leave these rows out.")

    def _unique_labels(self, y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
        try:
            check_classification_targets(y)
            classes, codes = np.unique(y, return_inverse=True)
        except TypeError as error:
            kinds = sorted({type(label).__name__ for label in y})
            if len(kinds) == 1:
                raise
            raise TypeError(f"y has labels of types {kinds}, which have no order; give labels of one type.") from error
        return classes, codes

    def _encode_fit(self, y: NDArray[Any]) -> Array:
        classes, codes = self._unique_labels(y)
        if len(classes) < 2:
            raise ValueError(f"y has one class only ({classes.tolist()[0]!r}); a classifier needs rows of two classes.")
        if self._goes_on() and not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"y has classes {some_of(classes.tolist())}, with warm_start=True they must be those of before: "
                f"{some_of(self.classes_.tolist())}."
            )
        self.classes_ = classes
        return self._codes(codes)

    def _codes(self, codes: NDArray[np.intp]) -> Array:
        numbers = np.asarray(codes, dtype=np.float64)
        return numbers if self._one_label_for_all_outputs() else numbers[np.newaxis]

    def _encode_validation(self, y: Any, n_rows: int) -> Array:
        y = check_y_val(y, n_rows, numeric=False, shape=())
        known = set(self.classes_.tolist())
        unknown = [label for label in dict.fromkeys(y.tolist()) if label not in known]
        if unknown:
            known_ones = some_of(self.classes_.tolist())
            raise ValueError(f"y_val has labels {some_of(unknown)} that y has not; y has {known_ones}.")
        return self._codes(np.searchsorted(self.classes_, y))

    def _stratify(self, y: Array) -> NDArray[np.intp] | None:
        return y.ravel().astype(np.intp)

    def _check_monotone(self, monotone: NDArray[np.int8], categorical: NDArray[np.bool_]) -> None:
        super()._check_monotone(monotone, categorical)
        if monotone.any() and self._n_outputs > 1:
            raise ValueError(
                f"monotonic_cst={self.monotonic_cst!r} is for two classes, y has {len(self.classes_)}: a probability "
                "is not monotone because a score is."
            )

    def _raw_score_of(self, model: Any, loss: Loss) -> Callable[[Any], Any]:
        if not hasattr(model, "decision_function"):
            raise TypeError(
                f"init={model!r} has no decision_function; give 'prior', 'zero' or a fitted classifier that has."
            )
        classes = getattr(model, "classes_", self.classes_)
        if not np.array_equal(classes, self.classes_):
            raise ValueError(
                f"init={model!r} has classes {np.asarray(classes).tolist()}, y has {self.classes_.tolist()}; they must "
                "agree."
            )
        return model.decision_function  # type: ignore[no-any-return]
