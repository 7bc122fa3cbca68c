"""Tables with numbers, text and categories, as stored model files were trained on, and labels."""

import numpy as np
import pandas as pd


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "text": rng.choice(["a", "b", "c d", "é"], n),
            "category": pd.Categorical(rng.choice([3, 1, 7], n)),
            "other": rng.normal(size=n),
        }
    )


def labels(X):
    return X["other"] + (X["text"] == "b") + 0.3 * (X["category"] == 7) + X["number"].fillna(0.5)
