"""A first model: classification with early stopping on validation rows, and the training history.

python examples/first_model.py
"""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from agbm import AGBMClassifier


def main() -> None:
    """Fit a model, and print its validation losses and its test accuracy."""
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = AGBMClassifier(early_stopping=True).fit(X_train, y_train)

    losses = model.history_["validation_loss"]  # per iteration; 0 is the initial constant
    for iteration in (0, 1, 10, model.best_iteration_, model.n_iter_):
        print(f"iteration {iteration:3d}: validation loss {losses[iteration]:.4f}")
    print(f"ran {model.n_iter_} iterations, kept iteration {model.best_iteration_} with {model.n_trees_} trees")
    print(f"test accuracy: {model.score(X_test, y_test):.3f}")


if __name__ == "__main__":
    main()
