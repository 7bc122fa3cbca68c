"""Going on from an earlier run.

The algorithms keep no state that the learners and the data do not determine. So an earlier run is continued by running
the algorithm once more from the start, with learners that are already there in place of fits, and new fits behind them:
the result is, bit for bit, that of a single run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .ensemble import Ensemble
from .learners import Fit, Fitter, Model, Newton
from .losses import Array
from .objective import Problem


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

    def fit(self, target: Array, newton: Newton | None) -> Fit:
        """See Fitter."""
        pair = next(self._pairs, None)
        if pair is None:
            return self._fitter.fit(target, newton)
        self._fitter.skip()
        return self._known(pair[0], newton)

    def fit_pair(self, r: Array, c: Array, newton: Newton | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """See Fitter."""
        primary, momentum = next(self._pairs, (None, None))
        if primary is None or (second and momentum is None):
            return self._fitter.fit_pair(r, c, newton, second=second)
        self._fitter.skip()
        return self._known(primary, newton), None if momentum is None else self._known(momentum, newton)

    def _known(self, function: int, newton: Newton | None) -> Fit:
        model, number = self._earlier.function(function)
        return self._problem.fit_of(model, number, self._values(model)[number], newton)
