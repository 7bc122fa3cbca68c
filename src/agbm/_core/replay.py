"""Resuming an earlier run.

The state of an algorithm follows from its learners and the data. So an earlier run is resumed by running the algorithm
again from the start: the known learners replace the first fits, and new fits follow. The result has the same bits as a
single run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Generic

from .ensemble import Ensemble
from .learners import Fit, Fitter, Model, Newton, V
from .objective import Objective


class ReplayingFitter(Generic[V]):
    """Returns the learners of an earlier run in their order, then new fits of the given fitter.

    Iterations in `again`, counted from 0, are fitted again although their learners are known. Apart from these, an
    iteration is fitted again if its momentum learner is needed but was discarded for having no weight. This happens at
    the last iteration of the earlier run and before each restart.
    """

    def __init__(
        self, earlier: Ensemble, fitter: Fitter[V], objective: Objective[V], again: Collection[int] = ()
    ) -> None:
        self._earlier = earlier
        self._fitter = fitter
        self._objective = objective
        pairs = [None if m in again else pair for m, pair in enumerate(earlier.pairs())]
        self._pairs: Iterator[tuple[int, int | None] | None] = iter(pairs)

    def skip(self) -> None:
        next(self._pairs, None)
        self._fitter.skip()

    def fit(self, r: V, newton: Newton[V] | None) -> Fit[V]:
        pair = next(self._pairs, None)
        if pair is None:
            return self._fitter.fit(r, newton)
        self._fitter.skip()
        return self._known(pair[0], newton)

    def fit_pair(self, r: V, c: V, newton: Newton[V] | None, *, second: bool) -> tuple[Fit[V], Fit[V] | None]:
        primary, momentum = next(self._pairs, None) or (None, None)
        if primary is None or (second and momentum is None):
            return self._fitter.fit_pair(r, c, newton, second=second)
        self._fitter.skip()
        return self._known(primary, newton), None if momentum is None else self._known(momentum, newton)

    def values(self, model: Model) -> Sequence[V]:
        return self._fitter.values(model)

    def _known(self, function: int, newton: Newton[V] | None) -> Fit[V]:
        model, number = self._earlier.function(function)
        return self._objective.fit_of(model, number, self.values(model)[number], newton)
