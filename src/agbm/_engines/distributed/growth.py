"""Trees grown on rows in shards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..._base import _native
from ..._base.sums import Array
from ..._base.weights import MOST_REPEATS_IN_ALL
from ..._core.learners import DivergedError, Fit, Model, Newton
from ..._core.ring import RingPart
from ..._tree import Forest, TreeLearner
from ..._tree.bins import Bins
from ..._tree.leaf_quantiles import quantiles_of_leaves
from ..._tree.learner import TreesOfIterations, as_forest
from ..._tree.sampling import Sample
from .log import Log, RemoteFunction


class ClusterFitter(TreesOfIterations[RemoteFunction]):
    """Trees bound to rows in shards."""

    def __init__(self, learner: TreeLearner, bins: Bins, log: Log, n_train: int) -> None:
        super().__init__(learner, bins, RingPart(n_train))
        self._log = log
        self._growers = learner.growers(_native.RemoteGrower, bins, bins.matrix(0))

    def values(self, model: Model) -> Sequence[RemoteFunction]:
        """The values of a model, whose trees must have been grown with the same bins."""
        forest = as_forest(model)
        return self._log.create("forest", [], forest, self._bins.left_codes(forest), n=forest.n_functions)

    def _grow(
        self, residuals: Sequence[RemoteFunction], newton: Newton[RemoteFunction] | None, outputs: range, sample: Sample
    ) -> tuple[Forest, RemoteFunction]:
        log = self._log
        hessian = [] if newton is None else [newton.hessian]
        distance = [] if newton is None or newton.distance is None else [newton.distance]
        shares = [] if newton is None else [newton.shares[k] for k in outputs if newton.shares]
        reply = log.ask(
            "set_residuals", [*residuals, *hessian, *distance], len(residuals), outputs, newton.shares if newton else ()
        )
        assert reply.largest is not None
        if not np.isfinite(reply.largest).all():
            raise DivergedError("a residual is not finite")
        (n_repeated,), largest = reply.sums, reply.largest.tolist()
        _check_sums(n_repeated)
        log.tell("start_tree", n_repeated, largest, sample.rows)
        with self._growers.of(outputs) as grower:
            parts = grower.grow(
                sums=_TreeSums(log, shares),
                n_repeated=n_repeated,
                max=largest,
                n_residuals=len(outputs) * len(residuals),
                n_quantiles=len(outputs) if distance else 0,
                **self._growth(newton, outputs, sample),
            )
        tree = self._forest(*parts, len(outputs), len(residuals))
        return tree, log.create("tree", [], *parts)[0]

    def _fits(
        self,
        model: Forest,
        values: Sequence[RemoteFunction],
        newton: Newton[RemoteFunction] | None,
        n_functions: int,
    ) -> list[Fit[RemoteFunction]]:
        inputs = [*values] if newton is None else [*values, newton.hessian]
        functions = iter(self._log.create("fits", inputs, len(values), n_functions, n=2 * n_functions))
        return [Fit(model, j, next(functions), next(functions)) for j in range(n_functions)]


def _check_sums(n_repeated: int) -> None:
    """Sums over all rows have 62 bits; with more rows, too few of these would remain for the number of a row."""
    if n_repeated > MOST_REPEATS_IN_ALL:
        raise ValueError(
            f"The workers have {n_repeated:,} training rows, counting repetitions by integer weights; at most "
            f"{MOST_REPEATS_IN_ALL:,} (2^38) are possible. Fit to a sample of the rows, or pass weights as floats."
        )


@dataclass(frozen=True)
class _TreeSums:
    """Sums over the rows of all shards for RemoteGrower."""

    log: Log
    shares: Sequence[float]
    """For each output, the share of the rows at or below the quantiles of leaves."""

    def histograms(self, splits: NDArray[np.int64], nodes: NDArray[np.int32]) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self.log.ask("histograms", [], splits, nodes).sums[0]
        return sums

    def summed_by(self, sums: NDArray[np.int32], n_residuals: int) -> None:
        self.log.tell("summed_by", sums, n_residuals)

    def noise(self) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self.log.ask("noise", []).sums[0]
        return sums

    def leaf_sums(self, splits: NDArray[np.int64], leaves: NDArray[np.int32]) -> NDArray[np.int64]:
        sums: NDArray[np.int64] = self.log.ask("leaf_sums", [], splits, leaves).sums[0]
        return sums

    def leaf_quantiles(self, leaves: NDArray[np.int32]) -> Array:
        """The quantiles (leaf, output), flat."""
        return np.stack([self._quantiles(leaves, output) for output in range(len(self.shares))], axis=1).ravel()

    def _quantiles(self, leaves: NDArray[np.int32], output: int) -> Array:
        def tally(known: NDArray[np.uint64], shift: int, width: int) -> NDArray[np.int64]:
            sums: NDArray[np.int64] = self.log.ask("tally_leaves", [], leaves, output, known, shift, width).sums[0]
            return sums

        return quantiles_of_leaves(len(leaves), self.shares[output], tally)
