"""Classify rare events: metrics on test rows, and the threshold that minimises the costs of errors.

python examples/classification.py        (needs pip install '.[plot]')

Writes threshold_costs.png, the mean cost per row against the threshold.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score, log_loss, roc_auc_score
from sklearn.model_selection import train_test_split

from agbm import AGBMClassifier, plot

# A missed event costs as much as twenty false alarms.
FALSE_ALARM, MISSED = 1.0, 20.0


def main() -> None:
    """Fit without class weights, so that probabilities stay calibrated, and move the threshold instead."""
    X, y = make_classification(6000, n_informative=6, weights=[0.95], class_sep=0.8, random_state=0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    # Training stops early on the first metric; the second is recorded in model.history_.
    model = AGBMClassifier(scoring=["neg_log_loss", "roc_auc"]).fit(X_train, y_train)

    probability = model.predict_proba(X_test)[:, 1]
    print(f"{y_test.mean():.1%} of {len(y_test)} test rows are events")
    print(f"log loss {log_loss(y_test, probability):.3f}", end=", ")
    print(f"ROC AUC {roc_auc_score(y_test, probability):.3f}", end=", ")
    print(f"average precision {average_precision_score(y_test, probability):.3f}")

    # For calibrated probabilities, an alarm is worth its cost from this probability on.
    best = FALSE_ALARM / (FALSE_ALARM + MISSED)
    for threshold in (0.5, best):
        alarm, event = probability >= threshold, y_test == 1
        cost = np.mean(np.where(event, MISSED * ~alarm, FALSE_ALARM * alarm))
        print(f"threshold {threshold:.3f}: cost per row {cost:.3f},", end=" ")
        print(f"{np.sum(alarm & ~event)} false alarms, {np.sum(event & ~alarm)} of {np.sum(event)} events missed")

    axes = plot.threshold_costs(model, X_test, y_test, false_positive=FALSE_ALARM, false_negative=MISSED)
    axes.figure.savefig("threshold_costs.png")


if __name__ == "__main__":
    main()
