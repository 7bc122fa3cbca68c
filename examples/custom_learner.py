"""Use a scikit-learn regressor as the weak learner: smooth functions instead of trees, with and without acceleration.

python examples/custom_learner.py
"""

from __future__ import annotations

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from agbm import AGBMRegressor
from agbm.methods import GBM, VAGBM


def main() -> None:
    """Fit a smooth surface with 30 weak learners of each kind."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3.0, 3.0, size=(1500, 2))
    surface = np.sin(X[:, 0]) * np.cos(X[:, 1])
    y = surface + rng.normal(0.0, 0.1, size=len(X))
    train, test = slice(0, 1000), slice(1000, None)

    smooth = make_pipeline(Nystroem(gamma=0.1, n_components=30), Ridge(alpha=1.0))
    for name, learner in (("trees", None), ("smooth functions", smooth)):
        for method in (GBM(learner=learner), VAGBM(momentum=0.2, learner=learner)):
            model = AGBMRegressor(method=method, max_iter=30, l2_regularization=1.0)
            model.fit(X[train], y[train])
            error = np.sqrt(np.mean((model.predict(X[test]) - surface[test]) ** 2))
            print(
                f"{name:17} {type(method).__name__:6} {model.n_trees_} learners, RMSE to the true surface {error:.3f}"
            )


if __name__ == "__main__":
    main()
