"""Export a model to ONNX and compare its predictions in onnxruntime.

python examples/deploy_onnx.py        (needs pip install '.[onnx]' onnxruntime)
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split

from agbm import AGBMClassifier
from agbm.export import to_onnx


def main() -> None:
    """Write the ONNX file and predict with onnxruntime."""
    X, y = load_wine(return_X_y=True)
    X_train, X_test, y_train, _ = train_test_split(X.astype(np.float32), y, random_state=0)
    model = AGBMClassifier(max_iter=50).fit(X_train, y_train)

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wine.onnx"
        path.write_bytes(to_onnx(model).SerializeToString())
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        print(f"{model.n_trees_} trees in {path.stat().st_size:,} bytes")
    label, probabilities = session.run(["label", "probabilities"], {"X": X_test})
    differing = int(np.sum(label != model.predict(X_test)))
    difference = np.abs(probabilities - model.predict_proba(X_test)).max()
    print(f"{differing} of {len(X_test)} labels differ, probabilities by at most {difference:.1e} (single precision)")


if __name__ == "__main__":
    main()
