"""Verification: whether a model is the one that a fit to given rows returns.

A fit with the parameters and the seed of the model is prepared again. Then it is repeated as a whole, or known trees
replace most of its fits (see replay.py), so that only some iterations are grown again. In either case, the result is
compared with the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from .._base.identity import library_version
from .._core.ensemble import Ensemble
from .._core.replay import ReplayingFitter
from .._core.spread_level import with_level
from .._fit.train import Settled
from .._model.fitted import FittedModel
from .._storage.model import Saved
from .._tree import TableFitter
from .._tree.bins import OtherBinsError
from .differences import (
    Content,
    Difference,
    before_training,
    forests_of,
    of_histories,
    of_iterations,
    of_results,
    of_rows,
    of_values,
)
from .update import as_fitted

ALL = "all"


@dataclass(frozen=True)
class Verification:
    """The result of a verification."""

    differences: list[Difference]
    """The differences, with the values of the model and those that the rows give; empty if the model is verified."""
    iterations: list[int]
    """The iterations that were grown again, counted from 1."""
    unchecked: list[str]
    """What was not checked, as text."""

    @property
    def verified(self) -> bool:
        """Whether no difference was found."""
        return not self.differences

    def __bool__(self) -> bool:
        return self.verified


@dataclass(eq=False)
class Replay:
    """A fit that is repeated, instead of a new one; see BaseAGBM.verify."""

    saved: Saved
    wanted: str | int | Sequence[int]
    """ALL, one iteration, which is the last one that is replayed, or several; counted from 1."""
    found: Verification | None = field(default=None, init=False)

    @classmethod
    def of(cls, estimator: Any, wanted: Any) -> tuple[Any, Replay]:
        """A copy of the estimator whose fit is the replay, with the parameters of the fit, and the replay."""
        model: FittedModel = estimator.model_
        model.check_has_trees("verify")
        if model.updates:
            raise ValueError(
                f"The model was changed by update(mode={model.updates[-1][0]!r}), so that it is not the result of a "
                "single fit; verify the model before the update."
            )
        if model.origin is None:
            raise ValueError(
                "The model has no digest of its rows: it is not the result of fit alone, or its file is older than "
                "digests. Fit it again."
            )
        replay = cls(Saved(estimator, model, {}), _checked(wanted, model.best_iteration))
        checked = as_fitted(estimator, model, model.resolved.get("max_iter"))
        checked.callbacks = None
        return checked, replay

    @property
    def seed(self) -> int:
        """The seed of the fit."""
        return self.saved.model.seed

    def run(self, settled: Settled) -> None:
        """Repeat a fit that has been prepared again."""
        model = self.saved.model
        differences = self._before(settled)
        regrown: list[int] = []
        if not differences:
            regrown = self._regrown()
            try:
                differences = self._after(*self._trained(settled))
            except OtherBinsError as error:
                differences = [_place_of(error, model)]
        unchecked = _unchecked(model, self.wanted) if regrown else ["iterations, since they cannot agree"]
        self.found = Verification(differences, regrown, unchecked)

    def _before(self, settled: Settled) -> list[Difference]:
        """Differences that are known before the first iteration."""
        model, run = self.saved.model, settled.run
        assert model.origin is not None
        assert run.data is not None
        found = of_values("version", {"agbm": model.origin.version}, {"agbm": library_version()})
        found += of_rows(model.origin.data, run.data, model)
        if found:
            return found  # everything else may follow from it
        resolved = {name: value for name, value in model.resolved.items() if name != "temperature"}
        level, start = model.spread_level, run.start  # the level is that of the history, which is compared later
        prepared = replace(
            model, reader=run.reader, labels=run.labels, loss=run.plan.loss,
            start=start if level is None else with_level(start, level, model.loss),
            held_out=run.plan.held_out, resolved=settled.resolved,
        )  # fmt: skip
        pair = Content.of(self._with(replace(model, resolved=resolved))), Content.of(self._with(prepared))
        found = of_values("parameters", *(of.description["resolved"] for of in pair))
        return found + before_training(*pair)

    def _with(self, model: FittedModel) -> Saved:
        return self.saved._replace(model=model)

    def _regrown(self) -> list[int]:
        if self.wanted == ALL:
            return list(range(1, self.saved.model.n_iter + 1))
        return [self.wanted] if isinstance(self.wanted, int) else sorted(set(map(int, self.wanted)))

    def _trained(self, settled: Settled) -> tuple[FittedModel, FittedModel]:
        """The model as far as it is compared, and the result of the replay."""
        model, run = self.saved.model, settled.run
        if self.wanted == ALL:
            return model, settled.model(settled.trained())
        again = {m - 1 for m in self._regrown()}
        members = [
            member._replace(fitter=ReplayingFitter(known, _with_known_bins(member.fitter), member.objective, again))
            for member, known in zip(run.members, model.ensembles, strict=True)
        ]
        # One more iteration than wanted, since a last one is kept without its momentum learner.
        last = min(self.wanted + 1, model.best_iteration) if isinstance(self.wanted, int) else model.best_iteration
        run = run._replace(members=members, plan=run.plan._replace(max_iter=last, stops_early=False))
        if not isinstance(self.wanted, int):
            return model, settled._replace(run=run).model(settled.trained(run))
        known = model.at_iteration(last)
        scales = "temperature" in model.resolved and settled.trial is None
        if scales:
            # It follows from the last iteration, of which nothing is known here.
            method = clone(run.plan.method).set_params(temperature_scaling=False)
            run = run._replace(plan=run.plan._replace(method=method))
        trained = settled.trained(run)
        ensembles = trained.ensembles
        if scales:
            ensembles = _with_temperature(ensembles, known.ensembles, model.resolved["temperature"])
        return known, replace(model, ensembles=ensembles, history=trained.history)

    def _after(self, model: FittedModel, found: FittedModel) -> list[Difference]:
        """Differences of the iterations, the first one only, or of the result."""
        last = found.best_iteration if self.wanted != ALL else max(model.n_iter, found.n_iter)
        differences = of_iterations(model.ensembles, found.ensembles)
        differences += of_histories(model.history, found.history, last)
        if differences:
            return [min(differences, key=lambda one: one.iteration or 0)]
        whole, of_file = self.saved.model, Content.of(self.saved)
        if isinstance(self.wanted, int):
            found = replace(
                whole.at_iteration(whole.best_iteration), calibration=whole.calibration, baseline=whole.baseline
            )
        return of_results(of_file, Content.of(self._with(found)))


def _with_temperature(found: Sequence[Ensemble], known: Sequence[Ensemble], temperature: float) -> list[Ensemble]:
    """Ensembles whose trees are scaled as those of a model; of its factor, the inverse is recorded, rounded."""
    near = 1.0 / temperature
    factors = [near, float(np.nextafter(near, 0.0)), float(np.nextafter(near, np.inf))]
    scaled = [[of.scaled([factor] * len(of)) for of in found] for factor in factors]
    return min(scaled, key=lambda ensembles: len(of_iterations(known, ensembles)))


def _with_known_bins(fitter: Any) -> Any:
    """A fitter for trees that were grown with the bins of these rows, which evaluates them faster."""
    return fitter.with_known_bins() if isinstance(fitter, TableFitter) else fitter


def _place_of(error: OtherBinsError, model: FittedModel) -> Difference:
    """The first node with a threshold that is not one of the bins of the rows."""
    places = (
        (m, member, forest, node)
        for m in range(model.best_iteration)
        for member, ensemble in enumerate(model.ensembles)
        for forest in forests_of(ensemble, m)
        for node in np.flatnonzero(
            (forest.nodes["feature"] == error.feature) & (forest.nodes["threshold"] == error.threshold)
        ).tolist()
    )
    m, member, forest, node = next(places)
    tree = int(np.searchsorted(forest.roots, node, side="right")) - 1
    where = f"{m + 1}" if len(model.ensembles) == 1 else f"{m + 1}, member {member}"
    where += f", tree {tree}, node {node - int(forest.roots[tree])}, threshold"
    return Difference("iteration", where, (repr(error.threshold), "no bin of the rows ends there"), m + 1)


def _checked(wanted: Any, best: int) -> Any:
    """Raise ValueError unless iterations exist."""
    if isinstance(wanted, str):
        if wanted != ALL:
            raise ValueError(f"iterations={wanted!r} must be 'all', an iteration or a list of iterations.")
        return wanted
    several = [wanted] if isinstance(wanted, (int, np.integer)) else list(wanted)
    if not all(isinstance(m, (int, np.integer)) and not isinstance(m, bool) and 1 <= m <= best for m in several):
        raise ValueError(f"iterations={wanted!r}: iterations of the model are 1 to {best}.")
    return int(wanted) if isinstance(wanted, (int, np.integer)) else several


def _unchecked(model: FittedModel, wanted: Any) -> list[str]:
    """What a verification does not check, as text."""
    found = []
    best, calibrated = model.best_iteration, model.calibration is not None or model.baseline is not None
    if isinstance(wanted, int):
        found.append(f"the trees of the other {best - 1} iterations")
        found += ["calibration and baseline"] if calibrated else []
    elif wanted != ALL:
        found.append(f"the trees of the other {best - len(set(wanted))} iterations")
    if wanted != ALL and model.n_iter > best:
        found.append(f"iterations {best + 1} to {model.n_iter}, which early stopping has discarded")
    return [*found, "notes"]
