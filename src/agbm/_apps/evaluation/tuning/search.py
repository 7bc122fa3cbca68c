"""The search itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

import numpy as np

from ...._base.threads import resolve
from ...._core.training import Record
from ...._estimators.base import BaseAGBM
from ..metrics import Split, paired_difference
from ..tasks import Task
from .fits import Fits
from .results import Trial, Tuned
from .space import SET_BY_SEARCH, Points, Space, search_space
from .study_file import identity_of_search, open_study

if TYPE_CHECKING:
    import optuna
    from optuna.trial import FrozenTrial

# From point FIRST_POINT on, a trial continues if it is among the best KEPT per cent of the trials so far. In
# simulations with random trials this rarely stopped the best one; keeping only half of the trials, or pruning earlier,
# often did.
FIRST_POINT, KEPT = 3, 70.0

# Attributes of trials.
_DEFAULT = "default"
_CALL = "call"


def tune(
    split: Split,
    task: Task,
    *,
    study_path: Path,
    seed: int,
    threads: int | None,
    seconds: float | None = None,
    trials: int | None = None,
    parameters: Mapping[str, Any] | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> Tuned:
    """Search for a number of `seconds` or `trials`, whichever ends first; then evaluate on the test rows.

    The default always runs to its end; later trials are stopped at the deadline. An interrupt (Ctrl-C) ends the search
    and keeps the results so far. An existing study is resumed if it has the same rows, seed and `parameters`; these are
    used in all trials and not searched. A search with a given number of trials has the same result in every run.
    """
    try:
        import optuna  # noqa: F401
    except ImportError as error:
        raise ImportError("tune needs Optuna: pip install 'agbm[tune]'.") from error
    if seconds is None and trials is None:
        raise ValueError("seconds=None, trials=None: set at least one of them to limit the search.")
    fixed = dict(parameters or {})
    fixed_by_search = sorted(SET_BY_SEARCH & set(fixed))
    if fixed_by_search:
        raise ValueError(f"parameters has {fixed_by_search}, which the search sets itself; remove them.")
    task.check(split)
    budget = _Budget(math.inf if seconds is None else seconds)
    fits = Fits(split, task, fixed, {"random_state": seed, "n_jobs": resolve(threads)})
    default = fits.resolved()
    space = search_space(default["l2_regularization"], leave_out=fixed)
    with open_study(Path(study_path), identity_of_search(split, fixed, seed, space)) as study:
        search, interrupted = _Search(study, fits, space, default, budget, seed, on_trial), False
        try:
            search.run(math.inf if trials is None else trials)
        except KeyboardInterrupt:
            if search.default() is None:  # there is no result yet
                raise
            interrupted = True
        return replace(search.result(), interrupted=interrupted)


class _Budget:
    """Wall time since the start of the search."""

    def __init__(self, seconds: float) -> None:
        self._began, self._seconds = time.perf_counter(), seconds

    def used(self) -> float:
        return time.perf_counter() - self._began

    def is_spent(self) -> bool:
        return self.used() >= self._seconds


class _Search:
    """The trials of a study: sampled and pruned in memory, stored in a file."""

    def __init__(
        self,
        file: optuna.Study,
        fits: Fits,
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
        """Number of trials of the file that have been read into memory."""
        self._models: dict[int, BaseAGBM] = {}
        """Models of this call by trial: the default and the best so far."""

    def run(self, trials: float) -> None:
        """Run the default, unless the study has it, and other trials until the budget is spent."""
        done = 0
        if self.default() is None:
            self._run_default()
            done += 1
        while done < trials and not self._budget.is_spent():
            self._run_trial()
            done += 1

    def default(self) -> FrozenTrial | None:
        """The trial with the default parameters."""
        return next((trial for trial in self._trials() if _is_default(trial)), None)

    def result(self) -> Tuned:
        """Evaluate the best trial and the default on the test rows."""
        from optuna.trial import TrialState

        best, default = self._file.best_trial, cast("FrozenTrial", self.default())
        model, default_model = self._model(best), self._model(default)
        (metrics, losses), (default_metrics, default_losses) = (
            self._fits.evaluate(model),
            self._fits.evaluate(default_model),
        )
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

    def _model(self, trial: FrozenTrial) -> BaseAGBM:
        """The model of a trial, fitted again if this call has not done so: the bits are the same."""
        if trial.number not in self._models:
            self._models[trial.number] = self._fits(_parameters(trial))
        return self._models[trial.number]

    def _run_default(self) -> None:
        from optuna.trial import create_trial

        parameters = {name: self._default[name] for name in self._space}
        points: dict[int, float] = {}
        model = self._fits(parameters, Points(self._default, points.__setitem__))
        trial = create_trial(
            params=parameters,
            distributions=dict(self._space),
            value=self._fits.loss(model),
            intermediate_values={point: self._fits.scaled(loss) for point, loss in points.items()},
            user_attrs={_DEFAULT: True, _CALL: self._call},
        )
        self._memory.add_trial(trial)
        self._store(trial, model)

    def _run_trial(self) -> None:
        """Run one trial. Its parameters depend on the seed and the earlier trials only, so a search can be resumed."""
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
            self._store(self._memory.tell(trial, state=TrialState.PRUNED))
        else:
            self._store(self._memory.tell(trial, self._fits.loss(model)), model)

    def _watcher(self, trial: optuna.Trial) -> Callable[[Record], None]:
        """A callback that stops the trial at the deadline, and when Optuna prunes it."""
        from optuna import TrialPruned

        def report(point: int, loss: float) -> None:
            trial.report(self._fits.scaled(loss), point)
            if trial.should_prune():
                raise TrialPruned

        points = Points({**self._default, **_parameters(trial)}, report)

        def watcher(record: Record) -> None:
            if self._budget.is_spent():
                raise TrialPruned
            points(record)

        return watcher

    def _read_others(self) -> None:
        """Read trials of earlier calls and of other processes, which the sampler learns from."""
        trials = self._trials()
        self._memory.add_trials(trial for trial in trials[self._read :] if trial.user_attrs[_CALL] != self._call)
        self._read = len(trials)

    def _store(self, trial: FrozenTrial, model: BaseAGBM | None = None) -> None:
        """Add a trial to the file, and keep its model if it is the best so far or the default."""
        self._file.add_trial(trial)
        kept = [other for other in self._trials() if other.user_attrs[_CALL] == self._call][-1]
        if model is not None:
            self._models[kept.number] = model
        wanted = {cast("FrozenTrial", self.default()).number, self._file.best_trial.number}
        self._models = {number: found for number, found in self._models.items() if number in wanted}
        if self._on_trial is not None:
            loss = kept.values[0] if model is not None else math.nan
            self._on_trial(Trial(kept.number, _parameters(kept), loss, self._file.best_value, self._budget.used()))


def _is_default(trial: FrozenTrial | optuna.Trial) -> bool:
    return _DEFAULT in trial.user_attrs


def _parameters(trial: FrozenTrial | optuna.Trial) -> dict[str, Any]:
    """The parameters of the model of a trial, rounded to three digits unless it is the default."""
    if _is_default(trial):
        return dict(trial.params)
    return {name: float(f"{value:.3g}") if isinstance(value, float) else value for name, value in trial.params.items()}
