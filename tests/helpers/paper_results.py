"""Small data sets and artificial results for the tests of the paper's experiments."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

from agbm._apps.paper.data_sets import DataSet
from agbm._apps.paper.experiments.protocol import METHODS, Conventions, Outcome
from agbm._apps.paper.experiments.table import Run
from agbm._apps.paper.printed import TREES

QUICK = Conventions(draws=1)


def classes():
    """Two classes, under a name that the paper's table has."""
    X, y = load_breast_cancer(return_X_y=True)
    return DataSet("sonar", X[:200, :10], np.where(y[:200] == 1, 1, -1), True)


def numbers():
    """Numbers, under the name of the paper's only regression."""
    X, y = load_diabetes(return_X_y=True)
    return DataSet("housing", X[:150], y[:150] / 10.0, False)


def outcomes_of(loss, methods=tuple(METHODS), data="sonar"):
    """Artificial outcomes, from loss(run, trees) -> training loss, test loss."""

    def of(run):
        return [
            Outcome(trees, *loss(run, trees), iterations=trees // 2, n_trees=trees, diverged=False) for trees in TREES
        ]

    return {run: of(run) for run in (Run(data, k, method) for k in range(5) for method in methods)}
