"""A search for better parameters than the default on the user's rows, with Optuna: `agbm tune`.

The default itself is the first trial, so that a search never ends with less. Trials stop early by the validation rows,
and are given up where most others were lower at the same point. Points are not iterations, since those of a small
learning rate get less far, but sums of the lasting weights of the trees so far: 1, 2, 4, 8, ...

The study is a file of Optuna's journal, to which a trial is added when it has ended: what is in it survives a kill at
any moment, no trial is ever left half done, and several processes may search at once.
"""

from __future__ import annotations

import json
import math
import os
import time
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .. import _threads
from .._core.losses import Array
from .._core.training import Record
from .._data.rows import Rows
from .._estimators import AGBMClassifier, AGBMRegressor
from .._storage.identity import fingerprints, identity_of
from .._tree import TreeLearner
from .evaluation import Metric, Split, check_labels, judged, paired_difference
from .peers import matrices

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

STUDY = "agbm"
"""The name of the study in its file."""

LONGEST_LINE = 1 << 20
"""Bytes of the first line of a study, at most."""

# Where weights have doubled so often, and at later points, a trial goes on if it is among so many per cent of those
# that have ended. In simulations with random trials that hardly ever gave up the best one; with half of the trials,
# or at earlier points, it happened often.
FIRST_POINT, KEPT = 3, 70.0

# Parameters that are not searched and not the user's: a search is for the default method and its losses.
_SETTLED = {
    "method", "loss", "early_stopping", "callbacks", "warm_start", "verbose", "random_state", "n_jobs", "learner",
}  # fmt: skip

Model = AGBMClassifier | AGBMRegressor
Space = Mapping[str, "optuna.distributions.BaseDistribution"]


@dataclass(frozen=True)
class Trial:
    """A trial that has ended, and where the search stands."""

    number: int
    parameters: Mapping[str, Any]
    loss: float
    """On the validation rows: log loss, or mean squared error; NaN where the trial was given up."""
    best_loss: float
    """Of all trials so far."""
    seconds: float
    """Since the search began."""


@dataclass(frozen=True)
class Tuned:
    """What a search has found, and what it is worth on rows that it has not seen."""

    parameters: Mapping[str, Any]
    """Of the best trial, ready for an estimator and for JSON; numbers also where the default has "auto"."""
    model: Model
    """Fitted with them on the training rows."""
    is_default: bool
    """Whether no trial had a lower validation loss than the default."""
    validation_loss: float
    default_validation_loss: float
    metrics: list[Metric]
    """On the test rows."""
    default_metrics: list[Metric]
    gain: Metric
    """How much lower the test loss (log loss or squared error) is than the default's, paired by rows."""
    n_test: int
    complete: int
    """Trials of the study that ran to their end, also those of earlier calls."""
    pruned: int
    """Trials that were given up: since most others were lower, or at the deadline."""
    seconds: float
    """Of this call."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search."""

    @property
    def verdict(self) -> str:
        """The gain in a sentence, and what it does not show."""
        if self.is_default:
            return "No trial had a lower validation loss than the default."
        rows = f"{self.n_test} test rows"
        if self.gain.low > 0.0:
            return f"The {self.gain.name} on {rows} is lower than the default's by {self.gain}."
        if self.gain.high < 0.0:
            higher = replace(self.gain, value=-self.gain.value, low=-self.gain.high, high=-self.gain.low)
            return (
                f"The {self.gain.name} on {rows} is higher than the default's by {higher}: the search has fitted the "
                "validation rows. Keep the default, or search with more of them."
            )
        return f"No gain that {rows} can show: the default's {self.gain.name} less this one's is {self.gain}."


