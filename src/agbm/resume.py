"""Going on from an earlier run.

The algorithms keep no state that the learners and the data do not determine. So an earlier run is continued by running
the algorithm once more from the start, with learners that are already there in place of fits, and new fits behind them:
the result is, bit for bit, that of a single run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .ensemble import Ensemble
from .learners import Fit, Fitter, Model
from .losses import Array
from .problem import Problem


class ReplayingFitter:
    """Gives the learners of an earlier run in their order, then those of the fitter.

    An iteration whose momentum learner is wanted but was not kept, having had no weight, is fitted anew: the last one
    of the earlier run, and those before a restart.
    """

    def __init__(
        self, earlier: Ensemble, fitter: Fitter, values: Callable[[Model], Sequence[Array]], problem: Problem
    ) -> None:
        self._earlier = earlier
        self._fitter = fitter
        self._values = values
        self._problem = problem
        self._pairs: Iterator[tuple[int, int | None]] = iter(earlier.pairs())

    def skip(self) -> None:
        """See Fitter."""
        next(self._pairs, None)
        self._fitter.skip()

    def fit(self, target: Array, hessian: Array | None) -> Fit:
        """See Fitter."""
        pair = next(self._pairs, None)
        if pair is None:
            return self._fitter.fit(target, hessian)
        self._fitter.skip()
        return self._known(pair[0], hessian)

    def fit_pair(self, r: Array, c: Array, hessian: Array | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """See Fitter."""
        primary, momentum = next(self._pairs, (None, None))
        if primary is None or (second and momentum is None):
            return self._fitter.fit_pair(r, c, hessian, second=second)
        self._fitter.skip()
        return self._known(primary, hessian), None if momentum is None else self._known(momentum, hessian)

    def _known(self, function: int, hessian: Array | None) -> Fit:
        model, number = self._earlier.function(function)
        return self._problem.fit_of(model, number, self._values(model)[number], hessian)
