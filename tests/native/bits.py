"""Whether the package in a folder, built by another compiler, fits the same bits as the installed one.

`python bits.py folder`; `python bits.py here` prints digests of the installed one, to compare machines by. The variable
AGBM_BITS_ROWS sets the number of rows, for emulated machines.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

METHODS = ("fading", "gbm", "vagbm", "agbm", "agbmr")


def digests():
    """Of predictions, losses and contributions of all methods and losses, a line each."""
    import numpy as np

    from agbm import AGBMClassifier, AGBMRegressor
    from agbm.losses import Huber, Quantile, Tweedie

    # Uniform numbers and sums only: exp, log and normal numbers have other last bits on other machines.
    rng = np.random.default_rng(0)
    X = 4.0 * rng.random((int(os.environ.get("AGBM_BITS_ROWS", 20_000)), 12)) - 2.0
    score = X[:, 0] + X[:, 1] * X[:, 2] + rng.random(len(X))
    X[rng.random(X.shape) < 0.05] = np.nan
    regressors = [(method, AGBMRegressor(method=method, max_iter=30)) for method in METHODS]
    for loss in ("absolute_error", "poisson", "gamma", Quantile(0.9), Huber(1.0), Tweedie(1.5)):
        regressors.append((str(loss), AGBMRegressor(loss=loss, max_iter=20)))
    positive = 0.1 + np.clip(score + 3.0, 0.0, 6.0) ** 2
    models = [(name, model.fit(X, positive)) for name, model in regressors]
    for loss, cuts in (("log_loss", [0.0]), ("exponential", [0.0]), ("log_loss", [-1.0, 0.0, 0.5, 1.5])):
        for strategy in ("one_output_per_tree", "multi_output_tree"):
            model = AGBMClassifier(loss=loss, multi_strategy=strategy, max_iter=20, subsample=0.7, colsample_bytree=0.5)
            models.append((f"{loss} {len(cuts) + 1} {strategy}", model.fit(X, np.digitize(score, cuts))))
    for name, model in models:
        raw = model.predict(X) if isinstance(model, AGBMRegressor) else model.decision_function(X)
        parts = raw, model.history_["train_loss"], model.predict_contributions(X[:200])
        print(name, hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest())


def run(*arguments):
    """What a process of its own prints."""
    return subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    if sys.argv[1] == "here":
        if len(sys.argv) > 2:
            # An editable install has a finder of its own, which would come first.
            sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
            sys.path.insert(0, sys.argv[2])
            import agbm

            assert Path(agbm.__file__).is_relative_to(sys.argv[2]), agbm.__file__
        digests()
    else:
        expected, found = run("here"), run("here", str(Path(sys.argv[1]).resolve()))
        different = sorted(set(expected.splitlines()) ^ set(found.splitlines()))
        sys.exit("\n".join(["other bits:", *different]) if different else None)
