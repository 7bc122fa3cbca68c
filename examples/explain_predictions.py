"""Contributions of features to predictions: exact Shapley values, which add up to the score.

python examples/explain_predictions.py        (needs pip install '.[plot]' pandas)

Writes contributions.png, a beeswarm plot: a dot per row and feature.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes

from agbm import AGBMRegressor, plot


def main() -> None:
    """Explain one prediction, then rank the features over all rows."""
    data = load_diabetes(as_frame=True)
    model = AGBMRegressor(early_stopping=True).fit(data.data, data.target)
    contributions = model.predict_contributions(data.data)  # (row, feature + 1); the last column is the mean
    predictions = model.predict(data.data)

    row = int(predictions.argmax())
    of_row, mean = contributions[row, :-1], contributions[row, -1]
    print(f"patient {row}: {predictions[row]:.1f} predicted, {mean:.1f} on average; contributions to the difference:")
    largest = np.argsort(-np.abs(of_row))[:4]
    for feature in largest:
        print(f"  {of_row[feature]:+7.1f}  {data.feature_names[feature]} = {data.data.iloc[row, feature]:.3f}")
    print(f"  {of_row.sum() - of_row[largest].sum():+7.1f}  all others")
    print(f"sums differ from predictions by at most {np.abs(contributions.sum(axis=1) - predictions).max():.1e}")

    importance = np.abs(contributions[:, :-1]).mean(axis=0)
    ranked = [f"{data.feature_names[f]} {importance[f]:.1f}" for f in np.argsort(-importance)[:4]]
    print("mean absolute contribution:", ", ".join(ranked))
    plot.contributions(model, data.data, top=8).figure.savefig("contributions.png")


if __name__ == "__main__":
    main()
