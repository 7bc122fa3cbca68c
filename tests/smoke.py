"""Whether an installed wheel works with nothing but its own dependencies: fits, predicts, saves, has its command.

Needs no pytest; `make wheel` and the workflow that builds wheels run it in environments with only the wheel in them.
"""

import importlib.util
import shutil
import subprocess
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

import agbm


def main():
    checkout = Path(__file__).resolve().parent.parent
    assert not Path(agbm.__file__).resolve().is_relative_to(checkout / "src"), f"not the wheel: {agbm.__file__}"
    optional = ["dask", "matplotlib", "narwhals", "onnx", "optuna", "pandas", "pyarrow", "rich", "shap", "treelite"]
    absent = [name for name in optional if importlib.util.find_spec(name) is None]

    X, y = load_breast_cancer(return_X_y=True)
    classifier = agbm.AGBMClassifier(max_iter=50).fit(X[::2], y[::2])
    accuracy = classifier.score(X[1::2], y[1::2])
    assert accuracy > 0.9, accuracy

    X, y = load_diabetes(return_X_y=True)
    regressor = agbm.AGBMRegressor(early_stopping=True).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        regressor.save(Path(folder) / "m.agbm")
        loaded = agbm.load(Path(folder) / "m.agbm")
        assert np.array_equal(loaded.predict(X), regressor.predict(X))
        del loaded  # the file is mapped, and Windows keeps such files
    contributions = regressor.predict_contributions(X).sum(axis=1)
    assert np.allclose(contributions, regressor.predict(X), rtol=0.0, atol=1e-9)
    assert np.array_equal(regressor.predict(X), agbm.AGBMRegressor(early_stopping=True, n_jobs=1).fit(X, y).predict(X))

    command = shutil.which("agbm", path=sysconfig.get_path("scripts"))
    assert command is not None, "no command agbm"
    assert "usage: agbm" in subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    print(f"{agbm.__file__} works; accuracy {accuracy:.3f}; not here: {', '.join(absent)}")


if __name__ == "__main__":
    main()