def tune(
    split: Split,
    classifies: bool,
    *,
    study_path: Path,
    seed: int,
    threads: int | None,
    seconds: float | None = None,
    trials: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> Tuned:
    """Search for `seconds` of this call, or for that many `trials`, whichever ends first; then judge by the test rows.

    The default always runs to its end; a later trial is given up at the deadline. An interrupt (Ctrl-C) ends the search
    and keeps what it has found. A study that is there goes on, if it is one of the same rows, seed and `parameters`:
    those are given to all trials, and not searched. A search of so many trials has the same result in every run.
    """
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ImportError("tune needs Optuna: pip install 'agbm[tune]'.") from error
    if seconds is None and trials is None:
        raise ValueError("seconds=None, trials=None: say how long to search.")
    fixed = dict(parameters or {})
    settled = sorted(_SETTLED & set(fixed))
    if settled:
        raise ValueError(f"parameters has {settled}, which a search sets itself; leave them out.")
    if classifies:
        check_labels(split)
    budget = _Budget(math.inf if seconds is None else seconds)
    fits = _Fits(split, classifies, fixed, {"random_state": seed, "n_jobs": _threads.resolve(threads)})
    default = fits.resolved()
    space = _space(default["l2_regularization"], leave_out=fixed)
    with _open(Path(study_path), _identity(split, fixed, seed, space)) as study:
        search, interrupted = _Search(study, fits, space, default, budget, seed, on_trial), False
        try:
            search.run(math.inf if trials is None else trials)
        except KeyboardInterrupt:
            if search.default() is None:  # nothing is found yet
                raise
            interrupted = True
        return replace(search.result(), interrupted=interrupted)


class _Budget:
    """Wall time since the search began."""

    def __init__(self, seconds: float) -> None:
        self._began, self._seconds = time.perf_counter(), seconds

    def used(self) -> float:
        return time.perf_counter() - self._began

    def is_spent(self) -> bool:
        return self.used() >= self._seconds


class _Fits:
    """Models of the split's training rows."""

    def __init__(self, split: Split, classifies: bool, fixed: Mapping[str, Any], shared: Mapping[str, Any]) -> None:
        self.split = split
        self._kind: type[Model] = AGBMClassifier if classifies else AGBMRegressor
        self.fixed = fixed
        self._shared = {**fixed, **shared}
        self._scale = 1.0 if classifies else 2.0  # ours is half the squared error

    def resolved(self) -> dict[str, Any]:
        """All parameters of the default, with numbers for "auto"."""
        model, split = self._kind(**self._shared), self.split
        model._validate_params()
        learner = cast(TreeLearner, model._prepare(split.X, split.y, None, split.X_val, split.y_val).learner)
        automatic = {name: getattr(learner, name) for name in ("max_depth", "min_samples_leaf", "l2_regularization")}
        return {**model.get_params(), **automatic}

    def __call__(self, parameters: Mapping[str, Any], watcher: Callable[[Record], None] | None = None) -> Model:
        callbacks = [] if watcher is None else [watcher]
        model = self._kind(**{**self._shared, **parameters}, callbacks=callbacks)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a search tries such parameters, too
            model.fit(self.split.X, self.split.y, X_val=self.split.X_val, y_val=self.split.y_val)
        model.set_params(callbacks=None)
        return model

    def scaled(self, loss: float) -> float:
        """The loss of a record as log loss or mean squared error."""
        return self._scale * loss

    def loss(self, model: Model) -> float:
        """The validation loss of a fitted model."""
        return self.scaled(float(model.history_["validation_loss"][model.best_iteration_]))

    def judge(self, model: Model) -> tuple[list[Metric], Array]:
        """Metrics, and the loss of each test row."""
        if isinstance(model, AGBMClassifier):
            return judged(self.split.y_test, model.predict_proba(self.split.X_test), model.classes_)
        return judged(self.split.y_test, model.predict(self.split.X_test), None)

    @property
    def loss_name(self) -> str:
        """Of what is judged by."""
        return "log loss" if self._kind is AGBMClassifier else "squared error"


def _space(l2: float, leave_out: Container[str]) -> Space:
    """What is searched: ranges around the default, which is in all of them.

    Left out is what changes little (fade, look_ahead), does again what another one does (max_leaf_nodes,
    colsample_bynode), or has no scale (min_split_gain): see docs/acceleration.md.
    """
    from optuna.distributions import FloatDistribution, IntDistribution

    l2 = l2 or 1.0  # none at all is the user's wish, who has fixed it
    space = {
        "learning_rate": FloatDistribution(0.02, 0.3, log=True),
        "entry": FloatDistribution(1.0, 12.0, log=True),
        "rate_growth": FloatDistribution(0.0, 0.03),
        "max_depth": IntDistribution(2, 10),
        "min_samples_leaf": IntDistribution(1, 100, log=True),
        "l2_regularization": FloatDistribution(l2 / 100.0, l2 * 30.0, log=True),
        "subsample": FloatDistribution(0.5, 1.0, step=0.05),
        "colsample_bytree": FloatDistribution(0.3, 1.0, step=0.05),
    }
    if "max_leaf_nodes" in leave_out:  # which says how large trees are
        del space["max_depth"]
    return {name: distribution for name, distribution in space.items() if name not in leave_out}


class _Search:
    """Trials of a study: asked for and pruned in memory, kept in a file."""

    def __init__(
        self,
        file: optuna.Study,
        fits: _Fits,
        space: Space,
        default: Mapping[str, Any],
        budget: _Budget,
        seed: int,
        on_trial: Callable[[Trial], None] | None,
    ) -> None:
        import optuna

        self._file, self._fits, self._space, self._default = file, fits, space, default
        self._budget, self._seed, self._on_trial = budget, seed, on_trial
        self._memory = optuna.create_study(pruner=optuna.pruners.PercentilePruner(KEPT, n_warmup_steps=FIRST_POINT))
        self._call = uuid4().hex
        self._read = 0
        """Trials of the file that the memory has."""
        self._models: dict[int, Model] = {}
        """Of this call: the default's, and the best so far."""

    def run(self, trials: float) -> None:
        """The default, where the study has none, and others to the end of the budget."""
        done = 0
        if self.default() is None:
            self._run_default()
            done += 1
        while done < trials and not self._budget.is_spent():
            self._run_trial()
            done += 1

    def default(self) -> FrozenTrial | None:
        """The trial of the default."""
        return next((trial for trial in self._trials() if _is_default(trial)), None)

    def result(self) -> Tuned:
        """The best trial and the default, on the test rows."""
        from optuna.trial import TrialState

        best, default = self._file.best_trial, cast("FrozenTrial", self.default())
        model, default_model = self._model(best), self._model(default)
        (metrics, losses), (default_metrics, default_losses) = self._fits.judge(model), self._fits.judge(default_model)
        states = [trial.state for trial in self._trials()]
        return Tuned(
            parameters={**self._fits.fixed, **_parameters(best)},
            model=model,
            is_default=_is_default(best),
            validation_loss=cast(float, best.value),
            default_validation_loss=cast(float, default.value),
            metrics=metrics,
            default_metrics=default_metrics,
            gain=paired_difference(self._fits.loss_name, default_losses, losses),
            n_test=len(losses),
            complete=states.count(TrialState.COMPLETE),
            pruned=states.count(TrialState.PRUNED),
            seconds=self._budget.used(),
        )

    def _trials(self) -> list[FrozenTrial]:
        return self._file.get_trials(deepcopy=False)

    def _model(self, trial: FrozenTrial) -> Model:
        """Fitted in this call, or anew: the same bits."""
        if trial.number not in self._models:
            self._models[trial.number] = self._fits(_parameters(trial))
        return self._models[trial.number]

    def _run_default(self) -> None:
        from optuna.trial import create_trial

        parameters = {name: self._default[name] for name in self._space}
        points: dict[int, float] = {}
        model = self._fits(parameters, _Points(self._default, points.__setitem__))
        trial = create_trial(
            params=parameters,
            distributions=dict(self._space),
            value=self._fits.loss(model),
            intermediate_values={point: self._fits.scaled(loss) for point, loss in points.items()},
            user_attrs={_DEFAULT: True, _CALL: self._call},
        )
        self._memory.add_trial(trial)
        self._keep(trial, model)

    def _run_trial(self) -> None:
        """What Optuna chooses follows from the seed and the trials so far: a search goes on as if it had not ended."""
        from optuna import TrialPruned
        from optuna.samplers import TPESampler
        from optuna.trial import TrialState

        self._read_others()
        (seed,) = np.random.SeedSequence((self._seed, self._read)).generate_state(1).tolist()
        self._memory.sampler = TPESampler(seed=seed)
        trial = self._memory.ask(dict(self._space))
        trial.set_user_attr(_CALL, self._call)
        try:
            model = self._fits(_parameters(trial), self._watcher(trial))
        except TrialPruned:
            self._keep(self._memory.tell(trial, state=TrialState.PRUNED))
        else:
            self._keep(self._memory.tell(trial, self._fits.loss(model)), model)

    def _watcher(self, trial: optuna.Trial) -> Callable[[Record], None]:
        """Gives the trial up at the deadline, and where Optuna says so."""
        from optuna import TrialPruned

        def report(point: int, loss: float) -> None:
            trial.report(self._fits.scaled(loss), point)
            if trial.should_prune():
                raise TrialPruned

        points = _Points({**self._default, **_parameters(trial)}, report)

        def watcher(record: Record) -> None:
            if self._budget.is_spent():
                raise TrialPruned
            points(record)

        return watcher

    def _read_others(self) -> None:
        """Trials of earlier calls and of other processes, for Optuna to learn from."""
        trials = self._trials()
        self._memory.add_trials(trial for trial in trials[self._read :] if trial.user_attrs[_CALL] != self._call)
        self._read = len(trials)

    def _keep(self, trial: FrozenTrial, model: Model | None = None) -> None:
        """In the file; and the model if it is the best so far, or the default's."""
        self._file.add_trial(trial)
        kept = [other for other in self._trials() if other.user_attrs[_CALL] == self._call][-1]
        if model is not None:
            self._models[kept.number] = model
        wanted = {cast("FrozenTrial", self.default()).number, self._file.best_trial.number}
        self._models = {number: found for number, found in self._models.items() if number in wanted}
        if self._on_trial is not None:
            loss = kept.values[0] if model is not None else math.nan
            self._on_trial(Trial(kept.number, _parameters(kept), loss, self._file.best_value, self._budget.used()))


class _Points:
    """A watcher that reports the lowest validation loss so far whenever weights add up to twice as much."""

    def __init__(self, parameters: Mapping[str, Any], report: Callable[[int, float], None]) -> None:
        self._rate, self._growth = parameters["learning_rate"], parameters["rate_growth"]
        self._largest = min(parameters["entry"] * self._rate, 1.0)
        self._report = report
        self._sum, self._point, self._lowest = 0.0, 0, math.inf

    def __call__(self, record: Record) -> None:
        """See `boosting.fading` for the weights."""
        self._lowest = min(self._lowest, record.validation_loss)
        if record.iteration > 0:
            self._sum += min(self._rate * (1.0 + self._growth * (record.iteration - 1)), max(self._largest, self._rate))
        while self._sum >= 2.0**self._point:
            self._report(self._point, self._lowest)
            self._point += 1


# What trials are told apart by.
_DEFAULT = "default"
_CALL = "call"


def _is_default(trial: FrozenTrial | optuna.Trial) -> bool:
    return _DEFAULT in trial.user_attrs


def _parameters(trial: FrozenTrial | optuna.Trial) -> dict[str, Any]:
    """Those that the model of a trial has: short numbers, where they are not the default's."""
    if _is_default(trial):
        return dict(trial.params)
    return {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in trial.params.items()}


def _identity(split: Split, fixed: Mapping[str, Any], seed: int, space: Space) -> dict[str, str]:
    """What trials of one study must have in common; the test rows are not among it."""
    (X, X_val), _ = matrices([split.X, split.X_val], fixed.get("categorical_features", "from_dtype"))
    parts = [(X, split.y), (X_val, split.y_val)]
    arrays = [array for X, y in parts for array in Rows(X, np.array(list(map(str, y))), None, None).arrays()]
    settings = {**fixed, "seed": seed, "space": {name: repr(space[name]) for name in space}}
    return {"rows": identity_of({}, arrays), "parameters": identity_of(fingerprints(settings), [])}


@contextmanager
def _open(path: Path, identity: dict[str, str]) -> Iterator[optuna.Study]:
    """The study of a file, made where there is none; Optuna says nothing of its own as long as it is open."""
    import optuna

    if not path.parent.is_dir():
        raise FileNotFoundError(f"study_path={str(path)!r}: there is no folder {path.parent}; make it, or use another.")
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        study = _load_or_create(path)
        _check_identity(study, identity, path)
        yield study
    finally:
        optuna.logging.set_verbosity(verbosity)


def _load_or_create(path: Path) -> optuna.Study:
    """The study of a file. Nothing is added to a file that has one, or that belongs to another program."""
    import optuna

    storage = _storage(path)
    names = optuna.get_all_study_names(storage)
    if not set(names) <= {STUDY}:
        raise ValueError(f"study_path={str(path)!r} has other studies of Optuna; use another path.")
    if names:
        return optuna.load_study(storage=storage, study_name=STUDY)
    return optuna.create_study(storage=storage, study_name=STUDY, load_if_exists=True)  # others may be as far


def _storage(path: Path) -> optuna.storages.JournalStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileSymlinkLock

    lock = JournalFileSymlinkLock(str(path))
    try:
        if path.exists():
            lock.acquire()
            try:
                _mend(path)
            finally:
                lock.release()
        return JournalStorage(JournalFileBackend(str(path), lock))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"study_path={str(path)!r} is no study of Optuna's ({error}); give another path, or remove the file."
        ) from error


def _mend(path: Path) -> None:
    """Cut off a last line that ends halfway, as a full disk leaves it: the line behind it could not be read."""
    with open(path, "rb") as file:
        first = file.readline(LONGEST_LINE)  # not all of it: it may be any file
        if first and "op_code" not in json.loads(first):
            raise ValueError("its first line is no entry of a journal")
        lines = first + file.read()
    whole = lines.rfind(b"\n") + 1
    if 0 < whole < len(lines):
        os.truncate(path, whole)


def _check_identity(study: optuna.Study, identity: dict[str, str], path: Path) -> None:
    known = study.user_attrs.get("identity")
    if known is None:
        if study.trials:
            raise ValueError(f"study_path={str(path)!r} has trials of another program; use another path.")
        study.set_user_attr("identity", identity)
        return
    other = [name for name in identity if known[name] != identity[name]]
    if other:
        raise ValueError(
            f"study_path={str(path)!r} is a search on other {' and '.join(other)}; give another path, or remove the "
            "file to start anew."
        )
