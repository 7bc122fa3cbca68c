"""Going on from an earlier run.

The algorithms keep no state that the learners and the data do not determine. So an earlier run is continued by running
the algorithm once more from the start, with learners that are already there in place of fits, and new fits behind them:
the result is, bit for bit, that of a single run.
"""

from __future__ import annotations

from collections.abc import Iterator

from .ensemble import Ensemble
from .learners import Fit, Fitter, fit_of
from .losses import Array


class ReplayingFitter:
    """Gives the learners of an earlier run in their order, then those of the fitter.

    The last iteration is fitted anew: its momentum learner may never have been grown.
    """

    def __init__(self, earlier: Ensemble, fitter: Fitter, X: Array, n_train: int, n_threads: int) -> None:
        self._earlier = earlier
        self._fitter = fitter
        self._X = X
        self._n_train = n_train
        self._n_threads = n_threads
        self._pairs: Iterator[tuple[int, int | None]] = iter(earlier.pairs()[:-1])

    def fit(self, target: Array, hessian: Array | None) -> Fit:
        """See Fitter."""
        pair = next(self._pairs, None)
        return self._fitter.fit(target, hessian) if pair is None else self._known(pair[0], hessian)

    def fit_pair(self, r: Array, c: Array, hessian: Array | None, *, second: bool) -> tuple[Fit, Fit | None]:
        """See Fitter."""
        pair = next(self._pairs, None)
        if pair is None:
            return self._fitter.fit_pair(r, c, hessian, second=second)
        primary, momentum = pair
        return self._known(primary, hessian), None if momentum is None else self._known(momentum, hessian)

    def _known(self, function: int, hessian: Array | None) -> Fit:
        model, output = self._earlier.function(function)
        values = model.predict(self._X, self._n_threads)[:, output]
        return fit_of(model, output, values, self._n_train, hessian)
