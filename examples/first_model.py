"""A first model: classification, early stopping on rows that fit holds out, and the history of the run.

python examples/first_model.py
"""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from agbm import AGBMClassifier


def main() -> None:
    """Fit, and look at what came out."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = AGBMClassifier(early_stopping=True).fit(X_train, y_train)

    losses = model.history_["validation_loss"]  # of every iteration; 0 is the constant that training starts from
    for iteration in (0, 1, 10, model.best_iteration_, model.n_iter_):
        print(f"iteration {iteration:3d}: validation loss {losses[iteration]:.4f}")
    print(f"ran {model.n_iter_} iterations, kept the best, {model.best_iteration_}, with {model.n_trees_} trees")
    print(f"accuracy on test rows: {model.score(X_test, y_test):.3f}")


if __name__ == "__main__":
    main()
